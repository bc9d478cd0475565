"""Rows to Arrow record batches, and the numbers of communicators."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tracelab.plugins import Emitter
from tracelab.tables import COMMUNICATORS, TableSpec

__all__ = ["Communicators", "RowBuffer"]

_BATCH_ROWS = 50_000
_MOST_COMMUNICATORS = 65_536


class RowBuffer:
    """Collects rows of one table and gives them to `emit` in batches."""

    def __init__(self, table: TableSpec, emit: Emitter, batch_rows: int = _BATCH_ROWS) -> None:
        self._table = table
        self._emit = emit
        self._batch_rows = batch_rows
        self._columns: dict[str, list[Any]] = {name: [] for name in table.arrow.names}
        self._rows = 0

    def add(self, **values: object) -> None:
        """Adds a row; columns that are not given are null."""
        for name, column in self._columns.items():
            column.append(values.pop(name, None))
        if values:
            raise TypeError(f"table {self._table.name!r} has no columns {sorted(values)}")
        self._rows += 1
        if self._rows >= self._batch_rows:
            self.flush()

    def flush(self) -> None:
        """Emits what is held."""
        if not self._rows:
            return
        schema = self._table.arrow
        self._emit.batch(self._table, pa.RecordBatch.from_arrays([_array(self._columns[f.name], f.type) for f in schema], schema=schema))
        for column in self._columns.values():
            column.clear()
        self._rows = 0


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


class Communicators:
    """Numbers the communicators of each process in order of appearance and writes their rows."""

    def __init__(self, emit: Emitter) -> None:
        self._rows = RowBuffer(COMMUNICATORS, emit)
        self._numbers: dict[tuple[int, str, int | None], int] = {}
        self._next: dict[int, int] = {}
        self.refused = 0

    def number(self, part: int, comm_id: str | None, rank: int | None, line: int, **stated: object) -> int | None:
        """The number of a communicator; None where it has no id, or where there are too many.

        `stated` are further columns of its row, taken when it first appears.
        """
        if comm_id is None:
            return None
        key = (part, comm_id, rank)
        found = self._numbers.get(key)
        if found is not None:
            return found
        if len(self._numbers) >= _MOST_COMMUNICATORS:
            self.refused += 1
            return None
        number = self._next.get(part, 0)
        self._next[part] = number + 1
        self._numbers[key] = number
        self._rows.add(part=part, line=line, comm=number, comm_id=comm_id, comm_rank=rank, state="seen", library="nccl", **stated)
        return number

    def flush(self) -> None:
        """Emits their rows."""
        self._rows.flush()
