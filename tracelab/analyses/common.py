"""What several analyses share: reading ranks in bounded batches, hosts, severities, sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tracelab.analysis import Tables
from tracelab.results import FindingSeverity

__all__ = ["batches", "host_of", "named", "severity", "span_ns"]

MOST_ROWS = 5_000_000
"""Rows of GPU or host work held at once."""


def batches(frame: pl.LazyFrame, columns: Sequence[str]) -> Iterator[tuple[int, pl.DataFrame]]:
    """The rows of each rank in order of rank. Several small ranks are read at once; a rank is never split."""
    counts = frame.group_by("rank").agg(pl.len()).collect(engine="streaming").sort("rank")
    batch: list[int] = []
    held = 0
    for rank, rows in [*counts.iter_rows(), (None, 0)]:
        if batch and (rank is None or held + rows > MOST_ROWS):
            part = frame.filter(pl.col("rank").is_in(batch)).select("rank", *columns).collect(engine="streaming")
            for r in batch:
                yield r, part.filter(pl.col("rank") == r)
            batch, held = [], 0
        if rank is not None:
            batch.append(rank)
            held += rows


def host_of(tables: Tables) -> dict[int, str]:
    """Host by rank."""
    return dict(tables["ranks"].select("rank", "host").collect().iter_rows())


def span_ns(tables: Tables) -> int:
    """Length of the analysed window: from the first step's start to the last step's end over all ranks, gaps included, ns."""
    first, last = tables["steps"].select(pl.col("start_ns").min(), pl.col("end_ns").max()).collect().row(0)
    return int(last - first) if first is not None else 0


def severity(share: float) -> FindingSeverity:
    """Severity of a loss by its share of the run."""
    return "critical" if share >= 0.25 else "major" if share >= 0.10 else "minor" if share >= 0.01 else "info"


def named(ranks: Sequence[int], most: int = 6) -> str:
    """`rank 3`, `ranks 4, 5, 6` or `ranks 0, 1, 2 and 5 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(str(r) for r in ranks[:most])
    return f"ranks {shown}" + (f" and {len(ranks) - most} more" if len(ranks) > most else "")
