"""Hand-made tables: rows as dictionaries, everything unsaid filled with what a quiet source would say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from tracelab.tables import COMM_RECORDS, GPU_SPANS, HOST_SPANS, PARSED_TABLES, PROCESS_GROUPS, TABLES, TableSpec

Row = dict[str, Any]
Parsed = dict[str, pl.LazyFrame]


def frame(spec: TableSpec, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """A frame of `spec` from rows that name some of its columns; the others are null."""
    rows = list(rows)
    return pl.DataFrame({c: pl.Series(c, [r.get(c) for r in rows], t, strict=False) for c, t in spec.polars.items()}, schema=spec.polars)


def parsed(**rows: Iterable[Mapping[str, Any]]) -> Parsed:
    """All parsed tables as lazy frames, from rows by table name."""
    return {t.name: frame(TABLES[t.name], rows.get(t.name, ())).lazy() for t in PARSED_TABLES}


def _span(rank: int, start: int, dur: int, source: int | None) -> Row:
    return {"source_id": rank if source is None else source, "rank": rank, "part": 0, "ts_ns": start, "source_ts_ns": start, "dur_ns": dur, "clamped": False}


def gpu(rank: int, start: int, dur: int, name: str = "gemm", kind: str = "kernel", stream: int = 7, source: int | None = None, **more: Any) -> Row:
    """One row of gpu_spans."""
    return {**_span(rank, start, dur, source), "kind": kind, "name": name, "stream": stream, "device": 0, **more}


def host(rank: int, start: int, dur: int, name: str = "aten::mm", kind: str = "cpu_op", tid: int = 1, source: int | None = None, **more: Any) -> Row:
    """One row of host_spans."""
    return {**_span(rank, start, dur, source), "kind": kind, "name": name, "pid": 1, "tid": tid, **more}


def step(rank: int, number: int, start: int, dur: int) -> Row:
    """A step annotation of the framework's profiler."""
    return host(rank, start, dur, f"ProfilerStep#{number}", "annotation")


def record(rank: int, start: int, dur: int, operation: str, ranks: list[int] | None, source: int | None = None, **more: Any) -> Row:
    """One row of comm_records, recorded on a kernel unless said otherwise."""
    base = {k: v for k, v in _span(rank, start, dur, source).items() if k != "clamped"}
    size = len(ranks) if ranks else None
    return {**base, "recorded_on": "kernel", "operation": operation, "dtype": "Float", "group_name": "0", "group_ranks": ranks, "group_size": size, **more}


__all__ = ["COMM_RECORDS", "GPU_SPANS", "HOST_SPANS", "PROCESS_GROUPS", "Parsed", "Row", "frame", "gpu", "host", "parsed", "record", "step"]
