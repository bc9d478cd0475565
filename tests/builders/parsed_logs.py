"""Tables that the product's parser of NCCL logs makes of files, with the columns that a reader of the store would add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from tracelab.plugins import Notice, Part, SourceFile
from tracelab.tables import LOG_TABLES, TableSpec
from tracelab_parsers.nccl_log.parser import PARSER

__all__ = ["parse_logs"]


class _Batches:
    def __init__(self) -> None:
        self.batches: dict[str, list[pa.RecordBatch]] = {}

    def batch(self, table: TableSpec, batch: pa.RecordBatch) -> None:
        self.batches.setdefault(table.name, []).append(batch)

    def notice(self, notice: Notice) -> None:
        """Notices are the parser's tests' affair."""

    def progress(self, bytes_read: int) -> None:
        """Nobody watches."""


def parse_logs(files: Sequence[Path], rank_of: Callable[[Part], int | None]) -> dict[str, pl.LazyFrame]:
    """All log tables of `files`; `rank_of` gives the global rank of a process, null where it has none."""
    found: dict[str, list[pl.DataFrame]] = {t.name: [] for t in LOG_TABLES}
    for source, file in enumerate(files):
        emit = _Batches()
        ranks = {p.part: rank_of(p) for p in PARSER.parse(SourceFile(file, file.name), emit).parts}
        known = {part: -1 if rank is None else rank for part, rank in ranks.items()}
        for spec in LOG_TABLES:
            if batches := emit.batches.get(spec.name):
                frame = pl.from_arrow(pa.Table.from_batches(batches))
                assert isinstance(frame, pl.DataFrame)
                rank = pl.col("part").cast(pl.Int32).replace_strict(known, default=-1, return_dtype=pl.Int32)
                added = {"source_id": pl.lit(source), "rank": rank}
                columns = [added.get(n, pl.col(n) if n in frame.columns else pl.lit(None)).cast(t).alias(n) for n, t in spec.polars.items()]
                found[spec.name].append(frame.select(columns))
    return {t.name: pl.concat(found[t.name]).lazy() if found[t.name] else t.empty().lazy() for t in LOG_TABLES}
