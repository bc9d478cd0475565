"""Recognises an all-to-all in the sends and receives that a process logs for it.

Up to 2.27, NCCL has no all-to-all: frameworks make it of one send and one receive per rank in a group. Its lines follow
each other, every peer once, in the order of ranks from 0 or from the own rank on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray  # noqa: TC002

from tracelab.traffic.kinds import RECV, SEND
from tracelab.traffic.sequences import Int

__all__ = ["fold"]

CERTAIN = 4
"""Of so many ranks or more, sends to all others and receives from all others in one run are an exchange, whatever else is known."""


def fold(kind: Int, peer: Int, number: Int, size: Int, place: int, ranks: int, exchanging: bool) -> tuple[Int, Int, Int] | None:
    """For one process's rows of one communicator, in order: first row and bytes of each exchange, and all rows of them; or None.

    `exchanging`: the communicator's ranks are known to exchange all to all, so that runs with fewer peers (nothing to send to
    some, a log that is cut) are exchanges as well. `place` is the rank in the communicator (-1: unknown) and `ranks` its size.
    Bytes are -1 where a size is unknown; a run without a send to the process itself counts as if it had one of mean size.
    """
    if ranks < 2:
        return None
    block = np.cumsum((kind != SEND) & (kind != RECV))
    found = {}
    for side in (SEND, RECV):
        rows = np.nonzero(kind == side)[0]
        starts = _starts(peer[rows], block[rows], number[rows], place, ranks)
        counts = np.diff(np.append(starts, len(rows)))
        to_self = (
            np.bincount(np.cumsum(_marks(starts, len(rows))) - 1, weights=peer[rows] == place, minlength=len(starts)).astype(np.int64) if len(rows) else counts
        )
        whole = (counts == ranks) | ((counts == ranks - 1) & (to_self == 0))
        whole &= exchanging | (to_self > 0) | (ranks >= CERTAIN)
        if exchanging:
            whole |= counts >= min(2, ranks - 1)
        found[side] = (rows, starts, counts, to_self, whole)
    rows, starts, counts, to_self, whole = found[SEND]
    rows_in, starts_in, _, _, whole_in = found[RECV]
    if not whole.any() or not whole_in.any():
        return None
    sums = np.add.reduceat(size[rows], starts)
    unknown = np.add.reduceat((size[rows] < 0).astype(np.int64), starts) > 0
    full = np.where(to_self > 0, sums, sums + sums // np.maximum(counts, 1))
    gone = np.concatenate([rows[_spread(whole, starts, len(rows))], rows_in[_spread(whole_in, starts_in, len(rows_in))]])
    first = rows[starts[whole]]
    return first, np.where(unknown, -1, full)[whole], np.setdiff1d(gone, first)


def _starts(peer: Int, block: Int, number: Int, place: int, ranks: int) -> Int:
    """Where a run begins: after another operation, at another number of a group, or where a peer does not follow the one before."""
    if not len(peer):
        return np.empty(0, dtype=np.int64)
    # A number that every line raises is none of a group.
    shared = len(number) > 1 and bool((np.diff(number) == 0).any())
    cut = (np.diff(block) != 0) | ((np.diff(number) != 0) & shared)
    orders = [peer, (peer - place) % ranks] if place >= 0 else [peer]
    return min((np.nonzero(np.concatenate([[True], cut | (np.diff(o) <= 0)]))[0] for o in orders), key=len)


def _marks(starts: Int, n: int) -> Int:
    marks = np.zeros(n, dtype=np.int64)
    marks[starts] = 1
    return marks


def _spread(chosen: NDArray[np.bool_], starts: Int, n: int) -> NDArray[np.bool_]:
    """A flag per run as a flag per row."""
    return np.asarray(chosen[np.cumsum(_marks(starts, n)) - 1], dtype=np.bool_)
