"""Tables of Parquet and Arrow files as a `Source`: one file per table, as `nsys export -t parquetdir` and `-t arrowdir` write them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.source import Field, arrow_type, present
from tracelab_parsers.nsys_forms.values import as_bytes, converted, multiplied

__all__ = ["ARROW_MAGIC", "DAMAGES", "PARQUET_MAGIC", "ColumnarSource"]

PARQUET_MAGIC = b"PAR1"
ARROW_MAGIC = b"ARROW1"
DAMAGES = (pa.ArrowException, OSError, ValueError, RuntimeError)
"""What the readers of Parquet and Arrow raise for files that are damaged."""
_BATCH_ROWS = 65_536
_BUFFER = 1 << 20
"""Bytes of a column that are read at a time: else all of a group of rows would be."""
_STREAM_OFFSET = 8
"""Where the messages begin in an Arrow file, behind its magic and padding: they can be read where the footer is lost."""


class _Table(Protocol):
    """One file. Chunks are what it can read at random: row groups, record batches. `whole`: it has its end."""

    columns: tuple[str, ...]
    whole: bool

    def count(self) -> int: ...

    def chunks(self) -> int: ...

    def chunk(self, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


def _flat(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that hold one value per row, and whose names tell which they are."""
    return tuple(f.name for f in schema if not pa.types.is_nested(f.type) and schema.names.count(f.name) == 1)


class _ParquetTable:
    """A Parquet file. It is opened for as long as it is read: an export has up to 200 of them."""

    whole = True

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._opened() as file:
            self.columns = _flat(file.schema_arrow)
            self._rows, self._groups = int(file.metadata.num_rows), int(file.metadata.num_row_groups)

    def _opened(self) -> Any:
        return pq.ParquetFile(self._path, buffer_size=_BUFFER, pre_buffer=False)

    def count(self) -> int:
        return self._rows

    def chunks(self) -> int:
        return self._groups

    def chunk(self, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._opened() as file:
            yield from file.iter_batches(_BATCH_ROWS, row_groups=[number], columns=list(columns), use_threads=False)


class _ArrowTable:
    """An Arrow file, of the kind with or the kind without a footer; where a footer is lost, up to where it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._filed = file.read(len(ARROW_MAGIC)) == ARROW_MAGIC
        self.whole = True
        self._batches = 1
        schema = None
        if self._filed:
            try:
                with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
                    schema, self._batches = reader.schema, int(reader.num_record_batches)
            except DAMAGES:
                self.whole = False
        self._indexed = schema is not None
        if schema is None:
            with pa.OSFile(str(path)) as source, self._stream(source, None) as reader:
                schema = reader.schema
        self.columns = _flat(schema)
        self._places = {name: i for i, name in enumerate(schema.names)}

    def _stream(self, source: Any, options: Any) -> Any:
        if self._filed:
            source.seek(_STREAM_OFFSET)
        return pa.ipc.open_stream(source, options=options)

    def count(self) -> int:
        return sum(b.num_rows for n in range(self._batches) for b in self.chunk(n, self.columns[:1]))

    def chunks(self) -> int:
        return self._batches

    def chunk(self, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        options = pa.ipc.IpcReadOptions(included_fields=[self._places[c] for c in columns], use_threads=False)
        with pa.OSFile(str(self._path)) as source:
            if not self._indexed:
                with self._stream(source, options) as reader:
                    for batch in reader:
                        yield from _slices(batch, columns)
                return
            with pa.ipc.open_file(source, options=options) as reader:
                yield from _slices(reader.get_batch(number), columns)


def _slices(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns of a batch in pieces of 65,536 rows. Raises where offsets of a damaged file point outside of it."""
    safe = pa.RecordBatch.from_arrays([as_bytes(batch.column(c)) for c in columns], names=list(columns))
    safe.validate(full=True)
    for start in range(0, safe.num_rows, _BATCH_ROWS):
        yield safe.slice(start, _BATCH_ROWS)


class ColumnarSource:
    """A `Source` over files by table name, one or several for each. Files that cannot be opened count as damaged and are left out."""

    def __init__(self, files: Mapping[str, Sequence[Path]], notices: Notices, progress: Callable[[int], None] | None = None) -> None:
        self._notices = notices
        self._progress = progress
        self._read = 0
        self._sizes = {name: sum(p.stat().st_size for p in paths) for name, paths in files.items()}
        self._open: dict[str, list[_Table]] = {}
        self._ranges: list[tuple[_Table, int, int, int]] | None = None
        self._cut_short = False
        for name, paths in sorted(files.items()):
            for path in paths:
                try:
                    table = _opened(path)
                except DAMAGES:
                    self._damaged(name)
                    continue
                self._open.setdefault(name, []).append(table)
                if not table.whole:
                    self._damaged(name)
        self.tables: dict[str, tuple[str, ...]] = {name: tuple(dict.fromkeys(c for t in parts for c in t.columns)) for name, parts in self._open.items()}

    def _damaged(self, table: str) -> None:
        self._cut_short = True
        self._notices.add("table-damaged", about=table)

    @property
    def cut_short(self) -> bool:
        """See `Source.cut_short`: a file without its end cannot be told from one that is damaged otherwise."""
        return self._cut_short

    def finish(self) -> None:
        """Tells that everything was read."""
        if self._progress is not None:
            self._progress(sum(self._sizes.values()))

    def count(self, table: str) -> int:
        """See `Source.count`."""
        try:
            return sum(t.count() for t in self._open.get(table, ()))
        except DAMAGES:
            return 0

    def batches(self, table: str, fields: Sequence[Field], equals: tuple[str, int] | None = None) -> Iterator[pa.RecordBatch]:
        """See `Source.batches`."""
        done = self._read
        for part in self._open.get(table, ()):
            known = present(part.columns, fields)
            if not known or (equals is not None and equals[0] not in part.columns):
                continue
            wanted = dict.fromkeys([*(c for f in known for c in f.columns), *([equals[0]] if equals is not None else [])])
            for batch in self._raw(table, part, tuple(wanted)):
                chosen = batch if equals is None else batch.filter(pc.fill_null(pc.equal(self._column(batch, Field(equals[0]), table), equals[1]), False))
                if chosen.num_rows:
                    arrays = [self._column(chosen, f, table) if f in known else pa.nulls(chosen.num_rows, arrow_type(f.kind)) for f in fields]
                    yield pa.RecordBatch.from_arrays(arrays, names=[f.name for f in fields])
        if equals is None and table in self._sizes:
            self._read = done + self._sizes[table]
            if self._progress is not None:
                self._progress(min(self._read, sum(self._sizes.values())))

    def _raw(self, name: str, table: _Table, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            for number in range(table.chunks()):
                yield from table.chunk(number, columns)
        except DAMAGES:
            self._damaged(name)

    def _column(self, batch: pa.RecordBatch, f: Field, table: str) -> pa.Array:
        if f.product:
            values, bad = multiplied([converted(batch.column(c), "int")[0] for c in f.product])
        else:
            values, bad = converted(batch.column(f.name), f.kind)
        self._notices.add("bad-value", bad, table)
        return values

    def strings(self, ids: Collection[int]) -> dict[int, str]:
        """See `Source.strings`. Reads only chunks whose ids may be among `ids`."""
        found: dict[int, str] = {}
        if not {"id", "value"} <= set(self.tables.get("StringIds", ())) or not ids:
            return found
        wanted = pa.array(sorted(ids), pa.int64())
        first, last = wanted[0].as_py(), wanted[-1].as_py()
        try:
            if self._ranges is None:
                parts = [t for t in self._open["StringIds"] if {"id", "value"} <= set(t.columns)]
                self._ranges = [(t, n, *_id_range(t, n)) for t in parts for n in range(t.chunks())]
            for table, number, low, high in self._ranges:
                if low > last or high < first:
                    continue
                for batch in table.chunk(number, ("id", "value")):
                    numbers = converted(batch.column("id"), "int")[0]
                    mine = pc.is_in(numbers, wanted)
                    texts = converted(batch.column("value").filter(mine), "text")[0]
                    found.update((i, t) for i, t in zip(numbers.filter(mine).to_pylist(), texts.to_pylist(), strict=True) if t is not None)
        except DAMAGES:
            self._damaged("StringIds")
        return found


def _opened(path: Path) -> _Table:
    with path.open("rb") as file:
        magic = file.read(len(PARQUET_MAGIC))
    return _ParquetTable(path) if magic == PARQUET_MAGIC else _ArrowTable(path)


def _id_range(table: _Table, number: int) -> tuple[int, int]:
    """The smallest and the largest id of a chunk."""
    low, high = 1 << 63, -(1 << 63)
    for batch in table.chunk(number, ("id",)):
        ends = pc.min_max(converted(batch.column("id"), "int")[0])
        if ends["min"].is_valid:
            low, high = min(low, ends["min"].as_py()), max(high, ends["max"].as_py())
    return low, high
