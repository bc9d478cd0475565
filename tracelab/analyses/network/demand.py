"""What each operation of the job asks of each link, and how long it takes when the links run at their speed.

An operation cannot end before its bytes have left every adapter that they must leave: its shortest time is the largest of
bytes x overhead / (speed x efficiency) over all link ends. Bytes per link follow from the traffic between pairs of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.headers import headers_of
from tracelab.analysis import Tables

__all__ = ["Demand", "demand_of"]


@dataclass(frozen=True)
class Demand:
    """Bytes per link, and what that makes of each transfer.

    `per_byte`: share of an operation's bytes (group_id, operation) that an end of a link carries (link, way: tx or rx as its A
    end sees it). `transfers`: one row per matched operation that leaves its hosts: its class, its shortest time (null where no
    speed is known) and whether another one over the same links ran beside it.
    """

    per_byte: pl.DataFrame
    transfers: pl.DataFrame


def demand_of(tables: Tables, speeds: pl.DataFrame, efficiency: float) -> Demand:
    """The demand of the captured operations. `speeds`: columns link, speed_bps of the links from hosts."""
    per_byte = _per_byte(tables)
    matches = tables["matches"].with_columns(pl.col("operation").cast(pl.String)).collect(engine="streaming")
    on_wire = 1 + headers_of(tables).share
    slowest = per_byte.join(speeds.select("link", "speed_bps"), on="link", how="left")
    slowest = slowest.with_columns((pl.col("share") * on_wire * 8e9 / (pl.col("speed_bps") * efficiency)).alias("ns_per_byte"))
    slowest = slowest.group_by("group_id", "operation").agg(pl.col("ns_per_byte").max())
    moved = matches.filter(pl.col("transfer_ns").is_not_null() & (pl.col("bytes") > 0)).join(slowest, on=["group_id", "operation"], how="inner")
    moved = moved.with_columns((pl.col("bytes") * pl.col("ns_per_byte")).alias("shortest_ns")).sort("last_start_ns", "match_id")
    return Demand(per_byte, _beside(moved, per_byte).select(_TRANSFERS))


_TRANSFERS = ("match_id", "group_id", "operation", "bytes", "step", "last_start_ns", "end_ns", "transfer_ns", "shortest_ns", "beside")


def _beside(moved: pl.DataFrame, per_byte: pl.DataFrame) -> pl.DataFrame:
    """`moved` with whether another transfer over a link of theirs ran during a tenth of each or more."""
    kind = pl.concat_str(pl.col("group_id").cast(pl.String).fill_null(""), "operation", separator="/").alias("kind")
    # links that the same kinds of transfers use are one
    users = per_byte.with_columns(kind).group_by("link", "way").agg(pl.col("kind").unique().sort()).select("kind").unique().sort("kind")
    rows = moved.with_columns(kind).join(users.with_row_index("shared").explode("kind"), on="kind", how="inner").sort("shared", "last_start_ns", "match_id")
    ended = pl.col("end_ns").cum_max().shift(1).over("shared")
    begins = pl.col("last_start_ns").shift(-1).over("shared")
    tenth = pl.col("transfer_ns") // 10
    together = ((ended - pl.col("last_start_ns") > tenth) | (pl.col("end_ns") - begins > tenth)).fill_null(False)
    return moved.with_columns(pl.col("match_id").is_in(rows.filter(together)["match_id"].unique().implode()).alias("beside"))


def _per_byte(tables: Tables) -> pl.DataFrame:
    """Share of an operation's bytes that each end of a link carries: link, way, group_id, operation, share."""
    pairs = tables["traffic"].filter((pl.col("window").cast(pl.String) == "capture") & (pl.col("src_host") != pl.col("dst_host")))
    columns = ("src_rank", "dst_rank", "src_host", "dst_host", "group_id", pl.col("operation", "rung").cast(pl.String), "nic", "bytes")
    moved = pairs.select(*columns).collect(engine="streaming")
    sizes = (
        tables["operations"]
        .filter(pl.col("origin") != "log")
        .group_by("group_id", pl.col("operation").cast(pl.String))
        .agg(pl.col("bytes").sum().alias("total"))
    )
    endpoints = tables["endpoints"].select("rank", "host", "device", "link", "share").collect()
    if not endpoints["link"].count():
        endpoints = _ports_as_endpoints(tables)
    carried = pl.concat([_at_one_side(moved, endpoints, way) for way in ("tx", "rx")])
    out = carried.join(sizes.collect(), on=["group_id", "operation"], how="inner", nulls_equal=True)
    out = out.filter((pl.col("total") > 0) & (pl.col("carried") > 0) & pl.col("link").is_not_null())
    return out.select("link", "way", "group_id", "operation", (pl.col("carried") / pl.col("total")).alias("share")).sort("link", "way", "group_id", "operation")


def _at_one_side(moved: pl.DataFrame, endpoints: pl.DataFrame, way: str) -> pl.DataFrame:
    """Bytes through the sender's or the receiver's adapters: link, group_id, operation, carried, way.

    A log that names the adapter of a pair knows better than the share of its rank. Where not even the pairs are stated, the
    library's habit counts: as many rings as a host has adapters, each with an equal part.
    """
    side = "src" if way == "tx" else "dst"
    assumed = pl.col("rung") == "assumed"
    hosts = endpoints.filter(pl.col("link").is_not_null()).select("host", "link").unique().with_columns((1 / pl.len().over("host")).alias("share"))
    spread = moved.filter(assumed).join(hosts, left_on=f"{side}_host", right_on="host", how="inner")
    placed = moved.filter(~assumed).join(endpoints.drop("host"), left_on=f"{side}_rank", right_on="rank", how="inner")
    if way == "tx":
        named = pl.col("nic").is_not_null() & (pl.col("nic") == pl.col("device")).any().over("src_rank", "dst_rank", "group_id", "operation", "nic")
        placed = placed.with_columns(pl.when(named).then((pl.col("nic") == pl.col("device")).cast(pl.Float64)).otherwise("share").alias("share"))
    both = pl.concat([f.select("link", "group_id", "operation", "bytes", "share") for f in (placed, spread)])
    out = both.group_by("link", "group_id", "operation").agg((pl.col("bytes") * pl.col("share")).sum().alias("carried"))
    return out.with_columns(pl.lit(way).alias("way"))


def _ports_as_endpoints(tables: Tables) -> pl.DataFrame:
    """Where no source says what is plugged where: the ports that count, dealt out to the hosts, as many to each."""
    ranks = tables["ranks"].select("rank", "host").sort("host", "rank").collect()
    links = tables["links"].select("link").sort("link").collect()["link"]
    hosts = ranks["host"].unique().sort()
    each = len(links) // max(hosts.len(), 1)
    if not each:
        return pl.DataFrame(schema={"rank": pl.Int32, "host": pl.String, "device": pl.String, "link": pl.Int32, "share": pl.Float64})
    dealt = pl.DataFrame({"host": [h for h in hosts for _ in range(each)], "link": links[: each * hosts.len()]}, schema={"host": pl.String, "link": pl.Int32})
    dealt = dealt.with_columns(pl.lit(None, pl.String).alias("device"), pl.lit(1 / each).alias("share"))
    return ranks.join(dealt, on="host", how="inner").select("rank", "host", "device", "link", "share")
