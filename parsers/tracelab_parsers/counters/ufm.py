"""The parser of UFM's telemetry, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, TableSpec

__all__ = ["PARSER", "UfmParser"]

_JSON = re.compile(rb'"values"\s*:\s*\[\s*\{[^{}]{0,4096}"(?:node_guid|sys_image_guid)"\s*:\s*"', re.IGNORECASE)
_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?#?[\w. -]{0,64}(?:,[^,\r\n]{0,128}){4,}\r?\n")
_COLUMNS = ({b"timestamp"}, {b"node_guid", b"sys_image_guid"}, {b"port_num", b"port_number", b"aport"})


class UfmParser:
    """Reads counters of all ports of a fabric as UFM streams them (JSON) or serves them (CSV)."""

    name = "ufm-telemetry"
    version = 2
    title = "UFM telemetry (JSON or CSV)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES,)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - messages and columns prove it
        """See `tracelab.plugins.Parser.sniff`."""
        header = _HEADER.match(head)
        if header is not None:
            columns = {c.strip().strip(b'"').lower() for c in header[0].lstrip(b"\xef\xbb\xbf#").split(b",")}
            return Match(1.0, "rows of counters by GUID and port") if all(columns & c for c in _COLUMNS) else None
        if head.lstrip()[:1] in (b"{", b"[") and _JSON.search(head) is not None and b'"timestamp"' in head:
            return Match(1.0, "messages of counters by GUID and port")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.ufm_reading import Reading

        return Reading(source, emit).run()


PARSER = UfmParser()
