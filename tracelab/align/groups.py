"""Which ranks communicate with each other: as a source states it, else as the ends of their operations betray it.

A group is its set of member ranks: names are no namespace over ranks (rank 0 may call "3" what rank 1 calls "4").
"""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from tracelab.align.adopt import adopt_unstated
from tracelab.align.collectives import members_text
from tracelab.align.infer import Members, infer_groups, infer_peers
from tracelab.tables import GROUPS

__all__ = ["assign_groups"]

_QUIET = frozenset({"", "undefined", "none"})


def assign_groups(rows: pl.DataFrame, process_groups: pl.LazyFrame, world_size: int | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`rows` with group_id, `comm` (a number that tells communicators of the same ranks apart) and peers; and GROUPS.

    Order of trust: members on the operation, members of the named group in the same source, the ranks that use the same
    name and description (if they are as many as the group's stated size), the place that a stated group leaves free, members inferred from operations that end
    together. `world_size` limits the last: a group that is inferred from all ranks seen is complete only if all are seen.
    """
    listed = _listed(process_groups)
    rows = rows.join(listed, on=["source_id", "part", "group_name"], how="left", maintain_order="left", validate="m:1")
    members = pl.coalesce(pl.col("group_ranks"), pl.col("listed_ranks"))
    rows = rows.with_columns(members.alias("members"), pl.coalesce("group_desc", "listed_desc").alias("group_desc")).drop("listed_ranks", "listed_desc")
    rows = rows.with_columns(pl.col("members").is_not_null().alias("stated_members"))
    rows = adopt_unstated(_by_name(rows))
    rows, open_groups = _by_ends(rows, listed)
    rows = _global_peers(rows)
    told = {ranks: desc for desc, ranks in listed.select("listed_desc", "listed_ranks").reverse().iter_rows() if ranks and desc}
    return _numbered(rows, world_size, told, open_groups)


def _listed(process_groups: pl.LazyFrame) -> pl.DataFrame:
    frame = process_groups.select("source_id", "part", "rank", "group_name", "group_desc", "group_ranks").collect(engine="streaming")
    frame = frame.unique(["source_id", "part", "group_name"], keep="first", maintain_order=True)
    text = members_text("group_ranks").alias("listed_ranks")
    return frame.select("source_id", "part", "group_name", pl.col("group_desc").alias("listed_desc"), text)


def _by_name(rows: pl.DataFrame) -> pl.DataFrame:
    """Members from a shared name where no source lists them: the ranks seen under it, if their number is the stated size."""
    key = ["group_name", "group_desc", "group_size"]
    unknown = pl.col("members").is_null() & pl.col("group_name").is_not_null() & (pl.col("rank") >= 0)
    seen = rows.filter(unknown).group_by(key).agg(pl.col("rank").unique().sort().alias("seen"))
    seen = seen.filter(pl.col("group_size").is_not_null() & (pl.col("seen").list.len() == pl.col("group_size"))).with_columns(members_text("seen"))
    out = rows.join(seen, on=key, how="left", nulls_equal=True, maintain_order="left", validate="m:1")
    return out.with_columns(pl.coalesce("members", pl.when(unknown).then(pl.col("seen"))).alias("members")).drop("seen")


def _by_ends(rows: pl.DataFrame, listed: pl.DataFrame) -> tuple[pl.DataFrame, set[str]]:
    """Members and peers of operations without any metadata, and the groups that may have more members than were seen."""
    silent = rows.filter(pl.col("members").is_null() & ~pl.col("stated") & (pl.col("rank") >= 0) & (pl.col("library") != "peer-copy"))
    rows = rows.with_columns(pl.lit(False).alias("inferred"), pl.lit(None, pl.Int64).alias("communicator"))
    if not silent.height:
        return rows, set()
    p2p = pl.col("operation").is_in(["send", "recv"])
    peers, pipes = infer_peers(silent.filter(p2p))
    found, open_groups = infer_groups(silent.filter(~p2p), _stated_partitions(listed))
    keys = ["rank", "channel"]
    table = pl.DataFrame(
        {
            "rank": [k[0] for k in found],
            "channel": [k[1] for k in found],
            "_members": [_text(v) for v, _ in found.values()],
            "_communicator": [n for _, n in found.values()],
        },
        schema={"rank": pl.Int32, "channel": pl.Int64, "_members": pl.Categorical, "_communicator": pl.Int64},
    )
    apart = pl.DataFrame(
        {"op_id": list(peers), "_peer": list(peers.values()), "_pipe": [_text(pipes[i]) for i in peers]},
        schema={"op_id": pl.Int64, "_peer": pl.Int32, "_pipe": pl.Categorical},
    )
    joined = rows.join(table, on=keys, how="left", maintain_order="left", validate="m:1").join(
        apart, on="op_id", how="left", maintain_order="left", validate="1:1"
    )
    quiet = pl.col("members").is_null() & ~pl.col("stated")
    guess = pl.when(p2p).then(pl.col("_pipe")).otherwise(pl.col("_members"))
    out = joined.with_columns(
        (quiet & guess.is_not_null()).alias("inferred"),
        pl.when(quiet).then(guess).otherwise(pl.col("members")).alias("members"),
        pl.coalesce("_peer", "peer").alias("peer"),
        pl.when(quiet).then(pl.col("_communicator")).alias("communicator"),
    )
    return out.drop("_members", "_peer", "_pipe", "_communicator"), {_text(m) for m in open_groups}


def _text(members: Members) -> str:
    return ",".join(str(r) for r in members)


def _stated_partitions(listed: pl.DataFrame) -> list[set[Members]]:
    """The stated groups of more than one rank, by description: for a CPU backend that names no group on its operations."""
    parts: dict[str, set[Members]] = defaultdict(set)
    for desc, ranks in listed.select("listed_desc", "listed_ranks").iter_rows():
        if ranks and "," in ranks:
            parts[desc or ""].add(tuple(int(r) for r in ranks.split(",")))
    return [parts[k] for k in sorted(parts)]


def _global_peers(rows: pl.DataFrame) -> pl.DataFrame:
    """Peers as global ranks: a peer that is no member but a valid position in the group is a position."""
    pairs = rows.select("members", "peer").drop_nulls().unique()
    ranks = pl.col("members").cast(pl.String).str.split(",").cast(pl.List(pl.Int32))
    pairs = pairs.with_columns(
        pl.when(ranks.list.contains(pl.col("peer"))).then("peer").otherwise(ranks.list.get(pl.col("peer"), null_on_oob=True)).alias("_peer")
    )
    out = rows.join(pairs, on=["members", "peer"], how="left", maintain_order="left", validate="m:1")
    return out.with_columns(pl.when(pl.col("members").is_null()).then("peer").otherwise("_peer").cast(pl.Int32).alias("peer")).drop("_peer")


def _numbered(rows: pl.DataFrame, world_size: int | None, told: dict[str, str], open_groups: set[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    named = pl.format("?{} {} {}", pl.col("group_name"), pl.col("group_desc").fill_null(""), pl.col("group_size").fill_null(-1))
    rows = rows.with_columns(pl.coalesce("members", named.cast(pl.Categorical)).alias("key"))
    known = rows.filter(pl.col("key").is_not_null())
    per_key = (
        known.group_by("key")
        .agg(
            pl.col("members").first().cast(pl.String).str.split(",").cast(pl.List(pl.Int32)).alias("ranks"),
            pl.col("group_size").max().alias("stated_size"),
            pl.col("group_desc").drop_nulls().unique().sort().alias("descs"),
            pl.col("group_name").drop_nulls().unique().sort().alias("names"),
            pl.col("stated_members").any().alias("is_stated"),
            pl.col("inferred").all().alias("is_inferred"),
        )
        .with_columns(pl.col("ranks").list.len().fill_null(0).alias("n"), pl.col("ranks").list.first().fill_null(2**30).alias("first"))
        .sort([pl.col("n"), pl.col("first"), pl.col("key").cast(pl.String)], descending=[True, False, False])
        .with_row_index("group_id")
    )
    # All ranks that were seen, of a larger job: who else belongs to the group is not known.
    seen = rows["rank"].n_unique()
    partial = pl.lit(world_size is not None and seen < world_size) & pl.col("is_inferred") & (pl.col("n") == seen)
    unsure = pl.col("is_inferred") & pl.col("key").cast(pl.String).is_in(sorted(open_groups))
    per_key = per_key.with_columns(
        pl.when(~partial & ~unsure).then(pl.col("ranks")).alias("ranks"),
        pl.when(partial)
        .then(pl.lit(world_size))
        .when((pl.col("n") > 0) & ~unsure)
        .then(pl.col("n"))
        .otherwise(pl.col("stated_size"))
        .cast(pl.Int32)
        .alias("size"),
    )
    groups = pl.DataFrame(
        {
            "group_id": per_key["group_id"],
            "ranks": per_key["ranks"],
            "size": per_key["size"],
            "name": [
                _name(d or [told.get(_text(tuple(r or ())), "")], n, r, seen)
                for d, n, r in zip(per_key["descs"].to_list(), per_key["names"].to_list(), per_key["ranks"].to_list(), strict=True)
            ],
            "origin": ["stated" if s else "inferred" for s in per_key["is_stated"]],
        },
        schema=GROUPS.polars,
        strict=False,
    )
    rows = rows.join(per_key.select("key", pl.col("group_id").cast(pl.Int32)), on="key", how="left", maintain_order="left", validate="m:1")
    order = (pl.col("group_name").cast(pl.Int64, strict=False).fill_null(-1), pl.col("group_name").fill_null(""))
    names = rows.select("rank", "group_id", "group_desc", "group_name").unique().sort("rank", "group_id", "group_desc", *order, nulls_last=True)
    names = names.with_columns(pl.int_range(pl.len()).over("rank", "group_id", "group_desc").alias("number"))
    rows = rows.join(names, on=["rank", "group_id", "group_desc", "group_name"], how="left", nulls_equal=True, maintain_order="left", validate="m:1")
    # Without metadata each set of channels that end together is a communicator of its own.
    comm = pl.format("{}#{}#{}", pl.col("group_desc").fill_null(""), pl.col("number"), pl.col("communicator").fill_null(-1))
    return rows.with_columns(comm.alias("comm")).drop("key", "number", "members", "stated_members"), GROUPS.conform(groups)


def _name(descs: list[str], names: list[str], ranks: list[int] | None, seen: int) -> str:
    told = [d for d in descs if d.lower() not in _QUIET]
    if told:
        return ", ".join(told[:3])
    if names:
        return "group " + ", ".join(names[:3])
    if not ranks:
        return "group of unknown ranks"
    return f"all {seen} ranks" if len(ranks) == seen else f"unnamed group of {len(ranks)} ranks"
