"""Where each rank's time goes, step by step: the partition that breakdown, stragglers and exposure stand on.

Every moment of a step is counted once, for the first that holds: compute, memory operation, a collective that moves data,
a collective that waits for a peer, nothing. The window of a step is the job's: from the moment that the last rank left the
previous step to the moment that the last rank leaves this one.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracelab.align.kernels import COMPUTE, with_class
from tracelab.analyses.common import batches
from tracelab.analyses.intervals import EMPTY, Intervals, partition, union
from tracelab.analysis import Tables

__all__ = ["LOADER", "PARTS", "Partition", "job_steps", "partition_of"]

PARTS = ("compute_ns", "memcpy_ns", "exposed_transfer_ns", "exposed_wait_ns", "idle_ns")
LOADER = "enumerate(DataLoader)#"
"""How PyTorch's profiler names the wait for the next batch."""
_NOT_COMPUTE = r"^(?:c10d::|record_param_comms|gloo:|nccl:)"


@dataclass(frozen=True)
class Partition:
    """`job`: step, start_ns, end_ns of the job's steps. `rows`: rank, step, PARTS, idle_loader_ns (idle while the rank's host
    waits in the loader) and dataloader_ns. `unmatched`: operations whose wait is unknown. `on_host`: ranks without GPU work."""

    job: pl.DataFrame
    rows: pl.DataFrame
    unmatched: int
    on_host: tuple[int, ...]


_cache: dict[int, tuple[weakref.ref[Tables], Partition]] = {}


def partition_of(tables: Tables) -> Partition:
    """The partition of these tables; computed once while they live, since three analyses ask for it."""
    held = _cache.get(id(tables))
    if held is not None and held[0]() is tables:
        return held[1]
    result = _compute(tables)
    _cache.clear()
    _cache[id(tables)] = (weakref.ref(tables), result)
    return result


def job_steps(tables: Tables) -> pl.DataFrame:
    """The job's steps: step, start_ns, end_ns, slowest_rank, spread_ns, in time order.

    A step ends when its last rank ends it, and starts where the previous one ended, or after a gap of two median steps
    with its first rank. The first step starts when the last rank started it, unless ranks started half a step apart.
    """
    steps = tables["steps"].collect()
    if (steps["origin"] == "annotation").any():
        steps = steps.filter(pl.col("origin") == "annotation")
    job = steps.group_by("step").agg(
        pl.col("start_ns").min().alias("first_start"),
        pl.col("start_ns").max().alias("last_start"),
        pl.col("end_ns").max(),
        (pl.col("end_ns").max() - pl.col("end_ns").min()).alias("spread_ns"),
        pl.col("rank").sort_by("end_ns", "rank", descending=[True, False]).first().alias("slowest_rank"),
        (pl.col("end_ns") - pl.col("start_ns")).median().alias("typical"),
    )
    job = job.sort("end_ns", "step")
    typical = pl.col("typical").median()
    previous = pl.col("end_ns").shift(1)
    apart = (pl.col("last_start") - pl.col("first_start")) > 0.5 * typical
    opening = pl.when(apart).then(pl.col("first_start")).otherwise(pl.col("last_start"))
    broken = previous.is_null() | ((pl.col("first_start") - previous) > 2 * typical)
    job = job.with_columns(pl.when(broken).then(pl.max_horizontal(opening, previous)).otherwise(previous).alias("start_ns"))
    return job.select("step", "start_ns", "end_ns", "slowest_rank", "spread_ns").filter(pl.col("end_ns") > pl.col("start_ns"))


def _compute(tables: Tables) -> Partition:
    job = job_steps(tables)
    windows: Intervals = (job["start_ns"].to_numpy(), job["end_ns"].to_numpy())
    numbers = job["step"].to_numpy()
    own = tables["steps"].select("rank", "step", "origin").collect()
    taken = {r: set(part["step"].to_list()) if part["origin"][0] == "annotation" else set(numbers.tolist()) for (r,), part in own.group_by("rank")}
    communication, unmatched = _communication(tables)
    loader = _loader(tables)
    spans = with_class(tables["gpu_spans"]).filter(pl.col("op_class").is_in([COMPUTE, "memcpy", "memset"]))
    frames, seen = [], set()
    for rank, part in batches(spans, ("ts_ns", "dur_ns", "op_class")):
        kinds = {c: _union(part.filter((pl.col("op_class") == COMPUTE) == (c == COMPUTE))) for c in (COMPUTE, "memory")}
        frames.append(_rank_rows(rank, (kinds[COMPUTE], kinds["memory"]), communication.get(rank, (EMPTY, EMPTY)), loader.get(rank, EMPTY), windows, numbers))
        seen.add(rank)
    host = tables["host_spans"].filter((pl.col("kind") == "cpu_op") & ~pl.col("rank").is_in(sorted(seen)))
    host = host.filter(~pl.col("name").cast(pl.String).str.contains(_NOT_COMPUTE))
    on_host = []
    for rank, part in batches(host, ("ts_ns", "dur_ns")):
        frames.append(_rank_rows(rank, (_union(part), EMPTY), communication.get(rank, (EMPTY, EMPTY)), loader.get(rank, EMPTY), windows, numbers))
        on_host.append(rank)
    rows = pl.concat(frames) if frames else pl.DataFrame(schema=_SCHEMA)
    keep = pl.Series("keep", [s in taken.get(r, ()) for r, s in rows.select("rank", "step").iter_rows()], pl.Boolean)
    return Partition(job, rows.filter(keep).sort("rank", "step"), unmatched, tuple(on_host))


_SCHEMA = {"rank": pl.Int32, "step": pl.Int32, **dict.fromkeys((*PARTS, "idle_loader_ns", "dataloader_ns"), pl.Int64)}


def _union(part: pl.DataFrame) -> Intervals:
    start = part["ts_ns"].to_numpy()
    return union(start, start + part["dur_ns"].to_numpy())


def _rank_rows(rank: int, work: tuple[Intervals, Intervals], comm: tuple[Intervals, Intervals], loader: Intervals, windows: Intervals, steps: np.ndarray) -> pl.DataFrame:
    total, idle_loader = partition((*work, *comm), windows, loader)
    in_loader, _ = partition((loader,), windows)
    columns = {name: total[:, n] for n, name in enumerate(PARTS)}
    return pl.DataFrame({"rank": np.full(len(steps), rank), "step": steps, **columns, "idle_loader_ns": idle_loader, "dataloader_ns": in_loader[:, 0]}, schema=_SCHEMA)


def _communication(tables: Tables) -> tuple[dict[int, tuple[Intervals, Intervals]], int]:
    """Per rank the unions of transfer and of wait, and the number of operations whose wait is not known."""
    waits = tables["arrivals"].select("op_id", "wait_ns")
    rows = tables["collectives"].select("op_id", "rank", "start_ns", "end_ns", "match_id").join(waits, on="op_id", how="left").collect(engine="streaming")
    out = {}
    for (rank,), part in rows.group_by("rank"):
        start, end = part["start_ns"].to_numpy(), part["end_ns"].to_numpy()
        arrived = start + part["wait_ns"].fill_null(0).to_numpy()
        out[int(str(rank))] = (union(arrived, end), union(start, arrived))
    return out, int(rows["match_id"].null_count())


def _loader(tables: Tables) -> dict[int, Intervals]:
    named = pl.col("name").cast(pl.String).str.starts_with(LOADER)
    rows = tables["host_spans"].filter(pl.col("kind").is_in(["annotation", "cpu_op"]) & named).select("rank", "ts_ns", "dur_ns").collect(engine="streaming")
    return {int(str(rank)): _union(part) for (rank,), part in rows.group_by("rank")}
