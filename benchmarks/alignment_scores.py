"""How good an alignment of a made job is, against its truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.alignment_data import T0, Job, names, tables
from tracelab.align import Aligned, align

__all__ = ["Clocks", "Matching", "aligned", "clock_scores", "last_arrivers", "matching_scores", "step_scores"]

Float = NDArray[np.float64]

_MOMENTS = 9
_FOUND_NS = 500e6
"""A step is found if one of its size is stated this near: steps smaller than what ends scatter by cannot be placed better."""
_AROUND_NS = 50e6
"""Truth is not asked for closer to a step: which of its neighbours come after it is a matter of the step itself."""


@dataclass
class Clocks:
    """Errors of the clocks in µs at several moments of each host, whether each host's stated uncertainty covers them, raw errors, and widths."""

    raw: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    stated: list[float] = field(default_factory=list)


@dataclass
class Matching:
    """Of all parts: matched, rightly so, and those that have a partner."""

    matched: int = 0
    right: int = 0
    possible: int = 0


def aligned(job: Job) -> Aligned:
    """The job through the whole alignment."""
    return align(tables(job), names(job), job.start.shape[1])


def _pieces(found: Aligned) -> dict[str, pl.DataFrame]:
    return {str(h): part.sort("start_ns") for (h,), part in found.clocks.group_by("host", maintain_order=True)}


def clock_scores(job: Job, found: Aligned) -> Clocks:
    """Errors are against the median host at the same moment: what is common to all is no error."""
    moments = np.linspace(0.02, 0.98, _MOMENTS) * job.knots[-1]
    pieces = _pieces(found)
    hosts = sorted(set(names(job).values()))
    errors, raw = np.empty((len(hosts), _MOMENTS)), np.empty((len(hosts), _MOMENTS))
    unsure, near = np.empty((len(hosts), _MOMENTS)), np.zeros((len(hosts), _MOMENTS), dtype=bool)
    for h, host in enumerate(hosts):
        ahead = job.offset_at(h, moments)
        starts = pieces[host]["start_ns"].to_numpy() - T0
        own = moments + ahead
        at = np.maximum(np.searchsorted(starts, own, side="right") - 1, 0)
        added = pieces[host]["offset_ns"].to_numpy()[at] + pieces[host]["drift_ppm"].to_numpy()[at] * 1e-6 * (own - starts[at])
        errors[h], raw[h], unsure[h] = ahead + added, ahead, pieces[host]["uncertainty_ns"].fill_null(0).to_numpy()[at]
        for when, _ in job.jumps(h):
            near[h] |= np.abs(moments - when) < _AROUND_NS
    errors, raw = np.abs(errors - np.median(errors, axis=0)), np.abs(raw - np.median(raw, axis=0))
    covered = [bool(right.all()) for right in (errors <= unsure) | near]
    return Clocks((raw / 1e3).ravel().tolist(), (errors[~near] / 1e3).tolist(), covered, (unsure[:, 0] / 1e3).tolist())


def step_scores(job: Job, found: Aligned) -> tuple[int, int, int, int]:
    """Steps there are, of these found, of these called a jump in a notice, and pieces of clocks that begin with a step that is none."""
    there = seen = invented = 0
    for h, (_, pieces) in enumerate(sorted(_pieces(found).items())):
        rows = list(pieces.select("start_ns", "offset_ns", "drift_ppm").iter_rows())
        changes = [(b[0] - T0, a[1] + a[2] * 1e-6 * (b[0] - a[0]) - b[1]) for a, b in pairwise(rows)]
        changes = [(at, size) for at, size in changes if abs(size) > 100]
        true = [(at + float(job.offset_at(h, np.array([at]))[0]), size) for at, size in job.jumps(h)]
        there += len(true)
        for at, size in true:
            match = [c for c in changes if abs(c[0] - at) < _FOUND_NS and abs(c[1] - size) < max(0.3 * abs(size), 15e3)]
            seen += bool(match)
            changes = [c for c in changes if c not in match[:1]]
        invented += len(changes)
    return there, seen, sum(n.count for n in found.notices if n.code == "clock-jump"), invented


def last_arrivers(job: Job, found: Aligned) -> tuple[int, int, float]:
    """Operations across hosts whose last arrival is clear of the stated uncertainty of the two hosts; of these right; and right without alignment (share)."""
    parts = _parts(job, found)
    unsure = {str(h): int(u) for h, u in found.clocks.group_by("host").agg(pl.col("uncertainty_ns").max()).iter_rows() if u is not None}
    parts = parts.with_columns(pl.col("rank").replace_strict(names(job), return_dtype=pl.String).alias("host"))
    parts = parts.with_columns(pl.col("host").replace_strict(unsure, default=None, return_dtype=pl.Float64).alias("unsure"))
    last = parts.sort("match_id", "start_ns", descending=[False, True]).group_by("match_id", maintain_order=True)
    tops = last.agg(
        pl.col("host").first().alias("last"),
        pl.col("rank").first().alias("last_rank"),
        pl.col("host").get(1, null_on_oob=True).alias("second"),
        (pl.col("start_ns").first() - pl.col("start_ns").get(1, null_on_oob=True)).alias("by"),
        (pl.col("unsure").first().pow(2) + pl.col("unsure").get(1, null_on_oob=True).pow(2)).sqrt().alias("limit"),
        pl.col("rank").sort_by("true_start").last().alias("truly"),
        pl.col("rank").sort_by("source_ts_ns").last().alias("raw"),
    )
    tops = tops.filter(pl.col("last") != pl.col("second"))
    clear = tops.filter(pl.col("by") > pl.col("limit"))
    return clear.height, int((clear["last_rank"] == clear["truly"]).sum()), float((tops["raw"] == tops["truly"]).mean() or 0.0)  # type: ignore[arg-type]


def _parts(job: Job, found: Aligned) -> pl.DataFrame:
    """The matched parts with the operation that they truly are part of (`slot` and `group`) and their true start."""
    slot, rank = np.nonzero(job.present)
    truth = pl.DataFrame(
        {
            "rank": rank.astype(np.int32),
            "source_ts_ns": job.local_start[slot, rank],
            "operation": slot * (int(job.group.max()) + 1) + job.group[slot, rank],
            "true_start": job.start[slot, rank],
        }
    )
    rows = found.derived["collectives"].select("rank", "source_ts_ns", "start_ns", "match_id")
    return rows.join(truth, on=["rank", "source_ts_ns"], how="inner")


def matching_scores(job: Job, found: Aligned) -> Matching:
    """A part is right where it is matched with most of what its match holds, and most of what its operation has."""
    parts = _parts(job, found)
    possible = parts.filter(pl.len().over("operation") > 1)
    together = possible.filter(pl.col("match_id").is_not_null() & (pl.len().over("match_id") > 1))
    held = together.group_by("match_id").agg(pl.col("operation").mode().sort().first().alias("mostly"))
    together = together.join(held, on="match_id")
    shown = together.filter(pl.col("operation") == pl.col("mostly")).group_by("operation", "match_id").agg(pl.len().alias("n"))
    best = shown.sort("n", "match_id", descending=[True, False]).unique("operation", keep="first").select("operation", "match_id")
    right = together.filter(pl.col("operation") == pl.col("mostly")).join(best, on=["operation", "match_id"], how="semi")
    return Matching(together.height, right.height, possible.height)
