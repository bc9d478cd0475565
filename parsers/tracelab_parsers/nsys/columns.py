"""Columns of batches as arrays, and the parts that the rows of all tables share: times, texts, codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.tables import TableSpec
from tracelab_parsers.nsys.notices import Notices

__all__ = [
    "NONE_U32", "Bytes", "Flags", "Ints", "Timed", "coded", "cut_texts", "distinct", "encoded", "filled", "int32_column", "int_column", "no_texts", "pieces_of",
    "split_by", "table_batch", "timed", "usable_times",
]  # fmt: skip

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NONE_U32 = 4_294_967_295
"""How the profiler writes that there is no stream or event."""
_MAX_NS = 1 << 61
_NARROW = 1 << 20


def filled(batch: pa.RecordBatch, name: str, missing: int = 0) -> tuple[Ints, Flags]:
    """A column's values (`missing` where null), and where it has one."""
    column = batch.column(name)
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False), np.ones(len(column), np.bool_)
    if column.null_count == len(column):
        return np.full(len(column), missing, np.int64), np.zeros(len(column), np.bool_)
    return column.fill_null(missing).to_numpy(zero_copy_only=False), column.is_valid().to_numpy(zero_copy_only=False)


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """The different values in ascending order, and the position of each row's among them. Columns of codes hold few, close to each other."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if low == high:
        return values[:1], np.zeros(len(values), np.int64)
    if high - low >= _NARROW:
        unique, positions = np.unique(values, return_inverse=True)
        return unique, positions
    near = values - low
    place = np.zeros(high - low + 1, np.int64)
    place[near] = 1
    unique = np.flatnonzero(place)
    place[unique] = np.arange(len(unique))
    return unique + low, place[near]


def split_by(parts: Ints) -> Iterator[tuple[int, Ints | slice]]:
    """Each part and which rows are its own."""
    if len(parts) and parts.min() == parts.max():
        yield int(parts[0]), slice(None)
        return
    for part in np.unique(parts).tolist():
        yield part, np.flatnonzero(parts == part)


def pieces_of(data: Bytes, begins: Ints, sizes: Ints, ends: Ints) -> Bytes:
    """Pieces of `data`, one behind the other; `ends` are the sums of `sizes` so far."""
    some = np.flatnonzero(sizes > 0)
    if not len(some):
        return np.zeros(0, np.uint8)
    first, size = begins[some], sizes[some]
    # positions grow by 1, but from the end of a piece to the next
    at = np.ones(int(ends[-1]), np.int64)
    at[0] = first[0]
    at[ends[some[:-1]]] = first[1:] - (first[:-1] + size[:-1] - 1)
    return data.take(np.cumsum(at, out=at))


def cut_texts(texts: pa.Array, at: Ints) -> pa.Array:
    """The first `at` bytes of each text; all of it where that is negative."""
    size = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    kept = np.where(at < 0, size, np.minimum(at, size))
    begins = np.frombuffer(texts.buffers()[1], np.int32, len(texts), texts.offset * 4).astype(np.int64)
    ends = np.cumsum(kept)
    offsets = np.zeros(len(kept) + 1, np.int32)
    offsets[1:] = ends
    data = pieces_of(np.frombuffer(texts.buffers()[2] or b"", np.uint8), begins, kept, ends)
    known = None if not texts.null_count else pa.py_buffer(np.packbits(texts.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    return pa.Array.from_buffers(texts.type, len(texts), [known, pa.py_buffer(offsets), pa.py_buffer(data)])


def int_column(values: Ints, present: Flags) -> pa.Array:
    """Whole numbers, null where not `present`."""
    return pa.array(values, pa.int64(), mask=None if present.all() else ~present)


def int32_column(values: Ints, present: Flags) -> pa.Array:
    """As `int_column`; also null where a number does not fit."""
    fits = present & (values >= -(1 << 31)) & (values < 1 << 31)
    return pa.array(np.where(fits, values, 0).astype(np.int32), pa.int32(), mask=None if fits.all() else ~fits)


def coded(codes: npt.NDArray[np.int32], entries: Sequence[str], present: Flags | None = None) -> pa.DictionaryArray:
    """Texts given by their positions in `entries`, null where not `present`."""
    mask = None if present is None or present.all() else ~present
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=mask), pa.array(list(entries), pa.string()))


def no_texts(n: int) -> pa.DictionaryArray:
    """Nulls of a dictionary column."""
    return pa.nulls(n, pa.dictionary(pa.int32(), pa.string()))


def encoded(values: pa.Array) -> pa.DictionaryArray:
    """A text column as a dictionary column."""
    return pc.dictionary_encode(values)


def table_batch(table: TableSpec, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """A batch of `table`; columns that are not given are null."""
    n = len(next(iter(columns.values())))
    arrays = [columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in table.arrow]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow)


def usable_times(values: Ints, present: Flags) -> Flags:
    """Where there is a time that can be added to others without leaving 64 bits."""
    return present & (values > -_MAX_NS) & (values < _MAX_NS)


@dataclass(frozen=True)
class Timed:
    """The rows of a batch that have a usable start; `ts` in the clock of the export's times, `dur` never negative."""

    batch: pa.RecordBatch
    ts: Ints
    dur: Ints
    clamped: Flags


def timed(batch: pa.RecordBatch, notices: Notices, table: str, *, start: str = "start", end_of_open: int | None = None, points: bool = False) -> Timed:
    """The times of the columns `start` and end. Rows without end last to `end_of_open`; `points` have none anyway."""
    ts, has_start = filled(batch, start)
    usable = usable_times(ts, has_start)
    if not usable.all():
        notices.add("bad-time", int(np.count_nonzero(~usable)), table)
        batch = batch.filter(pa.array(usable))
        ts = ts[usable]
    n = len(ts)
    if points:
        return Timed(batch, ts, np.zeros(n, np.int64), np.zeros(n, np.bool_))
    end, has_end = filled(batch, "end")
    has_end = usable_times(end, has_end)
    open_end = np.maximum(ts, ts if end_of_open is None else end_of_open)
    dur = np.where(has_end, end, open_end) - ts
    inverted = dur < 0
    notices.add("inverted-time", int(np.count_nonzero(inverted)), table)
    notices.add("open-range", int(np.count_nonzero(~has_end)), table)
    return Timed(batch, ts, np.maximum(dur, 0), inverted | ~has_end)
