"""Ranks that the others wait for, and why: one finding per cause and subject, none that nobody waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracelab.analyses.common import FEW_STEPS, host_of, named, resampled, severity, world_of
from tracelab.analyses.culprit import Culprit, Params
from tracelab.analyses.culprits import find_culprits
from tracelab.analyses.evidence import evidence_for
from tracelab.analyses.excess import CAUSES, Excess, excess_of, median_of
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import Finding, NotObservable, finding_id
from tracelab.tables import Column, TableSpec
from tracelab.units import NS_PER_S, format_duration, format_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ANALYSIS", "EXCESS_BY_RANK", "Params"]

EXCESS_BY_RANK = TableSpec(
    "excess_by_rank",
    "Time above the peers' lower quartile, per rank, in the median step",
    (
        Column("rank", "int32", "global rank", nullable=False, key=True),
        Column("host", "string", "host", nullable=False),
        Column("stage", "int32", "position in the pipeline; null without one"),
        Column("peers", "int32", "ranks that it is compared with", nullable=False),
        *(
            Column(f"{c}_ns", "int64", t, "ns", nullable=False)
            for c, t in zip(CAUSES, ("compute", "memory operations", "idle while the host waits in the loader", "idle for another reason"), strict=True)
        ),
    ),
    ("rank",),
)


def _run(tables: Tables, params: Params) -> AnalysisResult:
    excess = excess_of(tables)
    if excess is None:
        return AnalysisResult("Fewer than two ranks can be compared.", {}, degraded="fewer than two ranks with work to compare", not_observable=(_ALONE,))
    hosts = host_of(tables)
    culprits = find_culprits(tables, excess, hosts, params)
    findings = tuple(f for f in (_finding(tables, excess, c, hosts, params) for c in culprits) if f is not None)
    answer = " ".join(f.summary for f in findings) or "No rank makes the others wait by more than the usual scatter."
    return AnalysisResult(answer, {"excess_by_rank": _table(excess, hosts)}, findings, degraded=_degraded(excess))


_ALONE = NotObservable(
    "Which rank makes the others wait?", "fewer than two ranks were recorded with work to compare", "traces of all ranks over the same steps"
)


def _degraded(x: Excess) -> str:
    reasons = []
    if x.left_out:
        reasons.append(f"without GPU work and therefore compared with nobody: {named(x.left_out)}")
    if x.part.apart:
        reasons.append(f"clocks not aligned, so that each of these hosts has steps of its own: {', '.join(x.part.apart[:5])}")
    return "; ".join(reasons)


def _table(x: Excess, hosts: dict[int, str]) -> pl.DataFrame:
    size = {int(r): len(rows) for rows in x.peers for r in rows}
    columns = {f"{c}_ns": np.round(median_of(x.over[c], 1)).astype(np.int64) for c in CAUSES}
    stage = [int(s) if s >= 0 else None for s in x.stage]
    base = {"rank": x.ranks, "host": [hosts.get(int(r), "") for r in x.ranks], "stage": stage, "peers": [size[n] for n in range(len(x.ranks))]}
    return pl.DataFrame({**base, **columns}, schema=EXCESS_BY_RANK.polars, strict=False)


def _finding(tables: Tables, x: Excess, c: Culprit, hosts: dict[int, str], params: Params) -> Finding | None:
    lost, (low, high) = float(c.saving.sum()), _interval(c.saving, params)
    share = lost / x.run_ns
    least = params.imbalance_share if c.kind == "load_imbalance" else params.least_share
    if share < least or low <= 0:
        return None
    ranks = [int(x.ranks[r]) for r in c.rows]
    steps = [int(s) for s in x.steps[c.steps]]
    touched = np.flatnonzero(c.steps)
    subject = ranks if c.kind != "load_imbalance" else []
    named_hosts = c.hosts or sorted({hosts[r] for r in subject if r in hosts}) if c.kind != "load_imbalance" else []
    where = f"host {', '.join(c.hosts)} ({named(ranks)})" if c.hosts else named(ranks)
    says = _SAYS[c.kind]
    if c.kind == "host_stall" and (x.on_host or c.cause == "compute"):
        says = _ON_HOST if x.on_host else _LATE if c.late else _INTERRUPTED
    text = says.format(where=where, much=c.much) + (f" ({c.either})" if c.either else "")
    if c.behind is not None:
        text += f" (once that is mended they will wait for {named([int(x.ranks[r]) for r in c.behind])})"
    agree = lost >= 0.5 * c.excess_ns and len(steps) >= FEW_STEPS and not c.either
    first, last = (x.part.bounds(ranks[0], int(x.steps[int(touched[n])])) for n in (0, -1))
    return Finding(
        id=finding_id(c.kind, c.hosts or subject or ["all"]),
        kind=c.kind,
        severity=severity(share, enough=len(x.steps) >= FEW_STEPS),
        summary=f"{text}: {format_duration(lost)} lost, {format_share(share)} of the run.",
        confidence="likely" if agree else "possible",
        lost_s=lost / NS_PER_S,
        lost_s_low=min(low, lost) / NS_PER_S,
        lost_s_high=max(high, lost) / NS_PER_S,
        lost_gpu_hours=lost / NS_PER_S * world_of(tables) / 3600,
        ranks=subject,
        hosts=named_hosts,
        steps=steps,
        start_ns=first[0],
        end_ns=last[1],
        evidence=evidence_for(tables, x, c),
        next_step=f"{_CLOCKS_FIRST}; {_NEXT[c.kind]}" if c.either else _NEXT[c.kind],
    )


def _interval(saving: NDArray[np.float64], params: Params) -> tuple[float, float]:
    """90 % range of the total over resampled steps; of the disturbed ones alone where they are few (a fault that began late)."""
    touched = saving[saving > 0]
    if not len(touched):
        return 0.0, 0.0
    low, high = np.quantile(resampled(touched, params.resamples, params.seed) * len(touched), (0.05, 0.95))
    return float(low), float(high)


_SAYS = {
    "compute_straggler": "{where}: compute kernels run {much} slower than those of the peers, which wait for them",
    "input_stall": "{where}: the GPU stands still {much} per step longer than the peers' while the host waits for the data loader",
    "host_stall": "{where}: the GPU stands still {much} per step longer than the peers' because the host does not feed it",
    "memory_copy": "{where}: copies take {much} per step longer than on the peers",
    "periodic_jitter": "{where}: kernels are interrupted every {much}, and all ranks wait",
    "pipeline_imbalance": "The pipeline stage of {where} computes {much} longer than the other stages, which wait for it",
    "load_imbalance": "The slowest rank changes from step to step: compute differs by {much} between ranks of one step",
}
_ON_HOST = "{where}: its host is outside communication {much} per step longer than the peers', which wait for it"
_INTERRUPTED = "{where}: single kernels take {much} longer than on the peers, now and then, and all ranks wait"
_LATE = "{where}: the GPU is busy {much} per step longer than the peers' though no kernel is slower (work came late, or only it has it), and all wait"
_CLOCKS_FIRST = "compare clocks, temperature and power of these GPUs with the others' (nvidia-smi -q -d CLOCK,PERFORMANCE): if they are slower, it is the GPUs"
_NEXT = {
    "compute_straggler": "check clocks, temperature, power cap and throttle reasons of these GPUs (nvidia-smi -q -d CLOCK,PERFORMANCE); drain and test them",
    "input_stall": "check this rank's data loader: workers, storage path, CPU pinning, and whether its host is short of CPU or memory",
    "host_stall": "look at this rank's host: garbage collection, other processes, CPU frequency, and synchronising calls before the gap",
    "memory_copy": "check pinned memory, PCIe link width and NUMA binding of these GPUs",
    "periodic_jitter": "look for jobs with this period on the host: monitoring agents, cron, health checks, power management",
    "pipeline_imbalance": "move layers from this stage to the others, or count embedding and loss when cutting the model",
    "load_imbalance": "balance the work per rank: sequence lengths, padding, expert capacity",
}

ANALYSIS = Analysis(
    "stragglers",
    "Stragglers",
    "Which rank makes the others wait, and why?",
    ("steps", "collectives"),
    Params,
    (EXCESS_BY_RANK,),
    _run,
    {"collectives": "no communication was recorded: nobody waits for anybody", "steps": "no step and no work was recorded"},
)
