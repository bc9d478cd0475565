"""The parser of RAS reports, as the plugin registry knows it."""

from __future__ import annotations

from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COMM_PROGRESS, LOG_EVENTS, LOG_SETTINGS, TableSpec
from tracelab_parsers.nccl_ras.sniffing import sniff_report

__all__ = ["PARSER", "NcclRasParser"]


class NcclRasParser:
    """Reads what `ncclras` or its port print: status reports as text (NCCL 2.24 and later) and JSON (2.28.7), and monitor events (2.29)."""

    name = "nccl-ras"
    version = 1
    title = "NCCL RAS report (ncclras)"
    kind: SourceKind = "log"
    tables: tuple[TableSpec, ...] = (COMM_PROGRESS, LOG_EVENTS, LOG_SETTINGS)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - reports are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        return sniff_report(head)

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: about ten times the JSON text of one communicator, which may have 64 MiB.

        Raises `TracelabError` where the file holds no report.
        """
        from tracelab_parsers.nccl_ras.reading import Reading

        return Reading(source, emit).run()


PARSER = NcclRasParser()
