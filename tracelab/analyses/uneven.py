"""Whether ranks that differ from step to step do so for the whole step, as uneven work does and hiccups do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracelab.align.kernels import COMPUTE
from tracelab.analyses.common import batches, gpu_work
from tracelab.analyses.excess import Excess, median_of
from tracelab.analysis import Tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LEAST_CORRELATION", "coherent"]

LEAST_CORRELATION = 0.5
"""Between the deviations of the two halves of a step's kernels; uneven sequence lengths give above 0.9, independent noise 0."""


def coherent(tables: Tables, x: Excess, rows: NDArray[np.int64]) -> bool:
    """Whether a rank that is slow in one half of a step's compute kernels (by order) is slow in the other half too."""
    spans = gpu_work(tables).filter((pl.col("op_class") == COMPUTE) & pl.col("rank").is_in(x.ranks[rows].tolist()))
    halves = np.full((2, len(rows), len(x.steps)), np.nan)
    at = {int(x.ranks[r]): n for n, r in enumerate(rows)}
    for rank, rows_of_rank in batches(spans, ("ts_ns", "dur_ns")):
        part = rows_of_rank.sort("ts_ns")
        time, length = part["ts_ns"].to_numpy(), part["dur_ns"].to_numpy().astype(np.float64)
        total = np.append(0.0, np.cumsum(length))
        starts, ends = x.part.edges(rank, x.steps.tolist())
        first, last = np.searchsorted(time, starts), np.searchsorted(time, ends)
        middle = (first + last) // 2
        halves[0, at[rank]], halves[1, at[rank]] = total[middle] - total[first], total[last] - total[middle]
    usual = np.stack([median_of(half, 0) for half in halves])[:, None, :]
    deviation = np.divide(halves, usual, out=np.full_like(halves, np.nan), where=usual > 0) - 1.0
    deviation = deviation - np.stack([median_of(d, 1) for d in deviation])[:, :, None]
    # One rank that is slow for a while moves both halves too: without the rank that deviates most it must still hold.
    most = int(np.argmax(np.nansum(deviation**2, axis=(0, 2))))
    return _agree(deviation) and _agree(np.delete(deviation, most, axis=1))


def _agree(deviation: NDArray[np.float64]) -> bool:
    a, b = (d.ravel() for d in deviation)
    known = np.isfinite(a) & np.isfinite(b)
    return bool(known.sum() >= 8 and np.std(a[known]) > 0 and np.std(b[known]) > 0 and np.corrcoef(a[known], b[known])[0, 1] >= LEAST_CORRELATION)
