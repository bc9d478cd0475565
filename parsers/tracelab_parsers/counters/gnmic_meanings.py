"""What the leaves of gNMI paths count: OpenConfig's models, and those of vendors.

Models: openconfig-interfaces, openconfig-if-ethernet, openconfig-qos, openconfig-platform-transceiver, Nokia's srl_nokia-interfaces,
Cisco's infra-statsd, and SONiC's databases behind gNMI (names of the switch abstraction interface).
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from tracelab.tables import CounterKind
from tracelab_parsers.counters.gnmic_paths import plain_names
from tracelab_parsers.counters.meanings import Direction, Meaning
from tracelab_parsers.counters.sonic_meanings import db_meaning
from tracelab_parsers.counters.values import plain_number, read_number

__all__ = ["Leaf", "leaf_of", "number_of"]

Form = Literal["number", "state", "speed", "text"]
_UP = {"up": 1.0, "1": 1.0, "down": 0.0, "2": 0.0, "lower-layer-down": 0.0, "not-present": 0.0, "7": 0.0, "6": 0.0}
_SPEED = re.compile(r"(?:.*speed[_-])?(\d+(?:\.\d+)?)\s*([kmgt])(?:b(?:it)?(?:ps|/s)?)?", re.IGNORECASE)
_THOUSANDS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_IN = re.compile(r"(?:^|-)(?:in|input|rx|received|receive|ingress)(?:-|$)")
_OUT = re.compile(r"(?:^|-)(?:out|output|tx|sent|transmit|transmitted|egress)(?:-|$)")
_RATE = re.compile(r"(?:^|-)(?:rate|rates|bps|pps|utili[sz]ation|instant|avg|min|max|interval|load|percent|temperature|voltage|power)(?:-|$)")
_PFC_FRAMES = re.compile(r"(?:pkts|packets|frames)(?:-|$)|^(?:in|out|rx|tx)-pause$")
_DIGIT = re.compile(r"(?:pfc|prio|priority|pri|tc|pause)-?([0-7])(?:-|$)|-([0-7])$")
_NO_NUMBERS = frozenset({"ifindex", "index", "last-change", "last-clear", "counter-discontinuity-time", "timestamp", "id", "mtu"})


class Leaf(NamedTuple):
    """What a leaf means, and in what form its values are printed; text is no number at all."""

    meaning: Meaning
    form: Form
    known: bool


def _both(canonical: str, *names: str) -> dict[str, Meaning]:
    """Meanings of names with `{}` where they say in or out."""
    out = {}
    for name in names:
        for direction, word in (("rx", "in"), ("tx", "out")):
            way: Direction = "rx" if direction == "rx" else "tx"
            full = name.replace("{io}", word).replace("{iput}", f"{word}put").replace("{rs}", "received" if way == "rx" else "sent")
            out[full.replace("{rx}", way)] = Meaning(canonical, way)
    return out


_PORT: dict[str, Meaning] = {
    **_both("bytes", "{io}-octets", "{io}-bytes", "bytes-{rs}"),
    **_both("packets", "{io}-pkts", "{io}-packets", "packets-{rs}"),
    **_both("errors", "{io}-errors", "{io}-error-packets", "{iput}-errors"),
    **_both("discards", "{io}-discards", "{io}-discarded-packets", "{iput}-drops", "{io}-discard-pkts"),
    **_both("crc_errors", "{io}-fcs-errors", "{io}-crc-errors", "{io}-fcs-error-packets", "{io}-crc-error-frames"),
    **_both("symbol_errors", "{io}-symbol-error", "{io}-symbol-errors"),
    **_both("global_pause_frames", "{io}-mac-pause-frames", "{io}-pause-frames", "{io}-pause-pkts"),
    **_both("bits_per_s", "{io}-bps", "{io}-bits-rate"),
    **_both("packets_per_s", "{io}-pps"),
    "crc-errors": Meaning("crc_errors", "rx"),
    "carrier-transitions": Meaning("link_transitions"),
    "fec-corrected-blocks": Meaning("fec_corrected", "rx"),
    "fec-corrected-bits": Meaning("fec_corrected", "rx"),
    "fec-uncorrectable-blocks": Meaning("fec_uncorrectable", "rx"),
    "fec-uncorrectable-words": Meaning("fec_uncorrectable", "rx"),
    "ecn-marked-pkts": Meaning("ecn_marked_packets", "tx"),
    "ecn-marked-packets": Meaning("ecn_marked_packets", "tx"),
    "wred-dropped-pkts": Meaning("wred_drop_packets", "tx"),
}
_QUEUE: dict[str, Meaning] = {
    "transmit-pkts": Meaning("queue_packets", "tx"),
    "transmit-octets": Meaning("queue_bytes", "tx"),
    "transmitted-packets": Meaning("queue_packets", "tx"),
    "transmitted-octets": Meaning("queue_bytes", "tx"),
    "forwarded-packets": Meaning("queue_packets", "tx"),
    "forwarded-octets": Meaning("queue_bytes", "tx"),
    "dropped-pkts": Meaning("queue_drop_packets", "tx"),
    "dropped-packets": Meaning("queue_drop_packets", "tx"),
    "max-queue-len": Meaning("queue_watermark_bytes", "tx", width=0),
    "avg-queue-len": Meaning("queue_depth_bytes", "tx", width=0),
    "queue-depth": Meaning("queue_depth_bytes", "tx", width=0),
    "random-dropped-pkts": Meaning("wred_drop_packets", "tx"),
}
_TAILS: dict[tuple[str, str], Meaning] = {
    ("input-power", "instant"): Meaning("rx_power", "rx", width=0),
    ("output-power", "instant"): Meaning("tx_power", "tx", width=0),
    ("pre-fec-ber", "instant"): Meaning("bit_error_rate", "rx", width=0),
}
_LINK_UP = Meaning("link_up", width=0)
_LINK_SPEED = Meaning("link_speed", width=0)


@lru_cache(maxsize=65_536)
def leaf_of(path: str) -> Leaf:
    """What the last element of `path` (without keys) counts."""
    names = plain_names(path)
    if not names or "config" in names or names[-1] in _NO_NUMBERS:
        return Leaf(Meaning(f"vendor.{path[-400:]}"), "text", known=False)
    leaf = names[-1]
    if leaf in ("oper-status", "oper-state"):
        return Leaf(_LINK_UP, "state", known=True)
    if leaf in ("port-speed", "negotiated-port-speed", "high-speed") or (leaf == "speed" and "state" not in names[:-2]):
        return Leaf(replace(_LINK_SPEED, scale=1e6) if leaf == "high-speed" else _LINK_SPEED, "speed", known=True)
    known = _known(path.rpartition("/")[2].rpartition(":")[2], names)
    return Leaf(known or _unknown(path, names), "number", known=known is not None)


def _known(raw: str, names: tuple[str, ...]) -> Meaning | None:
    leaf = names[-1]
    if raw.startswith("SAI_"):
        kind = "queue" if raw.startswith("SAI_QUEUE") else "group" if raw.startswith("SAI_INGRESS_PRIORITY_GROUP") else "port"
        return db_meaning("COUNTERS", kind, raw)
    if any("pfc" in n for n in names):
        return _pfc(leaf, names)
    if any("queue" in n for n in names[:-1]) and leaf in _QUEUE:
        return _QUEUE[leaf]
    meaning = _PORT.get(leaf) or (_TAILS.get((names[-2], leaf)) if len(names) > 1 else None)
    if meaning is None or not any("queue" in n for n in names[:-1]) or meaning.counter in ("ecn_marked_packets", "wred_drop_packets"):
        return meaning
    return None  # a queue's octets are not the port's


def _pfc(leaf: str, names: tuple[str, ...]) -> Meaning | None:
    direction = _direction(leaf) or _direction(names[-2] if len(names) > 1 else "")
    digit = _DIGIT.search(leaf)
    priority = int(digit[1] or digit[2]) if digit is not None else None
    if direction is not None and _PFC_FRAMES.search(leaf):
        return Meaning("pfc_pause_frames", direction, priority=priority)
    if direction is not None and "pause" in leaf and leaf.endswith(("-us", "-usec", "-microseconds")):
        return Meaning("pfc_pause_us", direction, priority=priority)
    return None


def _direction(leaf: str) -> Direction | None:
    if _IN.search(leaf):
        return "rx"
    return "tx" if _OUT.search(leaf) else None


def _unknown(path: str, names: tuple[str, ...]) -> Meaning:
    leaf = names[-1]
    unit = None
    if leaf.endswith(("octets", "bytes")):
        unit = "byte"
    elif leaf.endswith(("pkts", "packets", "frames", "discards", "drops")):
        unit = "packet"
    elif leaf.endswith(("errors", "error", "transitions", "events")):
        unit = "event"
    counts = unit is not None or bool({"counters", "statistics", "event-stats"} & set(names))
    kind: CounterKind = "counter" if counts and not _RATE.search(leaf) and "-queue-len" not in leaf else "gauge"
    return Meaning(
        f"vendor.{path[-400:].lstrip('/')}", _direction(leaf), width=64 if kind == "counter" else 0, kind=kind, unit=unit if kind == "counter" else None
    )


def number_of(leaf: Leaf, value: object) -> tuple[Meaning, float | None] | None:
    """Meaning and number of a leaf's value; None where it is text that no counter prints.

    Raises `ValueError` where a known counter prints what is no number.
    """
    if leaf.form == "text" or isinstance(value, list | dict):
        return None
    if leaf.form == "state":
        return leaf.meaning, _UP.get(str(value).rpartition(":")[2].strip().lower().replace("_", "-"))
    if leaf.form == "speed" and isinstance(value, str) and (m := _SPEED.fullmatch(value.rpartition(":")[2].strip())) is not None:
        return replace(leaf.meaning, scale=float(_THOUSANDS[m[2].lower()])), read_number(m[1])
    if leaf.form == "speed" and "unknown" in str(value).lower():
        return leaf.meaning, None
    try:
        number = _number(value)
    except ValueError:
        if leaf.known:
            raise
        return None
    return (leaf.meaning, number) if leaf.known or number is not None else None


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool):
        value = str(value)
    return plain_number(value) if isinstance(value, int | float | Decimal) else read_number(str(value))
