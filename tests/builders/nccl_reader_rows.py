"""Lines and rows for readers of NCCL's messages, without the parser around them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tracelab.plugins import Notice
from tracelab.tables import TableSpec
from tracelab_parsers.nccl_log.line import LineReader, LogLine

Row = dict[str, Any]

# The hosts of the real files; a line of the library is one whose prefix names one of them.
_HOSTS = r"(?:mew0|lab|p5-dy-gpu-\d|r\di\dn\d|jean-zay-iam\d+|nccl-tests-efa-16-worker-\d)"
_PREFIX = re.compile(rf"({_HOSTS}):(\d+):(\d+) \[(\d+)\] (?:(\S+:\d+) )?NCCL (INFO|WARN) (.*)", re.DOTALL)
_LABEL = re.compile(r"(?:\[1,(\d+)\]<std\w+>:|(\d+): )")


class FakeRows:
    """Keeps what a reader adds; a column that the table does not have is an error."""

    def __init__(self, version: tuple[int, ...] = (0,)) -> None:
        self.rows: list[tuple[str, LogLine, Row]] = []
        self.notices: list[Notice] = []
        self._version = version

    def add(self, table: TableSpec, line: LogLine, **values: object) -> None:
        for name in values:
            table.column(name)
        self.rows.append((table.name, line, dict(values)))

    def notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def version(self, line: LogLine) -> tuple[int, ...]:
        return self._version

    def of(self, table: str, **where: object) -> list[Row]:
        """Rows of a table, with `line` and `part`, that have these values."""
        rows = [{"line": line.number, "part": line.part, **v} for name, line, v in self.rows if name == table]
        return [r for r in rows if all(r.get(k) == v for k, v in where.items())]


def said(text: str, number: int = 1, *, part: int = 0, tid: int = 1, level: str = "INFO") -> LogLine:
    """A line of the library."""
    return LogLine(number, text, part=part, level=level, host="h", pid=100 + part, tid=tid, device=0)


def bare(text: str, number: int = 1, *, rank: int | None = None) -> LogLine:
    """A line that is not the library's, with the rank of its label."""
    return LogLine(number, text, rank_label=rank)


def read(reader: LineReader, lines: Iterable[LogLine]) -> tuple[list[str | None], FakeRows]:
    """The kinds of the lines, and all rows."""
    rows = FakeRows()
    kinds = [reader.take(line, rows) for line in lines]
    reader.finish(rows)
    return kinds, rows


def real_lines(path: Path) -> Iterator[LogLine]:
    """The lines of a real file, cut at the library's prefix: what stands before it is a line of its own."""
    parts: dict[tuple[str, str], int] = {}
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
    for number, raw in enumerate(text.split("\n"), 1):
        yield from _cut(raw.rstrip("\r"), number, parts)


def _cut(text: str, number: int, parts: dict[tuple[str, str], int]) -> Iterator[LogLine]:
    label = None
    if found := _LABEL.match(text):
        text, label = text[found.end() :], int(found[1] or found[2])
    prefix = _PREFIX.search(text)
    if prefix is None:
        yield LogLine(number, text, rank_label=label)
        return
    if prefix.start():
        yield LogLine(number, text[: prefix.start()], rank_label=label)
    part = parts.setdefault((prefix[1], prefix[2]), len(parts))
    yield LogLine(number, prefix[7], part, prefix[6], prefix[1], int(prefix[2]), int(prefix[3]), int(prefix[4]), prefix[5])
