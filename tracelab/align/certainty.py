"""How far clocks may be off: what repeats of the ends say, what ends have in common that no repeat shows, and what durations say.

Ends can be late on a rank or in a kind of operation every time. That moves the estimate, and the more operations there are
the surer it looks. It shows where a host has several ranks, or takes part in several kinds of operations: they then disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracelab.align.observations import Parts
from tracelab.align.solve import Fit

__all__ = ["Lags", "disagreement", "rank_lags", "systematic"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

LEAST_SEEN = 4
"""Operations of a rank from which its own lateness is told."""
HIDDEN = 0.25
"""Of what ends scatter by, the share that may be the same in every view of a host, so that no comparison shows it."""
_HUBER = 2.5
SCATTERED = 6.0
"""Durations differ by so many times what ends scatter by before that says anything of clocks."""
_CONTRADICTED = 0.05
"""Share of clear last arrivals that may not have the shortest duration."""
_FEWEST = 20


@dataclass(frozen=True)
class Lags:
    """How much later than its host's mean each rank ends in general (`lag` per part, ns), and what that differs by among ranks of a host.

    `ranks` is the number of ranks per host.
    """

    lag: Float
    spread: float
    ranks: Int


def rank_lags(parts: Parts, fit: Fit) -> Lags:
    """The lasting lateness of ranks beside their host's, from the residuals of `fit`: the GPUs' clocks, or where in the ring they are."""
    ranks, number = np.unique(parts.rank, return_inverse=True)
    host = np.zeros(len(ranks), dtype=np.int64)
    host[number] = parts.host
    per_host = np.bincount(host, minlength=len(parts.hosts))
    if per_host.max(initial=0) < 2:
        return Lags(np.zeros(len(parts.rank)), 0.0, per_host)
    x = parts.end - fit.offset_of(parts.row, parts.host) - fit.time[parts.row]
    own, error = np.zeros(len(ranks)), np.zeros(len(ranks))
    order = np.argsort(number, kind="stable")
    for r, values in enumerate(np.split(x[order], np.cumsum(np.bincount(number))[:-1])):
        own[r] = np.median(values)
        error[r] = 1.2533 * 1.4826 * np.median(np.abs(values - own[r])) / np.sqrt(len(values)) if len(values) >= LEAST_SEEN else np.inf
    own[~np.isfinite(error)] = 0.0
    centre = _centres(own, host, per_host)
    lag = np.where(np.isfinite(error) & (per_host[host] > 1), own - centre[host], 0.0)
    several = np.isfinite(error) & (per_host[host] > 1)
    freedom = int(several.sum()) - len(np.unique(host[several]))
    # Robust: one GPU whose clock is far off says nothing of the others.
    limit = 4.0 * 1.4826 * float(np.median(np.abs(lag[several]))) if several.any() else 0.0
    variance = float((np.clip(lag[several], -limit, limit) ** 2).sum() / max(freedom, 1) - (error[several] ** 2).mean()) if freedom > 0 else 0.0
    return Lags(lag[number], float(np.sqrt(max(variance, 0.0))), per_host)


def _centres(own: Float, host: Int, per_host: Int) -> Float:
    """The mean of the ranks of each host, in which single ones far off count little."""
    centre = np.array([np.median(own[host == h]) if n else 0.0 for h, n in enumerate(per_host.tolist())])
    off = np.abs(own - centre[host])[per_host[host] > 2]
    limit = _HUBER * 1.4826 * float(np.median(off)) + 1.0 if len(off) else np.inf
    for _ in range(3):
        centre = centre + np.bincount(host, weights=np.clip(own - centre[host], -limit, limit), minlength=len(per_host)) / np.maximum(per_host, 1)
    return centre


def systematic(fit: Fit, exists: NDArray[np.bool_], kind: Int, lags: Lags) -> tuple[Float, float]:
    """Per host the standard error that repeats do not show, ns; and what must be assumed where nothing shows it, ns (0 where it shows)."""
    share = fit.weight / fit.weight.sum(1, keepdims=True)
    alone = np.where(exists, fit.residual / np.maximum(1.0 - share, 0.05), 0.0)
    order = np.argsort(kind, kind="stable")
    first = np.flatnonzero(np.diff(kind[order], prepend=-1))
    weighted = (fit.weight * alone)[order]
    weight = np.add.reduceat(fit.weight[order], first)
    mean = np.add.reduceat(weighted, first) / np.maximum(weight, 1e-30)
    noise = np.add.reduceat(weighted**2, first) / np.maximum(weight, 1e-30) ** 2
    part = weight / weight.sum(0)
    several = (part**2).sum(0) < 0.9
    of_kinds = np.zeros(exists.shape[1])
    if several.any():
        excess = (part * (mean**2 - noise)).sum(0)[several] / (1.0 - (part**2).sum(0)[several])
        of_kinds = np.sqrt(max(float(excess.mean()), 0.0) * (part**2).sum(0))
    of_ranks = lags.spread / np.sqrt(np.maximum(lags.ranks, 1))
    length = np.diff(np.append(first, len(kind)))
    rows = [r for r in np.split(order, first[1:]) if len(r) >= min(8, int(length.max()))]
    each = [(fit.residual[r], exists[r]) for r in rows]
    least_scatter = min(fit.sigma, *(1.4826 * float(np.median(np.abs(x[there]))) for x, there in each))
    assumed = 0.0 if lags.ranks.max(initial=0) > 1 else 0.5 * min(_end_spread(x, there) for x, there in each)
    return np.sqrt(of_kinds**2 + of_ranks**2 + (HIDDEN * least_scatter) ** 2), assumed


def _end_spread(residual: Float, exists: NDArray[np.bool_]) -> float:
    """Latest minus earliest end: the 90th percentile over the operations."""
    return float(np.quantile(np.where(exists, residual, -np.inf).max(1) - np.where(exists, residual, np.inf).min(1), 0.9))


def disagreement(parts: Parts, offset: Float, late: Float, uncertainty: Float) -> tuple[float, int]:
    """What durations say against the clocks: ns by which they differ, 0 if they agree; and the share of operations that disagree, per cent.

    The rank that enters last is the one with the shortest duration, whatever the clocks say. Looked at are operations whose last
    arrival is clear of the `uncertainty` (per host, ns) of the two hosts. How `late` each part ends beside its operation (ns) tells
    by what durations differ anyway.
    """
    usual = SCATTERED * 1.4826 * float(np.median(np.abs(late - np.median(late))))
    start, duration = parts.start - offset, parts.end - parts.start
    order = np.lexsort((start, parts.row))
    row = parts.row[order]
    stop = np.flatnonzero(np.diff(row, append=-1))
    first = np.append(0, stop[:-1] + 1)
    last, second = order[stop], order[np.maximum(stop - 1, first)]
    by = start[last] - start[second]
    between = np.hypot(uncertainty[parts.host[last]], uncertainty[parts.host[second]])
    shortest = np.minimum.reduceat(duration[order], first)
    clear = (parts.host[last] != parts.host[second]) & (by > between)
    if clear.sum() < _FEWEST:
        return 0.0, 0
    over = (duration[last] - shortest)[clear]
    wrong = over > np.maximum(between[clear], usual)
    if wrong.mean() <= _CONTRADICTED:
        return 0.0, 0
    return float(np.quantile(over[wrong], 0.9)), round(100 * float(wrong.mean()))
