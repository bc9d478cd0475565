"""What the counters of each link say beside those of its peers: which of them stand out, and when."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import counted
from tracelab.analysis import Tables

__all__ = ["FAMILIES", "Repeats", "Signal", "repeats_of", "signals_of", "usual_speed"]


@dataclass(frozen=True)
class Family:
    """Counters that say one thing.

    `least`: events in the window below which nothing is said; `times`: how often as much as the usual peer's; `floor`: rate per
    second that counts as usual where the peers have none.
    """

    counters: tuple[str, ...]
    least: float
    times: float
    floor: float


FAMILIES: dict[str, Family] = {
    "integrity": Family(("symbol_errors", "crc_errors", "rcv_errors", "errors", "fec_uncorrectable", "pcs_errors", "local_link_integrity"), 20, 10, 0.5),
    "discards": Family(("discards", "queue_drop_packets", "pg_drop_packets", "wred_drop_packets"), 20, 10, 0.5),
    "resent": Family(
        ("packet_seq_err", "out_of_sequence", "retransmit_packets", "retransmit_timeouts", "ack_timeout", "adaptive_retransmits", "duplicate_request"),
        20,
        10,
        0.5,
    ),
    "waiting": Family(("xmit_wait_ticks",), 1e6, 5, 1e3),
    "paused": Family(("pfc_pause_us", "pfc_pause_frames", "pfc_transitions", "global_pause_frames", "global_pause_us"), 100, 10, 5),
    "marked": Family(("ecn_marked_packets", "cnp_sent", "cnp_handled"), 200, 10, 5),
    "down": Family(("link_down_events", "link_transitions", "link_recovery"), 1, 1, 0),
}
"""Families by name. Thresholds hold for one link against the others of its tier; a rise alone is no fault."""

_HARD_DOWN = ("link_down_events", "link_transitions")


@dataclass(frozen=True)
class Signal:
    """One family's loudest counter at one end of one link.

    `count` in the window, `per_s` its rate, `usual` the median rate of the peers, `ratio` the two (with the floor). Of the family
    degraded, which counts nothing, `count` is the link's speed and `usual` that of the peers, bit/s.
    `rises`: start and end (ns, aligned) of the times in which it rose at more than half its rate.
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


@dataclass(frozen=True)
class Repeats:
    """What hosts say of packets sent again: `links` whose counters would show it, and how many were (`count`, by the counter that saw most)."""

    links: frozenset[int]
    count: float


def signals_of(tables: Tables, links: pl.DataFrame, window: tuple[int, int]) -> list[Signal]:
    """What stands out: of each end of a link and family the counter with the largest ratio, in order of link, the louder end first.

    `links`: the table of that name; `window`: first and last moment. Only links that the job uses are looked at, or are peers
    of others: an idle link has no errors. Intervals that a reset or a gap makes a lower bound count as nothing.
    """
    rows = _rows(tables)
    out: list[Signal] = []
    for name, family in FAMILIES.items():
        mine = rows.filter(pl.col("counter").is_in(family.counters))
        if mine.height:
            out += _standing_out(name, family, mine)
    used = counted(tables).ends.filter(pl.col("used").fill_null(True))["link"]
    out += _degraded(links.filter(pl.col("link").is_in(used.implode())), window)
    return sorted(out, key=lambda s: (s.link, s.family, -s.ratio, s.series))


def repeats_of(tables: Tables) -> Repeats:
    """What the hosts' ends of the job's links say of packets sent again."""
    rows = _rows(tables).filter(pl.col("counter").is_in(FAMILIES["resent"].counters) & (pl.col("side") == "a"))
    sums = rows.group_by("counter").agg(pl.col("delta").sum())["delta"]
    return Repeats(frozenset(rows["link"].unique()), float(sums.max() or 0.0))  # type: ignore[arg-type]


def _rows(tables: Tables) -> pl.DataFrame:
    """Exact rates during the captures at the ends of links that the job uses, or may use."""
    exact = ~pl.col("at_least") & ~pl.col("gap")
    return counted(tables).rates.filter(exact & pl.col("link").is_not_null() & pl.col("used").fill_null(True))


def _degraded(links: pl.DataFrame, window: tuple[int, int]) -> list[Signal]:
    """Links that run slower than most others of their tier do, by their own statement: lanes or a speed were lost."""
    known = links.filter(pl.col("speed_bps").is_not_null()).with_columns(usual_speed().over("tier").alias("usual"))
    slow = known.filter((pl.col("speed_bps") < pl.col("usual")) & (pl.len().over("tier") > 2))
    out = []
    for r in slow.iter_rows(named=True):
        end, speed, usual = r["a_device"] or r["a_port"], r["speed_bps"], r["usual"]
        out.append(Signal(r["link"], "degraded", "link_speed", r["a_node"], end, -1, speed, 0.0, usual, usual / speed, (window,)))
    return out


def usual_speed() -> pl.Expr:
    """The speed (bit/s) that more than half of the links have that state one; null where there is none."""
    speed = pl.col("speed_bps")
    most = speed.median()  # what more than half have is also the middle
    return pl.when((speed == most).sum() * 2 > speed.count()).then(most).cast(pl.Int64)


def _standing_out(name: str, family: Family, rows: pl.DataFrame) -> list[Signal]:
    keys = ["link", "tier", "side", "node", "port", "counter", "series"]
    sums = rows.group_by(keys, maintain_order=True).agg(pl.col("delta").sum().alias("count"), pl.col("seconds").sum())
    sums = sums.with_columns((pl.col("count") / pl.col("seconds")).alias("per_s"))
    # peers: the same counter at the same end of the other links of the tier; the median over all of them is that of the healthy ones,
    # as long as no more than half are ill: of an even number the lower middle
    sums = sums.with_columns(
        pl.col("per_s").quantile(0.5, "lower").over("tier", "side", "counter").alias("usual"), pl.len().over("tier", "side", "counter").alias("peers")
    )
    sums = sums.with_columns((pl.col("per_s") / pl.max_horizontal("usual", pl.lit(max(family.floor, 1e-9)))).alias("ratio"))
    loud = sums.filter((pl.col("count") >= family.least) & (pl.col("ratio") >= family.times) & (pl.col("peers") > 1))
    if name == "down":
        loud = sums.filter((pl.col("count") >= 1) & (pl.col("usual") == 0) & (pl.col("peers") > 1) & pl.col("counter").is_in(_HARD_DOWN))
    loud = loud.sort("link", "ratio", "series", descending=[False, True, False]).unique(["link", "side"], keep="first", maintain_order=True)
    out = []
    for row in loud.iter_rows(named=True):
        own = rows.filter((pl.col("series") == row["series"]) & (pl.col("per_s") > 0.5 * row["per_s"])).sort("start_ns")
        # a pause between events that chance explains (one in 150 is longer) is none
        pause = 0 if name == "down" else round(5e9 / row["per_s"])
        rises = _joined(list(own.select("start_ns", "end_ns").iter_rows()), pause)
        out.append(
            Signal(row["link"], name, row["counter"], row["node"], row["port"], row["series"], row["count"], row["per_s"], row["usual"], row["ratio"], rises)
        )
    return out


def _joined(spans: list[tuple[int, int]], pause: int) -> tuple[tuple[int, int], ...]:
    """Spans in order of start, those joined that are at most `pause` apart."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and start <= out[-1][1] + pause:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return tuple(out)
