"""The rings of one communicator, in ranks of the communicator: from what was logged down to what must be assumed.

Per channel the best of: ring lines of all ranks, a complete printed order, a printed order that was cut (completed by the
pattern that repeats from host to host), connections that allow one cycle only, and rank order with the ranks of a host together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["RUNGS", "Evidence", "Ring", "rank_order", "ring_of", "single_cycle"]

RUNGS = ("transfers", "stated", "order", "completed", "connections", "call", "assumed")
"""What a row rests on, best first."""

Pair = tuple[int, int]

_SEARCH_WORK = 400_000
"""Bound on the search for a cycle, in visits of ranks: with the links of one channel's ring and tree, forced moves leave few choices."""


@dataclass
class Evidence:
    """What was logged of one channel of one communicator; all ranks are ranks of the communicator.

    `neighbours`: pairs from ring lines. `orders`: printed lists, whether or not they were cut. `linked`: pairs of connections
    with index 0 (collectives); `maybe_linked`: of connections without an index, which may serve point to point. `tree`: pairs
    child, parent. `tree_known`: ranks that state their place in the channel's tree.
    """

    neighbours: set[Pair] = field(default_factory=set)
    orders: list[tuple[int, ...]] = field(default_factory=list)
    linked: set[Pair] = field(default_factory=set)
    maybe_linked: set[Pair] = field(default_factory=set)
    tree: set[Pair] = field(default_factory=set)
    tree_known: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Ring:
    """Ranks in the order of the ring from rank 0 on; `rungs[i]` is what the edge out of `order[i]` rests on. `problem`: evidence that had to be dropped."""

    order: tuple[int, ...]
    rungs: tuple[str, ...]
    problem: str = ""


def ring_of(evidence: Evidence, size: int, hosts: Sequence[str | None]) -> Ring:
    """The ring of one channel. `hosts` has the host of every rank of the communicator, or null."""
    problem = ""
    told = single_cycle(_successors(evidence.neighbours), size)
    if told:
        return Ring(told, ("stated",) * size)
    lists = [o for o in evidence.orders if _is_path(o, size)]
    if len(lists) < len(evidence.orders):
        problem = "order-invalid"
    for order in sorted(set(lists), key=lambda o: (-len(o), o)):
        closed = order if len(order) == size else _completed(order, size, hosts, evidence)
        if closed is None:
            problem = "order-not-completed"
        elif _contradicts(closed, evidence.neighbours):
            problem = "order-contradicted"
        else:
            complete = len(order) == size
            return _rated(closed, evidence, () if complete else order, "order" if complete else "completed")
    found = _only_cycle(evidence.neighbours, evidence.linked | evidence.maybe_linked, size)
    if found:
        return _rated(found, Evidence(neighbours=evidence.neighbours), (), "connections")
    if evidence.neighbours or evidence.linked or evidence.maybe_linked:
        problem = problem or "ambiguous-connections"
    return Ring(rank_order(hosts), ("assumed",) * size, problem)


def rank_order(hosts: Sequence[str | None]) -> tuple[int, ...]:
    """All ranks in order, those of a host together where the host is known, hosts in the order of their first rank."""
    first: dict[str | int, int] = {}
    keys: list[str | int] = [-i - 1 if h is None else h for i, h in enumerate(hosts)]
    for i, key in enumerate(keys):
        first.setdefault(key, i)
    return tuple(sorted(range(len(hosts)), key=lambda i: (first[keys[i]], i)))


def single_cycle(successor: Mapping[int, int] | None, size: int) -> tuple[int, ...] | None:
    """The order from rank 0 on if `successor` leads through all ranks and back; null otherwise."""
    if successor is None or len(successor) != size or 0 not in successor:
        return None
    order = [0]
    while len(order) <= size and (after := successor.get(order[-1], -1)) != 0:
        if not 0 <= after < size:
            return None
        order.append(after)
    return tuple(order) if len(order) == size else None


def _successors(pairs: Iterable[Pair]) -> dict[int, int] | None:
    """Null where a rank would have two successors."""
    out: dict[int, int] = {}
    for a, b in pairs:
        if out.setdefault(a, b) != b:
            return None
    return out


def _is_path(order: Sequence[int], size: int) -> bool:
    return 1 < len(order) <= size and len(set(order)) == len(order) and all(0 <= r < size for r in order)


def _from_zero(order: Sequence[int]) -> tuple[int, ...]:
    at = list(order).index(0)
    return (*order[at:], *order[:at])


def _pairs(order: Sequence[int]) -> list[Pair]:
    return list(zip(order, (*order[1:], order[0]), strict=True))


def _contradicts(order: Sequence[int], neighbours: set[Pair]) -> bool:
    ring = dict(_pairs(order))
    return any(ring.get(a) != b for a, b in neighbours)


def _rated(order: Sequence[int], evidence: Evidence, printed: Sequence[int], rung: str) -> Ring:
    """An edge that a ring line, a connection or the printed part of a cut list names is stated."""
    stated = evidence.neighbours | evidence.linked | evidence.maybe_linked | set(pairwise(printed))
    start = _from_zero(order)
    return Ring(start, tuple("stated" if pair in stated else rung for pair in _pairs(start)))


def _completed(printed: Sequence[int], size: int, hosts: Sequence[str | None], evidence: Evidence) -> tuple[int, ...] | None:
    """The whole ring from its printed beginning, if what repeats from host to host tells it, and tells it in one way only."""
    found = set()
    for period, shift in _shifts(size, hosts):
        if len(printed) < period + 2 or any(shift[a] != b for a, b in zip(printed, printed[period:], strict=False)):
            continue
        order = list(printed)
        while len(order) < size:
            order.append(shift[order[-period]])
        if len(set(order)) == size and not _unexplained(order, evidence):
            found.add(_from_zero(order))
    return found.pop() if len(found) == 1 else None


def _shifts(size: int, hosts: Sequence[str | None]) -> Iterable[tuple[int, list[int]]]:
    """Ranks per host, and for each rank the one at its place on the next host.

    Where the hosts of some ranks are not known: every way to cut the ranks into hosts of one size that the known ones allow.
    """
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank, host in enumerate(hosts):
        if host is not None:
            by_host[host].append(rank)
    members = list(by_host.values())
    if sum(map(len, members)) < size:
        fitting = [p for p in range(1, size) if size % p == 0 and _fits(p, members)]
        yield from ((p, [(r + p) % size for r in range(size)]) for p in fitting)
    elif len({len(m) for m in members}) == 1:
        shift = [0] * size
        for here, there in zip(members, (*members[1:], members[0]), strict=True):
            for a, b in zip(here, there, strict=True):
                shift[a] = b
        yield len(members[0]), shift


def _fits(period: int, members: list[list[int]]) -> bool:
    """Whether hosts of `period` ranks in a row agree with the ranks whose hosts are known."""
    blocks = [{r // period for r in m} for m in members]
    return all(len(b) == 1 for b in blocks) and len(set().union(*blocks)) == len(blocks)


def _unexplained(order: Sequence[int], evidence: Evidence) -> bool:
    """Whether a connection belongs neither to this ring nor to the channel's tree.

    A rank that does not state its place in the tree has tree links too: there and back, as a ring of more than two ranks
    never has them.
    """
    ring = set(_pairs(order))
    for a, b in evidence.linked - ring:
        if (a, b) in evidence.tree or (b, a) in evidence.tree:
            continue
        if a in evidence.tree_known or b in evidence.tree_known or (b, a) not in evidence.linked:
            return True
    return _contradicts(order, evidence.neighbours)


def _only_cycle(neighbours: set[Pair], links: set[Pair], size: int) -> tuple[int, ...] | None:
    """The one Hamiltonian cycle that the links and the stated neighbours allow; null where there is none, more, or the search is too long."""
    after: dict[int, set[int]] = defaultdict(set)
    for a, b in links | neighbours:
        if a != b and 0 <= a < size and 0 <= b < size:
            after[a].add(b)
    fixed = _successors(neighbours)
    if size < 2 or fixed is None or len(after) < size:
        return None
    for a, b in fixed.items():
        after[a] = {b}
    search = _CycleSearch(size)
    search.run(dict(after))
    return search.found[0] if len(search.found) == 1 and search.work < _SEARCH_WORK else None


class _CycleSearch:
    """Collects up to two Hamiltonian cycles by forced moves and, where nothing is forced, trial."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.work = 0
        self.found: list[tuple[int, ...]] = []

    def run(self, after: dict[int, set[int]]) -> None:
        """Each open problem is the choices of successor that are left; a problem is closed, dead, or split on its narrowest rank."""
        open_problems = [after]
        while open_problems and len(self.found) < 2 and self.work < _SEARCH_WORK:
            choices = open_problems.pop()
            if not self._forced(choices):
                continue
            wide = [a for a, bs in choices.items() if len(bs) > 1]
            if not wide:
                cycle = single_cycle({a: next(iter(bs)) for a, bs in choices.items()}, self.size)
                if cycle:
                    self.found.append(cycle)
                continue
            split = min(wide, key=lambda a: (len(choices[a]), a))
            for b in sorted(choices[split]):
                trial = {a: set(bs) for a, bs in choices.items()}
                trial[split] = {b}
                open_problems.append(trial)

    def _forced(self, choices: dict[int, set[int]]) -> bool:
        """Applies all moves that are forced, to `choices`; false where a rank is left without successor or predecessor."""
        changed = True
        while changed:
            self.work += self.size
            changed = False
            before: dict[int, list[int]] = defaultdict(list)
            for a, bs in choices.items():
                for b in bs:
                    before[b].append(a)
            if len(before) < self.size or not all(choices.values()):
                return False
            for b, sources in before.items():
                if len(sources) == 1 and len(choices[sources[0]]) > 1:
                    choices[sources[0]] = {b}
                    changed = True
            taken = {next(iter(bs)): a for a, bs in choices.items() if len(bs) == 1}
            if len(taken) < sum(len(bs) == 1 for bs in choices.values()):
                return False
            for a, bs in choices.items():
                if len(bs) > 1 and (left := {b for b in bs if b not in taken}) != bs:
                    choices[a] = left
                    changed = True
            changed = self._keep_open(choices) or changed
        return True

    def _keep_open(self, choices: dict[int, set[int]]) -> bool:
        """Forbids the move that would close a path of forced moves before it holds all ranks; whether any was left to forbid."""
        step = {a: next(iter(bs)) for a, bs in choices.items() if len(bs) == 1}
        changed = False
        for start in choices.keys() - set(step.values()):
            end, length = start, 1
            while end in step:
                end, length = step[end], length + 1
            if 1 < length < self.size and start in choices[end]:
                choices[end].discard(start)
                changed = True
        return changed
