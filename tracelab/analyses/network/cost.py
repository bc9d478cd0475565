"""How long transfers would have taken on links that work, and what the job would have saved."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import polars as pl

from tracelab.analyses.common import once
from tracelab.analyses.intervals import length, union
from tracelab.analyses.network.demand import Demand, demand_of
from tracelab.analyses.network.ends import carried, counted
from tracelab.analyses.network.signals import usual_speed
from tracelab.analyses.partition import partition_of
from tracelab.analysis import Tables
from tracelab.replay.job import Job, job_of

__all__ = ["Slow", "Slowness", "job_again"]

_STANDARD_GBPS = (10, 25, 40, 50, 100, 200, 400, 800, 1600)
"""Speeds that ports have."""
_USUAL_GBPS = ((r"A100|A800|H100|H800|H20\b|H200|GH200|B100|B200|B300|MI2\d\d|MI3\d\d", 200), (r"V100|A10\b|A30\b|A40\b|L40", 100))
"""The slowest adapters that servers with these GPUs are commonly sold with for training (DGX A100: 200 Gb/s, DGX-2: 100)."""
_BANDWIDTH_NS = 200_000
"""Shorter transfers are bound by latency: a faster link would not end them earlier."""
_LOW = 0.2
"""Quantile of the transfers of a class that counts as its usual best."""
_SLOW = 1.15
"""Transfers that take this much longer than they need are slow."""


@dataclass(frozen=True)
class Slowness:
    """`transfers`: those of `Demand` that bandwidth bounds, with `healthy_ns`.

    `measured`: healthy times were seen in the same run, not computed. `spread`: the 90 % quantile of what like transfers took
    per byte, over the 10 % quantile.
    """

    transfers: pl.DataFrame
    measured: bool
    spread: float

    def beside(self, spans: Sequence[tuple[int, int]], but: Collection[int] = ()) -> Slowness:
        """Those of the transfers that touch `spans`, without the matches `but`."""
        return self._only(_touching(spans) & ~pl.col("match_id").is_in(list(but)))

    def apart(self, spans: Sequence[tuple[int, int]], but: Collection[int] = ()) -> Slowness:
        """Those of the transfers that touch none of `spans`, without the matches `but`."""
        return self._only(~_touching(spans) & ~pl.col("match_id").is_in(list(but)))

    def alone(self) -> Slowness:
        """Those of the transfers that no other one ran beside."""
        return self._only(~pl.col("beside"))

    def _only(self, which: pl.Expr) -> Slowness:
        return replace(self, transfers=self.transfers.filter(which))

    def __len__(self) -> int:
        return self.transfers.height

    @property
    def ratio(self) -> float:
        """Time that the transfers took, over what they would have taken; 1 without any."""
        healthy = float(self.transfers["healthy_ns"].sum())
        return float(self.transfers["transfer_ns"].sum()) / healthy if healthy else 1.0

    @property
    def healthy(self) -> dict[int, int]:
        """Healthy length (ns) of the slow ones, by match."""
        rows = self.transfers.filter(pl.col("healthy_ns") < pl.col("transfer_ns"))
        return dict(rows.select("match_id", pl.col("healthy_ns").round().cast(pl.Int64)).iter_rows())

    @property
    def concentration(self) -> float:
        """Share of the transfers that hold the lost time, as if each of them held an equal part: small where few were slow; 1 without any."""
        lost = (self.transfers["transfer_ns"] - self.transfers["healthy_ns"]).cast(pl.Float64).clip(0)
        squares = float((lost**2).sum())
        return float(lost.sum()) ** 2 / squares / len(self) if squares else 1.0


def _touching(spans: Sequence[tuple[int, int]]) -> pl.Expr:
    return pl.any_horizontal([pl.lit(False), *[(pl.col("last_start_ns") < end) & (pl.col("end_ns") > start) for start, end in spans]])


def _speeds_of(tables: Tables, links: pl.DataFrame, busy: float) -> tuple[pl.DataFrame, bool]:
    """Speed of the links from hosts (of all ports, where none is known to lead to a host), and whether it was stated.

    Where no source states any: the standard speed next above what the busiest port carried while transfers ran (the share
    `busy` of the time), and no less than what servers with such GPUs have. That is a low estimate: transfers seem to need
    longer than they do, and the claimed loss is too small rather than too large.
    """
    hosts = links.filter((pl.col("tier") == 0) | ~(pl.col("tier") == 0).any()).select("link", "speed_bps")
    if hosts["speed_bps"].null_count() < hosts.height:
        # a link that lost lanes ran faster before: what most links that the job uses run at is what it should
        used = counted(tables).ends.filter(pl.col("used").fill_null(True))["link"].unique()
        usual = hosts.filter(pl.col("link").is_in(used.implode())).select(usual_speed()).item()
        return hosts.with_columns(pl.max_horizontal("speed_bps", pl.lit(usual, pl.Int64)).alias("speed_bps")), True
    traffic = tables["counter_rates"].filter((pl.col("counter").cast(pl.String) == "bytes") & ~pl.col("at_least"))
    per_series = traffic.group_by("series").agg(pl.col("delta").sum() / ((pl.col("end_ns") - pl.col("start_ns")).sum() / 1e9)).collect()
    most = float(per_series["delta"].max() or 0.0)  # type: ignore[arg-type]
    if not most or not busy:
        return hosts, False
    gpus = " ".join(tables["ranks"].select(pl.col("gpu").unique().sort()).collect()["gpu"].drop_nulls())
    sold = next((gbps for pattern, gbps in _USUAL_GBPS if re.search(pattern, gpus)), 0)
    speed = next((s for s in _STANDARD_GBPS if s >= max(most / busy * 8 / 1e9 / 1.03, sold)), _STANDARD_GBPS[-1])
    return hosts.with_columns(pl.lit(speed * 1_000_000_000, pl.Int64).alias("speed_bps")), False


_SIZE_CLASS = pl.col("bytes").log(2).floor().alias("size_class")
"""Like sizes reach like shares of the speed: a factor of two apart is one class."""
_NEED = pl.coalesce("shortest_ns", "bytes").alias("need")
_PACE = pl.col("transfer_ns") / pl.col("need")
_OUTLYING = 3
"""A transfer beside others that took this many times as long as is usual of such ones was held up itself: sharing with one more costs a factor of two."""


def _among_alike(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Of transfers beside others, the time that their class takes over theirs: match_id, own (of its median), alike (of its fastest)."""
    together = rows.filter("beside").with_columns(_SIZE_CLASS, _NEED)
    own, alike = (_PACE.median().over(keys) / _PACE).alias("own"), (_PACE.quantile(_LOW).over(keys) / _PACE).clip(0, 1).alias("alike")
    return together.select("match_id", own, alike)


def _slowness_of(demand: Demand, link: int | None, *, uses: bool = True) -> Slowness | None:
    """The transfers that use a link (all that leave their hosts where it is None), and their healthy times; None without any.

    `uses` false: those that leave their hosts without using it.

    What the fastest of a class took is its healthy time, if that is near the shortest possible; else the whole run is slow, and
    the shortest possible counts. A transfer beside others shares its links: it is taken to be as slow as those alone in its step (else
    as it is beside the fastest that shared theirs), or, where it took several times as long as these usually take, as that says.
    """
    rows = demand.transfers.filter((pl.col("transfer_ns") >= _BANDWIDTH_NS) & (pl.col("shortest_ns").fill_null(_BANDWIDTH_NS) >= _BANDWIDTH_NS / 2))
    if link is not None:
        used = demand.per_byte.filter(pl.col("link") == link).select("group_id", "operation").unique()
        rows = rows.join(used, on=["group_id", "operation"], how="semi" if uses else "anti")
    if not rows.height:
        return None
    alone = rows.filter(~pl.col("beside"))
    known = alone if alone.height else rows
    known = known.with_columns(_SIZE_CLASS, _NEED)
    keys = ["group_id", "operation", "size_class"]
    spread = (_PACE.quantile(0.9) / _PACE.quantile(0.1)).alias("spread")
    best = known.group_by(keys).agg(_PACE.quantile(_LOW).alias("low"), pl.col("shortest_ns").is_not_null().all().alias("stated"), spread)
    whole = pl.col("stated") & (pl.col("low") > _SLOW)
    best = best.with_columns(pl.when(whole).then(1.0).otherwise("low").alias("base"), whole.alias("whole"))
    known = known.join(best, on=keys, how="left").with_columns((pl.col("base") * pl.col("need") / pl.col("transfer_ns")).clip(0, 1).alias("factor"))
    weight = pl.col("transfer_ns").cast(pl.Float64)
    by_step = known.group_by("step").agg(((pl.col("factor") * weight).sum() / weight.sum()).alias("step_factor"))
    factors = known.select("match_id", "factor")
    rows = rows.join(factors, on="match_id", how="left").join(by_step, on="step", how="left", nulls_equal=True)
    # of a class that was slow throughout, those beside others were as slow as those alone
    of_class = known.filter("whole").group_by(keys).agg(((pl.col("factor") * weight).sum() / weight.sum()).alias("class_factor"))
    rows = rows.with_columns(_SIZE_CLASS).join(of_class, on=keys, how="left", nulls_equal=True)
    rows = rows.join(_among_alike(rows, keys), on="match_id", how="left")
    factor = pl.min_horizontal(pl.coalesce("factor", "step_factor", "class_factor", "alike"), pl.when(pl.col("own") * _OUTLYING <= 1).then("own"))
    rows = rows.with_columns((factor * pl.col("transfer_ns")).alias("healthy_ns"))
    slow_by_base = float(known.filter("whole")["transfer_ns"].sum())
    scatter = float(known.select((pl.col("spread") * weight).sum() / weight.sum()).item())
    return Slowness(
        rows.drop("factor", "step_factor", "class_factor", "own", "alike", "size_class"), slow_by_base < 0.5 * float(known["transfer_ns"].sum()), scatter
    )


class Slow:
    """How slow transfers were, by link and assumed efficiency; computed when asked for."""

    def __init__(self, tables: Tables, links: pl.DataFrame, window: tuple[int, int]) -> None:
        self._tables = tables
        moved = tables["matches"].filter(pl.col("transfer_ns").is_not_null()).select("last_start_ns", "end_ns").collect()
        start, end = (moved[c].clip(*window).to_numpy() for c in ("last_start_ns", "end_ns"))
        self._speeds, self.stated = _speeds_of(tables, links, length(union(start, end)) / max(window[1] - window[0], 1))
        self._known: dict[tuple[int | None, float, bool], Slowness | None] = {}

    @property
    def assumed(self) -> str:
        """What is assumed of the links' speed; empty where a source states it."""
        if self.stated:
            return ""
        known = self._speeds["speed_bps"].drop_nulls()
        speed = f"{known[0] / 1e9:.0f} Gb/s" if known.len() else "none"
        return f"no source states the speed of a link; assumed: {speed} (set it where the wiring is described)"

    def speed_bps(self, link: int) -> float:
        """Speed of a link, stated or assumed; 0 where unknown."""
        found = self._speeds.filter(pl.col("link") == link)["speed_bps"].drop_nulls()
        return float(found[0]) if found.len() else 0.0

    def bytes_per_s(self, link: int) -> float:
        """What the link's busier way carries on average."""
        found = carried(counted(self._tables).rates.filter(pl.col("link") == link), "bytes")
        return float(found["per_s"].max() or 0.0)  # type: ignore[arg-type]

    def of(self, link: int | None, efficiency: float, *, uses: bool = True) -> Slowness | None:
        """The transfers that use the link (or do not), or all, with their healthy times at that efficiency."""
        key = (link, efficiency, uses)
        if key not in self._known:
            self._known[key] = _slowness_of(demand_of(self._tables, self._speeds, efficiency), link, uses=uses)
        return self._known[key]


def job_again(tables: Tables) -> Job | None:
    """The job, ready to be replayed; computed once."""
    return once(tables, "replay_job", lambda: job_of(tables, partition_of(tables).job))
