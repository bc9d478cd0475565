"""What InfiniBand tools call machines, adapters, links and addresses, and what that means."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

__all__ = ["Machine", "Names", "guid_of", "link_speed", "signalling_speed"]

Kind = Literal["host", "switch"]

_GUID = re.compile(r"(?:0x)?([0-9a-f]{1,16})")
_LONGEST = 128
_DEVICE = r"(?:(?:mlx[45]|mthca|hfi|qib|bnxt|irdma|ib|roce|rdma|cxgb|efa)\w*\d\w*|HCA-\d+)"
_ADAPTER = re.compile(rf"(?P<host>\S+)[ :]+(?P<device>{_DEVICE})")
_MANAGED = re.compile(r"MF\d+;(?P<name>[^:;]+):[^/]*(?:/(?P<part>\S+))?")
_OF_FIRMWARE = re.compile(r"\b(?:mellanox|nvidia) technologies\b|^(?:unknown|unnamed|null|n/a)?$", re.IGNORECASE)
"""What firmware calls itself while nobody gives it a name: many machines share it."""
_NO_HOST = frozenset({"localhost", "localhost.localdomain", "(none)", "(null)"})

_GBIT = {"SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.0, "FDR": 14.0, "EDR": 25.0, "HDR": 50.0, "NDR": 100.0, "XDR": 200.0}
"""Gbit/s of one lane, as Linux prints them in `rate`."""
_SIGNALLING = ((212.5, 200.0), (106.25, 100.0), (53.125, 50.0), (25.78125, 25.0), (14.0625, 14.0), (10.3125, 10.0))


class Machine(NamedTuple):
    """What a description names. `node` is the GUID where nothing better does; `named` tells the difference."""

    node: str | None
    device: str | None
    kind: Kind | None
    named: bool


def guid_of(text: object) -> str | None:
    """A GUID in any spelling as 16 lower-case hexadecimal digits; None for none, and for 0."""
    m = _GUID.fullmatch(str(text).strip().strip('"').lower())
    return None if m is None or int(m[1], 16) == 0 else m[1].zfill(16)


def link_speed(lanes: int | None, name: str) -> int | None:
    """Bit/s of a link of `lanes` lanes of SDR, DDR … XDR; None where either is unknown."""
    lane = _GBIT.get(name.upper())
    return None if lane is None or not lanes else round(lane * lanes * 1e9)


def signalling_speed(lanes: int | None, gbit: float) -> int | None:
    """Bit/s of a link whose lanes signal with `gbit` Gbit/s: what the line code and error correction leave."""
    if not lanes or not 0 < gbit < 10_000:
        return None
    return round(next((net for gross, net in _SIGNALLING if abs(gbit - gross) < 1e-3), gbit) * lanes * 1e9)


class Names:
    """The descriptions of a file. `add` all of them first: one that several switches share names none of them."""

    def __init__(self) -> None:
        self._guids: dict[str, set[str]] = {}
        self.descriptions: dict[str, str] = {}

    def add(self, guid: str | None, description: str, kind: Kind | None) -> None:
        """States how the node `guid` is described."""
        if guid is None:
            return
        text = _clean(description)
        self.descriptions.setdefault(guid, text)
        if kind == "switch":
            known = self._guids.setdefault(text, set())
            if len(known) < 2:  # two are enough to know that it is shared
                known.add(guid)

    def machine(self, guid: str | None, description: str | None, kind: Kind | None) -> Machine:
        """The machine and adapter that `description` names; without one, what was stated of the GUID before."""
        text = _clean(description if description is not None else self.descriptions.get(guid or "", ""))
        adapter = _ADAPTER.fullmatch(text) if kind != "switch" else None
        if adapter is not None:
            nameless = adapter["host"].lower() in _NO_HOST
            return Machine(guid if nameless else adapter["host"], adapter["device"], "host", not nameless)
        managed = _MANAGED.fullmatch(text)
        if _OF_FIRMWARE.search(text) is not None or len(self._guids.get(text, ())) > 1:
            return Machine(guid, None, kind, named=False)
        if managed is None:
            return Machine(text, None, kind, named=True)
        # A switch of several chips numbers the ports of each from 1.
        part = managed["part"]
        return Machine(managed["name"] if part in (None, "U1") else f"{managed['name']}/{part}", None, kind or "switch", named=True)


def _clean(description: str) -> str:
    return " ".join(description.strip().strip("'\"").split())[:_LONGEST]
