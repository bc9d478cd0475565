"""Rings, trees and connections: who is next to whom, and over what."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tracelab.tables.logs import CHANNEL_EDGES, RING_ORDERS
from tracelab_parsers.nccl_log.line import LogLine, Rows
from tracelab_parsers.nccl_log.processes import Communicator

__all__ = ["ChannelReader", "Transport", "transport"]

_N = r"\d{1,9}"
_RCCL = re.compile(r" comm 0x[0-9a-f]+ nRanks \d+.*$")
_CONNECTION = re.compile(
    rf"(?:Channel|Ring) ({_N})(?:/({_N}))? : ({_N})(?:\[([^\]]{{0,40}})\])? -> ({_N})(?:\[([^\]]{{0,40}})\])?(?: \[(send|receive)\])?(?: via (.{{1,200}}))?$"
)
_ORDER = re.compile(rf"Channel ({_N})(?:/({_N}))? :((?:\s+{_N})+)\s*(\.\.\.)?\s*$")
_CUT_ORDER = re.compile(rf"Channel ({_N})(?:/({_N}))? :((?:\s+{_N})+)\s*\.\.")
_RING = re.compile(rf"Ring ({_N}) : (-1|{_N}) -> (-1|{_N}) -> (-1|{_N})\s*$")
_LINKS = r"-1|\d{1,9}"
_TREES = re.compile(rf"\[({_N})\] ((?:{_LINKS})(?:/(?:{_LINKS}))*)->({_LINKS})->((?:{_LINKS})(?:/(?:{_LINKS}))*)")
_TREE = re.compile(rf"Tree ({_N}) : ({_LINKS}) -> ({_LINKS}) -> ((?:{_LINKS})(?:/(?:{_LINKS}))*)")
_NVLS_TREES = re.compile(rf"((?:{_LINKS})(?:/(?:{_LINKS}))*)->({_LINKS})->({_LINKS})(?![\d/])")
_COLLNET = re.compile(rf"Coll(?:Net)? ({_N})(?:/({_N}))? : ({_N})(?: \[(send|receive)\])? via (COLLNET/.{{1,200}})$")
_NET = re.compile(rf"((?:NET|COLLNET)/[^/]{{1,80}})/(-?{_N})(?:\(({_N})\))?(?:/(.*))?$")
_P2P = re.compile(r"(P2P/(?:IPC|CUMEM|MNNVL|direct pointer|indirect|[\w ]{1,40}))(?:/.*)?$")
_CUT_AFTER = 20
"""Ranks of a ring that versions before 2.23 print at most, without saying so."""


class Transport(NamedTuple):
    """Over what a connection goes. `gdr` is null where no network is involved."""

    name: str
    device: int | None = None
    gdr: bool | None = None
    proxy_rank: int | None = None


def transport(text: str) -> Transport:
    """What a connection line prints after `via`."""
    text = text.strip()
    m = _NET.match(text)
    if m is not None:
        return Transport(m[1], int(m[2]), "GDR" in (m[4] or ""), int(m[3]) if m[3] else None)
    if text.startswith(("SHM", "direct shared memory")):
        return Transport("SHM")
    m = _P2P.match(text)
    return Transport(m[1] if m is not None else text[:80])


class ChannelReader:
    """Takes the lines of rings, trees and connections."""

    def __init__(self) -> None:
        self._takers: dict[str, Callable[[LogLine, str, Rows], str | None]] = {
            "Channel": self._channel,
            "Ring": self._ring,
            "Trees": self._trees,
            "Tree": self._tree,
            "NVLS": self._nvls,
            "CollNet": self._collnet,
            "Coll": self._collnet,
        }

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """See `LineReader.take`."""
        taker = self._takers.get(line.text.partition(" ")[0])
        if taker is None or not line.level:
            return None
        text = line.text.rstrip()
        return taker(line, _RCCL.sub("", text) if " nRanks " in text else text, rows)

    def _channel(self, line: LogLine, text: str, rows: Rows) -> str | None:
        m = _CONNECTION.match(text)
        if m is not None:
            return self._connection(line, m, rows)
        m = _ORDER.match(text) or _CUT_ORDER.match(text)
        if m is None:
            return None
        order = [int(v) for v in m[3].split()]
        marked = not text.endswith(m[3].split()[-1])
        if marked and not text.endswith("..."):
            order.pop()  # the last number may have lost digits
        rows.add(RING_ORDERS, line, channel=int(m[1]), channels=int(m[2]) if m[2] else None, order=order, cut=marked or _cut(len(order)))
        return "ring_order"

    def _connection(self, line: LogLine, m: re.Match[str], rows: Rows) -> str:
        via = transport(m[8]) if m[8] else None
        rows.add(
            CHANNEL_EDGES,
            line,
            kind="connection",
            channel=int(m[1]),
            connection=int(m[2]) if m[2] else None,
            src_rank=int(m[3]),
            dst_rank=int(m[5]),
            src_device=m[4],
            dst_device=m[6],
            direction=m[7],
            transport=via.name if via else None,
            net_device=via.device if via else None,
            gdr=via.gdr if via else None,
            proxy_rank=via.proxy_rank if via else None,
        )
        return "channel"

    def _ring(self, line: LogLine, text: str, rows: Rows) -> str | None:
        m = _RING.match(text)
        if m is None:
            connection = _CONNECTION.match(text)
            return self._connection(line, connection, rows) if connection is not None else None
        before, me, after = int(m[2]), int(m[3]), int(m[4])
        for src, dst in dict.fromkeys(((before, me), (me, after))):
            _edge(rows, line, "ring", int(m[1]), src, dst)
        return "ring"

    def _trees(self, line: LogLine, text: str, rows: Rows) -> str | None:
        found = False
        for m in _TREES.finditer(text):
            found = True
            # 2.4 prints the parent first; later versions print it last, and only children are lists.
            ends = (m[4], m[2]) if "/" in m[4] and "/" not in m[2] else (m[2], m[4])
            _tree_edges(rows, line, "tree", int(m[1]), ends[0], int(m[3]), ends[1])
        return "trees" if found else None

    def _tree(self, line: LogLine, text: str, rows: Rows) -> str | None:
        m = _TREE.match(text)
        if m is None:
            return None
        _tree_edges(rows, line, "tree", int(m[1]), m[4], int(m[3]), m[2])
        return "tree"

    def _nvls(self, line: LogLine, text: str, rows: Rows) -> str | None:
        if not text.startswith("NVLS Trees :"):
            return None
        for channel, m in enumerate(_NVLS_TREES.finditer(text)):
            _tree_edges(rows, line, "nvls_tree", channel, m[1], int(m[2]), m[3])
        return "nvls_tree"

    def _collnet(self, line: LogLine, text: str, rows: Rows) -> str | None:
        m = _COLLNET.match(text)
        if m is None:
            return None
        via = transport(m[5])
        rank = int(m[3])
        rows.add(
            CHANNEL_EDGES,
            line,
            kind="collnet",
            channel=int(m[1]),
            connection=int(m[2]) if m[2] else None,
            src_rank=rank,
            dst_rank=rank,
            direction=m[4],
            transport=via.name,
            net_device=via.device,
            gdr=via.gdr,
            proxy_rank=via.proxy_rank,
        )
        return "collnet"

    def finish(self, rows: Rows) -> None:
        """See `LineReader.finish`: nothing stays open."""


def _cut(printed: int) -> Callable[[Communicator | None], bool]:
    """Whether a list of so many ranks is cut, once the size of its communicator is known."""

    def late(comm: Communicator | None) -> bool:
        return printed < comm.size if comm is not None and comm.size is not None else printed == _CUT_AFTER

    return late


def _children(text: str) -> Iterator[int]:
    return (int(v) for v in text.split("/"))


def _tree_edges(rows: Rows, line: LogLine, kind: str, channel: int, children: str, me: int, parents: str) -> None:
    edges = [(child, me) for child in _children(children)] + [(me, parent) for parent in _children(parents)]
    for src, dst in dict.fromkeys(edges):
        _edge(rows, line, kind, channel, src, dst)


def _edge(rows: Rows, line: LogLine, kind: str, channel: int, src: int, dst: int) -> None:
    if src >= 0 and dst >= 0:
        rows.add(CHANNEL_EDGES, line, kind=kind, channel=channel, src_rank=src, dst_rank=dst)
