"""The operations of the job, from traces and logs together, none twice.

A trace shows when an operation ran, in a window of the job; a log lists it from the first to the last, with algorithm and
channels but usually without time. Both keep the order of operations of one communicator, so that their two sequences are
laid over each other and what pairs is one operation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from tracelab.plugins import Notice
from tracelab.tables import OPERATIONS
from tracelab.traffic.joining import Joined, Members, coalesced, join_collectives, join_messages
from tracelab.traffic.kinds import ALL_TO_ALL, KIND, NAMES
from tracelab.traffic.logged import LoggedOperations, read_logged
from tracelab.traffic.sequences import Int
from tracelab.traffic.traced import hints, traced_operations

__all__ = ["operations"]

_ROOTED = [KIND["broadcast"], KIND["reduce"], KIND["gather"], KIND["scatter"]]
_PART = (
    "comm_key", "group_id", "origin", "match_id", "kind", "bytes", "root", "src_rank", "dst_rank", "algorithm", "protocol", "algorithm_origin",
    "channel_first", "channel_last", "step", "start_ns", "end_ns", "line", "source_id",
)  # fmt: skip

_NOT_COMPARABLE = [KIND["send_recv"], KIND["gather"], KIND["scatter"]]
"""Kernels of grouped sends and receives: which messages they carry, only a log says."""


def operations(
    logged: pl.LazyFrame,
    comm_map: pl.DataFrame,
    job_comms: pl.DataFrame,
    collectives: pl.DataFrame,
    matches: pl.DataFrame,
    groups: pl.DataFrame,
) -> tuple[pl.DataFrame, list[Notice]]:
    """OPERATIONS, and what could not be told.

    `logged` is the table `logged_collectives` (with `ts_ns` on the aligned clock); `comm_map` and `job_comms` come from
    `job_communicators`; the others are the aligned tables of those names. Memory grows with the longest log of each
    communicator and with all sends and receives, not with the collectives of all ranks. Messages of a rank to itself are
    left out.
    """
    traced = traced_operations(collectives, matches)
    exchange = set(traced.filter(pl.col("kind") == ALL_TO_ALL)["group_id"].drop_nulls().to_list())
    could = _members(job_comms, {}, groups)
    lines = read_logged(logged, comm_map, job_comms, {k for k, m in could.items() if exchange & set(m.candidates)})
    members = _members(job_comms, lines.ranks, groups)
    joined = join_collectives(lines, traced, members)
    coalesced(lines, traced, joined, members)
    messages = _messages(lines, job_comms)
    message_of = join_messages(messages, traced)
    left, incomparable = _left(traced, joined, message_of, messages, groups)
    parts = [_from_collectives(lines, joined, traced, job_comms), _from_messages(lines, messages, message_of, traced), _from_traces(left)]
    return _finished(pl.concat(parts), job_comms, groups), _notices(lines, joined, incomparable)


def _members(job_comms: pl.DataFrame, seen: Mapping[int, set[int]], groups: pl.DataFrame) -> dict[int, Members]:
    """Members of each communicator, and the groups that it can be: its own, else those that contradict nothing it says."""
    sets = {g: tuple(sorted(r)) for g, r in groups.select("group_id", "ranks").iter_rows() if r}
    by_size: dict[int, list[int]] = {}
    for g, ranks in sorted(sets.items()):
        by_size.setdefault(len(ranks), []).append(g)
    out = {}
    for key, group, size, ranks in job_comms.select("comm_key", "group_id", "size", "ranks").iter_rows():
        places = tuple(ranks or ())
        logged = frozenset(seen.get(key, ()))
        open_places = None in places or not places
        fits = [g for g in by_size.get(size, ()) if open_places and logged <= set(sets[g]) and all(r is None or sets[g][p] == r for p, r in enumerate(places))]
        out[key] = Members(places, logged, group, (group,) if group is not None else tuple(fits))
    return out


def _messages(lines: LoggedOperations, job_comms: pl.DataFrame) -> pl.DataFrame:
    """The messages that logs state, with global ranks."""
    places = job_comms.select("comm_key", pl.col("ranks").alias("rank"), pl.int_ranges(0, pl.col("ranks").list.len()).alias("place")).explode("rank", "place")
    places = places.select("comm_key", pl.col("rank").cast(pl.Int32), pl.col("place").cast(pl.Int32))
    out = lines.p2p
    for end in ("src", "dst"):
        named = places.rename({"rank": f"{end}_rank", "place": f"{end}_place"})
        out = out.with_columns(pl.col(f"{end}_place").cast(pl.Int32)).join(
            named, on=["comm_key", f"{end}_place"], how="left", maintain_order="left", validate="m:1"
        )
    return out


def _left(traced: pl.DataFrame, joined: Joined, message_of: Int, messages: pl.DataFrame, groups: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Traced rows that no log has; without those whose messages a log names and the trace does not; and how many these are."""
    used = np.zeros(traced.height, dtype=np.bool_)
    used[list(joined.used)] = True
    used[message_of[message_of >= 0]] = True
    left = traced.filter(~pl.Series(used))
    open_messages = messages.filter(pl.Series(message_of < 0)).select("src_rank", "dst_rank").drop_nulls().unique()
    pairs = set(open_messages.iter_rows())
    ends = {r for pair in pairs for r in pair}
    covered = {g for g, ranks in groups.select("group_id", "ranks").iter_rows() if ranks and any(s in ranks and d in ranks for s, d in pairs)}
    named = pl.col("group_id").is_in(sorted(covered)) | (pl.col("group_id").is_null() & ((pl.col("lane") // 2**32).is_in(sorted(ends))))
    drop = pl.col("joins") & ~pl.col("paired_ends") & pl.col("kind").is_in(_NOT_COMPARABLE) & named
    kept = left.filter(~drop.fill_null(False))
    return kept, left.height - kept.height


def _from_collectives(lines: LoggedOperations, joined: Joined, traced: pl.DataFrame, job_comms: pl.DataFrame) -> pl.DataFrame:
    lists = [p for _, p in sorted(joined.logged.items())]
    at = np.concatenate(lists) if lists else np.empty(0, dtype=np.int64)
    details = lines.rows[lines.details[at]].select("algorithm", "protocol", "channel_first", "channel_last")
    times = lines.rows[lines.times[at]].select("ts_ns", "dur_ns")
    ranks = job_comms.select("comm_key", "ranks")
    rows = lines.rows[at].join(ranks, on="comm_key", how="left", maintain_order="left", validate="m:1")
    root = pl.col("ranks").list.get(pl.col("root"), null_on_oob=True)
    return _logged_rows(
        rows.with_columns(
            pl.Series("at", joined.traced_of[at]),
            pl.Series("bytes", lines.sizes[at]),
            pl.lit(None, pl.Int32).alias("src_rank"),
            pl.lit(None, pl.Int32).alias("dst_rank"),
            pl.when(pl.col("kind").is_in(_ROOTED) & (pl.col("root") >= 0)).then(root).alias("root"),
            *details.get_columns(),
            *times.get_columns(),
        ),
        traced,
    )


def _from_messages(lines: LoggedOperations, messages: pl.DataFrame, message_of: Int, traced: pl.DataFrame) -> pl.DataFrame:
    rows = lines.rows[messages["position"].to_numpy()].with_columns(
        *messages.select("src_rank", "dst_rank").get_columns(),
        messages["size"].alias("bytes"),
        pl.lit(None, pl.Int32).alias("root"),
        pl.lit(KIND["send_recv"], pl.Int64).alias("kind"),
        pl.Series("at", message_of),
    )
    return _logged_rows(rows, traced)


def _logged_rows(rows: pl.DataFrame, traced: pl.DataFrame) -> pl.DataFrame:
    """`rows` of a log, with `at` (a row of `traced`, or -1) and `bytes` (-1: unknown)."""
    columns = ("group_id", "match_id", "kind", "bytes", "step", "start_ns", "end_ns", "name")
    theirs = traced.with_row_index("at").select(pl.col("at").cast(pl.Int64), *(pl.col(c).alias(f"t_{c}") for c in columns))
    rows = rows.join(theirs, on="at", how="left", maintain_order="left", validate="m:1")
    paired = pl.col("at") >= 0
    own = pl.when(pl.col("bytes") >= 0).then("bytes")
    # Where one kernel ran several operations, each has the size of its own line.
    size = pl.when(paired & (pl.len().over("at") > 1)).then(own).otherwise(pl.coalesce("t_bytes", own))
    # A kernel of grouped sends and receives says less than the lines.
    kind = pl.when(paired & ~pl.col("t_kind").is_in([KIND["send_recv"], KIND["unknown"]])).then("t_kind").otherwise("kind")
    return _with_algorithm(rows, pl.col("t_name")).select(
        "comm_key",
        pl.col("t_group_id").alias("group_id"),
        pl.when(paired).then(pl.lit("both")).otherwise(pl.lit("log")).alias("origin"),
        pl.col("t_match_id").alias("match_id"),
        kind.alias("kind"),
        size.alias("bytes"),
        "root",
        "src_rank",
        "dst_rank",
        "algorithm",
        "protocol",
        "algorithm_origin",
        "channel_first",
        "channel_last",
        pl.col("t_step").alias("step"),
        pl.when(paired).then("t_start_ns").otherwise("ts_ns").alias("start_ns"),
        pl.when(paired).then("t_end_ns").otherwise(pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        "line",
        "source_id",
    )


def _from_traces(rows: pl.DataFrame) -> pl.DataFrame:
    none = [pl.lit(None, OPERATIONS.polars[c]).alias(c) for c in ("comm_key", "root", "channel_first", "channel_last", "line", "source_id")]
    told = _with_algorithm(rows.with_columns(pl.lit(None, pl.String).alias("algorithm"), pl.lit(None, pl.String).alias("protocol")), pl.col("name"))
    return told.with_columns(pl.lit("trace").alias("origin"), *none).select(_PART)


def _with_algorithm(rows: pl.DataFrame, name: pl.Expr) -> pl.DataFrame:
    """Algorithm and protocol as the log has them, else as the kernel's name hints."""
    rows = rows.with_columns(name.alias("_name"))
    rows = rows.join(hints(rows["_name"].unique().to_list()), left_on="_name", right_on="name", how="left", maintain_order="left", validate="m:1")
    stated, hinted = pl.col("algorithm").is_not_null(), pl.col("hint_algorithm").is_not_null()
    return rows.with_columns(
        pl.when(stated).then(pl.col("algorithm").cast(pl.String)).otherwise("hint_algorithm").alias("algorithm"),
        pl.when(stated).then(pl.col("protocol").cast(pl.String)).otherwise("hint_protocol").alias("protocol"),
        pl.when(stated).then(pl.lit("log")).when(hinted).then(pl.lit("name")).alias("algorithm_origin"),
    )


def _finished(parts: pl.DataFrame, job_comms: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    comms = job_comms.select("comm_key", pl.col("group_id").alias("c_group_id"), pl.col("size").alias("c_size"))
    sizes = groups.select("group_id", pl.coalesce("size", pl.col("ranks").list.len().cast(pl.Int32)).alias("size")).unique("group_id")
    rows = parts.join(comms, on="comm_key", how="left", maintain_order="left", validate="m:1")
    rows = rows.with_columns(pl.coalesce("group_id", "c_group_id").alias("group_id"))
    rows = rows.join(sizes, on="group_id", how="left", maintain_order="left", validate="m:1")
    rows = rows.with_columns(
        pl.coalesce("c_size", "size").alias("size"),
        pl.col("kind").replace_strict(dict(enumerate(NAMES)), return_dtype=pl.String).alias("operation"),
    )
    rows = rows.sort("start_ns", "group_id", "comm_key", "source_id", "line", nulls_last=True, maintain_order=True)
    return OPERATIONS.conform(rows.with_row_index("operation_id").select(OPERATIONS.names))


def _notices(lines: LoggedOperations, joined: Joined, incomparable: int) -> list[Notice]:
    out = []
    if lines.without_comm:
        text = "logged operations whose communicator is not known are left out"
        out.append(Notice("operation-without-communicator", "warning", text, "log from the start of the job, with NCCL_DEBUG=INFO", lines.without_comm))
    if incomparable:
        text = "kernels of grouped sends and receives are left out: the log names the messages, and which kernel carried which is not stated"
        out.append(Notice("send-recv-not-comparable", "info", text, "record traces with metadata of the process groups", incomparable))
    if joined.absorbed:
        text = "lists of operations are copies of another of the same communicator, and counted once"
        out.append(Notice("copied-operations", "info", text, "", joined.absorbed))
    if lines.contradicted:
        text = "communicators of which a recorder knows more operations than the log that is used"
        out.append(Notice("shorter-log", "info", text, "", len(lines.contradicted)))
    if lines.disjoint:
        text = "communicators whose processes log no common operation: only the longest of their logs is counted"
        out.append(Notice("logs-without-overlap", "warning", text, "log from the start of the job to its end", len(lines.disjoint)))
    return out
