"""How much of the communication runs while the GPU computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import COMMUNICATION, COMPUTE
from tracelab.analyses.common import batches, gpu_work
from tracelab.analyses.intervals import intersection, length, union
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.tables import Column, TableSpec
from tracelab.units import format_share

__all__ = ["ANALYSIS", "OVERLAP_BY_GROUP", "OVERLAP_BY_RANK", "Overlap", "Params", "overlap_of"]

_OVERLAP = (
    Column("communication_ns", "int64", "time with a communication operation", "ns", nullable=False),
    Column("hidden_ns", "int64", "of it, with a compute kernel at the same time", "ns", nullable=False),
    Column("exposed_ns", "int64", "of it, without", "ns", nullable=False),
    Column("overlap_ratio", "float64", "hidden / communication, as HolisticTraceAnalysis defines it; null without communication"),
)
OVERLAP_BY_RANK = TableSpec(
    "overlap_by_rank",
    "Overlap of communication with compute per rank, over all its GPU work",
    (
        Column("rank", "int32", "global rank", nullable=False, key=True),
        Column("kernel_time_ns", "int64", "from the first start to the last end on the GPU", "ns", nullable=False),
        Column("busy_ns", "int64", "time with any GPU work", "ns", nullable=False),
        Column("idle_ns", "int64", "the rest", "ns", nullable=False),
        Column("compute_ns", "int64", "time with a compute kernel", "ns", nullable=False),
        *_OVERLAP,
    ),
    ("rank",),
)
OVERLAP_BY_GROUP = TableSpec(
    "overlap_by_group",
    "Overlap of communication with compute per group and operation, summed over ranks",
    (
        Column("group", "string", "name of the group", nullable=False, key=True),
        Column("operation", "string", "operation", nullable=False, key=True),
        Column("count", "int64", "operations of single ranks", nullable=False),
        *_OVERLAP,
    ),
    ("group", "operation"),
)
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Params:
    """No thresholds."""


@dataclass(frozen=True)
class Overlap:
    """Interval lengths of one rank's GPU work, ns. `hidden` is the time with compute and communication at once."""

    kernel_time: int
    busy: int
    compute: int
    communication: int
    hidden: int

    @property
    def ratio(self) -> float | None:
        """Hidden / communication; None without communication."""
        return self.hidden / self.communication if self.communication else None


def overlap_of(start: Int, end: Int, compute: NDArray[np.bool_], communication: NDArray[np.bool_]) -> Overlap:
    """The overlap of GPU spans [start, end) in ns, any order; the masks say which are compute and which communication.

    Unions, never sums: two kernels at once count once. Work that is neither (copies, memory sets) counts as busy only.
    """
    if not len(start):
        return Overlap(0, 0, 0, 0, 0)
    computing, talking = union(start[compute], end[compute]), union(start[communication], end[communication])
    return Overlap(int(end.max() - start.min()), length(union(start, end)), length(computing), length(talking), intersection(computing, talking))


def _run(tables: Tables, params: Params) -> AnalysisResult:
    spans = gpu_work(tables).filter(pl.col("op_class").is_in([COMPUTE, COMMUNICATION, "memcpy", "memset"]))
    groups = dict(tables["groups"].select("group_id", "name").collect().iter_rows())
    comm = tables["collectives"].select("rank", "group_id", pl.col("operation").cast(pl.String), "start_ns", "end_ns").collect(engine="streaming")
    comm = comm.with_columns(pl.col("group_id").replace_strict(groups, default="unknown", return_dtype=pl.String).alias("group"))
    by_rank = comm.partition_by("rank", as_dict=True)
    rows = []
    by_group: list[tuple[object, ...]] = []
    for rank, part in batches(spans, ("ts_ns", "dur_ns", "op_class")):
        start = part["ts_ns"].to_numpy()
        end = start + part["dur_ns"].to_numpy()
        kind = part["op_class"].to_numpy()
        o = overlap_of(start, end, kind == COMPUTE, kind == COMMUNICATION)
        rows.append((rank, o.kernel_time, o.busy, o.kernel_time - o.busy, o.compute, o.communication, o.hidden, o.communication - o.hidden, o.ratio))
        computing = union(start[kind == COMPUTE], end[kind == COMPUTE])
        for (group, operation), own in by_rank.get((rank,), comm.clear()).group_by("group", "operation"):
            talking = union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
            by_group.append((group, operation, own.height, length(talking), intersection(talking, computing)))
    ranks = pl.DataFrame(rows, schema=OVERLAP_BY_RANK.polars, orient="row")
    total = sum(r[5] for r in rows)
    hidden = sum(r[6] for r in rows)
    answer = f"{format_share(hidden / total)} of the communication time runs beside compute." if total else "No communication ran on the GPUs."
    return AnalysisResult(answer, {"overlap_by_rank": ranks, "overlap_by_group": _grouped(by_group)})


def _grouped(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    schema = {"group": pl.String, "operation": pl.String, "count": pl.Int64, "communication_ns": pl.Int64, "hidden_ns": pl.Int64}
    out = pl.DataFrame(rows, schema=schema, orient="row").group_by("group", "operation").agg(pl.col("count", "communication_ns", "hidden_ns").sum())
    ratio = pl.when(pl.col("communication_ns") > 0).then(pl.col("hidden_ns") / pl.col("communication_ns"))
    return out.with_columns((pl.col("communication_ns") - pl.col("hidden_ns")).alias("exposed_ns"), ratio.alias("overlap_ratio"))


ANALYSIS = Analysis(
    "overlap",
    "Overlap of communication and compute",
    "How much communication is hidden behind compute?",
    ("gpu_spans",),
    Params,
    (OVERLAP_BY_RANK, OVERLAP_BY_GROUP),
    _run,
    {"gpu_spans": "no GPU work was recorded; profile with ProfilerActivity.CUDA"},
)
