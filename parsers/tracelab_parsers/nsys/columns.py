"""Columns of batches as arrays, and the parts that the rows of all tables share: times, texts, codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.tables import TableSpec
from tracelab_parsers.nsys.notices import Notices

__all__ = ["NONE_U32", "Flags", "Ints", "Timed", "coded", "encoded", "filled", "int32_column", "int_column", "no_texts", "table_batch", "timed"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NONE_U32 = 4_294_967_295
"""How the profiler writes that there is no stream or event."""
_MAX_NS = 1 << 61


def filled(batch: pa.RecordBatch, name: str, missing: int = 0) -> tuple[Ints, Flags]:
    """A column's values (`missing` where null), and where it has one."""
    column = batch.column(name)
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False), np.ones(len(column), np.bool_)
    return column.fill_null(missing).to_numpy(zero_copy_only=False), column.is_valid().to_numpy(zero_copy_only=False)


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
    return pc.dictionary_encode(values).cast(pa.dictionary(pa.int32(), pa.string()))


def table_batch(table: TableSpec, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """A batch of `table`; columns that are not given are null."""
    n = len(next(iter(columns.values())))
    arrays = [columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in table.arrow]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow)


@dataclass(frozen=True)
class Timed:
    """The rows of a batch that have a usable start; `ts` in the clock of the export's times, `dur` never negative."""

    batch: pa.RecordBatch
    ts: Ints
    dur: Ints
    clamped: Flags


def timed(batch: pa.RecordBatch, notices: Notices, table: str, *, end_of_open: int | None = None, points: bool = False) -> Timed:
    """The times of the columns start and end. Rows without end last to `end_of_open`; `points` have none anyway."""
    start, has_start = filled(batch, "start")
    usable = has_start & (np.abs(start) < _MAX_NS)
    if not usable.all():
        notices.add("bad-time", int(np.count_nonzero(~usable)), table)
        batch = batch.filter(pa.array(usable))
        start = start[usable]
    n = len(start)
    if points:
        return Timed(batch, start, np.zeros(n, np.int64), np.zeros(n, np.bool_))
    end, has_end = filled(batch, "end")
    has_end = has_end & (np.abs(end) < _MAX_NS)
    open_end = np.maximum(start, start if end_of_open is None else end_of_open)
    dur = np.where(has_end, end, open_end) - start
    inverted = dur < 0
    notices.add("inverted-time", int(np.count_nonzero(inverted)), table)
    notices.add("open-range", int(np.count_nonzero(~has_end)), table)
    return Timed(batch, start, np.maximum(dur, 0), inverted | ~has_end)
