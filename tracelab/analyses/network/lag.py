"""How far the clock of a counter is from the job's: the shift under which the job's bytes explain best what was counted.

Integrals at the edges of the sampling intervals are compared, never resampled rates. A job that repeats itself step by step fits
again after each whole step: every shift that cannot be told from the best one is given, and only a single one is accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import f as f_distribution

from tracelab.analyses.common import Float
from tracelab.analyses.intervals import Int, Intervals

__all__ = ["Candidate", "Fit", "Samples", "fit_lag", "inside"]

_LEAST = 5
"""Intervals without which no shift is looked for: two parameters are fitted."""
_DOUBT = 0.001
"""A shift is given up where its misfit would be so much larger by chance this rarely (F-test of the two variances)."""
_EXACT = 1e-3
"""Part of a usual interval's bytes to which a prediction is believed at best."""
_AROUND = np.linspace(-1, 1, 21)
_MOST_POINTS = 2_000
_MOST_WORK = 2_000_000
"""Grid points, and grid points × intervals; beyond, every second interval is left out, and so on."""
_AT_ONCE = 50_000
"""Intervals × shifts held at once."""
_MOST_MINIMA = 64


@dataclass(frozen=True)
class Samples:
    """What the counters of one clock counted: aligned ns as they were stamped, shape (n,); bytes, shape (n,).

    `weights`: share of each class of operations in the bytes of each interval, shape (n, classes).
    """

    start: Int
    end: Int
    counted: Float
    weights: Float


@dataclass(frozen=True)
class Candidate:
    """A shift (ns; positive: the counter's clock is ahead), its standard error, and the misfit: rms over the mean interval's bytes."""

    lag_ns: float
    se_ns: float
    misfit: float


@dataclass(frozen=True)
class Fit:
    """What came of the search.

    `status`: found; ambiguous (several shifts, or one no better than a step away could be); edge (the best shift is at the end of
    the range); flat (all shifts fit alike); few (too few intervals lie inside the captures). `range_ns`: shifts up to it were
    tried. `intervals`: intervals used. `candidates`: the nearest to 0 first.
    """

    status: str
    intervals: int
    range_ns: int
    candidates: tuple[Candidate, ...]


def inside(start: Int, end: Int, spans: Intervals, margin: int = 0) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which intervals lie in one of `spans` with `margin` ns on both sides."""
    if not len(spans[0]):
        return np.zeros(len(start), np.bool_)
    k = np.searchsorted(spans[0], start - margin, side="right") - 1
    return np.asarray((k >= 0) & (end + margin <= spans[1][np.maximum(k, 0)]))


def fit_lag(samples: Samples, until: Callable[[Int], Float], spans: Intervals, step_ns: float | None, most_ns: int) -> Fit:
    """The shift of the clock of `samples` against the job's, by least squares.

    `until`: bytes of each class until moments of the job's clock, shape (classes, n); `spans`: what the captures cover; `step_ns`: usual
    length of a step, the period of the job; `most_ns`: largest shift tried. The bytes may differ by one common factor: more was
    counted where packets were sent again, and that says nothing of time.
    """
    reach = min(most_ns, int(np.max(spans[1] - spans[0])) // 4) if len(spans[0]) else 0
    kept = inside(samples.start, samples.end, spans, reach)
    # a shift by a step must have been tried before one is accepted
    least = round(1.25 * step_ns) if step_ns is not None else 0
    while kept.sum() < 2 * _LEAST and reach // 2 >= max(least, 1):
        reach //= 2
        kept = inside(samples.start, samples.end, spans, reach)
    if kept.sum() < _LEAST or reach < max(least, 1):
        return Fit("few", int(kept.sum()), reach, ())
    start, end, counted, weights = samples.start[kept], samples.end[kept], samples.counted[kept], samples.weights[kept]
    usual = float(np.median(end - start))
    grid = np.linspace(-reach, reach, 2 * min(_MOST_POINTS // 2, max(50, round(reach / min(usual / 20, (step_ns or usual) / 100)))) + 1)
    every = -(-len(start) * len(grid) // _MOST_WORK)
    start, end, counted, weights = start[::every], end[::every], counted[::every], weights[::every]
    if not counted.any():
        return Fit("flat", len(start), reach, ())

    def misfits(lags: Float) -> Float:
        shift = np.round(lags).astype(np.int64)[:, None]
        moved = np.einsum("cln,nc->ln", until(end - shift) - until(start - shift), weights)
        power, both = (moved**2).sum(axis=1), moved @ counted
        gain = np.maximum(np.divide(both, power, out=np.zeros_like(power), where=power > 0), 0.0)
        return np.asarray(((counted - gain[:, None] * moved) ** 2).sum(axis=1))

    def misfit(lag: float) -> float:
        return float(misfits(np.array([lag]))[0])

    freedom = len(start) - 2
    floor = len(start) * (_EXACT * float(counted.mean())) ** 2
    at_once = max(1, _AT_ONCE // len(start))
    values = np.concatenate([misfits(grid[n : n + at_once]) for n in range(0, len(grid), at_once)])
    found = _minima(misfit, grid, values)
    if not found:
        return Fit("edge", len(start), reach, ())
    limit = max(min(v for _, v in found), floor) * float(f_distribution.ppf(1 - _DOUBT, freedom, freedom))
    if values.max() <= limit:
        return Fit("flat", len(start), reach, ())
    if min(values[0], values[-1]) < min(v for _, v in found):
        return Fit("edge", len(start), reach, ())
    basins = _basins(found, grid, values, limit)
    h = float(grid[1] - grid[0])
    scale = float(counted.mean())
    out = []
    for lag, value in basins:
        # on the scale on which the misfit grows as large again: nearer to the minimum single bursts make it rough
        width = h
        while width < reach / 4 and misfit(lag - width) + misfit(lag + width) < 4 * max(value, floor):
            width *= 1.5
        curvature = float(np.polyfit(_AROUND, misfits(lag + _AROUND * width), 2)[0]) / width**2
        se = np.sqrt(max(value, floor) / freedom / curvature) if curvature > 0 else np.inf
        out.append(Candidate(lag, float(se), float(np.sqrt(value / len(start))) / scale))
    out.sort(key=lambda c: (abs(c.lag_ns), c.lag_ns))
    open_end = min(values[0], values[-1]) <= limit
    wide = out[0].se_ns > (step_ns or usual) / 8
    return Fit("found" if len(out) == 1 and not open_end and not wide else "ambiguous", len(start), reach, tuple(out))


def _minima(misfit: Callable[[float], float], grid: Float, values: Float) -> list[tuple[float, float]]:
    """Shift and misfit of the best minima inside the grid, refined by Brent's parabolas, in order of the shift."""
    middle = values[1:-1]
    at = np.flatnonzero((middle <= values[:-2]) & (middle < values[2:])) + 1
    at = np.sort(at[np.argsort(values[at], kind="stable")[:_MOST_MINIMA]])
    out = []
    for k in at:
        best = minimize_scalar(misfit, bounds=(grid[k - 1], grid[k + 1]), method="bounded", options={"xatol": 1e5})
        lag, value = (float(best.x), float(best.fun)) if best.fun < values[k] else (float(grid[k]), float(values[k]))
        out.append((lag, value))
    return out


def _basins(found: list[tuple[float, float]], grid: Float, values: Float, limit: float) -> list[tuple[float, float]]:
    """The minima below `limit`; those that no higher misfit parts are one."""
    out: list[tuple[float, float]] = []
    for lag, value in (f for f in found if f[1] <= limit):
        between = values[(grid > out[-1][0]) & (grid < lag)] if out else values
        if out and not (between > limit).any():
            out[-1] = min(out[-1], (lag, value), key=lambda f: f[1])
        else:
            out.append((lag, value))
    return out
