"""When the job transferred data between hosts."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracelab.analyses.common import host_of
from tracelab.analyses.intervals import Intervals, union
from tracelab.analysis import Tables

__all__ = ["median_transfer_ns", "share_in_transfers"]


def share_in_transfers(tables: Tables, rows: pl.DataFrame) -> pl.Series:
    """Seconds of each of the intervals `rows` (columns start_ns, end_ns) in which at least one transfer ran."""
    start, end = _transfers(tables)
    edges = np.empty(2 * len(start), np.int64)
    edges[0::2], edges[1::2] = start, end
    if not len(edges):
        return pl.Series("transfer_s", np.zeros(rows.height))
    covered = np.zeros(len(edges), np.int64)
    covered[1:] = np.cumsum(np.where(np.arange(len(edges) - 1) % 2 == 0, np.diff(edges), 0))
    # relative to the first edge, floats are exact to the nanosecond for 104 days
    until = [np.interp((rows[c].to_numpy() - edges[0]).astype(float), (edges - edges[0]).astype(float), covered.astype(float)) for c in ("start_ns", "end_ns")]
    return pl.Series("transfer_s", (until[1] - until[0]) / 1e9)


def median_transfer_ns(tables: Tables) -> float | None:
    """Median length of an operation's transfer, of those that cross hosts as far as hosts are known."""
    value = _crossing(tables).select(pl.col("transfer_ns").filter(pl.col("transfer_ns") > 0).median()).collect().item()
    return float(value) if value is not None else None


def _crossing(tables: Tables) -> pl.LazyFrame:
    """Matched operations of groups that span hosts, or of which that is not known."""
    hosts = host_of(tables)
    local = []
    for group, ranks in tables["groups"].select("group_id", "ranks").collect().iter_rows():
        named = {hosts.get(r) for r in ranks or ()}
        if len(named) == 1 and None not in named:
            local.append(group)
    return tables["matches"].filter(~pl.col("group_id").is_in(local) | pl.col("group_id").is_null())


def _transfers(tables: Tables) -> Intervals:
    """Times in which data moved between hosts: from the last arrival to the end of each operation."""
    spans = _crossing(tables).select("last_start_ns", "end_ns").collect(engine="streaming")
    return union(spans["last_start_ns"].to_numpy(), spans["end_ns"].to_numpy())
