"""What the counters of each link say beside those of its peers: which of them stand out, and when."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analysis import Tables

__all__ = ["FAMILIES", "Signal", "signals_of"]


@dataclass(frozen=True)
class Family:
    """Counters that say one thing.

    `least`: events in the window below which nothing is said; `times`: how often as much as the usual peer's; `floor`: rate per
    second that counts as usual where the peers have none; `per_byte`: compared per byte carried.
    """

    counters: tuple[str, ...]
    least: float
    times: float
    floor: float
    per_byte: bool = False


FAMILIES: dict[str, Family] = {
    "integrity": Family(("symbol_errors", "crc_errors", "rcv_errors", "errors", "fec_uncorrectable", "pcs_errors", "local_link_integrity"), 20, 10, 0.5),
    "discards": Family(("discards", "queue_drop_packets", "pg_drop_packets", "wred_drop_packets"), 20, 10, 0.5),
    "resent": Family(
        ("packet_seq_err", "out_of_sequence", "retransmit_packets", "retransmit_timeouts", "ack_timeout", "adaptive_retransmits", "duplicate_request"),
        20,
        10,
        0.5,
    ),
    "waiting": Family(("xmit_wait_ticks",), 1e6, 5, 1e3, per_byte=True),
    "paused": Family(("pfc_pause_us", "pfc_pause_frames", "pfc_transitions", "global_pause_frames", "global_pause_us"), 100, 10, 5),
    "marked": Family(("ecn_marked_packets", "cnp_sent", "cnp_handled"), 200, 10, 5),
    "down": Family(("link_down_events", "link_transitions", "link_recovery"), 1, 1, 0),
}
"""Families by name. Thresholds hold for one link against the others of its tier; a rise alone is no fault."""

_HARD_DOWN = ("link_down_events", "link_transitions")


@dataclass(frozen=True)
class Signal:
    """One family's loudest counter at one end of one link.

    `count` in the window, `per_s` its rate, `usual` the median rate of the peers, `ratio` the two (with the floor).
    `rises`: start and end (ns, aligned) of the intervals in which it rose at more than half its rate.
    """

    link: int
    family: str
    counter: str
    node: str
    end: str
    series: int
    count: float
    per_s: float
    usual: float
    ratio: float
    rises: tuple[tuple[int, int], ...]


def signals_of(tables: Tables, links: pl.DataFrame, window: tuple[int, int]) -> list[Signal]:
    """What stands out: of each end of a link and family the counter with the largest ratio, in order of link, the louder end first.

    `links`: the table of that name; `window`: first and last moment.
    Intervals that a reset or a gap makes a lower bound count as nothing.
    """
    rates = _rates(tables, window)
    sides = [("a", "a_node", "a_device"), ("a", "a_node", "a_port"), ("b", "b_node", "b_port")]
    named = [links.select("link", "tier", node=node, end=end, side=pl.lit(side)) for side, node, end in sides]
    ends = pl.concat(named).drop_nulls().unique(["node", "end"], keep="first", maintain_order=True)
    rows = rates.join(ends, on=["node", "end"], how="inner")
    out: list[Signal] = []
    for name, family in FAMILIES.items():
        mine = rows.filter(pl.col("counter").is_in(family.counters))
        if mine.height:
            out += _standing_out(name, family, mine)
    out += _degraded(links, window)
    return sorted(out, key=lambda s: (s.link, s.family, -s.ratio, s.series))


def _degraded(links: pl.DataFrame, window: tuple[int, int]) -> list[Signal]:
    """Links that run slower than most others of their tier do, by their own statement: lanes or a speed were lost."""
    known = links.filter(pl.col("speed_bps").is_not_null()).with_columns(pl.col("speed_bps").mode().max().over("tier").alias("usual"))
    slow = known.filter((pl.col("speed_bps") < pl.col("usual")) & (pl.len().over("tier") > 2))
    return [
        Signal(
            r["link"], "degraded", "link_speed", r["a_node"], r["a_device"] or r["a_port"], -1, r["speed_bps"], 0.0, 0.0, r["usual"] / r["speed_bps"], (window,)
        )
        for r in slow.iter_rows(named=True)
    ]


def _rates(tables: Tables, window: tuple[int, int]) -> pl.DataFrame:
    """Rates of hosts' adapters and switches' ports that overlap the window, with the part that lies in it."""
    inside = (pl.col("end_ns") > window[0]) & (pl.col("start_ns") < window[1])
    rows = tables["counter_rates"].filter(inside & ~pl.col("at_least") & ~pl.col("gap"))
    columns = ("series", "start_ns", "end_ns", "node", "device", "port", "direction", "counter", "delta", "per_s")
    found = rows.select(columns).with_columns(pl.col("device", "direction", "counter").cast(pl.String)).collect(engine="streaming")
    numbered = pl.when(pl.col("port") > 1).then(pl.concat_str("device", pl.lit("/"), pl.col("port").cast(pl.String))).otherwise("device")
    return found.with_columns(pl.coalesce(numbered, pl.col("port").cast(pl.String)).alias("end"))


def _standing_out(name: str, family: Family, rows: pl.DataFrame) -> list[Signal]:
    keys = ["link", "tier", "side", "node", "end", "counter", "series"]
    carried = pl.col("delta").sum()
    sums = rows.group_by(keys, maintain_order=True).agg(carried.alias("count"), ((pl.col("end_ns") - pl.col("start_ns")).sum() / 1e9).alias("seconds"))
    sums = sums.with_columns((pl.col("count") / pl.col("seconds")).alias("per_s"))
    # peers: the same counter at the same end of the other links of the tier; the median over all of them is that of the healthy ones
    sums = sums.with_columns(pl.col("per_s").median().over("tier", "side", "counter").alias("usual"), pl.len().over("tier", "side", "counter").alias("peers"))
    sums = sums.with_columns((pl.col("per_s") / pl.max_horizontal("usual", pl.lit(max(family.floor, 1e-9)))).alias("ratio"))
    loud = sums.filter((pl.col("count") >= family.least) & (pl.col("ratio") >= family.times) & (pl.col("peers") > 1))
    if name == "down":
        loud = sums.filter((pl.col("count") >= 1) & (pl.col("usual") == 0) & (pl.col("peers") > 1) & pl.col("counter").is_in(_HARD_DOWN))
    out = []
    for row in (
        loud.sort("link", "ratio", "series", descending=[False, True, False]).unique(["link", "side"], keep="first", maintain_order=True).iter_rows(named=True)
    ):
        own = rows.filter((pl.col("series") == row["series"]) & (pl.col("per_s") > 0.5 * row["per_s"])).sort("start_ns")
        rises = _joined(list(own.select("start_ns", "end_ns").iter_rows()))
        out.append(
            Signal(row["link"], name, row["counter"], row["node"], row["end"], row["series"], row["count"], row["per_s"], row["usual"], row["ratio"], rises)
        )
    return out


def _joined(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return tuple(out)
