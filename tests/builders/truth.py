"""What an analysis of a simulated job should find, worked out from the simulation's own timeline."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable
from typing import Any

from tests.builders.job import Job, Operation, Simulation

Interval = tuple[int, int]


def truth_of(run: Simulation) -> dict[str, Any]:
    """The truth as plain JSON types; ranks are strings where they are keys, times are nanoseconds on the common clock.

    The common clock is the mean of the host clocks. `collectives` are in the order in which the job issued them;
    `present` are the ranks whose kernel is in a file. All else is true of the job, whether or not a file shows it.
    """
    job = run.job
    kernels = {(s.rank, id(s.collective)) for r in range(job.world) for s in run.written(r) if s.stream is not None and s.collective is not None}
    return {
        "generation": job.generation,
        "world": job.world,
        "missing_ranks": sorted(job.missing),
        "hosts": {str(r): job.host(r) for r in range(job.world)},
        "clock_correction_ns": {h: -job.clock_error(h) for h in sorted({job.host(r) for r in range(job.world)})},
        "wall_ns": run.wall_ns,
        "steps": [_step(run, step) for step in range(job.first_step, job.first_step + job.steps)],
        "collectives": [_collective(op, kernels) for op in run.operations],
        "per_rank": {str(r): _rank_times(run, r) for r in range(job.world)},
        "culprits": _culprits(run),
    }


def _step(run: Simulation, step: int) -> dict[str, Any]:
    ranks = range(run.job.world)
    return {"step": step, "start_ns": {str(r): run.step_starts[r, step] for r in ranks}, "end_ns": {str(r): _step_end(run, r, step) for r in ranks}}


def _step_end(run: Simulation, rank: int, step: int) -> int:
    after = run.step_starts.get((rank, step + 1))
    return after if after is not None else max(s.end for s in run.spans if s.rank == rank)


def _collective(op: Operation, kernels: set[tuple[int, int]]) -> dict[str, Any]:
    last = max(op.starts.values())
    rank = max(op.starts, key=lambda r: op.starts[r])
    return {
        "group": list(op.group),
        "group_kind": op.kind,
        "operation": op.operation,
        "step": op.step,
        "stream": op.stream,
        "seq": op.seq,
        "bytes": max(op.elements_in, op.elements_out) * (4 if op.dtype == "Float" else 2),
        "present": [r for r in op.group if (r, id(op)) in kernels],
        "start_ns": {str(r): t for r, t in op.starts.items()},
        "end_ns": {str(r): t for r, t in op.ends.items()},
        "last_rank": rank,
        "last_by_ns": last - sorted(op.starts.values())[-2],
        "wait_ns": {str(r): last - t for r, t in op.starts.items()},
        "transfer_ns": round(statistics.median(op.ends.values())) - last,
    }


def _rank_times(run: Simulation, rank: int) -> dict[str, int]:
    """The rank's step time, each moment given to the first of compute, copy, transfer, wait that is going on, else idle."""
    mine = [s for s in run.spans if s.rank == rank]
    ops = [s for s in mine if s.collective is not None and s.stream is not None]
    arrivals = [max(s.collective.starts.values()) for s in ops if s.collective is not None]
    layers: list[list[Interval]] = [
        [(s.start, s.end) for s in mine if s.category == "kernel" and s.collective is None],
        [(s.start, s.end) for s in mine if s.category == "gpu_memcpy"],
        [(last, s.end) for s, last in zip(ops, arrivals, strict=True)],
        [(s.start, last) for s, last in zip(ops, arrivals, strict=True)],
    ]
    first, final = run.job.first_step, run.job.first_step + run.job.steps - 1
    window = (run.step_starts[rank, first], _step_end(run, rank, final))
    compute, memcpy, transfer, wait, idle = _partition(window, layers)
    loading = sum(s.end - s.start for s in mine if "DataLoader" in s.name)
    return {"compute_ns": compute, "memcpy_ns": memcpy, "exposed_transfer_ns": transfer, "exposed_wait_ns": wait, "idle_ns": idle, "dataloader_ns": loading}


def _partition(window: Interval, layers: list[list[Interval]]) -> list[int]:
    """Time of `window` per layer, a moment going to the first layer that covers it; the last number is covered by none."""
    changes: list[tuple[int, int, int]] = []
    for layer, intervals in enumerate(layers):
        for start, end in _clipped(intervals, window):
            changes += [(start, layer, 1), (end, layer, -1)]
    totals, active, at = [0] * (len(layers) + 1), [0] * len(layers), window[0]
    for moment, layer, change in sorted(changes):
        owner = next((i for i, n in enumerate(active) if n), len(layers))
        totals[owner] += moment - at
        active[layer] += change
        at = moment
    totals[-1] += window[1] - at
    return totals


def _clipped(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    cut = [(max(a, window[0]), min(b, window[1])) for a, b in intervals]
    return [(a, b) for a, b in cut if b > a]


def _culprits(run: Simulation) -> list[dict[str, Any]]:
    """Each fault with the wall time that the job saves without it: the same job is run again, same randomness, fault off."""
    job = run.job
    slow = sorted(r for r, factor in job.slow.items() if factor > 1)
    stalled = sorted({r for r, _ in job.loader_stalls})
    found: list[tuple[str, list[int], list[int], Job]] = []
    if slow:
        found.append(("compute_straggler", slow, [], dataclasses.replace(job, slow={})))
    if stalled:
        found.append(("input_stall", stalled, sorted({s for _, s in job.loader_stalls}), dataclasses.replace(job, loader_stalls={})))
    return [{"kind": kind, "ranks": ranks, "steps": steps, "saved_ns": run.wall_ns - Simulation(without).wall_ns} for kind, ranks, steps, without in found]
