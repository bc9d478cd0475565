"""Counters of InfiniBand's performance management, by the set that prints them: the narrow one, the extended one, details of errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from tracelab_parsers.counters.meanings import Meaning, meaning_of_unknown
from tracelab_parsers.counters.names_infiniband import infiniband_meaning

__all__ = ["AGGREGATE_PORT", "apart", "detail_meaning", "error_rate_meaning", "is_full", "port_meaning"]

AGGREGATE_PORT = 255
"""Stands for all ports of a device together."""
_WIDE = ("bytes", "packets", "xmit_wait_ticks", "vendor.unicast_packets", "vendor.multicast_packets")
_DETAILS = {
    **dict.fromkeys(
        (
            "PortLocalPhysicalErrors",
            "PortMalformedPktErrors",
            "PortBufferOverrunErrors",
            "PortDLIDMappingErrors",
            "PortVLMappingErrors",
            "PortLoopingErrors",
        ),
        "rx",
    ),
    **dict.fromkeys(("PortInactiveDiscards", "PortNeighborMTUDiscards", "PortSwLifetimeLimitDiscards", "PortSwHOQLifetimeLimitDiscards"), "tx"),
}
"""Parts of PortRcvErrors and of PortXmitDiscards, 16 bits each (libibmad, fields.c)."""


@cache
def port_meaning(name: str, *, extended: bool) -> Meaning:
    """The meaning of `name` in the extended set, which has 64 bits throughout, or in the narrow one, whose numbers stay at their highest value."""
    if name in _DETAILS:
        return detail_meaning(name)
    meaning = infiniband_meaning(name)
    if extended:
        return replace(meaning, width=64, saturates=False) if meaning.width else meaning
    return replace(meaning, width=32, saturates=True) if meaning.counter in _WIDE else meaning


@cache
def detail_meaning(name: str) -> Meaning:
    """The meaning of a part of another counter, which counts nothing of its own and must not meet it."""
    if name not in _DETAILS:
        return meaning_of_unknown(name)
    return Meaning(f"vendor.{name}", "rx" if _DETAILS[name] == "rx" else "tx", width=16, saturates=True, unit="packet")


def error_rate_meaning(name: str, *, corrected: bool) -> Meaning:
    """The meaning of a bit error rate: as received, or what error correction leaves of it."""
    return Meaning(f"vendor.{name}" if corrected else "bit_error_rate", width=0, kind="gauge", unit="ratio")


def is_full(meaning: Meaning, number: float | None) -> bool:
    """Whether the number stands at the highest value that its counter can show, so that it tells a lower bound alone."""
    return number is not None and meaning.width > 0 and (meaning.saturates or meaning.width == 64) and number == 2**meaning.width - 1


def apart(meanings: Iterable[tuple[str, Meaning]]) -> dict[str, Meaning]:
    """Meanings by name, no two alike: of names that mean the same, the widest keeps the canonical counter, the others their own name."""
    given = list(meanings)
    best: dict[tuple[str, str | None], tuple[bool, int, int]] = {}
    for position, (_, meaning) in enumerate(given):
        rank = (not meaning.saturates, meaning.width, -position)
        key = meaning.counter, meaning.direction
        best[key] = max(best.get(key, rank), rank)
    out: dict[str, Meaning] = {}
    for position, (name, meaning) in enumerate(given):
        keeps = best[meaning.counter, meaning.direction][2] == -position
        out[name] = meaning if keeps else replace(meaning, counter=f"vendor.{name}", unit=meaning.stated_unit, kind=meaning.stated_kind)
    return out
