"""The parser of dumps of SONiC's databases, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "SonicDbParser"]

_KEY = re.compile(
    rb'[{,]\s*"(?:(?:COUNTERS|RATES|(?:USER|PERSISTENT|PERIODIC)_WATERMARKS):oid:(?:0x)?[0-9a-f]+'
    rb"|COUNTERS_(?:PORT|QUEUE|PG|SWITCH|BUFFER_POOL|SYSTEM_PORT|VOQ|RIF|LAG|FABRIC_PORT)_(?:NAME|TYPE|PORT|INDEX)_MAP|CRM:[A-Z_]*STATS(?::[\w:]*)?"
    rb"|PORT_TABLE[:|]Ethernet[\d/-]+|PORT\|Ethernet[\d/-]+|LLDP_ENTRY_TABLE:\w+|TRANSCEIVER_\w+\|Ethernet[\d/-]+|DEVICE_NEIGHBOR\|\w+)\"\s*:\s*\{"
)
_PORTS = re.compile(rb'"PORT"\s*:\s*\{\s*"Ethernet[\w/-]+"\s*:\s*\{[^{}]*"(?:lanes|alias|speed)"\s*:')
_PREAMBLE = re.compile(rb"(?:\xef\xbb\xbf)?(?:[^\n{]{0,512}\n){0,20}?\s*\{")


class SonicDbParser:
    """Reads `sonic-db-dump`, `redis-dump` and `config_db.json`: COUNTERS_DB, and the ports, cables and neighbours of the other databases."""

    name = "sonic-db"
    version = 2
    title = "SONiC database dump (COUNTERS_DB and others)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES, CABLES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - dumps are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        if _PREAMBLE.match(head) is None:
            return None
        if _KEY.search(head) is not None:
            return Match(1.0, "keys of SONiC's databases")
        if _PORTS.search(head) is not None:
            return Match(0.95, "a table of ports as SONiC's configuration holds it")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Reads the file twice: names may stand behind what they name."""
        from tracelab_parsers.counters.sonic_db_reading import Reading

        return Reading(source, emit).run()


PARSER = SonicDbParser()
