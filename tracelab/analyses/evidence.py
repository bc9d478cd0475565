"""Where in the files a straggler can be seen: the kernel, copy, loader call or gap that cost most in its worst step."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracelab.align.kernels import COMPUTE, unclamped
from tracelab.analyses.common import gpu_work, host_work
from tracelab.analyses.culprit import Culprit
from tracelab.analyses.excess import Excess
from tracelab.analyses.interruptions import kernel_profile
from tracelab.analyses.partition import LOADER
from tracelab.analysis import Tables
from tracelab.results import Evidence
from tracelab.units import format_duration

__all__ = ["copy_evidence", "evidence_for", "gap_evidence"]

_NAME = 120


def evidence_for(tables: Tables, x: Excess, c: Culprit) -> list[Evidence]:
    """At most two pointers: into the worst step of the culprit's worst rank."""
    step = int(np.argmax(c.saving))
    row = int(c.rows[int(np.argmax(np.nan_to_num(x.over[c.cause][c.rows, step])))])
    rank, number = int(x.ranks[row]), int(x.steps[step])
    if c.cause == "compute" and not c.late:
        return _kernel(tables, x, c, rank, number)
    low, high = x.part.bounds(rank, number)
    if c.cause == "input":
        frame = host_work(tables).filter((pl.col("rank") == rank) & pl.col("name").cast(pl.String).str.starts_with(LOADER))
        return _longest(tables, frame, rank, low, high, f"step {number}: the host waits {{length}} for the loader")
    if c.cause == "memory":
        return copy_evidence(tables, rank, number, low, high)
    return gap_evidence(tables, rank, number, low, high)


def _kernel(tables: Tables, x: Excess, c: Culprit, rank: int, number: int) -> list[Evidence]:
    others = np.setdiff1d(np.arange(len(x.ranks)), c.rows)
    profile = kernel_profile(tables, [rank], [int(x.ranks[r]) for r in others[:8]], x.part, [number])
    if profile is None:
        return []
    w = profile.worst
    text = f"step {number}: {w.name[:_NAME]} takes {format_duration(w.dur_ns)}, on the peers {format_duration(w.usual)}"
    return [tables.evidence(w.source_id, rank, w.source_ts_ns, w.ts_ns, text)]


def copy_evidence(tables: Tables, rank: int, number: int, low: int, high: int) -> list[Evidence]:
    """The longest copy of a step."""
    frame = unclamped(tables["gpu_spans"]).filter((pl.col("rank") == rank) & (pl.col("kind") == "memcpy"))
    return _longest(tables, frame, rank, low, high, f"step {number}: {{name}} takes {{length}}")


def _longest(tables: Tables, frame: pl.LazyFrame, rank: int, low: int, high: int, text: str) -> list[Evidence]:
    end = pl.col("ts_ns") + pl.col("dur_ns")
    rows = frame.filter((pl.col("ts_ns") < high) & (end > low)).select("source_id", "source_ts_ns", "ts_ns", "dur_ns", pl.col("name").cast(pl.String))
    found = rows.sort("dur_ns", "ts_ns", descending=[True, False]).head(1).collect(engine="streaming")
    if not found.height:
        return []
    w = found.row(0, named=True)
    said = text.format(name=w["name"][:_NAME], length=format_duration(w["dur_ns"]))
    return [tables.evidence(w["source_id"], rank, w["source_ts_ns"], w["ts_ns"], said)]


def gap_evidence(tables: Tables, rank: int, number: int, low: int, high: int) -> list[Evidence]:
    """The GPU work after the longest gap in which the GPU had nothing to do."""
    spans = gpu_work(tables).filter((pl.col("rank") == rank) & pl.col("op_class").is_in([COMPUTE, "communication", "memcpy", "memset"]))
    rows = spans.filter((pl.col("ts_ns") >= low) & (pl.col("ts_ns") < high)).select(
        "source_id", "source_ts_ns", "ts_ns", "dur_ns", pl.col("name").cast(pl.String)
    )
    found = rows.collect(engine="streaming").sort("ts_ns")
    reach = (pl.col("ts_ns") + pl.col("dur_ns")).cum_max().shift(1).fill_null(low)
    found = found.with_columns((pl.col("ts_ns") - reach).alias("gap"))
    if not found.height or int(found["gap"].max() or 0) <= 0:  # type: ignore[arg-type]
        return []
    w = found.row(int(found["gap"].arg_max() or 0), named=True)
    return [
        tables.evidence(
            w["source_id"],
            rank,
            w["source_ts_ns"],
            w["ts_ns"],
            f"step {number}: before {w['name'][:_NAME]} the GPU stood still for {format_duration(w['gap'])}",
        )
    ]
