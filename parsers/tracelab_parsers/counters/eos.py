"""The parser of JSON outputs of Arista EOS, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "EosParser"]

_PORT = rb'"(?:Ethernet|Management|Port-Channel)\d[\d/.]*"\s*:\s*\{'
_FORM = re.compile(
    rb'"counterRefreshTime"\s*:\s*\d|"(?:interfaceErrorCounters|interfaceStatuses|interfaceCounters)"\s*:\s*\{\s*'
    + _PORT
    + rb'|"(?:egressQueueCounters|ingressVoqCounters)"\s*:\s*\{\s*"interfaces"\s*:'
    + rb'|"interfaces"\s*:\s*\{\s*'
    + _PORT
    + rb'\s*+(?>"\w++"\s*+:\s*+(?:"(?:[^"\\\n]|\\.){0,200}+"|[^"{}\[\],]{0,200}+)\s*+,\s*+){0,20}?'
    + rb'"(?:in(?:Octets|UcastPkts|Discards|BpsRate)|outDiscards|interfaceCounters|rxPower)"\s*:'
)


class EosParser:
    """Reads `show interfaces`, its counters, errors, discards, rates, queues and priority flow control as JSON, one output or a session of several."""

    name = "eos-json"
    version = 2
    title = "Arista EOS show commands (JSON)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES, CABLES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - outputs are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        return Match(1.0, "interfaces and counters by the names of EOS") if _FORM.search(head) is not None else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.eos_reading import Reading

        return Reading(source, emit).run()


PARSER = EosParser()
