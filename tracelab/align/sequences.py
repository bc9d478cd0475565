"""Alignment of two sequences of operations, by token and by the constant difference between their ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WINDOW_NS", "Pairing", "align_sequences"]

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
MOST_VOTES = 1_000_000
"""Pairs that vote at once; each takes some 40 bytes."""
FEWEST_VOTERS = 64
"""Operations that vote however long the sequences are: chance does not bring a third of them to one offset."""
CLOSEST = 16
"""Operations of the other sequence that are looked at around the moment where the partner should have ended."""
DECISIVE = 0.3
"""The offset must explain this share of the shorter sequence, or the ends say nothing."""


@dataclass(frozen=True)
class Pairing:
    """Pairs of positions (first, second sequence), rising in both; `margin`: share by which the best beats the next (0 to 1)."""

    pairs: list[tuple[int, int]]
    margin: float


def align_sequences(tokens_a: Int, ends_a: Int, tokens_b: Int, ends_b: Int) -> Pairing:
    """Pairs positions of equal tokens. Tokens and ends (ns, each in its own clock) are in time order.

    Pairs of equal tokens vote for their difference of ends; the densest offset wins, and what lies between two pairs that
    it found is paired in order where both sides hold the same tokens. Memory grows with the longer sequence. If no offset is decisive (ends that scatter),
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
    if not len(tokens_a) or not len(tokens_b):
        return None
    d, voters = _differences(tokens_a, ends_a, tokens_b, ends_b)
    if not len(d):
        return None
    width = WINDOW_NS + int(DRIFT * min(int(np.ptp(ends_a)), int(np.ptp(ends_b))))
    best, votes, second = _densest(d, width)
    # Each voter has its say at most once per offset; voters of the longer sequence have a partner no more often than the shorter is long.
    if votes < max(2, DECISIVE * min(voters, len(tokens_b) * voters // len(tokens_a))):
        return None
    pairs = _monotone(*_near(tokens_a, ends_a + best, tokens_b, ends_b, width))
    return Pairing(_fill(pairs, (tokens_a, tokens_b), np.int64(best), (ends_a, ends_b), depth), (votes - second) / votes)


def _differences(tokens_a: Int, ends_a: Int, tokens_b: Int, ends_b: Int) -> tuple[Int, int]:
    """Differences of ends of equal tokens at most `BAND` beyond the difference of lengths apart; and how many of the first sequence voted.

    All of them vote where that gives no more than `MOST_VOTES` pairs, else as many as may, evenly taken.
    """
    reach = BAND + abs(len(tokens_a) - len(tokens_b))
    voters = min(len(tokens_a), max(FEWEST_VOTERS, MOST_VOTES // min(len(tokens_b), 2 * reach + 1)))
    found = []
    for k in np.unique(np.linspace(0, len(tokens_a) - 1, voters).astype(np.int64)):
        near = slice(max(0, int(k) - reach), int(k) + reach + 1)
        found.append((ends_b[near][tokens_b[near] == tokens_a[k]] - ends_a[k]).astype(np.int64))
    return np.concatenate(found), len(found)


def _densest(d: Int, width: int) -> tuple[int, int, int]:
    """Centre and votes of the window of `width` that holds most values, and the votes of the best one clear of it."""
    ordered = np.sort(d)
    counts = np.searchsorted(ordered, ordered + width, side="right") - np.arange(len(ordered))
    k = int(np.argmax(counts))
    centre = int(ordered[k]) + int(np.median(ordered[k : k + counts[k]] - ordered[k]))
    clear = np.abs(ordered + width // 2 - centre) > 2 * width
    return centre, int(counts[k]), int(counts[clear].max()) if clear.any() else 0


def _near(tokens_a: Int, expected: Int, tokens_b: Int, ends_b: Int, width: int) -> tuple[Int, Int, Int]:
    """Positions of equal tokens whose ends lie within `width` of what is `expected`, and how far off; of each the `CLOSEST` nearest."""
    order = np.argsort(ends_b, kind="stable")
    ends = ends_b[order]
    at = np.searchsorted(ends, expected)[:, None] + np.arange(-CLOSEST // 2, CLOSEST // 2)
    inside = (at >= 0) & (at < len(ends))
    at = np.clip(at, 0, len(ends) - 1)
    off = np.abs(ends[at] - expected[:, None])
    i, column = np.nonzero(inside & (off <= width) & (tokens_b[order][at] == tokens_a[:, None]))
    return i.astype(np.int64), order[at[i, column]].astype(np.int64), off[i, column]


def _monotone(i: Int, j: Int, off: Int) -> list[tuple[int, int]]:
    """Pairs in order of `off`, each position once, rising in both."""
    used_i: dict[int, int] = {}
    used_j: set[int] = set()
    for k in np.lexsort((j, i, off)):
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
    """The longest common subsequence; for sequences of thousands only their equal head."""
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
