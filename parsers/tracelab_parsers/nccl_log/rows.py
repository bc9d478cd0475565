"""Where readers put rows: columns of every table but that of operations, in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tracelab.plugins import Emitter, Notice
from tracelab.tables import TableSpec
from tracelab.tables.logs import LOG_EVENTS, RING_ORDERS
from tracelab_parsers.nccl_log.line import LogLine
from tracelab_parsers.nccl_log.notices import Notices
from tracelab_parsers.nccl_log.processes import Communicator, Opening

__all__ = ["Late", "RowStore"]

BATCH = 50_000
MOST_HELD = 100_000
"""Rows that wait for the name of their communicator; more are let go without it."""

_LIMITS = {"int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}
_MAX_TEXT = 512

Late = Callable[[Communicator | None], object]
"""A value of `ring_orders` that depends on the communicator, which may be known only later."""


class RowStore:
    """Keeps rows until a batch is full and their communicators are known. `line.part` must be set by the caller."""

    def __init__(self, emit: Emitter, notices: Notices) -> None:
        self._emit = emit
        self._notices = notices
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._tables: dict[str, TableSpec] = {}
        self.added = 0

    def put(self, table: TableSpec, row: dict[str, Any]) -> None:
        """Adds a row. Its `comm` may be an `Opening`."""
        rows = self._rows.get(table.name)
        if rows is None:
            rows = self._rows[table.name] = []
            self._tables[table.name] = table
        rows.append(row)
        self.added += 1
        if len(rows) % BATCH == 0:
            self._flush(table.name, force=len(rows) >= MOST_HELD)

    def notice(self, notice: Notice) -> None:
        """Passes a reader's notice on."""
        self._emit.notice(notice)

    def close(self) -> None:
        """Emits what is left."""
        for name in sorted(self._rows):
            self._flush(name, force=True)

    def _flush(self, name: str, *, force: bool) -> None:
        ready: list[dict[str, Any]] = []
        held: list[dict[str, Any]] = []
        strict, late = name == LOG_EVENTS.name, name == RING_ORDERS.name
        for row in self._rows[name]:
            comm = row.get("comm")
            if isinstance(comm, Opening):
                if comm.comm is None and not force:
                    held.append(row)
                    continue
                comm = comm.comm if strict else comm.fallback()
            if late:
                row.update({c: v(comm if isinstance(comm, Communicator) else None) for c, v in row.items() if callable(v)})
            row["comm"] = comm.number if isinstance(comm, Communicator) else comm
            ready.append(row)
        self._rows[name] = held
        if ready:
            table = self._tables[name]
            self._emit.batch(table, self._batch(table, ready))

    def _batch(self, table: TableSpec, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        try:
            return _record_batch(table, rows)
        except (OverflowError, pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError):
            good = [_usable(table, row) for row in rows]
            kept = [row for row in good if row is not None]
            self._notices.add("bad-number", count=len(good) - len(kept))
            return _record_batch(table, kept)


def _record_batch(table: TableSpec, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = []
    for name, kind in zip(table.arrow.names, table.arrow.types, strict=True):
        values = [row.get(name) for row in rows]
        if pa.types.is_dictionary(kind):
            arrays.append(pa.array(values, pa.string()).dictionary_encode().cast(kind))
        else:
            arrays.append(pa.array(values, kind))
    batch = pa.RecordBatch.from_arrays(arrays, schema=table.arrow)
    if any(not f.nullable and batch.column(i).null_count for i, f in enumerate(batch.schema)):
        raise ValueError("null where the table allows none")
    return batch


def _usable(table: TableSpec, row: dict[str, Any]) -> dict[str, Any] | None:
    """The row with what does not fit its column left out, None where the column must be there."""
    out: dict[str, Any] = {}
    for column in table.emitted:
        value = _value(row.get(column.name), column.dtype)
        if value is None and not column.nullable:
            return None
        out[column.name] = value
    return out


def _value(value: object, dtype: str) -> object:
    match dtype:
        case "bool":
            return value if isinstance(value, bool) else None
        case "float64":
            return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None
        case "string" | "dict":
            return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None
        case "list<int32>" | "list<int64>":
            limit = _LIMITS[dtype[5:-1]]
            return value if isinstance(value, list) and all(isinstance(v, int) and -limit <= v < limit for v in value) else None
        case _:
            limit = _LIMITS[dtype]
            return value if isinstance(value, int) and -limit <= value < limit else None


_FAILING = frozenset({"watchdog", "desync", "abort", "nccl-error", "cuda-error", "net-error"})
"""Kinds of bare lines, which carry no level of the library, that tell of a failure."""


def event_row(line: LogLine, part: int, kind: str, comm: object, shape: str | None) -> dict[str, Any]:
    """A row of `log_events`."""
    return {
        "part": part,
        "line": line.number,
        "source_ts_ns": line.source_ts_ns,
        "local_ts_ns": line.local_ts_ns,
        "level": line.level or ("ERROR" if kind in _FAILING else "INFO"),
        "kind": kind,
        "comm": comm,
        "tid": line.tid,
        "device": line.device,
        "where": line.where,
        "text": line.text[:_MAX_TEXT],
        "shape": shape,
    }
