"""Steps cut where all ranks meet, for comparing ranks with each other.

The job's step ends when its last host leaves it. While one host pauses there, its peers are already in the next step, and
what they do then would be counted as this step's: in the next one the paused rank would seem to compute longer. Between
the ends of two operations that all ranks leave together, every rank is busy or waits for exactly the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracelab.align.matching import SYNCHRONISING

__all__ = ["synced_steps"]

_LEAST_SHARE = 0.1
"""Share of the steps that must hold an operation of all ranks (gradients may be accumulated over some); with fewer, cutting there
would leave next to no step to compare."""


def synced_steps(job: pl.DataFrame, matches: pl.LazyFrame, arrivals: pl.LazyFrame, ranks: Sequence[int]) -> pl.DataFrame:
    """The steps of `job` (step, start_ns, end_ns, …, in time order), cut at the last operation of all `ranks` in each.

    A step without one is part of the next that has one. The last step keeps its end, and a step that does not follow
    another at once its start. Where too few steps hold such an operation, `job` as it is.
    """
    there = arrivals.filter(pl.col("rank").is_in(list(ranks))).group_by("match_id").agg(pl.len().alias("there"), pl.col("end_ns").median().cast(pl.Int64))
    met = there.filter(pl.col("there") == len(ranks)).join(matches.select("match_id", "operation", "step"), on="match_id")
    met = met.filter(pl.col("operation").cast(pl.String).is_in(SYNCHRONISING))
    ends = met.group_by("step").agg(pl.col("end_ns").max().alias("met")).collect(engine="streaming")
    cut = job.join(ends, on="step", how="left", maintain_order="left")
    if len(ranks) < 2 or cut["met"].count() < max(1.0, _LEAST_SHARE * job.height):
        return job
    follows = (pl.col("start_ns") <= pl.col("end_ns").shift(1)).fill_null(False)
    cut = cut.with_columns((~follows).cum_sum().alias("run"))
    cut = cut.with_columns(pl.col("start_ns").first().over("run").alias("opened"), (pl.col("step") == pl.col("step").last().over("run")).alias("closes"))
    # The last step of a run ends it even where no operation of all ranks was seen in it.
    cut = cut.filter(pl.col("met").is_not_null() | pl.col("closes"))
    cut = cut.with_columns(pl.when("closes").then("end_ns").otherwise("met").alias("end_ns"))
    cut = cut.with_columns(pl.col("end_ns").shift(1).over("run").fill_null(pl.col("opened")).alias("start_ns"))
    return cut.filter(pl.col("end_ns") > pl.col("start_ns")).select(job.columns)
