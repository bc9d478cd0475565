"""The pairs of moment and number that Prometheus' API prints, as columns."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, DecimalException
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from tracelab_parsers.counters.bulk import NO_TIME, Ints, Numbers, numbers_of, whole_numbers
from tracelab_parsers.counters.switch_moments import EARLIEST_NS, LATEST_NS
from tracelab_parsers.counters.values import read_number

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Pairs", "moments_of", "pairs_of", "read_value", "separate_columns"]

_SPACE = b" \t\r\n"
_ABSENT = frozenset({"nan", "inf", "infinity"})
_LONGEST = 64


class Pairs(NamedTuple):
    """Moments in ns (`NO_TIME` where a text is none), and numbers. `bad_times` counts texts that are no moments from 1971 to 2096."""

    ts_ns: Ints
    numbers: Numbers
    bad_times: int = 0


def read_value(text: str) -> float | None:
    """A number as Prometheus prints it; None for NaN and the infinities, which stand for no number. Raises `ValueError`."""
    if text.strip().lstrip("+-").lower() in _ABSENT:
        return None
    if "," in text:
        raise ValueError("Prometheus prints no commas")
    return read_number(text)


def pairs_of(text: bytes) -> Pairs:
    """`[[seconds, "number"], …]`, valid JSON. Raises `msgspec.DecodeError` where it holds anything else than pairs."""
    import pyarrow as pa

    compact = msgspec.json.format(text, indent=-1) if any(c in text for c in _SPACE) else text
    texts = _split(compact)
    if texts is None:
        return _slow(compact)
    try:
        both = texts.cast(pa.uint64()).to_numpy(zero_copy_only=False)
        ts = _within(np.minimum(both[0::2], LATEST_NS // 10**9).astype(np.int64) * 10**9)
        numbers = whole_numbers(both[1::2])
    except pa.ArrowInvalid:
        at = np.arange(0, len(texts), 2)
        ts = moments_of(texts.take(pa.array(at)), 9)
        numbers = numbers_of(texts.take(pa.array(at + 1)), read_value)
    return Pairs(ts, numbers, int(np.count_nonzero(ts == NO_TIME)))


def separate_columns(values: bytes, moments: bytes) -> Pairs:
    """`[number, …]` and `[milliseconds, …]`, as VictoriaMetrics exports them; the longer one is cut."""
    numbers, stamps = (_texts(part) for part in (values, moments))
    n = min(len(numbers), len(stamps))
    ts = moments_of(stamps[:n], 6)
    return Pairs(ts, numbers_of(numbers[:n], read_value), int(np.count_nonzero(ts == NO_TIME)))


def moments_of(texts: list[str] | pa.StringArray, exponent: int) -> Ints:
    """Moments in ns of texts in units of 10**exponent ns, exact; `NO_TIME` for what is none from 1971 to 2096."""
    import pyarrow as pa

    column = texts if isinstance(texts, pa.StringArray) else pa.array(texts, pa.string())
    try:
        whole = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return _within(_fractions(column, exponent))
    fits = (whole > 0) & (whole < LATEST_NS // 10**exponent)
    return _within(np.where(fits, whole, 0) * 10**exponent)


def _within(ts: Ints) -> Ints:
    return np.where((ts >= EARLIEST_NS) & (ts < LATEST_NS), ts, NO_TIME)


def _fractions(column: pa.Array, exponent: int) -> Ints:
    """As `moments_of` for moments with fractions: a decimal of as many digits holds their ns as its integer."""
    import pyarrow as pa

    try:
        words = np.frombuffer(column.cast(pa.decimal128(38, exponent)).buffers()[1], "<i8").reshape(-1, 2)[: len(column)]
        return np.where(words[:, 1] == 0, words[:, 0], 0)
    except pa.ArrowInvalid:
        return np.array([_moment(t, exponent) for t in column.to_pylist()], np.int64)


def _moment(text: str, exponent: int) -> int:
    try:
        value = Decimal(text).scaleb(exponent) if len(text) <= _LONGEST else Decimal(0)
        return int(value.quantize(Decimal(1), ROUND_HALF_EVEN)) if value.is_finite() and 0 < value < LATEST_NS else 0
    except DecimalException:
        return 0


def _split(compact: bytes) -> pa.StringArray | None:
    """Moments and numbers in turn; None where the text is not `[[moment,"number"],…]` throughout.

    Between two quotes is a number, from behind it to the next quote stands `],[`, a moment and a comma. What is left
    without these marks are the texts one after the other, whose lengths the places of the quotes give.
    """
    import pyarrow as pa

    if not (compact.startswith(b"[[") and compact.endswith(b'"]]')) or b"\\" in compact:
        return None
    a = np.frombuffer(compact, np.uint8)
    quotes = np.flatnonzero(a == ord('"'))
    opening, closing = quotes[0::2], quotes[1::2]
    if len(opening) != len(closing) or np.any(a[opening - 1] != ord(",")) or np.any(a[closing + 1] != ord("]")):
        return None
    between = closing[:-1]
    if np.any(a[between + 2] != ord(",")) or np.any(a[between + 3] != ord("[")):
        return None
    lengths = np.empty(2 * len(opening), np.int64)
    lengths[0::2] = opening - 1 - np.r_[2, between + 4]
    lengths[1::2] = closing - opening - 1
    data = compact.translate(None, b'[],"')
    if np.any(lengths < 0) or int(lengths.sum()) != len(data):
        return None
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data)) if data.isascii() else None


def _slow(compact: bytes) -> Pairs:
    found = msgspec.json.decode(compact, type=list[tuple[msgspec.Raw, msgspec.Raw]])
    ts = np.array([_moment(bytes(t).decode().strip('"'), 9) for t, _ in found], np.int64)
    ts = _within(ts)
    return Pairs(ts, numbers_of([_plain(v) for _, v in found], read_value), int(np.count_nonzero(ts == NO_TIME)))


def _plain(raw: msgspec.Raw) -> str:
    """The text of a number that is printed as one or as a string."""
    text = bytes(raw)
    return msgspec.json.decode(text, type=str) if text[:1] == b'"' else text.decode()


def _texts(array: bytes) -> list[str]:
    return [_plain(v) for v in msgspec.json.decode(array, type=list[msgspec.Raw])]
