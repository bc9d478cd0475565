"""GPUs without work: because the host launches too slowly, or because it launches nothing at all for a while."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import COMMUNICATION, COMPUTE
from tracelab.analyses.common import batches, gpu_work, host_work
from tracelab.analyses.intervals import EMPTY, Intervals, partition, union
from tracelab.analyses.partition import Partition
from tracelab.analysis import Tables

__all__ = ["STARVED", "starvation"]

Int = NDArray[np.int64]

STARVED = {"rank": pl.Int32, "step": pl.Int32, "starved_ns": pl.Int64, "paused_ns": pl.Int64, "meanwhile_ns": pl.Int64}
WORK = (COMPUTE, "memcpy", "memset")
TIMES_CADENCE = 10
"""A host that launches nothing for ten times its usual interval has paused …"""
LEAST_PAUSE_NS = 1_000_000
"""… if it is a millisecond at least, in which a host that is busy launching launches a hundred times."""


def starvation(tables: Tables, part: Partition, queue_ns: int) -> pl.DataFrame:
    """Time without work before work that started as soon as it was launched, per rank and step (STARVED, ns).

    The queue was empty. `starved_ns` is the time in which the host launched at its usual pace, `paused_ns` that in which it
    launched nothing for much longer than usual. Work is compute and copies: a kernel of communication that waits for a peer
    hides nothing; one that moves data does, and is taken off (`meanwhile_ns`: faster launches might hide it). A wait before
    work that had been launched long ago has another reason (a dependency). Without what the loader took.
    """
    calls = host_work(tables).filter(pl.col("kind").is_in(["runtime", "driver"]) & pl.col("correlation").is_not_null())
    calls = calls.select("source_id", "part", "correlation", pl.col("ts_ns").alias("launch"), (pl.col("ts_ns") + pl.col("dur_ns")).alias("launched"))
    work = gpu_work(tables).filter(pl.col("op_class").is_in([*WORK, COMMUNICATION]))
    work = work.select("rank", "source_id", "part", "correlation", "ts_ns", "dur_ns", "op_class")
    joined = work.join(calls.unique(["source_id", "part", "correlation"]), on=["source_id", "part", "correlation"], how="left")
    moving = _moving(tables)
    frames = []
    for rank, rows in batches(joined, ("ts_ns", "dur_ns", "op_class", "launch", "launched")):
        windows = part.windows.get(rank)
        if windows is None:
            continue
        gaps = _gaps(rows, queue_ns)
        limits = np.iinfo(np.int64)
        between = (np.append(limits.min // 2, gaps[1]), np.append(gaps[0], limits.max // 2))
        bounds = (windows["start_ns"].to_numpy(), windows["end_ns"].to_numpy())
        total, paused = partition((between, moving.get(rank, EMPTY)), bounds, _pauses(rows))
        times = {"starved_ns": total[:, 2] - paused, "paused_ns": paused, "meanwhile_ns": total[:, 1]}
        frames.append(pl.DataFrame({"rank": np.full(windows.height, rank), "step": windows["step"].to_numpy(), **times}, schema=STARVED))
    if not frames:
        return pl.DataFrame(schema=STARVED)
    # A host that launches nothing while its GPU waits for a peer may be waiting for that peer itself.
    idle = part.rows.select("rank", "step", (pl.col("idle_ns") - pl.col("idle_loader_ns")).alias("idle"), "exposed_wait_ns")
    found = pl.concat(frames).join(idle, on=["rank", "step"]).with_columns(pl.min_horizontal("starved_ns", pl.col("idle") + pl.col("exposed_wait_ns")))
    left = pl.col("idle") + pl.col("exposed_wait_ns") - pl.col("starved_ns")
    return found.select("rank", "step", "starved_ns", pl.min_horizontal("paused_ns", "idle", left), "meanwhile_ns")


def _gaps(rows: pl.DataFrame, queue_ns: int) -> Intervals:
    """The times without work before work that was launched into an empty queue."""
    work = rows.filter(pl.col("op_class").is_in(WORK)).sort("ts_ns")
    work = work.with_columns((pl.col("ts_ns") + pl.col("dur_ns")).cum_max().shift(1).alias("before"))
    prompt = (pl.col("ts_ns") - pl.max_horizontal("launch", "launched") <= queue_ns) & (pl.col("launch") > pl.col("before") - queue_ns)
    found = work.filter((pl.col("ts_ns") > pl.col("before")) & prompt)
    return union(found["before"].to_numpy(), found["ts_ns"].to_numpy())


def _pauses(rows: pl.DataFrame) -> Intervals:
    """The times in which the host of a rank launched nothing for much longer than usual."""
    launches = rows.filter(pl.col("launch").is_not_null()).sort("launch")
    if launches.height < 2:
        return EMPTY
    start, end = launches["launch"].to_numpy(), np.maximum.accumulate(launches["launched"].to_numpy())
    interval = np.diff(start)
    usual = int(np.median(interval))
    long = interval > max(TIMES_CADENCE * usual, LEAST_PAUSE_NS)
    return union(end[:-1][long] + usual, start[1:][long])


def _moving(tables: Tables) -> dict[int, Intervals]:
    """Per rank the times in which a collective moved data: from its last arrival, or its start where that is unknown."""
    waits = tables["arrivals"].select("op_id", "wait_ns")
    rows = tables["collectives"].select("op_id", "rank", "start_ns", "end_ns").join(waits, on="op_id", how="left").collect(engine="streaming")
    rows = rows.with_columns((pl.col("start_ns") + pl.col("wait_ns").fill_null(0)).alias("from"))
    return {int(str(rank)): union(p["from"].to_numpy(), p["end_ns"].to_numpy()) for (rank,), p in rows.group_by("rank")}
