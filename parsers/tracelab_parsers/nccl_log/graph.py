"""The topology as the library found it: its tree, the paths between devices, and the patterns that it searched for."""

from __future__ import annotations

import re

from tracelab.tables.logs import NODE_PATHS
from tracelab_parsers.nccl_log.fields import integer
from tracelab_parsers.nccl_log.line import LogLine, Rows

__all__ = ["GraphReader"]

_PATHS = frozenset({"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"})
_DEVICE = r"(?:GPU|PCI|NVS|CPU|NIC|NET|GIN)/[0-9A-Fa-f]{1,16}(?:-[0-9A-Fa-f]{1,16})?"
_SOURCE = re.compile(rf"({_DEVICE}) :")
# Entries are closed by their parenthesis: what a length limit cut in the middle is left out.
_PATH = re.compile(rf"({_DEVICE}) \(([0-9]{{1,6}})/([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)/([A-Z0-9]{{2,4}})\)")
_ROOT = re.compile(r"CPU/[0-9A-Fa-f-]{1,32} \(")
_BRANCH = re.compile(r"\+ [A-Z0-9]{2,6}\[[0-9.]{1,20}\] - ")
_PATTERN_ROW = re.compile(r"[0-9]{1,3} :(?: (?:GPU|NET|NIC|NVS|GIN)/|\s*$)")
_OTHERS = (
    "TOPO/NET",
    "ncclTopoPopulateNics",
    "Loading topology file",
    "Topology detection",
    "Attribute busid",
    "CUDA Dev ",
    "Intel CPU",
    "Retrieving state for",
    "Initialized state ",
    "Pattern ",
)


class GraphReader:
    """Knows the lines of the subsystem GRAPH except rings and trees; paths become rows of `node_paths`."""

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """`graph` for a line of the topology, else None."""
        if not line.level or line.level == "WARN":
            return None
        text = line.text.strip()
        first = text[:1]
        if first == "=":
            return "graph" if text.startswith("=== System") or (len(text) >= 8 and not text.strip("=")) else None
        if first == "+":
            return "graph" if _BRANCH.match(text) else None
        if first.isdigit():
            return "graph" if _PATTERN_ROW.match(text) else None
        if text[3:4] == "/":
            return self._device(text, line, rows)
        return "graph" if text.startswith(_OTHERS) else None

    def finish(self, rows: Rows) -> None:
        """Nothing is ever open: every line stands for itself."""

    @staticmethod
    def _device(text: str, line: LogLine, rows: Rows) -> str | None:
        source = _SOURCE.match(text)
        if source is None:
            return "graph" if _ROOT.match(text) else None
        src = _name(source[1])
        for entry in _PATH.finditer(text, source.end()):
            hops, path = integer(entry[2]), entry[4]
            if path in _PATHS:
                rows.add(NODE_PATHS, line, src=src, dst=_name(entry[1]), hops=hops, bandwidth_gb_per_s=float(entry[3]), path=path)
        return "graph"


def _name(device: str) -> str:
    """Versions before 2.21 print ids with capital digits, the later ones with small ones."""
    kind, _, number = device.partition("/")
    return f"{kind}/{number.lower()}"
