"""Stages of a pipeline that take longer than the others: more work, or slower GPUs; and what mending a stage saves."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import COMPUTE
from tracelab.analyses.common import gpu_work
from tracelab.analyses.culprit import Culprit, Mask, Params, Rows
from tracelab.analyses.episodes import lasting
from tracelab.analyses.excess import Excess
from tracelab.analysis import Tables
from tracelab.results import FindingKind
from tracelab.units import format_share

__all__ = ["in_pipeline", "slow_stages"]

Float = NDArray[np.float64]

EITHER = "it runs the same kernels in the same number as the others, so that slower GPUs explain it as well as larger layers"


def in_pipeline(x: Excess, rows: Rows, excess: Float, saving: Float, params: Params) -> Float:
    """What mending these rows saves in a pipeline, ns per step, given their `excess` of compute and the plain `saving`.

    With m micro-batches, stages that compute c_1 .. c_p in a step take ((m - 1) max c + sum c) / m of it (1F1B; Narayanan et
    al. 2021, there for equal stages), plus what is neither compute nor wait: a slower stage fills its own bubble, and behind
    it the next slowest is waited for. The saving is no more than what that expression falls by; the step as it was, less
    what it says of the mended one, is taken where it lies between half of that and all of it.
    """
    stages = len({int(s) for s in x.stage if s >= 0})
    if stages < 2 or x.microbatches <= 0:
        return saving
    compute = np.nan_to_num(x.compute)
    mended = compute.copy()
    mended[rows] -= excess
    before, after = _pipelined(x, compute, params), _pipelined(x, mended, params)
    parts = x.part.rows.with_columns((pl.col("exposed_transfer_ns") + pl.col("memcpy_ns") + pl.col("idle_ns")).alias("rest"))
    rest = dict(parts.group_by("step").agg(pl.col("rest").median()).iter_rows())
    most = np.clip(np.minimum(saving, before - after), 0.0, None)
    return np.asarray(np.clip(x.length - after - np.array([float(rest.get(int(s), 0.0)) for s in x.steps]), 0.5 * most, most), dtype=np.float64)


def _pipelined(x: Excess, compute: Float, params: Params) -> Float:
    """Time of compute and bubble per step (ns): a stage takes its slowest rank's, where that is more than scatter."""
    limit = np.maximum(params.sigmas * x.noise["compute"], params.least_excess * x.length)
    per_stage = []
    for s in sorted({int(s) for s in x.stage if s >= 0}):
        own = compute[x.stage == s]
        usual = own - own.min(axis=0) <= limit
        slow = np.where(usual, 0.0, own).max(axis=0)
        per_stage.append(np.where(usual.all(axis=0), np.where(usual, own, 0.0).sum(axis=0) / usual.sum(axis=0), slow))
    taken = np.stack(per_stage)
    return np.asarray(((x.microbatches - 1) * taken.max(axis=0) + taken.sum(axis=0)) / x.microbatches, dtype=np.float64)


def slow_stages(tables: Tables, x: Excess, hosts: dict[int, str], params: Params) -> list[Culprit]:
    """Stages of a pipeline whose every rank computes more than the other stages'.

    A stage is as slow as its fastest rank: what one of its ranks takes longer than the others is that rank's.
    """
    stages = sorted({int(s) for s in x.stage if s >= 0})
    if len(stages) < 2:
        return []
    compute = np.where(np.isnan(x.compute), np.inf, x.compute)
    per_stage = np.stack([compute[x.stage == s].min(axis=0) for s in stages])
    per_stage = np.where(np.isfinite(per_stage), per_stage, 0.0)
    base = np.median(per_stage, axis=0) if len(stages) > 2 else per_stage.min(axis=0)
    out = []
    for n, s in enumerate(stages):
        over = per_stage[n] - base
        steps: Mask = np.asarray(over > np.maximum(params.stage_excess * base, params.sigmas * x.noise["compute"]), dtype=bool)
        if steps.mean() < 0.5 and not lasting(over, steps):
            continue
        gain = np.minimum(over, per_stage[n] - np.delete(per_stage, n, axis=0).max(axis=0))
        rows = np.flatnonzero(x.stage == s)
        saving = np.where(steps, np.clip(np.minimum(gain, x.blame(rows)), 0.0, None), 0.0)
        saving = in_pipeline(x, rows, np.where(steps, over, 0.0), saving, params)
        out.append(_stage(tables, x, rows, steps, over, base, saving, hosts))
    return out


def _stage(tables: Tables, x: Excess, rows: Rows, steps: Mask, over: Float, base: Float, saving: Float, hosts: dict[int, str]) -> Culprit:
    own_hosts = {hosts.get(int(x.ranks[r]), "") for r in rows}
    whole = not own_hosts & {hosts.get(int(r), "") for r in np.delete(x.ranks, rows)}
    ratio = over[steps] / base[steps]
    # Work does not begin in the middle of a run: what is not there from the first step to the last is no work.
    steady = steps.mean() >= 0.9 and float(np.ptp(ratio)) <= 0.3 * float(np.median(ratio)) + 0.02
    kind: FindingKind = "pipeline_imbalance" if steady else "compute_straggler"
    # One rank, or all of a host, can be slow for a reason of its own; a part of a host hardly.
    either = EITHER if steady and (len(rows) == 1 or whole) and not _more_kernels(tables, x, rows, float(over[steps].sum())) else ""
    much = format_share(float(over[steps].sum() / base[steps].sum()))
    named = sorted(own_hosts) if not steady and whole and len(rows) > 1 else []
    return Culprit(kind, "compute", rows, steps, saving, float(over[steps].sum()), named, much, either)


def _more_kernels(tables: Tables, x: Excess, rows: Rows, excess_ns: float) -> bool:
    """Whether kernels that these ranks run more often than most others take at least half of the excess, as those of more layers do."""
    work = gpu_work(tables).filter(pl.col("op_class") == COMPUTE).group_by("rank", pl.col("name").cast(pl.String))
    counts = work.agg(pl.len().alias("runs"), pl.col("dur_ns").mean().alias("usual")).collect(engine="streaming")
    mine = pl.col("rank").is_in(x.ranks[rows].tolist())
    others = np.delete(x.ranks, rows)
    everywhere = counts.select("name").unique().join(pl.DataFrame({"rank": others}, schema={"rank": counts.schema["rank"]}), how="cross")
    usual = everywhere.join(counts, on=["rank", "name"], how="left").group_by("name").agg(pl.col("runs").fill_null(0).median().alias("theirs"))
    more = counts.filter(mine).join(usual, on="name").select("rank", ((pl.col("runs") - pl.col("theirs")).clip(0) * pl.col("usual")).alias("more"))
    extra = more.group_by("rank").agg(pl.col("more").sum())["more"]
    return len(extra) == len(rows) and float(extra.min() or 0.0) >= 0.5 * excess_ns  # type: ignore[arg-type]
