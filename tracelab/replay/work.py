"""One rank's GPU work as nodes that start when what they waited for is done.

What a piece of work waits for is partly known (the work before it on its stream, its launch) and partly seen: it starts
when work of another stream ends. Work that follows its predecessor at once is one node with it. A communication kernel
waits for the compute that was launched before it (as PyTorch's process groups make it do), where its group and operation do so
throughout the capture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEAR_NS", "Nodes", "RankWork", "contract"]

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

NEAR_NS = 20_000
"""Work that starts within this of an end was waiting for it: an event takes some microseconds to pass between streams."""
_QUEUE_NS = 40_000
"""Work that starts within this of its launch found its stream empty."""
_RESPECTS = 0.98
"""Share of a class's operations that start after the compute launched before them, from which on they wait for it."""


@dataclass(frozen=True)
class RankWork:
    """A rank's GPU work in order of start: arrays of one length. Times in ns, aligned.

    `launch`: start of the launching call, -1 where unknown; `match`: collective, -1 for other work; `kind`: number of its
    group and operation (communication only). `sync_start`, `sync_end`: calls in which the host waits for its GPU.
    """

    start: Int
    end: Int
    stream: Int
    launch: Int
    match: Int
    kind: Int
    sync_start: Int
    sync_end: Int


@dataclass(frozen=True)
class Nodes:
    """Contracted work, in order of start. Every constraint is a node's number (-1: none) and how long after its end this one starts.

    `launch`: earliest start that the launches of its work allow, in the host's time (no bound: the least int64);
    `sync`: number of the last wait of the host before those launches, -1 before the first. `sync_node`: the node whose end
    each wait of the host ends with, -1 where it waits for none.
    """

    start: Int
    end: Int
    match: Int
    before: Int
    before_gap: Int
    waits_for: Int
    waits_gap: Int
    compute: Int
    launch: Int
    sync: Int
    sync_start: Int
    sync_end: Int
    sync_node: Int


NO_BOUND = np.iinfo(np.int64).min


def contract(work: RankWork) -> Nodes:
    """The nodes of one rank. Memory and time grow with its work; n log n."""
    n = len(work.start)
    comm = work.match >= 0
    before = _before(work)
    before_end = np.where(before >= 0, work.end[before], NO_BOUND)
    at_once = (before >= 0) & (work.start - before_end <= NEAR_NS)
    compute = _compute_before(work, comm)
    waits = np.where(at_once & ~comm, -1, _waits_for(work, comm, before, compute))
    launched = (work.launch >= 0) & (work.start - work.launch <= _QUEUE_NS)
    sync = np.searchsorted(work.sync_end, np.where(work.launch >= 0, work.launch, work.start), side="right") - 1
    targets = np.zeros(n, dtype=bool)
    targets[waits[waits >= 0]] = True
    targets[compute[compute >= 0]] = True
    sync_work = _ended_with(work)
    targets[sync_work[sync_work >= 0]] = True
    head = comm | ~at_once | (waits >= 0) | _follows(comm | targets, before) | (before < 0)
    head |= np.where(before >= 0, sync != sync[before], True)
    node = _node_of(head, before)
    return _gather(work, head, node, _Constraints(before, waits, compute, at_once, launched, sync, sync_work))


@dataclass(frozen=True)
class _Constraints:
    """Per piece of work; numbers of pieces."""

    before: Int
    waits: Int
    compute: Int
    at_once: Bool
    launched: Bool
    sync: Int
    sync_work: Int


def _before(work: RankWork) -> Int:
    """The work before each on its stream, -1 for the first."""
    order = np.lexsort((work.start, work.stream))
    out = np.full(len(order), -1, dtype=np.int64)
    same = work.stream[order[1:]] == work.stream[order[:-1]]
    out[order[1:][same]] = order[:-1][same]
    return out


def _compute_before(work: RankWork, comm: Bool) -> Int:
    """The last other work that was launched before each communication, where its class always waits for that; else -1."""
    out = np.full(len(comm), -1, dtype=np.int64)
    other = np.flatnonzero(~comm & (work.launch >= 0))
    mine = np.flatnonzero(comm & (work.launch >= 0))
    if not len(other) or not len(mine):
        return out
    order = other[np.argsort(work.launch[other], kind="stable")]
    at = np.searchsorted(work.launch[order], work.launch[mine], side="left") - 1
    found = np.where(at >= 0, order[np.maximum(at, 0)], -1)
    kept = (found < 0) | (work.start[mine] >= work.end[found] - NEAR_NS)
    for kind in np.unique(work.kind[mine]):
        members = work.kind[mine] == kind
        if kept[members].mean() >= _RESPECTS:
            out[mine[members & kept]] = found[members & kept]
    return out


def _waits_for(work: RankWork, comm: Bool, before: Int, compute: Int) -> Int:
    """The work of another stream with whose end each one starts: communication for other work, else any."""
    out = np.full(len(comm), -1, dtype=np.int64)
    for sources, mine in ((comm, ~comm), (~comm, comm), (comm, comm), (~comm, ~comm)):
        ends = np.flatnonzero(sources)
        todo = np.flatnonzero(mine & (out < 0))
        if not len(ends) or not len(todo):
            continue
        order = ends[np.argsort(work.end[ends], kind="stable")]
        at = np.searchsorted(work.end[order], work.start[todo] + NEAR_NS // 4, side="right") - 1
        found = np.where(at >= 0, order[np.maximum(at, 0)], -1)
        near = (found >= 0) & (work.start[todo] - work.end[found] <= NEAR_NS) & (work.stream[found] != work.stream[todo]) & (found != todo)
        near &= (found != before[todo]) & (found != compute[todo])
        # the predecessor on the stream explains a start as well: what ended earlier than that was not waited for
        near &= (before[todo] < 0) | (work.end[found] >= work.end[before[todo]] - NEAR_NS // 4)
        out[todo[near]] = found[near]
    return out


def _ended_with(work: RankWork) -> Int:
    """The work with whose end each wait of the host ends."""
    if not len(work.sync_end):
        return np.empty(0, dtype=np.int64)
    order = np.argsort(work.end, kind="stable")
    # clocks of CPU and GPU differ by some microseconds: the work may seem to end after the wait for it
    at = np.searchsorted(work.end[order], work.sync_end + NEAR_NS, side="right") - 1
    found = np.where(at >= 0, order[np.maximum(at, 0)], -1)
    waited = (
        (found >= 0) & (work.end[found] > work.sync_start) & (work.sync_end - work.end[found] <= 5 * NEAR_NS) & (work.start[found] < work.sync_end + NEAR_NS)
    )
    return np.where(waited, found, -1)


def _follows(ends: Bool, before: Int) -> Bool:
    """Whether the work before each one ends a node."""
    return np.where(before >= 0, ends[before], False)


def _node_of(head: Bool, before: Int) -> Int:
    """Number of the node of each piece of work; nodes are numbered by the start of their first piece."""
    number = np.cumsum(head) - 1
    out = np.where(head, number, -1).astype(np.int64)
    for i in np.flatnonzero(~head):  # in order of start: the piece before has its number
        out[i] = out[before[i]]
    return out


def _gather(work: RankWork, head: Bool, node: Int, c: _Constraints) -> Nodes:
    first = np.flatnonzero(head)
    count = len(first)
    end = np.full(count, NO_BOUND, dtype=np.int64)
    np.maximum.at(end, node, work.end)
    bound = np.full(count, NO_BOUND, dtype=np.int64)
    offset = work.start - work.start[first][node]
    np.maximum.at(bound, node, np.where(work.launch >= 0, work.launch - offset, NO_BOUND))

    def to_node(pieces: Int) -> Int:
        return np.where(pieces >= 0, node[np.maximum(pieces, 0)], -1)[first]

    start = work.start[first]
    before, waits, compute = (to_node(x) for x in (c.before, c.waits, c.compute))
    launched = c.launched[first]
    gap = start - np.where(before >= 0, end[before], start)
    waits_gap = start - np.where(waits >= 0, end[waits], start)
    compute_near = (compute >= 0) & (start - np.where(compute >= 0, end[compute], NO_BOUND // 2) <= NEAR_NS)
    # a start that nothing explains keeps its distance from the work before it
    explained = (waits >= 0) | launched | compute_near | (gap <= NEAR_NS)
    before_gap = np.where(explained & (gap > NEAR_NS), 0, np.maximum(gap, 0))
    # the launch explains as much of the start as it did
    delay = np.where(launched, start - work.launch[first], 0)
    return Nodes(
        start, end, work.match[first], before, before_gap, waits, waits_gap, compute,
        np.where(bound > NO_BOUND, bound + delay, NO_BOUND), c.sync[first], work.sync_start, work.sync_end,
        np.where(c.sync_work >= 0, node[np.maximum(c.sync_work, 0)], -1),
    )  # fmt: skip
