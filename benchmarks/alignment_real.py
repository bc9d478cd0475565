"""Alignment of traces that other people recorded, where something about their clocks is known."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import tracelab
from tracelab.align import Aligned, align
from tracelab.ingest.scan import scan_parsed

__all__ = ["Shifted", "end_residuals", "shifted"]

_FARTHEST_NS = 1_000_000_000


@dataclass(frozen=True)
class Shifted:
    """Ranks whose times were shifted, the largest error of the shifts found (µs), operations, and those with another last arrival."""

    ranks: int
    error_us: float
    operations: int
    changed: int


def shifted(directory: Path, seed: int) -> Shifted:
    """The ranks of one host, each shifted by up to a second as if it had a clock of its own, against the ranks as they are."""
    with tempfile.TemporaryDirectory() as cache:
        run = tracelab.open(directory, cache_dir=cache)
        parsed = scan_parsed(run.ingested, run.rank_map)
        ranks, world = sorted(run.hosts), run.rank_map.world_size
        shift = dict(zip(ranks, np.random.default_rng(seed).integers(-_FARTHEST_NS, _FARTHEST_NS, len(ranks)).tolist(), strict=True))
        moved = {name: _shifted(frame, shift) for name, frame in parsed.items()}
        before, after = align(parsed, run.hosts, world), align(moved, {r: f"clock{r:06d}" for r in ranks}, world)
        rest = np.array([offset + shift[r] for r, offset in zip(ranks, after.clocks.sort("host")["offset_ns"].to_list(), strict=True)])
        was, now = _last(before), _last(after)
        return Shifted(len(ranks), float(np.abs(rest - np.median(rest)).max()) / 1e3, len(was), sum(a != b for a, b in zip(was, now, strict=True)))


def _shifted(frame: pl.LazyFrame, shift: dict[int, int]) -> pl.LazyFrame:
    if not {"rank", "source_ts_ns"} <= set(frame.collect_schema().names()):
        return frame
    return frame.with_columns(pl.col("source_ts_ns") + pl.col("rank").replace_strict(shift, default=0, return_dtype=pl.Int64))


def _last(found: Aligned) -> list[int]:
    return found.derived["matches"].sort("end_ns")["last_rank"].to_list()


def end_residuals(directory: Path) -> tuple[float, float, int]:
    """How far ends are from the median end of their operation after alignment, µs: median and maximum; and steps that are claimed."""
    with tempfile.TemporaryDirectory() as cache:
        found = tracelab.open(directory, cache_dir=cache).aligned
    ends = found.derived["arrivals"].join(found.derived["matches"].select("match_id", pl.col("end_ns").alias("median")), on="match_id")
    off = (ends["end_ns"] - ends["median"]).abs() / 1e3
    return float(off.median() or 0.0), float(off.max() or 0.0), sum(n.code == "clock-jump" for n in found.notices)  # type: ignore[arg-type]
