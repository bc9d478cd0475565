"""How much longer than its peers each rank was busy, step by step, and what the job would have saved without that.

Only durations are compared, each taken on one clock, so the clocks of the hosts do not matter. A rank's own time is split into four
causes (compute, memory operations, waiting for the loader, idle for another reason); what it spent in communication that
nothing hides says who waited for whom: the culprit waits least.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import COMPUTE
from tracelab.analyses.common import gpu_work
from tracelab.analyses.partition import Partition, synced_partition_of
from tracelab.analysis import Tables

__all__ = ["CAUSES", "Excess", "excess_of", "median_of", "pipeline_positions"]

Float = NDArray[np.float64]

CAUSES = ("compute", "memory", "input", "host")
SAME_WORK = 0.98
"""Ranks whose counts of kernels by name have at least this cosine run the same program."""


@dataclass(frozen=True)
class Excess:
    """Arrays are (ranks, steps) in ns, NaN where a rank has no such step.

    `over[cause]` is the time above the peers' lower quartile of the step, `noise[cause]` its usual scatter (standard
    deviation, robust); `exposed` the communication that nothing hides; `length` the job's step lengths, shape (steps,).
    `stage` is the position of each rank in its pipeline, -1 without one; `microbatches` per step of the pipeline.
    `on_host`: no rank has GPU work. `left_out`: ranks without GPU work where others have some; nothing is said about them.
    """

    part: Partition
    ranks: NDArray[np.int64]
    steps: NDArray[np.int64]
    length: Float
    over: dict[str, Float]
    noise: dict[str, float]
    compute: Float
    exposed: Float
    stage: NDArray[np.int64]
    peers: list[NDArray[np.int64]]
    microbatches: float
    on_host: bool
    left_out: tuple[int, ...]

    @property
    def run_ns(self) -> float:
        """Length of all analysed steps."""
        return float(self.length.sum())

    @property
    def busy_over(self) -> Float:
        """Excess over all causes."""
        return np.asarray(np.nansum([self.over[c] for c in CAUSES], axis=0), dtype=np.float64)

    def saving(self, members: NDArray[np.int64], causes: Iterable[str], steps: NDArray[np.bool_]) -> Float:
        """Per step (ns), what the job would have saved had these rows not exceeded their peers for those causes.

        Never more than the difference to the next slowest rank, nor than what the others waited beyond the members.
        """
        busy = self.busy_over
        without = busy.copy()
        for cause in causes:
            without[members] -= np.nan_to_num(np.maximum(self.over[cause][members], 0.0))
        gain = busy.max(axis=0) - without.max(axis=0)
        return np.where(steps, np.clip(np.minimum(gain, self.blame(members)), 0.0, None), 0.0)

    def blame(self, members: NDArray[np.int64]) -> Float:
        """Per step (ns), how much longer the others were in exposed communication than the member that was in it least."""
        others = np.setdiff1d(np.arange(len(self.ranks)), members)
        if not len(others):
            return np.zeros(len(self.steps))
        exposed = np.where(np.isnan(self.exposed), 0.0, self.exposed)
        return np.asarray(np.median(exposed[others], axis=0) - exposed[members].min(axis=0), dtype=np.float64)


def excess_of(tables: Tables) -> Excess | None:
    """The excess of these tables, or None with fewer than two ranks or no step to compare.

    Where some ranks have GPU work, those without are left out: what their hosts did is no measure for a GPU.
    """
    part = synced_partition_of(tables)
    bare = pl.col("rank").is_in(part.on_host)
    on_host = part.rows.filter(~bare).height == 0
    left_out = () if on_host else tuple(sorted(part.rows.filter(bare)["rank"].unique().to_list()))
    part = part if on_host else replace(part, rows=part.rows.filter(~bare))
    rows = part.rows
    if rows["rank"].n_unique() < 2:
        return None
    ranks, steps = np.sort(rows["rank"].unique().to_numpy()).astype(np.int64), part.job["step"].to_numpy().astype(np.int64)
    at = {int(s): n for n, s in enumerate(steps)}
    where = (np.searchsorted(ranks, rows["rank"].to_numpy()), np.array([at[int(s)] for s in rows["step"]], dtype=np.int64))

    def grid(expression: pl.Expr) -> Float:
        out = np.full((len(ranks), len(steps)), np.nan)
        out[where] = rows.select(expression).to_series().to_numpy()
        return out

    values = {
        "compute": grid(pl.col("compute_ns")),
        "memory": grid(pl.col("memcpy_ns")),
        "input": grid(pl.col("idle_loader_ns")),
        "host": grid(pl.col("idle_ns") - pl.col("idle_loader_ns")),
    }
    if on_host:  # what runs on the CPU is not the GPU's speed: all time outside communication is the host's
        values["host"], values["compute"] = values["host"] + values["compute"], np.where(np.isnan(values["compute"]), np.nan, 0.0)
    length = (part.job["end_ns"] - part.job["start_ns"]).to_numpy().astype(np.float64)
    stage, micro = pipeline_positions(tables, ranks)
    peers = _peers(tables, ranks, stage)
    over = {c: _over(v, peers) for c, v in values.items()}
    typical = float(np.median(length))
    noise = {c: max(_scatter(o), 0.003 * typical) for c, o in over.items()}
    exposed = grid(pl.col("exposed_wait_ns") + pl.col("exposed_transfer_ns"))
    return Excess(part, ranks, steps, length, over, noise, values["compute"], exposed, stage, peers, micro, on_host, left_out)


def median_of(values: Float, axis: int) -> Float:
    """The median without NaN; 0 where there is nothing else."""
    known = ~np.isnan(values).all(axis=axis, keepdims=True)
    return np.asarray(np.nanmedian(np.where(known, values, 0.0), axis=axis), dtype=np.float64)


def _over(values: Float, peers: list[NDArray[np.int64]]) -> Float:
    """Values above the lower quartile of the peers (the smaller one of two); 0 for a rank without peers.

    The quartile and not the median: faults make ranks slower, and half of the ranks may share a host that is.
    """
    out = np.where(np.isnan(values), np.nan, 0.0)
    for rows in peers:
        if len(rows) < 2:
            continue
        seen = ~np.isnan(values[rows]).all(axis=0)
        base = np.zeros(values.shape[1])
        base[seen] = np.nanquantile(values[np.ix_(rows, np.flatnonzero(seen))], 0.0 if len(rows) == 2 else 0.25, axis=0)
        out[rows] = values[rows] - base
    return out


def _scatter(over: Float) -> float:
    """Standard deviation of the undisturbed part: the shortest interval with 35 % of the values spans 0.91 of it if they are normal.

    It stays with the bulk however many ranks are slow (up to half) or, for once, fast.
    """
    known = np.sort(over[~np.isnan(over)])
    held = int(np.ceil(0.35 * len(known)))
    if held < 2:
        return 0.0
    return float((known[held - 1 :] - known[: len(known) - held + 1]).min()) / 0.908


def _peers(tables: Tables, ranks: NDArray[np.int64], stage: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows of ranks that do the same work: same pipeline stage, same kernels by name and number."""
    spans = gpu_work(tables).filter(pl.col("op_class") == COMPUTE)
    counts = spans.group_by("rank", "name").agg(pl.len()).with_columns(pl.col("name").cast(pl.String)).collect(engine="streaming")
    programs: dict[int, Counter[str]] = defaultdict(Counter)
    for rank, name, n in counts.iter_rows():
        programs[rank][name] = n
    sets: list[list[int]] = []
    for row, rank in enumerate(ranks):
        fitting = [s for s in sets if stage[s[0]] == stage[row] and _cosine(programs[int(ranks[s[0]])], programs[int(rank)]) >= SAME_WORK]
        if fitting:
            fitting[0].append(row)
        else:
            sets.append([row])
    return [np.array(s, dtype=np.int64) for s in sets]


def _cosine(a: Counter[str], b: Counter[str]) -> float:
    if not a or not b:
        return 1.0 if not a and not b else 0.0
    dot = sum(n * b[k] for k, n in a.items())
    return float(dot / np.sqrt(float(sum(n * n for n in a.values())) * float(sum(n * n for n in b.values()))))


def pipeline_positions(tables: Tables, ranks: Iterable[int]) -> tuple[NDArray[np.int64], float]:
    """Position of each rank in its pipeline (-1: none) and micro-batches per step, from who sends to whom.

    Ranks joined by sends form a pipeline; its ranks in order are the stages. Only pipelines of equal length whose sends
    go to neighbours (or around the end) count as such.
    """
    ranks = list(ranks)
    none = np.full(len(ranks), -1, dtype=np.int64)
    sends = (
        tables["collectives"]
        .filter((pl.col("operation") == "send") & pl.col("peer").is_not_null() & pl.col("match_id").is_not_null())
        .group_by("rank", "peer", "step")
        .agg(pl.len())
        .collect(engine="streaming")
    )
    if not sends.height:
        return none, 0.0
    chains: list[set[int]] = []
    for a, b in sends.select("rank", "peer").unique().sort("rank", "peer").iter_rows():
        touched = [c for c in chains if a in c or b in c]
        chains = [c for c in chains if c not in touched] + [{a, b}.union(*touched)]
    position = {r: n for c in chains for n, r in enumerate(sorted(c))}
    size = len(chains[0])
    hops = {abs(position[a] - position[b]) for a, b in sends.select("rank", "peer").iter_rows()}
    if any(len(c) != size for c in chains) or not hops <= {1, size - 1}:
        return none, 0.0
    return np.array([position.get(int(r), -1) for r in ranks], dtype=np.int64), float(sends["len"].median() or 0)  # type: ignore[arg-type]
