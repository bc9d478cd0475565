"""What several analyses share: reading ranks in bounded batches, hosts, severities, sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.kernels import name_classes, unclamped, with_class
from tracelab.analysis import Tables
from tracelab.results import FindingSeverity

__all__ = [
    "FEW_STEPS",
    "batches",
    "clamped_share",
    "clock_of",
    "clocks_apart",
    "gpu_work",
    "host_of",
    "host_work",
    "named",
    "once",
    "resampled",
    "severity",
    "world_of",
]

T = TypeVar("T")
Float = NDArray[np.float64]

MOST_ROWS = 5_000_000
"""Rows of GPU or host work held at once."""
MOST_DRAWS = 2_000_000
"""Values of resampled steps held at once."""
FEW_STEPS = 3
"""With fewer steps it cannot be told whether one of them is usual: what is found in them is possible, and minor."""


def once(tables: Tables, key: str, compute: Callable[[], T]) -> T:
    """What `compute` gives, computed once for these tables: several analyses need it."""
    if key not in tables.memo:
        tables.memo[key] = compute()
    return cast("T", tables.memo[key])


def gpu_work(tables: Tables) -> pl.LazyFrame:
    """`gpu_spans` with op_class, library and op_hint, without spans whose times the source cut."""
    spans = unclamped(tables["gpu_spans"])
    return with_class(spans, once(tables, "name_classes", lambda: name_classes(tables["gpu_spans"])))


def host_work(tables: Tables) -> pl.LazyFrame:
    """`host_spans` without those whose times the source cut."""
    return unclamped(tables["host_spans"])


def batches(frame: pl.LazyFrame, columns: Sequence[str]) -> Iterator[tuple[int, pl.DataFrame]]:
    """The rows of each rank in order of rank. Several small ranks are read at once; a rank is never split."""
    counts = frame.group_by("rank").agg(pl.len()).collect(engine="streaming").sort("rank")
    batch: list[int] = []
    held = 0
    for rank, rows in [*counts.iter_rows(), (None, 0)]:
        if batch and (rank is None or held + rows > MOST_ROWS):
            part = frame.filter(pl.col("rank").is_in(batch)).select("rank", *columns).collect(engine="streaming")
            by_rank = part.partition_by("rank", as_dict=True, maintain_order=True)
            yield from ((r, by_rank[r,]) for r in batch)
            batch, held = [], 0
        if rank is not None:
            batch.append(rank)
            held += rows


def host_of(tables: Tables) -> dict[int, str]:
    """Host by rank."""
    return dict(tables["ranks"].select("rank", "host").collect().iter_rows())


def clamped_share(tables: Tables) -> float:
    """Share of the rows of `gpu_spans` whose times the source cut."""
    share = tables["gpu_spans"].select(pl.col("clamped").fill_null(False).mean()).collect(engine="streaming").item()
    return float(share or 0.0)


def world_of(tables: Tables) -> int:
    """Ranks of the job, seen or not: as its files state it, else the largest group, else up to the highest seen. All of them wait for one."""
    sources = tables["sources"].filter(pl.col("role") == "analysed").select(pl.col("world_size").max()).collect().item()
    groups = tables["groups"].select(pl.col("size").max()).collect().item()
    return max(int(sources or 0), int(groups or 0), max(host_of(tables), default=-1) + 1)


def clocks_apart(tables: Tables) -> tuple[str, ...]:
    """Hosts whose clocks could not be aligned with those of the others, in order."""
    clocks = tables["clocks"].select("host", "method").collect()
    return tuple(sorted(clocks.filter(pl.col("method") == "none")["host"].unique())) if clocks["host"].n_unique() > 1 else ()


def clock_of(tables: Tables) -> dict[int, str]:
    """The clock of each rank: empty for the common one, else the host that stands alone."""
    apart = set(clocks_apart(tables))
    return {rank: host if host in apart else "" for rank, host in host_of(tables).items()}


def resampled(values: Float, resamples: int, seed: int) -> Float:
    """Means of `values`, shape (steps, n), over as many steps drawn with replacement: shape (resamples, n)."""
    random = np.random.default_rng(seed)
    rows = max(1, MOST_DRAWS // max(values.size, 1))
    sizes = [min(rows, resamples - at) for at in range(0, resamples, rows)]
    return np.concatenate([values[random.integers(0, len(values), (n, len(values)))].mean(axis=1) for n in sizes])


def severity(share: float, *, enough: bool = True) -> FindingSeverity:
    """Severity of a loss by its share of the run; at most minor where there was not `enough` to compare."""
    if not enough:
        return "minor" if share >= 0.01 else "info"
    return "critical" if share >= 0.25 else "major" if share >= 0.10 else "minor" if share >= 0.01 else "info"


def named(ranks: Sequence[int], most: int = 6) -> str:
    """`rank 3`, `ranks 4, 5, 6` or `ranks 0, 1, 2 and 5 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(str(r) for r in ranks[:most])
    return f"ranks {shown}" + (f" and {len(ranks) - most} more" if len(ranks) > most else "")
