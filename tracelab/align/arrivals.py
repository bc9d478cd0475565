"""What a match says: who came last, how long each rank waited, how long the bytes took, at which rate."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracelab.align.clocks import SAME_HOST_NS
from tracelab.tables import ARRIVALS, MATCHES
from tracelab.units import NS_PER_S

__all__ = ["bus_factor", "matches_and_arrivals"]

_FULL = ("all_gather", "reduce_scatter")


def bus_factor(operation: str, n: str) -> pl.Expr:
    """Bus bandwidth per algorithm bandwidth for the columns `operation` and `n` (ranks), as nccl-tests' PERFORMANCE.md defines it."""
    op, ranks = pl.col(operation).cast(pl.String), pl.col(n)
    return (
        pl.when(op == "all_reduce")
        .then(2 * (ranks - 1) / ranks)
        .when(op.is_in(["all_gather", "reduce_scatter", "all_to_all"]))
        .then((ranks - 1) / ranks)
        .otherwise(pl.when(ranks.is_not_null()).then(1.0))
    )


def matches_and_arrivals(
    rows: pl.DataFrame, rungs: list[str], margins: list[float | None], groups: pl.DataFrame, clocks: pl.DataFrame, hosts: Mapping[int, str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """MATCHES and ARRIVALS from the aligned `rows` with match_id. wait = min(length, last arrival - arrival), Scalasca's wait at N×N.

    Of a match whose ranks stand on clocks that could not be aligned with each other neither waits nor transfer are known:
    it has no arrivals, and what compares its ranks is null.
    """
    used = rows.filter(pl.col("match_id") >= 0)
    if not used.height:
        return MATCHES.empty(), ARRIVALS.empty()
    used = used.sort("match_id", "start_ns", "rank").with_columns(
        pl.col("start_ns").max().over("match_id").alias("last"), pl.col("start_ns").min().over("match_id").alias("first")
    )
    used = used.with_columns((_clock(clocks, hosts).n_unique() > 1).over("match_id").alias("apart"))
    arrivals = (
        used.filter(~pl.col("apart"))
        .with_columns(
            pl.min_horizontal(pl.col("end_ns") - pl.col("start_ns"), (pl.col("last") - pl.col("start_ns")).clip(lower_bound=0))
            .clip(lower_bound=0)
            .alias("wait_ns"),
            (pl.col("start_ns") - pl.col("first")).alias("late_ns"),
        )
        .select(ARRIVALS.names)
    )
    known = pl.DataFrame(
        {"match_id": range(len(rungs)), "rung": rungs, "margin": margins}, schema={"match_id": pl.Int64, "rung": pl.String, "margin": pl.Float64}
    )
    matches = _summary(used).join(known, on="match_id").join(groups.select("group_id", "size"), on="group_id", how="left", maintain_order="left")
    matches = matches.with_columns(pl.when(pl.col("operation") == "send_recv").then(pl.lit(2, pl.Int32)).otherwise(pl.col("size")).alias("members"))
    matches = matches.with_columns(pl.when(~pl.col("apart")).then(pl.col("last_by_ns")).alias("last_by_ns"))
    full = (pl.col("present") == pl.col("members")).fill_null(False) & ~pl.col("apart")
    transfer = (pl.col("end_ns") - pl.col("last_start_ns")).clip(lower_bound=0)
    matches = matches.with_columns(pl.when(full).then(transfer).alias("transfer_ns"), _certain(matches, clocks, hosts))
    rate = pl.when((pl.col("transfer_ns") > 0) & (pl.col("bytes") > 0)).then(pl.col("bytes") * float(NS_PER_S) / pl.col("transfer_ns"))
    matches = matches.with_columns(rate.alias("algbw_bytes_per_s"))
    matches = matches.with_columns((pl.col("algbw_bytes_per_s") * bus_factor("operation", "members")).alias("busbw_bytes_per_s"))
    return MATCHES.conform(matches.select(MATCHES.names)), ARRIVALS.conform(arrivals)


def _summary(used: pl.DataFrame) -> pl.DataFrame:
    p2p = pl.col("operation").is_in(["send", "recv"])
    size = pl.when(pl.col("operation").is_in(_FULL)).then(pl.max_horizontal("in_bytes", "out_bytes")).otherwise(pl.coalesce("in_bytes", "out_bytes"))
    end = pl.col("end_ns") - pl.col("end_ns").first()
    return (
        used.with_columns(size.alias("_size"), pl.when(p2p).then(pl.lit("send_recv")).otherwise(pl.col("operation")).alias("operation"))
        .group_by("match_id", maintain_order=True)
        .agg(
            pl.col("group_id").first(),
            pl.col("apart").first(),
            pl.col("operation").first(),
            pl.len().cast(pl.Int32).alias("present"),
            pl.col("step").first(),
            pl.col("_size").max().alias("bytes"),
            pl.col("start_ns").first().alias("first_start_ns"),
            pl.col("start_ns").last().alias("last_start_ns"),
            pl.col("rank").last().alias("last_rank"),
            pl.col("rank").get(-2, null_on_oob=True).alias("second_rank"),
            (pl.col("start_ns").last() - pl.col("start_ns").get(-2, null_on_oob=True)).alias("last_by_ns"),
            (pl.col("end_ns").first() + end.median().round().cast(pl.Int64)).alias("end_ns"),
            (pl.col("end_ns").max() - pl.col("end_ns").min()).alias("end_spread_ns"),
        )
    )


def _clock(clocks: pl.DataFrame, hosts: Mapping[int, str]) -> pl.Expr:
    """The clock of the column `rank`: its host's own where that could not be aligned, else the common one."""
    alone = set(clocks.filter(pl.col("method") == "none")["host"].to_list())
    return pl.col("rank").replace_strict({r: h for r, h in hosts.items() if h in alone}, default="", return_dtype=pl.String)


def _certain(matches: pl.DataFrame, clocks: pl.DataFrame, hosts: Mapping[int, str]) -> pl.Expr:
    """Whether the last arrival is later than the one before by more than three times the uncertainty between the two."""
    unsure = dict(zip(clocks["host"].to_list(), clocks["uncertainty_ns"].to_list(), strict=True))
    limits = []
    for last, second, by in matches.select("last_rank", "second_rank", "last_by_ns").iter_rows():
        if by is None:
            limits.append(False)
            continue
        a, b = hosts.get(last, ""), hosts.get(second, "")
        between = SAME_HOST_NS if a == b else None if unsure.get(a) is None or unsure.get(b) is None else max(unsure[a], unsure[b], SAME_HOST_NS)
        limits.append(between is not None and by > 3 * between)
    return pl.lit(pl.Series("last_certain", limits, pl.Boolean)).alias("last_certain")
