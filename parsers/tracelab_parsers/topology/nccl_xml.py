"""The parser of NCCL's topology in XML, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import ADAPTER_PATHS, INTERFACES, TableSpec

__all__ = ["PARSER", "NcclTopologyParser"]

_SYSTEM = re.compile(rb"<system\b[^<>]*>\s*+(?:<!--(?:(?!-->).)*+-->\s*+)*+<cpu\b[^<>]*\bnumaid\s*=", re.DOTALL)
_GRAPHS = re.compile(rb"<graphs\b[^<>]*>\s*+(?:<!--(?:(?!-->).)*+-->\s*+)*+<graph\b[^<>]*\bpattern\s*=", re.DOTALL)


class NcclTopologyParser:
    """Reads what NCCL dumps of a machine (NCCL_TOPO_DUMP_FILE) and what providers give it (NCCL_TOPO_FILE); names files of search graphs."""

    name = "nccl-topology"
    version = 1
    title = "NCCL topology (XML)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (ADAPTER_PATHS, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - topologies are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        if not head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
            return None
        if _SYSTEM.search(head) is not None:
            return Match(1.0, "the tree of a machine as NCCL writes it")
        return Match(1.0, "search graphs as NCCL writes them (NCCL_GRAPH_DUMP_FILE)") if _GRAPHS.search(head) is not None else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.topology.nccl_xml_reading import Reading

        return Reading(source, emit).run()


PARSER = NcclTopologyParser()
