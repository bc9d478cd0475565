"""The parser of Nsight Systems' SQLite exports, as the plugin registry knows it."""

from __future__ import annotations

from pathlib import Path

from tracelab.plugins import Emitter, Gathering, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COMM_RECORDS, COMMUNICATORS, COUNTER_SAMPLES, GPU_SPANS, HOST_SPANS, TableSpec
from tracelab_parsers.nsys.sniffing import sniff_export

__all__ = ["PARSER", "NsysSqliteParser"]


class NsysSqliteParser:
    """Reads exports that hold one or several processes: each that did GPU work is a part."""

    name = "nsys-sqlite"
    version = 4
    title = "Nsight Systems SQLite export"
    kind: SourceKind = "timeline"
    tables: tuple[TableSpec, ...] = (GPU_SPANS, HOST_SPANS, COMM_RECORDS, COMMUNICATORS, COUNTER_SAMPLES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`."""
        return sniff_export(path, head)

    def companions(self, path: Path) -> Gathering | None:
        """What SQLite left beside the file: a write-ahead log holds rows, a journal says that its writer died."""
        beside = tuple(p for suffix in ("-wal", "-journal") if (p := Path(f"{path}{suffix}")).is_file())
        return Gathering(path.parent, beside) if beside else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: some batches of 65,536 rows, 9 bytes per launch and GPU event, 100 bytes per NCCL kernel and range."""
        from tracelab_parsers.nsys.notices import Notices
        from tracelab_parsers.nsys.reading import read_export
        from tracelab_parsers.nsys.sqlite import SqliteSource

        notices = Notices()
        with SqliteSource(source.path, notices, emit.progress) as database:
            return read_export(database, emit, notices)


PARSER = NsysSqliteParser()
