"""Schedules that go through switches or reach all peers at once: NVLS, CollNet, and kernels that load from and store to every peer.

A switch is no rank. What the GPUs of a domain send to it, or receive from it where that is more, is spread evenly over the
ordered pairs of the domain, so that as much is sent as received; the rung is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tracelab.traffic.parts import Call, Ints, Links, Part, offsets, plain, split

__all__ = ["SWITCHED"]


def _even(groups: Sequence[Ints]) -> tuple[Ints, Ints, Ints, Ints]:
    """Ordered pairs inside each group: src, dst, number of the group, number of the pair in it."""
    src, dst, group, number = [], [], [], []
    for i, ranks in enumerate(groups):
        a, b, _ = offsets(ranks)
        src.append(a)
        dst.append(b)
        group.append(np.full(len(a), i))
        number.append(np.arange(len(a)))
    return np.concatenate(src), np.concatenate(dst), np.concatenate(group), np.concatenate(number)


def _spread(groups: Sequence[Ints], algorithm: str, totals: Callable[[Call], Ints]) -> Part:
    """A total per group, evenly over its ordered pairs: for what a switch gathers or multiplies, which no pair of ranks does."""
    src, dst, group, number = _even(groups)
    pairs = np.array([len(g) * (len(g) - 1) for g in groups], np.int64)

    def amounts(call: Call) -> Ints:
        total = totals(call)
        return total[group] // pairs[group] + (number < total[group] % pairs[group])

    return plain(src, dst, algorithm, "assumed", amounts)


def _nvls(operation: str) -> Callable[[Links], list[Part] | None]:
    """Inside one NVLink domain of n: an all-reduce sends and receives S + S/n per GPU; of all-gather and reduce-scatter the larger side, n·S, is counted."""

    def build(links: Links) -> list[Part] | None:
        if not links.one_domain or (links.ranks < 0).any():
            return None
        times = links.size + (operation == "all_reduce")
        return [_spread([links.ranks], "NVLS", lambda call: np.array([times * call.size]))]

    return build


def _rails(nodes: list[Ints]) -> list[Ints]:
    """The ranks of equal place on their hosts."""
    return [np.array([node[i] for node in nodes]) for i in range(min(map(len, nodes)))]


def _nvls_tree(links: Links) -> list[Part] | None:
    """NVLS inside each host; between the heads of a rail its share of the bytes, up and down a tree, or around a ring where no tree is stated."""
    nodes = links.by_node()
    if nodes is None or len(nodes) < 2:
        return _nvls("all_reduce")(links)
    rails = _rails(nodes)
    inside = [n for n in nodes if len(n) > 1]
    parts = []
    if inside:
        times = np.array([len(n) + 1 for n in inside], np.int64)
        parts.append(_spread(inside, "NVLS_TREE", lambda call: times * call.size))
    stated = _switch_trees(links, rails)
    return [*parts, stated or _rail_rings(rails)]


def _switch_trees(links: Links, rails: list[Ints]) -> Part | None:
    """The trees of all rails over their whole channels; null unless every rail has one."""
    src, dst, rail_of, order, counts = [], [], [], [], []
    for r, rail in enumerate(rails):
        whole = 0
        for channel in sorted(links.switch_trees):
            child, parent = links.switch_trees[channel]
            own = np.isin(child, rail) & np.isin(parent, rail)
            if int(own.sum()) == len(rail) - 1 and len(set(child[own].tolist())) == len(rail) - 1:
                src += [child[own], parent[own]]
                dst += [parent[own], child[own]]
                rail_of.append(np.full(2 * (len(rail) - 1), r))
                order.append(np.full(2 * (len(rail) - 1), whole))
                whole += 1
        if not whole:
            return None
        counts.append(whole)
    rail_index, place = np.concatenate(rail_of), np.concatenate(order)
    trees = np.array(counts, np.int64)[rail_index]

    def amounts(call: Call) -> Ints:
        share = split(call.size, len(rails))[rail_index]
        return np.asarray(share // trees + (place < share % trees))

    return plain(np.concatenate(src), np.concatenate(dst), "NVLS_TREE", "stated", amounts)


def _rail_rings(rails: list[Ints]) -> Part:
    n = len(rails[0])
    src, dst = np.concatenate(rails), np.concatenate([np.roll(r, -1) for r in rails])

    def amounts(call: Call) -> Ints:
        out = []
        for share in split(call.size, len(rails)).tolist():
            chunks = split(share, n)
            out.append(2 * share - chunks - np.roll(chunks, -1))
        return np.concatenate(out)

    return plain(src, dst, "NVLS_TREE", "assumed", amounts)


def _collnet_chain(links: Links) -> list[Part] | None:
    """Up and down a chain on each host; what the heads send to the network and receive from it, evenly over their pairs."""
    nodes = links.by_node()
    if nodes is None or len(nodes) < 2:
        return None
    below, above = np.concatenate([n[1:] for n in nodes]), np.concatenate([n[:-1] for n in nodes])
    count = 2 * len(below)
    chain = plain(np.concatenate([below, above]), np.concatenate([above, below]), "COLLNET_CHAIN", "assumed", lambda call: np.full(count, call.size, np.int64))
    heads = np.array([n[0] for n in nodes])
    network = _spread([heads], "COLLNET_CHAIN", lambda call: np.array([len(heads) * call.size]))
    return [chain, network] if count else [network]


def _collnet_direct(links: Links) -> list[Part] | None:
    """Each rank with each head of its host, the head's share both ways; each head its share to the network and from it, evenly over its rail."""
    nodes = links.by_node()
    if nodes is None or len(nodes) < 2:
        return None
    rails = _rails(nodes)
    head = {rank: i for i, rail in enumerate(rails) for rank in rail.tolist()}
    network = _spread(rails, "COLLNET_DIRECT", lambda call: len(nodes) * split(call.size, len(rails)))
    inside = [n for n in nodes if len(n) > 1]
    if not inside:
        return [network]
    src, dst, _, _ = _even(inside)
    none = len(rails)
    of_src, of_dst = (np.array([head.get(r, none) for r in end.tolist()]) for end in (src, dst))

    def amounts(call: Call) -> Ints:
        share = np.append(split(call.size, len(rails)), 0)
        return np.asarray(share[of_src] + share[of_dst])

    return [plain(src, dst, "COLLNET_DIRECT", "assumed", amounts), network]


def _direct(algorithm: str, operation: str) -> Callable[[Links], list[Part] | None]:
    """Stores to and loads from every peer: the sender's block (all-gather), the receiver's (reduce-scatter), both (all-reduce)."""

    def build(links: Links) -> list[Part] | None:
        n = links.size
        src, dst, offset = offsets(links.ranks)
        place = np.tile(np.arange(n), n - 1)
        other = (place + offset) % n

        def amounts(call: Call) -> Ints:
            blocks = split(call.size, n)
            sent = blocks[place] if operation != "reduce_scatter" else 0
            return np.asarray(sent + (blocks[other] if operation != "all_gather" else 0))

        return [plain(src, dst, algorithm, "assumed" if operation == "all_reduce" else "call", amounts)]

    return build


SWITCHED: Mapping[tuple[str, str], Callable[[Links], list[Part] | None]] = {
    ("NVLS_TREE", "all_reduce"): _nvls_tree,
    ("COLLNET_CHAIN", "all_reduce"): _collnet_chain,
    ("COLLNET_DIRECT", "all_reduce"): _collnet_direct,
    **{("NVLS", op): _nvls(op) for op in ("all_reduce", "all_gather", "reduce_scatter")},
    **{(a, op): _direct(a, op) for a in ("SYMMETRIC", "COPY_ENGINE") for op in ("all_reduce", "all_gather", "reduce_scatter")},
}
"""What an algorithm does for an operation. A builder returns null where the hosts or ranks that it needs are not known."""
