"""The parser of wiring tables, as the plugin registry knows it."""

from __future__ import annotations

from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, INTERFACES, TableSpec

__all__ = ["PARSER", "WiringTableParser"]

_ROWS = 5


class WiringTableParser:
    """Reads tables that people keep of what is plugged where: hosts and switch ports, adapters of hosts, links between switches."""

    name = "wiring-table"
    version = 1
    title = "wiring table (CSV, TSV)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (CABLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - tables are told by their headings
        """See `tracelab.plugins.Parser.sniff`."""
        if b"\0" in head or head.lstrip()[:1] in (b"{", b"[", b"<"):
            return None
        from tracelab_parsers.topology.wiring_rows import head_of, split

        lines = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").splitlines()
        begin = head_of(lines)
        if begin is None:
            return None
        rows = [split(line, begin.separator) for line in lines[begin.line : begin.line + _ROWS] if line.strip()]
        whole = sum(len(row) == len(begin.columns.ends) for row in rows)
        if not rows or whole * 2 < len(rows):
            return None
        return Match(0.9, f"a table of {'links' if begin.columns.form == 'links' else 'hosts and their adapters'} by its headings")

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.topology.wiring_reading import Reading

        return Reading(source, emit).run()


PARSER = WiringTableParser()
