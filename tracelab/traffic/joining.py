"""Which operation of a log is which operation of a trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracelab.traffic.logged import LoggedOperations
from tracelab.traffic.sequences import KINDS, Int, gaps, pair_sequences, shift_of

__all__ = ["Joined", "Members", "join_collectives", "join_messages"]

SHARE = 0.5
"""Part of a further stream's operations that must find their line before it is taken for one of the communicator's."""


@dataclass(frozen=True)
class Members:
    """Ranks of a communicator by place (None: unknown), the ranks that logged it, and the groups that it can be."""

    ranks: tuple[int | None, ...]
    seen: frozenset[int]
    group: int | None
    candidates: tuple[int, ...]


@dataclass
class Joined:
    """`traced_of`: traced row of each logged row (-1: none); `logged`: positions of the logged rows that stand for an operation, by comm_key."""

    traced_of: Int
    logged: dict[int, Int]
    used: set[int] = field(default_factory=set)
    absorbed: int = 0
    doubtful: int = 0


@dataclass
class _List:
    """A communicator's operations, with the traced rows that they were paired with so far."""

    key: int
    positions: Int
    tokens: Int
    numbers: Int
    traced: Int = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    pairs: Int = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))


class _Traced:
    """Traced rows as arrays."""

    def __init__(self, traced: pl.DataFrame) -> None:
        self.tokens = traced["token"].to_numpy().astype(np.int64)
        self.numbers = traced["seq"].fill_null(-1).to_numpy().astype(np.int64)
        self.sizes = traced["bytes"].fill_null(-1).to_numpy().astype(np.int64)


def join_collectives(logged: LoggedOperations, traced: pl.DataFrame, members: dict[int, Members]) -> Joined:
    """Pairs each communicator's list with the traced operations of its group.

    Streams tell communicators of the same ranks apart: one after the other, the pair of list and stream with the most common
    operations is taken. A communicator whose group is not known is paired with any that fits.
    """
    out = Joined(np.full(logged.rows.height, -1, dtype=np.int64), dict(logged.collectives))
    _absorb(logged, members, out)
    columns = _Traced(traced)
    lanes = _lanes(traced)
    by_group: dict[tuple[int, ...], list[_List]] = defaultdict(list)
    for key, positions in sorted(out.logged.items()):
        found = tuple(g for g in members[key].candidates if g in lanes)
        if found:
            by_group[found].append(_List(key, positions, logged.tokens[positions], logged.numbers[positions]))
    # Certain groups first: what they leave is for those whose group is not known.
    for groups in sorted(by_group, key=lambda g: (len(g), g)):
        free = {(g, lane): rows for g in groups for lane, rows in lanes[g].items()}
        _assign(by_group[groups], free, columns)
        for g in groups:
            lanes[g] = {lane: free[g, lane] for lane in lanes[g]}
        for one in by_group[groups]:
            _keep(one, out)
    _drop_copies(by_group, traced, members, columns, out)
    return out


def _lanes(traced: pl.DataFrame) -> dict[int, dict[int, Int]]:
    """Rows of collectives by group and stream, in order of their start."""
    rows = traced.with_row_index("at").filter(pl.col("joins") & ~pl.col("paired_ends") & pl.col("group_id").is_not_null())
    out: dict[int, dict[int, Int]] = defaultdict(dict)
    for group, lane, at in rows.group_by("group_id", "lane", maintain_order=True).agg("at").iter_rows():
        out[group][lane] = np.array(at, dtype=np.int64)
    return out


def _assign(lists: Sequence[_List], free: dict[tuple[int, int], Int], columns: _Traced) -> None:
    gains: dict[tuple[int, tuple[int, int]], tuple[int, Int, Int]] = {}
    while True:
        for n, one in enumerate(lists):
            for lane, rows in free.items():
                if len(rows) and (n, lane) not in gains:
                    gains[n, lane] = _gain(one, rows, columns)
        best = max(gains, key=lambda k: (gains[k][0], -k[0], (-k[1][0], -k[1][1])), default=None)
        if best is None or gains[best][0] <= 0:
            return
        n, lane = best
        _, rows, pairs = gains[best]
        one = lists[n]
        one.traced, one.pairs = rows[pairs[:, 1]], np.column_stack([pairs[:, 0], np.arange(len(pairs))])
        taken = {name: np.setdiff1d(r, one.traced, assume_unique=True) for name, r in free.items()}
        changed = {name for name, r in taken.items() if len(r) != len(free[name])}
        free.update(taken)
        gains = {k: v for k, v in gains.items() if k[0] != n and k[1] not in changed}
        gains |= {(n, name): (0, rows, pairs) for name in changed}


def _gain(one: _List, rows: Int, columns: _Traced) -> tuple[int, Int, Int]:
    """How many more operations of the list find a partner with these traced rows too; and all its rows and pairs then."""
    both = np.sort(np.concatenate([one.traced, rows]))
    pairs = pair_sequences(one.tokens, columns.tokens[both], _shifts(one, both, columns))
    gain = len(pairs) - len(one.pairs)
    if len(one.pairs) and gain < SHARE * len(rows):
        return 0, both, pairs
    return gain, both, pairs


def _shifts(one: _List, rows: Int, columns: _Traced) -> list[int]:
    """Distances that numbers suggest: a framework counts from 1 or 0, a library from 0, a list from the communicator's beginning."""
    numbers = columns.numbers[rows]
    out: list[int] = []
    for mine in (one.numbers, np.arange(len(one.positions), dtype=np.int64)):
        shift = shift_of(mine, numbers) if len(numbers) and numbers[0] >= 0 else None
        out += [shift, shift - 1] if shift is not None else []
    return out


def _keep(one: _List, out: Joined) -> None:
    i, j = one.positions[one.pairs[:, 0]], one.traced[one.pairs[:, 1]]
    out.traced_of[i] = j
    out.used.update(int(k) for k in j)


def _absorb(logged: LoggedOperations, members: dict[int, Members], out: Joined) -> None:
    """Lists of other kinds of logs that speak of a communicator without saying of which: those of the same ranks whose operations they are."""
    by_ranks: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for key in sorted(logged.collectives):
        known = [r for r in members[key].ranks if r is not None]
        if len(known) == len(members[key].ranks):
            by_ranks[tuple(sorted(known))].append(key)
    for keys in by_ranks.values():
        for key in keys:
            others = [k for k in keys if logged.kinds[k] < logged.kinds[key] and k in out.logged]
            mine = out.logged[key]
            for other in others:
                theirs = out.logged[other]
                pairs = pair_sequences(logged.tokens[theirs], logged.tokens[mine])
                if len(pairs) >= 0.8 * min(len(mine), len(theirs)):
                    del out.logged[key]
                    out.absorbed += 1
                    break


def _drop_copies(by_group: dict[tuple[int, ...], list[_List]], traced: pl.DataFrame, members: dict[int, Members], columns: _Traced, out: Joined) -> None:
    """Lists of processes that could not be joined into one communicator: the trace shows that they are one, so the shorter are copies."""
    owners = {int(t): key for key, positions in out.logged.items() for t in out.traced_of[positions] if t >= 0}
    whole = _lanes(traced)
    for groups, lists in sorted(by_group.items()):
        for one in sorted(lists, key=lambda x: (len(x.positions), x.key)):
            if members[one.key].group is not None or len(one.pairs) >= SHARE * len(one.positions):
                continue
            for lane in (rows for g in groups for rows in whole[g].values()):
                pairs = pair_sequences(one.tokens, columns.tokens[lane])
                holders = {owners.get(int(t)) for t in lane[pairs[:, 1]]} - {None, one.key}
                apart = [h for h in holders if h is not None and not members[h].seen & members[one.key].seen]
                if len(apart) == 1 and len(holders) == 1 and len(pairs) > max(len(one.pairs), SHARE * min(len(lane), len(one.positions))):
                    out.used -= {int(t) for t in one.traced}
                    out.traced_of[one.positions] = -1
                    del out.logged[one.key]
                    out.absorbed += 1
                    break


def coalesced(logged: LoggedOperations, traced: pl.DataFrame, out: Joined, members: dict[int, Members]) -> None:
    """Operations that one kernel ran together: lines between two pairs whose sizes add up to the one kernel there."""
    columns = _Traced(traced)
    lanes = _lanes(traced)
    for key, positions in sorted(out.logged.items()):
        group = members[key].group
        rows = list(lanes.get(group, {}).values()) if group is not None else []
        mine = out.traced_of[positions]
        for lane in rows:
            inside = np.isin(mine, lane)
            if not inside.any() or out.used.issuperset(lane.tolist()):
                continue
            place = {int(t): n for n, t in enumerate(lane)}
            pairs = np.array([[n, place[int(t)]] for n, t in enumerate(mine) if inside[n]], dtype=np.int64)
            for a, b in gaps(pairs, len(positions), len(lane)):
                _one_kernel(positions[a], lane[b], logged, columns, out)


def _one_kernel(lines: Int, kernels: Int, logged: LoggedOperations, columns: _Traced, out: Joined) -> None:
    if len(kernels) != 1 or len(lines) < 2 or (out.traced_of[lines] >= 0).any() or int(kernels[0]) in out.used:
        return
    kinds = set(logged.tokens[lines] % KINDS)
    sizes = logged.sizes[lines]
    if kinds == {int(columns.tokens[kernels[0]] % KINDS)} and (sizes >= 0).all() and int(sizes.sum()) == int(columns.sizes[kernels[0]]):
        out.traced_of[lines] = kernels[0]
        out.used.add(int(kernels[0]))


def join_messages(messages: pl.DataFrame, traced: pl.DataFrame) -> Int:
    """For each row of `messages` (src_rank, dst_rank, size, comm_key; in order per pair) the traced row of the same ends, or -1."""
    out = np.full(messages.height, -1, dtype=np.int64)
    rows = traced.with_row_index("at").filter(pl.col("joins") & pl.col("paired_ends"))
    theirs = {
        (src, dst): (np.array(at, dtype=np.int64), np.array(size, dtype=np.int64))
        for src, dst, at, size in rows.group_by("src_rank", "dst_rank", maintain_order=True).agg("at", pl.col("bytes").fill_null(-1)).iter_rows()
    }
    lists = messages.with_row_index("n").group_by("src_rank", "dst_rank", "comm_key", maintain_order=True).agg("n", "size")
    order = lists.with_columns(pl.col("n").list.len().alias("len")).sort("src_rank", "dst_rank", "len", "comm_key", descending=[False, False, True, False])
    for src, dst, _, n, size, _ in order.iter_rows():
        if (src, dst) not in theirs:
            continue
        at, sizes = theirs[src, dst]
        pairs = pair_sequences(_tokens(size), _tokens(sizes))
        out[np.array(n, dtype=np.int64)[pairs[:, 0]]] = at[pairs[:, 1]]
        left = np.setdiff1d(np.arange(len(at)), pairs[:, 1])
        theirs[src, dst] = at[left], sizes[left]
    return out


def _tokens(sizes: Iterable[int]) -> Int:
    found = np.asarray(sizes, dtype=np.int64)
    return np.where(found < 0, -1, found * KINDS)
