"""The cache of parsed files: one folder per content, parser and options; a file that did not change is not read twice.

An entry holds nothing that depends on the directory, the rank map or the clocks, so one entry serves every place that
the same bytes lie in. It is written beside its final place and renamed into it: two runs that race both end well, and
a killed one leaves only a temporary folder that no reader ever looks at.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tracelab.errors import SchemaError, UsageError
from tracelab.plugins import Notice, Parser, SourceInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    import pyarrow.parquet as pq

    from tracelab.tables import TableSpec

__all__ = ["EntryWriter", "Store", "StoreError", "StoredSource", "content_key", "default_store_path", "entry_name", "joint_key"]

_LAYOUT = "2"
"""Raised when the layout of an entry changes; older entries are then simply not found."""
_ROW_GROUP = 100_000
"""Rows buffered per table before they are written: large enough for good compression, small against memory."""


_UNFINISHED = ".tmp-"
_ABANDONED_S = 86_400
"""No file takes a day to parse: an unfinished entry of that age belongs to a run that was killed."""


class StoreError(UsageError):
    """The cache cannot be written: no fault of the file that was being read."""


@contextlib.contextmanager
def _cache_faults(store: Store) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        hint = "free some space, or set TRACELAB_CACHE_DIR or --cache-dir to another folder"
        raise StoreError(f"the cache folder {store.root} cannot be written: {e.strerror or e}", hint=hint) from e


def default_store_path() -> Path:
    """`$TRACELAB_CACHE_DIR`, else the user's cache folder."""
    from platformdirs import user_cache_path

    override = os.environ.get("TRACELAB_CACHE_DIR")
    return Path(override) if override else user_cache_path("tracelab")


def content_key(path: Path) -> str:
    """Hash of the file's bytes (BLAKE2b, 160 bits)."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, lambda: hashlib.blake2b(digest_size=20)).hexdigest()


def joint_key(path: Path, companions: Sequence[Path], root: Path | None) -> str:
    """`content_key` of a file; where it is read with others below `root`, a hash over the names below it and the contents of all."""
    if root is None:
        return content_key(path)
    # what a file says may stand in its place below the root: an equal tree elsewhere has the same key, an equal file elsewhere in it has not
    joint = hashlib.blake2b(digest_size=20)
    for p in (path, *companions):
        joint.update(os.fsencode(os.path.relpath(p, root)) + b"\0" + content_key(p).encode() + b"\0")
    return joint.hexdigest()


def entry_name(key: str, parser: Parser, options: Mapping[str, bool | int | str]) -> str:
    """Name of the entry for a content as read by a parser with the options that matter to it."""
    relevant = {n: options[n] for n in sorted(parser.option_names) if options.get(n)}
    suffix = "-" + hashlib.blake2b(msgspec.json.encode(relevant), digest_size=4).hexdigest() if relevant else ""
    tables = hashlib.blake2b("|".join(f"{t.name}{t.version}" for t in parser.tables).encode(), digest_size=3).hexdigest()
    return f"{key}-{parser.name}-{parser.version}-{tables}{suffix}"


class StoredTable(msgspec.Struct, frozen=True):
    """A Parquet file of an entry. `digest` is its `content_key`: a cache that decays is found out, not believed."""

    rows: int
    digest: str


class StoredSource(msgspec.Struct, frozen=True):
    """What the store knows of one parsed file. `folder` holds `<table>.parquet` for each of `tables`."""

    folder: str
    info: SourceInfo
    notices: list[Notice]
    tables: dict[str, StoredTable]

    def path(self, table: str) -> Path:
        """The Parquet file of a table."""
        return Path(self.folder, f"{table}.parquet")


class Store:
    """A folder of entries."""

    def __init__(self, root: Path) -> None:
        self.root = root / f"store-{_LAYOUT}"

    def prepare(self) -> None:
        """Makes the folder and clears away what killed runs left. Raises `StoreError` where it cannot be written."""
        with _cache_faults(self):
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root) as probe:
                probe.write(b"\0")  # a full disk lets itself be opened
        for left in self.root.glob(f"*/{_UNFINISHED}*"):
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _ABANDONED_S:
                    shutil.rmtree(left)

    def folder(self, entry: str) -> Path:
        """Where the entry of that name is or would be."""
        return self.root / entry[:2] / entry

    def lookup(self, entry: str) -> StoredSource | None:
        """The entry, or None where it is absent or damaged (it is then written again).

        Reads the whole entry: about a hundredth of what the file itself is, which was read to find the entry.
        """
        folder = self.folder(entry)
        try:
            found = msgspec.json.decode((folder / "source.json").read_bytes(), type=StoredSource)
            whole = all(content_key(folder / f"{name}.parquet") == t.digest for name, t in found.tables.items())
        except (OSError, msgspec.DecodeError):
            return None
        return msgspec.structs.replace(found, folder=str(folder)) if whole and found.info.parts else None

    def writer(self, entry: str, on_progress: Callable[[int], None] | None = None) -> EntryWriter:
        """A context in which a parser fills the entry; see `EntryWriter`."""
        return EntryWriter(self, entry, on_progress)


class EntryWriter:
    """The emitter of one file: collects batches into Parquet and notices by code, then publishes all at once."""

    def __init__(self, store: Store, entry: str, on_progress: Callable[[int], None] | None) -> None:
        self._store, self._entry, self._on_progress = store, entry, on_progress
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._pending: dict[str, list[pa.RecordBatch]] = {}
        self._rows: dict[str, int] = {}
        self._notices: dict[str, Notice] = {}

    def __enter__(self) -> Self:
        target = self._store.folder(self._entry)
        with _cache_faults(self._store):
            target.parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=target.parent))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for writer in self._writers.values():
            with contextlib.suppress(OSError):
                writer.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def batch(self, table: TableSpec, batch: pa.RecordBatch) -> None:
        """Adds rows to a table; see `Emitter`."""
        if not batch.schema.equals(table.arrow):
            raise SchemaError(f"a batch for table {table.name!r} has the schema\n{batch.schema}\ninstead of\n{table.arrow}")
        pending = self._pending.setdefault(table.name, [])
        pending.append(batch)
        self._rows[table.name] = self._rows.get(table.name, 0) + batch.num_rows
        if sum(b.num_rows for b in pending) >= _ROW_GROUP:
            self._write(table.name, table.arrow)

    def notice(self, notice: Notice) -> None:
        """Merges a notice with those of the same code; see `Emitter`."""
        before = self._notices.get(notice.code)
        self._notices[notice.code] = notice if before is None else msgspec.structs.replace(before, count=before.count + notice.count)

    def progress(self, bytes_read: int) -> None:
        """Passes progress on; see `Emitter`."""
        if self._on_progress is not None:
            self._on_progress(bytes_read)

    def publish(self, info: SourceInfo) -> StoredSource:
        """Finishes the entry and moves it into place. Where another run was faster, its entry is taken."""
        for name, pending in self._pending.items():
            if pending:
                self._write(name, pending[0].schema)
        with _cache_faults(self._store):
            for writer in self._writers.values():
                writer.close()
            tables = {n: StoredTable(self._rows[n], content_key(self._folder / f"{n}.parquet")) for n in sorted(self._writers)}
            self._writers = {}
            source = StoredSource("", info, list(self._notices.values()), tables)
            (self._folder / "source.json").write_bytes(msgspec.json.encode(source))
            return self._move_into_place(source)

    def _move_into_place(self, source: StoredSource) -> StoredSource:
        """A folder cannot be replaced in one step: what stands in its place is taken if whole, else moved aside first."""
        target = self._store.folder(self._entry)
        try:
            self._folder.rename(target)
        except OSError:
            faster = self._store.lookup(self._entry)
            if faster is not None:
                return faster
            aside = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=target.parent))
            with contextlib.suppress(FileNotFoundError):
                target.rename(aside / "damaged")
            shutil.rmtree(aside, ignore_errors=True)
            self._folder.rename(target)
        return msgspec.structs.replace(source, folder=str(target))

    def _write(self, table: str, schema: pa.Schema) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with _cache_faults(self._store):
            if table not in self._writers:
                self._writers[table] = pq.ParquetWriter(self._folder / f"{table}.parquet", schema, compression="zstd", **_encodings(schema))
            self._writers[table].write_table(pa.Table.from_batches(self._pending[table], schema))
        self._pending[table] = []


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Dictionaries for names, differences for times and ids: a third faster to write and half the size of the defaults."""
    import pyarrow as pa

    names = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    numbers = {f.name: "DELTA_BINARY_PACKED" for f in schema if pa.types.is_int64(f.type)}
    return {"use_dictionary": names, "column_encoding": numbers}
