"""Ranks whose source states no group take the place that is free for them in a group that others state.

A job of which some ranks were captured by another profiler: the one names groups and sizes, the other only kernels. A rank
that a stated group lists and that shows no operation in it must have taken part all the same; the channel on which it did
the same operations, step by step, is the one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import polars as pl

__all__ = ["adopt_unstated"]

_P2P = ("send", "recv", "send_recv")
_NAMES = ("group_name", "group_desc")
_ALIKE = 0.9
"""Share of the common steps in which the operations must be the same: the first and the last step of a capture may be cut."""
_TAKEN = ("members", "group_name", "group_desc", "group_size", "in_bytes", "out_bytes", "dtype")

Steps = Mapping[int | None, Sequence[int]]
Place = tuple[object, ...]


def adopt_unstated(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` in which operations without group have the group, and the sizes, of those that they can only be the counterpart of.

    A channel is given to a group only where it is the only one that fits and the group fits no other: nothing is guessed.
    """
    rows = rows.with_row_index("_at")
    # A name that is the library's id of the communicator says which operations belong together, not what the program calls it.
    bare = pl.col("members").is_null() | (pl.col("group_desc").is_null() & pl.col("group_name").str.starts_with("0x").fill_null(False))
    usable = ~pl.col("operation").is_in(_P2P) & (pl.col("library") != "peer-copy")
    silent, stated = rows.filter(bare & usable & (pl.col("rank") >= 0)), rows.filter(~bare & usable)
    if not silent.height or not stated.height:
        return rows.drop("_at")
    models, open_places = _models(stated)
    counterpart: dict[int, int] = {}
    for (rank,), mine in silent.group_by("rank", maintain_order=True):
        places = open_places.get(int(str(rank)), [])
        if places:
            counterpart |= _paired({k: _by_step(v) for k, v in _channels(mine).items()}, {p: models[p] for p in places}, rows["operation"].to_list())
    return (_taken(rows, counterpart) if counterpart else rows).drop("_at")


def _models(stated: pl.DataFrame) -> tuple[dict[Place, Steps], dict[int, list[Place]]]:
    """The operations of each stated communicator as its fullest rank shows them; and per rank the communicators that lack it."""
    models: dict[Place, Steps] = {}
    places: dict[int, list[Place]] = defaultdict(list)
    keyed = stated.with_columns(pl.col("members").cast(pl.String).alias("_ranks"))
    # Names are no namespace over ranks; which of a rank's communicators of equal ranks and description it is, is.
    name = pl.struct(pl.col("group_name").cast(pl.Int64, strict=False).fill_null(-1).alias("n"), pl.col("group_name").fill_null("").alias("s"))
    keyed = keyed.with_columns(name.rank("dense").over("rank", "_ranks", "group_desc").alias("_number"))
    for key, group in keyed.group_by("_ranks", "group_desc", "_number", maintain_order=True):
        counts = group.group_by("rank").len().sort(["len", "rank"], descending=[True, False])
        models[key] = _by_step(group.filter(pl.col("rank") == counts["rank"][0]))
        for rank in sorted({int(r) for r in str(key[0]).split(",")} - set(counts["rank"])):
            places[rank].append(key)
    return models, places


def _channels(mine: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    """Operations of one communicator: of one name where there is one, else of one stream."""
    named = pl.coalesce("group_name", pl.col("channel").cast(pl.String)).alias("_lane")
    return dict(mine.with_columns(named).group_by("_lane", "source_id", "part", maintain_order=True))


def _by_step(frame: pl.DataFrame) -> Steps:
    """Row numbers (op_id) by step that launched them, in the order of their starts."""
    out: dict[int | None, list[int]] = defaultdict(list)
    for at, step in frame.sort("start_ns", "op_id").select("_at", "launch_step").iter_rows():
        out[step].append(at)
    return out


def _paired(channels: Mapping[object, Steps], places: Mapping[Place, Steps], operation: Sequence[str]) -> dict[int, int]:
    """Row to row of the group, for channels and places that fit each other and nothing else."""
    fits = {(c, p): pairs for c, mine in channels.items() for p, theirs in places.items() if (pairs := _same(mine, theirs, operation))}
    out: dict[int, int] = {}
    for (c, p), pairs in fits.items():
        if sum(k[0] == c for k in fits) == 1 and sum(k[1] == p for k in fits) == 1:
            out |= pairs
    return out


def _same(mine: Steps, theirs: Steps, operation: Sequence[str]) -> dict[int, int]:
    """Rows of equal steps, one to one; empty where too few steps are equal."""
    common = sorted((set(mine) & set(theirs)) - {None}, key=str) or [s for s in (None,) if s in mine and s in theirs]
    equal = [s for s in common if [operation[a] for a in mine[s]] == [operation[b] for b in theirs[s]]]
    if not equal or len(equal) < _ALIKE * len(common):
        return {}
    return {a: b for s in equal for a, b in zip(mine[s], theirs[s], strict=True)}


def _taken(rows: pl.DataFrame, counterpart: Mapping[int, int]) -> pl.DataFrame:
    pairs = pl.DataFrame({"_at": list(counterpart), "_other": list(counterpart.values())}, schema={"_at": pl.UInt32, "_other": pl.UInt32})
    other = rows.select(pl.col("_at").alias("_other"), *(pl.col(c).alias(f"_{c}") for c in _TAKEN))
    out = rows.join(pairs.join(other, on="_other", how="left"), on="_at", how="left", maintain_order="left", validate="1:1")
    # The group's own name replaces an id of the library; what the source states of members and sizes stays.
    out = out.with_columns(pl.coalesce(f"_{c}", c).alias(c) if c in _NAMES else pl.coalesce(c, f"_{c}").alias(c) for c in _TAKEN)
    out = out.with_columns(pl.col("stated") | pl.col("_other").is_not_null())
    return out.drop("_other", *(f"_{c}" for c in _TAKEN))
