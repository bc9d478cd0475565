"""The parser of LLDP neighbours, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, INTERFACES, TableSpec

__all__ = ["PARSER", "LldpParser"]

_JSON = re.compile(
    rb'"lldp"\s*:\s*(?:\{\s*\}|[\[{]\s*\{?\s*"interface"\s*:)|"lldpNeighbors"\s*:\s*[\[{]|"TABLE_nbor(?:_detail)?"\s*:\s*\{\s*"ROW_nbor(?:_detail)?"\s*:'
)
_TEXT = re.compile(
    rb"^lldp\.[^\s=]+\.(?:via|rid|age|chassis|port|vlan)[^\s=]*=[^\n]*$"
    rb"|^Interface: +\S+, via: (?:LLDP|CDP|EDP|FDP|SONMP|unknown)"
    rb"|^LocalPort +RemoteDevice +RemotePortID[^\n]*\n-{2,}[ -]*"
    rb"|^Device ID +Local Intf +Hold-time +Capability +Port ID"
    rb"|^ *Port +Neighbor Device ID +Neighbor Port ID +TTL",
    re.MULTILINE,
)
_OTHERS = re.compile(
    rb"^ *(?:IFACE +(?:STATE|RX_OK) |Port [RT]x +PFC0 |Port +(?:TxQ|Voq) |Interface +Lanes +Speed )"
    rb'|"(?:interfaceCounters|interfaceStatuses|TABLE_interface)"\s*:'
    rb'|"(?:COUNTERS:oid|COUNTERS_PORT_NAME_MAP|LLDP_ENTRY_TABLE:)',
    re.MULTILINE,
)


class LldpParser:
    """Reads what machines hear of their neighbours: lldpctl (JSON, json0, keyvalue, plain), and the commands of EOS, NX-OS and SONiC."""

    name = "lldp"
    version = 2
    title = "LLDP neighbours (lldpctl, show lldp)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (CABLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - neighbours are told by their content
        """See `tracelab.plugins.Parser.sniff`. Files that hold counters too are other parsers'."""
        if _OTHERS.search(head) is not None:
            return None
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if _JSON.search(head) is not None and (start in (b"{", b"[") or b"lldp" in head[:4096]):
            return Match(1.0, "LLDP neighbours as JSON")
        return Match(0.95, "LLDP neighbours as text") if _TEXT.search(head) is not None else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.topology.lldp_reading import Reading

        return Reading(source, emit).run()


PARSER = LldpParser()
