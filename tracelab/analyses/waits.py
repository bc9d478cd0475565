"""Who arrives last at the collectives, and who waits."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.common import host_of
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.tables import Column, TableSpec
from tracelab.units import format_duration, format_share

__all__ = ["ANALYSIS", "ARRIVALS_BY_RANK", "RANK_STEP_WAITS", "Params"]

_TIMES = (
    Column("wait_ns", "int64", "waits for the last arrival (Scalasca's wait at N×N)", "ns", nullable=False),
    Column("late_ns", "int64", "arrivals after the first one", "ns", nullable=False),
)
_RANK = Column("rank", "int32", "global rank", nullable=False, key=True)
ARRIVALS_BY_RANK = TableSpec(
    "arrivals_by_rank",
    "Arrivals per rank, over all operations with at least two ranks seen",
    (
        _RANK,
        Column("host", "string", "host", nullable=False),
        Column("operations", "int64", "matched operations that the rank took part in", nullable=False),
        Column("last_count", "int64", "of them, with this rank as the last to arrive", nullable=False),
        Column("last_certain_count", "int64", "of those, by more than three times the clock uncertainty", nullable=False),
        Column("last_share", "float64", "last_count / operations", nullable=False),
        *_TIMES,
    ),
    ("rank",),
)
RANK_STEP_WAITS = TableSpec(
    "rank_step_waits",
    "Waits and lateness per rank and step",
    (_RANK, Column("step", "int32", "step number", nullable=False, key=True), *_TIMES),
    ("rank", "step"),
)


@dataclass(frozen=True)
class Params:
    """No thresholds: being last is no fault in itself."""


def _run(tables: Tables, params: Params) -> AnalysisResult:
    matches = tables["matches"].filter(pl.col("present") >= 2).select("match_id", "step", "last_rank", "last_certain")
    rows = tables["arrivals"].select("match_id", "rank", "wait_ns", "late_ns").join(matches, on="match_id").collect(engine="streaming")
    across = len(set(matches.collect()["match_id"]) - set(rows["match_id"]))
    degraded = f"{across} operations across hosts whose clocks could not be aligned are left out" if across else ""
    hosts = host_of(tables)
    last = pl.col("rank") == pl.col("last_rank")
    by_rank = rows.group_by("rank").agg(
        pl.len().cast(pl.Int64).alias("operations"),
        last.sum().cast(pl.Int64).alias("last_count"),
        (last & pl.col("last_certain")).sum().cast(pl.Int64).alias("last_certain_count"),
        last.mean().alias("last_share"),
        pl.col("wait_ns").sum(),
        pl.col("late_ns").sum(),
    )
    by_rank = by_rank.with_columns(pl.col("rank").replace_strict(hosts, default="", return_dtype=pl.String).alias("host")).sort("rank")
    by_step = rows.filter(pl.col("step").is_not_null()).group_by("rank", "step").agg(pl.col("wait_ns").sum(), pl.col("late_ns").sum())
    frames = {"arrivals_by_rank": by_rank.select(ARRIVALS_BY_RANK.names), "rank_step_waits": by_step.select(RANK_STEP_WAITS.names)}
    if not by_rank.height:
        return AnalysisResult("No operation was seen on two ranks whose clocks can be compared.", frames, degraded=degraded)
    top = by_rank.sort(["last_certain_count", "rank"], descending=[True, False]).row(0, named=True)
    certain = int(by_rank["last_certain_count"].sum())
    total = rows["match_id"].n_unique()
    if not certain:
        return AnalysisResult(f"In none of {total} operations the last arrival can be told from the one before.", frames, degraded=degraded)
    answer = (
        f"Rank {top['rank']} ({top['host']}) is certainly last in {top['last_certain_count']} of {total} operations "
        f"({format_share(top['last_certain_count'] / total)}); "
        f"all ranks together waited {format_duration(float(by_rank['wait_ns'].sum()))}."
    )
    return AnalysisResult(answer, frames, degraded=degraded)


ANALYSIS = Analysis(
    "waits",
    "Waits and late arrivals",
    "Who waits for whom?",
    ("matches", "arrivals"),
    Params,
    (ARRIVALS_BY_RANK, RANK_STEP_WAITS),
    _run,
    {"matches": "no communication operation of any group could be matched; collect traces of all ranks of a group over the same steps"},
)
