"""The parser of what SONiC's commands print, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "SonicCliParser"]

_TABLE = re.compile(
    rb"^ *(?:IFACE {2,}(?:STATE|RX_OK) |Port [RT]x {2,}PFC0 |Port {2,}(?:TxQ|Voq) |(?:TxQ|Voq) {2,}[A-Za-z]+/pkts |Port {2,}Priority {2,}RX Pause Transitions "
    rb"|Symbol Errors Per Codeword {2,}Codewords|Interface {2,}Lanes {2,}Speed {2,}MTU |QUEUE {2,}STATUS {2,}STORM DETECTED/RESTORED)[^\n]*\n *-{2,}[ -]*\r?$",
    re.MULTILINE,
)
_TITLE = re.compile(
    rb"^(?:Ingress (?:PG dropped packets|headroom per PG|shared pool occupancy per PG)|Egress shared pool occupancy per \w+ queues?"
    rb"|(?:Shared|Headroom) pool maximum occupancy): ?(?:\(Namespace [\w.-]+\))?\s*^ *(?:Port|Pool) +[A-Z]\w+",
    re.MULTILINE,
)
_DETAIL = re.compile(rb"^(?:Packets (?:Received|Transmitted) \d[\d-]* Octets|Total Packets Received Without Errors)\.{3,} ?[\dN]", re.MULTILINE)
_PORT = rb'"(?:[\w.-]+\|)*(?:Ethernet|PortChannel|\w+GigE)[\w/.:-]*"'
_JSON = re.compile(
    rb"^[ \t]*+(?:\{\s*+(?:"
    + _PORT
    + rb"\s*:\s*\{\s*(?:\"(?:cached_)?time\"\s*:\s*(?:\"[^\"]*\"|null)\s*,?\s*)*(?:\"(?:STATE|RX_OK|TRIM_\w+|FEC_\w+|RX_BPS|PG\d+)\"\s*:\s*\""
    rb"|\"(?:UC|MC|ALL|VOQ|CPU)\d+\"\s*:\s*\{\s*\"\w*(?:packet|bytes|Pkts)\")"
    rb"|\"(?:UC|MC|ALL|VOQ|CPU)\d+\"\s*:\s*\{\s*\"\w*(?:packet|bytes)\")"
    rb"|\[\s*\{\s*\"(?:Port\"\s*:\s*" + _PORT + rb"\s*,\s*\"(?:PG|UC|MC|ALL|VOQ|CPU)\d+|Pool\"\s*:\s*\"\w+\"\s*,\s*\"Bytes)\"\s*:)",
    re.MULTILINE,
)


class SonicCliParser:
    """Reads counters, watermarks and states of ports as `show`, `portstat`, `pfcstat`, `queuestat` and `watermarkstat` print them, text or JSON."""

    name = "sonic-cli"
    version = 2
    title = "SONiC show commands (text and JSON)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES, CABLES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - outputs are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        if _TABLE.search(head) is not None:
            return Match(1.0, "a table with the headings of a SONiC command")
        if _TITLE.search(head) is not None or _DETAIL.search(head) is not None:
            return Match(0.95, "an output with the titles of a SONiC command")
        return Match(0.95, "the JSON form of a SONiC command") if _JSON.search(head) is not None else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.sonic_cli_reading import Reading

        return Reading(source, emit).run()


PARSER = SonicCliParser()
