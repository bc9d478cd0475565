"""How full queues became, and what the sampling of the counters can and cannot show of bursts."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import END_COLUMNS, Counted, counted, label, median_step_ns, nothing_counted, shown
from tracelab.analyses.network.levels import gauges
from tracelab.analyses.network.transfers import median_transfer_ns
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import NotObservable
from tracelab.tables import CANONICAL, Column, TableSpec
from tracelab.units import NS_PER_S, NS_PER_US, format_bytes, format_duration

__all__ = ["ANALYSIS", "QUEUE_FILL", "SAMPLING", "Params"]

WATERMARKS = ("queue_watermark_bytes", "pg_headroom_watermark_bytes", "pg_shared_watermark_bytes", "pool_watermark_bytes")
"""They keep the highest fill since they were cleared: they show a burst of any length, but not when it was."""
DEPTH = "queue_depth_bytes"
"""The fill at the moment of the sample: a burst between two samples is missed."""

QUEUE_FILL = TableSpec(
    "queue_fill",
    "How full each queue or buffer became, in bytes and in time of its link",
    (
        *END_COLUMNS,
        Column("counter", "string", "which watermark, or queue_depth_bytes", nullable=False, key=True),
        Column("queue", "string", "queue, priority group or pool", key=True),
        Column("priority", "int32", "priority", key=True),
        Column("bytes", "float64", "highest value during the captures, or else the nearest to them", "byte", nullable=False),
        Column("us", "float64", "time that the link needs for as many; null where its speed is not known", "us"),
        Column("times_peers", "float64", "over the median of the job's ports of the same tier and side; null below three of them", "ratio"),
        Column("samples", "int64", "values", nullable=False),
        Column("in_captures", "bool", "taken during the captures; else the level may be of another time; null where no moment is known"),
    ),
    ("counter", "bytes", "node", "port", "queue", "priority"),
)
SAMPLING = TableSpec(
    "sampling",
    "How often each kind of counter was read, beside the length of a step and of a transfer",
    (
        Column("node_kind", "string", "host or switch", nullable=False, key=True),
        Column("counter", "string", "counter", nullable=False, key=True),
        Column("series", "int64", "series of it", nullable=False),
        Column("period_ns", "float64", "median time between two samples of one series", "ns"),
        Column("step_ns", "float64", "median length of a step", "ns"),
        Column("transfer_ns", "float64", "median length of a transfer between hosts", "ns"),
        Column("shows_steps", "bool", "at least `samples_needed` samples per step: what differs between steps can be seen; null where unknown"),
        Column("shows_transfers", "bool", "the same of a transfer: what happens inside one collective can be seen"),
        Column("keeps_peaks", "bool", "the counter keeps its highest value: bursts of any length are in it, without their moment", nullable=False),
    ),
    ("node_kind", "counter"),
)


@dataclass(frozen=True)
class Params:
    """`samples_needed` (2): samples per event that it takes to see it (Nyquist); averages over longer times hide it.

    `burst_us` (µs; 100): bursts last tens of microseconds (Zhang et al., IMC 2017): sampling slower than this shows none.
    """

    samples_needed: float = 2.0
    burst_us: float = 100.0


def _run(tables: Tables, params: Params) -> AnalysisResult:
    given = counted(tables)
    fill = _fill(tables, given)
    step, transfer = median_step_ns(tables), median_transfer_ns(tables)
    sampling = _sampling(tables, given, step, transfer, params.samples_needed)
    if not sampling.height and not fill.height:
        answer, unseen = nothing_counted("counters", given)
        return AnalysisResult(answer, {}, degraded="; ".join(given.caveats), not_observable=(unseen,))
    frames = {QUEUE_FILL.name: fill, SAMPLING.name: sampling}
    return AnalysisResult(
        f"{_fill_words(fill)} {_sampling_words(sampling, step, transfer)}",
        {n: f for n, f in frames.items() if f.height},
        degraded="; ".join(given.caveats),
        not_observable=(*given.unseen, *_not_observable(fill, sampling, params.burst_us)),
    )


def _fill(tables: Tables, given: Counted) -> pl.DataFrame:
    """Rows of QUEUE_FILL."""
    rows = gauges(tables, given, (*WATERMARKS, DEPTH))
    first, last = given.window if given.window is not None else (None, None)
    inside = pl.col("ts_ns").is_between(pl.lit(first, pl.Int64), pl.lit(last, pl.Int64))
    keys = [c.name for c in END_COLUMNS] + ["counter", "queue", "priority"]
    out = rows.group_by([*keys, "speed_bps"], maintain_order=True).agg(
        pl.col("value").max().alias("bytes"), pl.len().alias("samples"), inside.any().alias("in_captures"), pl.col("ts_ns").count().alias("timed")
    )
    place = ("counter", "queue", "priority", "tier", "side")
    ours = pl.col("bytes").filter(pl.col("used").fill_null(False))
    usual, peers = ours.median().over(place), ours.len().over(place)
    out = out.with_columns(
        (pl.col("bytes") * 8 / pl.col("speed_bps") * (NS_PER_S / NS_PER_US)).alias("us"),
        pl.when(pl.col("used") & (peers >= 3) & (usual > 0)).then(pl.col("bytes") / usual).alias("times_peers"),
        pl.when(pl.col("timed") > 0).then("in_captures").alias("in_captures"),
    )
    return QUEUE_FILL.conform(out.select(QUEUE_FILL.names))


def _sampling(tables: Tables, given: Counted, step: float | None, transfer: float | None, needed: float) -> pl.DataFrame:
    """Rows of SAMPLING: canonical counters with moments that lie in the captures, or all where those are unknown."""
    names = pl.col("counter", "node_kind").cast(pl.String)
    rows = tables["counters"].select("series", "ts_ns", *(pl.col(c).cast(pl.String) for c in ("counter", "node_kind")))
    rows = rows.filter(pl.col("ts_ns").is_not_null() & pl.col("counter").is_in(list(CANONICAL))).with_columns(names)
    if given.window is not None:
        first, last = given.window
        # one sample on either side of the captures: a series with two of them has a period
        around = last - first
        rows = rows.filter(pl.col("ts_ns").is_between(first - around, last + around))
    rows = rows.unique(["series", "ts_ns"]).sort("series", "ts_ns")
    gaps = rows.with_columns((pl.col("ts_ns") - pl.col("ts_ns").shift(1).over("series")).alias("gap"))
    out = gaps.group_by("node_kind", "counter").agg(pl.col("series").n_unique(), pl.col("gap").median().alias("period_ns")).collect(engine="streaming")
    lit = {"step_ns": step, "transfer_ns": transfer}
    out = out.with_columns(*(pl.lit(v, pl.Float64).alias(n) for n, v in lit.items()), pl.col("counter").is_in(WATERMARKS).alias("keeps_peaks"))
    shows = [(pl.col("period_ns") * needed <= pl.col(of)).alias(name) for name, of in (("shows_steps", "step_ns"), ("shows_transfers", "transfer_ns"))]
    return SAMPLING.conform(out.with_columns(shows).select(SAMPLING.names))


def _fill_words(fill: pl.DataFrame) -> str:
    ours = fill.filter(pl.col("used").fill_null(False))
    if not ours.height:
        return "No fill of a queue of the job's ports was collected."
    queues = ours.filter(pl.col("counter").is_in(["queue_watermark_bytes", DEPTH]))
    top = (queues if queues.height else ours).sort("bytes", "node", "port", "queue", descending=[True, False, False, False]).row(0, named=True)
    name = f"{label(top)} {shown(top['queue'])}" if top["queue"] else label(top)
    text = f"The fullest {'queue' if queues.height else 'buffer'} reached {format_bytes(top['bytes'])} ({name}"
    text += f"), {format_duration(top['us'] * NS_PER_US)} of its link" if top["us"] is not None else ")"
    when = {True: "", False: ", before or after the captures", None: ", at a moment that is not known"}
    return f"{text}{when[top['in_captures']]}."


def _sampling_words(sampling: pl.DataFrame, step: float | None, transfer: float | None) -> str:
    traffic = sampling.filter((pl.col("counter") == "bytes") & pl.col("period_ns").is_not_null())
    if not traffic.height or step is None:
        return "How often bytes were sampled beside the steps is not known."
    best = float(traffic["period_ns"].min())  # type: ignore[arg-type]
    beside = f"a step takes {format_duration(step)}" + (f", a transfer {format_duration(transfer)}" if transfer is not None else "")
    if traffic["shows_transfers"].fill_null(False).any():
        shown = "bursts longer than that can be seen"
    elif traffic["shows_steps"].fill_null(False).any():
        shown = "what differs between steps can be seen, bursts inside a collective cannot"
    else:
        shown = "neither single steps nor bursts can be seen"
    return f"Bytes were sampled every {format_duration(best)} at best ({beside}): {shown}."


def _not_observable(fill: pl.DataFrame, sampling: pl.DataFrame, burst_us: float) -> list[NotObservable]:
    ours = fill.filter(pl.col("used").fill_null(False) & pl.col("counter").is_in(WATERMARKS) & pl.col("in_captures").fill_null(False))
    traffic = sampling.filter((pl.col("counter") == "bytes") & pl.col("period_ns").is_not_null())
    if ours.height or (traffic.height and traffic["period_ns"].min() <= burst_us * NS_PER_US):  # type: ignore[operator]
        return []
    slow = f"bytes are sampled every {format_duration(float(traffic['period_ns'].min()))} at best" if traffic.height else "bytes are not sampled"  # type: ignore[arg-type]
    reason = f"{slow}, bursts last tens of microseconds, and no watermark of a queue was read during the captures"
    collect = "queue watermarks of the switches, cleared before and read after the captures, or telemetry below a millisecond (queue-length events, streaming)"
    return [NotObservable("Did bursts fill the queues?", reason, collect)]


ANALYSIS = Analysis(
    "bursts",
    "Bursts",
    "How full did queues become, and what can the sampling show of bursts?",
    ("counters",),
    Params,
    (QUEUE_FILL, SAMPLING),
    _run,
    {"counters": "no counter of a link was collected; collect queue watermarks of the switches and byte counters of all ports"},
)
