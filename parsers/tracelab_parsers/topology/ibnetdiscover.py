"""The parser of ibnetdiscover's outputs, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, INTERFACES, TableSpec

__all__ = ["PARSER", "IbnetdiscoverParser"]

_PLAIN = re.compile(rb'^(?:Switch|Ca|Rt)[ \t]+\d+[ \t]+"[SHR]-[0-9a-f]{16}"', re.MULTILINE)
_PORTS = re.compile(rb"^(?:CA|SW|RT) +\d+ +\d+ +0x[0-9a-f]{16} +(?:\d+x|\?\?) +(?:[SDQFEHNX]DR(?:10)?|\?\?\?)[ \r]", re.MULTILINE)


class IbnetdiscoverParser:
    """Reads the topology of an InfiniBand fabric: plain, grouped, full, or as the report of all ports (`-p`)."""

    name = "ibnetdiscover"
    version = 1
    title = "InfiniBand topology (ibnetdiscover)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (CABLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the form of the lines proves it
        """See `tracelab.plugins.Parser.sniff`."""
        if _PLAIN.search(head) is not None:
            return Match(1.0, "nodes and ports as ibnetdiscover prints them")
        return Match(1.0, "a port report as ibnetdiscover -p prints it") if _PORTS.search(head) is not None else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.topology.ibnetdiscover_reading import Reading

        return Reading(source, emit).run()


PARSER = IbnetdiscoverParser()
