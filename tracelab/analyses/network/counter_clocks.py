"""The clocks that stamped the counters of bytes, beside the job's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracelab.analyses.intervals import Intervals
from tracelab.analyses.network.lag import Fit, Samples, fit_lag
from tracelab.analyses.network.predicted import Predicted
from tracelab.analysis import Tables
from tracelab.tables import Column, TableSpec
from tracelab.units import NS_PER_S

__all__ = ["COUNTER_CLOCKS", "CounterClock", "clocks_of", "clocks_table", "host_bounds", "stamps_of"]

_STATUS = (
    "found; ambiguous (several shifts explain the counts, or one that is no better than its neighbours); edge (the best shift is at the end of those tried); "
    "flat (all explain them alike); few (too few samples inside the captures for shifts of more than a step: totals alone can be compared)"
)

COUNTER_CLOCKS = TableSpec(
    "counter_clocks",
    "Clocks that stamped counters of bytes, and the shifts under which what the job sent explains best what they counted; nearest to 0 first",
    (
        Column("clock", "string", "whose clock: a machine's, or the collector's", nullable=False, key=True),
        Column("candidate", "int64", "number of the shift, from 1; 0 where there is none", nullable=False, key=True),
        Column("status", "string", _STATUS, nullable=False),
        Column("host", "bool", "the clock is a host's of the job, which is aligned by its collectives: the shift should be 0", nullable=False),
        Column("series", "int64", "counters of bytes that it stamped", nullable=False),
        Column("intervals", "int64", "sampling intervals compared", nullable=False),
        Column("period_ns", "float64", "median time between two samples", "ns", nullable=False),
        Column("step_ns", "float64", "median length of a step: shifts that differ by it cannot be told apart in a job that repeats itself", "ns"),
        Column("range_ns", "int64", "shifts up to this were tried, ahead and behind", "ns", nullable=False),
        Column("lag_ns", "float64", "the counter's clock minus the job's: positive where it is ahead", "ns"),
        Column("se_ns", "float64", "standard error of it, from the curvature of the sum of squares", "ns"),
        Column("misfit", "float64", "root mean square of what stays unexplained, over the mean bytes of an interval", "ratio"),
        Column("accepted", "bool", "it is the only one: moments of this clock are shifted by it here", nullable=False),
    ),
    ("clock", "candidate"),
)


_HOST_NS = 2 * NS_PER_S
"""Shifts up to this, or two steps, are tried for the clock of a host."""


@dataclass(frozen=True)
class CounterClock:
    """One clock. `shift_ns`: what is taken from its moments; `uncertainty_ns`: how far they may be off after that.

    `checked`: the uncertainty was measured, by the job's collectives or by the bytes; else it is assumed.
    """

    name: str
    host: bool
    series: int
    period_ns: float
    fit: Fit
    shift_ns: int
    uncertainty_ns: int
    checked: bool


def stamps_of(tables: Tables) -> pl.DataFrame:
    """Who stamped each series, how, and how finely: series, clock, quality, resolution_ns (0 where below a millisecond)."""
    rows = tables["counters"].filter(pl.col("source_ts_ns").is_not_null() | pl.col("ts_ns").is_not_null())
    stamp = pl.coalesce("source_ts_ns", "ts_ns")
    grains = [((stamp % grain) == 0).all() for grain in (NS_PER_S, NS_PER_S // 1000)]
    resolution = pl.when(grains[0]).then(NS_PER_S).when(grains[1]).then(NS_PER_S // 1000).otherwise(0)
    quality = pl.col("time_quality").cast(pl.String).first().alias("quality")
    out = rows.group_by("series").agg(pl.col("clock").first(), quality, resolution.alias("resolution_ns"))
    return out.sort("series").collect(engine="streaming")


def host_bounds(tables: Tables) -> dict[str, int | None]:
    """How far the clocks of the job's hosts may be off the aligned clock; those of hosts that could not be aligned are left out."""
    known = tables["clocks"].filter((pl.col("method") != "none") | (pl.col("host").n_unique() == 1))
    return dict(known.group_by("host").agg(pl.col("uncertainty_ns").max()).sort("host").collect().iter_rows())


def clocks_of(
    tables: Tables, rows: pl.DataFrame, predicted: Predicted, spans: Intervals, step_ns: float | None, *, most_ns: int, assumed_ns: int
) -> dict[str, CounterClock]:
    """The clocks by name. `rows`: intervals of the chosen series: clock, series, link, way, start_ns, end_ns, delta, good.

    `most_ns`: the largest shift tried; `assumed_ns`: how far a clock may be off that nothing checks.
    """
    bounds = host_bounds(tables)
    out = {}
    for (name,), part in rows.sort("clock", "start_ns", "end_ns", "series").group_by("clock", maintain_order=True):
        own = bounds.get(str(name))
        # the collectives have put it on the job's clock: only how its samples are stamped can be wrong
        reach = most_ns if own is None else min(most_ns, max(_HOST_NS, round(2 * (step_ns or 0))))
        fit = fit_lag(_samples(part, predicted), predicted.until, spans, step_ns, reach)
        shift, uncertainty, checked = 0, own if own is not None else assumed_ns, own is not None
        if fit.status == "found":
            shift, uncertainty, checked = round(fit.candidates[0].lag_ns), round(3 * fit.candidates[0].se_ns), True
        elif fit.candidates and np.isfinite(fit.candidates[0].se_ns):
            nearest = fit.candidates[0]
            uncertainty = max(uncertainty, round(abs(nearest.lag_ns) + 3 * nearest.se_ns)) if not checked else uncertainty
        period = float((part["end_ns"] - part["start_ns"]).median() or 0)  # type: ignore[arg-type]
        out[str(name)] = CounterClock(str(name), str(name) in bounds, part["series"].n_unique(), period, fit, shift, uncertainty, checked)
    return out


def _samples(rows: pl.DataFrame, predicted: Predicted) -> Samples:
    """What one clock's counters counted in each interval, those of the same interval together.

    Counters that stand still, or on whose links nothing is predicted, say nothing of time.
    """
    rows = rows.filter(pl.col("good") & (pl.col("delta").sum().over("series") > 0))
    ends = rows.select("link", "way").unique(maintain_order=True)
    shares = np.array([predicted.share(link, way) for link, way in ends.iter_rows()]).reshape(ends.height, len(predicted.names))
    rows = rows.join(ends.with_columns(pl.Series("share", np.arange(ends.height))), on=["link", "way"], how="inner")
    rows = rows.filter(pl.Series(shares.any(axis=1), dtype=pl.Boolean).gather(rows["share"]))
    both = rows.group_by("start_ns", "end_ns").agg(pl.col("delta").sum(), pl.col("share")).sort("start_ns", "end_ns")
    weights = np.array([shares[found].sum(axis=0) for found in both["share"].to_list()]).reshape(both.height, len(predicted.names))
    return Samples(both["start_ns"].to_numpy(), both["end_ns"].to_numpy(), both["delta"].to_numpy(), weights)


def clocks_table(clocks: Mapping[str, CounterClock], step_ns: float | None) -> pl.DataFrame:
    """Rows of COUNTER_CLOCKS."""
    rows = []
    for c in clocks.values():
        base = {"clock": c.name, "status": c.fit.status, "host": c.host, "series": c.series, "intervals": c.fit.intervals, "period_ns": c.period_ns}
        base |= {"step_ns": step_ns, "range_ns": c.fit.range_ns}
        rows += [
            base
            | {"candidate": n, "lag_ns": k.lag_ns, "se_ns": k.se_ns if np.isfinite(k.se_ns) else None, "misfit": k.misfit, "accepted": c.fit.status == "found"}
            for n, k in enumerate(c.fit.candidates, 1)
        ]
        if not c.fit.candidates:
            rows.append(base | {"candidate": 0, "lag_ns": None, "se_ns": None, "misfit": None, "accepted": False})
    schema = {c.name: COUNTER_CLOCKS.polars[c.name] for c in COUNTER_CLOCKS.columns}
    return COUNTER_CLOCKS.conform(pl.DataFrame(rows, schema=schema))
