"""Ends that are late on a rank in every operation, as its durations betray them: no clock is needed to see them.

The rank that enters last transfers from its start to its end. In operations of one kind that takes as long on one rank as on
another, but for what its end is late by: duration(k, r) = transfer(kind of k) + lateness(r) + noise, for the rank r that
entered k last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracelab.align.observations import Parts, medians

__all__ = ["Lateness", "end_lateness", "host_lateness"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

LEAST_NS = 5_000.0
"""Ranks whose ends differ by less need no correction."""
PROVEN = 10.0
"""Standard errors that the agreement of durations and ends must reach before durations are believed."""
LIKE = (0.7, 1.3)
"""How much later a rank's ends are, per lateness that its durations show, for the two to be one thing."""
_ROUNDS = 6
_FEWEST = 3


@dataclass(frozen=True)
class Lateness:
    """Per rank (in the order of `ranks`) how late its ends are beside the mean, ns, and the standard error of that (infinite: not seen).

    `host` is the host of each rank; `spread` the standard deviation over ranks beyond chance.
    """

    ranks: Int
    host: Int
    late: Float
    error: Float
    spread: float


def end_lateness(parts: Parts, offset: Float) -> Lateness:
    """The lateness of ends by the durations of last arrivals, in the clocks that `offset` (per part, ns) describes."""
    ranks, number = np.unique(parts.rank, return_inverse=True)
    host = np.zeros(len(ranks), dtype=np.int64)
    host[number] = parts.host
    last = _clearly_last(parts, parts.start - offset)
    who, kind = number[last], parts.kind[parts.row[last]]
    duration = (parts.end - parts.start)[last]
    late, error = np.zeros(len(ranks)), np.full(len(ranks), np.inf)
    if not len(last):
        return Lateness(ranks, host, late, error, 0.0)
    cell = kind * len(ranks) + who
    cells, place, count = np.unique(cell, return_inverse=True, return_counts=True)
    cell_kind, cell_rank = cells // len(ranks), cells % len(ranks)
    for _ in range(_ROUNDS):
        transfer = medians(kind, duration - late[who])
        rest = duration - transfer[kind]
        scatter = 1.4826 * medians(kind, np.abs(rest - late[who])) + 500.0
        each = medians(place, rest)
        weight = count / (1.2533 * scatter[cell_kind]) ** 2
        total = np.bincount(cell_rank, weights=weight, minlength=len(ranks))
        late = np.bincount(cell_rank, weights=weight * each, minlength=len(ranks)) / np.maximum(total, 1e-30)
        seen = np.bincount(who, minlength=len(ranks)) >= _FEWEST
        late = np.where(seen, late - (np.median(late[seen]) if seen.any() else 0.0), 0.0)
    error = np.where(seen, 1.0 / np.sqrt(np.maximum(total, 1e-30)), np.inf)
    return Lateness(ranks, host, late, error, _spread(late[seen], error[seen]))


def _spread(late: Float, error: Float) -> float:
    """What ranks differ by beyond chance, ns; 0 where that may be all chance."""
    if len(late) < 2:
        return 0.0
    limit = 4.0 * 1.4826 * float(np.median(np.abs(late)))
    variance, chance = float((np.clip(late, -limit, limit) ** 2).mean()), float((error**2).mean())
    return float(np.sqrt(variance - chance)) if variance > 5.0 * chance else 0.0


def host_lateness(seen: Lateness, parts: Parts, lag: Float) -> Float:
    """How late the ends of each host are in the mean of its ranks, ns; all 0 unless ends prove that durations show just that.

    Durations of last arrivals also differ because links do. Inside a host there is a second witness: its ranks share a clock, so
    their ends show who is late (`lag` per part, ns, beside the host's mean). Where the two tell the same, durations are
    believed between hosts as well, as far as their errors allow.
    """
    none = np.zeros(len(parts.hosts))
    own = np.zeros(len(seen.ranks))
    own[np.searchsorted(seen.ranks, parts.rank)] = lag
    use = np.isfinite(seen.error)
    weight = np.where(use, 1.0 / seen.error**2, 0.0)
    total = np.bincount(seen.host, minlength=len(parts.hosts), weights=weight)
    several = np.bincount(seen.host[use], minlength=len(parts.hosts)) > 1
    known = use & several[seen.host]
    if seen.spread < LEAST_NS or not known.any():
        return none

    def beside_host(values: Float) -> Float:
        return values - (np.bincount(seen.host, weights=weight * values, minlength=len(none)) / np.maximum(total, 1e-30))[seen.host]

    by_duration, by_end = beside_host(seen.late), beside_host(own)
    squares = float((weight * by_duration**2)[known].sum())
    slope = float((weight * by_duration * by_end)[known].sum()) / max(squares, 1e-30)
    rest = weight * (by_end - slope * by_duration) ** 2
    error = float(np.sqrt(max(rest[known].sum() / max(known.sum() - several.sum() - 1, 1), 1.0) / max(squares, 1e-30)))
    if not LIKE[0] < slope < LIKE[1] or slope < PROVEN * error:
        return none
    mean = np.bincount(seen.host, weights=weight * (seen.late - own), minlength=len(none)) / np.maximum(total, 1e-30)
    # As usual as it is for hosts to be late, against how surely it is seen.
    usual = seen.spread**2 / np.maximum(np.bincount(seen.host, minlength=len(none)), 1)
    late = np.where(total > 0, (mean - mean[total > 0].mean()) * usual / (usual + 1.0 / np.maximum(total, 1e-30)), 0.0)
    return np.asarray(late)


def _clearly_last(parts: Parts, start: Float) -> Int:
    """The part that entered last of each operation, of the half in which it was last by most."""
    order = np.lexsort((start, parts.row))
    stop = np.flatnonzero(np.diff(parts.row[order], append=-1))
    last, second = order[stop], order[np.maximum(stop - 1, 0)]
    by = start[last] - start[second]
    return last[by >= np.median(by)]
