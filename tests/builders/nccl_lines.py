"""A second, strict reader of the few NCCL lines that rings and trees are told by; shares no code with the product's parser."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tests.builders.frames import frame
from tracelab.tables import CHANNEL_EDGES, COMMUNICATORS, NET_DEVICES, RING_ORDERS, TableSpec

__all__ = ["read_lines"]

_LINE = re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] NCCL INFO (?P<text>.*)$")
_INIT = re.compile(r"comm (?P<pointer>0x\w+) rank (?P<rank>\d+) n[rR]anks (?P<size>\d+).*?(?:commId (?P<id>0x\w+) )?- Init (?P<what>START|COMPLETE)")
_ORDER = re.compile(r"Channel (\d+)/(\d+) : +((?:\d+ *)+)$")
_CONNECTION = re.compile(r"Channel (\d+)(?:/([01]))? : (\d+)\[\w+\] -> (\d+)\[\w+\] (?:\[(send|receive)\] )?via (NET/IB|P2P/\w+)(?:/(\d+))?(/GDRDMA)?")
_TREES = re.compile(r"\[(\d+)\] (-?\d+)/(-?\d+)/(-?\d+)->(\d+)->(-?\d+)")
_DEVICE = re.compile(r"\[(\d+)\](\w+):1/")


class _Process:
    """Lines of one process up to the line that names their communicator."""

    def __init__(self, part: int) -> None:
        self.base: dict[str, Any] = {"source_id": 0, "part": part, "rank": -1}
        self.open: list[tuple[TableSpec, dict[str, Any]]] = []
        self.comms = 0


def read_lines(files: Sequence[Path]) -> tuple[dict[str, pl.LazyFrame], dict[tuple[str, int], int]]:
    """Communicators, channel_edges, ring_orders, net_devices of all processes; and the rank in its first communicator by host and pid."""
    rows: dict[TableSpec, list[Mapping[str, Any]]] = {COMMUNICATORS: [], CHANNEL_EDGES: [], RING_ORDERS: [], NET_DEVICES: []}
    processes: dict[tuple[str, int], _Process] = {}
    ranks: dict[tuple[str, int], int] = {}
    for file in files:
        with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
            for number, line in enumerate(lines, 1):
                if not (found := _LINE.search(line.rstrip())):
                    continue
                key = found["host"], int(found["pid"])
                process = processes.setdefault(key, _Process(len(processes)))
                text = found["text"]
                if init := _INIT.search(text):
                    if init["what"] == "COMPLETE":
                        ranks.setdefault(key, int(init["rank"]))
                        _complete(process, init, ranks[key], number, rows)
                    continue
                process.open += [(spec, {"line": number, **row}) for spec, row in _rows(text)]
    return {spec.name: frame(spec, r).lazy() for spec, r in rows.items()}, ranks


def _complete(process: _Process, init: re.Match[str], rank: int, number: int, rows: dict[TableSpec, list[Mapping[str, Any]]]) -> None:
    base = {**process.base, "rank": rank, "comm": process.comms}
    channels = {r["channel"] for s, r in process.open if s is not NET_DEVICES}
    rows[COMMUNICATORS].append(
        {
            **base,
            "line": number,
            "pointer": init["pointer"],
            "comm_id": init["id"],
            "comm_rank": int(init["rank"]),
            "size": int(init["size"]),
            "state": "complete",
        }
        | {"channels": len(channels) or None}
    )
    for spec, row in process.open:
        rows[spec].append({**base, **row})
    process.open = []
    process.comms += 1


def _rows(text: str) -> Iterator[tuple[TableSpec, dict[str, Any]]]:
    if m := _ORDER.match(text):
        yield RING_ORDERS, {"channel": int(m[1]), "channels": int(m[2]), "order": [int(r) for r in m[3].split()], "cut": False}
    elif m := _CONNECTION.match(text):
        row = {
            "kind": "connection",
            "channel": int(m[1]),
            "connection": None if m[2] is None else int(m[2]),
            "src_rank": int(m[3]),
            "dst_rank": int(m[4]),
            "direction": m[5],
            "transport": m[6],
        }
        yield CHANNEL_EDGES, row | ({"net_device": int(m[7]), "gdr": m[8] is not None} if m[6].startswith("NET") else {})
    elif text.startswith("Trees "):
        for m in _TREES.finditer(text):
            me, up = int(m[5]), int(m[6])
            links = [(int(m[i]), me) for i in (2, 3, 4) if int(m[i]) >= 0] + ([(me, up)] if up >= 0 else [])
            yield from ((CHANNEL_EDGES, {"kind": "tree", "channel": int(m[1]), "src_rank": a, "dst_rank": b}) for a, b in links)
    elif text.startswith("NET/IB : Using"):
        for m in _DEVICE.finditer(text):
            yield NET_DEVICES, {"plugin": "IB", "device": int(m[1]), "name": m[2], "used": True}
