"""What a parser emits, kept whole."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracelab.plugins import Notice, Parser, SourceFile, SourceInfo
from tracelab.tables import TABLES, TableSpec

__all__ = ["Read", "read"]


@dataclass
class Read:
    """An emitter that checks and keeps everything; `info` is what the parser said of the file."""

    info: SourceInfo = field(default_factory=lambda: SourceInfo([]))
    batches: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    notices: dict[str, Notice] = field(default_factory=dict)

    def batch(self, table: TableSpec, batch: Any) -> None:
        assert batch.schema.equals(table.arrow)
        batch.validate(full=True)
        assert not [f.name for f, c in zip(batch.schema, batch.columns, strict=True) if not f.nullable and c.null_count]
        self.batches[table.name].append(batch)

    def notice(self, notice: Notice) -> None:
        self.notices[notice.code] = notice

    def progress(self, bytes_read: int) -> None:
        assert bytes_read >= 0

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table in the order of their times."""
        found = pa.Table.from_batches(self.batches[table], TABLES[table].arrow).to_pylist()
        return sorted(found, key=lambda r: (r.get("part", 0), r.get("source_ts_ns") or 0, -(r.get("dur_ns") or 0)))

    def counts(self) -> dict[str, int]:
        """How many cases each notice counts."""
        return {code: n.count for code, n in self.notices.items()}


def read(parser: Parser, path: Path) -> Read:
    """What `parser` makes of a file."""
    out = Read()
    out.info = parser.parse(SourceFile(path, path.name), out)
    return out
