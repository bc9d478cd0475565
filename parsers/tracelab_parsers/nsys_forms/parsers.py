"""The parsers of the forms in which captures of Nsight Systems come, beside SQLite."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tracelab.errors import TracelabError
from tracelab.plugins import Emitter, Gathering, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import GPU_SPANS, HOST_SPANS, TableSpec
from tracelab_parsers.nsys.parser import PARSER as SQLITE

if TYPE_CHECKING:
    from tracelab_parsers.nsys_forms.notices import FormNotices

__all__ = ["FOLDER", "LINES", "RECIPE", "REPORT", "STATS", "NsysFolderParser", "NsysLinesParser", "NsysRecipeParser", "NsysReportParser", "NsysStatsParser"]

_SHARED = 1000 * SQLITE.version
"""Rows are made by what reads SQLite exports: where those change, these do."""
_REPORT_SUFFIXES = frozenset({".nsys-rep", ".qdrep", ".qdstrm"})


class _Form:
    """What all of them are alike."""

    version = _SHARED + 2
    kind: SourceKind = "timeline"
    tables: tuple[TableSpec, ...] = SQLITE.tables
    option_names: tuple[str, ...] = ()


class NsysStatsParser(_Form):
    """Reads the CSV reports of `nsys stats` that carry times; all that lie beside each other and are of one capture are one source."""

    name = "nsys-stats"
    title = "Nsight Systems CSV report (nsys stats)"

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`. Of the reports of one capture, one is claimed."""
        if not _may_be_text(head):
            return None
        from tracelab_parsers.nsys_forms.reports import PROJECTION, first_report, group_of
        from tracelab_parsers.nsys_forms.text import decoded_head

        report = first_report(decoded_head(head))
        if report is None or report == PROJECTION or group_of(path)[0] != path:
            return None
        from tracelab_parsers.nsys_forms.recipe import is_companion

        return None if is_companion(path) else Match(0.9, f"the header of the report {report} of nsys stats")

    def companions(self, path: Path) -> Gathering | None:
        """The other reports of the capture, for the one that stands for them."""
        from tracelab_parsers.nsys_forms.reports import group_of

        return _gathered(path, group_of(path)[1:])

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: as for an export, and 16 MB; needs room for as much as the file in the temporary folder."""
        from tracelab_parsers.nsys.reading import read_export
        from tracelab_parsers.nsys_forms.notices import FormNotices
        from tracelab_parsers.nsys_forms.stats import stats_source

        # what is not in reports is no fault of the capture
        notices = FormNotices(silent=frozenset({"no-payloads", "no-kernels", "no-kernels-but-launches", "no-runtime-calls", "no-ranges"}))
        beside = self.companions(source.path)
        paths = [source.path, *(p for p in (beside.files if beside is not None else ()) if p.is_file())]
        with stats_source(paths, notices, emit.progress) as (tables, cut):
            notices.add("report-only")
            info = read_export(tables, emit, notices)
        emit.progress(sum(p.stat().st_size for p in paths))
        # times of different captures count from different moments: ranks whose GPUs are numbered would be taken for one host with one clock
        parts = [msgspec.structs.replace(p, device=None) for p in info.parts]
        return msgspec.structs.replace(info, parts=parts, truncated=cut)


class NsysRecipeParser(_Form):
    """Reads the projection of NVTX ranges on the GPU that recipes of Nsight Systems (and `nsys stats`) make, with what lies beside it."""

    name = "nsys-recipe"
    title = "Nsight Systems projection of ranges on the GPU"
    tables: tuple[TableSpec, ...] = (GPU_SPANS, HOST_SPANS)

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`."""
        if head.startswith(b"PAR1"):
            from tracelab_parsers.nsys_forms.recipe import is_projection

            return Match(0.9, "the columns of the recipe nvtx_gpu_proj_trace") if is_projection(path) else None
        if not _may_be_text(head):
            return None
        from tracelab_parsers.nsys_forms.reports import PROJECTION, first_report, group_of
        from tracelab_parsers.nsys_forms.text import decoded_head

        if first_report(decoded_head(head)) != PROJECTION or group_of(path)[0] != path:
            return None
        return Match(0.9, "the header of the report nvtx_gpu_proj_trace")

    def companions(self, path: Path) -> Gathering | None:
        """What lies beside the report and is of the same capture."""
        from tracelab_parsers.nsys_forms.recipe import companions_of

        return _gathered(path, companions_of(path))

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: some batches of 65,536 rows, and the names of the ranges around collectives."""
        from tracelab_parsers.nsys_forms.notices import FormNotices
        from tracelab_parsers.nsys_forms.recipe import read_projection

        notices = FormNotices()
        info = read_projection(source.path, emit, notices)
        for notice in notices.all():
            emit.notice(notice)
        emit.progress(source.path.stat().st_size)
        return info


class NsysReportParser(_Form):
    """Reads reports that were not exported, by the export that lies beside one, or by having `nsys` make one."""

    name = "nsys-report"
    title = "Nsight Systems report"

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`. What a report is made of is known to its maker alone: the name has to do."""
        if path.suffix.lower() in _REPORT_SUFFIXES and not head.startswith(b"SQLite format 3\x00"):
            return Match(0.9, "a report of Nsight Systems, by its name")
        return None

    def companions(self, path: Path) -> Gathering | None:
        """The report's export to SQLite."""
        from tracelab_parsers.nsys_forms.exporting import exports_of

        return _gathered(path, exports_of(path))

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: as for an export; the export takes room in the temporary folder."""
        from tracelab_parsers.nsys_forms.exporting import exported, exported_beside, others_of
        from tracelab_parsers.nsys_forms.notices import FormNotices

        notices = FormNotices()
        beside = exported_beside(source.path, notices)
        if beside is not None:
            notices.add("exported-beside")
            return _read_sqlite(beside, emit, notices, source.path)
        if others_of(source.path):
            notices.add("exported-beside")
            for notice in notices.all():
                emit.notice(notice)
            return SourceInfo([])
        with exported(source.path, notices) as export:
            return _read_sqlite(export, emit, notices, source.path)


def _read_sqlite(export: Path, emit: Emitter, notices: FormNotices, report: Path) -> SourceInfo:
    """What an export says, with progress in terms of the report that it was made from."""
    from tracelab_parsers.nsys.reading import read_export
    from tracelab_parsers.nsys.sqlite import SqliteSource

    size, whole = report.stat().st_size, max(1, export.stat().st_size)
    with SqliteSource(export, notices, lambda n: emit.progress(size * min(n, whole) // whole)) as database:
        return read_export(database, emit, notices)


class NsysFolderParser(_Form):
    """Reads exports that are folders of Parquet or Arrow files. The table of texts stands for its folder; the others are its companions."""

    name = "nsys-parquet"
    title = "Nsight Systems export to a folder (Parquet or Arrow)"

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`."""
        from tracelab_parsers.nsys_forms.folders import MAGICS, anchor_of

        if not head.startswith(MAGICS) or anchor_of(path) != path:
            return None
        return Match(1.0, "a folder with the tables of Nsight Systems")

    def companions(self, path: Path) -> Gathering | None:
        """The other tables of the folder."""
        from tracelab_parsers.nsys_forms.folders import tables_beside

        return _gathered(path, tables_beside(path))

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: as for an SQLite export, and the largest group of rows of the table of texts."""
        from tracelab_parsers.nsys.reading import read_export
        from tracelab_parsers.nsys_forms.columnar import ColumnarSource
        from tracelab_parsers.nsys_forms.folders import tables_beside
        from tracelab_parsers.nsys_forms.notices import EXPORT_COMMAND, FormNotices

        notices = FormNotices()
        files = {p.stem: [p] for p in tables_beside(source.path)}
        tables = ColumnarSource(files, notices, emit.progress)
        if source.path.stem not in tables.tables and len(files) == 1:
            raise TracelabError("the file is no Parquet or Arrow file, or its end is lost", hint=f"export again: {EXPORT_COMMAND} report.nsys-rep")
        info = read_export(tables, emit, notices)
        tables.finish()
        return info


class NsysLinesParser(_Form):
    """Reads exports to JSON lines."""

    name = "nsys-jsonlines"
    title = "Nsight Systems export to JSON lines"

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`."""
        if not _may_be_text(head):
            return None
        from tracelab_parsers.nsys_forms.text import decoded_head

        text = decoded_head(head).lstrip()
        if not text.startswith("{"):
            return None
        from tracelab_parsers.nsys_forms.json_lines import looks_like_export

        return Match(0.9, "lines of events or tables of Nsight Systems") if looks_like_export(path, text) else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: as for an SQLite export, 16 MB, and the longest line; takes room in the temporary folder."""
        from tempfile import TemporaryDirectory

        from tracelab_parsers.nsys.reading import read_export
        from tracelab_parsers.nsys_forms.columnar import ColumnarSource
        from tracelab_parsers.nsys_forms.json_lines import write_tables
        from tracelab_parsers.nsys_forms.notices import EXPORT_COMMAND, FormNotices
        from tracelab_parsers.nsys_forms.writing import TableWriter

        notices = FormNotices()
        with TemporaryDirectory(prefix="tracelab-") as folder:
            writer = TableWriter(Path(folder))
            if not write_tables(source.path, writer, notices, emit.progress):
                raise TracelabError("the file holds no line of an export of Nsight Systems", hint=f"export again: {EXPORT_COMMAND} report.nsys-rep")
            writer.close()
            notices.add("unknown-lines", writer.refused)
            info = read_export(ColumnarSource(writer.files, notices), emit, notices)
        emit.progress(source.path.stat().st_size)
        return msgspec.structs.replace(info, truncated="cut-text" in notices)


def _may_be_text(head: bytes) -> bool:
    """Whether the first bytes are those of a text, or of one that is compressed by xz."""
    return b"\0" not in head[:512] or head.startswith((b"\xfd7zXZ", b"\xff\xfe", b"\xfe\xff"))


def _gathered(path: Path, others: Iterable[Path]) -> Gathering | None:
    """`path` with the others that exist, below the folder that holds them all."""
    found = tuple(sorted(p for p in others if p != path and p.is_file()))
    if not found:
        return None
    folders = [p.parent for p in (path, *found)]
    return Gathering(min(folders, key=lambda f: len(f.parts)), found)


FOLDER = NsysFolderParser()
LINES = NsysLinesParser()
RECIPE = NsysRecipeParser()
REPORT = NsysReportParser()
STATS = NsysStatsParser()
