"""What the readers of a log hand to each other: one line, cleaned, and a place for rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tracelab.plugins import Notice
from tracelab.tables import TableSpec

__all__ = ["LineReader", "LogLine", "Rows"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One message, without colours, launcher's label and line end.

    `number` counts lines of the file from 1. `part` is the process that speaks: for a line of the library the one of its
    prefix (`host`, `pid`), for a bare line the one that the launcher's label names, else None. `level` is INFO, WARN, TRACE,
    CALL, VERSION or ABORT for lines of the library and empty for bare lines. `where` is the library's own file and line.
    `rank_label` is the rank that the launcher put before the line. `source_ts_ns` is set only where a zone is stated;
    `local_ts_ns` is the printed local time read as if it were UTC.
    """

    number: int
    text: str
    part: int | None = None
    level: str = ""
    host: str | None = None
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    where: str | None = None
    rank_label: int | None = None
    source_ts_ns: int | None = None
    local_ts_ns: int | None = None


class Rows(Protocol):
    """Where readers put what they find."""

    def add(self, table: TableSpec, line: LogLine, **values: object) -> None:
        """Adds one row; `part`, `line` and the times come from `line`, columns that are not given are null.

        `comm` may be given as the number of a communicator; where it is not, it is the one that the thread of `line` is
        known to work on, or null.
        """

    def notice(self, notice: Notice) -> None:
        """Adds a notice; see `tracelab.plugins.Emitter`."""

    def version(self, line: LogLine) -> tuple[int, ...]:
        """The version of the library in the process that speaks, (0,) where it is not known yet."""


class LineReader(Protocol):
    """Knows one kind of message. May keep state over lines (tables and blocks span several), by process or thread."""

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """The kind of the message (a short word that lands in `log_events.kind`) where this reader knows it, else None.

        A reader that knows a line also adds the rows that follow from it. Must not raise, whatever the text.
        """

    def finish(self, rows: Rows) -> None:
        """Called once at the end of the file: what is still open is written or counted as cut."""
