"""Captures of one job that lie apart in time: which of different ranks belong together, and how their steps are numbered."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracelab.plugins import Notice

__all__ = ["number_repeated_steps", "with_capture"]


def with_capture(runs: pl.DataFrame) -> pl.DataFrame:
    """`runs` (rank, run counted from 0 per rank in time order, start_ns) with `capture`, the number of the run in the job.

    The rank with most runs tells how many captures there are. A rank that has as many took part in all of them; another
    one in those that began nearest to its own: clocks may be seconds apart, captures of one job are not.
    """
    starts: dict[int, list[int]] = {}
    for rank, start in runs.sort("rank", "run").select("rank", "start_ns").iter_rows():
        starts.setdefault(rank, []).append(start)
    reference = np.array(max(starts.values(), key=len, default=[]), dtype=np.int64)
    captures: list[int] = []
    for _, own in sorted(starts.items()):
        nearest = [int(np.argmin(np.abs(reference - s))) for s in own]
        apart = len(own) < len(reference) and len(set(nearest)) == len(own)
        captures.extend(nearest if apart else range(len(own)))
    return runs.sort("rank", "run").with_columns(pl.Series("capture", captures, pl.Int32))


def number_repeated_steps(marks: pl.DataFrame) -> tuple[pl.DataFrame, list[Notice]]:
    """`marks` (rank, step, start_ns, mark_end; one row per annotation) with every step number once per rank.

    Of annotations that overlap the first counts. A number that returns later starts another capture (a job that was
    restarted, a profile that was taken again): its steps get the next free numbers, the same on all ranks.
    """
    marks = marks.sort("rank", "start_ns", "step")
    before = pl.col("mark_end").cum_max().shift(1).over("rank", "step", order_by="start_ns")
    marks = marks.filter((pl.col("start_ns") >= before).fill_null(True))
    marks = marks.with_columns(pl.int_range(pl.len()).over("rank", "step", order_by="start_ns").alias("run"))
    marks = marks.with_columns(pl.col("run").cum_max().over("rank", order_by="start_ns"))
    if not marks.height or int(marks["run"].max()) == 0:  # type: ignore[arg-type]
        return marks.drop("run"), []
    # A first run of another number may lie between: runs are counted per rank without holes.
    marks = marks.with_columns((pl.col("run").rank("dense").over("rank") - 1).alias("run"))
    runs = with_capture(marks.group_by("rank", "run").agg(pl.col("start_ns").min()))
    marks = marks.join(runs.select("rank", "run", "capture"), on=["rank", "run"], how="left", maintain_order="left", validate="m:1")
    numbers = marks.group_by("capture").agg(pl.col("step").unique().sort()).sort("capture")
    used: set[int] = set()
    out: list[tuple[int, int, int]] = []
    notices = []
    for capture, own in numbers.iter_rows():
        free = own
        if used.intersection(own):
            free = list(range(max(used) + 1, max(used) + 1 + len(own)))
            notices.append(_notice(own, free))
        used.update(free)
        out.extend(zip([capture] * len(own), own, free, strict=True))
    table = pl.DataFrame(out, schema={"capture": pl.Int32, "step": pl.Int32, "_number": pl.Int32}, orient="row")
    marks = marks.join(table, on=["capture", "step"], how="left", maintain_order="left", validate="m:1")
    return marks.with_columns(pl.col("_number").alias("step")).drop("run", "capture", "_number"), notices


def _notice(own: list[int], free: list[int]) -> Notice:
    return Notice(
        "repeated-steps",
        "warning",
        f"steps {own[0]} to {own[-1]} return after steps of the same numbers: the later ones are numbered {free[0]} to {free[-1]}",
        "profile every run of a job into a directory of its own",
        len(own),
    )
