"""From the lines of many processes to one list of operations per communicator, and one list of sends per pair of ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracelab.traffic.folding import fold
from tracelab.traffic.kinds import ALL_TO_ALL, RECV, SEND, kind_of, number_of, size_of, token_of
from tracelab.traffic.sequences import KINDS, Int, gaps, pair_sequences, shift_of

__all__ = ["LoggedOperations", "read_logged"]

_PREFERRED = ("coll-line", "call-line", "profiler", "inspector", "flight-recorder")
"""Kinds of logs of one process, best first: they are one list of operations, not several."""
_RECORDERS = 2
"""From this kind on, `seq` is the number that the source states."""
_LARGEST = 2**48
"""Bytes of one operation: a damaged line may state any number."""
WITNESSES = 4
"""Lists of one communicator that are compared; others say nothing that the longest does not."""
_LIST = ["comm_key", "source_id", "part", "origin"]


@dataclass
class LoggedOperations:
    """`rows`: what was read; `collectives`: by comm_key the positions of its operations in order; `p2p`: sends and receives.

    `details` and `times` say for every row from which row its algorithm and its time are taken. `without_comm` rows name no
    communicator that is known; `kinds` is the best kind of log of each communicator, `ranks` are the ranks that log it.
    """

    rows: pl.DataFrame
    collectives: dict[int, Int]
    p2p: pl.DataFrame
    tokens: Int
    numbers: Int
    sizes: Int
    details: Int
    times: Int
    kinds: dict[int, int]
    ranks: dict[int, set[int]]
    without_comm: int = 0
    folded: int = 0
    contradicted: set[int] = field(default_factory=set)
    disjoint: set[int] = field(default_factory=set)


def read_logged(logged: pl.LazyFrame, comm_map: pl.DataFrame, job_comms: pl.DataFrame, exchanging: Collection[int]) -> LoggedOperations:
    """The operations that logs state. `exchanging` are communicators whose groups are known to exchange all to all.

    Reads `logged` twice: once to see who logs how much, once for the rows that are needed.
    """
    found = _lists(_keyed(logged, comm_map, job_comms))
    without = int(found.filter(pl.col("comm_key").is_null())["all"].sum())
    lists = found.filter(pl.col("comm_key").is_not_null()).with_row_index("list").with_columns(pl.col("list").cast(pl.Int32))
    wanted = _wanted(lists)
    needed = logged.filter(pl.col("source_id").is_in(wanted["source_id"].unique().to_list()))
    keyed = _keyed(needed, comm_map, job_comms).join(wanted.lazy(), on=_LIST, how="inner").filter(pl.col("p2p") | pl.col("chosen"))
    rows = keyed.sort("comm_key", "list", "line", "seq").collect(engine="streaming").rechunk()
    out = _empty(rows, lists, without)
    _Reader(out, dict(job_comms.select("comm_key", "size").iter_rows()), set(exchanging)).read()
    return out


def _keyed(logged: pl.LazyFrame, comm_map: pl.DataFrame, job_comms: pl.DataFrame) -> pl.LazyFrame:
    sizes = job_comms.select("comm_key", pl.col("size").alias("ranks"))
    places = comm_map.join(sizes, on="comm_key", how="left", validate="m:1").lazy()
    origin = number_of("origin", _PREFERRED, len(_PREFERRED))
    columns = ("source_id", "part", "rank", "comm", "line", "seq", "op_count", "peer", "root", "algorithm", "protocol", "channel_first", "channel_last")
    frame = logged.select(*columns, "ts_ns", "dur_ns", "in_bytes", "out_bytes", kind_of("operation").alias("kind"), origin.alias("origin"))
    # No `validate`: it would hold all rows at once. A place stands in the map once.
    frame = frame.join(places, on=["source_id", "part", "comm"], how="left")
    size = size_of(pl.col("kind"), pl.col("ranks").cast(pl.Int64))
    size = pl.when(size.is_between(0, _LARGEST)).then(size)
    frame = frame.with_columns(size.alias("bytes"), pl.col("kind").is_in([SEND, RECV]).alias("p2p"))
    return frame.with_columns(token_of(pl.col("kind"), pl.col("bytes")).alias("token")).drop("in_bytes", "out_bytes", "comm", "ranks")


def _lists(keyed: pl.LazyFrame) -> pl.DataFrame:
    """Who logs what: a row per communicator, process and kind of log."""
    collective = ~pl.col("p2p")
    # Plain sums, minima and maxima of columns: what the streaming engine adds up batch by batch.
    return (
        keyed.select(
            *_LIST,
            "rank",
            "comm_rank",
            "op_count",
            collective.alias("collectives"),
            pl.col("p2p").alias("p2p_rows"),
            (collective & pl.col("algorithm").is_not_null()).alias("described"),
            pl.col("ts_ns").is_not_null().alias("timed"),
            pl.when(collective).then(pl.col("token") % 1_000_003).otherwise(0).alias("content"),
            pl.when(pl.col("origin") >= _RECORDERS).then("seq").alias("seq_first"),
        )
        .group_by(_LIST)
        .agg(
            pl.col("rank", "comm_rank").min(),
            pl.len().alias("all"),
            pl.col("collectives", "p2p_rows", "described", "timed", "content").sum(),
            pl.col("op_count").min().alias("op_first"),
            pl.col("op_count").max().alias("op_last"),
            pl.col("seq_first").min(),
        )
        .collect(engine="streaming")
        .sort("comm_key", "origin", pl.col("collectives"), pl.col("comm_rank"), "source_id", "part", descending=[False, False, True, False, False, False])
    )


def _wanted(lists: pl.DataFrame) -> pl.DataFrame:
    """The lists to read; `chosen` ones for their collectives too, the longest of the best kind first."""
    best = pl.col("origin") == pl.col("origin").filter(pl.col("collectives") > 0).min().over("comm_key")
    told = lists.with_columns(best.fill_null(False).alias("best"))
    # Lists of equal length and content say the same, unless their numbers show that they begin elsewhere.
    new = ["comm_key", "origin", "collectives", "content", "op_first", "op_last", "seq_first"]
    fresh = told.filter((pl.col("collectives") > 0) & ~_inside()).unique(new, keep="first", maintain_order=True)
    fresh = fresh.with_columns(pl.int_range(pl.len()).over("comm_key", "origin").alias("nth"))
    most = pl.col("described") == pl.col("described").max().over("comm_key", "origin")
    detail = told.filter((pl.col("collectives") > 0) & (pl.col("described") > 0) & most).unique(["comm_key", "origin"], keep="first", maintain_order=True)
    use = (pl.col("best") & (pl.col("nth") < WITNESSES)) | (~pl.col("best") & (pl.col("nth") == 0) & ((pl.col("described") > 0) | (pl.col("timed") > 0)))
    chosen = set(fresh.filter(use)["list"].to_list()) | set(detail["list"].to_list())
    # A process that exchanges by sends and receives is read whole: which of them are one operation, their order tells.
    process = pl.when(pl.col("rank") >= 0).then(pl.col("rank").cast(pl.Int64)).otherwise(-1 - pl.col("source_id").cast(pl.Int64) * 65536 - pl.col("part"))
    sends = told.with_columns(process.alias("process")).filter(pl.col("p2p_rows") > 0)
    sends = sends.filter(pl.col("origin") == pl.col("origin").min().over("comm_key", "process"))
    return told.with_columns(
        pl.col("list").is_in(sorted(chosen)).alias("chosen"), pl.col("list").is_in(sends["list"].to_list()).alias("sends")
    ).filter(pl.col("chosen") | pl.col("sends")).select(*_LIST, "list", "chosen", "sends", "best")  # fmt: skip


def _inside() -> pl.Expr:
    """A list that counts without a gap within the numbers that the longest counts without a gap."""
    whole = (pl.col("op_last") - pl.col("op_first") + 1 == pl.col("all")).fill_null(False)
    first, last = pl.col("op_first").first().over("comm_key", "origin"), pl.col("op_last").first().over("comm_key", "origin")
    later = pl.int_range(pl.len()).over("comm_key", "origin") > 0
    return later & whole & whole.first().over("comm_key", "origin") & (pl.col("op_first") >= first) & (pl.col("op_last") <= last)


def _empty(rows: pl.DataFrame, lists: pl.DataFrame, without: int) -> LoggedOperations:
    recorder = pl.when(pl.col("origin") >= _RECORDERS).then(pl.col("seq")).otherwise(pl.col("op_count"))
    index = np.arange(rows.height, dtype=np.int64)
    ranks: dict[int, set[int]] = defaultdict(set)
    for key, rank in lists.select("comm_key", "rank").iter_rows():
        ranks[key] |= {rank} if rank >= 0 else set()
    kinds = dict(lists.group_by("comm_key").agg(pl.col("origin").min()).iter_rows())
    return LoggedOperations(
        rows,
        {},
        rows.clear(),
        rows["token"].to_numpy().astype(np.int64),
        rows.select(recorder.fill_null(-1)).to_series().to_numpy().astype(np.int64),
        rows["bytes"].fill_null(-1).to_numpy().astype(np.int64),
        index,
        index.copy(),
        kinds,
        dict(ranks),
        without,
    )


class _Reader:
    """Makes the lists of each communicator one."""

    def __init__(self, out: LoggedOperations, sizes: dict[int, int], exchanging: set[int]) -> None:
        self.out, self.sizes, self.exchanging = out, sizes, exchanging
        rows = out.rows
        self.kind = rows["kind"].to_numpy().copy()
        self.described = rows["algorithm"].is_not_null().to_numpy()
        self.timed = rows["ts_ns"].is_not_null().to_numpy()
        self.peer = rows["peer"].fill_null(-1).to_numpy()
        self.place = rows["comm_rank"].fill_null(-1).to_numpy()
        self.keep = np.ones(rows.height, dtype=np.bool_)

    def read(self) -> None:
        """Fills `out`."""
        by_comm: dict[int, list[tuple[int, bool, bool, Int]]] = defaultdict(list)
        for key, origin, best, sends, positions in self._slices():
            by_comm[key].append((origin, best, sends, self._folded(key, positions)))
        for key, lists in sorted(by_comm.items()):
            self._unite(key, lists)
        rows = self.out.rows.with_columns(pl.Series("kind", self.kind), pl.Series("position", np.arange(self.out.rows.height)), pl.Series("keep", self.keep))
        self.out.p2p = _sends(rows.filter(pl.col("keep") & pl.col("sends") & pl.col("kind").is_in([SEND, RECV])))
        self.out.rows = rows.drop("position", "keep")

    def _slices(self) -> Iterator[tuple[int, int, bool, bool, Int]]:
        rows = self.out.rows
        bounds = rows.with_row_index("at").group_by("comm_key", "list", maintain_order=True).agg(
            pl.col("at").first(), pl.len().alias("n"), pl.col("origin").first(), pl.col("best").first(), pl.col("sends").first()
        )  # fmt: skip
        for key, _, at, n, origin, best, sends in bounds.iter_rows():
            yield key, origin, best, sends, np.arange(at, at + n, dtype=np.int64)

    def _folded(self, key: int, positions: Int) -> Int:
        """The collectives of one list, with exchanges of sends and receives as one all-to-all each."""
        kind = self.kind[positions]
        if (kind == SEND).any() and (kind == RECV).any():
            n = self.sizes.get(key, 0)
            found = fold(
                kind, self.peer[positions], self.out.numbers[positions], self.out.sizes[positions], int(self.place[positions[0]]), n, key in self.exchanging
            )
            if found is not None:
                first, total, gone = found
                at = positions[first]
                self.keep[positions[gone]] = False
                self.kind[at], self.out.sizes[at], self.out.tokens[at] = ALL_TO_ALL, total, ALL_TO_ALL
                self.out.folded += len(at)
                kind = self.kind[positions]
        rest: Int = positions[(kind != SEND) & (kind != RECV)]
        return rest

    def _unite(self, key: int, lists: list[tuple[int, bool, bool, Int]]) -> None:
        lists = [(origin, best, sends, positions) for origin, best, sends, positions in lists if len(positions)]
        if not lists:
            return
        kind = min(origin for origin, *_ in lists)
        order = sorted(lists, key=lambda w: (w[0] != kind, -len(w[3]), int(self.place[w[3][0]]), int(w[3][0])))
        main = order[0][3]
        same = [w for w in order[1:] if w[0] == kind]
        for origin, _, _, other in same[: WITNESSES - 1] + [w for w in order if w[0] != kind]:
            pairs = self._paired(main, other, same_numbers=origin == kind)
            self._fill(main, other, pairs)
            if origin == kind:
                main = _merged(main, other, pairs) if len(pairs) else self._apart(key, main, other)
            elif len(other) > len(main):
                self.out.contradicted.add(key)
        self.out.collectives[key] = main

    def _paired(self, main: Int, other: Int, *, same_numbers: bool) -> Int:
        tokens, numbers = self.out.tokens, self.out.numbers
        shift = shift_of(numbers[main], numbers[other]) if same_numbers else None
        if shift is not None and not -len(other) < shift < len(main):
            # Their numbers say that one ends before the other begins, however alike they look.
            return np.empty((0, 2), dtype=np.int64)
        return pair_sequences(tokens[main], tokens[other], () if shift is None else (shift,))

    def _apart(self, key: int, main: Int, other: Int) -> Int:
        """Two logs without a common operation, one after the other as their numbers say; else the longer one alone."""
        (a, b), (c, d) = (self._span(rows) for rows in (main, other))
        if 0 <= a <= b < c <= d:
            return np.concatenate([main, other])
        if 0 <= c <= d < a <= b:
            return np.concatenate([other, main])
        self.out.disjoint.add(key)
        return main

    def _span(self, rows: Int) -> tuple[int, int]:
        """First and last number of a list that counts upwards; (-1, -1) of others."""
        numbers = self.out.numbers[rows]
        rising = numbers[0] >= 0 and bool((np.diff(numbers) >= 0).all())
        return (int(numbers[0]), int(numbers[-1])) if rising else (-1, -1)

    def _fill(self, main: Int, other: Int, pairs: Int) -> None:
        """Takes algorithm and time of a paired row where the row itself states none."""
        if not len(pairs):
            return
        i, j = main[pairs[:, 0]], other[pairs[:, 1]]
        for has, source in ((self.described, self.out.details), (self.timed, self.out.times)):
            lacking = ~has[source[i]] & has[source[j]]
            source[i[lacking]] = source[j[lacking]]


def _merged(main: Int, other: Int, pairs: Int) -> Int:
    """`main` with what only `other` has, where it lies between, before or after rows that both have and `main` has nothing."""
    if len(pairs) == len(other):
        return main
    out, last = [], 0
    for mine, theirs in gaps(pairs, len(main), len(other)):
        if mine.start == mine.stop and theirs.start < theirs.stop:
            out += [main[last : mine.start], other[theirs]]
            last = mine.start
    return np.concatenate([*out, main[last:]])


def _sends(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per message: from the sender's lines, or the receiver's where they show more; none to the process itself."""
    place, send = pl.col("comm_rank"), pl.col("kind") == SEND
    ends = rows.with_columns(pl.when(send).then(place).otherwise("peer").alias("src_place"), pl.when(send).then("peer").otherwise(place).alias("dst_place"))
    ends = ends.filter((pl.col("src_place") != pl.col("dst_place")).fill_null(True))
    pair = ["comm_key", "src_place", "dst_place"]
    # A place that is unknown is no common end: each list then stands for itself.
    apart = pl.when(pl.col("src_place").is_null() | pl.col("dst_place").is_null()).then(pl.col("list")).otherwise(-1).alias("apart")
    ends = ends.with_columns(apart, pl.len().over(*pair, "list", "kind").alias("count"))
    order = ends.sort([*pair, "apart", "count", "kind", "list", "line", "seq"], descending=[False, False, False, False, True, False, False, False, False])
    first = pl.struct("list", "kind")
    return order.filter(first == first.first().over(*pair, "apart")).select(*pair, "position", "bytes", pl.col("bytes").fill_null(-1).alias("size"))


assert KINDS > ALL_TO_ALL
