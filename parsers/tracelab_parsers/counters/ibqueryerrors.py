"""The parser of ibqueryerrors' reports, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "IbqueryerrorsParser"]

_PORT = re.compile(rb"^ *GUID 0x[0-9a-f]{1,16} port (?:\d+|ALL):(?: \[\w+ == \d+|\s*$)", re.MULTILINE)
_SUMMARY = re.compile(rb"^## Summary: \d+ nodes checked, \d+ bad nodes found", re.MULTILINE)


class IbqueryerrorsParser:
    """Reads which ports of a fabric have errors, how many, and what they are connected with (`-r`)."""

    name = "ibqueryerrors"
    version = 1
    title = "InfiniBand errors of all ports (ibqueryerrors)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, CABLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the form of the lines proves it
        """See `tracelab.plugins.Parser.sniff`."""
        found = _PORT.search(head) is not None or _SUMMARY.search(head) is not None
        return Match(1.0, "ports and errors as ibqueryerrors prints them") if found else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.ibqueryerrors_reading import Reading

        return Reading(source, emit).run()


PARSER = IbqueryerrorsParser()
