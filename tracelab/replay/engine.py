"""Runs the nodes of all ranks again with other lengths of transfers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracelab.replay.work import NO_BOUND, Nodes

__all__ = ["Replayed", "replay"]

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Replayed:
    """New ends of all nodes by rank, in the order of the nodes."""

    end: dict[int, Int]


@dataclass
class _Rank:
    """A rank while it is run: plain lists, since single elements of arrays are slow."""

    nodes: Nodes
    new_end: list[int]
    new_start: list[int]
    shift: list[int]

    def host_shift(self, sync: int) -> int:
        """By how much the host runs later after that wait than it did."""
        return self.shift[sync] if sync >= 0 else 0


def replay(ranks: Mapping[int, Nodes], transfer_ns: Mapping[int, int]) -> Replayed:
    """Runs all nodes. `transfer_ns`: new length of the transfer of a collective (from its last arrival to its end); others keep theirs.

    Nodes are taken in their old order, which is one in which everything that a node waits for comes before it. Time grows
    with the number of nodes.
    """
    state = {rank: _Rank(n, [0] * len(n.start), [0] * len(n.start), [0] * len(n.sync_end)) for rank, n in ranks.items()}
    old_last = _last_arrivals(ranks)
    order: list[tuple[int, int, int, int]] = []
    for rank, nodes in ranks.items():
        order += [(int(s), 1, rank, i) for i, s in enumerate(nodes.start)]
        order += [(int(e), 0, rank, i) for i, e in enumerate(nodes.sync_end)]
    new_last: dict[int, int] = {}
    for _, what, rank, i in sorted(order):
        r = state[rank]
        if what == 0:
            _wait(r, i, new_last, old_last, transfer_ns)
            continue
        start = _start(r, i, new_last, old_last, transfer_ns)
        r.new_start[i] = start
        match = int(r.nodes.match[i])
        if match < 0 or match not in old_last:
            r.new_end[i] = start + int(r.nodes.end[i] - r.nodes.start[i])
        else:
            new_last[match] = max(new_last.get(match, start), start)
    for r in state.values():
        r.new_end = [_end(r, i, new_last, old_last, transfer_ns) for i in range(len(r.new_end))]
    return Replayed({rank: np.array(r.new_end, dtype=np.int64) for rank, r in state.items()})


def _last_arrivals(ranks: Mapping[int, Nodes]) -> dict[int, int]:
    """Last arrival at every collective."""
    last: dict[int, int] = {}
    for nodes in ranks.values():
        for i in np.flatnonzero(nodes.match >= 0):
            match, start = int(nodes.match[i]), int(nodes.start[i])
            last[match] = max(last.get(match, start), start)
    return last


def _end(r: _Rank, i: int, new_last: Mapping[int, int], old_last: Mapping[int, int], transfer_ns: Mapping[int, int]) -> int:
    """New end of a node that has started; a collective ends when its transfer, begun with its last arrival, is over."""
    match = int(r.nodes.match[i])
    if match < 0 or match not in old_last:
        return r.new_end[i]
    old = int(r.nodes.end[i]) - old_last[match]
    new = new_last.get(match, r.new_start[i]) + transfer_ns.get(match, old)
    return max(new, r.new_start[i])


def _start(r: _Rank, i: int, new_last: Mapping[int, int], old_last: Mapping[int, int], transfer_ns: Mapping[int, int]) -> int:
    n = r.nodes
    times = []
    for other, gap in ((int(n.before[i]), int(n.before_gap[i])), (int(n.waits_for[i]), int(n.waits_gap[i])), (int(n.compute[i]), 0)):
        if other >= 0:
            times.append(_end(r, other, new_last, old_last, transfer_ns) + gap)
    if n.launch[i] > NO_BOUND:
        times.append(int(n.launch[i]) + r.host_shift(int(n.sync[i])))
    return max(times) if times else int(n.start[i]) + r.host_shift(int(n.sync[i]))


def _wait(r: _Rank, i: int, new_last: Mapping[int, int], old_last: Mapping[int, int], transfer_ns: Mapping[int, int]) -> None:
    """The host leaves a wait when its GPU is done, and not before it came there."""
    n = r.nodes
    before = r.host_shift(i - 1)
    node = int(n.sync_node[i])
    if node < 0:
        r.shift[i] = before
        return
    done = _end(r, node, new_last, old_last, transfer_ns) + int(n.sync_end[i] - n.end[node])
    r.shift[i] = max(done, int(n.sync_start[i]) + before) - int(n.sync_end[i])
