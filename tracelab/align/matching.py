"""Which rows of different ranks are one operation of the job.

A ladder: the key that all ranks share; the sequence number in the group; the order of operations. Ranks whose profiler
states no key join by order what the keys of others matched. Order is compared step by step (the step whose host code
launched it), and where the sequences differ - a lost kernel, another capture window - by the time between their ends,
which is constant between two ranks whatever their clocks say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracelab.align.sequences import WINDOW_NS, Pairing, align_sequences

__all__ = ["AMBIGUOUS", "SYNCHRONISING", "Matched", "match_rows"]

AMBIGUOUS = 0.05
"""A best alignment that beats the next by less than this share is called ambiguous."""
FEWEST_NEIGHBOURS = 3
"""Operations that must have been paired before their difference of ends says where others would be."""
SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Operations that no rank leaves before all have entered, so that all ends nearly coincide."""

Key = tuple[object, ...]


@dataclass
class Matched:
    """`match_id` per row (-1: none), and per match its rung and margin. `mismatched` counts keys whose operations contradict each other."""

    match_id: np.ndarray
    rung: list[str] = field(default_factory=list)
    margin: list[float | None] = field(default_factory=list)
    mismatched: int = 0

    def add(self, members: list[int], rung: str, margin: float | None) -> None:
        """A match of these rows."""
        self.match_id[members] = len(self.rung)
        self.rung.append(rung)
        self.margin.append(margin)

    def join(self, row: int, match: int, margin: float) -> None:
        """Adds a row to a match by order."""
        self.match_id[row] = match
        self.rung[match], self.margin[match] = "order", min(margin, self.margin[match] or 1.0)


def match_rows(rows: pl.DataFrame) -> Matched:
    """Matches `rows` (as `assign_groups` gives them, op_id 0, 1, 2 … in order)."""
    out = Matched(np.full(rows.height, -1, dtype=np.int64))
    blocks = _blocks(rows)
    table = _Columns(rows)
    for key, members in blocks:
        first = len(out.rung)
        rest = _by_key(members, table, table.comms_id, "comms-id", key, out)
        if key[0] == "collective":  # point-to-point operations count apart on each side: their number is no common key
            rest = _by_key(rest, table, table.seq, "sequence-number", key, out)
        if rest and len(out.rung) > first:
            rest = _joined(members, rest, table, out)
        if rest:
            _by_order(rest, table, out)
    return out


class _Columns:
    """The columns that matching reads, as plain lists and arrays by row."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rank: list[int] = rows["rank"].to_list()
        self.operation: list[str] = rows["operation"].to_list()
        self.comms_id: list[object] = rows["comms_id"].to_list()
        self.seq: list[object] = rows["seq"].to_list()
        self.step: list[int | None] = rows["launch_step"].to_list()
        self.anchored: list[bool] = (rows["step_origin"] == "annotation").fill_null(False).to_list()
        self.end = rows["end_ns"].to_numpy()
        # Without metadata the kernel's name stands in for size and type.
        name = pl.when(pl.col("stated")).then(pl.lit("")).otherwise(pl.col("name"))
        p2p = pl.col("operation").is_in(["send", "recv"])
        size = pl.when(pl.col("operation").is_in(["all_to_all"])).then(pl.lit(-1)).otherwise(pl.col("in_bytes").fill_null(-1))
        kind = pl.when(p2p).then(pl.lit("send_recv")).otherwise(pl.col("operation"))
        # Where bytes are known, the element type adds nothing; profilers that see only bytes do not name it.
        dtype = pl.when(size == -1).then(pl.col("dtype").fill_null("")).otherwise(pl.lit(""))
        token = rows.select(pl.format("{}|{}|{}|{}", kind, size, dtype, name.fill_null("")).rank("dense"))
        self.token = token.to_series().to_numpy().astype(np.int64)
        self.kind = rows.select(kind.rank("dense")).to_series().to_numpy().astype(np.int64)


def _blocks(rows: pl.DataFrame) -> Iterator[tuple[Key, list[int]]]:
    """Rows that can only match each other: of one communicator, or of one direction between two ranks; per rank in the order of launches.

    All ranks launch in one order, which the library demands; streams of one communicator start in an order of their own.
    """
    blocks: dict[Key, list[int]] = defaultdict(list)
    launched = pl.when(pl.col("launch_ts").is_not_null().all().over("rank")).then("launch_ts").otherwise("start_ns")
    order = rows.sort("rank", launched, "start_ns", "op_id").select("op_id", "rank", "group_id", "comm", "operation", "peer", "library")
    for op_id, rank, group, comm, operation, peer, library in order.iter_rows():
        if group is None or rank < 0 or library == "peer-copy":
            continue
        if operation in ("send", "recv"):
            if peer is not None:
                blocks["p2p", group, *((rank, peer) if operation == "send" else (peer, rank))].append(op_id)
        elif operation != "send_recv":
            blocks["collective", group, comm].append(op_id)
    yield from sorted(blocks.items(), key=lambda b: tuple(str(k) for k in b[0]))


def _by_key(members: list[int], table: _Columns, keys: list[object], rung: str, block: Key, out: Matched) -> list[int]:
    """Matches rows of equal key; returns the rows without a key and those whose operations contradict it."""
    by_key: dict[object, list[int]] = defaultdict(list)
    rest = []
    for i in members:
        if keys[i] is None:
            rest.append(i)
        else:
            by_key[keys[i]].append(i)
    for key in sorted(by_key, key=str):
        for same in _separate(by_key[key], table):
            kinds = {table.operation[i] for i in same}
            if len(kinds) == 1 or (block[0] == "p2p" and len(same) <= 2):
                out.add(same, rung, None)
            else:
                out.mismatched += 1
                rest.extend(same)
    place = {i: n for n, i in enumerate(members)}
    return sorted(rest, key=place.__getitem__)


def _separate(members: list[int], table: _Columns) -> Iterator[list[int]]:
    """A key that returns (a counter that started again) is another operation: cut where a rank would take part twice."""
    if len({table.rank[i] for i in members}) == len(members):
        yield members
        return
    ordered = sorted(members, key=lambda i: int(table.end[i]))
    ends = table.end[ordered]
    per_rank = Counter(table.rank[i] for i in members)
    # The widest gaps separate the occurrences: one less than the most that any rank has.
    cuts = sorted(np.argsort(np.diff(ends), kind="stable")[::-1][: max(per_rank.values()) - 1] + 1)
    for part in np.split(np.array(ordered), cuts):
        seen: set[int] = set()
        yield [int(i) for i in part if not (table.rank[i] in seen or seen.add(table.rank[i]))]  # type: ignore[func-returns-value]


def _joined(members: list[int], rest: list[int], table: _Columns, out: Matched) -> list[int]:
    """Rows of ranks without any key join the matches of the rank whose keys matched most; returns what is left."""
    keyed = Counter(table.rank[i] for i in members if out.match_id[i] >= 0)
    most = max(keyed.values())
    reference = min(r for r, n in keyed.items() if n == most)
    known = _in_steps([i for i in members if table.rank[i] == reference and out.match_id[i] >= 0], table)
    for step, by_rank in _in_steps([i for i in rest if table.rank[i] not in keyed], table).items():
        own = known.get(step, {}).get(reference, [])
        for _, rows in sorted(by_rank.items()):
            pairing = _pair(own, rows, step[0], table)
            for a, b in pairing.pairs:
                out.join(rows[b], int(out.match_id[own[a]]), pairing.margin)
    return [i for i in rest if out.match_id[i] < 0]


def _by_order(members: list[int], table: _Columns, out: Matched) -> None:
    """Matches one block by the order of its rows, step by step where the source marks steps."""
    for (anchored, _), by_rank in sorted(_in_steps(members, table).items(), key=str):
        _match_block(by_rank, anchored, table, out)


def _in_steps(members: list[int], table: _Columns) -> dict[tuple[bool, int | None], dict[int, list[int]]]:
    """Rows per rank, by whether the source marks their step, and its number."""
    steps: dict[tuple[bool, int | None], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i in members:
        anchored = table.anchored[i] and table.step[i] is not None
        steps[anchored, table.step[i] if anchored else None][table.rank[i]].append(i)
    return steps


def _pair(own: list[int], rows: list[int], anchored: bool, table: _Columns) -> Pairing:
    """Pairs two ranks' rows. Where none of their operations is described alike, by what kind of operation they are alone."""
    tokens = table.token if set(table.token[own]) & set(table.token[rows]) else table.kind
    if anchored and np.array_equal(tokens[own], tokens[rows]):
        return Pairing([(k, k) for k in range(len(rows))], 1.0)
    return align_sequences(tokens[own], table.end[own], tokens[rows], table.end[rows])


def _match_block(by_rank: dict[int, list[int]], anchored: bool, table: _Columns, out: Matched) -> None:
    tokens = {r: tuple(table.token[i] for i in rows) for r, rows in by_rank.items()}
    usual = Counter(tokens.values())
    # The sequence that most ranks have; the longest of equally frequent ones.
    model = max(usual, key=lambda t: (usual[t], len(t), t))
    reference = min(r for r, t in tokens.items() if t == model)
    groups: list[list[int]] = [[i] for i in by_rank[reference]]
    margins = [1.0] * len(groups)
    rest: list[tuple[int, int, float]] = []
    for rank, rows in sorted(by_rank.items()):
        if rank == reference:
            continue
        pairing = _pair(by_rank[reference], rows, anchored, table)
        for a, b in pairing.pairs:
            groups[a].append(rows[b])
            margins[a] = min(margins[a], pairing.margin)
        rest.extend((end, i, pairing.margin) for end, i in _left(pairing, by_rank[reference], rows, table))
    for group, margin in zip(groups, margins, strict=True):
        out.add(group, "order", margin)
    _match_left(sorted(rest), table, out)


def _left(pairing: Pairing, reference: list[int], rows: list[int], table: _Columns) -> list[tuple[int, int]]:
    """Rows that found no partner on the reference rank, with their ends on its clock as their neighbours tell it."""
    paired = {b for _, b in pairing.pairs}
    left = [i for k, i in enumerate(rows) if k not in paired]
    if len(pairing.pairs) < FEWEST_NEIGHBOURS or not left:
        return []
    a, b = table.end[[reference[x] for x, _ in pairing.pairs]], table.end[[rows[y] for _, y in pairing.pairs]]
    order = np.argsort(b, kind="stable")
    ends = table.end[left]
    ahead = np.interp((ends - b[order[0]]).astype(np.float64), (b[order] - b[order[0]]).astype(np.float64), (b - a)[order] - float((b - a)[order[0]]))
    return list(zip((ends - ahead.round().astype(np.int64) - (b - a)[order[0]]).tolist(), left, strict=True))


def _match_left(rest: list[tuple[int, int, float]], table: _Columns, out: Matched) -> None:
    """Matches rows whose operation the reference rank does not show: equal ones that end together. `rest` is in order of ends."""
    open_: dict[int, tuple[int, list[int], float]] = {}
    done: list[tuple[list[int], float]] = []
    for end, i, margin in rest:
        token, rank = int(table.token[i]), table.rank[i]
        first, members, least = open_.get(token, (end, [], 1.0))
        if end - first > WINDOW_NS or rank in {table.rank[m] for m in members}:
            done.append((members, least))
            first, members, least = end, [], 1.0
        open_[token] = (first, [*members, i], min(least, margin))
    done.extend((members, least) for _, (_, members, least) in sorted(open_.items()))
    for members, least in done:
        if len(members) > 1:
            out.add(members, "order", least)
