"""Who sends how much to whom, over what, and whether it crosses hosts more often than it must."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.traffic_patterns import Pattern, name_pattern, repeats_after
from tracelab.analyses.traffic_tables import GROUPS_TRAFFIC, HOSTS_TRAFFIC, NICS_TRAFFIC, OUTPUTS, PAIRS, PATTERNS, PLACES, TIME
from tracelab.analyses.traffic_volumes import by_group, by_host, by_nic, by_pair, over_time, places
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import NotObservable
from tracelab.units import format_bytes, format_share

__all__ = ["ANALYSIS", "Params"]

_MEASURED = frozenset({"transfers", "stated", "order", "call"})
"""Rungs of the table `traffic` that a file states."""
_NAMED = 64
"""Groups whose pattern is named: those with the most bytes."""


@dataclass(frozen=True)
class Params:
    """`most_pairs`: rows of the table of pairs: all of 264 ranks, and a report below 5 MB; with more, neighbours share a row."""

    most_pairs: int = 70_000


def _run(tables: Tables, params: Params) -> AnalysisResult:
    window, beside = _window(tables)
    text = pl.col("operation", "algorithm", "transport", "rung").cast(pl.String)
    traffic = tables["traffic"].filter(pl.col("window") == window).with_columns(text).collect(engine="streaming")
    expected = tables["traffic_expected"].filter(pl.col("window") == window).collect(engine="streaming")
    order = places(tables, traffic)
    pairs = by_pair(traffic, expected, order, params.most_pairs)
    hosts = by_host(traffic)
    groups = by_group(tables, traffic, window)
    time = over_time(tables)
    patterns = _patterns(tables, traffic)
    frames = {
        PAIRS.name: pairs,
        PLACES.name: order,
        HOSTS_TRAFFIC.name: hosts,
        NICS_TRAFFIC.name: by_nic(traffic),
        GROUPS_TRAFFIC.name: groups,
        PATTERNS.name: patterns,
        TIME.name: time,
    }
    total = int(traffic["bytes"].sum())
    guessed = int(traffic.filter(~pl.col("rung").is_in(_MEASURED))["bytes"].sum())
    unseen = _not_observable(tables, total, guessed)
    degraded = ""
    if guessed:
        degraded = f"the edges of {format_share(guessed / total)} of the bytes are stated by no file: they are completed or assumed (column rung)"
    answer = _answer(traffic, groups, patterns, time, total) + (f" Logs hold {format_bytes(beside)} more, outside the captures." if beside else "")
    return AnalysisResult(answer, {name: frame for name, frame in frames.items() if frame.height}, degraded=degraded, not_observable=tuple(unseen))


def _window(tables: Tables) -> tuple[str, int]:
    """The captures' operations where there are any, so that bytes and times are of one window; and the bytes outside of it."""
    sums = dict(tables["traffic"].group_by(pl.col("window").cast(pl.String)).agg(pl.col("bytes").sum()).collect().iter_rows())
    window = "capture" if sums.get("capture") or "log" not in sums else "log"
    return window, sum(v for name, v in sums.items() if name != window)


def _patterns(tables: Tables, traffic: pl.DataFrame) -> pl.DataFrame:
    names = dict(tables["groups"].select("group_id", "name").collect().iter_rows())
    rows: list[tuple[str, int | None, Pattern]] = [("all ranks", None, name_pattern(traffic))]
    groups = traffic.group_by("group_id").agg(pl.col("bytes").sum()).sort("bytes", "group_id", descending=[True, False])["group_id"].to_list()
    rows += [(names.get(g, "unknown"), g, name_pattern(traffic.filter(pl.col("group_id").eq_missing(g)))) for g in groups[:_NAMED]]
    return PATTERNS.conform(
        pl.DataFrame(
            [(scope, g, p.name, p.evidence, p.ranks, p.pairs, p.gini, p.top_tenth) for scope, g, p in rows if p.pairs],
            schema=PATTERNS.polars,
            orient="row",
        )
    )


def _not_observable(tables: Tables, total: int, guessed: int) -> list[NotObservable]:
    out = []
    if guessed > 0.5 * total:
        reason = "no file states the rings or trees that the library built: the bytes of each pair rest on the order of ranks"
        collect = "the log of every rank with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING,NET of one start of the job"
        out.append(NotObservable("Which GPU pairs carry the collectives?", reason, collect))
    sizeless = tables["operations"].filter(pl.col("bytes").is_null()).select(pl.len()).collect().item()
    if sizeless:
        reason = f"{sizeless} operations state no size: their bytes are missing here"
        out.append(NotObservable("How much do all operations move?", reason, "traces of PyTorch 2.3 or newer, or logs with NCCL_DEBUG_SUBSYS=COLL"))
    return out


def _answer(traffic: pl.DataFrame, groups: pl.DataFrame, patterns: pl.DataFrame, time: pl.DataFrame, total: int) -> str:
    if not total:
        return "The operations that were seen state no size, so that no bytes can be counted."
    crossing = traffic.filter(pl.col("src_host") != pl.col("dst_host"))["bytes"].sum()
    known = traffic.filter(pl.col("src_host").is_not_null() & pl.col("dst_host").is_not_null())["bytes"].sum()
    parts = [f"{format_bytes(total)} between {traffic.select('src_rank', 'dst_rank').n_unique()} directed pairs of ranks"]
    if known:
        least = groups.filter(pl.col("least_cross_host_bytes").is_not_null())
        bound, crossed = int(least["least_cross_host_bytes"].sum()), int(least["cross_host_bytes"].sum())
        text = f"{format_share(int(crossing) / total)} of it between hosts"
        if bound:
            text += f", {crossed / bound:.2f} times the least that these operations need"
        parts.append(text)
    if patterns.height:
        parts.append(f"pattern: {patterns['pattern'][0]}")
    period = repeats_after(time["bytes"].to_list())
    if period is not None and period > 1:
        parts.append(f"the volume repeats after {period} steps")
    return "; ".join(parts) + "."


ANALYSIS = Analysis(
    "traffic",
    "Traffic between GPUs",
    "Who sends how much to whom, and over what?",
    ("traffic",),
    Params,
    OUTPUTS,
    _run,
    {
        "traffic": "no communication operation with its size was seen; "
        "collect traces of PyTorch 2.3 or newer, or NCCL logs with NCCL_DEBUG_SUBSYS=INIT,GRAPH,COLL"
    },
)
