"""What kind of message it is, where no reader takes more from it; and the shape of one that nobody knows."""

from __future__ import annotations

import re

from tracelab_parsers.nccl_log.line import LogLine, Rows

__all__ = ["KindReader", "shape"]

_FIRST_WORDS = {
    "threadThresholds": "thresholds",
    "Connected": "connected",
    "proxyProgressAsync": "proxy",
    "ncclPollProxyResponse": "proxy",
    "Allocated": "alloc",
    "Received": "proxy",
    "New": "proxy",
    "Mem": "alloc",
    "MemManager:": "alloc",
    "MMAP": "shm",
    "RAS": "ras",
    "TOPO/NET": "topology",
    "Retrieving": "topology",
    "Initialized": "plugin",
    "Assigned": "plugin",
    "UDS:": "proxy",
    "dlvsym": "library",
    "dlopen": "library",
    "register": "register",
    "deregister": "register",
    "NVLS": "nvls",
    "MNNVL": "mnnvl",
    "PXN": "p2p",
    "Bootstrap": "bootstrap",
    "Init": "init",
    "CC": "init",
    "CGA": "init",
    "GDRCOPY": "memory",
    "GDRDMA": "memory",
    "Launch": "setting",
    "Launching": "launch",
    "Destroy": "destroy",
    "ncclCommFinalize": "destroy",
}
_STARTS = (
    (re.compile(r"resp\.opId|opId|.{0,40}\bproxy|\[Proxy (?:Service|Progress)|\[Service thread\]", re.IGNORECASE), "proxy"),
    (
        re.compile(
            r"P2P (?:Chunksize|is|Type|disabled)|Check P2P|.{0,40}\bisAllDirectP2p|Could not enable P2P|P2P plane|.{0,80}\bpeer access|Forcing p2p",
            re.IGNORECASE,
        ),
        "p2p",
    ),
    (re.compile(r"\S+\.(?:cc|cpp|h|cu):\d+ (?:Cuda|CUDA|memory|malloc|cu|Hip|Free|NCCL)", re.IGNORECASE), "alloc"),
    (re.compile(r"(?:Bootstrap|bootstrap)|.{0,30}\bbootstrap"), "bootstrap"),
    (re.compile(r"NVLS|.{0,60}\b(?:multicast|nvls)", re.IGNORECASE), "nvls"),
    (re.compile(r"MNNVL|.{0,60}\b(?:clique|fabric)", re.IGNORECASE), "mnnvl"),
    (re.compile(r"RAS\b|.{0,30}\bncclRas|ras(?:Net|Client|Conn|Link|Coll)"), "ras"),
    (
        re.compile(
            r"(?:GIN|RMA|ENV|TUNER|PROFILER|NET|CollNet)/?(?:Plugin|plugin)|.{0,60}\bplugin|(?:Loaded|Using) .{0,60}(?:tuner|profiler|symbol)", re.IGNORECASE
        ),
        "plugin",
    ),
    (
        re.compile(r"(?:ncclTopo|Topology|topology|Loading (?:unnamed )?topology|Ignoring topo|KV|Attribute)|.{0,60}\btopo(?:logy)?\b", re.IGNORECASE),
        "topology",
    ),
    (re.compile(r".{0,80}(?:cuMem|cumem|CUMEM|shareable|VMM|[Hh]ost [Aa]lloc|fifo|[Aa]llocat|malloc|ncclMem)"), "alloc"),
    (re.compile(r".{0,60}\b(?:dma-?buf|gdr(?:copy)?|nv_?peermem|peer memory)\b", re.IGNORECASE), "memory"),
    (re.compile(r".{0,60}(?:/dev/shm|\bSHM\b|shared memory)", re.IGNORECASE), "shm"),
    (re.compile(r".{0,60}\b(?:de)?regist(?:er|ration|ered|ering)", re.IGNORECASE), "register"),
    (re.compile(r"(?:CollNet|COLLNET|SHARP|.{0,40}\bcollnet|Coll ?net)", re.IGNORECASE), "collnet"),
    (re.compile(r"(?:Ring|Tree|Trees|Channel|Chain|Intra|rank) \d|Trees \[|Channels? "), "channel"),
    (re.compile(r"(?:Symmetric|symmetric|.{0,60}\bsymm(?:etric)?\b|.{0,40}\bwindow|.{0,40}\bdevComm|LSA)", re.IGNORECASE), "symmetric"),
    (re.compile(r"(?:CUDA|Cuda|cuda|HIP|hip|Driver|driver|ROCr?)[ :]|.{0,40}\b(?:dlopen|dlsym|lib\w+\.so|symbol)"), "library"),
    (re.compile(r".{0,60}\b(?:NUMA|CPU|affinity|core)\b", re.IGNORECASE), "affinity"),
    (re.compile(r".{0,60}\b(?:kernel|launch|graph|stream|work ?fifo|blocks)\b", re.IGNORECASE), "launch"),
    (re.compile(r"(?:NET|IB|Net|OOB|GPU Direct|GPUDirect)\b|.{0,60}\b(?:socket|listening|interface|mlx5_\d|NIC|HCA)\b"), "net"),
    (re.compile(r"(?:NCCL|RCCL)_\w+|.{0,60}\b(?:environment|config|set to|enabled|disabled)\b"), "setting"),
    (re.compile(r".{0,80}\bcomm(?:unicator)? (?:0x|\()"), "comm"),
    (re.compile(r"\S+\.(?:cc|cpp|h|cu):\d+ -> \d+"), "stack"),
)

_BLANKS = (
    (re.compile(r"0x[0-9a-fA-F.]+"), "P"),
    (re.compile(r"\b[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2,4}){2,7}\b(?:\.\d)?"), "A"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{6,}\b"), "P"),
    (re.compile(r"\d+"), "N"),
)
_SHAPE = 160


class KindReader:
    """Classifies every message of the library that is left; `unknown` where nothing fits."""

    def take(self, line: LogLine, rows: Rows) -> str | None:  # noqa: ARG002 -- the interface of all readers
        """See `LineReader.take`."""
        if not line.level:
            return None
        if line.level == "CALL":
            return "call"
        if line.level == "TRACE":
            return "trace"
        text = line.text.lstrip()
        kind = _FIRST_WORDS.get(text.partition(" ")[0])
        if kind is not None:
            return kind
        head = text[:200]
        for pattern, name in _STARTS:
            if pattern.match(head):
                return name
        return "empty" if not text else None

    def finish(self, rows: Rows) -> None:
        """See `LineReader.finish`: nothing stays open."""


def shape(text: str) -> str:
    """The text with numbers and addresses blanked, bounded: messages of one kind share it."""
    out = text[: 2 * _SHAPE]
    for pattern, blank in _BLANKS:
        out = pattern.sub(blank, out)
    return out[:_SHAPE].strip()
