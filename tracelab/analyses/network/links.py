"""How full the links were, how evenly links of equal cost were used, and whether both ends of a link tell the same."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.balance import LINK_BALANCE, LINK_DISAGREEMENTS, balance_of, disagreements_of
from tracelab.analyses.network.ends import END, END_COLUMNS, Counted, carried, counted, label, median_step_ns, nothing_counted, several, shown, where
from tracelab.analyses.network.transfers import share_in_transfers
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import NotObservable
from tracelab.tables import Column, TableSpec
from tracelab.units import format_duration, format_rate, format_share

__all__ = ["ANALYSIS", "LINK_UTILISATION", "Params"]

LINK_UTILISATION = TableSpec(
    "link_utilisation",
    "Utilisation of each link end and direction during the captures: bytes per second × 8 / speed",
    (
        *END_COLUMNS,
        Column("rail", "int32", "number of the adapter on its host"),
        Column("direction", "string", "tx or rx as this end sees it", nullable=False, key=True),
        Column("speed_bps", "int64", "speed of the link; null where no source states it", "bit/s"),
        Column("samples", "int64", "intervals between two samples", nullable=False),
        Column("seconds", "float64", "time that they cover inside the captures", "s", nullable=False),
        Column("interval_s", "float64", "median length of an interval: what `p95` and `peak` are averages over", "s", nullable=False),
        Column("bytes_per_s", "float64", "mean over the captures", "byte/s", nullable=False),
        Column("mean", "float64", "mean utilisation", "ratio"),
        Column("p95", "float64", "95 % of the intervals were at most this full (linear interpolation)", "ratio"),
        Column("peak", "float64", "the fullest interval", "ratio"),
        Column("active", "float64", "mean weighted by the share of each interval in which the job transferred; null with samples coarser than a step", "ratio"),
        Column("headroom", "float64", "1 − peak", "ratio"),
        Column("lower_bound", "bool", "the counter was reset, or may have started again unseen: the true numbers are higher", nullable=False),
        Column("lines", "string", "which of the usual lines it lies outside of: mean-below, mean-above, peak-above; no judgement"),
    ),
    ("tier", "link", "side", "node", "port", "direction"),
)


@dataclass(frozen=True)
class Params:
    """Lines to compare with. Only `imbalance` and `disagreement` lead to a sentence.

    `mean_low`, `mean_high`, `peak` (ratio; 0.6, 0.8, 0.95): lines in common use, shown in a column and nothing more. They are no
    rule of health: training sends bursts at full speed and is silent in between, and a link that is full inside a collective
    is wanted. `imbalance` (ratio; 1.2): fullest over mean of links of equal cost; hashing of few flows exceeds it.
    `quiet` (ratio; 0.05): links that carry less than this share of the busiest link are not judged: a few messages are never even.
    `disagreement` (ratio; 0.05): bytes at both ends may differ by headers (6 % at an MTU of 1024) and by when they are read;
    what the reading can explain is added to it.
    """

    mean_low: float = 0.6
    mean_high: float = 0.8
    peak: float = 0.95
    imbalance: float = 1.2
    quiet: float = 0.05
    disagreement: float = 0.05


def _run(tables: Tables, params: Params) -> AnalysisResult:
    given = counted(tables)
    best = carried(given.rates, "bytes")
    if not best.height:
        answer, unseen = nothing_counted("counters of bytes", given)
        return AnalysisResult(answer, {}, degraded="; ".join(given.caveats), not_observable=(unseen,))
    rows = given.rates.join(best.select("series", "direction", "lower_bound"), on=["series", "direction"], how="inner")
    rows = rows.filter(~pl.col("at_least") | pl.col("lower_bound"))
    step = median_step_ns(tables)
    usual_ns = float(rows["seconds"].median() or 0) * 1e9  # type: ignore[arg-type]
    fine = step is not None and usual_ns < step
    active = share_in_transfers(tables, rows) if fine else pl.lit(None, pl.Float64)
    frame = _utilisation(rows.with_columns(active.alias("transfer_s")), params)
    balance = balance_of(tables, frame, given.ends, params.imbalance, params.quiet)
    apart = disagreements_of(rows, given.ends, params.disagreement)
    frames = {LINK_UTILISATION.name: frame, LINK_BALANCE.name: balance, LINK_DISAGREEMENTS.name: apart}
    caveats, unseen_here = _limits(frame, step, usual_ns, fine=fine)
    unseen_here += _open_ports(balance, params.imbalance)
    answer = " ".join([_sentence(frame, given), *_balance_words(balance), *_apart_words(apart)])
    return AnalysisResult(
        answer, {n: f for n, f in frames.items() if f.height}, degraded="; ".join([*given.caveats, *caveats]), not_observable=(*given.unseen, *unseen_here)
    )


def _utilisation(rows: pl.DataFrame, params: Params) -> pl.DataFrame:
    """Rows of LINK_UTILISATION from the intervals of the chosen series, with `transfer_s` (null where not known)."""
    share = pl.col("per_s") * 8 / pl.col("speed_bps")
    short = rows.filter(~pl.col("gap")).group_by("series").agg(share.quantile(0.95, "linear").alias("p95"), share.max().alias("peak"))
    within = pl.col("seconds") * pl.col("inside")
    weighted = (pl.col("per_s") * pl.col("transfer_s")).sum() / pl.col("transfer_s").sum()
    out = rows.group_by([*END, "rail", "direction", "speed_bps", "series"], maintain_order=True).agg(
        pl.len().alias("samples"),
        within.sum().alias("seconds"),
        pl.col("seconds").median().alias("interval_s"),
        ((pl.col("per_s") * within).sum() / within.sum()).alias("bytes_per_s"),
        pl.when(pl.col("transfer_s").sum() > 0).then(weighted * 8 / pl.col("speed_bps").first()).alias("active"),
        pl.col("lower_bound").first(),
    )
    out = out.join(short, on="series", how="left").with_columns((pl.col("bytes_per_s") * 8 / pl.col("speed_bps")).alias("mean"))
    outside = [
        pl.when(pl.col("mean") < params.mean_low).then(pl.lit("mean-below")),
        pl.when(pl.col("mean") > params.mean_high).then(pl.lit("mean-above")),
        pl.when(pl.col("peak") >= params.peak).then(pl.lit("peak-above")),
    ]
    lines = pl.concat_str(outside, separator="+", ignore_nulls=True)
    out = out.with_columns(pl.when(lines != "").then(lines).alias("lines"), (1 - pl.col("peak")).alias("headroom"))
    return LINK_UTILISATION.conform(out.select(LINK_UTILISATION.names))


def _limits(frame: pl.DataFrame, step: float | None, usual_ns: float, *, fine: bool) -> tuple[list[str], list[NotObservable]]:
    caveats, unseen = [], []
    if not fine:
        beside = f"a step takes {format_duration(step)}" if step is not None else "no step is known"
        reason = f"a sample every {format_duration(usual_ns)}, while {beside}: utilisation is that of whole intervals, not of the transfers in them"
        unseen.append(NotObservable("How full are the links while the job transfers?", reason, "byte counters several times per step: every 10 to 100 ms"))
    low = frame.filter("lower_bound")
    if low.height:
        caveats.append(f"{several(low.height, 'direction')} of links can only be bounded from below: the counters start again too often, or were reset")
    blind = frame.filter(pl.col("used") & pl.col("speed_bps").is_null())
    if blind.height:
        reason = f"no source states the speed of {several(blind['link'].n_unique(), 'link')}"
        unseen.append(NotObservable("How full are the links?", reason, "ethtool <interface> or ibstat of the hosts, or the switch's interface status"))
    return caveats, unseen


def _open_ports(balance: pl.DataFrame, imbalance: float) -> list[NotObservable]:
    """Ports that may be uplinks and carry unequal shares: whose they are, no source says."""
    rows = balance.filter((pl.col("kind") == "open") & (pl.col("max_over_mean") > imbalance)).sort("max_over_mean", "name", descending=[True, False])
    if not rows.height:
        return []
    worst = rows.row(0, named=True)
    most = f"{where(worst['fullest_node'], worst['fullest_port'])} has {worst['max_over_mean']:.2f} times the mean of {worst['links']} ({worst['direction']})"
    reason = f"no source names the other ends of {shown(worst['name'])}: uplinks, or hosts of others; {most}"
    collect = "LLDP of the switches (show lldp neighbors, lldpctl), ibnetdiscover, or a table of the cables between switches"
    return [NotObservable("Were the uplinks used evenly?", reason, collect)]


def _sentence(frame: pl.DataFrame, given: Counted) -> str:
    used = frame.filter(pl.col("used").fill_null(False))
    if not used.height:
        return f"{several(frame.select('node', 'port').n_unique(), 'port')} counted bytes, none of them known to be of the job."
    counted_links = used["link"].n_unique()
    start = f"{several(counted_links, 'link')} of the job with counters of bytes"
    top = used.sort("mean", "link", "side", "direction", descending=[True, False, False, False], nulls_last=True).row(0, named=True)
    if top["mean"] is None:
        most = used.sort("bytes_per_s", "link", "side", "direction", descending=[True, False, False, False]).row(0, named=True)
        least = "at least " if most["lower_bound"] else ""
        return f"{start}; the most moved {least}{format_rate(most['bytes_per_s'])} ({label(most)}, {most['direction']}); their speed is not known."
    fullest = used.filter(pl.col("peak") == pl.col("peak").max())
    text = f"{start}; the fullest was at {format_share(top['mean'])} in the mean ({label(top)}, {top['direction']})"
    if fullest.height:
        peak = fullest.row(0, named=True)
        text += f", and the fullest interval of {peak['interval_s']:.3g} s at {format_share(peak['peak'])} ({label(peak)}, {peak['direction']})"
    return text + "."


def _balance_words(balance: pl.DataFrame) -> list[str]:
    uneven = balance.filter("uneven").sort("max_over_mean", descending=True)
    return [
        f"{row['name'][:1].upper()}{shown(row['name'][1:])} carried unequal shares ({row['direction']}): {where(row['fullest_node'], row['fullest_port'])} "
        f"{row['max_over_mean']:.2f} times the mean of {row['links']} links (Jain index {row['jain']:.2f})."
        for row in uneven.head(2).iter_rows(named=True)
    ]


def _apart_words(apart: pl.DataFrame) -> list[str]:
    rows = apart.filter("contradicts")
    if not rows.height:
        return []
    worst = rows.sort(pl.col("difference").abs(), descending=True).row(0, named=True)
    ends = f"{where(worst['a_node'], worst['a_port'])} and {where(worst['b_node'], worst['b_port'])}"
    others = several(rows["link"].n_unique(), "link")
    return [f"Both ends of {others} count different bytes; the furthest apart are {ends}, {format_share(abs(worst['difference']))}: trust neither alone."]


ANALYSIS = Analysis(
    "links",
    "Links",
    "How full were the links, how evenly were they used, and do both ends count the same?",
    ("counter_rates",),
    Params,
    (LINK_UTILISATION, LINK_BALANCE, LINK_DISAGREEMENTS),
    _run,
    {"counter_rates": "no counter of a link was read twice; collect byte counters of adapters and switch ports every second, or before and after"},
)
