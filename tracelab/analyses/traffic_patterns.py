"""What shape the traffic has, and how concentrated it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.units import format_share

__all__ = ["Pattern", "name_pattern", "repeats_after"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_HUB = 0.9
"""Share of the bytes that pass the busiest tenth of the ranks above which they are a hub: in a ring of ten it is 0.2."""
_FEW = 5
"""With fewer ranks every rank is a tenth of them and more: a hub cannot be told from a ring."""
_DENSE = 0.9
"""Share of all directed pairs that carry bytes, from which on everybody talks to everybody."""
_EVEN = 0.5
"""Standard deviation by mean up to which pairs are taken to carry alike."""
_SAME = 0.01
"""Relative difference up to which two steps carry the same volume."""


@dataclass(frozen=True)
class Pattern:
    """The name of a shape, the numbers behind it, and its concentration (`gini`, `top_tenth`: both from 0 to 1)."""

    name: str
    evidence: str
    ranks: int
    pairs: int
    gini: float
    top_tenth: float


def name_pattern(traffic: pl.DataFrame) -> Pattern:
    """The pattern of rows of the table `traffic`."""
    pairs = (
        traffic.filter((pl.col("bytes") > 0) & (pl.col("src_rank") != pl.col("dst_rank")))
        .group_by("src_rank", "dst_rank")
        .agg(pl.col("bytes").sum(), (pl.col("src_host") != pl.col("dst_host")).first().alias("crosses"))
    )
    pairs = pairs.sort("src_rank", "dst_rank")
    if not pairs.height:
        return Pattern("none", "no bytes", 0, 0, 0.0, 0.0)
    ranks, numbered = np.unique(pairs.select("src_rank", "dst_rank").to_numpy(), return_inverse=True)
    edges = numbered.reshape(-1, 2)
    weight = pairs["bytes"].to_numpy().astype(np.float64)
    passing: Float = np.bincount(edges[:, 0], weight, len(ranks)).astype(np.float64) + np.bincount(edges[:, 1], weight, len(ranks))
    gini = round(_gini(passing), 6)
    top_tenth = _top_tenth(edges, weight, passing)
    name, evidence = _shape(traffic, pairs, edges, weight, len(ranks), top_tenth)
    return Pattern(name, evidence, len(ranks), pairs.height, gini, top_tenth)


def _gini(values: Float) -> float:
    """Gini coefficient, from the ordered values (Gini 1912; the form of Damgaard and Weiner 2000)."""
    ordered = np.sort(values)
    n, total = len(ordered), float(ordered.sum())
    return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * total)) if total else 0.0


def _top_tenth(
    edges: Int,
    weight: Float,
    passing: Float,
) -> float:
    """Share of the bytes that start or end at one of the busiest tenth of the ranks (at least one)."""
    busiest = np.argsort(-passing, kind="stable")[: max(1, math.ceil(len(passing) / 10))]
    touched = np.isin(edges, busiest).any(axis=1)
    return float(weight[touched].sum() / weight.sum())


def _shape(
    traffic: pl.DataFrame,
    pairs: pl.DataFrame,
    edges: Int,
    weight: Float,
    ranks: int,
    top_tenth: float,
) -> tuple[str, str]:
    out_degree = np.bincount(edges[:, 0], minlength=ranks)
    partners = _partners(edges, ranks)
    crossing = float(weight[pairs["crosses"].fill_null(value=False).to_numpy()].sum() / weight.sum())
    if ranks >= _FEW and top_tenth >= _HUB:
        return "hub", f"{format_share(top_tenth)} of the bytes pass {max(1, math.ceil(ranks / 10))} of {ranks} ranks"
    density = len(weight) / (ranks * (ranks - 1))
    spread = float(weight.std() / weight.mean())
    if ranks > 2 and density >= _DENSE and spread <= _EVEN:
        return "all-to-all", f"{format_share(density)} of all directed pairs carry bytes, with a spread of {spread:.2f} of their mean"
    if ranks == 2 or partners.max() == 1:
        return "pairs", "every rank exchanges bytes with one other"
    named = set(traffic["operation"].unique())
    if named <= {"send", "recv", "send_recv"} and partners.max() <= 2:
        return "pipeline neighbours", f"only point-to-point operations, and no rank has more than {int(partners.max())} partners"
    if (inside := _two_levels(traffic)) is not None:
        return "hierarchical", f"{format_share(inside)} of the bytes stay in groups inside one host; all others are in groups with one rank per host"
    algorithms = set(traffic["algorithm"].unique())
    if algorithms == {"RING"} and _balanced(edges, weight, ranks):
        return "ring", f"every rank sends as much as it receives, to at most {int(out_degree.max())} successors; {format_share(crossing)} crosses hosts"
    if algorithms <= {"TREE", "NVLS_TREE"}:
        return "tree", f"{', '.join(sorted(algorithms))}: {len(weight)} directed edges over {ranks} ranks; {format_share(crossing)} crosses hosts"
    return "mixed", f"{len(weight)} directed pairs, {', '.join(sorted(algorithms))}; {format_share(crossing)} crosses hosts"


def _partners(edges: Int, ranks: int) -> Int:
    both = np.unique(np.sort(edges, axis=1), axis=0)
    return np.bincount(both.ravel(), minlength=ranks)


def _balanced(edges: Int, weight: Float, ranks: int) -> bool:
    sent, received = np.bincount(edges[:, 0], weight, ranks), np.bincount(edges[:, 1], weight, ranks)
    return bool(np.all(np.abs(sent - received) <= _SAME * np.maximum(sent, received)))


def _two_levels(traffic: pl.DataFrame) -> float | None:
    """The share of bytes in groups inside hosts, where every group lies in one host or crosses at each of its edges; else None."""
    rows = traffic.filter(pl.col("bytes") > 0).with_columns((pl.col("src_host") != pl.col("dst_host")).alias("crosses"))
    if rows["crosses"].null_count():
        return None
    groups = rows.group_by("group_id").agg(pl.col("crosses").any().alias("any"), pl.col("crosses").all().alias("all"), pl.col("bytes").sum())
    pure = (groups["any"] == groups["all"]).all()
    inside = int(groups.filter(~pl.col("any"))["bytes"].sum())
    return inside / int(groups["bytes"].sum()) if pure and groups["any"].any() and inside else None


def repeats_after(volumes: Sequence[int]) -> int | None:
    """The least number of steps after which the volume repeats (1: it is always the same); None where it does not, or too few were seen.

    A period counts only where at least two whole periods were seen.
    """
    values = np.asarray(volumes, dtype=np.float64)
    for period in range(1, len(values) // 2 + 1):
        a, b = values[period:], values[:-period]
        if np.all(np.abs(a - b) <= _SAME * np.maximum(np.abs(a), np.abs(b))):
            return period
    return None
