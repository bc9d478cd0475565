"""Bytes of each link end as its counter counts them, beside those that the job's operations put there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from tracelab.analyses.intervals import Intervals
from tracelab.analyses.network.counter_clocks import CounterClock
from tracelab.analyses.network.ends import END, END_COLUMNS
from tracelab.analyses.network.lag import inside
from tracelab.analyses.network.predicted import Predicted
from tracelab.tables import Column, TableSpec

__all__ = ["LINK_BYTES", "LINK_BYTES_WINDOWS", "compared", "judged", "windows_of"]

_VERDICTS = (
    "agrees; more (sent again, other traffic, or a protocol that no log states); less (the data take another way than the map says); "
    "nothing (counted, though bytes are predicted: the adapter is not used, or this counter does not see its traffic); "
    "unpredicted (counted, where nothing is); unclear (the error bar is too wide); beyond (more, but the intervals reach beyond the captures); "
    "not compared (no interval can be)"
)

LINK_BYTES = TableSpec(
    "link_bytes",
    "Bytes per link end and direction: what the job's operations put there, and what was counted",
    (
        *END_COLUMNS,
        Column("direction", "string", "tx or rx as this end sees it", nullable=False, key=True),
        Column("host", "string", "host at the link's lower end", nullable=False),
        Column("counter", "string", "bytes (on the wire), or rdma_bytes where that is not counted", nullable=False),
        Column("clock", "string", "clock that stamped it", nullable=False),
        Column("verdict", "string", _VERDICTS, nullable=False),
        Column("scope", "string", "inside (intervals inside the captures), around (they reach beyond: other bytes may be in them), or none", nullable=False),
        Column("captured_bytes", "float64", "predicted for the whole captures", "byte", nullable=False),
        Column("seconds", "float64", "time compared", "s", nullable=False),
        Column("predicted_bytes", "float64", "predicted for that time: payload, headers and protocol", "byte", nullable=False),
        Column("counted_bytes", "float64", "counted in that time", "byte", nullable=False),
        Column("error_bytes", "float64", "what the moments of the samples leave open, at most", "byte", nullable=False),
        Column("difference", "float64", "counted over predicted, minus 1; null where nothing is predicted", "ratio"),
        Column("difference_low", "float64", "least", "ratio"),
        Column("difference_high", "float64", "most", "ratio"),
        Column("beside_peers", "float64", "the same over the median of `peers`: what the moments of samples leave open is equal for them", "ratio"),
        Column("peers", "int64", "ends and directions of one clock and the same moments that carry the same operations, this one included", nullable=False),
        Column("host_difference", "float64", "the same of all compared adapters of the host together, as seen from this side", "ratio"),
        Column("intervals", "int64", "sampling intervals compared", nullable=False),
        Column("left_out_reset", "int64", "intervals left out: the counter was reset, saturated or may have started again", nullable=False),
        Column("left_out_gap", "int64", "intervals left out: much longer than usual", nullable=False),
        Column("left_out_outside", "int64", "intervals left out: not wholly inside the captures", nullable=False),
        Column("edge_ns", "int64", "how far the moment of one sample may be off", "ns", nullable=False),
    ),
    ("tier", "link", "side", "node", "port", "direction"),
)

LINK_BYTES_WINDOWS = TableSpec(
    "link_bytes_windows",
    "The same over time: neighbouring sampling intervals joined. What is missing at an edge of one is in its neighbour, so errors shrink as windows grow",
    (
        *END_COLUMNS[:4],
        Column("direction", "string", "tx or rx as this end sees it", nullable=False, key=True),
        Column("start_ns", "int64", "start, aligned clock, as stamped", "ns", nullable=False, key=True),
        Column("end_ns", "int64", "end", "ns", nullable=False),
        Column("intervals", "int64", "sampling intervals in it", nullable=False),
        Column("predicted_bytes", "float64", "predicted", "byte", nullable=False),
        Column("counted_bytes", "float64", "counted", "byte", nullable=False),
        Column("error_bytes", "float64", "what the moments of its first and last sample leave open, at most", "byte", nullable=False),
    ),
    ("link", "side", "node", "port", "direction", "start_ns"),
)


def compared(rows: pl.DataFrame, clocks: Mapping[str, CounterClock], predicted: Predicted, spans: Intervals) -> pl.DataFrame:
    """`rows` (intervals of the chosen series: clock, edge_ns, link, way, start_ns, end_ns, delta, good …) with what is predicted for them.

    Adds `predicted`, `error_start` and `error_end` (bytes that lie within `edge_ns` of each end), `covered` (wholly inside the
    captures), `kept` (that, and neither reset nor gap) and `run` (number of a row of neighbours that are kept).
    """
    out = []
    for (clock, edge), part in rows.sort("clock", "edge_ns", "series", "start_ns").group_by("clock", "edge_ns", maintain_order=True):
        shift = clocks[str(clock)].shift_ns
        start, end = part["start_ns"].to_numpy(), part["end_ns"].to_numpy()
        moments, at = np.unique(np.concatenate([start, end]), return_inverse=True)
        until, later, sooner = (predicted.until(moments - shift + d) for d in (0, int(str(edge)), -int(str(edge))))
        values = np.zeros((3, len(start)))
        numbered = part.select("link", "way").with_row_index("row")
        for (link, way), mine in numbered.group_by("link", "way", maintain_order=True):
            share, k = predicted.share(int(str(link)), str(way)), mine["row"].to_numpy()
            sent = share @ until
            near = np.maximum(share @ later - sent, sent - share @ sooner)
            first, last = at[k], at[k + len(start)]
            values[:, k] = sent[last] - sent[first], near[first], near[last]
        covered = inside(start - shift, end - shift, spans)
        columns = {"predicted": values[0], "error_start": values[1], "error_end": values[2], "covered": covered}
        out.append(part.with_columns(*(pl.Series(n, v) for n, v in columns.items())))
    found = pl.concat(out).with_columns((pl.col("good") & pl.col("covered")).alias("kept")).sort("series", "start_ns")
    after = pl.col("kept") & pl.col("kept").shift(1) & (pl.col("end_ns").shift(1) == pl.col("start_ns"))
    return found.with_columns((~after.fill_null(False)).cum_sum().over("series").alias("run"))


_KEY = (*END, "direction", "host", "counter", "clock", "edge_ns", "series")


def judged(rows: pl.DataFrame, predicted: Predicted, spans: Intervals, *, headers: float, tolerance: float, unclear: float) -> pl.DataFrame:
    """Rows of LINK_BYTES from those of `compared`. `headers`: share of headers, which counters of RDMA alone may leave out."""
    length = (pl.col("end_ns") - pl.col("start_ns")) / 1e9
    edges = rows.filter("kept").group_by(*_KEY, "run").agg(pl.col("error_start").first() + pl.col("error_end").last())
    errors = edges.group_by("series", "direction").agg(pl.col("error_start").sum().alias("error_bytes"))
    kept = pl.col("kept")
    sums = rows.group_by(_KEY, maintain_order=True).agg(
        pl.col("way").first(),
        *(pl.col(c).filter(kept).sum().alias(f"{n}_bytes") for c, n in (("predicted", "predicted"), ("delta", "counted"))),
        length.filter(kept).sum().alias("seconds"),
        kept.sum().cast(pl.Int64).alias("intervals"),
        pl.col("at_least").sum().cast(pl.Int64).alias("left_out_reset"),
        (pl.col("gap") & ~pl.col("at_least")).sum().cast(pl.Int64).alias("left_out_gap"),
        (pl.col("good") & ~pl.col("covered")).sum().cast(pl.Int64).alias("left_out_outside"),
        pl.col("delta").sum().alias("all_bytes"),
        length.sum().alias("all_seconds"),
        pl.len().cast(pl.Int64).alias("all_intervals"),
        pl.col("start_ns").min().alias("first"),
        pl.col("end_ns").max().alias("last"),
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("all_ns"),
    )
    sums = sums.join(errors, on=["series", "direction"], how="left", maintain_order="left").with_columns(pl.col("error_bytes").fill_null(0.0))
    whole = predicted.until(np.asarray(spans[1])).sum(axis=1) - predicted.until(np.asarray(spans[0])).sum(axis=1)
    captured = [float(predicted.share(link, way) @ whole) for link, way in sums.select("link", "way").iter_rows()]
    sums = sums.with_columns(pl.Series("captured_bytes", captured, pl.Float64))
    inner = pl.col("intervals") > 0
    first, last = (int(spans[0][0]), int(spans[1][-1])) if len(spans[0]) else (0, 0)
    gapless = pl.col("all_ns") == pl.col("last") - pl.col("first")
    around = pl.lit(len(spans[0]) > 0) & ~inner & (pl.col("left_out_reset") == 0) & gapless & (pl.col("first") <= first) & (pl.col("last") >= last)
    sums = sums.with_columns(pl.when(inner).then(pl.lit("inside")).when(around).then(pl.lit("around")).otherwise(pl.lit("none")).alias("scope"))
    whole_time = pl.col("scope") == "around"
    pairs = (("predicted_bytes", "captured_bytes"), ("counted_bytes", "all_bytes"), ("seconds", "all_seconds"), ("intervals", "all_intervals"))
    sums = sums.with_columns(pl.when(whole_time).then(b).otherwise(a).alias(a) for a, b in pairs)
    zero = pl.lit(0, pl.Int64)
    sums = sums.with_columns(pl.when(whole_time).then(zero).otherwise(c).alias(c) for c in ("left_out_gap", "left_out_outside"))
    without = pl.when(pl.col("counter") == "rdma_bytes").then(pl.col("predicted_bytes") * headers / (1 + headers)).otherwise(0.0)
    sums = sums.with_columns((pl.col("error_bytes") + without).alias("error_bytes"))
    return LINK_BYTES.conform(_verdicts(_beside_peers(_with_hosts(sums), predicted), tolerance, unclear).select(LINK_BYTES.names))


def _with_hosts(sums: pl.DataFrame) -> pl.DataFrame:
    """With the difference over all adapters of a host, seen from one side, where all of them are compared inside the captures."""
    place = ("host", "side", "direction")
    whole = (pl.col("scope") == "inside").all().over(place) & (pl.len().over(place) > 1)
    ratio = pl.col("counted_bytes").sum().over(place) / pl.col("predicted_bytes").sum().over(place) - 1
    known = whole & (pl.col("predicted_bytes").sum().over(place) > 0)
    sums = sums.with_columns(pl.when(known).then(ratio).alias("host_difference"))
    some = pl.col("predicted_bytes") > 0
    bounds = {"difference": 0, "difference_low": -1, "difference_high": 1}
    counted, error, predicted = pl.col("counted_bytes"), pl.col("error_bytes"), pl.col("predicted_bytes")
    return sums.with_columns(pl.when(some).then((counted + sign * error) / predicted - 1).alias(name) for name, sign in bounds.items())


def _beside_peers(sums: pl.DataFrame, predicted: Predicted) -> pl.DataFrame:
    """With the difference beside those whose samples are off by the same time in the same traffic."""
    mixes = [np.round(share / max(share.sum(), 1e-300), 3) for share in (predicted.share(link, way) for link, way in sums.select("link", "way").iter_rows())]
    sums = sums.with_columns(pl.Series("mix", [" ".join(map(str, m)) for m in mixes], pl.String), pl.col("difference").is_not_null().alias("known"))
    like = ("clock", "mix", "first", "last", "seconds", "intervals", "known")
    usual = (1 + pl.col("difference")).median().over(like)
    peers = pl.when("known").then(pl.len().over(like)).otherwise(0).cast(pl.Int64)
    beside = pl.when((peers >= _PEERS) & (usual > 0)).then((1 + pl.col("difference")) / usual - 1)
    return sums.with_columns(peers.alias("peers"), beside.alias("beside_peers"))


_PEERS = 4
"""An end may be compared with so many alike: the median is that of the others."""


def _verdicts(sums: pl.DataFrame, tolerance: float, unclear: float) -> pl.DataFrame:
    counted, predicted, error = (pl.col(f"{n}_bytes") for n in ("counted", "predicted", "error"))
    # control messages and answers are always there: a hundredth of the busiest port is no traffic of the job
    little = counted <= 0.01 * counted.max()
    beside = pl.col("beside_peers").fill_null(0.0)
    above = (pl.col("difference_low") > tolerance) | ((beside > tolerance) & (pl.col("difference") > tolerance))
    below = (pl.col("difference_high") < -tolerance) | ((beside < -tolerance) & (pl.col("difference") < -tolerance))
    return sums.with_columns(
        pl.when(pl.col("scope") == "none")
        .then(pl.lit("not compared"))
        .when(predicted <= 0)
        .then(pl.when(little).then(pl.lit("agrees")).otherwise(pl.lit("unpredicted")))
        .when((counted <= 0.001 * predicted) & (error < predicted))
        .then(pl.lit("nothing"))
        .when(below)
        .then(pl.lit("less"))
        .when(above & (pl.col("scope") == "around"))
        .then(pl.lit("beyond"))
        .when(above)
        .then(pl.lit("more"))
        .when(error > unclear * predicted)
        .then(pl.lit("unclear"))
        .otherwise(pl.lit("agrees"))
        .alias("verdict")
    )


def windows_of(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Rows of LINK_BYTES_WINDOWS from those of `compared`: at most about `most` windows of equal length per end and direction."""
    kept = rows.filter("kept")
    first, last = pl.col("start_ns").min().over("series"), pl.col("end_ns").max().over("series")
    # the middle decides: samples are not taken at even moments
    middle = (pl.col("start_ns") + pl.col("end_ns")) // 2 - first
    usual = (pl.col("end_ns") - pl.col("start_ns")).median().over("series")
    length = pl.max_horizontal((last - first) / most, usual)
    kept = kept.with_columns((middle / length).floor().cast(pl.Int64).alias("window"))
    out = kept.group_by(*END[:4], "direction", "series", "run", "window", maintain_order=True).agg(
        pl.col("start_ns").first(),
        pl.col("end_ns").last(),
        pl.len().cast(pl.Int64).alias("intervals"),
        pl.col("predicted").sum().alias("predicted_bytes"),
        pl.col("delta").sum().alias("counted_bytes"),
        (pl.col("error_start").first() + pl.col("error_end").last()).alias("error_bytes"),
    )
    return LINK_BYTES_WINDOWS.conform(out.select(LINK_BYTES_WINDOWS.names))
