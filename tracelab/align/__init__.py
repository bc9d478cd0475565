"""Puts all ranks of a job on one clock: steps, groups, matched collectives, who waited for whom, and the clocks of the hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from tracelab.align.apply import aligned_time, with_model
from tracelab.align.arrivals import matches_and_arrivals
from tracelab.align.clocks import estimate_clocks
from tracelab.align.collectives import communication_rows
from tracelab.align.groups import assign_groups
from tracelab.align.kernels import unclamped
from tracelab.align.matching import AMBIGUOUS, Matched, match_rows
from tracelab.align.steps import rank_steps, step_of
from tracelab.plugins import Notice
from tracelab.tables import COLLECTIVES, PARSED_TABLES, STEPS

__all__ = ["Aligned", "align"]


@dataclass(frozen=True)
class Aligned:
    """The clocks and what follows from them. `derived` holds steps, groups, collectives, matches, arrivals and clocks."""

    clocks: pl.DataFrame
    derived: dict[str, pl.DataFrame]
    hosts: Mapping[int, str]
    notices: tuple[Notice, ...] = field(default=())

    def to_aligned(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """A parsed table (any with rank, source_ts_ns, ts_ns) with `ts_ns` on the aligned clock; columns and order stay."""
        columns = frame.collect_schema().names()
        model, pieces = with_model(frame, self.clocks, self.hosts)
        return model.with_columns(aligned_time("source_ts_ns", pieces).alias("ts_ns")).select(columns)


def align(parsed: Mapping[str, pl.LazyFrame], hosts: Mapping[int, str], world_size: int | None = None) -> Aligned:
    """Aligns the parsed tables (with source_id, rank and source times) of one job.

    `hosts` names the host of every rank; ranks of one host share one clock. `world_size` is the job's, where known: it
    keeps groups that are inferred from an incomplete set of ranks from passing as complete. Memory grows with the number of
    communication operations of all ranks, not with that of all events. Missing or empty tables give empty results. Spans
    whose times the source cut (`clamped`) are not looked at.
    """
    tables = {t.name: parsed.get(t.name, t.empty().lazy()) for t in PARSED_TABLES}
    tables |= {name: unclamped(tables[name]) for name in ("gpu_spans", "host_spans")}
    steps, step_notices = rank_steps(tables["gpu_spans"], tables["host_spans"])
    rows = communication_rows(tables, steps)
    rows, groups = assign_groups(rows, tables["process_groups"], world_size)
    origin = steps.select("rank", pl.col("origin").alias("step_origin")).unique("rank")
    rows = rows.join(origin, on="rank", how="left", maintain_order="left", validate="m:1")
    matched = match_rows(rows)
    rows = rows.with_columns(pl.Series("match_id", matched.match_id))
    clocks, notices = estimate_clocks(rows, matched.margin, hosts, _starts(tables, hosts), steps)
    steps = _shift(steps, ("start_ns", "end_ns"), clocks, hosts)
    rows = _shift(rows, ("start_ns", "end_ns"), clocks, hosts)
    rows = step_of(rows.drop("step"), steps, "start_ns", "step")
    matches, arrivals = matches_and_arrivals(rows, matched.rung, matched.margin, groups, clocks, hosts)
    collectives = rows.with_columns(pl.when(pl.col("match_id") >= 0).then(pl.col("match_id")).alias("match_id")).select(COLLECTIVES.names)
    derived = {
        "steps": STEPS.conform(steps),
        "groups": groups,
        "collectives": COLLECTIVES.conform(collectives),
        "matches": matches,
        "arrivals": arrivals,
        "clocks": clocks,
    }
    return Aligned(clocks, derived, dict(hosts), (*notices, *step_notices, *_matching_notices(rows, matched)))


def _starts(tables: Mapping[str, pl.LazyFrame], hosts: Mapping[int, str]) -> dict[str, int]:
    """The earliest moment of each host, in its own clock."""
    earliest = [tables[t].group_by("rank").agg(pl.col("source_ts_ns").min()).collect(engine="streaming") for t in ("gpu_spans", "host_spans")]
    out: dict[str, int] = {}
    for rank, start in pl.concat(earliest).iter_rows():
        host = hosts.get(rank)
        if host is not None:
            out[host] = min(start, out.get(host, start))
    return out


def _shift(frame: pl.DataFrame, times: tuple[str, ...], clocks: pl.DataFrame, hosts: Mapping[int, str]) -> pl.DataFrame:
    model, pieces = with_model(frame.lazy(), clocks, hosts)
    return model.with_columns(aligned_time(t, pieces).alias(t) for t in times).select(frame.columns).collect()


def _matching_notices(rows: pl.DataFrame, matched: Matched) -> list[Notice]:
    out = []
    unsure = sum(m is not None and m < AMBIGUOUS for m in matched.margin)
    if unsure:
        out.append(
            Notice(
                "ambiguous-match",
                "warning",
                "operations matched by order could as well match their neighbours; they are not used for clocks",
                "record traces with sequence numbers (PyTorch 2.12 or later)",
                unsure,
            )
        )
    alone = int((rows["match_id"] < 0).sum())
    if alone:
        out.append(
            Notice(
                "unmatched-operation",
                "info",
                "communication operations that could not be matched with those of other ranks; their waits are unknown",
                "collect traces of all ranks, with metadata of the process groups",
                alone,
            )
        )
    if matched.mismatched:
        out.append(
            Notice("contradicting-key", "warning", "operations share a key but differ in kind; they were matched by order instead", "", matched.mismatched)
        )
    return out
