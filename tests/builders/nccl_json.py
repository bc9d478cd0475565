"""Reads text with a parser of NCCL's JSON output and keeps what it gives."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelab.plugins import Notice, Parser, SourceFile, SourceInfo
from tracelab.tables import TableSpec

__all__ = ["Read", "cuts", "read"]


@dataclass
class Read:
    """Rows by table, notices by code, and the description of the file."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notices: dict[str, Notice] = field(default_factory=dict)
    info: SourceInfo = field(default_factory=lambda: SourceInfo([]))
    progressed: list[int] = field(default_factory=list)

    def batch(self, table: TableSpec, batch: Any) -> None:
        assert batch.schema.equals(table.arrow)
        batch.validate(full=True)
        assert [f.name for f, c in zip(batch.schema, batch.columns, strict=True) if not f.nullable and c.null_count] == []
        self.rows.setdefault(table.name, []).extend(batch.to_pylist())

    def notice(self, notice: Notice) -> None:
        assert notice.code not in self.notices
        self.notices[notice.code] = notice

    def progress(self, bytes_read: int) -> None:
        self.progressed.append(bytes_read)

    def __getitem__(self, table: str) -> list[dict[str, Any]]:
        return self.rows.get(table, [])

    def column(self, table: str, *names: str) -> list[Any]:
        """One column, or several as tuples."""
        return [row[names[0]] if len(names) == 1 else tuple(row[n] for n in names) for row in self[table]]

    def counted(self) -> dict[str, int]:
        """How often each notice was given."""
        return {code: n.count for code, n in self.notices.items()}


def read(parser: Parser, data: bytes, folder: Path, *, compress: bool = False) -> Read:
    """What `parser` makes of `data`."""
    path = folder / "file"
    path.write_bytes(gzip.compress(data, mtime=0) if compress else data)
    found = Read()
    found.info = parser.parse(SourceFile(path, path.name), found)
    assert found.progressed == sorted(found.progressed)
    assert found.progressed[-1] == path.stat().st_size
    parts = {p.part for p in found.info.parts}
    assert parts >= {row["part"] for rows in found.rows.values() for row in rows}
    return found


def cuts(data: bytes) -> Iterator[bytes]:
    """Every beginning of `data` but the whole."""
    for n in range(len(data)):
        yield data[:n]
