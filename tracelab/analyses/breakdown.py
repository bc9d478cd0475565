"""Where the step time goes: compute, memory operations, transfers and waits that nothing hides, nothing at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracelab.analyses.common import clamped_share, host_of, resampled
from tracelab.analyses.partition import PARTS, Partition, partition_of
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import Attribution, Cause, RankTimes
from tracelab.tables import Column, TableSpec
from tracelab.units import NS_PER_S, format_duration, format_share

__all__ = ["ANALYSIS", "RANK_STEP_TIMES", "RANK_TIMES", "Params", "attribution_of"]

_TIMES = (
    Column("compute_ns", "int64", "a compute kernel runs; without GPU work: a host operator outside communication", "ns", nullable=False),
    Column("memcpy_ns", "int64", "else a copy or a memory set", "ns", nullable=False),
    Column("exposed_transfer_ns", "int64", "else a collective that all ranks have entered", "ns", nullable=False),
    Column("exposed_wait_ns", "int64", "else a collective that a peer has not entered yet", "ns", nullable=False),
    Column("idle_ns", "int64", "nothing of these", "ns", nullable=False),
    Column("dataloader_ns", "int64", "the host waits for the next batch (overlaps the others)", "ns", nullable=False),
)
_RANK = Column("rank", "int32", "global rank", nullable=False, key=True)

RANK_TIMES = TableSpec(
    "rank_times",
    "Where each rank's time went, over all analysed steps",
    (
        _RANK,
        Column("host", "string", "host", nullable=False),
        Column("steps", "int32", "analysed steps of the rank", nullable=False),
        Column("wall_ns", "int64", "length of those steps; the next five add up to it", "ns", nullable=False),
        *_TIMES,
    ),
    ("rank",),
)
RANK_STEP_TIMES = TableSpec(
    "rank_step_times",
    "Where each rank's time went, step by step",
    (_RANK, Column("step", "int32", "step number", nullable=False, key=True), *_TIMES),
    ("rank", "step"),
)
_CAUSES = ("compute", "memcpy", "exposed_transfer", "exposed_wait", "idle")
_WORDS = {
    "compute": "compute",
    "memcpy": "memory operations",
    "exposed_transfer": "transfers that nothing hides",
    "exposed_wait": "waiting for peers",
    "idle": "idle GPUs",
}


@dataclass(frozen=True)
class Params:
    """`resamples` of the steps for the range of each cause (1,000 fix a 90 % range to a few percent of itself); `seed` makes them repeat."""

    resamples: int = 1_000
    seed: int = 1


def attribution_of(part: Partition, params: Params) -> Attribution | None:
    """Mean over steps of the mean over ranks, per cause, in seconds; with the unattributed rest it sums to the mean step.

    `low` and `high` are the 5th and 95th percentile of that mean over resampled steps (bootstrap).
    """
    if not part.rows.height:
        return None
    per_step = part.rows.group_by("step").agg(pl.col(c).mean() for c in PARTS).sort("step")
    values = per_step.select(PARTS).to_numpy() / NS_PER_S
    # The parts of a rank add up to its step; the mean over ranks is the job's step where all are on one clock.
    total = float(values.sum(axis=1).mean())
    low, high = np.quantile(resampled(values, params.resamples, params.seed), (0.05, 0.95), axis=0)
    means = values.mean(axis=0)
    causes = [Cause(k, float(means[n]), float(means[n] / total) if total else 0.0, float(low[n]), float(high[n])) for n, k in enumerate(_CAUSES)]
    return Attribution("s", total, causes, total - sum(c.seconds for c in causes), _per_rank(part.rows))


def _per_rank(rows: pl.DataFrame) -> dict[str, RankTimes]:
    sums = rows.group_by("rank").agg(pl.col(c).sum() for c in (*PARTS, "dataloader_ns")).sort("rank")
    return {str(r[0]): RankTimes(*(v / NS_PER_S for v in r[1:])) for r in sums.iter_rows()}


def _run(tables: Tables, params: Params) -> AnalysisResult:
    part = partition_of(tables)
    hosts = host_of(tables)
    sums = part.rows.group_by("rank").agg(pl.len().cast(pl.Int32).alias("steps"), *(pl.col(c).sum() for c in (*PARTS, "dataloader_ns")))
    host = pl.col("rank").replace_strict(hosts, default="", return_dtype=pl.String)
    frames = {
        "rank_times": sums.with_columns(host.alias("host"), pl.sum_horizontal(PARTS).alias("wall_ns")).select(RANK_TIMES.names),
        "rank_step_times": part.rows.select(RANK_STEP_TIMES.names),
    }
    attribution = attribution_of(part, params)
    if attribution is None:
        return AnalysisResult("No step of any rank could be divided.", frames)
    order = sorted(attribution.causes, key=lambda c: -c.seconds)
    told = [f"{format_share(c.share)} {_WORDS[c.kind]}" for c in order if c.share >= 0.005]
    answer = f"Of a step of {format_duration(attribution.per_step_total * NS_PER_S)}, on average over ranks: {', '.join(told)}."
    return AnalysisResult(answer, frames, attribution=attribution, degraded=_degraded(tables, part))


def _degraded(tables: Tables, part: Partition) -> str:
    reasons = []
    if part.unmatched:
        reasons.append(
            f"{part.unmatched} communication operations could not be matched with those of other ranks: all their time counts as transfer, none as wait"
        )
    seen, members = pl.col("present"), pl.col("members")
    partial = int(tables["matches"].filter(members.is_null() | (seen < members)).select(pl.len()).collect().item())
    if part.apart:
        reasons.append(
            f"the clocks of {', '.join(part.apart[:5])} could not be aligned with the others: steps are those of each host's own clock, "
            f"and the waits of {part.across} operations across them are unknown: their time counts as transfer"
        )
    silent = sorted(set(host_of(tables)) - set(part.rows["rank"].to_list()))
    if silent:
        reasons.append(f"of {len(silent)} ranks no work lies in a step of the job: they are left out")
    cut = clamped_share(tables)
    if cut >= 0.001:
        reasons.append(f"{format_share(cut)} of the GPU's spans have a start or length that the source cut: they are left out")
    if partial:
        reasons.append(f"of {partial} operations not all members were seen: their waits are lower bounds")
    if part.on_host:
        reasons.append(f"{len(part.on_host)} ranks without GPU work: their host operators outside communication count as compute")
    return "; ".join(reasons)


ANALYSIS = Analysis(
    "breakdown",
    "Where the time goes",
    "What does each rank do during a step?",
    ("steps",),
    Params,
    (RANK_TIMES, RANK_STEP_TIMES),
    _run,
    {"steps": "no step and no work was recorded; profile with CPU and CUDA activities"},
)
