"""Tables of an SQLite file as Arrow batches.

Rows are taken from the pages of the file (see `pages`). Where those are not as usual, SQLite builds one JSON array per
column and batch; that costs half of what rows of Python objects do, and leaves the interpreter free meanwhile. Values that
do not fit their column, and rows before a damage, are read one by one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tracelab.errors import TracelabError
from tracelab_parsers.nsys.database import Database, PlainTable, lossy_text, plain_tables, quoted, unreadable
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.source import MAX_TEXT, Field, FieldKind, arrow_type, present

if TYPE_CHECKING:
    import pyarrow as pa

    from tracelab_parsers.nsys.pages import Pages

__all__ = ["SqliteSource"]

BATCH_ROWS = 65_536
_ROWID = frozenset({"rowid", "oid", "_rowid_"})
_INT_RANGE = range(-(1 << 63), 1 << 63)
_FIRST = -(1 << 63)
_IDS_AT_ONCE = 5_000
_TEXTS = msgspec.json.Decoder(list[str | None])


@dataclass(frozen=True)
class _Query:
    """Which columns of which rows of a table are read, and how. Names are quoted, values are whole numbers."""

    table: str
    fields: tuple[Field, ...]
    known: tuple[Field, ...]
    where: str
    by_rowid: bool

    def expression(self, f: Field) -> str:
        """The SQL of a field's value."""
        if f.product:
            return "*".join(map(quoted, f.product))
        column = quoted(f.name)
        if f.kind == "text":
            return f"substr(CAST({column} AS TEXT),1,{MAX_TEXT})"
        return f"substr({column},1,{MAX_TEXT})" if f.kind == "blob" else column

    def columnar(self, limit: int) -> str:
        """One row: the number of rows, the last rowid, and an array of values per field."""
        inner = ",".join(f"{self.expression(f)} AS c{i}" for i, f in enumerate(self.known))
        outer = ",".join(f"json_group_array({f'hex(c{i})' if f.kind == 'blob' else f'c{i}'})" for i, f in enumerate(self.known))
        condition = f"rowid > ? AND {self.where}" if self.where else "rowid > ?"
        rows = ("SELECT rowid AS r,", inner, "FROM", quoted(self.table), "WHERE", condition, "ORDER BY rowid LIMIT", str(limit))
        return " ".join(("SELECT count(*),max(r),", outer, "FROM (", *rows, ")"))

    def by_row(self) -> str:
        """Rows of plain values, the rowid first."""
        columns = ",".join(self.expression(f) for f in self.known)
        conditions = [c for c in ("rowid > ?" if self.by_rowid else "", self.where) if c]
        clause = ["WHERE", " AND ".join(conditions)] if conditions else []
        order = ["ORDER BY rowid"] if self.by_rowid else []
        return " ".join(("SELECT", "rowid," if self.by_rowid else "0,", columns, "FROM", quoted(self.table), *clause, *order))


class SqliteSource:
    """A `Source` over one file. Raises `TracelabError` where the file is no database or its list of tables is damaged.

    `quick`: from the pages, where they allow it; the rows are the same.
    """

    def __init__(
        self, path: Path, notices: Notices, progress: Callable[[int], None] | None = None, *, batch_rows: int = BATCH_ROWS, quick: bool = True
    ) -> None:
        self._notices = notices
        self._progress = progress
        self._rows = batch_rows
        self._size = path.stat().st_size
        self._read = 0
        self._database = Database(path, notices)
        self._connections: list[sqlite3.Connection] = []
        self._reader = ThreadPoolExecutor(1, "nsys-sqlite")
        self._pages: Pages | None = None
        try:
            self._plain = self._prepared()
            self._open_pages(self._database.plain if quick else None)
        except BaseException:
            self.close()
            raise
        self.tables = {name: t.columns for name, t in self._plain.items()}
        self._total = sum(self._sized(t) for t in self.tables) or 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        if kind is None and self._progress is not None:
            self._progress(self._size)

    def close(self) -> None:
        """Ends reading; a batch that is being read is waited for."""
        self._reader.shutdown(wait=True, cancel_futures=True)
        for connection in self._connections:
            connection.close()
        if self._pages is not None:
            self._pages.close()
        self._database.close()

    def _open_pages(self, path: Path | None) -> None:
        if path is not None:
            from tracelab_parsers.nsys.pages import Pages

            with contextlib.suppress(ValueError):
                self._pages = Pages(path)

    def _prepared(self) -> dict[str, PlainTable]:
        """Opens two connections, one for batches in the other thread and one for everything else; returns the tables."""
        for _ in range(2):
            self._connections.append(self._database.connect())
        self._batches, self._lookup = self._connections
        try:
            tables = plain_tables(self._lookup, self._notices)
        except sqlite3.Error as e:
            raise unreadable(e) from e
        if not tables:
            raise TracelabError("the database holds no tables", hint="export the report again with nsys export -t sqlite")
        for connection in self._connections:
            self._database.restrict(connection)
        self._lookup.text_factory = lossy_text
        return tables

    @property
    def cut_short(self) -> bool:
        """See `Source.cut_short`."""
        return self._database.cut_short

    def _sized(self, table: str) -> int:
        """A rough size of a table for showing progress: its largest rowid."""
        with contextlib.suppress(sqlite3.Error):
            return int(self._one("max(rowid)", table) or 0)
        return 0

    def _one(self, expression: str, table: str) -> Any:
        sql = f"SELECT {expression} FROM {quoted(table)}"  # noqa: S608 -- the name is quoted
        return self._lookup.execute(sql).fetchone()[0]

    def count(self, table: str) -> int:
        """See `Source.count`."""
        if table in self.tables:
            with contextlib.suppress(sqlite3.Error):
                return int(self._one("count(*)", table))
        return 0

    def strings(self, ids: Collection[int]) -> dict[int, str]:
        """See `Source.strings`."""
        found: dict[int, str] = {}
        if not {"id", "value"} <= set(self.tables.get("StringIds", ())):
            return found
        wanted = list(ids)
        columns = f"id,substr(CAST(value AS TEXT),1,{MAX_TEXT})"
        for begin in range(0, len(wanted), _IDS_AT_ONCE):
            listed = ",".join(str(int(i)) for i in wanted[begin : begin + _IDS_AT_ONCE])
            sql = f"SELECT {columns} FROM StringIds WHERE value IS NOT NULL AND id IN ({listed})"  # noqa: S608 -- whole numbers
            try:
                found.update(self._lookup.execute(sql).fetchall())
            except sqlite3.Error:
                self._notices.add("table-damaged", about="StringIds")
                break
        return found

    def batches(self, table: str, fields: Sequence[Field], equals: tuple[str, int] | None = None) -> Iterator[pa.RecordBatch]:
        """See `Source.batches`. The next batch is read while the caller works on one."""
        columns = self.tables.get(table, ())
        known = present(columns, fields)
        if not known or (equals is not None and equals[0] not in columns):
            return
        where = f"{quoted(equals[0])} = {int(equals[1])}" if equals is not None else ""
        query = _Query(table, tuple(fields), known, where, by_rowid=not any(c.lower() in _ROWID for c in columns))
        pieces = self._pieces(query)

        def following() -> pa.RecordBatch | None:
            return next(pieces, None)

        waiting = self._reader.submit(following)
        while (batch := waiting.result()) is not None:
            waiting = self._reader.submit(following)
            self._tell(batch.num_rows)
            yield batch

    def _tell(self, rows: int) -> None:
        self._read += rows
        if self._progress is not None:
            self._progress(min(self._size, self._size * self._read // self._total))

    def _pieces(self, query: _Query) -> Iterator[pa.RecordBatch]:
        last: int | None = _FIRST
        if self._pages is not None and not query.where:
            last = yield from self._paged(self._pages, query)
        before: int | None = None
        while query.by_rowid and last is not None:
            if before is not None and last <= before:  # the pages of a damaged table may lead back to themselves
                self._notices.add("table-damaged", about=query.table)
                return
            before = last
            self._batches.text_factory = bytes
            try:
                count, end, *arrays = self._batches.execute(query.columnar(self._rows), (last,)).fetchone()
                if not count:
                    return
                batch = _batch(query, [_column(f.kind, a) for f, a in zip(query.known, arrays, strict=True)], count)
            except (sqlite3.Error, ValueError) as e:
                if "no such column" in str(e):  # a table without row numbers
                    query = replace(query, by_rowid=False)
                else:
                    last = yield from self._rows_from(query, last, self._rows)
            else:
                yield batch
                last = end
        if last is not None:
            yield from self._rows_from(query, last, None)

    def _paged(self, pages: Pages, query: _Query) -> Generator[pa.RecordBatch, None, int | None]:
        """Batches from the pages up to the first one that is not as usual; returns the last rowid, None at the end of the table."""
        table = self._plain[query.table]
        last = _FIRST
        if not all(c in table.places for f in query.known for c in f.columns):
            return last
        try:
            for rows in pages.rows(table.root, self._rows):
                try:
                    batch = _batch(query, rows.columns(query.known, table.places), len(rows))
                except (ValueError, IndexError):  # of values that are not of their column's type
                    yield from self._rows_from(query, last, len(rows))
                else:
                    yield from (batch.slice(begin, self._rows) for begin in range(0, len(rows), self._rows))
                last = rows.last
        except (ValueError, IndexError, OSError):
            return last
        return None

    def _rows_from(self, query: _Query, after: int, most: int | None) -> Generator[pa.RecordBatch, None, int | None]:
        """Batches of up to `most` rows, read one by one up to a damage; returns the last rowid, None at the end of the table."""
        self._batches.text_factory = lossy_text
        rows: list[tuple[Any, ...]] = []
        last: int | None = None
        try:
            cursor = self._batches.execute(query.by_row(), (after,) if query.by_rowid else ())
            for number, row in enumerate(cursor, 1):
                rows.append(row[1:])
                if number == most:
                    last = row[0]
                    break
                if len(rows) == self._rows:
                    yield self._checked(query, rows)
                    rows = []
        except (sqlite3.Error, OverflowError):
            self._notices.add("table-damaged", about=query.table)
        if rows:
            yield self._checked(query, rows)
        return last

    def _checked(self, query: _Query, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        import pyarrow as pa

        columns = []
        for f, values in zip(query.known, zip(*rows, strict=True), strict=True):
            kept = [_fitting(f.kind, v) for v in values]
            self._notices.add("bad-value", sum(k is None and v is not None for k, v in zip(kept, values, strict=True)), query.table)
            columns.append(pa.array(kept, arrow_type(f.kind)))
        return _batch(query, columns, len(rows))


def _fitting(kind: FieldKind, value: Any) -> Any:
    """A value as its column's type; None where it is none."""
    if kind == "text":
        return value if isinstance(value, str) else None
    if kind == "blob":
        return value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else None
    if isinstance(value, float):
        return value if kind == "real" else int(value) if value.is_integer() and int(value) in _INT_RANGE else None
    return (float(value) if kind == "real" else value) if isinstance(value, int) else None


def _batch(query: _Query, columns: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
    """A batch of all fields; those that the table has not are null. `ValueError` where a column has another length."""
    import pyarrow as pa

    found = dict(zip((f.name for f in query.known), columns, strict=True))
    arrays = [found[f.name] if f.name in found else pa.nulls(rows, arrow_type(f.kind)) for f in query.fields]
    if any(len(a) != rows for a in arrays):
        raise ValueError("a column of another length")
    return pa.RecordBatch.from_arrays(arrays, names=[f.name for f in query.fields])


def _column(kind: FieldKind, text: bytes) -> pa.Array:
    """The values of a JSON array; `ValueError` where one is of another type."""
    import pyarrow as pa
    from pyarrow import csv

    if kind in ("text", "blob"):
        values = _TEXTS.decode(text)
        return pa.array([bytes.fromhex(v) if v else None for v in values], pa.binary()) if kind == "blob" else pa.array(values, pa.string())
    # one value a line: nothing makes numbers of text faster
    lines = pa.py_buffer(text[1:-1].replace(b",", b"\n"))
    table = csv.read_csv(
        lines,
        csv.ReadOptions(column_names=["v"], use_threads=False, block_size=len(lines) + 1),
        csv.ParseOptions(quote_char=False),
        csv.ConvertOptions(column_types={"v": arrow_type(kind)}, null_values=["null"], check_utf8=False),
    )
    return table.column(0).combine_chunks()
