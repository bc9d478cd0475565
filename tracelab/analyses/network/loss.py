"""Which ports lost packets, whether at a steady rate, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import END, END_COLUMNS, Counted, carried, counted, label, nothing_counted, several, totals, uncovered
from tracelab.analyses.network.scatter import PATTERNS, with_patterns
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import NotObservable
from tracelab.tables import Column, TableSpec
from tracelab.units import NS_PER_US, format_share

__all__ = ["ANALYSIS", "LOSS", "LOSS_COUNTERS", "Params", "goodput"]

DROPS = ("discards", "errors", "queue_drop_packets", "pg_drop_packets", "wred_drop_packets")
"""A packet counted by one of these is gone."""
ASKED_AGAIN = ("packet_seq_err",)
"""A gap in the sequence that the receiver complained of, counted at the sender: one per loss, or a little less."""
RESENT = ("retransmit_packets", "retransmit_bytes", "retransmit_timeouts", "adaptive_retransmits", "ack_timeout", "slow_restarts", "duplicate_request")
"""What follows from loss; with go-back-N many per lost packet."""
REORDERED = ("out_of_sequence",)
"""No loss by itself: adaptive routing reorders."""
SOFTWARE = ("rnr_nak", "rx_no_buffer", "cqe_error")
"""The receiving software had nothing posted, or a request ended with an error: not the network."""
COUNTERS = (*DROPS, *ASKED_AGAIN, *RESENT, *REORDERED, *SOFTWARE)

LOSS_COUNTERS = TableSpec(
    "loss_counters",
    "What each port counted of lost, repeated and reordered packets; ports without a row for a counter did not have it collected",
    (
        *END_COLUMNS,
        Column("counter", "string", "counter", nullable=False, key=True),
        Column("direction", "string", "tx or rx as this port sees it", key=True),
        Column("total", "float64", "counted in the intervals that touch the captures; null where none of them can be trusted"),
        Column("per_million", "float64", "per million packets of the same direction (of either where the counter has none)"),
        Column("intervals", "int64", "intervals counted", nullable=False),
        Column("rose", "int64", "of them, with a rise", nullable=False),
        Column("rose_share", "float64", "of them, with a rise", "ratio"),
        Column("left_out", "int64", "intervals with a reset or a gap: not counted", nullable=False),
        Column("dispersion", "float64", "χ² of the counts against a constant rate, per degree of freedom: 1 where chance alone scatters them"),
        Column("p_value", "float64", "chance of at least that scatter at a constant rate (χ² test)"),
        Column("pattern", "string", PATTERNS, nullable=False),
    ),
    ("tier", "link", "side", "node", "port", "counter", "direction"),
)
LOSS = TableSpec(
    "loss",
    "Loss of each port and direction, and what it costs where senders go back to the lost packet",
    (
        *END_COLUMNS,
        Column("direction", "string", "tx or rx as this port sees it", nullable=False, key=True),
        Column("packets_per_s", "float64", "packets of that direction; null where neither they nor bytes are counted", "packet/s"),
        Column("packets_origin", "string", "counted, or bytes (divided by the MTU of the parameters: too few packets, so too much loss)"),
        Column("lost", "float64", "packets lost: the largest of the drop counters, or gaps that receivers complained of"),
        Column("lost_from", "string", "counter that `lost` is taken from"),
        Column("share", "float64", "lost of sent packets", "ratio"),
        Column("window_packets", "float64", "N: packets under way, speed × round trip / MTU"),
        Column("window_origin", "string", "speed (of the link), or rate (the fastest interval: N is at least this)"),
        Column("goodput", "float64", "expected share of the bandwidth that is left with go-back-N: 1 / (1 + share × N)", "ratio"),
        Column("pattern", "string", PATTERNS),
        Column("verdict", "string", "loss (beyond the parameter), below (counted, but less), or none", nullable=False),
        Column("beyond_line", "bool", "more than the line of 0.01 %", nullable=False),
    ),
    ("tier", "link", "side", "node", "port", "direction"),
)


@dataclass(frozen=True)
class Params:
    """What counts as loss, and what its cost is computed from.

    `least_share` (ratio; 1e-5): practitioners keep RoCE fabrics below it; `least_packets` (10): fewer may be strays of other
    traffic. `line` (ratio; 1e-4): the often quoted 0.01 %, shown in a column alone: what that costs depends on speed and round
    trip (2.4 % at 400 Gbit/s and 20 µs, 11 % at 100 µs, with go-back-N; far less with selective repeat; timeouts come on top).
    `round_trip_us` (µs; 20): a loaded fabric of two tiers; `mtu_bytes` (B; 4096): the usual one of RDMA. `steady_p` (0.01):
    counts that scatter less likely than that are not at a constant rate.
    """

    least_share: float = 1e-5
    least_packets: int = 10
    line: float = 1e-4
    round_trip_us: float = 20.0
    mtu_bytes: int = 4096
    steady_p: float = 0.01


def goodput(share: pl.Expr, window_packets: pl.Expr) -> pl.Expr:
    """Share of the bandwidth left where every lost packet makes the sender repeat all that was under way: 1 / (1 + p·N)."""
    return 1 / (1 + share * window_packets)


def _run(tables: Tables, params: Params) -> AnalysisResult:
    given = counted(tables)
    rates = given.rates.filter(pl.col("priority").is_null() | pl.col("counter").is_in(DROPS))
    sums = totals(rates, COUNTERS)
    if not sums.height:
        answer, unseen = nothing_counted("counters of lost and repeated packets", given)
        return AnalysisResult(answer, {}, degraded="; ".join(given.caveats), not_observable=(unseen, *given.unseen))
    packets = _packets(rates, params.mtu_bytes)
    counters = _counters(sums, rates, packets, params.steady_p)
    loss = _loss(counters, packets, rates, params)
    frames = {LOSS_COUNTERS.name: counters, LOSS.name: loss}
    unseen_here = _not_observable(counters, loss)
    caveats = [*given.caveats]
    lost = counters.filter(pl.col("used").fill_null(False) & (pl.col("intervals") == 0))
    if lost.height:
        caveats.append(f"{several(lost.select('node', 'port').n_unique(), 'port')} had counters reset in every interval: what they lost is not known")
    return AnalysisResult(
        _answer(given, counters, loss) + uncovered(tables)[0],
        {n: f for n, f in frames.items() if f.height},
        degraded="; ".join(caveats),
        not_observable=(*given.unseen, *unseen_here),
    )


def _packets(rates: pl.DataFrame, mtu: int) -> pl.DataFrame:
    """Packets per second of each port and direction: END, direction, packets_per_s, packets_origin."""
    own = carried(rates, "packets").select(*END, "direction", packets_per_s="per_s", packets_origin=pl.lit("counted"))
    more = carried(rates, "bytes").select(*END, "direction", packets_per_s=pl.col("per_s") / mtu, packets_origin=pl.lit("bytes"))
    both = pl.concat([own, more]).filter(pl.col("packets_per_s") > 0)
    return both.unique([*END, "direction"], keep="first", maintain_order=True)


def _counters(sums: pl.DataFrame, rates: pl.DataFrame, packets: pl.DataFrame, steady_p: float) -> pl.DataFrame:
    """Rows of LOSS_COUNTERS. Priorities and queues of one port are added up; the pattern is that of the one that rose most."""
    key = [*END, "counter", "direction"]
    patterned = with_patterns(sums, rates, steady_p).sort("total", descending=True, nulls_last=True)
    first = ("intervals", "rose", "left_out", "dispersion", "p_value", "pattern")
    known = pl.col("total").is_not_null().any()
    out = patterned.group_by(key, maintain_order=True).agg(
        pl.when(known).then(pl.col("total").sum()).alias("total"),
        pl.when(known).then(pl.col("per_s").sum()).alias("per_s"),
        *(pl.col(c).first() for c in first),
    )
    either = packets.group_by(END).agg(pl.col("packets_per_s").max().alias("_either"))
    out = out.join(packets.drop("packets_origin"), on=[*END, "direction"], how="left", nulls_equal=True).join(either, on=END, how="left", nulls_equal=True)
    of = pl.when(pl.col("direction").is_null()).then("_either").otherwise("packets_per_s")
    in_packets = ~pl.col("counter").is_in(["retransmit_bytes"])
    out = out.with_columns(
        pl.when(in_packets).then(pl.col("per_s") / of * 1e6).alias("per_million"),
        pl.when(pl.col("intervals") > 0).then(pl.col("rose") / pl.col("intervals")).alias("rose_share"),
    )
    return LOSS_COUNTERS.conform(out.select(LOSS_COUNTERS.names))


def _loss(counters: pl.DataFrame, packets: pl.DataFrame, rates: pl.DataFrame, params: Params) -> pl.DataFrame:
    """Rows of LOSS."""
    real = counters.filter(pl.col("counter").is_in([*DROPS, *ASKED_AGAIN]) & pl.col("direction").is_not_null() & pl.col("total").is_not_null())
    most = real.sort("total", "counter", descending=[True, False]).unique([*END, "direction"], keep="first", maintain_order=True)
    fastest = rates.filter((pl.col("counter") == "bytes") & ~pl.col("at_least") & ~pl.col("gap"))
    fastest = fastest.group_by([*END, "direction"]).agg(pl.col("per_s").max().alias("fastest"))
    speeds = rates.group_by(END).agg(pl.col("speed_bps").first())
    out = most.join(packets, on=[*END, "direction"], how="left", nulls_equal=True)
    out = out.join(fastest, on=[*END, "direction"], how="left", nulls_equal=True).join(speeds, on=END, how="left", nulls_equal=True)
    share = (pl.col("per_million") / 1e6).clip(upper_bound=1.0)
    speed = pl.coalesce(pl.col("speed_bps") / 8, "fastest")
    under_way = speed * (params.round_trip_us * NS_PER_US / 1e9) / params.mtu_bytes
    origin = pl.when(pl.col("speed_bps").is_not_null()).then(pl.lit("speed")).when(pl.col("fastest").is_not_null()).then(pl.lit("rate"))
    out = out.with_columns(share.alias("share"), under_way.alias("window_packets"), origin.alias("window_origin"))
    # of unknown traffic, the number alone decides
    much = (pl.col("total") >= params.least_packets) & (pl.col("share").fill_null(1.0) >= params.least_share)
    verdict = pl.when(much).then(pl.lit("loss")).when(pl.col("total") > 0).then(pl.lit("below")).otherwise(pl.lit("none"))
    out = out.with_columns(
        goodput(pl.col("share"), pl.col("window_packets")).alias("goodput"),
        verdict.alias("verdict"),
        (pl.col("share") > params.line).fill_null(False).alias("beyond_line"),
    )
    return LOSS.conform(out.rename({"total": "lost", "counter": "lost_from"}).select(LOSS.names))


def _not_observable(counters: pl.DataFrame, loss: pl.DataFrame) -> list[NotObservable]:
    out = []
    used = counters.filter(pl.col("used").fill_null(False))
    have = set(used["counter"])
    if used.height and not have & {*ASKED_AGAIN, *RESENT}:
        reason = "no counter of the transport (packet_seq_err, retransmissions, timeouts) was collected of the job's adapters"
        out.append(NotObservable("Did senders have to repeat packets?", reason, "/sys/class/infiniband/<device>/ports/1/hw_counters of every host"))
    if used.height and not have & set(DROPS):
        reason = "no counter of dropped packets was collected of the job's links"
        out.append(
            NotObservable("Where were packets dropped?", reason, "discards and errors of switch ports and adapters (ethtool -S, show interfaces counters)")
        )
    bad = loss.filter(pl.col("used").fill_null(False) & (pl.col("verdict") == "loss"))
    if bad.height:
        reason = (
            "no source states whether the adapters repeat one packet (selective repeat) or all from the lost one on (go-back-N): the cost is for the latter"
        )
        out.append(NotObservable("What does the loss cost?", reason, "model and firmware of the adapters, and the transport that they are set to"))
    return out


def _answer(given: Counted, counters: pl.DataFrame, loss: pl.DataFrame) -> str:
    used = counters.filter(pl.col("used").fill_null(False))
    ports = used.select("node", "port").n_unique()
    bad = loss.filter(pl.col("used").fill_null(False) & (pl.col("verdict") == "loss")).sort("share", "lost", descending=True, nulls_last=True)
    if not ports:
        return f"{several(counters.select('node', 'port').n_unique(), 'port')} counted losses, none of them known to be of the job."
    if not bad.height:
        below = loss.filter(pl.col("used").fill_null(False) & (pl.col("verdict") == "below")).height
        return f"None of the {several(ports, 'port')} of the job with such counters lost packets" + (" beyond a stray few." if below else ".")
    first = bad.row(0, named=True)
    rate = (
        f"{format_share(first['share'])} of its packets"
        if (first["share"] or 0) >= 1e-3
        else f"{1e6 * first['share']:.0f} per million"
        if first["share"]
        else ""
    )
    what = ", ".join(x for x in (first["direction"], rate, first["lost_from"]) if x)
    text = f"{label(first)} lost {first['lost']:.0f} packets ({what}), {_HOW[first['pattern']]}"
    if first["goodput"] is not None:
        least = "at least " if first["window_origin"] == "rate" else ""
        text += f"; with go-back-N that is expected to cost {least}{format_share(1 - first['goodput'])} of its bandwidth, timeouts aside"
    others = bad.select("node", "port").unique().height - 1
    return given.beside(text + (f". Losses also at {several(others, 'other port')}." if others else "."))


_HOW = {
    "once": "in a single interval",
    "steady": "at a steady rate",
    "varying": "in most intervals, at a varying rate",
    "bursts": "in bursts",
    "unknown": "in too few intervals to tell how",
    "none": "not in the intervals at hand",
}

ANALYSIS = Analysis(
    "loss",
    "Packet loss",
    "Which ports lost packets, steadily or in bursts, and what does it cost?",
    ("counter_rates",),
    Params,
    (LOSS, LOSS_COUNTERS),
    _run,
    {"counter_rates": "no counter of a link was read twice; collect ethtool -S, hw_counters and the switch's counters every second, or before and after"},
)
