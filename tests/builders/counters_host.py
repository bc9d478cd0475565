"""What a parser of a host's outputs makes of a text or a tree, as plain rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelab.ingest.heads import read_head
from tracelab.plugins import Notice, Parser, SourceFile, SourceInfo
from tracelab.tables import TableSpec

__all__ = ["Parsed", "parse", "parse_text", "tree"]


@dataclass
class Parsed:
    """An emitter that checks and keeps everything."""

    info: SourceInfo = field(default_factory=lambda: SourceInfo([]))
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    notices: dict[str, int] = field(default_factory=dict)

    def batch(self, table: TableSpec, batch: Any) -> None:
        assert batch.schema.equals(table.arrow)
        batch.validate(full=True)
        assert not [f.name for f, c in zip(batch.schema, batch.columns, strict=True) if not f.nullable and c.null_count]
        self.rows[table.name] += batch.to_pylist()

    def notice(self, notice: Notice) -> None:
        self.notices[notice.code] = self.notices.get(notice.code, 0) + notice.count

    def progress(self, bytes_read: int) -> None:
        assert bytes_read >= 0

    def counters(self, *columns: str) -> list[tuple[Any, ...]]:
        """These columns of the counters, in the order of the file."""
        return [tuple(r[c] for c in columns) for r in self.rows["counter_samples"]]

    def interfaces(self, *columns: str) -> list[tuple[Any, ...]]:
        """These columns of the interfaces, in the order of the file."""
        return [tuple(r[c] for c in columns) for r in self.rows["interfaces"]]


def parse(parser: Parser, path: Path) -> Parsed:
    """What `parser` makes of a file that it claims."""
    assert parser.sniff(path, read_head(path).data) is not None
    out = Parsed()
    out.info = parser.parse(SourceFile(path, path.name), out)
    return out


def parse_text(parser: Parser, folder: Path, text: str | bytes) -> Parsed:
    """What `parser` makes of a text that it claims."""
    path = folder / "taken.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return parse(parser, path)


def tree(root: Path, files: dict[str, str]) -> None:
    """Writes files by their names below `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
