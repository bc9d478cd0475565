"""Where a host's clock was set while the job ran: a jump in its collective ends against those of the other hosts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["find_jump"]

Float = NDArray[np.float64]

LEAST_JUMP_NS = 30_000
"""Smaller jumps are within the ends' own spread, and harmless."""
LEAST_GAIN = 60.0
"""Reduction of the squared residuals in units of their variance that a jump must bring (chance over 10,000 positions: below 1e-9)."""
EDGE = 4
"""Collectives on each side that a jump must be seen over."""


def find_jump(
    values: NDArray[np.int64], exists: NDArray[np.bool_], residual: Float, steps: pl.DataFrame, hosts: Mapping[int, str], linked: list[str]
) -> tuple[int, int] | None:
    """The (host index, moment on that host's clock) of the jump that explains most of `residual`, or None.

    With two hosts the ends cannot tell whose clock moved; then it is the one whose own step is of unusual length.
    """
    options = []
    for h in range(values.shape[1]):
        use = np.flatnonzero(exists[:, h])
        if len(use) < 3 * EDGE:
            continue
        found = _best_split((values[use, h] - values[use[0], h]).astype(np.float64), residual[use, h] * exists.shape[1] / max(exists.shape[1] - 1, 1))
        if found is not None:
            gain, size, k = found
            options.append((gain, abs(size), h, int(values[use[k - 1], h] // 2 + values[use[k], h] // 2)))
    if not options:
        return None
    best = max(options)
    close = [o for o in options if o[0] > 0.8 * best[0]]
    if len(close) > 1:
        best = max(close, key=lambda o: (_oddness(o[3], steps, [r for r, name in hosts.items() if name == linked[o[2]]]), o[0]))
    return best[2], best[3]


def _best_split(t: Float, x: Float) -> tuple[float, float, int] | None:
    """Gain, size and position of the best step in `x` beside a straight line; None where there is none worth it."""
    n = len(x)
    t = (t - t.mean()) / max(float(np.ptp(t)), 1.0)
    base = np.stack([np.ones(n), t], 1)
    q, _ = np.linalg.qr(base)
    x = x - q @ (q.T @ x)
    # Removing the line from the step function too makes its coefficient a plain projection.
    after = np.arange(n)
    tail = np.cumsum(q[::-1], axis=0)[::-1]
    norm = (n - after) - (tail**2).sum(1)
    dot = np.cumsum(x[::-1])[::-1]
    inside = slice(EDGE, n - EDGE + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(norm > 1e-9, dot**2 / norm, 0.0)
    k = int(np.argmax(gain[inside])) + EDGE
    size = float(dot[k] / norm[k])
    step = (after >= k) - q @ tail[k]
    rest = x - size * step
    variance = max((1.4826 * float(np.median(np.abs(rest)))) ** 2, 1e6)
    return (float(gain[k]) / variance, size, k) if gain[k] / variance > LEAST_GAIN and abs(size) > max(LEAST_JUMP_NS, 6 * variance**0.5) else None


def _oddness(moment: int, steps: pl.DataFrame, ranks: list[int]) -> float:
    """How far the step that holds `moment` is from the usual length, in the median over these ranks, ns."""
    own = steps.filter(pl.col("rank").is_in(ranks)).with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("length"))
    own = own.with_columns((pl.col("length") - pl.col("length").median().over("rank")).abs().alias("off"))
    here = own.filter((pl.col("start_ns") <= moment) & (pl.col("end_ns") > moment))["off"]
    return float(np.median(here.to_numpy())) if len(here) else 0.0
