"""The parser of ibdiagnet's tables (.db_csv), as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "IbdiagnetParser"]

_SECTION = re.compile(rb"^START_[A-Z][A-Z0-9_]*[ \t]*\r?\n(?=[^\n]{0,4000}\b(?:Node_?G[Uu][Ii][Dd]1?|NodeDesc)\b)[^\n]*,", re.MULTILINE)
_INDEX = re.compile(rb"^START_INDEX_TABLE[ \t]*\r?\nName,", re.MULTILINE | re.IGNORECASE)


class IbdiagnetParser:
    """Reads nodes, links, ports, cables and counters of a fabric from the tables that ibdiagnet writes."""

    name = "ibdiagnet"
    version = 1
    title = "InfiniBand fabric diagnosis (ibdiagnet db_csv)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES, CABLES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the form of the sections proves it
        """See `tracelab.plugins.Parser.sniff`."""
        found = _SECTION.search(head) is not None or _INDEX.search(head) is not None
        return Match(1.0, "sections of tables as ibdiagnet writes them") if found else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.ibdiagnet_reading import Reading

        return Reading(source, emit).run()


PARSER = IbdiagnetParser()
