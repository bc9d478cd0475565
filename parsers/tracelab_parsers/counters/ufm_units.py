"""Whether a counter of data counts bytes or words of four, told by the packets that it counted them in."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

__all__ = ["PacketSizes", "Unit"]

LARGEST_PACKET = 4178
"""Bytes: 4096 of payload and all headers that InfiniBand can put before it (IBA 5.2; 8 + 40 + 12 + 16 + 6)."""
SMALLEST_PACKET = 24
"""Bytes: local route and base transport header, invariant checksum (8 + 12 + 4)."""
MANAGEMENT_PACKET = 288
"""Bytes of every management datagram (256 + 8 + 12 + 8 + 4): all that an idle port counts."""
_FEW_PACKETS = 100
"""Data and packets are not read at one instant: in few packets, one more or less would tell too much."""


class Unit(Enum):
    """What a data counter counts. `UNCLEAR`: packets of one port prove bytes, those of another words, or neither can be."""

    BYTES = 1
    WORDS = 4
    UNKNOWN = 0
    UNCLEAR = -1


@dataclass(slots=True)
class _Proofs:
    of_bytes: int = 0
    of_words: int = 0
    impossible: int = 0


class PacketSizes:
    """Gathers pairs of data and packets by the name of the data counter."""

    def __init__(self) -> None:
        self._proofs: dict[str, _Proofs] = defaultdict(_Proofs)

    def add(self, name: str, data: int, packets: int) -> None:
        """One port's data and packets, both since the same moment."""
        if packets < _FEW_PACKETS or data < 0:
            return
        proofs = self._proofs[name]
        if data > LARGEST_PACKET * packets:
            proofs.impossible += 1
        elif data * 4 > LARGEST_PACKET * packets or data == MANAGEMENT_PACKET * packets:
            proofs.of_bytes += 1
        elif data and (data < SMALLEST_PACKET * packets or data * 4 == MANAGEMENT_PACKET * packets):
            proofs.of_words += 1

    def unit(self, name: str) -> Unit:
        """What the counter counts, as far as packets tell."""
        proofs = self._proofs.get(name, _Proofs())
        if proofs.impossible or (proofs.of_bytes and proofs.of_words):
            return Unit.UNCLEAR
        if proofs.of_bytes:
            return Unit.BYTES
        return Unit.WORDS if proofs.of_words else Unit.UNKNOWN
