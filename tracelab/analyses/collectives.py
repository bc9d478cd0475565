"""What the communication operations cost: by class, and the costliest single ones."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.tables import Column, TableSpec
from tracelab.units import format_bytes, format_duration

__all__ = ["ANALYSIS", "COLLECTIVE_CLASSES", "COSTLIEST", "Params"]

_CLASS = (
    Column("group", "string", "name of the group", nullable=False),
    Column("operation", "string", "operation", nullable=False),
    Column("bytes", "int64", "size of the operation: the full tensor for all_gather and reduce_scatter, else what one rank contributes", "B"),
)
COLLECTIVE_CLASSES = TableSpec(
    "collective_classes",
    "Communication by group, operation and size",
    (
        *_CLASS,
        Column("count", "int64", "operations of the job", nullable=False),
        Column("transfer_total_ns", "int64", "from the last arrival to the median end, summed over operations with all members seen", "ns", nullable=False),
        Column("transfer_median_ns", "int64", "median of it", "ns"),
        Column("transfer_p95_ns", "int64", "95th percentile of it", "ns"),
        Column("wait_total_ns", "int64", "waits for the last arrival, summed over ranks", "ns", nullable=False),
        Column("busbw_median_bytes_per_s", "float64", "median bus bandwidth over the transfer alone (nccl-tests definition)", "B/s"),
    ),
)
COSTLIEST = TableSpec(
    "costliest",
    "The operations that took longest, by transfer and longest wait",
    (
        Column("match_id", "int64", "operation", nullable=False, key=True),
        *_CLASS,
        Column("step", "int32", "step of the earliest part"),
        Column("start_ns", "int64", "first arrival", "ns", nullable=False),
        Column("transfer_ns", "int64", "from the last arrival to the median end", "ns"),
        Column("wait_total_ns", "int64", "waits for the last arrival, summed over ranks", "ns", nullable=False),
        Column("last_rank", "int32", "rank that arrived last", nullable=False),
        Column("last_by_ns", "int64", "time between the last arrival and the one before", "ns"),
        Column("busbw_bytes_per_s", "float64", "bus bandwidth over the transfer alone", "B/s"),
    ),
)


@dataclass(frozen=True)
class Params:
    """`costliest`: rows of that table; more than a page helps nobody."""

    costliest: int = 50


def _run(tables: Tables, params: Params) -> AnalysisResult:
    groups = dict(tables["groups"].select("group_id", "name").collect().iter_rows())
    waits = tables["arrivals"].group_by("match_id").agg(pl.col("wait_ns").sum().alias("wait_total_ns"), pl.col("wait_ns").max().alias("longest"))
    name = pl.col("group_id").replace_strict(groups, default="unknown", return_dtype=pl.String)
    matches = tables["matches"].join(waits, on="match_id", how="left").collect(engine="streaming")
    matches = matches.with_columns(name.alias("group"), pl.col("operation").cast(pl.String), pl.col("wait_total_ns", "longest").fill_null(0))
    classes = matches.group_by("group", "operation", "bytes").agg(
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("transfer_ns").sum().alias("transfer_total_ns"),
        pl.col("transfer_ns").median().round().cast(pl.Int64).alias("transfer_median_ns"),
        pl.col("transfer_ns").quantile(0.95).round().cast(pl.Int64).alias("transfer_p95_ns"),
        pl.col("wait_total_ns").sum(),
        pl.col("busbw_bytes_per_s").median().alias("busbw_median_bytes_per_s"),
    )
    classes = classes.sort(["transfer_total_ns", "wait_total_ns", "group", "operation", "bytes"], descending=[True, True, False, False, False])
    cost = pl.col("transfer_ns").fill_null(0) + pl.col("longest")
    top = (
        matches.with_columns(cost.alias("cost"), pl.col("first_start_ns").alias("start_ns"))
        .sort(["cost", "match_id"], descending=[True, False])
        .head(params.costliest)
    )
    frames = {"collective_classes": classes.select(COLLECTIVE_CLASSES.names), "costliest": top.select(COSTLIEST.names)}
    first = classes.row(0, named=True)
    size = "" if first["bytes"] is None else f" of {format_bytes(first['bytes'])}"
    if not matches["transfer_ns"].drop_nulls().len():
        answer = f"{matches.height} operations in {classes.height} classes; of none all members were seen on one clock, so that transfer times are unknown."
        return AnalysisResult(answer, frames, degraded="of no operation all members were seen on one clock: no transfer time or bandwidth is given")
    answer = (
        f"{matches.height} operations in {classes.height} classes; the costliest class is {first['operation']}{size} in {first['group']}: "
        f"{first['count']} times, {format_duration(first['transfer_total_ns'])} of transfer."
    )
    partial = matches["transfer_ns"].null_count()
    degraded = f"of {partial} operations not all members were seen on one clock: no transfer time or bandwidth is given for them" if partial else ""
    return AnalysisResult(answer, frames, degraded=degraded)


ANALYSIS = Analysis(
    "collectives",
    "Communication operations",
    "Which operations cost most, and at which bandwidth do they run?",
    ("matches",),
    Params,
    (COLLECTIVE_CLASSES, COSTLIEST),
    _run,
    {"matches": "no communication operation of any group could be matched; collect traces of all ranks of a group over the same steps"},
)
