"""Congestion marks, notifications and waiting for credit, per byte and beside peers."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import END, END_COLUMNS, Counted, carried, totals
from tracelab.tables import Column, TableSpec

__all__ = ["CONGESTION_MARKS", "MARKS", "marks_of"]

CONGESTION_MARKS = TableSpec(
    "congestion_marks",
    "Congestion marks, notifications and ticks of waiting of each port, per gigabyte and beside the ports at the same place",
    (
        *END_COLUMNS,
        Column("counter", "string", "ecn_marked_packets, cnp_sent, cnp_handled, cnp_ignored or xmit_wait_ticks", nullable=False, key=True),
        Column("direction", "string", "of the counter, as this port sees it", key=True),
        Column("total", "float64", "in the intervals that touch the captures; null where none can be trusted"),
        Column("per_gb", "float64", "per 10^9 bytes of the direction that it concerns: notifications sent, of bytes received; others, of their own"),
        Column("peers_per_gb", "float64", "median of the job's ports of the same tier and side, this one included"),
        Column("peers", "int64", "ports in it", nullable=False),
        Column("times", "float64", "per_gb over the peers' (over the least that counts where theirs is below)", "ratio"),
        Column("lost_share", "float64", "of waiting alone: bytes of the ticks over the link's speed", "ratio"),
        Column("left_out", "int64", "intervals with a reset or a gap: not counted", nullable=False),
        Column("stands_out", "bool", "beyond the parameters beside its peers, and the job uses the link", nullable=False),
    ),
    ("counter", "tier", "link", "side", "node", "port", "direction"),
)


@dataclass(frozen=True)
class Mark:
    """`of`: direction of the bytes that a counter is divided by; None: its own. `words`: what the port did."""

    of: str | None
    words: str


MARKS = {
    "ecn_marked_packets": Mark(None, "saw packets marked for congestion"),
    "cnp_sent": Mark("rx", "sent notifications of congestion"),
    "cnp_handled": Mark("tx", "slowed down for notifications of congestion"),
    "cnp_ignored": Mark("tx", "ignored notifications of congestion"),
    "xmit_wait_ticks": Mark("tx", "waited for credit to send"),
}
_PEERS = 3


def marks_of(given: Counted, times_peers: float, marks_per_gb: float, wait_share: float, bytes_per_tick: float) -> pl.DataFrame:
    """Rows of CONGESTION_MARKS. Priorities and queues of one port are added up."""
    key = [*END, "counter", "direction"]
    sums = (
        totals(given.rates, tuple(MARKS))
        .group_by([*key, "speed_bps"], maintain_order=True)
        .agg(
            pl.when(pl.col("total").is_not_null().any()).then(pl.col("total").sum()).alias("total"),
            pl.when(pl.col("per_s").is_not_null().any()).then(pl.col("per_s").sum()).alias("per_s"),
            pl.col("left_out").sum(),
        )
    )
    of = pl.col("counter").replace_strict({name: mark.of for name, mark in MARKS.items()}, return_dtype=pl.String)
    moved = carried(given.rates, "bytes").select(*END, "lower_bound", _way="direction", bytes_per_s="per_s")
    rows = sums.with_columns(pl.coalesce(of, "direction").alias("_way")).join(moved, on=[*END, "_way"], how="left", nulls_equal=True)
    known = (pl.col("bytes_per_s") > 0) & ~pl.col("lower_bound")
    waits = pl.col("counter") == "xmit_wait_ticks"
    rows = rows.with_columns(
        pl.when(known).then(pl.col("per_s") / pl.col("bytes_per_s") * 1e9).alias("per_gb"),
        pl.when(waits).then(pl.col("per_s") * bytes_per_tick * 8 / pl.col("speed_bps")).alias("lost_share"),
        pl.col("used").fill_null(False).alias("ours"),
    )
    place = ("counter", "tier", "side", "direction", "ours")
    rows = rows.with_columns(
        pl.when("ours").then(pl.col("per_gb").median().over(place)).alias("peers_per_gb"),
        pl.when("ours").then(pl.col("per_gb").count().over(place)).otherwise(0).cast(pl.Int64).alias("peers"),
    )
    floor = pl.when(waits).then(1.0).otherwise(marks_per_gb / times_peers)
    rows = rows.with_columns((pl.col("per_gb") / pl.max_horizontal("peers_per_gb", floor)).alias("times"))
    much = pl.when(waits).then(pl.col("lost_share") >= wait_share).otherwise(pl.col("per_gb") >= marks_per_gb)
    stands_out = pl.col("ours") & (pl.col("peers") >= _PEERS) & (pl.col("times") >= times_peers) & much
    return CONGESTION_MARKS.conform(rows.with_columns(stands_out.fill_null(False).alias("stands_out")).select(CONGESTION_MARKS.names))
