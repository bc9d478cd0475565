"""What an algorithm sends over which pair: schedules of communication operations as exact numbers of bytes.

The volumes follow NCCL's device code (all_reduce.h, all_gather.h, reduce_scatter.h, broadcast.h, reduce.h): a ring cuts the
share of each channel into as many chunks as there are ranks, and chunk j is whole at ring position j after reduction. Bytes
are split into whole numbers, the first shares taking the remainder, so that sums are exact whatever the size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tracelab.traffic.parts import Call, Ints, Links, Part, offsets, plain, split
from tracelab.traffic.switches import SWITCHED

__all__ = ["schedule"]

_REDUCING = ("all_reduce", "barrier")
_SCATTERED = (*_REDUCING, "all_gather", "reduce_scatter")
_ROOTED = ("broadcast", "reduce")


def schedule(operation: str, algorithm: str | None, links: Links, centre: int | None = None, *, root_known: bool = True) -> list[Part]:
    """The parts of one operation; empty where it moves nothing or cannot be placed.

    An algorithm that the operation does not have, or whose links are not known, is placed on the rings (same total for trees,
    rung assumed). `centre` is the root of a gather or scatter (global rank). Where the root is
    not known, the first rank is taken for it (rung assumed).
    """
    if links.size < 2:
        return []
    if operation == "all_to_all":
        return [_all_to_all(links)]
    if operation in ("gather", "scatter"):
        return [_star(links, centre, operation == "gather")]
    if operation not in (*_SCATTERED, *_ROOTED):
        return []
    build = _ALGORITHMS.get((algorithm or "", "all_reduce" if operation in _REDUCING else operation))
    parts = build(links) if build else None
    if parts is not None:
        return parts
    guessed = algorithm not in (None, "RING") or (operation in _ROOTED and not root_known)
    return [_ring(links, operation, sorted(links.rings), assumed=guessed)] if links.rings else []


def _used(channels: Sequence[int], call: Call) -> Ints:
    """For each channel its number among those that the call uses, -1 for the others; all are used where the call names none that exist."""
    numbers = np.array(channels, np.int64)
    inside = np.ones(len(numbers), bool)
    if call.channels is not None:
        named = (numbers >= call.channels[0]) & (numbers <= call.channels[1])
        inside = named if named.any() else inside
    return np.where(inside, np.cumsum(inside) - 1, -1)


def _shares(size: int, channels: Sequence[int], call: Call) -> Ints:
    """Bytes per channel."""
    used = _used(channels, call)
    shares = split(size, int(used.max()) + 1)
    return np.where(used >= 0, shares[used], 0)


def _ring(links: Links, operation: str, channels: Sequence[int], *, assumed: bool, all_channels: Sequence[int] | None = None) -> Part:
    """The rings of `channels`, which carry their shares of what is split over `all_channels`."""
    over = list(all_channels or channels)
    rings = [links.rings[c] for c in channels]
    position, src, dst = (np.concatenate([r[i] for r in rings]).astype(np.int64) for i in range(3))
    rung = np.full(len(src), "assumed") if assumed else np.concatenate([r[3] for r in rings])
    index = np.repeat([over.index(c) for c in channels], [len(r[0]) for r in rings])
    amounts = _ring_amounts(operation, links.size, over, index, position, src, dst, int(links.ranks[0]))
    return Part(src, dst, np.array(over)[index], "RING", rung, amounts)


def _ring_amounts(operation: str, n: int, channels: Sequence[int], index: Ints, position: Ints, src: Ints, dst: Ints, first: int) -> Callable[[Call], Ints]:
    after = (position + 1) % n

    def reduced(call: Call) -> Ints:
        shares = _shares(call.size, channels, call)
        base, rest = shares // n, shares % n
        own, other = (base[index] + (p < rest[index]) for p in (position, after))
        return np.asarray(2 * shares[index] - own - other)

    def scattered(call: Call) -> Ints:
        # The blocks belong to ranks: each is split over the channels, where an all-reduce splits first by channel.
        q, rest = divmod(call.size, n)
        large, small = _shares(q + 1, channels, call), _shares(q, channels, call)
        held = position if operation == "reduce_scatter" else after
        total = rest * large + (n - rest) * small
        return np.asarray(total[index] - np.where(held < rest, large[index], small[index]))

    def rooted(call: Call) -> Ints:
        root = first if call.root is None else call.root
        end = dst if operation == "broadcast" else src
        return np.where(end == root, 0, _shares(call.size, channels, call)[index])

    if operation in _REDUCING:
        return reduced
    return scattered if operation in ("all_gather", "reduce_scatter") else rooted


def _tree(links: Links) -> list[Part] | None:
    """Up and down every link of the channels whose trees are whole; the other channels on their rings."""
    channels = sorted(links.rings)
    whole = [c for c in channels if c in links.trees]
    if not whole:
        return None
    child, parent = (np.concatenate([links.trees[c][i] for c in whole]).astype(np.int64) for i in range(2))
    rung = np.concatenate([links.trees[c][2] for c in whole])
    index = np.repeat([channels.index(c) for c in whole], [len(links.trees[c][0]) for c in whole])
    both = np.concatenate([index, index])
    up_down = (np.concatenate([child, parent]), np.concatenate([parent, child]), np.array(channels)[both])
    parts = [Part(*up_down, "TREE", np.concatenate([rung, rung]), lambda call: _shares(call.size, channels, call)[both])]
    rest = [c for c in channels if c not in links.trees]
    return [*parts, _ring(links, "all_reduce", rest, assumed=True, all_channels=channels)] if rest else parts


def _all_to_all(links: Links) -> Part:
    src, dst, offset = offsets(links.ranks)
    return plain(src, dst, "P2P", "call", lambda call: split(call.size, links.size), offset)


def _star(links: Links, root: int | None, gather: bool) -> Part:
    """Every other rank to the root (all that it contributes), or the root to every other rank (its block)."""
    centre = int(links.ranks[0]) if root is None else root
    places = np.flatnonzero(links.ranks != centre)
    ends, middle = links.ranks[places], np.full(len(places), centre, np.int64)
    rung = "assumed" if root is None else "call"
    if gather:
        return plain(ends, middle, "P2P", rung, lambda call: np.full(len(places), call.size, np.int64))
    return plain(middle, ends, "P2P", rung, lambda call: split(call.size, links.size)[places])


def _pat(links: Links, gather: bool) -> list[Part]:
    """PAT: the block of rank o reaches o - s from o - s + 2^k, k the lowest set bit of s; a reduce-scatter runs backwards."""
    n = links.size
    steps = np.arange(1, n)
    low = steps & -steps
    hops = [1 << k for k in range((n - 1).bit_length())]
    places = np.arange(n)
    upper, lower = np.tile(links.ranks, len(hops)), np.concatenate([links.ranks[(places - h) % n] for h in hops])

    def amounts(call: Call) -> Ints:
        blocks = split(call.size, n)
        out = []
        for hop in hops:
            # `sums` is by the lower rank x = o - s, the pair is numbered by the upper one.
            sums = np.zeros(n, np.int64)
            if call.size % n == 0:
                sums += int((low == hop).sum()) * blocks[0]
            else:
                for s in steps[low == hop]:
                    sums += np.roll(blocks, -int(s))
            out.append(np.roll(sums, hop))
        return np.concatenate(out)

    return [plain(upper, lower, "PAT", "call", amounts) if gather else plain(lower, upper, "PAT", "call", amounts)]


_ALGORITHMS: Mapping[tuple[str, str], Callable[[Links], list[Part] | None]] = {
    ("TREE", "all_reduce"): _tree,
    ("PAT", "all_gather"): lambda links: _pat(links, gather=True),
    ("PAT", "reduce_scatter"): lambda links: _pat(links, gather=False),
    **SWITCHED,
}
"""Beside RING: what an algorithm does for an operation. A builder returns null where the links that it needs are not known."""
