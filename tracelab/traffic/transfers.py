"""Bytes that the library's network proxy counted: they replace what is computed between hosts."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracelab.tables import NET_TRANSFERS
from tracelab.traffic.edges import Communicator

__all__ = ["counted_transfers", "with_transfers"]

_PAIR = ("comm_key", "operation", "src_rank", "dst_rank")


def counted_transfers(net_transfers: pl.LazyFrame | None, comm_map: pl.DataFrame, communicators: list[Communicator]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Bytes and operations per comm_key, operation and pair of global ranks; and (comm_key, rank) of all processes that count.

    A sender's count is taken before the receiver's. Rows of unknown communicators or ranks are left out.
    """
    ranks = pl.DataFrame(
        [(c.key, i, r) for c in communicators if c.key is not None for i, r in enumerate(c.ranks)],
        schema={"comm_key": pl.Int32, "comm_rank": pl.Int32, "job_rank": pl.Int32},
        orient="row",
    )
    rows = (NET_TRANSFERS.empty().lazy() if net_transfers is None else net_transfers).filter(pl.col("bytes") > 0).drop("rank")
    rows = rows.join(comm_map.lazy(), on=["source_id", "part", "comm"], how="inner")
    for column, name in (("peer", "peer_rank"), ("comm_rank", "rank")):
        rows = rows.join(ranks.lazy().rename({"comm_rank": column, "job_rank": name}), on=["comm_key", column], how="inner")
    sent = pl.col("direction").cast(pl.String) == "send"
    found = (
        rows.filter(pl.col("peer_rank").is_not_null() & pl.col("rank").is_not_null())
        .select(
            "comm_key",
            pl.col("operation").cast(pl.String).fill_null("unknown"),
            pl.when(sent).then("rank").otherwise("peer_rank").alias("src_rank"),
            pl.when(sent).then("peer_rank").otherwise("rank").alias("dst_rank"),
            "rank",
            sent.alias("sent"),
            "bytes",
            "seq",
        )
        .group_by(*_PAIR, "sent", "rank")
        .agg(
            pl.col("bytes").sum(),
            pl.when(pl.col("seq").null_count() == 0).then(pl.col("seq").n_unique()).otherwise(pl.len()).cast(pl.Int64).alias("operations"),
        )
        .collect(engine="streaming")
    )
    speakers = found.select("comm_key", "rank").unique().sort("comm_key", "rank")
    pairs = found.sort(*_PAIR, "sent", descending=[False] * len(_PAIR) + [True]).unique(_PAIR, keep="first", maintain_order=True)
    return pairs.drop("sent", "rank"), speakers


def with_transfers(rows: pl.DataFrame, pairs: pl.DataFrame, speakers: pl.DataFrame, groups: Mapping[int, int | None], hosts: Mapping[int, str]) -> pl.DataFrame:
    """`rows` of computed traffic with the counted `pairs` in place of all pairs between hosts at whose ends somebody counts.

    `groups`: group of each comm_key. Rows of pairs whose hosts are not known stay as computed.
    """
    if not pairs.height:
        return rows
    place = pl.DataFrame({"r": list(hosts.keys()), "h": list(hosts.values())}, schema={"r": pl.Int32, "h": pl.String})

    def crossing(frame: pl.DataFrame) -> pl.Series:
        ends = [frame.select(pl.col(c).alias("r")).join(place, on="r", how="left", maintain_order="left")["h"] for c in ("src_rank", "dst_rank")]
        return (ends[0] != ends[1]).fill_null(False)

    measured = pairs.filter(crossing(pairs))
    by_count = speakers.with_columns(pl.lit(True).alias("counts"))
    ends = rows.select("comm_key", "src_rank", "dst_rank")
    told = pl.Series("told", [False] * rows.height, pl.Boolean)
    for column in ("src_rank", "dst_rank"):
        joined = ends.join(by_count.rename({"rank": column}), on=["comm_key", column], how="left", maintain_order="left", validate="m:1")
        told = told | joined["counts"].fill_null(False)
    kept = rows.filter(~(told & crossing(rows)))
    first = rows.filter(pl.col("comm_key").is_not_null()).unique(["comm_key", "src_rank", "dst_rank"], keep="first", maintain_order=True)
    path = first.select("comm_key", "src_rank", "dst_rank", "transport", "nic", "proxy_rank")
    group = pl.DataFrame({"comm_key": list(groups), "group_id": list(groups.values())}, schema={"comm_key": pl.Int32, "group_id": pl.Int32})
    added = (
        measured.join(path, on=["comm_key", "src_rank", "dst_rank"], how="left", maintain_order="left", validate="m:1")
        .join(group, on="comm_key", how="left", maintain_order="left", validate="m:1")
        .with_columns(pl.lit("PROXY").alias("algorithm"), pl.lit("transfers").alias("rung"))
    )
    return pl.concat([kept, added.select(pl.col(n).cast(d) for n, d in rows.schema.items())])
