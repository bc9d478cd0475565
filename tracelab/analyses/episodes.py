"""From the excess of one rank over the steps: where its fault began and ended, and whether it stays or comes once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["episode", "lasting", "level_of"]

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST = 0.75
"""Share of the excess that one stretch of steps must hold for the fault to be that stretch."""


def level_of(over: Float) -> float:
    """The excess of a typical disturbed step: half of the total is in steps of at least this much. 0 without excess."""
    ordered = np.sort(over[over > 0])[::-1]
    if not len(ordered):
        return 0.0
    reached = np.cumsum(ordered)
    return float(ordered[np.searchsorted(reached, 0.5 * reached[-1])])


def episode(over: Float, disturbed: Mask) -> Mask:
    """The disturbed steps without those that only chance put there.

    The stretch whose sum of (excess - half of the typical one) is largest begins and ends at the change points of a level
    shift. Where it is three quarters of the whole excess and mostly disturbed, what lies outside of it are other, smaller
    disturbances; else the fault comes and goes, and all disturbed steps are its.
    """
    excess = np.where(disturbed, np.maximum(over, 0.0), 0.0)
    if disturbed.sum() < 2:
        return disturbed
    total = np.append(0.0, np.cumsum(excess - 0.5 * level_of(excess)))
    lowest = np.minimum.accumulate(total)
    end = int(np.argmax(total - lowest))
    start = int(np.argmin(total[: end + 1]))
    while start > 0 and disturbed[start - 1]:
        start -= 1
    while end < len(disturbed) and disturbed[end]:
        end += 1
    inside = np.zeros(len(disturbed), dtype=bool)
    inside[start:end] = True
    if excess[inside].sum() < MOST * excess.sum() or disturbed[inside].mean() < 0.5:
        return disturbed
    return np.asarray(disturbed & inside, dtype=bool)


def lasting(over: Float, disturbed: Mask) -> bool:
    """Whether a fault stays where it is: in three steps or more, and most of those between its first and its last one."""
    own = np.flatnonzero(episode(over, disturbed))
    return len(own) >= 3 and len(own) / (own[-1] - own[0] + 1) >= 0.5
