"""What the headings of a table's columns count, and what units they state."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from tracelab.tables import CANONICAL, CounterKind
from tracelab_parsers.counters.dcgm_names import dcgm_meaning, is_dcgm
from tracelab_parsers.counters.meanings import Direction, Meaning
from tracelab_parsers.counters.names_ethernet import ethtool_meaning, netdev_meaning
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.prometheus_names import known_metric
from tracelab_parsers.counters.telegraf_meanings import field_meaning
from tracelab_parsers.counters.writing import DeviceKind

__all__ = ["Heading", "heading_of", "words_of"]

_MEBI = float(1 << 20)
_UNIT = re.compile(r"(?P<name>.*?)\s*[\[(](?P<unit>[^\[\]()]{1,16})[\])]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_WAYS: dict[str, Direction] = {
    **dict.fromkeys(("rx", "in", "input", "ingress", "rcv", "recv", "receive", "received"), "rx"),
    **dict.fromkeys(("tx", "out", "output", "egress", "xmit", "transmit", "transmitted", "sent", "send"), "tx"),
}
_OF_INTERVAL = frozenset({"delta", "diff", "increase", "increment"})
_PLAIN = {
    **dict.fromkeys(("bytes", "octets", "byte_count"), "bytes"),
    **dict.fromkeys(("packets", "pkts", "frames", "pkt"), "packets"),
    **dict.fromkeys(("errors", "errs", "error", "err", "error_packets"), "errors"),
    **dict.fromkeys(("discards", "discard", "drops", "drop", "dropped", "dropped_packets", "dropped_pkts", "discard_pkts", "discarded_packets"), "discards"),
    **dict.fromkeys(("crc", "crc_errors", "crc_error", "fcs", "fcs_errors"), "crc_errors"),
    **dict.fromkeys(("symbol_errors", "symbol_error"), "symbol_errors"),
    **dict.fromkeys(("pause", "pause_frames", "pause_pkts", "pause_packets", "pfc_frames"), "global_pause_frames"),
    **dict.fromkeys(("ecn", "ecn_marked", "ecn_packets", "ecn_marked_packets", "ecn_marked_pkts"), "ecn_marked_packets"),
    **dict.fromkeys(("util", "utilization", "utilisation", "utilization_percent", "util_percent", "util_pct", "utilization_pct"), "utilisation"),
    **dict.fromkeys(("bps", "bits_per_sec", "bits_per_second", "bit_rate", "bitrate", "bits_per_s"), "bits_per_s"),
    **dict.fromkeys(("bytes_per_sec", "bytes_per_second", "byte_rate", "bytes_rate", "bytes_per_s", "octets_per_sec"), "bytes_per_s"),
    **dict.fromkeys(("pps", "packets_per_sec", "packets_per_second", "packet_rate", "packets_rate", "pkts_per_sec", "packets_per_s"), "packets_per_s"),
}
_RATIO = frozenset({"ratio", "usage", "pct", "percent", "load"})
_THROUGHPUT = frozenset({"", "bytes", "traffic", "throughput", "bandwidth", "rate", "data", "speed", "bits"})
_PFC = re.compile(r"(?:pfc|prio|priority|pri)_?([0-7])(?:_(?:pause|frames|pkts|packets|pause_frames|pause_packets))?")
_SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_SIZE = re.compile(r"(?P<size>[kKmMgGtT]i?)?(?P<what>[bB]|[bB]its?|[bB]ytes?|[oO]ctets?|pkts?|packets?)(?P<rate>/s|ps|/sec|/second|_?per_?s(?:ec(?:ond)?)?)?")
_LETTERS = re.compile(r"(?P<way>\w+?)[_ .-](?P<unit>[kKmMgGtT]?i?[bB]ps|[kKmMgG]?pps)")
_NVIDIA_SMI = {
    "temperature.gpu": Meaning("gpu_temperature", width=0),
    "temperature.memory": Meaning("memory_temperature", width=0),
    "utilization.gpu": Meaning("gpu_utilisation", width=0),
    "power.draw": Meaning("power", width=0),
    "power.draw.instant": Meaning("vendor.power.draw.instant", width=0, kind="gauge", unit="watt"),
    "power.draw.average": Meaning("vendor.power.draw.average", width=0, kind="gauge", unit="watt"),
    **dict.fromkeys(("clocks.sm", "clocks.current.sm"), Meaning("sm_clock", scale=1e6, width=0)),
    **dict.fromkeys(("clocks.mem", "clocks.current.memory"), Meaning("memory_clock", scale=1e6, width=0)),
    **dict.fromkeys(("clocks_throttle_reasons.active", "clocks_event_reasons.active"), Meaning("throttle_reasons", width=0)),
}
_NVIDIA_ECC = re.compile(r"ecc\.errors\.(?:un)?corrected\.(?:volatile|aggregate)\.total")
_NVIDIA_MEMORY = re.compile(r"memory\.(?:used|free|total|reserved)")
_MIB = re.compile(r"if(?:HC)?(?:In|Out)[A-Z]\w+|ifHighSpeed|ifOperStatus")


class Heading(NamedTuple):
    """What a heading counts. `proof`: no other table than one of counters has it. `percent`: its numbers are percent if they exceed 1. `unit`: as printed."""

    meaning: Meaning
    proof: bool
    unit: str | None = None
    percent: bool = False
    codes: bool = False


def words_of(heading: str) -> tuple[str, ...]:
    """The words of a heading in lower case, whether it parts them by case, dots or underscores."""
    return tuple(w.lower() for w in _SEPARATORS.sub("_", _CAMEL.sub("_", heading.strip())).split("_") if w)


@lru_cache(maxsize=65_536)
def heading_of(heading: str, kind: DeviceKind = "other") -> Heading | None:
    """What a column counts; None where its name says nothing. `kind` of the device decides between what the kernel and what the port counts."""
    text = heading.strip()
    if not text or len(text) > 200:
        return None
    m = _UNIT.fullmatch(text)
    name, unit = (m["name"].strip(), m["unit"].strip()) if m is not None else (text, None)
    known = _by_table(name) or _by_canonical(name) or _by_driver(name)
    if known is not None:
        return Heading(known, proof=True, unit=unit, codes=name == "ifOperStatus")
    return _by_words(name, unit, kind)


def _by_table(name: str) -> Meaning | None:
    """Names of one tool alone."""
    if name in _NVIDIA_SMI:
        return _NVIDIA_SMI[name]
    if _NVIDIA_ECC.fullmatch(name):
        return Meaning("ecc_errors")
    if _NVIDIA_MEMORY.fullmatch(name):
        return Meaning(f"vendor.{name}", scale=_MEBI, width=0, kind="gauge", unit="byte")
    if is_dcgm(name):
        return dcgm_meaning(name)
    if _MIB.fullmatch(name):
        return field_meaning("snmp", name)
    metric = known_metric(name, {})
    return metric.meaning if metric is not None else None


def _by_canonical(name: str) -> Meaning | None:
    """Canonical names, with their direction behind a colon."""
    counter, colon, way = name.partition(":")
    direction: Direction | None = "tx" if way == "tx" else "rx" if way == "rx" else None
    if colon and direction is not None and counter in CANONICAL:
        return Meaning(counter, direction)
    known = CANONICAL.get(name)
    return Meaning(name) if known is not None and "_" in name and not name.endswith("_per_s") else None


def _by_driver(name: str) -> Meaning | None:
    """Names of the kernel and its drivers; those that every tool uses are left to their words."""
    words = words_of(name)
    if words and words[0] in _WAYS and "_".join(words[1:]) in _PLAIN:
        return None
    for found in (infiniband_meaning(name), ethtool_meaning(name)):
        if found.counter not in (f"vendor.{name}", f"vendor.netdev_{name}"):
            return found
    return None


def _by_words(name: str, unit: str | None, kind: DeviceKind) -> Heading | None:
    letters = _LETTERS.fullmatch(name)
    if letters is not None and unit is None and letters["way"].lower() in _WAYS:
        name, unit = letters["way"], letters["unit"]
    words = list(words_of(name))
    interval = any(w in _OF_INTERVAL for w in words)
    words = [w for w in words if w not in _OF_INTERVAL]
    ways = [i for i in (0, len(words) - 1) if words and words[i] in _WAYS]
    if not ways:
        return None
    direction = _WAYS[words.pop(ways[0])]
    rest = "_".join(words)
    size = _sized(unit)
    if size is not None and size[1] and rest in _THROUGHPUT:
        return Heading(Meaning(size[0], direction, size[2], 0), proof=True, unit=unit)
    pfc = _PFC.fullmatch(rest)
    if pfc is not None:
        return Heading(_of_kind(Meaning("pfc_pause_frames", direction, priority=int(pfc[1])), interval), proof=True)
    if rest in _RATIO or unit == "%":
        vendor = Meaning(f"vendor.{name}", direction, width=0, kind="gauge")
        return Heading(vendor, proof=unit == "%" and rest in _RATIO | _PLAIN.keys(), unit=unit, percent=True)
    counter = _PLAIN.get(rest)
    if counter is None:
        return None
    return _plain(Meaning(counter, direction, width=64 if CANONICAL[counter].kind == "counter" else 0), interval, unit, kind)


def _plain(meaning: Meaning, interval: bool, unit: str | None, kind: DeviceKind) -> Heading:
    """A counter by the common words for it. The kernel's counts of a network device miss what RDMA moves."""
    size = _sized(unit)
    if meaning.counter == "bytes" and size is not None and not size[1] and size[0] == "bytes_per_s":
        meaning = replace(meaning, scale=size[2])
    elif meaning.counter == "bytes" and size is not None and not size[1] and size[0] == "bits_per_s":
        meaning = replace(meaning, scale=size[2] / 8)
    if kind == "netdev" and meaning.counter in ("bytes", "packets", "discards") and meaning.direction is not None:
        of_kernel = netdev_meaning(meaning.direction, "dropped" if meaning.counter == "discards" else meaning.counter)
        meaning = replace(of_kernel, scale=meaning.scale)
    return Heading(_of_kind(meaning, interval), proof=True, unit=unit)


def _of_kind(meaning: Meaning, interval: bool) -> Meaning:
    told: CounterKind = "delta"
    return replace(meaning, kind=told, width=0) if interval and meaning.stated_kind == "counter" else meaning


def _sized(unit: str | None) -> tuple[str, bool, float] | None:
    """The counter of rates that a unit belongs to, whether it is a rate, and its size: Gb/s, MB, KiB, kpps. A small b is a bit, a capital one a byte."""
    text = (unit or "").replace(" ", "")
    packets = re.fullmatch(r"([kKmMgG]?)pps", text)
    if packets is not None:
        return "packets_per_s", True, _SIZES[packets[1].lower()]
    m = _SIZE.fullmatch(text)
    if m is None:
        return None
    what = m["what"]
    if what.lower().startswith(("pkt", "packet")):
        counter = "packets_per_s"
    else:
        counter = "bits_per_s" if what == "b" or what.lower().startswith("bit") else "bytes_per_s"
    return counter, m["rate"] is not None, _SIZES[(m["size"] or "").lower()]
