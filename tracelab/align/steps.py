"""Training steps per rank, from the host's annotations or, where there are none, each capture window as a single step."""

from __future__ import annotations

import polars as pl

from tracelab.align.captures import number_repeated_steps, with_capture
from tracelab.plugins import Notice
from tracelab.tables import STEPS

__all__ = ["rank_steps", "step_of"]

STEP_NAME = r"^ProfilerStep#(\d{1,9})$"
LIKE_STEP = r"(?i)^(?:[\w.]+:)?((?:ProfilerStep#|(?:train(?:ing)?[ _-]?)?(?:step|iter(?:ation)?)[ _:#=-]*))(\d{1,9})$"
"""Numbered ranges that programs make themselves, in NVTX or by record_function: `step 7`, `iteration_7`, `Train Step: 7`."""
CONTIGUOUS = 2.0
"""A gap below this many median step lengths is no break: the next step's start ends the step."""


def rank_steps(gpu_spans: pl.LazyFrame, host_spans: pl.LazyFrame) -> tuple[pl.DataFrame, list[Notice]]:
    """STEPS in each source's own clock: per rank and step start, end and origin; and what was renumbered.

    A step ends where the next one starts, unless a gap of two median steps or more lies between (another capture window).
    The last step of a window ends with its annotation, or with the last GPU work launched in it where that is later.
    A step number that returns later (a job restarted, a profile taken again) gets the next free number, with a notice. A
    rank without annotations has one step per capture window, numbered from 0.
    """
    marks, notices = number_repeated_steps(_marks(host_spans))
    annotated = _from_marks(marks, gpu_spans, host_spans) if marks.height else STEPS.empty()
    windows = _windows(gpu_spans, host_spans).join(marks.select("rank").unique(), on="rank", how="anti")
    return STEPS.conform(pl.concat([annotated.select(STEPS.names), windows.select(STEPS.names)])), notices


def _marks(host_spans: pl.LazyFrame) -> pl.DataFrame:
    """Rank, step, source, start and end of the annotations that mark steps: the profiler's, else those of a program's own numbered ranges."""
    text = pl.col("name").cast(pl.String)
    found = (
        host_spans.filter((pl.col("kind") == "annotation") & text.str.contains(LIKE_STEP))
        .select(
            "rank",
            text.str.extract(LIKE_STEP, 2).cast(pl.Int32, strict=False).alias("step"),
            "source_id",
            pl.col("source_ts_ns").alias("start_ns"),
            (pl.col("source_ts_ns") + pl.col("dur_ns")).alias("mark_end"),
            text.str.extract(LIKE_STEP, 1).str.to_lowercase().alias("label"),
            text.str.contains(STEP_NAME).alias("official"),
        )
        .filter(pl.col("step").is_not_null())
        .collect(engine="streaming")
    )
    official = found.filter("official")
    own = found.join(official.select("rank").unique(), on="rank", how="anti").sort("rank", "label", "start_ns", "mark_end")
    # A range inside another of its kind, or a number that a rank repeats at once, marks no step.
    nested = (pl.col("start_ns") < pl.col("mark_end").shift(1)).any() | (pl.col("step").diff() == 0).any()
    kinds = own.group_by("rank", "label").agg(
        pl.len().alias("n"), nested.fill_null(False).alias("nested"), (pl.col("mark_end") - pl.col("start_ns")).sum().alias("held")
    )
    kinds = (
        kinds.filter((pl.col("n") >= 2) & ~pl.col("nested")).sort("held", "label", descending=[True, False]).unique("rank", keep="first", maintain_order=True)
    )
    own = own.join(kinds.select("rank", "label"), on=["rank", "label"], how="semi", maintain_order="left")
    return pl.concat([official, own]).drop("label", "official")


def _from_marks(marks: pl.DataFrame, gpu_spans: pl.LazyFrame, host_spans: pl.LazyFrame) -> pl.DataFrame:
    following = pl.col("start_ns").shift(-1).over("rank", order_by="start_ns")
    length = (pl.col("mark_end") - pl.col("start_ns")).median().over("rank")
    steps = marks.with_columns(following.alias("following"), length.alias("typical")).with_columns(
        ((pl.col("following") - pl.col("mark_end")) < CONTIGUOUS * pl.col("typical")).fill_null(False).alias("contiguous")
    )
    last = steps.filter(~pl.col("contiguous"))
    tail = _gpu_end_of(last, gpu_spans, host_spans)
    steps = steps.join(tail, on=["rank", "step"], how="left")
    end = pl.when("contiguous").then(pl.col("following")).otherwise(pl.max_horizontal("mark_end", "gpu_end"))
    # The tail of one window never reaches into the next one.
    end = pl.min_horizontal(end, pl.col("following"))
    return steps.with_columns(end.alias("end_ns"), pl.lit("annotation").alias("origin")).with_columns(pl.max_horizontal("start_ns", "end_ns").alias("end_ns"))


def _gpu_end_of(last: pl.DataFrame, gpu_spans: pl.LazyFrame, host_spans: pl.LazyFrame) -> pl.DataFrame:
    """Per (rank, step) of `last`: the end of the latest GPU work whose launch lies inside the step's annotation."""
    spans = last.select("rank", "step", "start_ns", "mark_end").lazy()
    calls = host_spans.filter(pl.col("kind").is_in(["runtime", "driver"]) & pl.col("correlation").is_not_null()).select(
        "rank", "source_id", "part", "correlation", pl.col("source_ts_ns").alias("launch")
    )
    inside = calls.join(spans, on="rank").filter((pl.col("launch") >= pl.col("start_ns")) & (pl.col("launch") < pl.col("mark_end")))
    inside = inside.unique(["source_id", "part", "correlation"]).select("source_id", "part", "correlation", "step")
    work = gpu_spans.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]) & pl.col("correlation").is_not_null())
    joined = work.join(inside, on=["source_id", "part", "correlation"])
    return joined.group_by("rank", "step").agg((pl.col("source_ts_ns") + pl.col("dur_ns")).max().alias("gpu_end")).collect(engine="streaming")


def _windows(gpu_spans: pl.LazyFrame, host_spans: pl.LazyFrame) -> pl.DataFrame:
    """One step per rank and capture window: the span of its GPU work, or of its host operators where the rank has no GPU work.

    Each source is a window of its own, unless sources of one rank overlap.
    """
    span = (pl.col("source_ts_ns").min().alias("start_ns"), (pl.col("source_ts_ns") + pl.col("dur_ns")).max().alias("end_ns"))
    source = ("rank", "source_id", "part")
    device = gpu_spans.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"])).group_by(source).agg(span).collect(engine="streaming")
    host = host_spans.filter(pl.col("kind").is_in(["cpu_op", "annotation"])).group_by(source).agg(span).collect(engine="streaming")
    rows = pl.concat([device, host.join(device, on="rank", how="anti")]).sort("rank", "start_ns", "source_id", "part")
    apart = (pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1).over("rank")).fill_null(False)
    rows = rows.with_columns(apart.cast(pl.Int32).alias("apart")).with_columns(pl.col("apart").cum_sum().over("rank").alias("run"))
    rows = rows.group_by("rank", "run").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    return with_capture(rows).with_columns(pl.col("capture").alias("step"), pl.lit("window").alias("origin"))


def step_of(rows: pl.DataFrame, steps: pl.DataFrame, time: str, name: str = "step") -> pl.DataFrame:
    """`rows` (with rank and the column `time`) with the step that holds that moment; null outside all steps. Order is kept."""
    if not rows.height or not steps.height:
        return rows.with_columns(pl.lit(None, pl.Int32).alias(name))
    edges = steps.select("rank", pl.col("start_ns").alias("_edge"), pl.col("end_ns").alias("_end"), pl.col("step").alias(name)).sort("_edge")
    numbered = rows.with_row_index("_row")
    found = (
        numbered.filter(pl.col(time).is_not_null())
        .sort(time)
        .join_asof(edges, left_on=time, right_on="_edge", by="rank", strategy="backward", check_sortedness=False)
    )
    found = found.select("_row", pl.when(pl.col(time) < pl.col("_end")).then(pl.col(name)).alias(name))
    return numbered.join(found, on="_row", how="left", maintain_order="left").drop("_row")
