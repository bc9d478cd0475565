"""Clocks from ends: robust least squares with the moment of every operation eliminated exactly.

end(k, h) = T(k) + Σ_p φ_p(t_k) · θ(p, h) + steps of h before t_k + noise. The φ are 1 and t, or hat functions where clocks
wander. With weights w and W_k = Σ_h w(k, h), eliminating T leaves the normal equations (Schur complement)
Σ_k φ_p φ_q (diag(w_k) − w_k w_kᵀ / W_k); what all hosts have in common cannot be seen and is held at 0. Weights are Huber's,
and less for operations whose ends scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fit", "Step", "beside_steps", "own_moment", "solve"]

Float = NDArray[np.float64]

_ROUNDS = 12
_SETTLED = (10.0, 0.002)
"""A solution is settled when no unknown changes by more than so many ns, or such a share of what ends scatter by."""
_HUBER = 2.0
_BLOCKS = 40
"""Stretches of time whose sums of residuals tell the error: residuals of neighbours are not independent."""
_PRIOR_NS = 5_000.0
"""What ends scatter by where too few of them were seen to tell; it counts as much as `_PRIOR_COUNT` of them."""
_PRIOR_COUNT = 4.0
_LEAST_DRIFT = (8, 5e7)
"""Operations and ns below which a drift cannot be told from noise."""


@dataclass(frozen=True)
class Step:
    """The clock of `host` (its number) is set at the common moment `at`."""

    host: int
    at: float


@dataclass
class Fit:
    """The solution. Times are ns; `time` is the common moment of each operation, `residual` and `weight` are (operations, hosts).

    `residual` and `weight` are 0 where a host took no part. `sigma` is what ends scatter by.
    """

    basis: _Basis
    theta: Float
    steps: tuple[Step, ...]
    sizes: Float
    time: Float
    residual: Float
    weight: Float
    sigma: float
    spread: Float

    def offset(self, at: Float) -> Float:
        """How far each host is ahead of the common clock (hosts, moments), ns."""
        out = self.theta.T @ self.basis.values(at).T
        for step, size in zip(self.steps, self.sizes.tolist(), strict=True):
            out[step.host] += (at >= step.at) * size
        return out

    def course(self, host: int, at: float) -> float:
        """The offset of `host` at a moment without its steps, ns."""
        return float(self.basis.values(np.array([at]))[0] @ self.theta[:, host])

    def slope(self, host: int, at: float, until: float) -> float:
        """What that gains per ns between two moments, or in general where they are one."""
        low, high = (at, until) if until > at + 1.0 else (self.basis.low, self.basis.high)
        return (self.course(host, high) - self.course(host, low)) / max(high - low, 1.0)

    def common_time(self, host: int, own: float) -> float:
        """The common moment at which the clock of `host` shows `own` (ns since its base), before any step."""
        at = own
        for _ in range(3):
            at = own - self.course(host, at)
        return at

    def offset_of(self, row: NDArray[np.int64], host: NDArray[np.int64]) -> Float:
        """The offset of each of these hosts in each of these operations, ns."""
        return np.asarray(self.offset(self.time)[host, row], dtype=np.float64)

    def error(self, host: int, at: float, steps: NDArray[np.bool_]) -> float:
        """Standard error of the offset of `host` at a moment after `steps` (a mask over all), ns."""
        count, width = self.theta.shape
        row = self.basis.values(np.array([at]))[0] @ self.spread[: count * width].reshape(count, width, -1)[:, host]
        return float(np.sqrt(((row + self.spread[count * width :][steps].sum(0)) ** 2).sum()))

    def step_error(self, n: int) -> float:
        """Standard error of the size of step `n`, ns."""
        return float(np.sqrt((self.spread[self.theta.size + n] ** 2).sum()))


def own_moment(fit: Fit, y: Float, host: int, at: float) -> float:
    """What the clock of `host` shows (ns since its base) at the common moment `at` between two of its operations: what they show, halved."""
    use = np.flatnonzero(fit.weight[:, host] > 0)
    before, after = use[fit.time[use] < at], use[fit.time[use] >= at]
    near = [part[np.abs(fit.time[part] - at).argmin()] for part in (before, after) if len(part)]
    return float(y[near, host].mean())


def beside_steps(fit: Fit) -> NDArray[np.bool_]:
    """The operations so near to a step of one of their hosts that they may lie on its other side: the more, the smaller the step."""
    out = np.zeros(len(fit.time), dtype=bool)
    for step, size in zip(fit.steps, fit.sizes.tolist(), strict=True):
        use = np.flatnonzero(fit.weight[:, step.host] > 0)
        near = 10 + round((4.0 * fit.sigma / max(abs(size), 1.0)) ** 2)
        out[use[np.argsort(np.abs(fit.time[use] - step.at), kind="stable")[: 2 * near]]] = True
    return out


@dataclass(frozen=True)
class _Basis:
    """Functions of time, from `low` to `high` (ns): constant; constant and line; or hats on so many `knots`, even apart."""

    low: float
    high: float
    knots: int

    def values(self, at: Float) -> Float:
        """(moments, functions)."""
        u = (at - self.low) / max(self.high - self.low, 1.0)
        if self.knots == 1:
            return np.ones((len(u), 1))
        if self.knots == 2:
            return np.stack([np.ones(len(u)), 2.0 * u - 1.0], axis=1)
        x = np.clip(u, 0.0, 1.0) * (self.knots - 1)
        return np.maximum(0.0, 1.0 - np.abs(x[:, None] - np.arange(self.knots)[None, :]))

    def moments(self) -> list[float]:
        """Where the slope may change."""
        return np.linspace(self.low, self.high, self.knots).tolist()[:-1] if self.knots > 2 else []


def solve(y: Float, exists: NDArray[np.bool_], steps: Sequence[Step] = (), knots: int = 2, start: Fit | None = None, *, afresh: bool = False) -> Fit:
    """The clocks that fit the ends `y` (operations, hosts; ns, each host from its own base).

    `start` is a solution of nearly the same question, which saves rounds; `afresh` takes only its times, and no operation for
    an outlier. `knots` of 2 is a line, more are hat functions.
    """
    count, width = y.shape
    n = np.maximum(exists.sum(1), 1)
    weight = exists.astype(np.float64) if start is None or afresh else np.maximum(start.weight, exists * 1e-9)
    time: Float = np.asarray(np.where(exists, y, 0.0).sum(1) / n) if start is None else start.time
    steps = tuple(steps)
    # Which operations follow a step is settled by the moments it was found by: they move when it is taken into account.
    jumped = _jumped(time, steps)
    solution = np.zeros(0)
    for _ in range(_ROUNDS if start is None else _ROUNDS // 2):
        low, high = float(time.min()), float(time.max())
        basis = _Basis(low, high, knots if count >= _LEAST_DRIFT[0] and high - low > _LEAST_DRIFT[1] else 1)
        phi = basis.values(time)
        a, r = _normal(y, weight, phi, steps, jumped)
        scale = max(float(np.trace(a)) / len(a), 1e-12)
        matrix = _gauged(a, phi.shape[1], width, scale)
        before, solution = solution, np.asarray(np.linalg.solve(matrix, r), dtype=np.float64)
        theta, sizes = solution[: phi.shape[1] * width].reshape(phi.shape[1], width), solution[phi.shape[1] * width :]
        ahead = phi @ theta
        for step, size, after in zip(steps, sizes.tolist(), jumped.T, strict=True):
            ahead[:, step.host] += size * after
        residual = y - ahead
        moment: Float = (weight * residual).sum(1) / weight.sum(1)
        time = np.asarray(moment, dtype=np.float64)
        residual = np.where(exists, residual - moment[:, None], 0.0)
        sigma = _scale(residual, exists)
        score: Float = np.asarray(weight * residual)
        weight = exists / np.maximum(1.0, np.abs(residual) / (_HUBER * sigma))
        scatter = (residual**2).sum(1) / n / sigma**2
        weight = np.maximum(weight / (1.0 + scatter)[:, None], exists * 1e-9)
        if len(before) == len(solution) and np.abs(solution - before).max() < max(_SETTLED[0], _SETTLED[1] * sigma):
            break
    spread = _spread(np.asarray(np.linalg.inv(matrix)), score, time, phi, steps, jumped, sigma)
    steps = tuple(Step(s.host, _between(time, exists[:, s.host], after > 0)) for s, after in zip(steps, jumped.T, strict=True))
    return Fit(basis, theta, steps, sizes, time, residual, weight, sigma, spread)


def _jumped(time: Float, steps: Sequence[Step]) -> Float:
    """(operations, steps): 1 from the step on."""
    return np.stack([(time >= s.at).astype(np.float64) for s in steps], axis=1) if steps else np.zeros((len(time), 0))


def _between(time: Float, there: NDArray[np.bool_], after: NDArray[np.bool_]) -> float:
    """The moment between the last operation before a step and the first one after it."""
    return 0.5 * float(time[there & ~after].max(initial=time.min()) + time[there & after].min(initial=time.max()))


def _normal(y: Float, weight: Float, phi: Float, steps: Sequence[Step], jumped: Float) -> tuple[Float, Float]:
    """Matrix and right side for the parameters (function, host) …, then steps."""
    width, functions, owners = y.shape[1], phi.shape[1], [s.host for s in steps]
    total = weight.sum(1)
    size = functions * width + len(owners)
    a, r = np.zeros((size, size)), np.zeros(size)
    rest = weight * (y - ((weight * y).sum(1) / total)[:, None])
    shared = weight / np.sqrt(total)[:, None]
    stepped = jumped * weight[:, owners]
    for p in range(functions):
        rows = slice(p * width, (p + 1) * width)
        r[rows] = phi[:, p] @ rest
        for q in range(p, functions):
            both = phi[:, p] * phi[:, q]
            use = slice(None) if both.all() else np.flatnonzero(both)
            left = shared[use] * phi[use, p][:, None]
            # A product with itself costs half.
            block = -(left.T @ (left if q == p else shared[use] * phi[use, q][:, None]))
            block[np.diag_indices(width)] += both @ weight
            columns = slice(q * width, (q + 1) * width)
            a[rows, columns], a[columns, rows] = block, block.T
        if owners:
            cross = -((weight * (phi[:, p] / total)[:, None]).T @ stepped)
            cross[owners, np.arange(len(owners))] += phi[:, p] @ stepped
            a[rows, functions * width :], a[functions * width :, rows] = cross, cross.T
    if owners:
        own = np.equal.outer(owners, owners)
        a[functions * width :, functions * width :] = np.where(own, jumped.T @ stepped, 0.0) - (stepped / total[:, None]).T @ stepped
        r[functions * width :] = (jumped * rest[:, owners]).sum(0)
    return a, r


def _gauged(a: Float, functions: int, width: int, scale: float) -> Float:
    """The matrix with the mean over hosts of every function held at 0, and a little of everything so that it can be inverted."""
    for p in range(functions):
        block = slice(p * width, (p + 1) * width)
        a[block, block] += scale / width
    a[np.diag_indices_from(a)] += 1e-11 * scale
    return a


def _scale(residual: Float, exists: NDArray[np.bool_]) -> float:
    """What ends scatter by, ns: robust, and drawn towards the usual where few were seen."""
    values = np.abs(residual[exists])
    freedom = max(int(exists.sum()) - exists.shape[0] - exists.shape[1], 0)
    seen = 1.4826 * float(np.median(values))
    return float(np.sqrt((freedom * seen**2 + _PRIOR_COUNT * _PRIOR_NS**2) / (freedom + _PRIOR_COUNT))) + 1.0


def _spread(inverse: Float, score: Float, time: Float, phi: Float, steps: Sequence[Step], jumped: Float, sigma: float) -> Float:
    """A matrix S with S Sᵀ the covariance of the parameters, from sums of `score` over stretches of time (a sandwich).

    With too few operations for stretches: the covariance of independent ends.
    """
    count = len(score)
    blocks = min(_BLOCKS, count // 4)
    if blocks < 8:
        values, vectors = np.linalg.eigh((inverse + inverse.T) / 2)
        # The common offset has a variance of its own in the inverse; nobody asks for it.
        return np.asarray(sigma * vectors * np.sqrt(np.maximum(values, 0.0)))
    block = np.empty(count, dtype=np.int64)
    block[np.argsort(time, kind="stable")] = np.arange(count) * blocks // count
    member = (block[:, None] == np.arange(blocks)[None, :]).astype(np.float64)
    parts = [(phi[:, [p]] * score).T @ member for p in range(phi.shape[1])]
    if steps:
        parts.append((jumped * score[:, [s.host for s in steps]]).T @ member)
    return np.asarray(inverse @ np.concatenate(parts) * np.sqrt(blocks / (blocks - 1)))
