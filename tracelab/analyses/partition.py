"""Where each rank's time goes, step by step: the partition that breakdown, stragglers and exposure stand on.

Every moment of a step is counted once, for the first that holds: compute, memory operation, a collective that moves data,
a collective that waits for a peer, nothing. The window of a step is the job's: from the moment that the last rank left the
previous step to the moment that the last rank leaves this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl

from tracelab.align.kernels import COMPUTE
from tracelab.analyses.common import batches, clock_of, clocks_apart, gpu_work, host_work, once
from tracelab.analyses.intervals import EMPTY, Intervals, partition, union
from tracelab.analyses.synced import synced_steps
from tracelab.analysis import Tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXTRAS", "LOADER", "PARTS", "Partition", "job_steps", "partition_of", "synced_partition_of"]

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
    is unknown. `on_host`: ranks without GPU work. `windows`: the job's steps by rank, on that rank's clock; those of
    `job` but for hosts that are `apart`, whose clocks could not be aligned. `across`: operations that such hosts share
    with others, so that their waits are unknown.

    EXTRAS: the part of exposed_transfer_ns that compute could hide (deferrable_ns), the part of operations of which not all
    members were seen and which may be wait instead (unsure_ns), compute with no communication beside it (alone_ns), idle
    time while the rank's host waits in the loader (idle_loader_ns), and dataloader_ns.
    """

    job: pl.DataFrame
    rows: pl.DataFrame
    unmatched: int
    on_host: tuple[int, ...]
    windows: Mapping[int, pl.DataFrame]
    apart: tuple[str, ...]
    across: int

    def bounds(self, rank: int, step: int) -> tuple[int, int]:
        """Start and end of a step on the clock of that rank, ns; the job's where the rank has no such step."""
        own = self.windows.get(rank, self.job)
        row = own.filter(pl.col("step") == step)
        row = row if row.height else self.job.filter(pl.col("step") == step)
        return cast("int", row["start_ns"][0]), cast("int", row["end_ns"][0])

    def edges(self, rank: int, steps: Iterable[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`bounds` of many steps."""
        known = {s: (a, b) for frame in (self.job, self.windows.get(rank, self.job)) for s, a, b in frame.select("step", "start_ns", "end_ns").iter_rows()}
        starts, ends = np.array([known[int(s)] for s in steps], dtype=np.int64).reshape(-1, 2).T
        return starts, ends

    def windows_of(self, ranks: list[int]) -> pl.DataFrame:
        """rank, step, start_ns, end_ns of these ranks, in order of start."""
        frames = [self.windows[r].select(pl.lit(r, pl.Int32).alias("rank"), "step", "start_ns", "end_ns") for r in ranks if r in self.windows]
        schema = {"rank": pl.Int32, "step": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64}
        return (pl.concat(frames) if frames else pl.DataFrame(schema=schema)).sort("start_ns", "rank")

    def on_clock(self, step: int) -> list[int]:
        """The ranks on whose clock `job` has that step."""
        row = self.job.filter(pl.col("step") == step).select("start_ns", "end_ns").row(0)
        return sorted(r for r in self.windows if self.bounds(r, step) == row)


def partition_of(tables: Tables) -> Partition:
    """The partition of these tables; computed once while they live, since three analyses ask for it."""
    return once(tables, "partition", lambda: _compute(tables))


def synced_partition_of(tables: Tables) -> Partition:
    """The partition over steps that are cut where all ranks meet (see `synced_steps`), to compare ranks with each other."""
    return once(tables, "synced-partition", lambda: _compute(tables, synced=True))


def job_steps(tables: Tables) -> pl.DataFrame:
    """The job's steps: step, start_ns, end_ns, slowest_rank, spread_ns, in time order.

    A step ends when its last rank ends it, and starts where the previous one ended. Where no rank went straight from the
    previous one to it (the first step, steps left out, another capture) it starts when the last rank started it, unless
    ranks started half a step apart: then with the first one. Hosts whose clocks could not be aligned have steps of their
    own; here is each step on the clock that most ranks share.
    """
    return _reference(_steps_by_clock(tables), clock_of(tables))


def _reference(by_clock: Mapping[str, pl.DataFrame], clocks: Mapping[int, str]) -> pl.DataFrame:
    counts = list(clocks.values())
    order = sorted(by_clock, key=lambda c: (-counts.count(c), c))
    if len(order) == 1:
        return by_clock[order[0]]
    frames = [by_clock[c] for c in order]
    return pl.concat(frames).unique("step", keep="first", maintain_order=True).sort("end_ns", "step") if frames else pl.DataFrame(schema=_JOB)


def _steps_by_clock(tables: Tables) -> dict[str, pl.DataFrame]:
    steps = tables["steps"].collect()
    if (steps["origin"] == "annotation").any():
        steps = steps.filter(pl.col("origin") == "annotation")
    steps = steps.with_columns(pl.col("rank").replace_strict(clock_of(tables), default="", return_dtype=pl.String).alias("clock"))
    return {cast("str", clock): _job_steps(part) for (clock,), part in sorted(steps.group_by("clock"), key=lambda g: str(g[0]))}


def _job_steps(steps: pl.DataFrame) -> pl.DataFrame:
    job = steps.group_by("step").agg(
        pl.col("start_ns").min().alias("first_start"),
        pl.col("start_ns").max().alias("last_start"),
        pl.col("end_ns").max(),
        (pl.col("end_ns").max() - pl.col("end_ns").min()).alias("spread_ns"),
        pl.col("rank").sort_by("end_ns", "rank", descending=[True, False]).first().alias("slowest_rank"),
        (pl.col("end_ns") - pl.col("start_ns")).median().alias("typical"),
    )
    job = job.sort("end_ns", "step").with_columns(pl.col("step").shift(1).alias("before"), pl.col("end_ns").shift(1).alias("previous"))
    at = steps.select("rank", "step", "start_ns").join(job.select("step", "before"), on="step")
    straight = at.join(steps.select("rank", pl.col("step").alias("before"), pl.col("end_ns").alias("left")), on=["rank", "before"])
    followed = straight.filter(pl.col("start_ns") <= pl.col("left"))["step"].unique()
    apart = (pl.col("last_start") - pl.col("first_start")) > 0.5 * pl.col("typical").median()
    opening = pl.when(apart).then(pl.col("first_start")).otherwise(pl.col("last_start"))
    start = pl.when(pl.col("step").is_in(followed.implode())).then(pl.col("previous")).otherwise(pl.max_horizontal(opening, "previous"))
    return job.with_columns(start.alias("start_ns")).select(list(_JOB)).filter(pl.col("end_ns") > pl.col("start_ns"))


_JOB = {"step": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64, "slowest_rank": pl.Int32, "spread_ns": pl.Int64}


@dataclass(frozen=True)
class _Communication:
    """Unions of one rank's communication by what it does; see EXTRAS."""

    deferrable: Intervals = EMPTY
    needed: Intervals = EMPTY
    unsure: Intervals = EMPTY
    wait: Intervals = EMPTY


def _compute(tables: Tables, *, synced: bool = False) -> Partition:
    by_clock, clocks = _steps_by_clock(tables), clock_of(tables)
    if synced:
        on_clock = {c: [r for r, own in sorted(clocks.items()) if own == c] for c in by_clock}
        by_clock = {c: synced_steps(steps, tables["matches"], tables["arrivals"], on_clock[c]) for c, steps in by_clock.items()}
    job = _reference(by_clock, clocks)
    windows = {r: by_clock[c] for r, c in sorted(clocks.items()) if c in by_clock}
    communication, unmatched, across = _communication(tables)
    loader = _loader(tables)
    spans = gpu_work(tables).filter(pl.col("op_class").is_in([COMPUTE, "memcpy", "memset"]))
    frames = []
    seen: set[int] = set()
    for rank, part in batches(spans, ("ts_ns", "dur_ns", "op_class")):
        compute, memory = (_union(part.filter((pl.col("op_class") == COMPUTE) == kind)) for kind in (True, False))
        frames.append(_rank_rows(rank, compute, memory, communication.get(rank, _Communication()), loader.get(rank, EMPTY), windows.get(rank)))
        seen.add(rank)
    host = host_work(tables).filter((pl.col("kind") == "cpu_op") & ~pl.col("rank").is_in(sorted(seen)))
    host = host.filter(~pl.col("name").cast(pl.String).str.contains(_NOT_COMPUTE))
    on_host = []
    for rank, part in batches(host, ("ts_ns", "dur_ns")):
        frames.append(_rank_rows(rank, _union(part), EMPTY, communication.get(rank, _Communication()), loader.get(rank, EMPTY), windows.get(rank)))
        on_host.append(rank)
    rows = _taken(pl.concat(frames) if frames else pl.DataFrame(schema=_SCHEMA), tables)
    return Partition(job, rows.sort("rank", "step"), unmatched, tuple(on_host), windows, clocks_apart(tables), across)


def _taken(rows: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """The rows of steps that the rank took part in; all of them where it marks none."""
    own = tables["steps"].filter(pl.col("origin") == "annotation").select("rank", "step").collect()
    marked = pl.col("rank").is_in(own["rank"].unique().implode())
    known = rows.join(own, on=["rank", "step"], how="semi")
    unmarked = rows.filter(~marked).join(tables["steps"].select("rank").unique().collect(), on="rank", how="semi")
    return pl.concat([known, unmarked])


_SCHEMA = {"rank": pl.Int32, "step": pl.Int32, **dict.fromkeys((*PARTS, *EXTRAS), pl.Int64)}


def _union(part: pl.DataFrame) -> Intervals:
    start = part["ts_ns"].to_numpy()
    return union(start, start + part["dur_ns"].to_numpy())


def _rank_rows(rank: int, compute: Intervals, memory: Intervals, comm: _Communication, loader: Intervals, job: pl.DataFrame | None) -> pl.DataFrame:
    if job is None:  # the rank's clock has no step
        return pl.DataFrame(schema=_SCHEMA)
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


def _communication(tables: Tables) -> tuple[dict[int, _Communication], int, int]:
    """Per rank its communication; the number of operations that were not matched, and of those that were but across clocks."""
    waits = tables["arrivals"].select("op_id", "wait_ns")
    full = tables["matches"].select("match_id", (pl.col("present") == pl.col("members")).fill_null(False).alias("full"))
    columns = ("op_id", "rank", "group_id", "step", "start_ns", "end_ns", "match_id")
    found = (
        tables["collectives"].select(*columns, pl.col("operation").cast(pl.String)).join(waits, on="op_id", how="left").join(full, on="match_id", how="left")
    )
    rows = found.collect(engine="streaming")
    known = pl.col("full").fill_null(False) & pl.col("wait_ns").is_not_null()
    rows = rows.with_columns((pl.col("start_ns") + pl.col("wait_ns").fill_null(0)).alias("arrived"), known.alias("full"), _deferrable(rows))
    out = {}
    for (rank,), part in rows.group_by("rank"):
        moving = {
            name: part.filter(mask)
            for name, mask in (("unsure", ~pl.col("full")), ("deferrable", pl.col("full") & pl.col("defer")), ("needed", pl.col("full") & ~pl.col("defer")))
        }
        unions = {name: union(p["arrived"].to_numpy(), p["end_ns"].to_numpy()) for name, p in moving.items()}
        out[cast("int", rank)] = _Communication(**unions, wait=union(part["start_ns"].to_numpy(), part["arrived"].to_numpy()))
    across = rows.filter(pl.col("match_id").is_not_null() & pl.col("wait_ns").is_null())["match_id"].n_unique()
    return out, int(rows["match_id"].null_count()), across


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
    rows = host_work(tables).filter(pl.col("kind").is_in(["annotation", "cpu_op"]) & named).select("rank", "ts_ns", "dur_ns").collect(engine="streaming")
    return {cast("int", rank): _union(part) for (rank,), part in rows.group_by("rank")}
