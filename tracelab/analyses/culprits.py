"""From excess to culprits: which rows, for which cause, in which steps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import bdtrc

from tracelab.analyses.excess import CAUSES, Excess, median_of
from tracelab.analyses.interruptions import kernel_profile, period_of
from tracelab.analyses.uneven import coherent
from tracelab.analysis import Tables
from tracelab.results import FindingKind
from tracelab.units import format_duration, format_share

__all__ = ["Culprit", "Params", "find_culprits"]

CHANCE = 1e-4
"""Probability by chance below which disturbances belong to a host: one in ten thousand runs of this many steps."""
COMPARED = 4
"""Ranks and peers whose single kernels are read."""
LEAST_STEPS = 4
"""With fewer steps nothing can be said about which of them are usual."""

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Params:
    """Thresholds of a finding.

    `least_share`: loss as a share of the run below which a fault is not worth waking somebody (1 %).
    `sigmas`: a step counts as disturbed beyond this many standard deviations of the undisturbed scatter (5: below one
    false step in a million), and beyond `least_excess` of a step (1.5 %: GPUs of one model differ by about that).
    `imbalance_spread`: scatter of compute between ranks that counts as uneven load (2 %; equal work scatters by 0.3 to 1 %).
    `imbalance_share`: loss by uneven load worth a finding (3 %: some is unavoidable).
    `stage_excess`: compute of a pipeline stage above the others' (3 %).
    `resamples`, `seed`: bootstrap over steps.
    """

    least_share: float = 0.01
    sigmas: float = 5.0
    least_excess: float = 0.015
    imbalance_spread: float = 0.02
    imbalance_share: float = 0.03
    stage_excess: float = 0.03
    resamples: int = 1_000
    seed: int = 1


@dataclass(frozen=True)
class Culprit:
    """A culprit.

    `rows` of the excess (not rank numbers), disturbed `steps` (mask), saving per step (ns); `hosts` where all ranks of a
    host are it; `much` is the size of the effect as text; `excess_ns` the excess that the saving is a part of.
    """

    kind: FindingKind
    cause: str
    rows: Rows
    steps: Mask
    saving: NDArray[np.float64]
    excess_ns: float
    hosts: list[str]
    much: str


_KIND: dict[str, FindingKind] = {"compute": "compute_straggler", "memory": "memory_copy", "input": "input_stall", "host": "host_stall"}


def find_culprits(tables: Tables, x: Excess, hosts: dict[int, str], params: Params) -> list[Culprit]:
    """All culprits, largest saving first; whether each saving is worth a finding is for the caller to say."""
    out: list[Culprit] = []
    stages = _slow_stages(x, hosts, params)
    out.extend(stages)
    for cause in CAUSES:
        disturbed = _disturbed(x, cause, params)
        lasting = [r for r in range(len(x.ranks)) if _lasts(disturbed, r, x, cause)]
        units = _units(lasting, x, hosts) + _restless_hosts(disturbed, lasting, x, hosts)
        found = [_culprit(x, cause, rows, disturbed, names) for rows, names in units]
        out.extend(_refined(tables, x, c) if cause == "compute" else c for c in _visible(x, cause, found, disturbed, params))
        if cause == "compute" and not stages:
            uneven = _uneven(tables, x, disturbed, sorted({int(r) for rows, _ in units for r in rows}), params)
            out.extend([uneven] if uneven else [])
    return sorted(out, key=lambda c: -float(c.saving.sum()))


def _disturbed(x: Excess, cause: str, params: Params) -> Mask:
    limit = np.maximum(params.sigmas * x.noise[cause], params.least_excess * x.length)
    return np.asarray(np.nan_to_num(x.over[cause]) > limit[None, :], dtype=bool)


def _lasts(disturbed: Mask, row: int, x: Excess, cause: str) -> bool:
    """A fault stays where it is: in most steps between its first and its last one, or in most of all disturbed steps."""
    own = np.flatnonzero(disturbed[row])
    pair = any(row in p and len(p) == 2 for p in x.peers)
    if not len(own) or (pair and len(x.steps) < LEAST_STEPS):  # of two ranks in a few steps nobody can say which one is usual
        return False
    if len(x.steps) < LEAST_STEPS:
        return len(own) * 2 >= len(x.steps)
    dense = len(own) / (own[-1] - own[0] + 1) >= 0.5
    alone = disturbed[row].sum() >= 0.5 * disturbed.any(axis=0).sum()
    large = float(x.over[cause][row][disturbed[row]].sum()) >= 0.05 * x.run_ns
    return bool((len(own) >= 3 and (dense or alone)) or (len(own) >= 2 and alone and dense) or (large and alone))


def _units(lasting: list[int], x: Excess, hosts: dict[int, str]) -> list[tuple[Rows, list[str]]]:
    """Whole hosts where all of two or more ranks are affected (and other hosts exist), else single ranks."""
    by_host: dict[str, list[int]] = defaultdict(list)
    for row, rank in enumerate(x.ranks):
        by_host[hosts.get(int(rank), "")].append(row)
    units: list[tuple[Rows, list[str]]] = []
    left = set(lasting)
    for host, rows in sorted(by_host.items()):
        if len(by_host) > 1 and len(rows) > 1 and left.issuperset(rows):
            units.append((np.array(rows, dtype=np.int64), [host]))
            left -= set(rows)
    return units + [(np.array([r], dtype=np.int64), []) for r in sorted(left)]


def _restless_hosts(disturbed: Mask, lasting: list[int], x: Excess, hosts: dict[int, str]) -> list[tuple[Rows, list[str]]]:
    """Hosts of which now this rank and now that one is disturbed, while other hosts are not, more often than by chance."""
    calm = disturbed.copy()
    calm[lasting] = False
    names = np.array([hosts.get(int(r), "") for r in x.ranks])
    steps = calm.any(axis=0)
    units: list[tuple[Rows, list[str]]] = []
    for name in sorted(set(names.tolist())):
        here = names == name
        rows = np.flatnonzero(here & calm.any(axis=1))
        alone = int((calm[here].any(axis=0) & ~calm[~here].any(axis=0)).sum())
        chance = float(bdtrc(alone - 1, int(steps.sum()), float(here.mean()))) if alone else 1.0
        if len(rows) > 1 and not here.all() and chance < CHANCE:
            units.append((rows, [name]))
    return units


def _culprit(x: Excess, cause: str, rows: Rows, disturbed: Mask, names: list[str]) -> Culprit:
    steps: Mask = np.asarray(disturbed[rows].any(axis=0), dtype=bool)
    over = np.nan_to_num(x.over[cause][rows][:, steps]).max(axis=0)
    if cause == "compute":
        base = np.nan_to_num(x.compute[rows][:, steps] - x.over[cause][rows][:, steps]).max(axis=0)
        much = format_share(float(over.sum() / base.sum())) if base.sum() > 0 else format_duration(float(over.mean()))
    else:
        much = format_duration(float(over.mean()))
    saving = x.saving(rows, cause, steps)
    if x.microbatches and cause == "compute":
        saving = _in_pipeline(x, rows, saving)
    return Culprit(_KIND[cause], cause, rows, steps, saving, float(over.sum()), names, much)


def _visible(x: Excess, cause: str, found: list[Culprit], disturbed: Mask, params: Params) -> list[Culprit]:
    """Culprits that hide each other (equally slow, so that mending one alone saves nothing) become one."""
    hidden = [c for c in found if c.saving.sum() < params.least_share * x.run_ns]
    if len(hidden) < 2:
        return found
    rows = np.sort(np.concatenate([c.rows for c in hidden]))
    joint = _culprit(x, cause, rows, disturbed, sorted({h for c in hidden for h in c.hosts}) if all(c.hosts for c in hidden) else [])
    alone = sum(float(c.saving.sum()) for c in hidden)
    return [c for c in found if c not in hidden] + [joint] if joint.saving.sum() - alone >= params.least_share * x.run_ns else found


def _refined(tables: Tables, x: Excess, c: Culprit) -> Culprit:
    """A few interrupted kernels are no slow GPU: something on the host takes the time, now and then or with a period."""
    worst = c.rows[np.argsort(-np.nan_to_num(x.over[c.cause][c.rows]).sum(axis=1), kind="stable")][:COMPARED]
    steps = x.part.job.filter(pl.Series(c.steps))
    profile = kernel_profile(tables, [int(x.ranks[r]) for r in worst], _peer_ranks(x, c.rows), steps)
    if profile is None or profile.uniform >= 0.5 or not len(profile.events):
        return c
    width = float(np.median(np.nan_to_num(x.over[c.cause][c.rows][:, c.steps])))
    period = period_of(profile.events, width)
    if period is not None:
        return replace(c, kind="periodic_jitter", much=format_duration(period))
    return replace(c, kind="host_stall", much=format_duration(width))


def _peer_ranks(x: Excess, rows: Rows) -> list[int]:
    """Peers of these rows that are not among them, those with the least excess first."""
    own = next(p for p in x.peers if rows[0] in p)
    others = np.setdiff1d(own, rows)
    order = others[np.argsort(np.nan_to_num(x.over["compute"][others]).sum(axis=1), kind="stable")] if len(others) else others
    return [int(x.ranks[r]) for r in order[:COMPARED]]


def _in_pipeline(x: Excess, rows: Rows, saving: NDArray[np.float64]) -> NDArray[np.float64]:
    """A slower stage also fills its own bubble, so that mending it saves less than its excess.

    With m micro-batches and p equal stages a step takes (m + p - 1) / m of a stage's compute (1F1B; Narayanan et al.
    2021), plus what is neither compute nor wait. The result is kept between half of the plain saving and all of it.
    """
    stages = len({int(s) for s in x.stage if s >= 0})
    others = np.setdiff1d(np.arange(len(x.ranks)), rows)
    if stages < 2 or not len(others) or x.microbatches <= 0:
        return saving
    usual = median_of(x.compute[others], 0) * (x.microbatches + stages - 1) / x.microbatches
    parts = x.part.rows.with_columns((pl.col("exposed_transfer_ns") + pl.col("memcpy_ns") + pl.col("idle_ns")).alias("rest"))
    rest = parts.group_by("step").agg(pl.col("rest").median()).sort("step")
    at = dict(rest.iter_rows())
    whole = usual + np.array([float(at.get(int(s), 0.0)) for s in x.steps])
    return np.asarray(np.clip(x.length - whole, 0.5 * saving, saving), dtype=np.float64)


def _slow_stages(x: Excess, hosts: dict[int, str], params: Params) -> list[Culprit]:
    """Stages of a pipeline whose every rank computes more than the other stages'."""
    stages = sorted({int(s) for s in x.stage if s >= 0})
    if len(stages) < 2:
        return []
    per_stage = np.stack([median_of(x.compute[x.stage == s], 0) for s in stages])
    base = np.median(per_stage, axis=0) if len(stages) > 2 else per_stage.min(axis=0)
    out = []
    for n, s in enumerate(stages):
        rows = np.flatnonzero(x.stage == s)
        over = per_stage[n] - base
        steps = over > np.maximum(params.stage_excess * base, params.sigmas * x.noise["compute"])
        if steps.sum() * 2 < len(steps):
            continue
        gain = np.minimum(over, per_stage[n] - np.delete(per_stage, n, axis=0).max(axis=0))
        saving = np.where(steps, np.clip(np.minimum(gain, x.blame(rows)), 0.0, None), 0.0)
        saving = _in_pipeline(x, rows, saving)
        own_hosts = {hosts.get(int(x.ranks[r]), "") for r in rows}
        others = {hosts.get(int(r), "") for r in np.delete(x.ranks, rows)}
        ratio = per_stage[n] / base
        # A stage that is a host could also be a host that is slow; more work is there from the first step to the last.
        steady = steps.mean() >= 0.9 and float(np.ptp(ratio[steps])) <= 0.3 * float(np.median(ratio[steps] - 1.0)) + 0.02
        host_fault = not steady and not own_hosts & others
        kind: FindingKind = "compute_straggler" if host_fault else "pipeline_imbalance"
        much = format_share(float(over[steps].sum() / base[steps].sum()))
        out.append(Culprit(kind, "compute", rows, steps, saving, float(over[steps].sum()), sorted(own_hosts) if host_fault else [], much))
    return out


def _uneven(tables: Tables, x: Excess, disturbed: Mask, lasting: list[int], params: Params) -> Culprit | None:
    """Work that is spread unevenly: a large scatter of compute whose top moves from rank to rank, in all of the step alike."""
    rows = np.setdiff1d(np.arange(len(x.ranks)), np.array(lasting, dtype=np.int64))
    if len(rows) < 3 or len(x.steps) < 4:
        return None
    compute = x.compute[rows]
    middle = median_of(compute, 0)
    if not (middle > 0).all():
        return None
    share = compute / middle - 1.0
    # What a rank always has more than the others is no change from step to step.
    moving = share - median_of(share, 1)[:, None]
    spread = 1.4826 * float(np.nanmedian(np.abs(moving)))
    top = np.bincount(np.nanargmax(np.nan_to_num(share, nan=-1.0), axis=0), minlength=len(rows)) / len(x.steps)
    hit = disturbed[rows]
    wanders = hit.any(axis=0).mean() >= 0.5 and hit.any(axis=1).sum() >= 3
    if (spread < params.imbalance_spread and not wanders) or top.max() > 0.6:
        return None
    exposed = np.nan_to_num(x.exposed[rows])
    gain = np.nan_to_num(compute).max(axis=0) - middle
    saving = np.clip(np.minimum(gain, np.median(exposed, axis=0) - exposed.min(axis=0)), 0.0, None)
    if saving.sum() < params.imbalance_share * x.run_ns or not coherent(tables, x, rows):
        return None
    return Culprit("load_imbalance", "compute", rows, saving > 0, saving, float(gain.sum()), [], format_share(float(np.median(gain / middle))))
