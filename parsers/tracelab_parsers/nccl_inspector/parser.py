"""The parser of NCCL Inspector's records, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COMMUNICATORS, LOGGED_COLLECTIVES, NET_TRANSFERS, TableSpec

__all__ = ["PARSER", "NcclInspectorParser"]

_BOM = b"\xef\xbb\xbf"
_FORMAT = re.compile(rb'"inspector_output_format_version"\s*:')
_HEADER = re.compile(rb'\{\s*"header"\s*:\s*\{[^{}]*"n_ranks"\s*:')
_PERFORMANCE = re.compile(rb'"(?:coll_perf|p2p_perf)"\s*:\s*\{')


class NcclInspectorParser:
    """Reads the JSON lines of NCCL Inspector: every operation with its length, and with its start where the dump is verbose."""

    name = "nccl-inspector"
    version = 1
    title = "NCCL Inspector records"
    kind: SourceKind = "log"
    tables: tuple[TableSpec, ...] = (LOGGED_COLLECTIVES, NET_TRANSFERS, COMMUNICATORS)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 -- its files are named like any log
        """See `tracelab.plugins.Parser.sniff`."""
        text = head.removeprefix(_BOM).lstrip(b" \t\r\n\0")
        if not text.startswith(b"{"):
            return None
        if _FORMAT.search(text):
            return Match(0.95, "records that state the format version of NCCL Inspector")
        if _HEADER.match(text) and _PERFORMANCE.search(text):
            return Match(0.9, "records with header and performance as NCCL Inspector writes them")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: one line of at most 1 MiB and a batch of rows."""
        from tracelab_parsers.nccl_inspector.reading import Reading

        return Reading(source, emit).run()


PARSER = NcclInspectorParser()
