"""Whether the clocks of a run wander: whether a straight course leaves what a bent one would explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracelab.align.solve import Fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["wandering"]

FEWEST_KNOTS, MOST_KNOTS = 5, 17
NEAREST_NS = 1e9
"""Knots are no nearer than this: what changes faster is not a clock's rate."""
MOST_UNKNOWNS = 2_000
FEWEST = 10
"""Operations of each host between two knots."""
LEAST_NS = 1_000.0
"""Bends below this are not worth more unknowns."""


def wandering(fit: Fit, exists: NDArray[np.bool_]) -> int:
    """The knots that a better course needs, 0 if that of `fit` will do: from the means of each host's residuals over stretches of time.

    Clocks that wander ask for knots some ten seconds apart, those that a time service slews for more.
    """
    width = exists.shape[1]
    low, high = fit.basis.low, fit.basis.high
    knots = max(2 * fit.basis.knots - 1, FEWEST_KNOTS)
    if fit.basis.knots == 1 or knots > MOST_KNOTS or knots * width > MOST_UNKNOWNS or high - low < NEAREST_NS * (knots - 1):
        return 0
    # Twice as fine as the knots would be, so that a bend shows on both sides of one.
    bins = 2 * (knots - 1)
    cells = np.minimum(((fit.time - low) / (high - low) * bins).astype(np.int64), bins - 1)
    member = (cells[:, None] == np.arange(bins)[None, :]).astype(np.float64)
    seen = member.T @ exists
    if (seen < FEWEST / 2).any():
        return 0
    share = fit.weight / fit.weight.sum(1, keepdims=True)
    alone = fit.residual / np.maximum(1.0 - share, 0.05)
    weight = member.T @ fit.weight
    mean = member.T @ (fit.weight * alone) / weight
    noise = member.T @ (fit.weight * alone) ** 2 / weight**2
    bend, chance = (mean**2).mean(0), noise.mean(0)
    return knots if bool((bend > np.maximum(4.0 * chance, LEAST_NS**2)).any()) else 0
