"""The parser of perfquery's outputs, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, TableSpec

__all__ = ["PARSER", "PerfqueryParser"]

_BLOCK = re.compile(rb"^# [A-Z][\w ]{0,60}: (?:Lid \d+|DR path)[^\n]{0,200} port \d+[^\n]*\r?\n(?:PortSelect|CounterSelect|[A-Z]\w+):\.*", re.MULTILINE)
_FIELDS = re.compile(rb"^PortSelect:\.+\d+\r?\nCounterSelect:\.+0x[0-9a-fA-F]+\r?$", re.MULTILINE)


class PerfqueryParser:
    """Reads counters of InfiniBand ports: narrow, extended (`-x`), details of errors (`-E`); any number of ports and moments in a file."""

    name = "perfquery"
    version = 1
    title = "InfiniBand port counters (perfquery)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES,)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the form of the blocks proves it
        """See `tracelab.plugins.Parser.sniff`."""
        if _BLOCK.search(head) is not None:
            return Match(1.0, "blocks of counters under the heading of a port")
        return Match(0.95, "the fields of a port's counters") if _FIELDS.search(head) is not None else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.perfquery_reading import Reading

        return Reading(source, emit).run()


PARSER = PerfqueryParser()
