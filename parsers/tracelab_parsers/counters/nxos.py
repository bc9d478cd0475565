"""The parser of JSON outputs of Cisco NX-OS, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "NxosParser"]

_TABLE = re.compile(rb'"TABLE_(?:interface|(?:rx|tx)_counters|pfc\w*|queu\w+)"\s*:\s*[\[{]')
_FIELD = re.compile(rb'"(?:interface(?:_rx|_tx)?|if[_-]name[\w-]*)"\s*:\s*"')
_COUNTER = re.compile(rb'"(?:eth_\w+|vdc_lvl_\w+|svi_\w+|[rt]x_?ppp|\w*pause\w*|que-\w+|\w*-?drop\w*|state)"\s*:', re.IGNORECASE)


class NxosParser:
    """Reads `show interface … | json`: interfaces, counters, errors and priority flow control, one output or a session of several."""

    name = "nxos-json"
    version = 2
    title = "Cisco NX-OS show commands (JSON)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES, CABLES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - outputs are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        if _TABLE.search(head) is not None and _FIELD.search(head) is not None and _COUNTER.search(head) is not None:
            return Match(1.0, "tables of interfaces by the names of NX-OS")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.nxos_reading import Reading

        return Reading(source, emit).run()


PARSER = NxosParser()
