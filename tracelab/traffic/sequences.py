"""Pairs two records of one sequence of operations that state no common time: a log's lines with a trace's kernels, or two logs.

Either may begin or end elsewhere, and either may have lost rows. Tokens say what an operation is; a negative token says
only its kind, and pairs with any size of that kind, but only between neighbours that are certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "Int", "gaps", "pair_sequences", "shift_of"]

Int = NDArray[np.int64]

KINDS = 16
"""A token is size × KINDS + kind, or -1 - kind where the size is unknown."""
SMALL = 1_000_000
"""Cells of the table of a full comparison."""
CHUNK = 512
"""Rows that are compared in full where two long sequences stop agreeing."""
WIDTHS = (16, 4, 1)
"""Operations in a stretch that votes for a distance: shorter ones only where no longer one is found."""
VOTERS = 256
"""Stretches that vote."""
MOST_VOTES = 2_000_000
"""Votes that are counted at once."""
FEWEST = 16
"""Pairs at one shift that tell where two long sequences belong; fewer are chance."""
NEARLY = 0.95
"""Distances whose agreement is this near to the best are as good."""
PLAIN = 0.9
"""One shift at which all agrees is taken before an alignment with gaps, unless that explains more than 1/PLAIN of it."""


def pair_sequences(a: Int, b: Int, shifts: Sequence[int] = ()) -> Int:
    """Pairs (position in `a`, position in `b`), rising in both; shape (n, 2).

    As many pairs as possible; of equally many those at one distance. `shifts` are distances (position in `a` minus position
    in `b`) that a source's own numbers suggest, best first: the first at which everything agrees is taken.
    """
    if not len(a) or not len(b):
        return _none()
    known_a, known_b = a >= 0, b >= 0
    if not known_a.any() or not known_b.any():
        return _pair(_kind(a), _kind(b), shifts)
    pairs = _pair(a, np.where(known_b, b, np.iinfo(np.int64).min), shifts)
    if known_a.all() and known_b.all():
        return pairs
    return _between(pairs, a, b)


def shift_of(numbers_a: Int, numbers_b: Int) -> int | None:
    """Distance at which equal numbers of two sequences stand, where each counts without a gap; None where one does not, or cannot be seen to."""
    if min(len(numbers_a), len(numbers_b)) < 2 or min(numbers_a[0], numbers_b[0]) < 0:
        return None
    if (np.diff(numbers_a) != 1).any() or (np.diff(numbers_b) != 1).any():
        return None
    return int(numbers_b[0] - numbers_a[0])


def _none() -> Int:
    return np.empty((0, 2), dtype=np.int64)


def _kind(tokens: Int) -> Int:
    return np.where(tokens < 0, -1 - tokens, tokens % KINDS)


def _diagonal(shift: int, n: int, m: int) -> Int:
    """All pairs at one distance."""
    j = np.arange(max(0, -shift), min(m, n - shift), dtype=np.int64)
    return np.column_stack([j + shift, j])


def _agreement(a: Int, b: Int, shift: int) -> NDArray[np.bool_]:
    pairs = _diagonal(shift, len(a), len(b))
    return np.asarray(a[pairs[:, 0]] == b[pairs[:, 1]], dtype=np.bool_)


def _pair(a: Int, b: Int, shifts: Sequence[int]) -> Int:
    n, m = len(a), len(b)
    for shift in shifts:
        same = _agreement(a, b, shift) if -m < shift < n else np.empty(0, dtype=np.bool_)
        if len(same) and same.all():
            return _diagonal(shift, n, m)
    return _pair_small(a, b) if n * m <= SMALL else _pair_large(a, b)


def _pair_small(a: Int, b: Int) -> Int:
    n, m = len(a), len(b)
    i, j = np.nonzero(a[:, None] == b[None, :])
    counts = np.bincount(i - j + m - 1, minlength=n + m - 1)
    shifts = np.arange(-(m - 1), n)
    overlap = np.minimum(m, n - shifts) - np.maximum(0, -shifts)
    plain = np.where(counts == overlap, counts, 0)
    best = int(np.lexsort((np.abs(shifts), -plain))[0])
    if plain[best] == min(n, m):
        return _diagonal(int(shifts[best]), n, m)
    common = _common(a, b)
    return _diagonal(int(shifts[best]), n, m) if plain[best] and plain[best] >= PLAIN * len(common) else common


def _pair_large(a: Int, b: Int) -> Int:
    shift = _likely_shift(a, b)
    same = _agreement(a, b, shift)
    pairs = _diagonal(shift, len(a), len(b))
    if same.all():
        return pairs
    # The stretch in which agreement outweighs disagreement most; beyond it, rows were lost and the distance is another.
    score = np.concatenate([[0], np.cumsum(np.where(same, 1, -1))])
    gain = score - np.minimum.accumulate(score)
    end = int(np.argmax(gain))
    start = int(np.argmin(score[: end + 1]))
    inside = pairs[start:end][same[start:end]]
    if len(inside) < FEWEST:
        return _forward(a, b)
    (i0, j0), (i1, j1) = inside[0], inside[-1]
    left = _forward(a[:i0][::-1], b[:j0][::-1])
    before = np.array([i0 - 1, j0 - 1]) - left[::-1]
    after = _forward(a[i1 + 1 :], b[j1 + 1 :]) + np.array([i1 + 1, j1 + 1])
    return np.concatenate([before, _filled(a, b, inside), after])


def _likely_shift(a: Int, b: Int) -> int:
    """The distance at which most stretches of `b` stand in `a`, as some of them vote."""
    n, m = len(a), len(b)
    for width in WIDTHS:
        votes = _votes(_stretches(a, width), _stretches(b, width))
        if len(votes):
            shifts, counts = np.unique(votes, return_counts=True)
            # Of about equally good distances one with room on both sides: rows that were lost shift what comes before and after.
            good = counts >= NEARLY * counts.max()
            shifts, counts = shifts[good], counts[good]
            room = np.minimum(np.minimum(shifts, n - m - shifts), CHUNK)
            return int(shifts[np.lexsort((shifts, -counts, -room))[0]])
    return 0


def _stretches(tokens: Int, width: int) -> Int:
    """A number for each stretch of `width` tokens."""
    out = np.zeros(max(0, len(tokens) - width + 1), dtype=np.int64)
    for k in range(width):
        out = out * 1_000_003 + tokens[k : k + len(out)]
    return out


def _votes(a: Int, b: Int) -> Int:
    """Distances at which some values of `b`, evenly taken, stand in `a`."""
    if not len(a) or not len(b):
        return np.empty(0, dtype=np.int64)
    voters = np.unique(np.linspace(0, len(b) - 1, VOTERS).astype(np.int64))
    order = np.argsort(a, kind="stable")
    first, last = (np.searchsorted(a[order], b[voters], side=side) for side in ("left", "right"))
    keep = slice(None, None, 1 + int((last - first).sum()) // MOST_VOTES)
    return np.concatenate([order[i:j] - v for v, i, j in zip(voters[keep], first[keep], last[keep], strict=True)])


def _filled(a: Int, b: Int, pairs: Int) -> Int:
    """Pairs on one diagonal with what lies between them: rows that differ there may pair with a neighbour."""
    holes = np.nonzero(np.diff(pairs[:, 0]) > 2)[0]
    out, last = [], 0
    for hole in holes:
        (i0, j0), (i1, j1) = pairs[hole], pairs[hole + 1]
        out += [pairs[last : hole + 1], _forward(a[i0 + 1 : i1], b[j0 + 1 : j1]) + np.array([i0 + 1, j0 + 1])]
        last = int(hole) + 1
    return np.concatenate([*out, pairs[last:]])


def _forward(a: Int, b: Int) -> Int:
    """Pairs of two sequences that begin at the same place: equal stretches whole, and a full comparison where they part."""
    out: list[Int] = []
    i = j = 0
    while i < len(a) and j < len(b):
        run = _equal_head(a[i:], b[j:])
        if run:
            out.append(np.column_stack([np.arange(i, i + run), np.arange(j, j + run)]))
            i, j = i + run, j + run
            continue
        x, y = a[i : i + CHUNK], b[j : j + CHUNK]
        found = _common(x, y)
        last = i + len(x) == len(a) and j + len(y) == len(b)
        if not last:
            # What comes after the window could pair better with its end: only the first half is certain.
            found = found[: max(1, len(found) // 2)]
        if len(found):
            out.append(found + np.array([i, j]))
        if last:
            break
        i, j = (i + int(found[-1, 0]) + 1, j + int(found[-1, 1]) + 1) if len(found) else (i + len(x), j + len(y))
    return np.concatenate(out) if out else _none()


def _equal_head(a: Int, b: Int) -> int:
    size, reach = min(len(a), len(b)), 64
    start = 0
    while start < size:
        stop = min(size, start + reach)
        differ = np.nonzero(a[start:stop] != b[start:stop])[0]
        if len(differ):
            return start + int(differ[0])
        start, reach = stop, reach * 4
    return size


def _between(pairs: Int, a: Int, b: Int) -> Int:
    """Adds pairs of equal kind, of which one has no size, between neighbouring pairs."""
    edges = np.concatenate([[[-1, -1]], pairs, [[len(a), len(b)]]])
    out: list[Int] = []
    open_gaps = np.nonzero((np.diff(edges[:, 0]) > 1) & (np.diff(edges[:, 1]) > 1))[0]
    for gap in open_gaps:
        (i0, j0), (i1, j1) = edges[gap], edges[gap + 1]
        x, y = a[i0 + 1 : i1], b[j0 + 1 : j1]
        if len(x) * len(y) > SMALL:
            x, y = x[:CHUNK], y[:CHUNK]
        equal = (_kind(x)[:, None] == _kind(y)[None, :]) & ((x[:, None] < 0) | (y[None, :] < 0) | (x[:, None] == y[None, :]))
        out.append(_trace_back(equal) + np.array([i0 + 1, j0 + 1]))
    found = np.concatenate([pairs, *out])
    return found[np.argsort(found[:, 0], kind="stable")]


def _common(a: Int, b: Int) -> Int:
    """The longest common subsequence, with the earliest pairs."""
    return _trace_back(a[:, None] == b[None, :])


def _trace_back(equal: NDArray[np.bool_]) -> Int:
    """The longest rising chain of true cells (row, column)."""
    turned = equal.shape[0] > equal.shape[1]
    cells = equal.T if turned else equal
    rows, columns = cells.shape
    best = np.zeros((rows + 1, columns + 1), dtype=np.int32)
    for k in range(rows - 1, -1, -1):
        reached = np.maximum(best[k + 1, :-1], best[k + 1, 1:] + cells[k])
        best[k, :-1] = np.maximum.accumulate(reached[::-1])[::-1]
    out, i, j = [], 0, 0
    while i < rows and j < columns and best[i, j]:
        if cells[i, j] and best[i, j] == best[i + 1, j + 1] + 1:
            out.append((j, i) if turned else (i, j))
            i, j = i + 1, j + 1
        elif best[i + 1, j] >= best[i, j + 1]:
            i += 1
        else:
            j += 1
    return np.array(out, dtype=np.int64).reshape(-1, 2)


def gaps(pairs: Int, n: int, m: int) -> list[tuple[slice, slice]]:
    """What lies before, between and after the pairs of sequences of lengths `n` and `m`: a slice of each."""
    edges = [(-1, -1), *((int(i), int(j)) for i, j in pairs), (n, m)]
    return [(slice(i0 + 1, i1), slice(j0 + 1, j1)) for (i0, j0), (i1, j1) in pairwise(edges)]
