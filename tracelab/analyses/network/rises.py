"""Which steps and which classes of operations coincide with the rise of a counter: as fine as its samples are, and no finer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from tracelab.analyses.intervals import union
from tracelab.analyses.network.counter_clocks import CounterClock
from tracelab.analyses.network.ends import END_COLUMNS
from tracelab.analyses.network.predicted import Predicted
from tracelab.analyses.network.signals import FAMILIES, signals_of
from tracelab.analysis import Tables
from tracelab.tables import Column, TableSpec
from tracelab.units import format_ranges

__all__ = ["COUNTER_RISES", "RISING", "rises_of"]

RISING = {c: float(family.least) for family in FAMILIES.values() for c in family.counters}
"""Counters of errors, losses, pauses and congestion, and the count below which nothing is said of one."""

COUNTER_RISES = TableSpec(
    "counter_rises",
    "Steps and classes of operations that coincide with the rise of a counter: intervals in which it rose faster than its mean",
    (
        *END_COLUMNS,
        Column("counter", "string", "counter", nullable=False, key=True),
        Column("direction", "string", "tx or rx as this end sees it", key=True),
        Column("priority", "int32", "priority", key=True),
        Column("queue", "string", "queue", key=True),
        Column("class", "string", "operation and group", nullable=False, key=True),
        Column("stands_out", "bool", "the counter stands out beside those of the other links of its tier", nullable=False),
        Column("total", "float64", "counted during the captures", nullable=False),
        Column("intervals", "int64", "sampling intervals", nullable=False),
        Column("rising", "int64", "of them, those in which it rose faster than its mean", nullable=False),
        Column("steps", "string", "steps that overlap them, by number", nullable=False),
        Column("share_of_time", "float64", "time of these intervals over that of all", "ratio", nullable=False),
        Column("share_of_class", "float64", "bytes of the class on this link in these intervals over those in all", "ratio", nullable=False),
        Column("times", "float64", "share_of_class over share_of_time: 1 where the class has nothing to do with the rise", "ratio", nullable=False),
        Column("resolution_ns", "float64", "median interval and what its moments leave open: nothing shorter can be told apart", "ns", nullable=False),
        Column("shows_steps", "bool", "the resolution is below a step: which steps is told; else they only lie in the same samples", nullable=False),
    ),
    ("tier", "link", "side", "node", "port", "counter", "direction", "priority", "queue", "class"),
)


def rises_of(
    tables: Tables, rows: pl.DataFrame, clocks: Mapping[str, CounterClock], predicted: Predicted, step_ns: float | None, window: tuple[int, int] | None
) -> pl.DataFrame:
    """Rows of COUNTER_RISES.

    `rows`: intervals of the counters RISING of used ports, with clock, edge_ns and good beside the columns of `Counted.rates`;
    `window`: first and last moment of the captures.
    """
    good = rows.filter("good").sort("series", "start_ns")
    mean = pl.col("delta").sum().over("series") / ((pl.col("end_ns") - pl.col("start_ns")).sum().over("series") / 1e9)
    good = good.with_columns(((pl.col("per_s") > mean) & (pl.col("delta") > 0)).alias("rose"))
    least = pl.col("counter").replace_strict(RISING, return_dtype=pl.Float64)
    good = good.filter(pl.col("delta").sum().over("series") >= least)
    loud = {s.series for s in signals_of(tables, tables["links"].collect(), window)} if window is not None and good.height else set()
    steps = tables["steps"].group_by("step").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("step").collect()
    out: list[dict[str, object]] = []
    for part in good.partition_by("series", maintain_order=True):
        first = part.row(0, named=True)
        clock = clocks.get(first["clock"])
        edge, shift = first["edge_ns"], clock.shift_ns if clock is not None else 0
        start, end, rose = part["start_ns"].to_numpy() - shift, part["end_ns"].to_numpy() - shift, part["rose"].to_numpy()
        length = (end - start).astype(float)
        resolution = float(np.median(length)) + 2 * edge
        time = float(length[rose].sum() / length.sum())
        found = {
            "stands_out": first["series"] in loud,
            "total": float(part["delta"].sum()),
            "intervals": part.height,
            "rising": int(rose.sum()),
            "steps": format_ranges(_steps(steps, start[rose] - edge, end[rose] + edge)),
            "share_of_time": time,
            "resolution_ns": resolution,
            "shows_steps": step_ns is not None and resolution <= step_ns,
        }
        share = sum((predicted.share(first["link"], way) for way in ("tx", "rx")), np.zeros(len(predicted.names)))
        sent = (predicted.until(end) - predicted.until(start)) * share[:, None]
        for name, bytes_of in zip(predicted.names, sent, strict=True):
            if bytes_of.sum() > 0 and time > 0:
                of_class = float(bytes_of[rose].sum() / bytes_of.sum())
                out.append({**first, **found, "class": name, "share_of_class": of_class, "times": of_class / time})
    return COUNTER_RISES.conform(pl.DataFrame(out, schema=COUNTER_RISES.polars, orient="row") if out else COUNTER_RISES.empty())


def _steps(steps: pl.DataFrame, start: np.ndarray[tuple[int], np.dtype[np.int64]], end: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """Steps that overlap any of the intervals."""
    first, last = union(start, end)
    begins, ends = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    # the first interval that ends after the step begins must begin before the step ends
    k = np.searchsorted(last, begins, side="right")
    hit = (k < len(first)) & (first[np.minimum(k, len(first) - 1)] < ends) if len(first) else np.zeros(len(begins), np.bool_)
    return list(steps["step"].to_numpy()[hit].tolist())
