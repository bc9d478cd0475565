"""Stored sources as lazy tables of one job: the columns that the store leaves out are added here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracelab.ingest.pipeline import Ingested
from tracelab.ingest.rankmap import Assignment, RankMap
from tracelab.tables import FABRIC_TABLES, NOTICES, PARSED_TABLES, SOURCES, TableSpec

if TYPE_CHECKING:
    import polars as pl

    from tracelab.ingest.identity import FileNotice

__all__ = ["notices_frame", "scan_fabric", "scan_parsed", "sources_frame"]


def _scan_source(spec: TableSpec, ingested: Ingested, parts: Sequence[Assignment]) -> pl.LazyFrame | None:
    import polars as pl

    stored = ingested.source
    if stored is None or spec.name not in stored.tables:
        return None
    frame = pl.scan_parquet(stored.path(spec.name))
    if len(parts) == 1 and len(stored.info.parts) == 1:
        frame = frame.with_columns(rank=pl.lit(parts[0].rank, pl.Int32), shift_ns=pl.lit(parts[0].process.shift_ns, pl.Int64))
    else:
        rows = [(a.process.part.part, a.rank, a.process.shift_ns) for a in parts]
        ranks = pl.LazyFrame(rows, schema={"part": pl.Int16, "rank": pl.Int32, "shift_ns": pl.Int64}, orient="row")
        frame = frame.join(ranks, on="part", how="inner", maintain_order="left")
    frame = frame.with_columns(source_id=pl.lit(parts[0].process.source, pl.Int32))
    if "ts_ns" in spec.names:
        frame = frame.with_columns(source_ts_ns=pl.col("source_ts_ns") + pl.col("shift_ns")).with_columns(ts_ns=pl.col("source_ts_ns"))
    return frame.select(spec.names)


def scan_parsed(ingested: Sequence[Ingested], ranks: RankMap) -> dict[str, pl.LazyFrame]:
    """Each parsed table over all analysed sources, in order of source; `ts_ns` still equals `source_ts_ns`."""
    import polars as pl

    by_source: dict[int, list[Assignment]] = {}
    for a in ranks.used:
        by_source.setdefault(a.process.source, []).append(a)
    out = {}
    for spec in PARSED_TABLES:
        frames = [f for source, parts in sorted(by_source.items()) if (f := _scan_source(spec, ingested[source], parts)) is not None]
        out[spec.name] = pl.concat(frames) if frames else spec.empty().lazy()
    return out


def scan_fabric(ingested: Sequence[Ingested], ranks: RankMap) -> dict[str, pl.LazyFrame]:
    """Each table of counters and wiring, in order of source: of all files of machines, and of the analysed captures and logs that hold some."""
    import polars as pl

    used = {a.process.source for a in ranks.used}
    stored = [(n, i.source) for n, i in enumerate(ingested) if i.source is not None and (i.kind == "fabric" or n in used)]
    out = {}
    for spec in FABRIC_TABLES:
        found = [(n, s.path(spec.name)) for n, s in stored if spec.name in s.tables]
        frames = [pl.scan_parquet(path).with_columns(source_id=pl.lit(n, pl.Int32)).select(spec.names) for n, path in found]
        out[spec.name] = pl.concat(frames) if frames else spec.empty().lazy()
    return out


def sources_frame(ingested: Sequence[Ingested], ranks: RankMap) -> pl.DataFrame:
    """The table `sources`."""
    import polars as pl

    rows = []
    for a in ranks.assignments:
        p, item = a.process, ingested[a.process.source]
        assert item.source is not None  # only read files have processes
        rows.append(
            {
                "source_id": p.source,
                "part": p.part.part,
                "path": p.name,
                "format": item.candidate.parser,
                "size_bytes": item.candidate.size_bytes,
                "content_key": p.content,
                "job": a.job,
                "rank": a.rank if p.rank is not None else None,
                "rank_origin": p.rank_origin,
                "world_size": p.world_size,
                "host": a.host,
                "host_origin": p.host_origin,
                "window": a.window,
                "start_ns": p.part.start_ns,
                "end_ns": p.part.end_ns,
                "events": p.events,
                "truncated": item.source.info.truncated,
                "role": a.role,
            },
        )
    return SOURCES.conform(pl.DataFrame(rows, schema=SOURCES.polars, orient="row"))


def notices_frame(notices: Sequence[FileNotice]) -> pl.DataFrame:
    """The table `notices`, in the order given."""
    import polars as pl

    rows = [(n.path, n.notice.code, n.notice.severity, n.notice.offset, n.notice.count, n.notice.text, n.notice.hint) for n in notices]
    return NOTICES.conform(pl.DataFrame(rows, schema=NOTICES.polars, orient="row"))
