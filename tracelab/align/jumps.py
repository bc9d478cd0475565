"""Where a host's clock was set while the job ran: its collective ends against those of the other hosts change at once.

The ends after a moment are compared with those before it over stretches of several lengths. A difference counts if it is far
beyond what neighbouring stretches differ by anyway, and if a closer look confirms it: beside a slope (a clock that
drifts differently for a while is not set) and within each kind of operation (another mix of operations is no other clock).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.solve import Fit, Step, own_moment, solve

__all__ = ["with_steps"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

LEAST_STEP_NS = 10_000.0
"""Smaller steps are within the ends' own spread, and harmless."""
LEAST_GAIN = 60.0
"""Squared difference in units of its variance that a step must reach (chance over 10,000 positions: below 1e-9)."""
SURE = 6.0
"""Standard errors that its size must reach when looked at closely."""
EDGE = 4
"""Operations on each side that a step must be seen over."""
LONGEST_NS = 1e10
"""Stretches that are compared are no longer: clocks wander."""
MOST_STEPS = 64
_ROUNDS = 16
_MUCH = 0.3
_BLOCK, _BLOCKS = 16, 12
_QUIET_NS = 1_000.0
"""Ends never scatter by less: sources count in µs."""
_NEAR = 20
"""Operations within which two hosts' steps may be one step seen from both sides."""


@dataclass(frozen=True)
class _Found:
    """A step that was found: what it gains, its size, and the common moment."""

    gain: float
    size: float
    host: int
    at: float
    reach: float


@dataclass(frozen=True)
class _Series:
    """One host's residuals against all others, in order of time: variance and kind of each, and its place in the matrix."""

    time: Float
    x: Float
    variance: Float
    kind: Int


def with_steps(y: Float, exists: NDArray[np.bool_], kind: Int, fit: Fit, own: Mapping[int, pl.DataFrame], base: Sequence[int]) -> Fit:
    """`fit` with the steps that clocks were set by. `own` holds the training steps per host; with two hosts they tell whose clock moved."""
    for _ in range(_ROUNDS):
        each = _scatter(fit, exists, kind)
        found = [f for h in range(y.shape[1]) if (f := _of_host(_series(fit, exists, kind, each, h), h)) is not None]
        new = _chosen(found, fit, y, own, base)
        if not new or len(fit.steps) + len(new) > MOST_STEPS:
            break
        fit = solve(y, exists, [*fit.steps, *new], fit.basis.knots, fit, afresh=True)
        fit = solve(y, exists, _placed(exists, kind, fit), fit.basis.knots, fit)
    while fit.steps:
        kept = [s for n, s in enumerate(fit.steps) if abs(fit.sizes[n]) > max(LEAST_STEP_NS, SURE * fit.step_error(n))]
        if len(kept) == len(fit.steps):
            break
        fit = solve(y, exists, kept, fit.basis.knots, fit)
    return fit


def _scatter(fit: Fit, exists: NDArray[np.bool_], kind: Int) -> tuple[Float, Float]:
    """Per operation the variance of ends in operations of its kind, and the sum of its weights."""
    scatter = (fit.residual**2).sum(1) / exists.sum(1)
    by_kind = np.bincount(kind, weights=scatter) / np.maximum(np.bincount(kind), 1)
    return np.minimum(by_kind[kind], 1e4 * fit.sigma**2), fit.weight.sum(1)


def _series(fit: Fit, exists: NDArray[np.bool_], kind: Int, each: tuple[Float, Float], host: int) -> _Series:
    """The series of a host; `each` is from `_scatter`."""
    use = np.flatnonzero(exists[:, host])
    use = use[np.argsort(fit.time[use], kind="stable")]
    scatter, total = (v[use] for v in each)
    # Without the host itself in the mean that it is compared with.
    rest = np.maximum(1.0 - fit.weight[use, host] / total, 0.01)
    return _Series(fit.time[use], fit.residual[use, host] / rest, scatter / rest + 1.0, kind[use])


def _of_host(s: _Series, host: int) -> _Found | None:
    """The step of one host that gains most, if any is worth it."""
    n = len(s.x)
    if n < 3 * EDGE:
        return None
    z = s.x / np.sqrt(s.variance)
    middle = float(np.median(z))
    spread = 1.4826 * float(np.median(np.abs(z - middle))) + 1e-9
    x = (middle + np.clip(z - middle, -3.0 * spread, 3.0 * spread)) * np.sqrt(s.variance)
    weight = 1.0 / s.variance
    noise = max(_QUIET_NS**2 * float(np.median(weight)), float(np.median(np.abs(np.diff(z))) / 0.954) ** 2, _between_blocks(x, weight))
    sums = _Sums.of(s.time - s.time[0], x, weight)
    k = np.arange(EDGE, n - EDGE + 1)
    earliest = np.searchsorted(s.time, s.time[k - 1] - LONGEST_NS)
    latest = np.searchsorted(s.time, s.time[np.minimum(k, n - 1)] + LONGEST_NS, side="right")
    best: tuple[float, int, int] | None = None
    length = EDGE
    while length < 2 * n:
        low, high = np.maximum(k - length, earliest), np.minimum(k + length, latest)
        gain = np.where((k - low >= EDGE) & (high - k >= EDGE), sums.gains(low, k, high), 0.0) / noise
        top = int(np.argmax(gain))
        if gain[top] > LEAST_GAIN and (best is None or gain[top] > best[0]):
            best = (float(gain[top]), int(k[top]), length)
        length *= 4
    if best is None:
        return None
    gain_, at, length = best
    size = _confirmed(s, at, 2 * length, noise)
    if size is None:
        return None
    near = s.time[max(at - _NEAR, 0) : at + _NEAR]
    return _Found(gain_, size, host, float(s.time[at - 1] + s.time[at]) / 2, float(np.ptp(near)))


@dataclass(frozen=True)
class _Sums:
    """Running sums, from which the means and slopes of any stretch follow."""

    w: Float
    wt: Float
    wtt: Float
    wx: Float
    wtx: Float

    @staticmethod
    def of(time: Float, x: Float, weight: Float) -> _Sums:
        t = time / 1e9
        return _Sums(*(np.concatenate([[0.0], np.cumsum(v)]) for v in (weight, weight * t, weight * t * t, weight * x, weight * t * x)))

    def _stretch(self, low: Int, high: Int) -> tuple[Float, Float, Float, Float, Float]:
        """Weight, mean of time and of x, and the centred sums of squares of time and of products."""
        w, t, tt, x, tx = (v[high] - v[low] for v in (self.w, self.wt, self.wtt, self.wx, self.wtx))
        w = np.maximum(w, 1e-30)
        return w, t / w, x / w, np.maximum(tt - t * t / w, 0.0), tx - t * x / w

    def gains(self, low: Int, at: Int, high: Int) -> Float:
        """Squared difference of the stretches before and from `at` on in units of its variance: as they are or beside a slope, whichever is more."""
        (w0, t0, x0, tt0, tx0), (w1, t1, x1, tt1, tx1) = self._stretch(low, at), self._stretch(at, high)
        plain, variance = x1 - x0, 1.0 / w0 + 1.0 / w1
        squares = np.maximum(tt0 + tt1, 1e-30)
        beside = plain - (tx0 + tx1) / squares * (t1 - t0)
        gains = [
            np.where(np.abs(size) > 0.5 * LEAST_STEP_NS, size**2 / v, 0.0) for size, v in ((plain, variance), (beside, variance + (t1 - t0) ** 2 / squares))
        ]
        return np.asarray(np.maximum(*gains))


def _between_blocks(x: Float, weight: Float) -> float:
    """The variance of independent values of which neighbouring blocks would differ as they do, in units of 1 / `weight`, robustly."""
    size = min(_BLOCK, len(x) // _BLOCKS)
    if size < 2:
        return 0.0
    blocks = len(x) // size
    w = weight[: blocks * size].reshape(blocks, size).sum(1)
    mean = (weight * x)[: blocks * size].reshape(blocks, size).sum(1) / w
    # Second differences: a slope is no noise.
    bend = np.abs(np.diff(mean, 2)) / np.sqrt(1.0 / w[2:] + 4.0 / w[1:-1] + 1.0 / w[:-2])
    return float(np.median(bend) / 0.6745) ** 2


def _confirmed(s: _Series, at: int, length: int, noise: float) -> float | None:
    """The size of the step at position `at` beside a slope and a constant per kind of operation; None if that is not significant."""
    part = slice(max(at - length, 0), at + length)
    near = np.abs(s.time[part] - s.time[at]) <= LONGEST_NS
    time, x, variance, kind = (v[part][near] for v in (s.time, s.x, s.variance, s.kind))
    after = (np.arange(len(s.x))[part][near] >= at).astype(np.float64)
    kinds, number = np.unique(kind, return_inverse=True)
    slope = (time - time.mean()) / max(float(np.ptp(time)), 1.0)
    if len(x) - len(kinds) - 1 < EDGE:
        return None
    free, error = _regressed([after, slope] if len(x) > len(kinds) + 4 * EDGE else [after], number, x, variance, noise)
    if abs(free) > max(LEAST_STEP_NS, SURE * error):
        return free
    # A slope costs half of the accuracy, and clocks rarely have one that their drift does not explain: it need only not explain the step.
    size, error = _regressed([after], number, x, variance, noise)
    return size if abs(size) > max(LEAST_STEP_NS, SURE * error) and free * np.sign(size) > 0.5 * abs(size) else None


def _regressed(columns: list[Float], kind: Int, x: Float, variance: Float, noise: float) -> tuple[float, float]:
    """The first coefficient of a robust regression beside a constant per kind, and its standard error."""
    weight = 1.0 / variance
    for _ in range(4):
        total = np.maximum(np.bincount(kind, weights=weight), 1e-30)
        # A constant per kind is taken out by taking out the means.
        *parts, rest = (v - (np.bincount(kind, weights=weight * v) / total)[kind] for v in (*columns, x))
        design = np.column_stack(parts)
        inverse = np.linalg.pinv(design.T @ (weight[:, None] * design), hermitian=True)
        solution = inverse @ (design.T @ (weight * rest))
        off = (rest - design @ solution) / np.sqrt(variance)
        spread = 1.4826 * float(np.median(np.abs(off))) + 1e-9
        weight = 1.0 / variance / np.maximum(1.0, np.abs(off) / (2.0 * spread))
    return float(solution[0]), float(np.sqrt(inverse[0, 0] * max(noise, spread**2)))


def _chosen(found: list[_Found], fit: Fit, y: Float, own: Mapping[int, pl.DataFrame], base: Sequence[int]) -> list[Step]:
    """Of the steps found those that are no reflection of a larger one at the same time on another host.

    As long as a much larger one is not taken into account it bends the courses of all hosts: the smaller ones have to wait.
    """
    out: list[_Found] = []
    least = _MUCH * max((abs(f.size) for f in found), default=0.0)
    for f in sorted((f for f in found if abs(f.size) >= least), key=lambda f: (-f.gain, f.host)):
        if any(abs(f.at - o.at) <= max(f.reach, o.reach) for o in out):
            continue
        twins = [o for o in found if abs(f.at - o.at) <= f.reach and o.gain > 0.8 * f.gain]
        out.append(
            max(twins, key=lambda o: (_oddness(own.get(o.host), base[o.host] + round(own_moment(fit, y, o.host, o.at))), o.gain)) if len(twins) > 1 else f
        )
    known = {(s.host, s.at) for s in fit.steps}
    return [Step(f.host, f.at) for f in out if (f.host, f.at) not in known]


def _oddness(steps: pl.DataFrame | None, moment: int) -> float:
    """How far the training step that holds `moment` is from the usual length, in the median over the ranks of a host, ns."""
    if steps is None:
        return 0.0
    own = steps.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("length"))
    own = own.with_columns((pl.col("length") - pl.col("length").median().over("rank")).abs().alias("off"))
    here = own.filter((pl.col("start_ns") <= moment) & (pl.col("end_ns") > moment))["off"]
    return float(np.median(here.to_numpy())) if len(here) else 0.0


def _placed(exists: NDArray[np.bool_], kind: Int, fit: Fit) -> list[Step]:
    """The steps of `fit`, each moved to where it fits best now that its size is known."""
    each = _scatter(fit, exists, kind)
    out = []
    for step, size in zip(fit.steps, fit.sizes.tolist(), strict=True):
        out.append(Step(step.host, _place(_series(fit, exists, kind, each, step.host), step, size, fit.steps)))
    return out


def _place(s: _Series, step: Step, size: float, steps: Sequence[Step]) -> float:
    others = [o.at for o in steps if o.host == step.host and o.at != step.at]
    low, high = max((t for t in others if t < step.at), default=-np.inf), min((t for t in others if t > step.at), default=np.inf)
    use = (s.time > low) & (s.time < high)
    time, variance = s.time[use], s.variance[use]
    if len(time) < 2 * EDGE:
        return step.at
    # Without this step: 0 before it, its size from it on. Each operation says how much likelier it lies before.
    x = s.x[use] + size * (time >= step.at)
    reach = 3.0 * np.sqrt(variance)
    x = np.clip(x * np.sign(size), -reach, abs(size) + reach)
    gain = np.concatenate([[0.0], np.cumsum((abs(size) / 2 - x) * abs(size) / variance)])
    k = int(np.argmax(gain[EDGE : len(time) - EDGE + 1])) + EDGE
    return float(time[k - 1] + time[k]) / 2
