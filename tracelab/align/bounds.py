"""What must hold whatever the ends scatter by: no rank leaves a synchronising operation before all have entered it.

So for every operation, and hosts i and j: offset(j) − offset(i) ≤ end(j) − start(i), in the clocks of the two. Shortest paths over all
pairs of hosts give the tightest interval for every difference. A cycle of negative length is a contradiction: something was
matched wrongly, a step was missed, or a source's times are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import NegativeCycleError, floyd_warshall

from tracelab.align.observations import Parts

__all__ = ["Bounds", "hard_bounds"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Bounds:
    """Per host, ns: how far its clock may at most be off (`width`; infinite where nothing limits it), and what must be taken from it.

    `shift` is 0 unless the clocks given contradict the bounds. `cycle` names hosts that contradict each other whatever their
    offsets are, and by how much; then the rest is infinite and 0.
    """

    width: Float
    shift: Float
    cycle: list[int]
    excess: float


def hard_bounds(parts: Parts, use: NDArray[np.bool_], offset: Float, slack: Float) -> Bounds:
    """Bounds around the clocks that `offset` (per part, ns) describes, from the parts to `use`.

    `slack` (per host, ns) is what the course of its clock may be off by.
    """
    width = len(parts.hosts)
    longest = _longest(parts, use, parts.start - offset, parts.end - offset) + slack[:, None] + slack[None, :]
    np.fill_diagonal(longest, np.inf)
    try:
        # The graph of scipy has no edge of length 0.
        path = floyd_warshall(np.where(longest == 0.0, 1e-3, longest))
    except NegativeCycleError:
        cycle, excess = _negative_cycle(longest)
        return Bounds(np.full(width, np.inf), np.zeros(width), cycle, excess)
    np.fill_diagonal(path, 0.0)
    # x(j) − x(i) ≤ path(i, j): the largest and the smallest solution with no x above or below 0; their mean is the one nearest 0.
    shift = 0.5 * (path.min(0) + (-path).max(1))
    rest = path - shift[None, :] + shift[:, None]
    return Bounds(np.maximum(rest.sum(0), rest.sum(1)) / max(width, 1), shift, [], 0.0)


def _longest(parts: Parts, use: NDArray[np.bool_], start: Float, end: Float) -> Float:
    """(i, j): the least end on j minus start on i, of operations that i entered last; infinite where there is none."""
    order = np.lexsort((start, parts.row))
    last = order[np.flatnonzero(np.diff(parts.row[order], append=-1))]
    entered, by = np.empty(len(parts.kind)), np.empty(len(parts.kind), dtype=np.int64)
    entered[parts.row[last]], by[parts.row[last]] = start[last], parts.host[last]
    row, out = parts.row[use], np.full((len(parts.hosts), len(parts.hosts)), np.inf)
    np.minimum.at(out, (by[row], parts.host[use]), end[use] - entered[row])
    return out


def _negative_cycle(length: Float) -> tuple[list[int], float]:
    """Hosts on a cycle of negative length, and minus its length (Bellman and Ford)."""
    n = len(length)
    far, before = np.zeros(n), np.full(n, -1)
    changed = 0
    for _ in range(n):
        through = far[:, None] + length
        best = through.argmin(0)
        shorter = through[best, np.arange(n)] < far - 1e-6
        if not shorter.any():
            return [], 0.0
        before[shorter], far[shorter] = best[shorter], through[best[shorter], np.flatnonzero(shorter)]
        changed = int(np.flatnonzero(shorter)[0])
    for _ in range(n):
        changed = int(before[changed])
    cycle = [changed]
    while (at := int(before[cycle[-1]])) != changed:
        cycle.append(at)
    excess = -sum(float(length[b, a]) for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    return sorted(cycle), excess
