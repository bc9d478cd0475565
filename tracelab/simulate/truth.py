"""What is true of a simulated job, as plain JSON: clocks, culprits, what each fault cost, and how each rank spent its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracelab.simulate.clocks import EPOCH_NS, Clock
from tracelab.simulate.faults import OF_LINKS
from tracelab.simulate.model import Fault, Outcome

__all__ = ["truth_of"]

_FINDING = {
    "slow_gpu": "compute_straggler",
    "thermal_throttle": "compute_straggler",
    "ecmp_collision": "congestion",
    "no_overlap": "exposed_communication",
    "hang": "collective_hang",
    "numa_misbind": "launch_bound",
}
"""Kinds of findings that tell a fault, where they are called otherwise."""


def truth_of(outcome: Outcome, clocks: Mapping[str, Clock], lost: Sequence[int | None]) -> dict[str, Any]:
    """Times are Unix ns of true time; `lost_s` is what the run would have been shorter without the fault, null where it never ended."""
    scenario = outcome.scenario
    cluster, length = scenario.cluster, (outcome.step_ends or [0])[-1]
    return {
        "schema": "tracelab.truth/1",
        "seed": scenario.seed,
        "layout": scenario.job.layout,
        "world": {"size": cluster.world, "hosts": [cluster.host_name(h) for h in range(cluster.hosts)], "gpus_per_host": cluster.gpus},
        "ranks": [{"rank": r, "host": cluster.host_name(cluster.host_of(r)), "nic": f"mlx5_{cluster.nic_of(r)}"} for r in range(cluster.world)],
        "epoch_ns": EPOCH_NS,
        "run_s": length / 1e9,
        "steps": [{"step": scenario.job.first_step + n, "end_ns": EPOCH_NS + end} for n, end in enumerate(outcome.step_ends)],
        "groups": [{"name": str(g.number), "kind": g.kind, "ranks": list(g.ranks)} for g in outcome.groups],
        "faults": [_fault(outcome, f, cost) for f, cost in zip(scenario.faults, lost, strict=True)],
        "clocks": [_clock(name, clock, length) for name, clock in sorted(clocks.items())],
        "n_collectives": len(outcome.collectives),
    }


def _fault(outcome: Outcome, f: Fault, lost: int | None) -> dict[str, Any]:
    cluster = outcome.scenario.cluster
    ends = [0, *outcome.step_ends]
    steps = outcome.scenario.job.steps
    window = [n for n in range(steps) if f.onset <= (n + 0.5) / steps < f.end]
    stated = {"kind": f.kind, "finding": _FINDING.get(f.kind, f.kind), "size": f.size, "ranks": list(f.ranks), "hosts": [cluster.host_name(h) for h in f.hosts]}
    stated["links"] = [f"{cluster.host_name(h)} mlx5_{f.nic}" for h in f.hosts] if f.kind in OF_LINKS else []
    if window and window[-1] + 1 < len(ends):
        stated |= {"start_ns": EPOCH_NS + ends[window[0]], "end_ns": EPOCH_NS + ends[window[-1] + 1]}
    return stated | {"lost_s": None if lost is None else lost / 1e9, "lost_share": None if lost is None else lost / max(ends[-1], 1)}


def _clock(name: str, clock: Clock, length: int) -> dict[str, Any]:
    at = {f"offset_ns_{when}": clock.error(moment) for when, moment in (("start", 0), ("mid", length // 2), ("end", length))}
    return {"machine": name, **at, "drift_ppm": clock.drift_ppm, "steps": [{"at_ns": EPOCH_NS + t, "step_ns": ns} for t, ns in clock.steps]}
