"""Puts times on the aligned clock: aligned = own + offset + drift · (own - start), the drift in floating point on the difference only."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

__all__ = ["aligned_time", "with_clock_model", "with_model"]


def with_model(frame: pl.LazyFrame, clocks: pl.DataFrame, hosts: Mapping[int, str]) -> tuple[pl.LazyFrame, int]:
    """`frame` (with `rank`) joined with its host's pieces as _start0, _offset0, _drift0, _start1 …; and the number of pieces."""
    by_host, count = _pieces(clocks)
    model = pl.DataFrame({"rank": list(hosts), "host": list(hosts.values())}, schema={"rank": pl.Int32, "host": pl.String})
    model = model.join(by_host, on="host", how="left", maintain_order="left", validate="m:1")
    return frame.join(model.drop("host").lazy(), on="rank", how="left", maintain_order="left", validate="m:1"), count


def with_clock_model(frame: pl.DataFrame, clocks: pl.DataFrame, clock: str) -> tuple[pl.DataFrame, int]:
    """`frame` joined with the pieces of the host that its column `clock` names; rows of another clock get nulls."""
    by_host, count = _pieces(clocks)
    return frame.join(by_host.rename({"host": clock}), on=clock, how="left", maintain_order="left", validate="m:1"), count


def _pieces(clocks: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """One row per host with all its pieces, and their highest number."""
    pieces = clocks.sort("host", "start_ns").with_columns(pl.int_range(pl.len()).over("host").alias("piece"))
    count = int(pieces["piece"].max()) + 1 if pieces.height else 0  # type: ignore[arg-type]
    out = pieces.select(pl.col("host").unique(maintain_order=True))
    for n in range(count):
        columns = [pl.col("start_ns").alias(f"_start{n}"), pl.col("offset_ns").alias(f"_offset{n}"), pl.col("drift_ppm").alias(f"_drift{n}")]
        out = out.join(pieces.filter(pl.col("piece") == n).select("host", *columns), on="host", how="left", maintain_order="left", validate="m:1")
    return out, count


def aligned_time(time: str, pieces: int) -> pl.Expr:
    """The aligned moment of the column `time` (int64 ns, own clock) in a frame from `with_model`."""
    own = pl.col(time)
    out = own
    for n in range(pieces):
        start, offset, drift = pl.col(f"_start{n}"), pl.col(f"_offset{n}"), pl.col(f"_drift{n}")
        moved = own + offset + ((own - start).cast(pl.Float64) * (drift * 1e-6)).round().cast(pl.Int64)
        # The first piece also holds for what lies before it.
        holds = start.is_not_null() if n == 0 else (own >= start).fill_null(False)
        out = pl.when(holds).then(moved).otherwise(out)
    return out
