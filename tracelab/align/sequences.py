"""Alignment of two sequences of operations, by token and by the constant difference between their ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pairing", "align_sequences"]

Int = NDArray[np.int64]

WINDOW_NS = 200_000
"""Ends of one operation lie together within this, after the offset of the clocks: usual spreads are 1 to 140 µs."""
DRIFT = 50e-6
"""Clocks of hosts drift apart by no more than this in normal operation."""
BAND = 256
"""Positions that two captures of one job may be shifted against each other."""
LATE_NS = 500_000
"""Ends of one operation that lie further apart are not taken for one, unless a step anchors them."""
STRETCH = 4
"""A stretch of more operations than this may have an offset of its own."""
DEEPEST = 4
"""Times that a clock may be set in one sequence."""
DECISIVE = 0.3
"""The offset must explain this share of the shorter sequence, or the ends say nothing."""


@dataclass(frozen=True)
class Pairing:
    """Pairs of positions (first, second sequence), rising in both; `margin`: share by which the best beats the next (0 to 1)."""

    pairs: list[tuple[int, int]]
    margin: float


def align_sequences(tokens_a: Int, ends_a: Int, tokens_b: Int, ends_b: Int) -> Pairing:
    """Pairs positions of equal tokens. Tokens and ends (ns, each in its own clock) are in time order.

    All pairs of equal tokens vote for their difference of ends; the densest offset wins, and what lies between two pairs
    that it found is paired in order where both sides hold the same tokens. If no offset is decisive (ends that scatter),
    equal sequences are paired in order, and others by their longest common subsequence with margin 0.
    """
    found = _by_votes(tokens_a, ends_a, tokens_b, ends_b, DEEPEST)
    if found is not None:
        return found
    shorter = min(len(tokens_a), len(tokens_b))
    if len(tokens_a) == len(tokens_b) and np.array_equal(tokens_a, tokens_b):
        return Pairing([(k, k) for k in range(shorter)], 1.0 if shorter == 1 else 0.5)
    return Pairing(_common_subsequence(tokens_a, tokens_b), 0.0)


def _by_votes(tokens_a: Int, ends_a: Int, tokens_b: Int, ends_b: Int, depth: int) -> Pairing | None:
    """The pairing at the densest offset, or None where none is decisive."""
    i, j = _candidates(tokens_a, tokens_b)
    if not len(i):
        return None
    d = (ends_b[j] - ends_a[i]).astype(np.int64)
    width = WINDOW_NS + int(DRIFT * min(int(np.ptp(ends_a)), int(np.ptp(ends_b))))
    best, votes, second = _densest(d, width)
    if votes < max(2, DECISIVE * min(len(tokens_a), len(tokens_b))):
        return None
    pairs = _monotone(i, j, np.abs(d - best), width)
    return Pairing(_fill(pairs, (tokens_a, tokens_b), np.int64(best), (ends_a, ends_b), depth), (votes - second) / votes)


def _candidates(a: Int, b: Int) -> tuple[Int, Int]:
    """Positions of equal tokens, at most `BAND` beyond the difference of lengths apart."""
    found_i, found_j = [], []
    reach = BAND + abs(len(a) - len(b))
    for k in range(len(a)):
        low = max(0, k - reach)
        j = np.flatnonzero(b[low : k + reach + 1] == a[k]) + low
        found_i.append(np.full(len(j), k, dtype=np.int64))
        found_j.append(j.astype(np.int64))
    return np.concatenate(found_i), np.concatenate(found_j)


def _densest(d: Int, width: int) -> tuple[int, int, int]:
    """Centre and votes of the window of `width` that holds most values, and the votes of the best one clear of it."""
    ordered = np.sort(d)
    counts = np.searchsorted(ordered, ordered + width, side="right") - np.arange(len(ordered))
    k = int(np.argmax(counts))
    centre = int(np.median(ordered[k : k + counts[k]]))
    clear = np.abs(ordered + width // 2 - centre) > 2 * width
    return centre, int(counts[k]), int(counts[clear].max()) if clear.any() else 0


def _monotone(i: Int, j: Int, off: Int, width: int) -> list[tuple[int, int]]:
    """Pairs near the offset, nearest first, each position once, rising in both."""
    near = np.flatnonzero(off <= width)
    used_i: dict[int, int] = {}
    used_j: set[int] = set()
    for k in near[np.argsort(off[near], kind="stable")]:
        a, b = int(i[k]), int(j[k])
        if a not in used_i and b not in used_j:
            used_i[a] = b
            used_j.add(b)
    out: list[tuple[int, int]] = []
    for a in sorted(used_i):
        if not out or used_i[a] > out[-1][1]:
            out.append((a, used_i[a]))
    return out


def _fill(pairs: list[tuple[int, int]], tokens: tuple[Int, Int], off: np.int64, ends: tuple[Int, Int], depth: int) -> list[tuple[int, int]]:
    """Adds what lies between neighbouring pairs: equal tokens that ended a little apart, and stretches with an offset of their own.

    The latter happens when a clock is set: what comes before and what comes after vote for different offsets.
    """
    (a, b), (ends_a, ends_b) = tokens, ends
    out: list[tuple[int, int]] = []
    for (a0, b0), (a1, b1) in pairwise([(-1, -1), *pairs, (len(a), len(b))]):
        i, j = slice(a0 + 1, a1), slice(b0 + 1, b1)
        late = np.abs(ends_b[j] - ends_a[i] - off) if a1 - a0 == b1 - b0 and np.array_equal(a[i], b[j]) else None
        if late is not None and (late <= LATE_NS).all():
            out.extend((a0 + k, b0 + k) for k in range(1, a1 - a0))
        elif depth and min(a1 - a0, b1 - b0) > STRETCH:
            inner = _by_votes(a[i], ends_a[i], b[j], ends_b[j], depth - 1)
            out.extend((a0 + 1 + x, b0 + 1 + y) for x, y in (inner.pairs if inner else ()))
        if a1 < len(a):
            out.append((a1, b1))
    return out


def _common_subsequence(a: Int, b: Int) -> list[tuple[int, int]]:
    """The longest common subsequence; for sequences of thousands only their equal head and tail."""
    if len(a) * len(b) > 4_000_000:
        n = min(len(a), len(b))
        head = int(np.argmin(np.append(a[:n] == b[:n], False)))
        return [(k, k) for k in range(head)]
    best: NDArray[Any] = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int32)
    for k in range(len(a) - 1, -1, -1):
        diagonal = best[k + 1, 1:] + (b == a[k])
        best[k, :-1] = np.maximum.accumulate(np.maximum(best[k + 1, :-1], diagonal)[::-1])[::-1]
    out, k, m = [], 0, 0
    while k < len(a) and m < len(b):
        if a[k] == b[m] and best[k, m] == best[k + 1, m + 1] + 1:
            out.append((k, m))
            k, m = k + 1, m + 1
        elif best[k + 1, m] >= best[k, m + 1]:
            k += 1
        else:
            m += 1
    return out
