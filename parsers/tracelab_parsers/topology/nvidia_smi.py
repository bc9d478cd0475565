"""The parser of the matrix that `nvidia-smi topo -m` prints, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import ADAPTER_PATHS, TableSpec

__all__ = ["PARSER", "NvidiaSmiTopoParser"]

_HEADER = re.compile(rb"^(?:\x1b\[[\d;]*m|[ \t])*GPU0\b(?:(?:\x1b\[[\d;]*m|[ \t])+[A-Za-z][\w.:-]*)*[^\n]*$", re.MULTILINE)
_ROW = re.compile(rb"^[ \t]*GPU0[ \t]+X(?:[ \t]+(?:NV\d+|PIX|PXB|PHB|NODE|SYS|SOC))+[ \t]*", re.MULTILINE)
_ADAPTER = re.compile(rb"[ \t](?:NIC\d+|mlx\d_\w+|bnxt_re\w+|irdma\w+|efa_\w+|hfi1_\w+|rocep\w+|ibp\w+|rdmap\w+)\b")


class NvidiaSmiTopoParser:
    """Reads which adapter is how far from which GPU, with or without the legend of adapters."""

    name = "nvidia-smi-topo"
    version = 1
    title = "GPU topology (nvidia-smi topo -m)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (ADAPTER_PATHS,)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the matrix is told by its content
        """See `tracelab.plugins.Parser.sniff`."""
        header = _HEADER.search(head)
        if header is None or _ROW.search(head, header.end()) is None:
            return None
        if _ADAPTER.search(header[0]) or b"CPU Affinity" in header[0]:
            return Match(1.0, "a matrix of GPUs and adapters")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.topology.nvidia_smi_reading import Reading

        return Reading(source, emit).run()


PARSER = NvidiaSmiTopoParser()
