"""What the clocks are estimated from: starts and ends of synchronising operations that span several hosts.

A bounded number of operations is taken, spread over the run and over the groups, so that cost and memory do not grow with
the length of a run. Moments are held per host as differences from the host's first one: float64 holds those exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from tracelab.align.matching import AMBIGUOUS, SYNCHRONISING

__all__ = ["Parts", "link_sets", "medians", "parts_of", "spanning", "thinned"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

MOST_MATCHES = 50_000
"""More operations than this add no accuracy: what is left is the ends' systematic part."""
MOST_VALUES = 4_000_000
"""Operations times hosts held at once; each takes some 60 bytes."""
MOST_PARTS = 8_000_000
"""Parts (operation and rank) held at once; each takes some 80 bytes."""
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Parts:
    """The parts of the chosen operations, one element per operation and rank; `row` numbers the operations from 0 on.

    `start` and `end` are ns since `base[host]`, each on its host's clock. `kind` is per operation: group, operation and size.
    """

    hosts: list[str]
    base: list[int]
    row: Int
    host: Int
    rank: Int
    start: Float
    end: Float
    kind: Int

    @property
    def shape(self) -> tuple[int, int]:
        """Operations and hosts."""
        return len(self.kind), len(self.hosts)

    def matrix(self, values: Float) -> tuple[Float, NDArray[np.bool_]]:
        """One value per part as their mean per operation and host (0 where there is none), and where there is one.

        Ranks far from the others of their host count as if they were just outside the usual spread.
        """
        count, width = self.shape
        cell = self.row * width + self.host
        n = np.bincount(cell, minlength=count * width)
        if n.max(initial=0) > 1:
            middle = medians(cell, values)[cell]
            off = values - middle
            several = n[cell] > 2
            limit = 4.0 * 1.4826 * float(np.median(np.abs(off[several]))) + 1.0 if several.any() else np.inf
            values = middle + np.clip(off, -limit, limit)
        total = np.bincount(cell, weights=values, minlength=count * width)
        return (total / np.maximum(n, 1)).reshape(count, width), (n > 0).reshape(count, width)


def medians(cell: Int, values: Float) -> Float:
    """The median of the values of each cell, by its number; 0 for those without."""
    out = np.zeros(int(cell.max()) + 1)
    order = np.lexsort((values, cell))
    ordered, cells = values[order], cell[order]
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    length = np.diff(np.append(first, len(cells)))
    out[cells[first]] = 0.5 * (ordered[first + (length - 1) // 2] + ordered[first + length // 2])
    return out


def spanning(rows: pl.DataFrame, margins: list[float | None], hosts: Mapping[int, str], names: list[str]) -> tuple[pl.LazyFrame, pl.DataFrame]:
    """The parts of synchronising operations, with host (its place in `names`), and what there is of the unambiguous ones that span hosts.

    The latter: match_id, group_id, earliest end, parts, and the `first` of its hosts.
    """
    place = {name: n for n, name in enumerate(names)}
    number = pl.DataFrame({"rank": list(hosts), "host": [place[h] for h in hosts.values()]}, schema={"rank": pl.Int32, "host": pl.Int32})
    use = rows.lazy().filter((pl.col("match_id") >= 0) & pl.col("operation").is_in(SYNCHRONISING))
    parts = use.select("match_id", "rank", "start_ns", "end_ns", "group_id", "operation", "in_bytes").join(number.lazy(), on="rank")
    span = (pl.col("host").min().alias("first"), pl.col("host").max().alias("last"), pl.col("end_ns").min(), pl.col("group_id").min(), pl.len().alias("parts"))
    operations = parts.group_by("match_id").agg(*span).filter(pl.col("first") < pl.col("last")).collect(engine="streaming").sort("match_id")
    sure = pl.Series("sure", [m is None or m >= AMBIGUOUS for m in margins], pl.Boolean)
    return parts, operations.filter(sure.gather(operations["match_id"])) if operations.height else operations


def link_sets(parts: pl.LazyFrame, operations: pl.DataFrame, names: list[str]) -> list[list[int]]:
    """Sets of hosts (places in `names`) that operations connect; the largest first, of equally large ones the first by name."""
    if not operations.height:
        return []
    of = operations.lazy().select("match_id", "first")
    pairs = parts.select("match_id", "host").join(of, on="match_id").select("first", "host").unique().collect(engine="streaming").to_numpy()
    graph = coo_matrix((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(len(names), len(names)))
    _, label = connected_components(graph, directed=False)
    sets = [np.flatnonzero(label == n).tolist() for n in range(int(label.max()) + 1)]
    return sorted((s for s in sets if len(s) > 1), key=lambda s: (-len(s), s))


def thinned(operations: pl.DataFrame, hosts: int) -> pl.Series:
    """The match_id of at most as many operations as the limits allow: shared among groups by their size, spread over time."""
    most = min(MOST_MATCHES, MOST_VALUES // max(hosts, 1), MOST_PARTS * operations.height // max(int(operations["parts"].sum()), 1))
    if operations.height <= most:
        return operations["match_id"]
    operations = operations.sort("group_id", "end_ns", "match_id")
    groups = operations.group_by("group_id", maintain_order=True).agg(pl.len().alias("n"), pl.col("parts").median())
    quotas = _quotas(groups["n"].to_numpy(), groups["parts"].to_numpy(), most)
    taken, before = [], 0
    for n, quota in zip(groups["n"].to_list(), quotas.tolist(), strict=True):
        k = np.arange(quota)
        # Not evenly: a regular pattern of sizes would show only one of them.
        taken.append(before + np.minimum(((k + (k * _GOLDEN) % 1.0) * (n / max(quota, 1))).astype(np.int64), n - 1))
        before += n
    return operations["match_id"].gather(np.unique(np.concatenate(taken)))


def _quotas(have: Int, size: Float, most: int) -> Int:
    """How many operations each group gives: in proportion to its size, and what one cannot give the others do."""
    out = np.zeros(len(have), dtype=np.int64)
    for _ in range(8):
        left, open_ = most - int(out.sum()), have > out
        if left <= 0 or not open_.any():
            break
        share = np.where(open_, size, 0.0)
        out = np.minimum(have, out + np.maximum((left * share / share.sum()).astype(np.int64), open_))
    return out


def parts_of(parts: pl.LazyFrame, chosen: pl.Series, linked: list[int], names: list[str]) -> Parts:
    """The parts of the `chosen` operations, which the hosts in `linked` share, as arrays; operations in the order of their numbers."""
    of = pl.LazyFrame({"match_id": chosen})
    taken = parts.join(of, on="match_id", how="semi").collect(engine="streaming").sort("match_id", "rank")
    size = pl.col("in_bytes").fill_null(0).log(2).clip(lower_bound=0).floor()
    key = [pl.col("group_id"), pl.col("operation").cast(pl.String), size.alias("size")]
    kinds = taken.unique("match_id", keep="first", maintain_order=True).select(pl.struct(key).rank("dense").alias("kind"))
    number = np.full(len(names), -1)
    number[linked] = np.arange(len(linked))
    host = number[taken["host"].to_numpy()]
    start, end = taken["start_ns"].to_numpy(), taken["end_ns"].to_numpy()
    base = np.full(len(linked), np.iinfo(np.int64).max)
    np.minimum.at(base, host, end)
    return Parts(
        [names[n] for n in linked],
        [int(b) for b in base],
        taken["match_id"].rank("dense").to_numpy().astype(np.int64) - 1,
        host,
        taken["rank"].to_numpy().astype(np.int64),
        (start - base[host]).astype(np.float64),
        (end - base[host]).astype(np.float64),
        kinds["kind"].to_numpy().astype(np.int64) - 1,
    )
