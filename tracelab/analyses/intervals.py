"""Exact interval arithmetic on int64 nanoseconds: unions, lengths, intersections, and a partition of time by priority."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["EMPTY", "Intervals", "intersection", "length", "partition", "union"]

Int = NDArray[np.int64]
Intervals = tuple[Int, Int]
"""Starts and ends of disjoint half-open intervals, in order."""

EMPTY: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Int, end: Int) -> Intervals:
    """The union of half-open intervals [start, end), int64 ns in any order; touching ones are joined, empty ones dropped."""
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] > reach[:-1])
    last = np.append(first[1:], True)
    return start[first], reach[last]


def length(a: Intervals) -> int:
    """Total length, ns."""
    return int((a[1] - a[0]).sum())


def intersection(a: Intervals, b: Intervals) -> int:
    """Length of what two unions share, ns."""
    return length(a) + length(b) - length(union(np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])))


def _inside(a: Intervals, points: Int) -> NDArray[np.bool_]:
    k = np.searchsorted(a[0], points, side="right") - 1
    found: NDArray[np.bool_] = (k >= 0) & (points < a[1][np.maximum(k, 0)]) if len(a[0]) else np.zeros(len(points), dtype=bool)
    return found


def partition(layers: Sequence[Intervals], windows: Intervals, also: Intervals = EMPTY) -> tuple[Int, Int]:
    """Cuts each window into the layers: every moment belongs to the first layer that covers it, else to the rest.

    Returns ns as int64 of shape (windows, layers + 1), the rest last, whose rows sum to the windows' lengths; and, of
    shape (windows,), how much of the rest is covered by `also`. Windows must be disjoint and in order.
    """
    start, end = windows
    edges = np.concatenate([start, end, *(e for a in (*layers, also) for e in a)])
    points = np.unique(edges)
    size = np.diff(points)
    points = points[:-1]
    window = np.searchsorted(start, points, side="right") - 1
    within = (window >= 0) & (points < end[np.maximum(window, 0)]) if len(start) else np.zeros(len(points), dtype=bool)
    points, size, window = points[within], size[within], window[within]
    layer = np.full(len(points), len(layers), dtype=np.int64)
    for n in range(len(layers) - 1, -1, -1):
        layer[_inside(layers[n], points)] = n
    # Sums of weights are exact in float64 below 2**53 ns, which is 104 days.
    width = len(layers) + 1
    total = np.bincount(window * width + layer, weights=size, minlength=len(start) * width).astype(np.int64).reshape(len(start), width)
    covered = (layer == len(layers)) & _inside(also, points)
    return total, np.bincount(window[covered], weights=size[covered], minlength=len(start)).astype(np.int64)
