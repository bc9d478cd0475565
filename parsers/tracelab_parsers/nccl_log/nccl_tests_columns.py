"""The columns of the tables that nccl-tests prints, in all their layouts, and the numbers in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_log.fields import integer

__all__ = ["HALF_NAMES", "NEW_LAYOUT", "Half", "Layout", "consistent", "layout_of_header", "layout_of_row", "measured"]

_COUNT = re.compile(r"-?[0-9]{1,19}")
_DECIMAL = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?(?:e[+-]?[0-9]{1,3})?")
_HEAD_NAMES = frozenset({"size", "count", "type", "redop", "root"})
HALF_NAMES = ("time", "algbw", "busbw")


@dataclass(frozen=True)
class Layout:
    """Columns of a row: the leading ones by name, then two equal halves of `half`, then `extra` that a timestamp takes."""

    head: tuple[str, ...]
    half: tuple[str, ...]
    extra: int = 0

    @property
    def width(self) -> int:
        """Words of a row, without a timestamp."""
        return len(self.head) + 2 * len(self.half)


NEW_LAYOUT = Layout(("size", "count", "type", "redop", "root"), (*HALF_NAMES, "#wrong"))
_OLD = Layout(("size", "count", "type", "redop"), (*HALF_NAMES, "error"))
_OLD_ROOT = Layout(("size", "count", "type", "root"), (*HALF_NAMES, "error"))
_OLDEST = Layout(("size", "count", "type"), (*HALF_NAMES, "error"))
_LAYOUTS = (NEW_LAYOUT, _OLD, _OLD_ROOT, _OLDEST)


class Half(NamedTuple):
    """What was measured in place or out of place: µs, GB/s, wrong elements; null where not measured or not checked."""

    time_us: float | None
    algbw: float | None
    busbw: float | None
    errors: int | None


def layout_of_header(names: list[str]) -> Layout | None:
    """The layout of a header's words; None where it is of no known kind."""
    names = ["time" if n in {"time", "cputime", "gputime"} else n for n in names]
    first = names.index("time") if "time" in names else 0
    head = tuple(names[:first])
    rest = names[first:]
    extra = 2 if rest and rest[-1] == "timestamp" else 0
    rest = rest[:-1] if extra else rest
    half = tuple(rest[: len(rest) // 2])
    known = first >= 3 and _HEAD_NAMES.issuperset(head) and half[:3] == HALF_NAMES and tuple(rest) == half * 2
    return Layout(head, half, extra) if known else None


def measured(words: list[str], layout: Layout) -> Half:
    """The numbers of one half of a row."""
    values = dict(zip(layout.half, words, strict=True))
    wrong = values.get("#wrong")
    return Half(_decimal(values["time"]), _decimal(values["algbw"]), _decimal(values["busbw"]), integer(wrong, wide=True) if wrong else None)


def _decimal(word: str) -> float | None:
    """The number, None for `N/A` and whatever else is none or beyond all machines."""
    number = float(word) if _DECIMAL.fullmatch(word) else None
    return number if number is not None and number < 1e15 else None


def _agrees(words: list[str], layout: Layout) -> bool:
    """Whether the row fits the layout: both halves measured, and bytes / time = bandwidth in each."""
    size, start = integer(words[0], wide=True), len(layout.head)
    if size is None or any(not _COUNT.fullmatch(words[i]) for i, name in enumerate(layout.head) if name == "root"):
        return False
    if any(ops.reduction_named(words[i]) is None and words[i] != "none" for i, name in enumerate(layout.head) if name == "redop"):
        return False
    return all(consistent(size, words[i], words[i + 1]) for i in (start, start + len(layout.half)))


def consistent(size: int, time: str, algbw: str) -> bool:
    """Whether size / time lies within the rounding of both numbers as printed (µs, GB/s)."""
    t, bandwidth = _decimal(time), _decimal(algbw)
    if t is None or bandwidth is None:
        return time == "N/A"
    dt, db = _rounding(time, t), _rounding(algbw, bandwidth)
    if t <= dt:
        return False
    low, high = size / ((t + dt) * 1e3), size / ((t - dt) * 1e3)
    return low - db <= bandwidth * 1.001 and bandwidth * 0.999 <= high + db


def _rounding(word: str, value: float) -> float:
    """Half of the last digit; numbers with an exponent have a few digits only."""
    if "e" in word:
        return 0.5 * abs(value)
    return float(0.5 * 10.0 ** -len(word.partition(".")[2]))


def layout_of_row(words: list[str]) -> Layout | None:
    """The layout that a row without a header fits: as wide, and with numbers that agree with each other."""
    return next((c for c in _LAYOUTS if c.width == len(words) and _agrees(words, c)), None)
