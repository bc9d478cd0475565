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

__all__ = ["EXTRAS", "LOADER", "PARTS", "Partition", "job_steps", "partition_of"]

PARTS = ("compute_ns", "memcpy_ns", "exposed_transfer_ns", "exposed_wait_ns", "idle_ns")
EXTRAS = ("deferrable_ns", "unsure_ns", "alone_ns", "idle_loader_ns", "dataloader_ns")
LOADER = "enumerate(DataLoader)#"
"""How PyTorch's profiler names the wait for the next batch."""
MANY = 8
"""All_reduces of one group and step that may be buckets whatever lies between them."""
_NOT_COMPUTE = r"^(?:c10d::|record_param_comms|gloo:|nccl:)"


@dataclass(frozen=True)
class Partition:
    """Time per rank and step.

    `job`: step, start_ns, end_ns of the job's steps. `rows`: rank, step, PARTS, EXTRAS. `unmatched`: operations whose wait
    is unknown. `on_host`: ranks without GPU work.

    EXTRAS: the part of exposed_transfer_ns that compute could hide (deferrable_ns), the part of operations of which not all
    members were seen and which may be wait instead (unsure_ns), compute with no communication beside it (alone_ns), idle
    time while the rank's host waits in the loader (idle_loader_ns), and dataloader_ns.
    """

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
    try:
        _cache[id(tables)] = (weakref.ref(tables), result)
    except TypeError:  # tables of a class with slots are computed anew each time
        return result
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


@dataclass(frozen=True)
class _Communication:
    """Unions of one rank's communication by what it does; see EXTRAS."""

    deferrable: Intervals = EMPTY
    needed: Intervals = EMPTY
    unsure: Intervals = EMPTY
    wait: Intervals = EMPTY


def _compute(tables: Tables) -> Partition:
    job = job_steps(tables)
    own = tables["steps"].select("rank", "step", "origin").collect()
    taken = {int(str(r)): set(part["step"].to_list() if part["origin"][0] == "annotation" else job["step"].to_list()) for (r,), part in own.group_by("rank")}
    communication, unmatched = _communication(tables)
    loader = _loader(tables)
    spans = with_class(tables["gpu_spans"]).filter(pl.col("op_class").is_in([COMPUTE, "memcpy", "memset"]))
    frames, seen = [], set()
    for rank, part in batches(spans, ("ts_ns", "dur_ns", "op_class")):
        compute, memory = (_union(part.filter((pl.col("op_class") == COMPUTE) == kind)) for kind in (True, False))
        frames.append(_rank_rows(rank, compute, memory, communication.get(rank, _Communication()), loader.get(rank, EMPTY), job))
        seen.add(rank)
    host = tables["host_spans"].filter((pl.col("kind") == "cpu_op") & ~pl.col("rank").is_in(sorted(seen)))
    host = host.filter(~pl.col("name").cast(pl.String).str.contains(_NOT_COMPUTE))
    on_host = []
    for rank, part in batches(host, ("ts_ns", "dur_ns")):
        frames.append(_rank_rows(rank, _union(part), EMPTY, communication.get(rank, _Communication()), loader.get(rank, EMPTY), job))
        on_host.append(rank)
    rows = pl.concat(frames) if frames else pl.DataFrame(schema=_SCHEMA)
    keep = pl.Series("keep", [s in taken.get(r, ()) for r, s in rows.select("rank", "step").iter_rows()], pl.Boolean)
    return Partition(job, rows.filter(keep).sort("rank", "step"), unmatched, tuple(on_host))


_SCHEMA = {"rank": pl.Int32, "step": pl.Int32, **dict.fromkeys((*PARTS, *EXTRAS), pl.Int64)}


def _union(part: pl.DataFrame) -> Intervals:
    start = part["ts_ns"].to_numpy()
    return union(start, start + part["dur_ns"].to_numpy())


def _rank_rows(rank: int, compute: Intervals, memory: Intervals, comm: _Communication, loader: Intervals, job: pl.DataFrame) -> pl.DataFrame:
    windows: Intervals = (job["start_ns"].to_numpy(), job["end_ns"].to_numpy())
    total, idle_loader = partition((compute, memory, comm.deferrable, comm.needed, comm.unsure, comm.wait), windows, loader)
    talking = (comm.deferrable, comm.needed, comm.unsure, comm.wait)
    alone, _ = partition((*talking, compute), windows)
    in_loader, _ = partition((loader,), windows)
    columns = {
        "compute_ns": total[:, 0],
        "memcpy_ns": total[:, 1],
        "exposed_transfer_ns": total[:, 2] + total[:, 3] + total[:, 4],
        "exposed_wait_ns": total[:, 5],
        "idle_ns": total[:, 6],
        "deferrable_ns": total[:, 2],
        "unsure_ns": total[:, 4],
        "alone_ns": alone[:, 4],
        "idle_loader_ns": idle_loader,
        "dataloader_ns": in_loader[:, 0],
    }
    return pl.DataFrame({"rank": np.full(job.height, rank), "step": job["step"].to_numpy(), **columns}, schema=_SCHEMA)


def _communication(tables: Tables) -> tuple[dict[int, _Communication], int]:
    """Per rank its communication, and the number of operations whose wait is not known."""
    waits = tables["arrivals"].select("op_id", "wait_ns")
    full = tables["matches"].select("match_id", (pl.col("present") == pl.col("members")).fill_null(False).alias("full"))
    columns = ("op_id", "rank", "group_id", "step", "start_ns", "end_ns", "match_id")
    found = (
        tables["collectives"].select(*columns, pl.col("operation").cast(pl.String)).join(waits, on="op_id", how="left").join(full, on="match_id", how="left")
    )
    rows = found.collect(engine="streaming")
    rows = rows.with_columns((pl.col("start_ns") + pl.col("wait_ns").fill_null(0)).alias("arrived"), pl.col("full").fill_null(False), _deferrable(rows))
    out = {}
    for (rank,), part in rows.group_by("rank"):
        moving = {
            name: part.filter(mask)
            for name, mask in (("unsure", ~pl.col("full")), ("deferrable", pl.col("full") & pl.col("defer")), ("needed", pl.col("full") & ~pl.col("defer")))
        }
        unions = {name: union(p["arrived"].to_numpy(), p["end_ns"].to_numpy()) for name, p in moving.items()}
        out[int(str(rank))] = _Communication(**unions, wait=union(part["start_ns"].to_numpy(), part["arrived"].to_numpy()))
    return out, int(rows["match_id"].null_count())


def _deferrable(rows: pl.DataFrame) -> pl.Series:
    """Which operations compute could run beside: parameters (all_gather) and gradients (reduce_scatter, all_reduce).

    The result of all_to_all, send and receive is needed at once; so is that of an all_reduce which comes again and again
    with compute between (tensor parallelism), unlike buckets of gradients, which run beside compute or back to back.
    """
    next_start = pl.col("start_ns").shift(-1).over("rank", "group_id", "operation", order_by="start_ns")
    timed = rows.with_columns(
        (next_start - pl.col("end_ns")).alias("gap"), (pl.col("end_ns") - pl.col("start_ns") - pl.col("wait_ns").fill_null(0)).alias("length")
    )
    usual = timed.group_by("group_id", "operation").agg(
        (pl.len() / pl.struct("rank", "step").n_unique()).alias("per_step"), pl.col("gap").median(), pl.col("length").median()
    )
    chained = (pl.col("per_step") > MANY) & (pl.col("gap") > 0.25 * pl.col("length"))
    told = usual.with_columns(
        pl.when(pl.col("operation") == "all_reduce").then(~chained).otherwise(pl.col("operation").is_in(["all_gather", "reduce_scatter"])).alias("defer")
    )
    found = rows.join(told.select("group_id", "operation", "defer"), on=["group_id", "operation"], how="left", nulls_equal=True, maintain_order="left")
    return found["defer"].fill_null(False)


def _loader(tables: Tables) -> dict[int, Intervals]:
    named = pl.col("name").cast(pl.String).str.starts_with(LOADER)
    rows = tables["host_spans"].filter(pl.col("kind").is_in(["annotation", "cpu_op"]) & named).select("rank", "ts_ns", "dur_ns").collect(engine="streaming")
    return {int(str(rank)): _union(part) for (rank,), part in rows.group_by("rank")}
