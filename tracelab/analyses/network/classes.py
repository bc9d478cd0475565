"""In which traffic class the bytes travelled, and whether that is one that flow control keeps from loss."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import END, END_COLUMNS, counted, label, nothing_counted, several, totals
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import NotObservable
from tracelab.tables import Column, TableSpec
from tracelab.units import format_bytes, format_share

__all__ = ["ANALYSIS", "TRAFFIC_CLASSES", "Params"]

_BYTES = ("priority_bytes", "queue_bytes")
_DROPS = ("queue_drop_packets", "pg_drop_packets", "wred_drop_packets")
_PAUSES = ("pfc_pause_frames", "pfc_pause_us", "pfc_transitions")
_PRIORITIES = 8

_LOSSLESS = "this port counts pauses of the priority (adapters do only where flow control is on), or had some; null where that tells nothing"

TRAFFIC_CLASSES = TableSpec(
    "traffic_classes",
    "Bytes, drops and pauses of each port by traffic class",
    (
        *END_COLUMNS,
        Column("counted_as", "string", "priority or queue: what the source counts by", nullable=False, key=True),
        Column("traffic_class", "int32", "number of the priority or queue", nullable=False, key=True),
        Column("direction", "string", "tx or rx as this port sees it; of queues tx, of priority groups rx", nullable=False, key=True),
        Column("bytes", "float64", "carried in the intervals that touch the captures; null where not collected or not to be trusted", "byte"),
        Column("share", "float64", "of all bytes that this port counts by class in that direction", "ratio"),
        Column("lossless", "bool", _LOSSLESS),
        Column("pause_frames", "float64", "pause frames of that priority and direction; null where not collected", "packet"),
        Column("drops", "float64", "packets dropped in that class; null where not collected", "packet"),
        Column("mainly", "bool", "most of the port's bytes of that direction are of this class", nullable=False),
        Column("doubtful", "bool", "it carries most of the bytes of a port of the job, and another class of the port is the lossless one", nullable=False),
    ),
    ("tier", "link", "side", "node", "port", "counted_as", "direction", "traffic_class"),
)


@dataclass(frozen=True)
class Params:
    """`main_share` (ratio; 0.5): a class with more than this of a port's bytes is the one that carries them.

    `least_bytes` (B; 1e9): ports that counted less are not judged: management and storage have classes of their own.
    `least_drops` (packet; 10): fewer in a lossless class are not worth a word.
    """

    main_share: float = 0.5
    least_bytes: float = 1e9
    least_drops: float = 10


def _run(tables: Tables, params: Params) -> AnalysisResult:
    given = counted(tables)
    rates = given.rates.with_columns(_number().alias("class"), _way().alias("direction"))
    frame = _classes(rates, params)
    if not frame.height:
        answer, unseen = nothing_counted("counters by priority or queue", given)
        return AnalysisResult(answer, {}, degraded="; ".join(given.caveats), not_observable=(unseen, *given.unseen))
    out = []
    ours = frame.filter(pl.col("used").fill_null(False))
    if ours.height and not ours["lossless"].is_not_null().any():
        reason = "no port of the job counts pauses by priority in a way that shows for which of them flow control is on"
        collect = "mlnx_qos -i <interface> of the hosts, and PFC settings and DSCP maps of the switch"
        out.append(NotObservable("Is the class that carries the bytes lossless?", reason, collect))
    return AnalysisResult(_answer(frame, params), {TRAFFIC_CLASSES.name: frame}, degraded="; ".join(given.caveats), not_observable=(*given.unseen, *out))


def _number() -> pl.Expr:
    """Number of the class: the priority, else the digits at the end of the queue's name (UC3, PG3)."""
    return pl.coalesce(pl.col("priority").cast(pl.Int32), pl.col("queue").str.extract(r"(\d{1,2})$").cast(pl.Int32))


def _way() -> pl.Expr:
    """Queues are on the way out, priority groups on the way in, where the source does not say."""
    group = pl.col("queue").str.to_uppercase().str.starts_with("PG") | pl.col("counter").str.starts_with("pg_")
    return pl.coalesce("direction", pl.when(group).then(pl.lit("rx")).when(pl.col("queue").is_not_null()).then(pl.lit("tx")))


def _classes(rates: pl.DataFrame, params: Params) -> pl.DataFrame:
    """Rows of TRAFFIC_CLASSES."""
    rates = rates.filter(pl.col("class").is_not_null() & pl.col("direction").is_not_null())
    by_priority = pl.when(pl.col("queue").is_null()).then(pl.lit("priority")).otherwise(pl.lit("queue"))
    rates = rates.with_columns(by_priority.alias("counted_as"))
    key = [*END, "counted_as", "class", "direction"]
    moved, drops = _events(rates, _BYTES, key, "bytes"), _events(rates, _DROPS, key, "drops")
    pauses = _events(rates, ("pfc_pause_frames",), [*END, "class", "direction"], "pause_frames")
    out = moved.join(drops, on=key, how="full", coalesce=True, nulls_equal=True)
    out = out.join(pauses, on=[*END, "class", "direction"], how="left", nulls_equal=True)
    out = out.join(_lossless(rates), on=[*END, "class"], how="left", nulls_equal=True)
    out = out.join(_lossless(rates).group_by(END).agg(pl.col("on").any().alias("tells")), on=END, how="left", nulls_equal=True)
    # of a port with counters for some priorities alone, the others have no flow control
    lossless = pl.when(pl.col("on")).then(True).when(pl.col("tells")).then(False)
    whole = pl.col("bytes").sum().over([*END, "counted_as", "direction"])
    out = out.with_columns(lossless.alias("lossless"), pl.when(whole > 0).then(pl.col("bytes") / whole).alias("share"))
    mainly = (pl.col("share") > params.main_share).fill_null(False)
    doubtful = mainly & pl.col("used").fill_null(False) & (pl.col("lossless") == False).fill_null(False) & (whole >= params.least_bytes)  # noqa: E712
    out = out.with_columns(mainly.alias("mainly"), doubtful.alias("doubtful")).rename({"class": "traffic_class"})
    return TRAFFIC_CLASSES.conform(out.select(TRAFFIC_CLASSES.names))


def _events(rates: pl.DataFrame, counters: tuple[str, ...], key: list[str], name: str) -> pl.DataFrame:
    """What was counted by class, added up over `counters` as the column `name`; null where none can be trusted."""
    rows = rates.with_columns(pl.col("class").alias("priority"))
    sums = totals(rows, counters).with_columns(
        pl.col("priority").alias("class"), pl.when(pl.col("queue").is_null()).then(pl.lit("priority")).otherwise(pl.lit("queue")).alias("counted_as")
    )
    known = pl.col("total").is_not_null().any()
    return sums.group_by(key, maintain_order=True).agg(pl.when(known).then(pl.col("total").sum()).alias(name))


def _lossless(rates: pl.DataFrame) -> pl.DataFrame:
    """Priorities with flow control: END, class, on. A port that counts pauses of all eight says nothing, but for those with pauses."""
    rows = rates.filter(pl.col("counter").is_in(_PAUSES) & (pl.col("counted_as") == "priority"))
    good = pl.col("delta").filter(~pl.col("at_least") & ~pl.col("gap"))
    sums = rows.group_by([*END, "class"], maintain_order=True).agg((good.sum() > 0).alias("sent"))
    some = pl.len().over(END) < _PRIORITIES
    return sums.with_columns((some | pl.col("sent")).alias("on")).drop("sent")


def _answer(frame: pl.DataFrame, params: Params) -> str:
    ours = frame.filter(pl.col("used").fill_null(False))
    if not ours.height:
        return "No port that counts by class is known to be of the job."
    parts = []
    doubtful = ours.filter("doubtful")
    if doubtful.height:
        first = doubtful.sort("bytes", descending=True).row(0, named=True)
        ports = doubtful.select("node", "port").n_unique()
        more = f" and {several(ports - 1, 'other port')}" if ports > 1 else ""
        parts.append(
            f"{label(first)}{more} carried {format_share(first['share'])} of the bytes in {first['counted_as']} {first['traffic_class']}, "
            "which has no flow control, while another priority has: the marking (DSCP), or the priority that flow control is set for, is wrong."
        )
    dropped = ours.filter(pl.col("lossless").fill_null(False) & (pl.col("drops") >= params.least_drops))
    if dropped.height:
        first = dropped.sort("drops", descending=True).row(0, named=True)
        parts.append(f"{label(first)} dropped {first['drops']:.0f} packets of {first['counted_as']} {first['traffic_class']}, which should be lossless.")
    if parts:
        return " ".join(parts)
    mainly = ours.filter("mainly")
    if not mainly.height:
        return f"{several(ours.select('node', 'port').n_unique(), 'port')} of the job count by class; no class carries most of the bytes of any."
    sums = mainly.group_by("counted_as", "traffic_class", "lossless").agg(pl.col("bytes").sum(), pl.struct("node", "port").n_unique().alias("ports"))
    top = sums.sort("bytes", "counted_as", "traffic_class", descending=[True, False, False]).row(0, named=True)
    state = {True: "which has flow control", False: "which has no flow control", None: "of which flow control is not known"}[top["lossless"]]
    return f"Most bytes of {several(top['ports'], 'port')} travel in {top['counted_as']} {top['traffic_class']} ({format_bytes(top['bytes'])}), {state}."


ANALYSIS = Analysis(
    "classes",
    "Traffic classes",
    "Which priority carried the bytes, and is it one that flow control keeps from loss?",
    ("counter_rates",),
    Params,
    (TRAFFIC_CLASSES,),
    _run,
    {"counter_rates": "no counter of a link was read twice; collect ethtool -S (rx_prio3_bytes …) and queue counters of the switches"},
)
