"""Time that all ranks lose alike: transfers that compute could hide, GPUs that wait for launches, loaders that are too slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import unclamped
from tracelab.analyses.common import FEW_STEPS, host_of, host_work, named, resampled, severity, world_of
from tracelab.analyses.episodes import level_of
from tracelab.analyses.evidence import copy_evidence, gap_evidence
from tracelab.analyses.partition import LOADER, PARTS, Partition, partition_of
from tracelab.analyses.starvation import STARVED, starvation
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
        Column(
            "hideable_ns",
            "int64",
            "of them, of parameters and gradients without the last one, as much as there is compute without communication",
            "ns",
            nullable=False,
        ),
        Column("starved_ns", "int64", "without work because it was launched too late, at the usual pace", "ns", nullable=False),
        Column("paused_ns", "int64", "without work while the host launched nothing", "ns", nullable=False),
        Column("copies_ns", "int64", "copies in the open, beyond what a link that works needs for them", "ns", nullable=False),
        Column("loader_ns", "int64", "idle while the host waits for the loader", "ns", nullable=False),
    ),
    ("step",),
)


@dataclass(frozen=True)
class Params:
    """Shares of the run below which there is no finding.

    `exposed_share`: transfers (5 %: some stand in the open at every start and end). `starved_share`: no work for want of
    launches (5 %: every step starts with an empty queue). `loader_share`: idle for the loader (2 %: the first batch of a
    step is always fetched in the open). `copies_share`: copies in the open (5 %, as for transfers: a job that fetches no
    batch ahead has some), as far as they are slower than `copy_bytes_per_s` (12 GB/s: what PCIe 3.0 x16 reaches).
    `contention`: what compute takes longer beside a transfer, as a share of the transfer (10 %; 5 to 15 % are usual). The
    saving is (1 - contention) x (what compute could hide, without the last operation), at least half of it, and at most all
    that stands in the open while there is compute to hide it. `queue_ns`: work that starts within this of its launch found an empty queue (20 µs: a
    launch takes 3 to 10). `starved_ranks`: share of ranks that must be starved for it to be the program and not a host.
    """

    exposed_share: float = 0.05
    starved_share: float = 0.05
    loader_share: float = 0.02
    copies_share: float = 0.05
    copy_bytes_per_s: float = 12e9
    contention: float = 0.1
    queue_ns: int = 20_000
    starved_ranks: float = 0.75
    resamples: int = 1_000
    seed: int = 1


@dataclass(frozen=True)
class _Loss:
    """Loss per step (ns) of one kind, and where its clearest case lies; `low` and `high` where the method has a range of its own.

    `summary` says `{much}` where the loss per step belongs.
    """

    kind: FindingKind
    per_step: Float
    summary: str
    next_step: str
    evidence: Sequence[Evidence]
    low: Float | None = None
    high: Float | None = None


def _run(tables: Tables, params: Params) -> AnalysisResult:
    part = partition_of(tables)
    part = replace(part, rows=part.rows.filter(~pl.col("rank").is_in(part.on_host)))
    if not part.rows.height:
        return AnalysisResult("There is no GPU work to expose or to starve.", {}, degraded="no GPU work")
    run_ns = float((part.job["end_ns"] - part.job["start_ns"]).sum())
    rows = _with_losses(tables, part, run_ns, params)
    enough = pl.col("starved_ns", "paused_ns", "meanwhile_ns").quantile(1 - params.starved_ranks, "lower").cast(pl.Int64)
    everywhere = pl.col("exposed_transfer_ns", "open_ns", "hideable_ns", "copies_ns").min()
    least = rows.group_by("step").agg(everywhere, enough, pl.col("idle_loader_ns").min().alias("loader_ns"))
    least = part.job.select("step").join(least, on="step", how="left", maintain_order="left").fill_null(0)
    losses = _losses(tables, part, least, run_ns, params)
    findings = tuple(_finding(tables, part, x, run_ns, params) for x in losses)
    answer = " ".join(f.summary for f in findings) or "Nothing that all ranks lose alike stands out."
    unsure = float(rows["unsure_ns"].sum()) / max(float(rows.select(pl.sum_horizontal(PARTS).sum()).item()), 1.0)
    dark = (_UNSURE,) if unsure >= params.exposed_share else ()
    return AnalysisResult(answer, {"exposure_by_step": least.select(EXPOSURE_BY_STEP.names)}, findings, degraded=_degraded(part), not_observable=dark)


def _with_losses(tables: Tables, part: Partition, run_ns: float, params: Params) -> pl.DataFrame:
    """The rows of the partition with starved_ns, paused_ns, copies_ns, open_ns (what compute could hide) and hideable_ns (of it, without the last one)."""
    nothing = pl.col("idle_ns") - pl.col("idle_loader_ns") + pl.col("exposed_wait_ns")
    idle = float(part.rows.select(nothing.mean()).item()) / max(run_ns / part.job.height, 1.0)
    starved = starvation(tables, part, params.queue_ns) if idle >= params.starved_share else pl.DataFrame(schema=STARVED)
    rows = part.rows.join(starved, on=["rank", "step"], how="left")
    rows = rows.join(_last_transfers(tables), on=["rank", "step"], how="left").join(_slow_copies(tables, params), on="rank", how="left")
    rows = rows.with_columns(pl.col("starved_ns", "paused_ns", "meanwhile_ns", "last_ns", "slow_share").fill_null(0))
    rows = rows.with_columns(
        pl.min_horizontal("deferrable_ns", "alone_ns").alias("open_ns"), (pl.col("memcpy_ns") * pl.col("slow_share")).cast(pl.Int64).alias("copies_ns")
    )
    return rows.with_columns(pl.min_horizontal((pl.col("deferrable_ns") - pl.col("last_ns")).clip(0), "alone_ns").alias("hideable_ns"))


def _degraded(part: Partition) -> str:
    reasons = []
    if part.on_host:
        reasons.append(f"without GPU work and therefore left out: {named(part.on_host)}")
    if part.apart:
        reasons.append(f"clocks not aligned, so that waits across these hosts count as transfer: {', '.join(part.apart[:5])}")
    return "; ".join(reasons)


_UNSURE = NotObservable(
    "Are exposed collectives slow, or do they wait for a rank?", "not all members of their groups were seen", "traces of all ranks over the same steps"
)


def _last_transfers(tables: Tables) -> pl.DataFrame:
    """Per rank and step, the transfer that nothing can hide: that of the last operation on parameters or gradients.

    Small operations (a tenth of the longest one and less: norms, flags) are left out. A single operation must be cut in two
    pieces at least for anything of it to be hidden, so that its last piece is between nothing and half of it: a quarter
    counts. Columns rank, step, last_ns.
    """
    movers = tables["collectives"].filter(pl.col("operation").is_in(["all_gather", "reduce_scatter", "all_reduce"]) & pl.col("step").is_not_null())
    rows = movers.select("op_id", "rank", "step", "start_ns", "end_ns").join(tables["arrivals"].select("op_id", "wait_ns"), on="op_id", how="left")
    rows = rows.with_columns((pl.col("end_ns") - pl.col("start_ns") - pl.col("wait_ns").fill_null(0)).clip(0).alias("moving"))
    rows = rows.filter(pl.col("moving") > 0.1 * pl.col("moving").max().over("rank", "step"))
    last = pl.col("moving").sort_by("end_ns", "op_id").last()
    found = rows.group_by("rank", "step").agg(pl.when(pl.len() > 1).then(last).otherwise(last // 4).alias("last_ns"))
    return found.with_columns(pl.col("rank").cast(pl.Int32), pl.col("step").cast(pl.Int32)).collect(engine="streaming")


def _slow_copies(tables: Tables, params: Params) -> pl.DataFrame:
    """Share of the time of a rank's copies beyond what their bytes take at the speed of a link that works: rank, slow_share."""
    copies = unclamped(tables["gpu_spans"]).filter((pl.col("kind") == "memcpy") & (pl.col("dur_ns") > 0))
    beyond = (pl.col("dur_ns") - pl.col("bytes").fill_null(0) / params.copy_bytes_per_s * NS_PER_S).clip(0)
    return copies.group_by("rank").agg((beyond.sum() / pl.col("dur_ns").sum()).alias("slow_share")).collect(engine="streaming")


def _losses(tables: Tables, part: Partition, least: pl.DataFrame, run_ns: float, params: Params) -> list[_Loss]:
    values = {c: least[c].to_numpy().astype(np.float64) for c in least.columns if c != "step"}
    worst = {c: int(np.argmax(v)) for c, v in values.items() if len(v)}
    shares = {
        "hideable_ns": params.exposed_share,
        "starved_ns": params.starved_share,
        "paused_ns": params.starved_share,
        "copies_ns": params.copies_share,
        "loader_ns": params.loader_share,
    }
    out = []
    for column, share in shares.items():
        if values[column].sum() < share * run_ns:
            continue
        step = worst[column]
        if column == "hideable_ns":
            widest, evidence = _widest_transfer(tables, part, step)
            text = f"Transfers stand in the open on {_all(part)}, {{much}} that compute could hide (most in {widest})"
            hidden = values[column]
            factor = 1.0 - params.contention
            out.append(_Loss("exposed_communication", factor * hidden, text, _NEXT[column], evidence, 0.5 * hidden, values["open_ns"]))
        elif column == "copies_ns":
            text = f"Copies between host and GPU take {{much}} on {_all(part)} beyond what a link that works needs, and nothing hides them"
            out.append(_Loss("memory_copy", values[column], text, _NEXT[column], _longest_copy(tables, part, step)))
        elif column == "loader_ns":
            text = "All ranks wait for the data loader at once, {much}"
            out.append(_Loss("input_stall", values[column], text, _NEXT[column], _loader_call(tables, part, step)))
        elif column == "paused_ns":
            text = f"GPUs stand still on {_all(part)}, {{much}}, while the hosts launch nothing"
            out.append(_Loss("host_stall", values[column], text, _NEXT[column], _longest_gap(tables, part, step)))
        else:
            text = f"GPUs wait for launches on {_all(part)}, {{much}}: the queue is empty and work starts as soon as it is launched"
            most = values[column] + values["meanwhile_ns"]
            out.append(_Loss("launch_bound", values[column], text, _NEXT[column], _longest_gap(tables, part, step), high=most))
    return out


_NEXT = {
    "hideable_ns": "if the same job ran faster before, or links stand out below, look at the network first; else overlap them: smaller buckets, prefetch",
    "starved_ns": "launch less often: CUDA graphs, torch.compile, fused optimizers, larger batches; and look for synchronising calls",
    "paused_ns": "look at what the training loop does between steps on all ranks: checkpoints, validation, logging, garbage collection, work on the CPU",
    "copies_ns": "pin host memory and copy with non_blocking, fetch the next batch during this step, and check PCIe link width and NUMA binding",
    "loader_ns": "check shared storage, and give the loader more workers and prefetching",
}


def _finding(tables: Tables, part: Partition, x: _Loss, run_ns: float, params: Params) -> Finding:
    # What is far below the typical loss of a step is no part of it: nobody would find anything there.
    touched = np.flatnonzero(x.per_step >= 0.25 * level_of(x.per_step))
    held = x.per_step[touched]
    lost = float(held.sum())
    low, high = np.quantile(resampled(held, params.resamples, params.seed) * len(held), (0.05, 0.95))
    low = low if x.low is None else min(float(x.low[touched].sum()), low)
    high = high if x.high is None else max(float(x.high[touched].sum()), high)
    where = "per step" if len(held) == len(x.per_step) else "in 1 step" if len(held) == 1 else f"in each of {len(held)} steps"
    much = f"{format_duration(float(np.mean(held)))} {where}"
    everybody = x.kind in ("launch_bound", "input_stall", "host_stall", "memory_copy")
    ranks = [r for r in sorted(host_of(tables)) if r >= 0] if everybody else []
    world = world_of(tables)
    # One rank of several, or a few steps: nothing tells whether this is usual.
    enough = len(x.per_step) >= FEW_STEPS and (part.rows["rank"].n_unique() > 1 or world == 1)
    # All hosts pausing in most steps may be how the job is meant to work (it waits for an environment, a simulation).
    meant = x.kind == "host_stall" and len(held) > 0.5 * len(x.per_step)
    enough = enough and not meant
    return Finding(
        id=finding_id(x.kind, ["all"]),
        kind=x.kind,
        severity="info" if meant else severity(lost / run_ns, enough=enough),
        summary=f"{x.summary.replace('{much}', much, 1)}: {format_duration(lost)} lost, {format_share(lost / run_ns)} of the run.",
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


def _longest_copy(tables: Tables, part: Partition, step: int) -> list[Evidence]:
    """The longest copy of that step, on the lowest rank."""
    rank = int(part.rows["rank"].min() or 0)  # type: ignore[arg-type]
    number = int(part.job["step"][step])
    return copy_evidence(tables, rank, number, *part.bounds(rank, number))


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
