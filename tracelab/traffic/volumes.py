"""TRAFFIC and TRAFFIC_STEPS: the bytes that the job's operations put on every pair of ranks.

Operations of equal communicator, kind, size, algorithm, channels and root are counted first and placed once: time and memory
grow with the number of different ones and with the number of pairs, not with the length of the run.

NVLS and CollNet move data through switches, which are no rank: what the GPUs of a domain send to their switch (or receive from
it, where that is more) is spread evenly over the ordered pairs of the domain, with rung assumed. Payload only: protocols put
more on the wire (LL twice as much, LL128 128/120).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tracelab.plugins import Notice
from tracelab.tables import TRAFFIC, TRAFFIC_STEPS
from tracelab.traffic.edges import Communicator, Edges
from tracelab.traffic.parts import Call, Ints, Part
from tracelab.traffic.placement import PATH, Placement
from tracelab.traffic.schedules import schedule
from tracelab.traffic.transfers import with_transfers

__all__ = ["Volumes", "traffic_volumes"]

_P2P = ("send", "recv", "send_recv")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_LARGEST = 2**48
_MOST = 2**62
"""No operation is larger than 256 TiB, and no sum than int64 holds: what is comes from a damaged line."""

_ROWS = {
    "comm_key": pl.Int32,
    "group_id": pl.Int32,
    "operation": pl.String,
    "algorithm": pl.String,
    "src_rank": pl.Int32,
    "dst_rank": pl.Int32,
    "transport": pl.String,
    "nic": pl.String,
    "proxy_rank": pl.Int32,
    "rung": pl.String,
    "bytes": pl.Int64,
    "operations": pl.Int64,
}


@dataclass(frozen=True)
class Volumes:
    """TRAFFIC, TRAFFIC_STEPS and what was left out."""

    traffic: pl.DataFrame
    steps: pl.DataFrame
    notices: tuple[Notice, ...]


@dataclass(frozen=True)
class _Kind:
    """Operations that one schedule serves. `centre`: root of gather and scatter; `rooted`: the root is known (of others, each call has its own)."""

    comm: int
    group_id: int | None
    operation: str
    algorithm: str | None
    centre: int | None
    rooted: bool


def traffic_volumes(
    operations: pl.DataFrame,
    edges: Edges,
    communicators: list[Communicator],
    hosts: Mapping[int, str],
    transfers: tuple[pl.DataFrame, pl.DataFrame] | None = None,
    window: str = "capture",
) -> Volumes:
    """Traffic of `operations` (OPERATIONS) over `edges`; `transfers` as from `counted_transfers`, where a proxy counted.

    All of it belongs to one `window` (capture or log, see the table).
    """
    left_out: Counter[str] = Counter()
    ops = _resolved(operations, communicators, left_out)
    p2p = ops.filter(pl.col("operation").is_in(_P2P))
    place = Placement(edges, communicators, hosts)
    frames = [_p2p_rows(p2p, place), *_collective_rows(ops.filter(~pl.col("operation").is_in(_P2P)), place, left_out)]
    rows = pl.concat(frames)
    known = rows.filter((pl.col("src_rank") >= 0) & (pl.col("dst_rank") >= 0))
    left_out["ranks"] += rows.height - known.height
    if transfers is not None:
        groups = {c.key: c.group_id for c in communicators if c.key is not None}
        known = with_transfers(known, *transfers, groups, hosts)
    steps = pl.concat([_p2p_steps(p2p, place), *place.steps])
    return Volumes(_traffic(known, hosts, window), _steps(steps), tuple(_notices(left_out)))


def _resolved(operations: pl.DataFrame, communicators: list[Communicator], left_out: Counter[str]) -> pl.DataFrame:
    """The operations that can be placed, with `comm` (number in `communicators`, null for point to point outside of all)."""
    by_key = {c.key: i for i, c in enumerate(communicators) if c.key is not None}
    whole = {k: i for k, i in by_key.items() if None not in communicators[i].ranks}
    by_group = {c.group_id: i for i, c in reversed(list(enumerate(communicators))) if c.group_id is not None}
    columns = ("comm_key", "group_id", "operation", "bytes", "root", "src_rank", "dst_rank", "algorithm", "channel_first", "channel_last", "step")
    ops = operations.select(columns).with_columns(pl.col("operation", "algorithm").cast(pl.String))
    group_of = {i: c.group_id for i, c in enumerate(communicators)}
    # A communicator whose ranks are not all known is the last choice: the group that a trace states is better.
    choices = (("comm_key", whole), ("group_id", by_group), ("comm_key", by_key))
    comm = pl.coalesce(pl.col(column).replace_strict(numbers, default=None, return_dtype=pl.Int32) for column, numbers in choices)
    ops = ops.with_columns(comm.alias("comm")).with_columns(
        pl.coalesce("group_id", pl.col("comm").replace_strict(group_of, default=None, return_dtype=pl.Int32)).alias("group_id")
    )
    p2p = pl.col("operation").is_in(_P2P)
    # A barrier moves nothing, nor does the bracket around coalesced sends and receives, which are rows of their own.
    ops = ops.filter(~((pl.col("operation") == "barrier") & pl.col("bytes").is_null()) & ~(p2p & (pl.col("bytes") == 0)).fill_null(False))
    tests = {
        "size": pl.col("bytes").is_null(),
        "implausible": ~pl.col("bytes").is_between(0, _LARGEST),
        "ends": p2p & pl.any_horizontal(pl.col(c).is_null() | (pl.col(c) < 0) for c in ("src_rank", "dst_rank")),
        "group": ~p2p & pl.col("comm").is_null(),
        "operation": pl.col("operation") == "unknown",
    }
    for reason, test in tests.items():
        good = ops.filter(~test.fill_null(False))
        left_out[reason] += ops.height - good.height
        ops = good
    return ops


def _p2p_rows(p2p: pl.DataFrame, place: Placement) -> pl.DataFrame:
    keys = ["comm_key", "group_id", "operation", "src_rank", "dst_rank"]
    moved = p2p.filter((pl.col("src_rank") != pl.col("dst_rank")) & (pl.col("bytes") > 0))
    sums = moved.group_by(keys).agg(pl.col("bytes").sum(), pl.len().cast(pl.Int64).alias("operations")).sort(keys, nulls_last=True)
    out = sums.join(place.pair_paths(p2p=True), on=["comm_key", "src_rank", "dst_rank"], how="left", maintain_order="left", validate="m:1")
    out = out.with_columns(pl.lit("P2P").alias("algorithm"), pl.lit("call").alias("rung"))
    return out.select(pl.col(n).cast(t) for n, t in _ROWS.items())


def _p2p_steps(p2p: pl.DataFrame, place: Placement) -> pl.DataFrame:
    a, b = (place.nodes(p2p[c].to_numpy()) for c in ("src_rank", "dst_rank"))
    known = pl.Series("known", (a >= 0) & (b >= 0))
    cross = pl.Series("cross", a != b)
    moved = pl.when(pl.col("src_rank") != pl.col("dst_rank")).then(pl.col("bytes")).otherwise(0)
    out = p2p.with_columns(known, cross).with_columns(moved.alias("bytes"))
    crossing = pl.when("known").then(pl.when("cross").then("bytes").otherwise(0))
    return out.select("step", "group_id", "operation", pl.lit(1, pl.Int64).alias("operations"), "bytes", crossing.alias("cross_host_bytes"))


def _collective_rows(ops: pl.DataFrame, place: Placement, left_out: Counter[str]) -> Iterator[pl.DataFrame]:
    """Rows per schedule; `place.steps` gets the sums per step."""
    keys = ["comm", "group_id", "operation", "algorithm", "root", "channel_first", "channel_last", "bytes"]
    timed = ops.group_by(*keys, "step").agg(pl.len().cast(pl.Int64).alias("operations")).sort(*keys, "step", nulls_last=True)
    calls = timed.group_by(keys, maintain_order=True).agg(pl.col("operations").sum()).with_row_index("call")
    timed = timed.join(calls.drop("operations"), on=keys, how="left", nulls_equal=True, maintain_order="left", validate="m:1")
    kinds: dict[_Kind, list[tuple[int, Call, int]]] = defaultdict(list)
    for number, comm, group, operation, algorithm, root, first, last, size, count in calls.iter_rows():
        member = root if root is not None and operation in _ROOTED and root in place.communicators[comm].ranks else None
        fixed = member if operation in ("gather", "scatter") else None
        channels = (first, last) if first is not None and last is not None else None
        kinds[_Kind(comm, group, operation, algorithm, fixed, member is not None)].append((number, Call(size, member, channels), count))
    totals = np.zeros((calls.height, 2), np.int64)
    crossing_known = np.ones(calls.height, bool)
    budget = _MOST
    for kind, members in kinds.items():
        weight = 2 * (place.communicators[kind.comm].size + 1)
        fitting = []
        for number, call, count in members:
            budget -= weight * call.size * count
            if budget < 0:
                left_out["implausible"] += count
                budget += weight * call.size * count
            else:
                fitting.append((number, call, count))
        yield from _kind_rows(kind, fitting, place, totals, crossing_known, left_out)
    per_call = pl.DataFrame({"call": np.arange(calls.height, dtype=np.uint32), "one": totals[:, 0], "one_cross": totals[:, 1], "known": crossing_known})
    out = timed.join(per_call, on="call", how="left", maintain_order="left", validate="m:1")
    moved = (pl.col("one") * pl.col("operations")).alias("bytes")
    cross = pl.when("known").then(pl.col("one_cross") * pl.col("operations")).alias("cross_host_bytes")
    place.steps.append(out.select("step", "group_id", "operation", "operations", moved, cross))


def _kind_rows(
    kind: _Kind,
    calls: list[tuple[int, Call, int]],
    place: Placement,
    totals: Ints,
    crossing_known: npt.NDArray[np.bool_],
    left_out: Counter[str],
) -> Iterator[pl.DataFrame]:
    links, c = place.links(kind.comm), place.communicators[kind.comm]
    parts = schedule(kind.operation, kind.algorithm, links, kind.centre, root_known=kind.rooted)
    if kind.algorithm not in (None, "RING") and any(p.algorithm == "RING" for p in parts):
        left_out["algorithm"] += sum(n for _, _, n in calls)
    if not parts and c.size > 1:
        left_out["links"] += sum(n for _, call, n in calls if call.size)
    for part in parts:
        rows, row_of = _pair_rows(part, c, place)
        classes = int(part.classes.max()) + 1 if part.classes is not None else len(part.src)
        sums, seen = np.zeros(classes, np.int64), np.zeros(rows.height if part.classes is None else classes, np.int64)
        cross = place.crossing(part.src, part.dst)
        pairs = np.ones(classes, np.int64) if part.classes is None else np.bincount(part.classes, minlength=classes)
        crossing = None if cross is None else cross.astype(np.int64) if part.classes is None else np.bincount(part.classes[cross], minlength=classes)
        for number, call, count in calls:
            amounts = part.amounts(call)
            sums += count * amounts
            if part.classes is None:
                moved = np.zeros(len(seen), bool)
                moved[row_of[amounts > 0]] = True
            else:
                moved = amounts > 0
            seen += count * moved
            totals[number, 0] += int(amounts @ pairs)
            if crossing is None:
                crossing_known[number] = False
            else:
                totals[number, 1] += int(amounts @ crossing)
        if part.classes is not None:
            size, operations = sums[part.classes], seen[part.classes]
        else:
            size, operations = np.zeros(rows.height, np.int64), seen
            np.add.at(size, row_of, sums)
        out = rows.with_columns(pl.Series("bytes", size), pl.Series("operations", operations)).filter(pl.col("bytes") > 0)
        fixed = {"comm_key": c.key, "group_id": kind.group_id, "operation": kind.operation, "algorithm": part.algorithm}
        yield out.with_columns(pl.lit(v, _ROWS[n]).alias(n) for n, v in fixed.items()).select(pl.col(n).cast(t) for n, t in _ROWS.items())


def _pair_rows(part: Part, c: Communicator, place: Placement) -> tuple[pl.DataFrame, Ints]:
    """The different pairs and paths of a part, and the row of each of its pairs."""
    frame = pl.DataFrame(
        {
            "comm_key": pl.Series([c.key], dtype=pl.Int32).new_from_index(0, len(part.src)),
            "src_rank": part.src.astype(np.int32),
            "dst_rank": part.dst.astype(np.int32),
            "channel": part.channel.astype(np.int32),
            "rung": pl.Series(part.rung, dtype=pl.String),
        }
    )
    keys = ["comm_key", "src_rank", "dst_rank"]
    by_channel = bool((part.channel >= 0).all())
    if by_channel:
        paths = place.paths.filter(~pl.col("p2p")).select("channel", *keys, *PATH)
        keys = ["channel", *keys]
    else:
        paths = place.pair_paths(p2p=part.algorithm == "P2P")
    joined = frame.join(paths, on=keys, how="left", maintain_order="left", validate="m:1").drop("comm_key", "channel")
    if not by_channel:
        return joined, np.arange(joined.height)
    unique = joined.unique(maintain_order=True).with_row_index("row")
    row = joined.join(unique, on=joined.columns, how="left", nulls_equal=True, maintain_order="left", validate="m:1")["row"]
    return unique.drop("row"), row.to_numpy().astype(np.int64)


def _traffic(rows: pl.DataFrame, hosts: Mapping[int, str], window: str) -> pl.DataFrame:
    """TRAFFIC: hosts of both ends, the kind of transport that they tell where nothing states it, equal rows summed."""
    place = pl.DataFrame({"r": list(hosts.keys()), "h": list(hosts.values())}, schema={"r": pl.Int32, "h": pl.String})
    for end in ("src", "dst"):
        rows = rows.join(place.rename({"r": f"{end}_rank", "h": f"{end}_host"}), on=f"{end}_rank", how="left", maintain_order="left", validate="m:1")
    told = pl.when(pl.col("src_host") == pl.col("dst_host")).then(pl.lit("host")).when(pl.col("src_host") != pl.col("dst_host")).then(pl.lit("network"))
    rows = rows.with_columns(pl.coalesce("transport", told).alias("transport"), pl.lit(window).alias("window"))
    keys = [n for n in TRAFFIC.names if n not in ("bytes", "operations")]
    sums = rows.group_by(keys).agg(pl.col("bytes").sum(), pl.col("operations").sum())
    return TRAFFIC.conform(sums.sort(keys, nulls_last=True).select(TRAFFIC.names))


def _steps(rows: pl.DataFrame) -> pl.DataFrame:
    keys = ["step", "group_id", "operation"]
    cross = pl.when(pl.col("cross_host_bytes").null_count() == 0).then(pl.col("cross_host_bytes").sum()).alias("cross_host_bytes")
    return TRAFFIC_STEPS.conform(rows.group_by(keys).agg(pl.col("operations", "bytes").sum(), cross).select(TRAFFIC_STEPS.names))


_REASONS = {
    "size": "of unknown size",
    "group": "of a group whose ranks are not known",
    "ends": "from one rank to another of which not both are known",
    "operation": "of unknown kind",
    "implausible": "of impossible size",
    "links": "over links that are not known",
}


def _notices(left_out: Counter[str]) -> Iterator[Notice]:
    missing = {text: left_out[reason] for reason, text in _REASONS.items() if left_out[reason]}
    if missing:
        text = "operations are missing from the traffic: " + ", ".join(f"{n:,} {reason}" for reason, n in missing.items())
        yield Notice(
            "unplaced-operation",
            "warning",
            text,
            "collect traces with metadata of collectives, or logs with NCCL_DEBUG_SUBSYS=INIT,GRAPH,COLL",
            sum(missing.values()),
        )
    if left_out["ranks"]:
        yield Notice(
            "traffic-of-unknown-ranks",
            "warning",
            "pairs of ranks are missing from the traffic, as their global ranks are not known",
            "collect the logs of all ranks",
            left_out["ranks"],
        )
    if left_out["algorithm"]:
        text = "operations name an algorithm whose links are not known in full; their bytes are placed on the rings (the total is the same)"
        yield Notice("algorithm-without-links", "info", text, "log INIT and GRAPH on all ranks", left_out["algorithm"])
