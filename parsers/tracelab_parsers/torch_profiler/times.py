"""Microseconds of a trace, as it writes them, to integer nanoseconds, exactly.

Traces write microseconds with three decimals at most. A float holds those exactly enough up to 2^43 µs: its error is
below half a nanosecond, and whole and fractional microseconds are rounded apart so that no product adds to it. Larger
times (those of the Unix epoch) are exact only as integers or as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ABSOLUTE_NS", "MAX_DUR_NS", "MAX_TS_NS", "Times", "exact_ns", "needs_text", "span_times"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

FLOAT_LIMIT_US = float(1 << 43)
_DUR_LIMIT_US = float(1 << 33)
_MAX_DIGITS = 21
_MAX_TEXT = 32
MAX_TS_NS = 4 * 10**18
MAX_DUR_NS = 10**18
ABSOLUTE_NS = 10**18
"""Times from here on (September 2001) count from the Unix epoch whatever base the file states: no trace runs for 31 years."""


@dataclass(frozen=True)
class Times:
    """Starts and lengths in ns, as the source counts them. Where `usable` is false both are 0.

    `clamped`: the source gives a start of 0 (unknown, or before the capture), or a length below 0 or none at all.
    """

    ts: Ints
    dur: Ints
    usable: Bools
    clamped: Bools

    def take(self, at: npt.NDArray[np.intp]) -> Times:
        """Those at these positions."""
        return Times(self.ts[at], self.dur[at], self.usable[at], self.clamped[at])


def _floats(values: Sequence[Any]) -> Floats | None:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def needs_text(values: Sequence[Any]) -> bool:
    """Whether these times cannot be told exactly from what was decoded: floats beyond 2^43 µs."""
    if set(map(type, values)) <= {int}:
        return False
    a = _floats(values)
    if a is None or not np.abs(a).max(initial=0.0) >= FLOAT_LIMIT_US:
        return False
    return any(type(v) is float and abs(v) >= FLOAT_LIMIT_US for v in values)


def exact_ns(value: object) -> int | None:
    """`value` µs (a number, or its text) in ns, rounded half to even; None where it is no finite time within 126 years of 0."""
    if isinstance(value, int):
        return value * 1000 if abs(value) < MAX_TS_NS // 1000 else None
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    if text[-4:-3] == "." and len(text) < 24:
        try:
            ns = int(text[:-4] + text[-3:])
        except ValueError:
            return None
        return ns if abs(ns) < MAX_TS_NS else None
    return _decimal_ns(_decimal(text))


def _decimal(text: str) -> Decimal | None:
    try:
        us = Decimal(text) if len(text) <= 64 else None
    except InvalidOperation:
        return None
    return us if us is not None and us.is_finite() and us.adjusted() < 20 else None


def _decimal_ns(us: Decimal | None) -> int | None:
    if us is None:
        return None
    ns = int((us * 1000).to_integral_value(ROUND_HALF_EVEN))
    return ns if abs(ns) < MAX_TS_NS else None


def _small_floats(ts: Floats, dur: Floats) -> tuple[Ints, Ints]:
    """Start and length such that start + length is the rounded end."""
    whole, whole_dur = np.floor(ts), np.floor(dur)
    part, part_dur = ts - whole, dur - whole_dur
    start = whole.astype(np.int64) * 1000 + np.rint(part * 1000).astype(np.int64)
    end = (whole + whole_dur).astype(np.int64) * 1000 + np.rint((part + part_dur) * 1000).astype(np.int64)
    return start, end - start


def _integers(ts: Sequence[Any], dur: Floats) -> tuple[Ints, Ints] | None:
    try:
        start = np.array(ts, dtype=np.int64)
    except OverflowError:
        return None
    if np.abs(start).max(initial=0) >= MAX_TS_NS // 1000:
        return None
    whole = np.floor(dur)
    return start * 1000, whole.astype(np.int64) * 1000 + np.rint((dur - whole) * 1000).astype(np.int64)


def span_times(ts: Sequence[Any], dur: Sequence[Any]) -> Times:
    """Times of spans from `ts` and `dur` as decoded: numbers, text of numbers, or anything else (unusable)."""
    if msgspec.Raw in set(map(type, ts)):
        return _text_times(ts, dur)
    a, d = _floats(ts), _floats(dur)
    if a is not None and d is not None and np.isfinite(a).all() and np.isfinite(d).all() and np.abs(d).max(initial=0.0) < _DUR_LIMIT_US:
        pair = _small_floats(a, d) if np.abs(a).max(initial=0.0) < FLOAT_LIMIT_US else None
        if pair is None and set(map(type, ts)) == {int}:
            pair = _integers(ts, d)
        if pair is not None:
            return _times(*pair, np.ones(len(ts), np.bool_), np.zeros(len(ts), np.bool_))
    return _one_by_one(ts, dur)


def _text_times(ts: Sequence[Any], dur: Sequence[Any]) -> Times:
    start, length = _thousandths(ts), _thousandths(dur) if any(dur) else np.zeros(len(ts), np.int64)
    if start is not None and length is not None:
        return _times(start, length, np.abs(start) < MAX_TS_NS, np.zeros(len(ts), np.bool_))
    ts, dur = ([bytes(v).strip(b'"') if type(v) is msgspec.Raw else v for v in values] for values in (ts, dur))
    start, length = _decimals(ts), _decimals(dur)
    if start is not None and length is not None:
        return _times(start, length, np.abs(start) < MAX_TS_NS, np.zeros(len(ts), np.bool_))
    return _one_by_one(ts, dur)


def _thousandths(values: Sequence[Any]) -> Ints | None:
    """Texts of numbers that all have three decimals, in ns: without its point, such a number of µs is one of ns."""
    try:
        text = b",".join((*values, b""))
    except TypeError:
        return None
    a = np.frombuffer(text, np.uint8)
    points, ends = np.flatnonzero(a == ord(".")), np.flatnonzero(a == ord(","))
    if len(points) != len(ends) or len(ends) != len(values) or (ends - points != 4).any():
        return None
    plain = (a >= ord("0")) & (a <= ord("9")) | (a == ord("-"))
    if np.count_nonzero(plain) != len(a) - len(points) - len(ends) or np.diff(ends, prepend=-1).max() > _MAX_DIGITS:
        return None
    return np.fromstring(text.replace(b".", b"")[:-1], np.int64, sep=",")


def _decimals(values: Sequence[Any]) -> Ints | None:
    """Texts of numbers with three decimals at most, in ns."""
    # Arrow reads hundreds of digits without complaint, as any number.
    if set(map(type, values)) != {bytes} or max(map(len, values)) > _MAX_TEXT:
        return None
    try:
        decimals = pa.array(values, pa.string()).cast(pa.decimal128(21, 3))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    words = np.frombuffer(decimals.buffers()[1], np.int64, 2 * len(values))
    low, high = words[0::2], words[1::2]
    return low.copy() if (high == low >> 63).all() else None


def _one_by_one(ts: Sequence[Any], dur: Sequence[Any]) -> Times:
    n = len(ts)
    start, length = np.zeros(n, np.int64), np.zeros(n, np.int64)
    usable, no_length = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for i, (t, d) in enumerate(zip(ts, dur, strict=True)):
        ns = exact_ns(t)
        if ns is None:
            continue
        start[i] = ns
        # A length that is not stated was cut by the profiler; one that cannot be read is damage.
        missing = d in {None, b"", b"null"}
        span = None if missing else exact_ns(d)
        usable[i], no_length[i] = missing or span is not None, missing
        length[i] = min(span or 0, MAX_DUR_NS)
    return _times(start, length, usable, no_length)


def _times(start: Ints, length: Ints, usable: Bools, no_length: Bools) -> Times:
    too_long = length >= MAX_DUR_NS
    clamped = ((start == 0) & usable) | (length < 0) | no_length
    usable = usable & ~too_long
    return Times(np.where(usable, start, 0), np.where(usable & (length > 0), length, 0), usable, clamped & usable)
