"""How counts scatter over intervals: at a constant rate, varying, or in bursts."""

from __future__ import annotations

import polars as pl
from scipy.stats import chi2

__all__ = ["PATTERNS", "dispersion", "with_patterns"]

PATTERNS = (
    "steady (no more scatter than chance gives at a constant rate, as a cable does), varying (more, in most intervals), "
    "bursts (more, in less than half of them), once (one interval), none, or unknown (too few intervals or counts)"
)
_LEAST_INTERVALS = 4
_LEAST_COUNT = 20
"""With fewer, χ² of the counts is no approximation."""
_LUMPS = r"(?:bytes|_us|_ns|_ticks)$"
"""Counters that rise by more than one at an event."""


def dispersion(counts: list[float], seconds: list[float]) -> tuple[float, float]:
    """χ² per degree of freedom of `counts` against one rate over intervals of those lengths, and the chance of at least that.

    The test of a Poisson process's constant rate (Fisher's index of dispersion, for intervals of unequal length).
    """
    rate = sum(counts) / sum(seconds)
    value = sum((n - rate * t) ** 2 / (rate * t) for n, t in zip(counts, seconds, strict=True))
    free = len(counts) - 1
    return value / free, float(chi2.sf(value, free))


def with_patterns(sums: pl.DataFrame, rates: pl.DataFrame, steady_p: float) -> pl.DataFrame:
    """`sums` (rows of `totals`) with dispersion, p_value and pattern of each series' intervals."""
    rising = sums.filter((pl.col("rose") > 0) & (pl.col("intervals") >= _LEAST_INTERVALS) & (pl.col("total") >= _LEAST_COUNT))["series"]
    # only events are counted one by one: bytes and times come in lumps of any size
    events = ~pl.col("counter").str.contains(_LUMPS)
    rows = rates.filter(pl.col("series").is_in(rising.implode()) & ~pl.col("at_least") & ~pl.col("gap") & events)
    found = [
        (series, *dispersion(part["delta"].to_list(), part["seconds"].to_list()))
        for (series,), part in rows.select("series", "delta", "seconds").group_by("series", maintain_order=True)
    ]
    schema = {"series": pl.Int32, "dispersion": pl.Float64, "p_value": pl.Float64}
    out = sums.join(pl.DataFrame(found, schema=schema, orient="row"), on="series", how="left", maintain_order="left")
    none = pl.when(pl.col("intervals") == 0).then(pl.lit("unknown")).when(pl.col("rose") == 0).then(pl.lit("none"))
    few = none.when(pl.col("intervals") < _LEAST_INTERVALS).then(pl.lit("unknown")).when(pl.col("rose") == 1).then(pl.lit("once"))
    few = few.when(pl.col("p_value").is_null()).then(pl.lit("unknown"))
    pattern = few.when(pl.col("p_value") >= steady_p).then(pl.lit("steady")).when(pl.col("rose") * 2 >= pl.col("intervals")).then(pl.lit("varying"))
    return out.with_columns(pattern.otherwise(pl.lit("bursts")).alias("pattern"))
