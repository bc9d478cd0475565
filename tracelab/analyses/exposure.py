"""Time that all ranks lose alike: transfers that compute could hide, GPUs that wait for launches, loaders that are too slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import unclamped
from tracelab.analyses.common import FEW_STEPS, batches, host_of, host_work, named, resampled, severity, world_of
from tracelab.analyses.evidence import gap_evidence
from tracelab.analyses.partition import LOADER, PARTS, Partition, partition_of
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import Evidence, Finding, FindingKind, NotObservable, finding_id
from tracelab.tables import Column, TableSpec
from tracelab.units import NS_PER_S, format_duration, format_share

__all__ = ["ANALYSIS", "EXPOSURE_BY_STEP", "Params"]

Float = NDArray[np.float64]

EXPOSURE_BY_STEP = TableSpec(
    "exposure_by_step",
    "What all ranks lose alike in each step: the least over ranks",
    (
        Column("step", "int32", "step number", nullable=False, key=True),
        Column("exposed_transfer_ns", "int64", "transfers that nothing hides", "ns", nullable=False),
        Column("hideable_ns", "int64", "of them, of parameters and gradients, as much as there is compute without communication", "ns", nullable=False),
        Column("starved_ns", "int64", "idle because work arrived as soon as it was launched, but too late", "ns", nullable=False),
        Column("loader_ns", "int64", "idle while the host waits for the loader", "ns", nullable=False),
    ),
    ("step",),
)


@dataclass(frozen=True)
class Params:
    """Shares of the run below which there is no finding.

    `exposed_share`: transfers (5 %: the last bucket of gradients can never be hidden). `starved_share`: idle for launches
    (5 %: every step starts with an empty queue). `loader_share`: idle for the loader (2 %: the first batch of a step is
    always fetched in the open). `queue_ns`: work that starts within this of its launch found an empty queue (20 µs: a
    launch takes 3 to 10). `starved_ranks`: share of ranks that must be starved for it to be the program and not a host.
    """

    exposed_share: float = 0.05
    starved_share: float = 0.05
    loader_share: float = 0.02
    queue_ns: int = 20_000
    starved_ranks: float = 0.75
    resamples: int = 1_000
    seed: int = 1


@dataclass(frozen=True)
class _Loss:
    """Loss per step (ns) of one kind, and where its clearest case lies."""

    kind: FindingKind
    per_step: Float
    summary: str
    next_step: str
    evidence: Sequence[Evidence]


def _run(tables: Tables, params: Params) -> AnalysisResult:
    part = partition_of(tables)
    part = replace(part, rows=part.rows.filter(~pl.col("rank").is_in(part.on_host)))
    if not part.rows.height:
        return AnalysisResult("There is no GPU work to expose or to starve.", {}, degraded="no GPU work")
    run_ns = float((part.job["end_ns"] - part.job["start_ns"]).sum())
    idle = float(part.rows.select((pl.col("idle_ns") - pl.col("idle_loader_ns")).mean()).item()) / max(run_ns / part.job.height, 1.0)
    starved = _starved(tables, part, params) if idle >= params.starved_share else _no_rows("starved_ns")
    rows = part.rows.join(starved, on=["rank", "step"], how="left").with_columns(pl.col("starved_ns").fill_null(0))
    rows = rows.with_columns(pl.min_horizontal("deferrable_ns", "alone_ns").alias("hideable_ns"))
    enough = pl.col("starved_ns").quantile(1 - params.starved_ranks, "lower").cast(pl.Int64).alias("starved_ns")
    least = rows.group_by("step").agg(pl.col("exposed_transfer_ns", "hideable_ns").min(), enough, pl.col("idle_loader_ns").min().alias("loader_ns"))
    least = part.job.select("step").join(least, on="step", how="left", maintain_order="left").fill_null(0)
    losses = _losses(tables, part, least, run_ns, params)
    findings = tuple(_finding(tables, part, x, run_ns, params) for x in losses)
    answer = " ".join(f.summary for f in findings) or "Nothing that all ranks lose alike stands out."
    unsure = float(rows["unsure_ns"].sum()) / max(float(rows.select(pl.sum_horizontal(PARTS).sum()).item()), 1.0)
    dark = (_UNSURE,) if unsure >= params.exposed_share else ()
    return AnalysisResult(answer, {"exposure_by_step": least.select(EXPOSURE_BY_STEP.names)}, findings, degraded=_degraded(part), not_observable=dark)


def _degraded(part: Partition) -> str:
    reasons = []
    if part.on_host:
        reasons.append(f"without GPU work and therefore left out: {named(part.on_host)}")
    if part.apart:
        reasons.append(f"clocks not aligned, so that waits across these hosts count as transfer: {', '.join(part.apart[:5])}")
    return "; ".join(reasons)


def _no_rows(column: str) -> pl.DataFrame:
    return pl.DataFrame(schema={"rank": pl.Int32, "step": pl.Int32, column: pl.Int64})


_UNSURE = NotObservable(
    "Are exposed collectives slow, or do they wait for a rank?", "not all members of their groups were seen", "traces of all ranks over the same steps"
)


def _starved(tables: Tables, part: Partition, params: Params) -> pl.DataFrame:
    """Idle time before work that started as soon as it was launched, per rank and step; without the loader's.

    The queue was empty: the host launches more slowly than the GPU works. Idle before work that had been launched long
    ago has another reason (a dependency), and communication that waits is no idle time.
    """
    calls = host_work(tables).filter(pl.col("kind").is_in(["runtime", "driver"]) & pl.col("correlation").is_not_null())
    calls = calls.select("source_id", "part", "correlation", pl.col("ts_ns").alias("launch"), (pl.col("ts_ns") + pl.col("dur_ns")).alias("launched"))
    work = unclamped(tables["gpu_spans"]).filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    work = work.select("rank", "source_id", "part", "correlation", "ts_ns", "dur_ns")
    frames = []
    joined = work.join(calls.unique(["source_id", "part", "correlation"]), on=["source_id", "part", "correlation"], how="left")
    for rank, part_rows in batches(joined, ("ts_ns", "dur_ns", "launch", "launched")):
        rows = part_rows.sort("ts_ns").with_columns((pl.col("ts_ns") + pl.col("dur_ns")).cum_max().shift(1).alias("before"))
        rows = rows.with_columns((pl.col("ts_ns") - pl.col("before")).alias("gap")).filter(pl.col("gap") > 0)
        prompt = (pl.col("ts_ns") - pl.max_horizontal("launch", "launched")) <= params.queue_ns
        rows = rows.filter(prompt & (pl.col("launch") > pl.col("before") - params.queue_ns)).with_columns(pl.lit(rank, pl.Int32).alias("rank"))
        windows = part.windows_of([rank]).drop("rank")
        found = rows.sort("before").join_asof(windows, left_on="before", right_on="start_ns", strategy="backward")
        frames.append(found.filter(pl.col("before") < pl.col("end_ns")).group_by("rank", "step").agg(pl.col("gap").sum().alias("starved_ns")))
    if not frames:
        return _no_rows("starved_ns")
    free = part.rows.select("rank", "step", (pl.col("idle_ns") - pl.col("idle_loader_ns")).alias("free"))
    return pl.concat(frames).join(free, on=["rank", "step"]).select("rank", "step", pl.min_horizontal("starved_ns", "free").cast(pl.Int64).alias("starved_ns"))


def _losses(tables: Tables, part: Partition, least: pl.DataFrame, run_ns: float, params: Params) -> list[_Loss]:
    hideable, starved, loader = (least[c].to_numpy().astype(np.float64) for c in ("hideable_ns", "starved_ns", "loader_ns"))
    out = []
    if hideable.sum() >= params.exposed_share * run_ns:
        worst, evidence = _widest_transfer(tables, part, int(np.argmax(hideable)))
        text = f"Transfers stand in the open on {_all(part)}, {format_duration(float(np.median(hideable)))} per step that compute could hide (most in {worst})"
        out.append(
            _Loss(
                "exposed_communication",
                hideable,
                text,
                "overlap them: smaller gradient buckets, prefetch, or start them as soon as their data are ready",
                evidence,
            )
        )
    if starved.sum() >= params.starved_share * run_ns:
        usual = format_duration(float(np.median(starved)))
        text = f"GPUs wait for launches on {_all(part)}, {usual} per step: the queue is empty and work starts as soon as it is launched"
        evidence = _longest_gap(tables, part, int(np.argmax(starved)))
        out.append(
            _Loss(
                "launch_bound",
                starved,
                text,
                "launch less often: CUDA graphs, torch.compile, fused optimizers, larger batches; and look for synchronising calls",
                evidence,
            )
        )
    if loader.sum() >= params.loader_share * run_ns:
        text = f"All ranks wait for the data loader at once, {format_duration(float(np.median(loader)))} per step"
        out.append(
            _Loss(
                "input_stall",
                loader,
                text,
                "check shared storage, and give the loader more workers and prefetching",
                _loader_call(tables, part, int(np.argmax(loader))),
            )
        )
    return out


def _finding(tables: Tables, part: Partition, x: _Loss, run_ns: float, params: Params) -> Finding:
    lost = float(x.per_step.sum())
    low, high = np.quantile(resampled(x.per_step, params.resamples, params.seed) * len(x.per_step), (0.05, 0.95))
    touched = np.flatnonzero(x.per_step > 0)
    ranks = [r for r in sorted(host_of(tables)) if r >= 0] if x.kind in ("launch_bound", "input_stall") else []
    world = world_of(tables)
    # One rank of several, or a few steps: nothing tells whether this is usual.
    enough = len(x.per_step) >= FEW_STEPS and (part.rows["rank"].n_unique() > 1 or world == 1)
    return Finding(
        id=finding_id(x.kind, ["all"]),
        kind=x.kind,
        severity=severity(lost / run_ns, enough=enough),
        summary=f"{x.summary}: {format_duration(lost)} lost, {format_share(lost / run_ns)} of the run.",
        confidence="possible" if x.kind == "exposed_communication" or not enough else "likely",
        lost_s=lost / NS_PER_S,
        lost_s_low=min(float(low), lost) / NS_PER_S,
        lost_s_high=max(float(high), lost) / NS_PER_S,
        lost_gpu_hours=lost / NS_PER_S * world / 3600,
        ranks=ranks,
        steps=[int(part.job["step"][int(n)]) for n in touched],
        start_ns=int(part.job["start_ns"][int(touched[0])]),
        end_ns=int(part.job["end_ns"][int(touched[-1])]),
        evidence=list(x.evidence),
        next_step=x.next_step,
    )


def _widest_transfer(tables: Tables, part: Partition, step: int) -> tuple[str, list[Evidence]]:
    """The group and operation with the longest transfers in that step, and its longest kernel."""
    low, high, ranks = part.job["start_ns"][step], part.job["end_ns"][step], part.on_clock(int(part.job["step"][step]))
    movers = pl.col("rank").is_in(ranks) & pl.col("operation").is_in(["all_gather", "reduce_scatter", "all_reduce"])
    rows = (
        tables["collectives"]
        .filter(movers & (pl.col("start_ns") < high) & (pl.col("end_ns") > low))
        .join(tables["arrivals"].select("op_id", "wait_ns"), on="op_id", how="left")
    )
    rows = rows.with_columns((pl.col("end_ns") - pl.col("start_ns") - pl.col("wait_ns").fill_null(0)).alias("moving"))
    found = rows.sort("moving", "op_id", descending=[True, False]).head(1).collect(engine="streaming")
    if not found.height:
        return "unknown operations", []
    w = found.row(0, named=True)
    groups = dict(tables["groups"].select("group_id", "name").collect().iter_rows())
    text = f"step {part.job['step'][step]}: {w['operation']} in {groups.get(w['group_id'], 'an unknown group')} moves data for {format_duration(w['moving'])}"
    return f"{w['operation']} of {groups.get(w['group_id'], 'an unknown group')}", [
        tables.evidence(w["source_id"], w["rank"], w["source_ts_ns"], w["start_ns"], text)
    ]


def _all(part: Partition) -> str:
    ranks = part.rows["rank"].n_unique()
    return f"nearly all of {ranks} ranks" if ranks > 1 else "the only rank seen"


def _longest_gap(tables: Tables, part: Partition, step: int) -> list[Evidence]:
    """The GPU work after the longest idle time of that step, on the lowest rank."""
    rank = int(part.rows["rank"].min() or 0)  # type: ignore[arg-type]
    number = int(part.job["step"][step])
    return gap_evidence(tables, rank, number, *part.bounds(rank, number))


def _loader_call(tables: Tables, part: Partition, step: int) -> list[Evidence]:
    low, high, ranks = part.job["start_ns"][step], part.job["end_ns"][step], part.on_clock(int(part.job["step"][step]))
    frame = host_work(tables).filter(
        pl.col("rank").is_in(ranks)
        & pl.col("name").cast(pl.String).str.starts_with(LOADER)
        & (pl.col("ts_ns") < high)
        & (pl.col("ts_ns") + pl.col("dur_ns") > low)
    )
    found = (
        frame.select("source_id", "rank", "source_ts_ns", "ts_ns", "dur_ns")
        .sort("dur_ns", "rank", descending=[True, False])
        .head(1)
        .collect(engine="streaming")
    )
    return [
        tables.evidence(s, r, t, a, f"step {part.job['step'][step]}: the host waits {format_duration(d)} for the loader") for s, r, t, a, d in found.iter_rows()
    ]


ANALYSIS = Analysis(
    "exposure",
    "Exposed transfers and starved GPUs",
    "What do all ranks lose alike?",
    ("steps", "gpu_spans"),
    Params,
    (EXPOSURE_BY_STEP,),
    _run,
    {"gpu_spans": "no GPU work was recorded; profile with ProfilerActivity.CUDA", "steps": "no step and no work was recorded"},
)
