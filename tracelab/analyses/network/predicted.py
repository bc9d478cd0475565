"""The bytes that the job's operations put on each link, as a function of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracelab.analyses.common import Float
from tracelab.analyses.intervals import EMPTY, Int, Intervals, union
from tracelab.analyses.network.demand import demand_of
from tracelab.analyses.network.headers import Headers
from tracelab.analysis import Tables

__all__ = ["Predicted", "covered_of", "predicted_of"]

_PROTOCOLS = {"LL": 2.0, "LL128": 128 / 120}
"""NCCL: of 8 bytes sent by LL 4 are data, of 128 sent by LL128 120 are; Simple sends data alone."""


@dataclass(frozen=True)
class Predicted:
    """Wire bytes by class of operations (group and operation) and time, and the share of each class that a link carries.

    `names`: group and operation of each class, in words. `at`: per class, moments (ns since `origin_ns`) between which bytes flow at one
    rate; `sent`: bytes until then. `shares`: by (link, tx or rx as its A end sees it) an array of shape (classes,).
    `stated`: share of the payload of which a log states the protocol.
    """

    names: tuple[str, ...]
    origin_ns: int
    at: tuple[Float, ...]
    sent: tuple[Float, ...]
    shares: Mapping[tuple[int, str], Float]
    stated: float

    def until(self, times: Int) -> Float:
        """Wire bytes of each class until `times` (aligned ns, any shape): shape (classes, *times.shape)."""
        since = (times - self.origin_ns).astype(np.float64)
        return np.stack([np.interp(since, at, sent) for at, sent in zip(self.at, self.sent, strict=True)])

    def share(self, link: int, way: str) -> Float:
        """Shares of the classes that a link carries one way; zeros where it carries none."""
        return self.shares.get((link, way), np.zeros(len(self.names)))


def predicted_of(tables: Tables, headers: Headers) -> Predicted:
    """What the captured operations send, each evenly from its last arrival to its end. Memory grows with the operations."""
    links = tables["links"].select("link", "speed_bps").collect()
    demand = demand_of(tables, links, 1.0).per_byte
    classes = demand.select("group_id", "operation").unique().sort("group_id", "operation", nulls_last=True).with_row_index("class")
    moved = _moved(tables).join(classes, on=["group_id", "operation"], how="inner", nulls_equal=True)
    factor = pl.when(pl.col("stated")).then(pl.col("protocol").replace_strict(_PROTOCOLS, default=1.0, return_dtype=pl.Float64)).otherwise(1.0)
    moved = moved.with_columns((pl.col("bytes") * factor * (1 + headers.share)).alias("wire"))
    origin = int(moved["start_ns"].min() or 0)  # type: ignore[arg-type]
    curves = [_curve(moved.filter(pl.col("class") == n), origin) for n in classes["class"]]
    shares: dict[tuple[int, str], Float] = {}
    for link, way, number, share in demand.join(classes, on=["group_id", "operation"], nulls_equal=True).select("link", "way", "class", "share").iter_rows():
        shares.setdefault((link, way), np.zeros(classes.height))[number] += share
    payload = max(float(moved["bytes"].sum()), 1.0)
    groups = dict(tables["groups"].select("group_id", "name").collect().iter_rows())
    names = tuple(f"{operation} of {groups.get(group, f'group {group}')}" for group, operation in classes.select("group_id", "operation").iter_rows())
    return Predicted(
        names, origin, tuple(at for at, _ in curves), tuple(sent for _, sent in curves), shares, float(moved.filter("stated")["bytes"].sum()) / payload
    )


def _moved(tables: Tables) -> pl.DataFrame:
    """The operations that captures hold: class, bytes, when their data moved, protocol and whether a log states it."""
    matches = tables["matches"].select("match_id", "last_start_ns", matched_end="end_ns")
    rows = tables["operations"].filter((pl.col("origin") != "log") & (pl.col("bytes") > 0)).join(matches, on="match_id", how="left")
    start = pl.coalesce("last_start_ns", "start_ns")
    # what a kernel is called says nothing of the protocol that it ran with
    stated = (pl.col("algorithm_origin") == "log").fill_null(False) & pl.col("protocol").is_not_null()
    return (
        rows.select(
            "operation_id",
            "group_id",
            pl.col("operation").cast(pl.String),
            "bytes",
            start.alias("start_ns"),
            pl.max_horizontal(pl.coalesce("matched_end", "end_ns"), start + 1).alias("end_ns"),
            pl.col("protocol").cast(pl.String),
            stated.alias("stated"),
        )
        .filter(pl.col("start_ns").is_not_null() & pl.col("end_ns").is_not_null())
        .sort("operation_id")
        .collect(engine="streaming")
    )


def _curve(rows: pl.DataFrame, origin: int) -> tuple[Float, Float]:
    """Bytes until each moment at which a transfer starts or ends."""
    if not rows.height:
        return np.zeros(1), np.zeros(1)
    start, end = (rows[c].to_numpy() - origin for c in ("start_ns", "end_ns"))
    rate = rows["wire"].to_numpy() / (end - start)
    at = np.concatenate([start, end])
    order = np.argsort(at, kind="stable")
    at = at[order].astype(np.float64)
    flowing = np.cumsum(np.concatenate([rate, -rate])[order])
    sent = np.concatenate([[0.0], np.cumsum(np.maximum(flowing[:-1], 0.0) * np.diff(at))])
    at, first = np.unique(at, return_index=True)
    return at, sent[first]


def covered_of(tables: Tables) -> Intervals:
    """Times that the captures of all ranks cover: outside of them the job may have sent what no capture holds.

    Where no moment is covered by all ranks: those that any rank covers.
    """
    steps = tables["steps"].select("rank", "start_ns", "end_ns").sort("rank", "start_ns").collect(engine="streaming")
    ranks = [union(part["start_ns"].to_numpy(), part["end_ns"].to_numpy()) for part in steps.partition_by("rank", maintain_order=True)]
    if not ranks:
        return EMPTY
    edges = np.concatenate([e for start, end in ranks for e in (start, end)])
    change = np.concatenate([d for start, end in ranks for d in (np.ones(len(start), np.int64), -np.ones(len(end), np.int64))])
    order = np.argsort(edges, kind="stable")
    points, covering = edges[order][:-1], np.cumsum(change[order])[:-1]
    nexts = edges[order][1:]
    full = covering == len(ranks)
    if not (full & (nexts > points)).any():
        full = covering > 0
    return union(points[full], nexts[full])
