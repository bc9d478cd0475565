"""Communication algorithms played chunk by chunk: who holds what, who hands what to whom. Shares no code with the product.

A chunk is a name with a size; every play checks that all ranks end with what the operation promises, and returns the bytes
that each ordered pair of ranks handed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

Bytes = Counter[tuple[int, int]]


def cut(size: int, parts: int) -> list[int]:
    """Whole numbers that differ by one at most, the larger ones first."""
    return [size // parts + (1 if i < size % parts else 0) for i in range(parts)]


def ring_all_reduce(order: Sequence[int], size: int) -> Bytes:
    return ring_reduce_scatter(order, cut(size, len(order))) + ring_all_gather(order, cut(size, len(order)))


def ring_reduce_scatter(order: Sequence[int], chunks: Sequence[int]) -> Bytes:
    """Chunk j ends, with the contributions of all, at place j."""
    n, moved = len(order), Bytes()
    held = [[{place} for _ in range(n)] for place in range(n)]
    for step in range(n - 1):
        sent = []
        for place in range(n):
            chunk = (place - 1 - step) % n
            sent.append(((place + 1) % n, chunk, set(held[place][chunk])))
            moved[order[place], order[(place + 1) % n]] += chunks[chunk]
        for place, chunk, parts in sent:
            assert not held[place][chunk] & parts
            held[place][chunk] |= parts
    assert all(held[j][j] == set(range(n)) for j in range(n))
    return moved


def ring_all_gather(order: Sequence[int], chunks: Sequence[int]) -> Bytes:
    """Chunk j starts at place j."""
    n, moved = len(order), Bytes()
    held = [{place} for place in range(n)]
    for step in range(n - 1):
        sent = []
        for place in range(n):
            chunk = (place - step) % n
            assert chunk in held[place]
            sent.append(((place + 1) % n, chunk))
            moved[order[place], order[(place + 1) % n]] += chunks[chunk]
        for place, chunk in sent:
            held[place].add(chunk)
    assert all(len(h) == n for h in held)
    return moved


def ring_broadcast(order: Sequence[int], size: int, root: int) -> Bytes:
    moved, at = Bytes(), list(order).index(root)
    for k in range(len(order) - 1):
        moved[order[(at + k) % len(order)], order[(at + k + 1) % len(order)]] += size
    return moved


def ring_reduce(order: Sequence[int], size: int, root: int) -> Bytes:
    backwards = ring_broadcast(list(reversed(order)), size, root)
    return Bytes({(b, a): n for (a, b), n in backwards.items()})


def tree_all_reduce(parents: dict[int, int], size: int) -> Bytes:
    """Contributions go up as soon as all children of a rank are in, the result comes down."""
    ranks = set(parents) | set(parents.values())
    held, moved, waiting = {r: {r} for r in ranks}, Bytes(), set(parents)
    while waiting:
        ready = [r for r in waiting if not any(parents[c] == r for c in waiting)]
        assert ready
        for r in ready:
            held[parents[r]] |= held[r]
            moved[r, parents[r]] += size
            moved[parents[r], r] += size
            waiting.discard(r)
    (root,) = ranks - set(parents)
    assert held[root] == ranks
    return moved


def pat_all_gather(ranks: Sequence[int], chunks: Sequence[int]) -> Bytes:
    """From the longest hop to the shortest, each rank hands what it holds to the rank that far below, never once around."""
    n, moved = len(ranks), Bytes()
    held: list[dict[int, int]] = [{place: 0} for place in range(n)]  # chunk: how far below its owner
    hop = 1
    while hop * 2 < n:
        hop *= 2
    while hop:
        sent = [((p - hop) % n, c, far + hop) for p in range(n) for c, far in held[p].items() if far + hop < n]
        for p, c, far in sent:
            assert c not in held[p]
            held[p][c] = far
            moved[ranks[(p + hop) % n], ranks[p]] += chunks[c]
        hop //= 2
    assert all(len(h) == n for h in held)
    return moved


def backwards(moved: Bytes) -> Bytes:
    """A reduction runs an all-gather or broadcast the other way."""
    return Bytes({(b, a): n for (a, b), n in moved.items()})


def over_channels(size: int, channels: Sequence[int], play: Callable[[int, int], Bytes]) -> Bytes:
    """A size split over channels, each played by itself."""
    total = Bytes()
    for channel, share in zip(channels, cut(size, len(channels)), strict=True):
        total += play(channel, share)
    return total
