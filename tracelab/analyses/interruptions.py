"""Whether a rank's kernels are all slower than its peers', or a few are interrupted; and whether interruptions return with a period."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import COMMUNICATION, COMPUTE
from tracelab.analyses.common import gpu_work
from tracelab.analyses.intervals import union
from tracelab.analyses.partition import Partition
from tracelab.analysis import Tables

__all__ = ["Kernel", "KernelProfile", "kernel_profile", "period_of"]

Float = NDArray[np.float64]

SHORT_NS = 2_000
"""Kernels of a few µs scatter by their own length."""
LEAST_EVENTS = 5


class Kernel(NamedTuple):
    """One kernel, and how long the same kernel usually takes on the peers (ns)."""

    source_id: int
    source_ts_ns: int
    ts_ns: int
    dur_ns: int
    name: str
    usual: float


@dataclass(frozen=True)
class KernelProfile:
    """Kernels of some ranks against the same kernels of their peers.

    `excess_ns` is what they took longer together, and `slower` that as a share of the peers' time;
    `ratio` is the median slowdown, weighted by length; `uniform` the share of the excess that it explains; `events` the
    times (ns) of single kernels that exceed their peers by most, `worst` the one that lost most. `apart` is the median slowdown
    of those that no communication ran beside, on either side; None where these are too few.
    """

    excess_ns: float
    slower: float
    ratio: float
    uniform: float
    events: NDArray[np.int64]
    worst: Kernel
    apart: float | None = None

    @property
    def by_overlap(self) -> bool:
        """Whether kernels are slower only while communication runs beside them: they share the GPU for longer, and are not slow themselves."""
        return self.apart is not None and self.apart - 1 < _MOSTLY_APART * (self.ratio - 1)


_MOSTLY_APART = 0.3
"""Share of the slowdown that kernels without communication beside them show, below which it is that of the communication."""
_LEAST_APART = 0.2
"""Share of the kernels' time that must run without communication beside it, to be compared."""


def kernel_profile(tables: Tables, ranks: list[int], peers: list[int], part: Partition, numbers: Iterable[int]) -> KernelProfile | None:
    """Compares kernel by kernel (name, how often it ran in the step so far) within the steps of these numbers."""
    steps = part.windows_of([*ranks, *peers]).filter(pl.col("step").is_in(list(numbers)))
    if not steps.height:
        return None
    low, high = steps["start_ns"].min(), steps["end_ns"].max()
    spans = gpu_work(tables).filter(pl.col("op_class").is_in([COMPUTE, COMMUNICATION]) & pl.col("rank").is_in([*ranks, *peers]))
    spans = spans.filter((pl.col("ts_ns") >= low) & (pl.col("ts_ns") < high) & (pl.col("dur_ns") > 0))
    columns = ("rank", "source_id", "source_ts_ns", "ts_ns", "dur_ns", pl.col("name", "op_class").cast(pl.String))
    rows = _with_company(spans.select(*columns).collect(engine="streaming").sort("ts_ns"))
    rows = rows.join_asof(steps, left_on="ts_ns", right_on="start_ns", by="rank", strategy="backward", check_sortedness=False)
    rows = rows.filter(pl.col("ts_ns") < pl.col("end_ns")).with_columns(pl.int_range(pl.len()).over("rank", "step", "name").alias("nth"))
    key = ["step", "name", "nth"]
    lengths = (pl.col("dur_ns").median().alias("usual"), pl.col("dur_ns").filter("apart").median().alias("usual_apart"))
    usual = rows.filter(pl.col("rank").is_in(peers)).group_by(key).agg(*lengths)
    own = rows.filter(pl.col("rank").is_in(ranks)).join(usual, on=key)
    own = own.with_columns((pl.col("dur_ns") - pl.col("usual")).alias("over")).sort("ts_ns", "rank")
    if not own.height:
        return None
    long = own.filter(pl.col("usual") >= SHORT_NS)
    ratio = _weighted_median((long["dur_ns"] / long["usual"]).to_numpy(), long["usual"].to_numpy()) if long.height else 1.0
    total = float(own["over"].sum())
    uniform = (ratio - 1.0) * float(own["usual"].sum()) / total if total > 0 else 0.0
    rest = own.with_columns((pl.col("dur_ns") - ratio * pl.col("usual")).alias("rest"))
    limit = max(0.3 * float(rest["rest"].max() or 0.0), 100_000.0)  # type: ignore[arg-type]
    events = rest.filter(pl.col("rest") > limit)["ts_ns"].to_numpy()
    worst = own.select(Kernel._fields).row(int(np.argmax(own["over"].to_numpy())))
    free = long.filter(pl.col("apart") & pl.col("usual_apart").is_not_null())
    enough = float(free["usual"].sum()) >= _LEAST_APART * float(long["usual"].sum()) > 0
    apart = _weighted_median((free["dur_ns"] / free["usual_apart"]).to_numpy(), free["usual"].to_numpy()) if enough else None
    return KernelProfile(total, total / max(float(own["usual"].sum()), 1.0), ratio, uniform, events, Kernel(*worst), apart)


def _with_company(rows: pl.DataFrame) -> pl.DataFrame:
    """The compute among the rows, with whether no communication ran beside it on its rank (`apart`)."""
    parts = []
    for _, mine in rows.group_by("rank", maintain_order=True):
        compute, other = mine.filter(pl.col("op_class") == COMPUTE), mine.filter(pl.col("op_class") != COMPUTE)
        starts, ends = union(other["ts_ns"].to_numpy(), (other["ts_ns"] + other["dur_ns"]).to_numpy())
        at = np.searchsorted(ends, compute["ts_ns"].to_numpy(), side="right")
        until = (compute["ts_ns"] + compute["dur_ns"]).to_numpy()
        beside = np.r_[starts, np.iinfo(np.int64).max][at] < until
        parts.append(compute.with_columns(pl.Series("apart", ~beside)))
    return pl.concat(parts).sort("ts_ns") if parts else rows.with_columns(pl.lit(True).alias("apart"))


def _weighted_median(values: Float, weights: Float) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def period_of(times: NDArray[np.int64], width_ns: float) -> float | None:
    """The period (ns) of events at `times` (ns, several ranks may report one event within `width_ns`), or None.

    Needs five events, and four of five gaps between them within 15 % of a multiple of the usual gap.
    """
    ordered = np.sort(times)
    if not len(ordered):
        return None
    first = np.append(True, np.diff(ordered) > 2 * width_ns)
    gaps = np.diff(ordered[first]).astype(np.float64)
    if len(gaps) + 1 < LEAST_EVENTS:
        return None
    usual = float(np.median(gaps))
    turns = np.round(gaps / usual)
    regular = (turns >= 1) & (np.abs(gaps / usual - turns) <= 0.15)
    return float(gaps[regular].sum() / turns[regular].sum()) if regular.mean() >= 0.8 else None
