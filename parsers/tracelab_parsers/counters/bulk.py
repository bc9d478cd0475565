"""Rows of `counter_samples` in bulk: what is the same in many rows is said once, numbers are columns of their own.

For sources of millions of numbers; `writing.Samples` takes them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tracelab.plugins import Notice
from tracelab.tables import COUNTER_SAMPLES
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.notices import no_number
from tracelab_parsers.counters.values import MAX_RAW, read_number
from tracelab_parsers.counters.writing import Subject, TimeQuality

if TYPE_CHECKING:
    import pyarrow as pa

    from tracelab.plugins import Emitter

__all__ = ["NO_TIME", "Bulk", "Key", "Numbers", "numbers_of", "whole_numbers"]

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

NO_TIME = np.iinfo(np.int64).min
"""Stands for a moment or an interval that the source does not state."""
_BATCH = 50_000
_LONGEST_TEXT = 512
_FLOAT_EXACT = 2**53
_SATURATED, _ROUNDED = "saturated", "rounded"
_CONSTANT = (
    "node",
    "node_kind",
    "device",
    "device_kind",
    "port",
    "uid",
    "priority",
    "queue",
    "direction",
    "counter",
    "raw_name",
    "scale",
    "unit",
    "kind",
    "width",
    "saturates",
)


class Numbers(NamedTuple):
    """Printed numbers as columns: exact where whole, as floats, where there are any.

    `bad` counts texts that are no numbers; `beyond` are rows of whole numbers below 0 or above 2**64 - 1, which have a float alone.
    """

    raw: Words
    whole: Mask
    value: Floats
    stated: Mask
    bad: int = 0
    beyond: tuple[int, ...] = ()


def numbers_of(texts: Sequence[str] | Sequence[bytes] | pa.StringArray, read: Callable[[str], float | None] = read_number) -> Numbers:
    """The numbers that `texts` print. Plain whole ones are read in bulk, the others by `read`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = texts if isinstance(texts, pa.StringArray) else pa.array(texts, pa.string())
    try:
        return whole_numbers(column.cast(pa.uint64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        plain = pc.match_substring_regex(column, "^[0-9]{1,19}$")
    raw = pc.if_else(plain, column, pa.scalar(None, pa.string())).cast(pa.uint64()).fill_null(0).to_numpy(zero_copy_only=False).copy()
    whole = plain.to_numpy(zero_copy_only=False).copy()
    value = raw.astype(np.float64)
    stated = whole.copy()
    bad, beyond = 0, []
    for i in np.flatnonzero(~whole).tolist():
        try:
            number = read(column[i].as_py())
        except ValueError:
            bad += 1
            continue
        if number is None:
            continue
        stated[i], value[i] = True, float(number)
        if isinstance(number, int):
            whole[i] = 0 <= number <= MAX_RAW
            if whole[i]:
                raw[i] = number
            else:
                beyond.append(i)
    return Numbers(raw, whole, value, stated, bad, tuple(beyond))


def whole_numbers(raw: Words) -> Numbers:
    """Whole numbers, all of them stated."""
    every = np.ones(len(raw), np.bool_)
    return Numbers(raw, every, raw.astype(np.float64), every)


@dataclass(frozen=True, slots=True)
class Key:
    """What is the same in all numbers of a series. `flags` are those of every number; `float64`: who printed it keeps floats alone."""

    subject: Subject
    raw_name: str
    meaning: Meaning
    priority: int | None = None
    queue: str | None = None
    flags: tuple[str, ...] = ()
    float64: bool = False

    def constants(self) -> tuple[Any, ...]:
        """The values of the columns that do not change, in the order of `_CONSTANT`."""
        s, m = self.subject, self.meaning
        who = (_text(s.node), s.node_kind, _text(s.device), s.kind, s.port, _text(s.uid))
        place = (m.priority if self.priority is None else self.priority, _text(m.queue if self.queue is None else self.queue), m.direction)
        return (*who, *place, _text(m.counter), _text(self.raw_name), m.scale, m.stated_unit, m.stated_kind, m.width, m.saturates)

    @property
    def full(self) -> int:
        """Highest value of a counter that stays there; 0 where there is none."""
        return 2**self.meaning.width - 1 if self.meaning.saturates and self.meaning.width else 0


class Bulk:
    """Collects blocks of rows and emits them in batches; `close` emits the rest."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._keys: list[Key] = []
        self._blocks: list[tuple[Ints, Ints, Ints, Ints, Numbers, str | None]] = []
        self._pending = 0
        self.count = 0

    def add(
        self,
        keys: Sequence[Key],
        of: Ints | None,
        lines: Ints | int,
        numbers: Numbers,
        *,
        ts_ns: Ints | None = None,
        quality: TimeQuality | None = None,
        interval_ns: Ints | None = None,
    ) -> None:
        """Rows of `keys`; row i is of `keys[of[i]]`, of the only one where `of` is None. `NO_TIME` is a moment or interval that is not stated."""
        n = len(numbers.raw)
        if not n:
            return
        unstated = np.full(n, NO_TIME, np.int64)
        codes = (np.zeros(n, np.int64) if of is None else of) + len(self._keys)
        at = np.full(n, lines, np.int64) if isinstance(lines, int) else lines
        self._keys += keys
        self._blocks.append((codes, at, unstated if ts_ns is None else ts_ns, unstated if interval_ns is None else interval_ns, numbers, quality))
        beyond = [k for i in numbers.beyond if (k := keys[0 if of is None else of[i]]).meaning.stated_kind != "gauge"]
        if beyond:
            text = f"a counter below 0 or above 2**64 - 1: {beyond[0].raw_name[:80]!r}"
            self._emit.notice(Notice("counter-out-of-range", "warning", text, "its rounded value is kept, no rate uses it", len(beyond)))
        self._pending += n
        self.count += n
        if self._pending >= _BATCH:
            self.close()

    def close(self) -> None:
        """Emits what is gathered."""
        import pyarrow as pa

        if not self._blocks:
            return
        codes, lines, ts, interval = (np.concatenate([b[i] for b in self._blocks]) for i in range(4))
        raw, whole, value, stated = (np.concatenate([b[4][i] for b in self._blocks]) for i in range(4))
        of_block = np.repeat(np.arange(len(self._blocks)), [len(b[0]) for b in self._blocks])
        rows = [k.constants() for k in self._keys]
        columns = {name: pa.array([r[i] for r in rows], COUNTER_SAMPLES.arrow.field(name).type) for i, name in enumerate(_CONSTANT)}
        constant = pa.RecordBatch.from_pydict(columns).take(pa.array(codes))
        scale = np.array([k.meaning.scale for k in self._keys])[codes]
        with np.errstate(over="ignore"):  # what is too large for a float is no number
            scaled = value * scale
        lost = int(np.count_nonzero(stated & ~np.isfinite(scaled)))
        if lost:
            self._emit.notice(no_number(lost))
        qualities = _dictionary(pa, [b[5] for b in self._blocks]).take(pa.array(of_block, mask=ts == NO_TIME))
        varying = {
            "line": pa.array(lines),
            "source_ts_ns": pa.array(ts, mask=ts == NO_TIME),
            "time_quality": qualities,
            "interval_ns": pa.array(interval, mask=interval == NO_TIME),
            "raw": pa.array(raw, mask=~whole),
            "value": pa.array(scaled, mask=~stated | ~np.isfinite(scaled)),
            "flags": self._flags(codes, raw, whole, value, stated),
        }
        columns = {f.name: varying[f.name] if f.name in varying else constant.column(f.name) for f in COUNTER_SAMPLES.arrow}
        self._emit.batch(COUNTER_SAMPLES, pa.RecordBatch.from_pydict(columns, schema=COUNTER_SAMPLES.arrow))
        self._keys, self._blocks, self._pending = [], [], 0

    def _flags(self, codes: Ints, raw: Words, whole: Mask, value: Floats, stated: Mask) -> Any:
        """What makes each number doubtful: of its key, at the top of its range, or beyond what a float holds exactly."""
        import pyarrow as pa

        sets = sorted({k.flags for k in self._keys})
        place = {flags: i for i, flags in enumerate(sets)}
        of_key = np.array([place[k.flags] for k in self._keys])[codes]
        top = np.array([k.full for k in self._keys], np.uint64)[codes]
        saturated = whole & (top > 0) & (raw == top)
        of_floats = np.array([k.float64 for k in self._keys], np.bool_)[codes]
        rounded = stated & ((of_floats & (np.abs(value) > _FLOAT_EXACT)) | (~whole & (np.abs(value) >= 2.0**64)))
        more = ((), (_SATURATED,), (_ROUNDED,), (_SATURATED, _ROUNDED))
        names = ["+".join(dict.fromkeys((*flags, *m))) or None for flags in sets for m in more]
        return _dictionary(pa, names).take(pa.array(of_key * 4 + saturated + 2 * rounded))


def _dictionary(pa: Any, values: list[str | None]) -> Any:
    return pa.array(values, pa.dictionary(pa.int32(), pa.string()))


def _text(value: str | None) -> str | None:
    return value if value is None or len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT]
