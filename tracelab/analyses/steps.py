"""How long each training step took, and which rank ended it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.common import clocks_apart, named
from tracelab.analyses.partition import job_steps
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.tables import Column, TableSpec
from tracelab.units import format_duration

__all__ = ["ANALYSIS", "STEP_TIMES", "Params"]

STEP_TIMES = TableSpec(
    "step_times",
    "Length of each step of the job",
    (
        Column("step", "int32", "step number", nullable=False, key=True),
        Column("start_ns", "int64", "moment that the last rank left the step before; for the first, that the last rank entered it", "ns", nullable=False),
        Column("length_ns", "int64", "from there to the moment that the last rank left this step", "ns", nullable=False),
        Column("slowest_rank", "int32", "rank that left last", nullable=False),
        Column("spread_ns", "int64", "time between the first and the last rank to leave", "ns", nullable=False),
    ),
    ("start_ns",),
)


@dataclass(frozen=True)
class Params:
    """No thresholds."""


def _run(tables: Tables, params: Params) -> AnalysisResult:
    steps = job_steps(tables).with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("length_ns")).select(STEP_TIMES.names)
    apart = clocks_apart(tables)
    degraded = f"the clocks of {', '.join(apart[:5])} could not be aligned: each step is that of the ranks on the clock that most share" if apart else ""
    if not steps.height:
        return AnalysisResult("No step has a length.", {"step_times": steps})
    length = steps["length_ns"].to_numpy()
    worst = steps.row(int(length.argmax()), named=True)
    median = float(steps["length_ns"].median() or 0)  # type: ignore[arg-type]
    if steps.height == 1:
        return AnalysisResult(f"One step of {format_duration(median)}.", {"step_times": steps}, degraded=degraded)
    longest = f"step {worst['step']} with {format_duration(worst['length_ns'])}, ended by {named([worst['slowest_rank']])}"
    answer = f"{steps.height} steps, {format_duration(median)} in the median; the longest is {longest}."
    return AnalysisResult(answer, {"step_times": steps}, degraded=degraded)


ANALYSIS = Analysis(
    "steps",
    "Step times",
    "How long does a step take, and how much does it vary?",
    ("steps",),
    Params,
    (STEP_TIMES,),
    _run,
    {"steps": "no step and no work was recorded; profile with a schedule and call profiler.step() after each batch"},
)
