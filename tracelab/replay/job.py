"""The job as it was, ready to be run again: from the tables to nodes, and from new ends to new step lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import unclamped
from tracelab.replay.engine import replay
from tracelab.replay.work import Nodes, RankWork, contract

__all__ = ["Job", "job_of"]

Int = NDArray[np.int64]

_SYNC = r"(?i)synchronize$|^cudaMemcpy$|^hipMemcpy$|^cuMemcpy(DtoH|HtoD)_v2$"


class Frames(Protocol):
    """Tables by name."""

    def __getitem__(self, name: str) -> pl.LazyFrame:
        """The table of that name."""


@dataclass(frozen=True)
class Job:
    """Nodes by rank, and the steps to measure: `ends` are those of the job's steps, `first` the start of the first one."""

    nodes: dict[int, Nodes]
    first: int
    ends: Int

    def step_lengths(self, transfer_ns: Mapping[int, int]) -> NDArray[np.float64]:
        """Lengths (ns) of all steps with other transfers: a step ends when the last work of any rank in it ends."""
        return np.diff(np.concatenate([[0.0], self._step_ends(transfer_ns)]))

    def saving(self, transfer_ns: Mapping[int, int]) -> NDArray[np.float64]:
        """By how much (ns) each step becomes shorter with other transfers."""
        return self.step_lengths({}) - self.step_lengths(transfer_ns)

    def _step_ends(self, transfer_ns: Mapping[int, int]) -> NDArray[np.float64]:
        new = replay(self.nodes, transfer_ns).end
        out = np.zeros(len(self.ends))
        for rank, nodes in self.nodes.items():
            step = np.searchsorted(self.ends, nodes.end - 1)
            inside = (step < len(self.ends)) & (nodes.end > self.first)
            np.maximum.at(out, step[inside], (new[rank][inside] - self.first).astype(np.float64))
        return np.maximum.accumulate(out)


def job_of(tables: Frames, steps: pl.DataFrame) -> Job | None:
    """The job of these tables in `steps` (start_ns, end_ns, in order); None without steps or GPU work.

    Reads the work and the launches of all ranks: memory grows with their number, 60 bytes per piece of GPU work.
    """
    if not steps.height:
        return None
    spans = unclamped(tables["gpu_spans"]).filter(pl.col("kind").cast(pl.String).is_in(["kernel", "memcpy", "memset"]))
    spans = spans.filter(pl.col("ts_ns") < steps["end_ns"][-1])
    matched = tables["collectives"].select("source_id", "rank", "stream", "source_ts_ns", "group_id", pl.col("operation").cast(pl.String), "match_id")
    calls = unclamped(tables["host_spans"]).filter(pl.col("kind").cast(pl.String).is_in(["runtime", "driver"]))
    nodes = {}
    for (rank,) in tables["ranks"].select("rank").collect().iter_rows():
        mine = pl.col("rank") == rank
        work = _work(spans.filter(mine), matched.filter(mine), calls.filter(mine))
        if work is not None:
            nodes[rank] = contract(work)
    return Job(nodes, int(steps["start_ns"][0]), steps["end_ns"].to_numpy().astype(np.int64)) if nodes else None


def _work(spans: pl.LazyFrame, matched: pl.LazyFrame, calls: pl.LazyFrame) -> RankWork | None:
    host = calls.select("source_id", "part", "correlation", "ts_ns", "dur_ns", pl.col("name").cast(pl.String)).collect(engine="streaming")
    launches = host.filter(pl.col("correlation").is_not_null()).unique(["source_id", "part", "correlation"], keep="first", maintain_order=True)
    rows = spans.select("source_id", "part", "stream", "source_ts_ns", "ts_ns", "dur_ns", "correlation").collect(engine="streaming")
    if not rows.height:
        return None
    rows = rows.join(launches.select("source_id", "part", "correlation", pl.col("ts_ns").alias("launch")), on=["source_id", "part", "correlation"], how="left")
    found = matched.unique(["source_id", "stream", "source_ts_ns"], keep="first", maintain_order=True).drop("rank").collect(engine="streaming")
    rows = rows.join(found, on=["source_id", "stream", "source_ts_ns"], how="left", nulls_equal=True).sort("ts_ns", "stream", "dur_ns")
    kind = pl.struct("group_id", "operation").rank("dense").cast(pl.Int64)
    values = rows.select(
        start="ts_ns",
        end=pl.col("ts_ns") + pl.col("dur_ns"),
        stream=pl.col("stream").fill_null(-1),
        launch=pl.col("launch").fill_null(-1),
        match=pl.when(pl.col("operation").is_not_null()).then(pl.col("match_id").fill_null(-2)).otherwise(-1),
        kind=kind,
    )
    waits = host.filter(pl.col("name").str.contains(_SYNC)).sort("ts_ns").select("ts_ns", end=pl.col("ts_ns") + pl.col("dur_ns")).sort("end")
    arrays = {name: values[name].to_numpy().astype(np.int64) for name in values.columns}
    return RankWork(**arrays, sync_start=waits["ts_ns"].to_numpy().astype(np.int64), sync_end=waits["end"].to_numpy().astype(np.int64))
