"""What lies around the report of a recipe: which process and GPU it is of, and the other reports of the same capture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from tracelab.errors import TracelabError
from tracelab.plugins import Emitter, Notice, SourceInfo
from tracelab.tables import HOST_SPANS, TableSpec
from tracelab_parsers.nsys.reading import read_export
from tracelab_parsers.nsys.source import Field
from tracelab_parsers.nsys_forms.columnar import DAMAGES, PARQUET_MAGIC, ColumnarSource
from tracelab_parsers.nsys_forms.notices import EXPORT_COMMAND, FormNotices
from tracelab_parsers.nsys_forms.projection import TABLE, Identity, Projection, columns_of
from tracelab_parsers.nsys_forms.reports import PROJECTION, column_name, group_of, read_rows
from tracelab_parsers.nsys_forms.stats import stats_source
from tracelab_parsers.nsys_forms.writing import TableWriter

__all__ = ["companions_of", "is_companion", "is_projection", "read_projection"]

_FILES, _DEVICES = "files.parquet", "device-metadata.parquet"
_BESIDE = ("device-metadata.parquet", "system-metadata.parquet", "thread-metadata.parquet")
"""What nsys-jax writes into the folder of a process, around those of its recipes."""
_HOST_REPORT = re.compile(r".*(?:nvtx_pushpop_trace|nvtx_startend_trace|cuda_api_trace)\.csv(?:\.xz|\.gz)?", re.DOTALL)
_XLA = re.compile(r"#global=(\d{1,6})\b")
_RANK = re.compile(r"(?<![a-z])rank[-_=.]{0,2}(\d{1,6})(?!\d)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d{1,6})\D*$")
_NUMERIC = ("projstart", "projduration", "origstart", "origduration", "pid", "tid", "operations", "children", "range", "parent", "rank")
_MOST_FILES = 100_000


def _fields(names: list[str]) -> dict[str, Field] | None:
    by_alias: dict[str, str] = {}
    for name in names:
        by_alias.setdefault(column_name(name)[0], name)
    return columns_of(by_alias)


def is_projection(path: Path) -> bool:
    """Whether a Parquet file is the report of nvtx_gpu_proj_trace."""
    try:
        return path.is_file() and _fields(pq.read_schema(path).names) is not None  # opening a pipe could block for ever
    except DAMAGES:
        return False


def is_companion(path: Path) -> bool:
    """Whether a CSV report is read with the recipe's report in the folder beside it."""
    home = path.parent
    return (home / _DEVICES).is_file() and _HOST_REPORT.fullmatch(path.name) is not None and any(map(is_projection, home.glob("nvtx_gpu_proj_trace/*.parquet")))


def companions_of(path: Path) -> list[Path]:
    """What says more about the processes of the report, and the reports of their host side."""
    if path.suffix != ".parquet":
        first, *others = group_of(path)
        return others if first == path else []
    found = [path.parent / _FILES, *sorted(path.parent.glob("*.nsys-analysis"))]
    home = path.parent.parent
    if (home / _DEVICES).is_file():
        found += [home / name for name in _BESIDE] + sorted(p for p in home.iterdir() if _HOST_REPORT.fullmatch(p.name))
    return found


@dataclass
class _HostOnly:
    """Passes on the rows of the host of one process."""

    emit: Emitter
    part: int | None = None

    def batch(self, table: TableSpec, batch: pa.RecordBatch) -> None:
        if table.name == HOST_SPANS.name:
            self.emit.batch(table, batch)

    def notice(self, notice: Notice) -> None:
        if notice.code in {"bad-line", "bad-number", "ragged-row", "cut-text", "unknown-report", "duplicate-column", "bad-time", "inverted-time"}:
            self.emit.notice(notice)

    def progress(self, bytes_read: int) -> None:
        pass


def read_projection(path: Path, emit: Emitter, notices: FormNotices) -> SourceInfo:
    """Emits all rows of the report and those of the host in the reports beside it. Raises `TracelabError` where it is none."""
    beside = [p for p in companions_of(path) if p.is_file()]
    reports = [p for p in beside if _HOST_REPORT.fullmatch(p.name)]
    with _tables(path, notices, emit.progress) as (source, fields, units):
        if fields is None:
            raise TracelabError(
                "the file is no whole report of nvtx_gpu_proj_trace", hint=f"run the recipe again, or export the capture: {EXPORT_COMMAND} report.nsys-rep"
            )
        identity = _identity(path, source, fields, notices)
        alone = len(_numbers(source, fields, "rank")) <= 1 and len(_numbers(source, fields, "pid")) == 1
        projection = Projection(source, fields, units, identity, notices, host_elsewhere=alone and bool(reports))
        projection.read(emit)
        if projection.host_elsewhere:
            _host_side(reports, projection, emit)
        elif reports:
            notices.add("redundant-report", len(reports))
    notices.add("report-only")
    return projection.info()


def _host_side(reports: list[Path], projection: Projection, emit: Emitter) -> None:
    """The host's rows of the one process of a projection."""
    quiet = FormNotices()
    with stats_source(reports, quiet) as (tables, _):
        info = read_export(tables, _HostOnly(emit), quiet)
    (own,) = projection.parts.values()
    for other in info.parts:
        if other.start_ns is not None and other.end_ns is not None and own.start_ns is not None and own.end_ns is not None:
            own.start_ns, own.end_ns = min(own.start_ns, other.start_ns), max(own.end_ns, other.end_ns)
    for count in info.event_counts:
        (projection.stored if count.stored else projection.lost)[count.kind] += count.count


@contextmanager
def _tables(path: Path, notices: FormNotices, progress: Callable[[int], None]) -> Iterator[tuple[ColumnarSource, dict[str, Field] | None, Mapping[str, int]]]:
    """The report as a table, the fields of its columns, and their units. A CSV is written to a temporary file first."""
    with path.open("rb") as file:
        magic = file.read(len(PARQUET_MAGIC))
    if magic == PARQUET_MAGIC:
        source = ColumnarSource({TABLE: [path]}, notices, progress)
        names = source.tables.get(TABLE, ())
        yield source, _fields(list(names)), {column_name(n)[0]: column_name(n)[1] for n in names}
        return
    with TemporaryDirectory(prefix="tracelab-") as folder:
        writer = TableWriter(Path(folder))
        for header, row in read_rows(path, notices):
            if header.report != PROJECTION:
                notices.add("redundant-report")
                continue
            entry: dict[str, int | str | None] = {"name": row["name"] or None}
            for column in _NUMERIC:
                if column in row:
                    try:
                        entry[column] = header.number(row, column)
                    except ValueError:
                        notices.add("bad-number")
            writer.add(TABLE, entry, len(row["name"]))
        writer.close()
        source = ColumnarSource(writer.files, notices)
        yield source, _fields(list(source.tables.get(TABLE, ()))), {}
        progress(path.stat().st_size)


def _numbers(source: ColumnarSource, fields: Mapping[str, Field], name: str) -> set[int]:
    """The different numbers in a column."""
    found: set[int] = set()
    for batch in source.batches(TABLE, [fields[name]]) if name in fields else ():
        found |= set(batch.column(0).unique().drop_null().to_pylist()[:_MOST_FILES])
    return found


def _identity(path: Path, source: ColumnarSource, fields: Mapping[str, Field], notices: FormNotices) -> Identity:
    """Ranks and GPU. The report numbers its input files and calls that a rank: it is one only where there are several."""
    files = sorted(_numbers(source, fields, "rank")) or [0]
    devices = _column(path.parent.parent / _DEVICES, ("TARGET_INFO_NVTX_CUDA_DEVICE", "name"))
    xla = [int(m[1]) for d in devices if (m := _XLA.search(d))]
    models = set(_column(path.parent.parent / _DEVICES, ("TARGET_INFO_GPU", "name")))
    gpu = next(iter(models))[:100] if len(models) == 1 else None
    if len(files) == 1:
        ordinals = _column(path.parent.parent / _DEVICES, ("cuDevice",))
        device = int(ordinals[0]) if len(ordinals) == 1 and ordinals[0].isascii() and ordinals[0].isdigit() and len(ordinals[0]) < 4 else None
        named = [int(m[1]) for n in _column(path.parent / _FILES, ("File",)) if (m := _RANK.search(n))]
        stated = xla if len(xla) == 1 else named
        return Identity({files[0]: stated[0]} if len(stated) == 1 else {}, device, gpu)
    names = _column(path.parent / _FILES, ("File",))
    for pattern in (_RANK, _LAST_NUMBER):
        told = [int(m[1]) for n in names if (m := pattern.search(n))]
        # any other number at the end may be that of a host or a step
        numbered = pattern is _RANK or sorted(told) == list(range(len(names)))
        if numbered and len(told) == len(names) and len(set(told)) == len(names) > files[-1] >= files[0] >= 0:
            return Identity({f: told[f] for f in files}, None, gpu)
    notices.add("rank-is-order", len(files))
    return Identity({f: f for f in files}, None, gpu)


def _column(path: Path, name: tuple[str, ...]) -> list[str]:
    """The texts of a column of a small table; none where it cannot be read. Pandas writes names of two levels as a tuple."""
    wanted = {name[0], str(name)} if len(name) == 1 else {str(name)}
    if not path.is_file():
        return []
    try:
        file = pq.ParquetFile(path)
        column = next((n for n in file.schema_arrow.names if n in wanted), None)
        if column is None:
            return []
        found = next(file.iter_batches(_MOST_FILES, columns=[column], use_threads=False), None)
    except DAMAGES:
        return []
    return [str(v)[:1000] for v in found.column(0).to_pylist() if v is not None] if found is not None else []
