"""From excess to culprits: which rows, for which cause, in which steps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
from scipy.special import bdtrc

from tracelab.analyses.culprit import Culprit, Mask, Params, Rows
from tracelab.analyses.episodes import episode
from tracelab.analyses.excess import CAUSES, Excess, median_of
from tracelab.analyses.interruptions import kernel_profile, period_of
from tracelab.analyses.stages import in_pipeline, slow_stages
from tracelab.analyses.uneven import coherent
from tracelab.analysis import Tables
from tracelab.results import FindingKind
from tracelab.units import format_duration, format_share

__all__ = ["find_culprits"]

CHANCE = 1e-4
"""Probability by chance below which disturbances belong to a host: one in ten thousand runs of this many steps."""
COMPARED = 4
"""Ranks and peers whose single kernels are read."""
LEAST_STEPS = 4
"""With fewer steps nothing can be said about which of them are usual."""

_KIND: dict[str, FindingKind] = {"compute": "compute_straggler", "memory": "memory_copy", "input": "input_stall", "host": "host_stall"}


def find_culprits(tables: Tables, x: Excess, hosts: dict[int, str], params: Params) -> list[Culprit]:
    """All culprits, largest saving first; whether each saving is worth a finding is for the caller to say."""
    out: list[Culprit] = []
    stages = slow_stages(tables, x, hosts, params)
    out.extend(stages)
    for cause in CAUSES:
        disturbed = _disturbed(x, cause, params)
        lasting = [r for r in range(len(x.ranks)) if _lasts(disturbed, r, x, cause, params)]
        for r in lasting:
            disturbed[r] = _own(disturbed, r, x, cause)
        units = _units(lasting, x, hosts) + _restless_hosts(disturbed, lasting, x, hosts)
        found = [_culprit(x, cause, rows, disturbed, names, params) for rows, names in units]
        out.extend(_refined(tables, x, c, params) if cause == "compute" else c for c in _visible(x, cause, found, disturbed, params))
        if cause == "compute" and not stages:
            uneven = _uneven(tables, x, disturbed, sorted({int(r) for rows, _ in units for r in rows}), params)
            out.extend([uneven] if uneven else [])
    return sorted(_fed_late(x, out), key=lambda c: -float(c.saving.sum()))


def _fed_late(x: Excess, found: list[Culprit]) -> list[Culprit]:
    """One culprit for the loader and the host of the same ranks where both stand still in the same steps: mended together or not at all."""
    out = list(found)
    for loader in (c for c in found if c.cause == "input"):
        for host in (c for c in found if c.cause == "host" and np.array_equal(c.rows, loader.rows)):
            both = loader.steps & host.steps
            if both.sum() * 2 < min(loader.steps.sum(), host.steps.sum()):
                continue
            steps: Mask = np.asarray(loader.steps | host.steps, dtype=bool)
            main = max(loader, host, key=lambda c: c.excess_ns)
            over = np.nansum([np.maximum(x.over[c][loader.rows][:, steps], 0.0) for c in ("input", "host")], axis=0).max(axis=0)
            saving = x.saving(loader.rows, ["input", "host"], steps)
            one = replace(main, steps=steps, saving=saving, excess_ns=float(over.sum()), much=format_duration(float(over.mean())))
            out = [c for c in out if c is not loader and c is not host] + [one]
    return out


def _disturbed(x: Excess, cause: str, params: Params) -> Mask:
    limit = np.maximum(params.sigmas * x.noise[cause], params.least_excess * x.length)
    return np.asarray(np.nan_to_num(x.over[cause]) > limit[None, :], dtype=bool)


def _own(disturbed: Mask, row: int, x: Excess, cause: str) -> Mask:
    """The disturbed steps of a row that belong together."""
    return episode(np.nan_to_num(x.over[cause][row]), disturbed[row]) if len(x.steps) >= LEAST_STEPS else disturbed[row]


def _lasts(disturbed: Mask, row: int, x: Excess, cause: str, params: Params) -> bool:
    """A fault stays where it is: in most steps between its first and its last one, or it is most of all disturbance.

    Most by number of steps or by time, since a few steps of a fault weigh more than many kernels that were late for once.
    """
    mask = _own(disturbed, row, x, cause)
    own = np.flatnonzero(mask)
    pair = any(row in p and len(p) == 2 for p in x.peers)
    if not len(own) or (pair and len(x.steps) < LEAST_STEPS):  # of two ranks in a few steps nobody can say which one is usual
        return False
    if len(x.steps) < LEAST_STEPS:
        return len(own) * 2 >= len(x.steps)
    dense = len(own) / (own[-1] - own[0] + 1) >= 0.5
    over = np.nan_to_num(x.over[cause])
    everybody = np.where(disturbed, over, 0.0).max(axis=0)
    alone = len(own) >= 0.5 * disturbed.any(axis=0).sum() or float(over[row][mask].sum()) >= 0.5 * float(everybody.sum())
    return bool((len(own) >= 3 and (dense or alone)) or (len(own) >= 2 and alone and dense) or (alone and _event(x, cause, row, mask, params)))


def _event(x: Excess, cause: str, row: int, own: Mask, params: Params) -> bool:
    """Whether a fault that does not return stands out from all else that was seen of its cause, and the others waited for it.

    The plain standard deviation, which single large values enter, is the measure. Kernels are different: one that takes
    twice its time now and then is usual, so that there only a large loss counts.
    """
    over = np.nan_to_num(x.over[cause])
    excess = float(over[row][own].sum())
    if cause == "compute":
        return excess >= params.kernel_share * x.run_ns
    rest = over[~(own[None, :] & (np.arange(len(over)) == row)[:, None])]
    waited = float(x.saving(np.array([row], dtype=np.int64), [cause], own).sum())
    return float(np.median(over[row][own])) > float(rest.mean() + params.event_sigmas * rest.std()) and waited >= 0.5 * excess


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


def _culprit(x: Excess, cause: str, rows: Rows, disturbed: Mask, names: list[str], params: Params) -> Culprit:
    steps: Mask = np.asarray(disturbed[rows].any(axis=0), dtype=bool)
    over = np.nan_to_num(x.over[cause][rows][:, steps]).max(axis=0)
    if cause == "compute":
        base = np.nan_to_num(x.compute[rows][:, steps] - x.over[cause][rows][:, steps]).max(axis=0)
        much = format_share(float(over.sum() / base.sum())) if base.sum() > 0 else format_duration(float(over.mean()))
    else:
        much = format_duration(float(over.mean()))
    saving = x.saving(rows, [cause], steps)
    if x.microbatches and cause == "compute":
        saving = in_pipeline(x, rows, np.nan_to_num(np.maximum(x.over["compute"][rows], 0.0)), saving, params)
    return Culprit(_KIND[cause], cause, rows, steps, saving, float(over.sum()), names, much)


def _visible(x: Excess, cause: str, found: list[Culprit], disturbed: Mask, params: Params) -> list[Culprit]:
    """Culprits that hide each other become one: equally slow, so that mending one alone saves little of what mending all does."""
    least = params.least_share * x.run_ns
    left = sorted(found, key=lambda c: -c.excess_ns)
    out = []
    while left:
        level = [c for c in left if c.excess_ns >= params.same_level * left[0].excess_ns or max(c.saving.sum(), left[0].saving.sum()) < least]
        best, gain = left[0], 0.0
        members = [left[0]]
        for n in range(2, len(level) + 1):
            joint = _joined(x, cause, level[:n], disturbed, params)
            more = float(joint.saving.sum()) - sum(float(c.saving.sum()) for c in level[:n])
            if more >= gain + least and all(2 * np.isin(p, joint.rows).sum() <= len(p) for p in x.peers):  # else who is usual?
                best, gain, members = joint, more, level[:n]
        out.append(best)
        left = [c for c in left if not any(c is m for m in members)]
    return _with_hidden(x, cause, out, disturbed, params)


def _with_hidden(x: Excess, cause: str, found: list[Culprit], disturbed: Mask, params: Params) -> list[Culprit]:
    """The one that saves most says which others will be waited for once it is mended: alone they save nothing yet."""
    least = params.least_share * x.run_ns
    if len(found) < 2:
        return found
    first = max(found, key=lambda c: float(c.saving.sum()))
    hidden = [c for c in found if c is not first and c.saving.sum() < least]
    behind = [c for c in hidden if _joined(x, cause, [first, c], disturbed, params).saving.sum() - first.saving.sum() - c.saving.sum() >= least]
    if not behind:
        return found
    rows = np.unique(np.concatenate([c.rows for c in behind]))
    return [replace(c, behind=rows) if c is first else c for c in found]


def _joined(x: Excess, cause: str, members: list[Culprit], disturbed: Mask, params: Params) -> Culprit:
    rows = np.unique(np.concatenate([c.rows for c in members]))
    hosts = sorted({h for c in members for h in c.hosts}) if all(c.hosts for c in members) else []
    return _culprit(x, cause, rows, disturbed, hosts, params)


def _refined(tables: Tables, x: Excess, c: Culprit, params: Params) -> Culprit:
    """A few interrupted kernels are no slow GPU: something on the host takes the time, now and then or with a period.

    Nor are kernels that are slower only beside communication that takes longer: what holds that up is to blame. Nor are kernels
    that take no longer than the peers', one by one, and only lie in another step. Where ranks do not wait for each other in
    every step, a slow GPU falls behind for several and is seen in the one where they do: then its kernels are longer in all
    steps together by what it was behind.
    """
    if c.saving.sum() < params.least_share * x.run_ns:  # no finding whatever its kind: its kernels need not be read
        return c
    over = np.nan_to_num(x.over[c.cause][c.rows][:, c.steps])
    worst = np.argsort(-over.sum(axis=1), kind="stable")[:COMPARED]
    ranks, peers, total = [int(x.ranks[r]) for r in c.rows[worst]], _peer_ranks(x, c.rows), float(over[worst].sum())
    profile = kernel_profile(tables, ranks, peers, x.part, x.steps[c.steps].tolist())
    if profile is None:
        return c
    width = float(np.median(over))
    if profile.excess_ns < 0.5 * total:
        everywhere = kernel_profile(tables, ranks, peers, x.part, x.steps.tolist())
        if everywhere is None or everywhere.excess_ns < 0.5 * total or everywhere.uniform < 0.5:
            return replace(c, kind="host_stall", much=format_duration(width), late=True)
        return replace(c, steps=np.ones_like(c.steps), much=format_share(everywhere.slower))
    if profile.by_overlap:
        return replace(c, saving=np.zeros_like(c.saving))
    if profile.uniform >= 0.5 or not len(profile.events):
        return replace(c, much=format_share(profile.slower))
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


def _uneven(tables: Tables, x: Excess, disturbed: Mask, lasting: list[int], params: Params) -> Culprit | None:
    """Work that is spread unevenly: a large scatter of compute whose top moves from rank to rank, in all of the step alike."""
    rows = np.setdiff1d(np.arange(len(x.ranks)), np.array(lasting, dtype=np.int64))
    if len(rows) < 3 or len(x.steps) < 4:
        return None
    compute = x.compute[rows]
    whole = np.nan_to_num(x.compute + x.busy_over - np.nan_to_num(x.over["compute"]))
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
    exposed = np.nan_to_num(x.exposed)
    # What another rank, slow or stalled, takes longer than all of these would be waited for all the same.
    even = whole.copy()
    even[rows] -= np.maximum(np.nan_to_num(compute) - middle, 0.0)
    gain = whole.max(axis=0) - even.max(axis=0)
    saving = np.clip(np.minimum(gain, np.median(exposed[rows], axis=0) - exposed.min(axis=0)), 0.0, None)
    if saving.sum() < params.imbalance_share * x.run_ns or not coherent(tables, x, rows):
        return None
    spread_of_step = np.nan_to_num(compute).max(axis=0) / middle - 1.0
    return Culprit("load_imbalance", "compute", rows, saving > 0, saving, float(gain.sum()), [], format_share(float(np.median(spread_of_step))))
