"""The parser of SLURM's topologies, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import CABLES, TableSpec

__all__ = ["PARSER", "SlurmParser"]

_CONF = re.compile(rb"^[ \t]*(?:SwitchName|BlockName)[ \t]*=[ \t]*\S[^\n#]*\b(?:Nodes|Switches)[ \t]*=[ \t]*[^\s=]", re.MULTILINE | re.IGNORECASE)
_YAML = re.compile(rb"^[ \t]*(?:-[ \t]+)?topology[ \t]*:[ \t]*\S", re.MULTILINE)
_YAML_LISTS = re.compile(rb"^[ \t]*(?:-[ \t]+)?(?:switches|blocks|rings)[ \t]*:[ \t]*(?:#.*|\[.*)?\r?$", re.MULTILINE)
_YAML_ITEMS = re.compile(rb"(?:^[ \t]*-[ \t]+|[{,][ \t]*)(?:switch|block|ring)[ \t]*:[ \t]*\S", re.MULTILINE)


class SlurmParser:
    """Reads which nodes and switches lie below which switch: topology.conf, `scontrol show topology`, topology.yaml."""

    name = "slurm-topology"
    version = 1
    title = "SLURM topology (topology.conf, topology.yaml)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (CABLES,)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - its words prove it
        """See `tracelab.plugins.Parser.sniff`."""
        if _CONF.search(head) is not None:
            return Match(1.0, "switches or blocks with their nodes, as SLURM names them")
        if _YAML.search(head) is not None and _YAML_LISTS.search(head) is not None and _YAML_ITEMS.search(head) is not None:
            return Match(0.95, "topologies of switches or blocks, as SLURM names them")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.topology.slurm_reading import Reading

        return Reading(source, emit).run()


PARSER = SlurmParser()
