"""The traffic of a job summed in the ways that people look at it."""

from __future__ import annotations

import math
from collections import Counter

import polars as pl

from tracelab.analyses.traffic_tables import GROUPS_TRAFFIC, HOSTS_TRAFFIC, NICS_TRAFFIC, PAIRS, PLACES, TIME
from tracelab.analysis import Tables

__all__ = ["by_group", "by_host", "by_nic", "by_pair", "over_time", "places"]

MOST_RANKS = 1_024
"""Ranks that a picture shows one by one."""


def places(tables: Tables, traffic: pl.DataFrame) -> pl.DataFrame:
    """PLACES: ranks with traffic, hosts in the order of their first rank, then by device where known, then by rank."""
    hosts = pl.concat([traffic.select(rank="src_rank", host="src_host"), traffic.select(rank="dst_rank", host="dst_host")]).unique("rank", keep="first")
    devices = tables["ranks"].select("rank", "device").collect() if "ranks" in tables else pl.DataFrame(schema={"rank": pl.Int32, "device": pl.Int32})
    sent = traffic.group_by(rank="src_rank").agg(pl.col("bytes").sum().alias("sent_bytes"))
    received = traffic.group_by(rank="dst_rank").agg(pl.col("bytes").sum().alias("received_bytes"))
    frame = hosts.join(devices.unique("rank"), on="rank", how="left").join(sent, on="rank", how="left").join(received, on="rank", how="left")
    frame = frame.with_columns(pl.col("rank").min().over("host").alias("first"))
    frame = frame.sort("first", "device", "rank", nulls_last=True).with_row_index("position")
    local = pl.int_range(pl.len()).over("host")
    return PLACES.conform(frame.with_columns(local.alias("local"), pl.col("sent_bytes", "received_bytes").fill_null(0)).select(PLACES.names))


def by_pair(traffic: pl.DataFrame, expected: pl.DataFrame, order: pl.DataFrame, most: int) -> pl.DataFrame:
    """PAIRS; ranks are taken together, from two neighbours on, until they fit `most` rows and `MOST_RANKS` places."""
    place = dict(order.select("rank", "position").iter_rows())
    put = [pl.col(f"{end}_rank").replace_strict(place, default=None, return_dtype=pl.Int32).alias(f"{end}_position") for end in ("src", "dst")]
    plain = expected.select("src_rank", "dst_rank", expected_bytes="bytes").with_columns(put)
    rows = pl.concat([traffic.with_columns(put), plain], how="diagonal").drop_nulls(["src_position", "dst_position"])
    rows = rows.with_columns(pl.col("bytes", "expected_bytes").fill_null(0))
    together = math.ceil(order.height / MOST_RANKS) if order.height else 1
    cells = _cells(rows, together)
    while cells.select("src_position", "dst_position").n_unique() > most:
        together *= 2
        cells = _cells(rows, together)
    total = int(cells["bytes"].sum())
    heaviest = cells.sort("bytes", "transport", "nic", "rung", descending=[True, False, False, False], nulls_last=True)
    pairs = heaviest.group_by("src_position", "dst_position", maintain_order=True).agg(
        pl.col("bytes", "expected_bytes").sum(),
        pl.col("crosses_hosts").any(),
        pl.col("transport").first(),
        pl.col("nic").first(),
        pl.col("rung").first().fill_null("none"),
    )
    ranks = dict(order.select("position", "rank").iter_rows())
    return PAIRS.conform(
        pairs.with_columns(
            pl.col("src_position").replace_strict(ranks, return_dtype=pl.Int32).alias("src_rank"),
            pl.col("dst_position").replace_strict(ranks, return_dtype=pl.Int32).alias("dst_rank"),
            pl.lit(together, pl.Int32).alias("ranks"),
            (pl.col("bytes") / max(total, 1)).alias("share"),
        ).select(PAIRS.names)
    )


def _cells(rows: pl.DataFrame, together: int) -> pl.DataFrame:
    first = (pl.col("src_position") // together * together, pl.col("dst_position") // together * together)
    return (
        rows.with_columns(first[0].alias("src_position"), first[1].alias("dst_position"), (pl.col("src_host") != pl.col("dst_host")).alias("crosses_hosts"))
        .group_by("src_position", "dst_position", "transport", "nic", "rung")
        .agg(pl.col("bytes", "expected_bytes").sum(), pl.col("crosses_hosts").any())
    )


def by_host(traffic: pl.DataFrame) -> pl.DataFrame:
    """HOSTS_TRAFFIC, of the ranks whose hosts are known."""
    known = traffic.filter(pl.col("src_host").is_not_null() & pl.col("dst_host").is_not_null())
    pairs = pl.struct("src_rank", "dst_rank").n_unique().cast(pl.Int32).alias("pairs")
    total = max(int(traffic["bytes"].sum()), 1)
    frame = known.group_by("src_host", "dst_host").agg(pl.col("bytes").sum(), pairs).with_columns((pl.col("bytes") / total).alias("share"))
    return HOSTS_TRAFFIC.conform(frame.select(HOSTS_TRAFFIC.names))


def by_nic(traffic: pl.DataFrame) -> pl.DataFrame:
    """NICS_TRAFFIC: bytes leave through the device of the sender, or of the rank that sends for it."""
    host_of = dict(traffic.select("src_rank", "src_host").unique().drop_nulls().iter_rows())
    host_of |= {r: h for r, h in traffic.select("dst_rank", "dst_host").unique().drop_nulls().iter_rows() if r not in host_of}
    through = pl.coalesce("proxy_rank", "src_rank")
    rows = traffic.filter(pl.col("nic").is_not_null()).with_columns(through.replace_strict(host_of, default=None, return_dtype=pl.String).alias("host"))
    rows = rows.filter(pl.col("host").is_not_null())
    frame = rows.group_by("host", "nic").agg(pl.col("bytes").sum(), pl.col("src_rank").n_unique().cast(pl.Int32).alias("ranks"))
    frame = frame.with_columns((pl.col("bytes") / pl.col("bytes").sum().over("host").clip(1)).alias("share"))
    return NICS_TRAFFIC.conform(frame.select(NICS_TRAFFIC.names))


def by_group(tables: Tables, traffic: pl.DataFrame, window: str) -> pl.DataFrame:
    """GROUPS_TRAFFIC of a window, the most bytes first."""
    groups = tables["groups"].select("group_id", "name", "ranks").collect()
    names = {g: n for g, n, _ in groups.iter_rows()}
    host_of = dict(traffic.select("src_rank", "src_host").unique().drop_nulls().iter_rows()) | dict(
        traffic.select("dst_rank", "dst_host").unique().drop_nulls().iter_rows()
    )
    members = {g: [host_of.get(r) for r in ranks] if ranks is not None else None for g, _, ranks in groups.iter_rows()}
    crossing = pl.when(pl.col("src_host") != pl.col("dst_host")).then("bytes").otherwise(0)
    known = (pl.col("src_host").is_not_null() & pl.col("dst_host").is_not_null()).all()
    frame = traffic.group_by("group_id", "operation").agg(
        pl.col("algorithm").unique().sort().str.join(", ").alias("algorithm"),
        pl.col("bytes").sum(),
        pl.when(known).then(crossing.sum()).alias("cross_host_bytes"),
    )
    ops = tables["operations"].with_columns(pl.col("operation").cast(pl.String)).filter(pl.col("bytes").is_not_null())
    ops = ops.filter((pl.col("origin") == "log") == (window == "log"))
    totals = ops.group_by("group_id", "operation").agg(pl.len().cast(pl.Int64).alias("operations"), pl.col("bytes").sum().alias("payload")).collect()
    frame = frame.join(totals, on=["group_id", "operation"], how="left", nulls_equal=True).with_columns(pl.col("operations").fill_null(0))
    least = [_least(r["operation"], r["payload"], members.get(r["group_id"]), r["cross_host_bytes"]) for r in frame.iter_rows(named=True)]
    frame = frame.with_columns(
        pl.Series("least_cross_host_bytes", least, pl.Int64),
        pl.col("group_id").replace_strict(names, default="unknown", return_dtype=pl.String).alias("group"),
    )
    frame = frame.with_columns(
        pl.when(pl.col("least_cross_host_bytes") > 0).then(pl.col("cross_host_bytes") / pl.col("least_cross_host_bytes")).alias("excess")
    )
    frame = frame.sort("bytes", "group", "operation", "group_id", descending=[True, False, False, False], nulls_last=True)
    return GROUPS_TRAFFIC.conform(frame.select(GROUPS_TRAFFIC.names))


def _least(operation: str, payload: int | None, hosts: list[str | None] | None, crossing: int | None) -> int | None:
    """The least that the operations of one kind must send between hosts, `payload` being the sum of their sizes.

    With H hosts, every host but one must be told or heard: (H-1)·S for gathering or spreading a tensor of S bytes, twice
    that for a reduction that all receive (the cut-set bound behind Patarasuk and Yuan 2009). Operations that name sender and
    receiver have no choice.
    """
    if crossing is None:
        return None
    if operation in {"send", "recv", "send_recv", "all_to_all", "gather", "scatter"}:
        return crossing
    if payload is None or hosts is None or None in hosts:
        return None
    others = len(Counter(hosts)) - 1
    if operation == "all_reduce":
        return 2 * others * payload
    if operation in {"all_gather", "reduce_scatter", "broadcast", "reduce"}:
        return others * payload
    return None


def over_time(tables: Tables) -> pl.DataFrame:
    """TIME: steps with operations, in order."""
    steps = tables["traffic_steps"].filter(pl.col("step").is_not_null())
    crossing = pl.when(pl.col("cross_host_bytes").is_not_null().all()).then(pl.col("cross_host_bytes").sum()).alias("cross_host_bytes")
    return TIME.conform(steps.group_by("step").agg(pl.col("operations").sum(), pl.col("bytes").sum(), crossing).collect().select(TIME.names))
