"""Whether what infiniband_exporter calls bytes are bytes, or the words of four octets that the hardware counts.

The project that names its metrics `…_data_bytes_total` printed words until its version 0.10, and bytes since then; the
other one prints words. What a file shows of packets, of the help texts and of the version decides; where it decides
nothing, the names are believed, and said to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

__all__ = ["DOUBTFUL", "WordEvidence"]

DOUBTFUL = ("unit-unverified",)
_FEWEST = 1000
"""Packets from which on their mean size means something."""
_MOST_WORDS = 1060.0
"""No packet is longer: 4096 bytes of payload and at most 140 of headers. A larger mean is one of bytes."""
_FEWEST_BYTES = 22.0
"""Every packet has 24 octets of headers at least. A smaller mean is one of words."""
_FIXED = (0, 10)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_DATA = re.compile(r"infiniband_(?:(?:switch|hca)_port_(transmit|receive)_data_bytes|port(xmit|rcv)data)(?:_total)?")
_PACKETS = re.compile(r"infiniband_(?:(?:switch|hca)_port_(transmit|receive)_packets|port(xmit|rcv)pkts)(?:_total)?")
_WAY = {"transmit": "tx", "xmit": "tx", "receive": "rx", "rcv": "rx"}


class WordEvidence:
    """Collects what one file shows."""

    def __init__(self) -> None:
        self._data: dict[tuple[str, ...], float] = {}
        self._packets: dict[tuple[str, ...], float] = {}
        self._told: Literal["words", "bytes"] | None = None

    @staticmethod
    def concerns(name: str) -> bool:
        """Whether a metric tells anything."""
        return _DATA.fullmatch(name) is not None or _PACKETS.fullmatch(name) is not None or name == "infiniband_exporter_build_info"

    def help(self, name: str, text: str) -> None:
        """A help text."""
        if _DATA.fullmatch(name) is not None:
            plain = text.lower()
            if "scaled to bytes" in plain or "multiplied by 4" in plain:
                self._told = "bytes"
            elif "divided by 4" in plain:
                self._told = "words"

    def see(self, name: str, labels: Mapping[str, str], number: float | None) -> None:
        """The last number of a series."""
        if name == "infiniband_exporter_build_info":
            m = _VERSION.match(labels.get("version", ""))
            if m is not None:
                self._told = "words" if (int(m[1]), int(m[2])) < _FIXED else "bytes"
            return
        for pattern, into in ((_DATA, self._data), (_PACKETS, self._packets)):
            m = pattern.fullmatch(name)
            if m is not None and number is not None:
                key = tuple(labels.get(k, "") for k in ("guid", "port", "local_guid", "local_port"))
                into[(*key, _WAY[m[1] or m[2]])] = number

    def verdict(self) -> Literal["words", "bytes"] | None:
        """What data counters count; None where nothing shows it."""
        sizes = [data / self._packets[key] for key, data in self._data.items() if self._packets.get(key, 0.0) >= _FEWEST]
        if any(s > _MOST_WORDS for s in sizes):
            return "bytes"
        if any(0 < s < _FEWEST_BYTES for s in sizes):
            return "words"
        return self._told
