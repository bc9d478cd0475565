"""The report of ranks that fell behind, which torch's watchdog prints over several lines (TORCH_NCCL_DESYNC_DEBUG)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tracelab.tables.logs import COMM_PROGRESS
from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_log.fields import Bounded, bounded, integer
from tracelab_parsers.nccl_log.line import LogLine, Rows

__all__ = ["DesyncReport"]

_RANKS = r"\[([0-9, ]{1,60000})\]"
_TIMEOUT = re.compile(r"\[([0-9]{1,7})\] Timeout at collective: ([A-Za-z_]{1,60}), #([0-9]{1,18})\s*$")
_NEVER = re.compile(rf"ranks {_RANKS} are the lagging ranks")
_JOINED = re.compile(rf"{_RANKS} joined but didn't finish collective #([0-9]{{1,18}}) ")
_FINISHED = re.compile(rf"{_RANKS} finished collective #([0-9]{{1,18}}), but didn't join")
_STATE = re.compile(r"[\s-]*#([0-9]{1,18}) (started|finished) ranks:")
_STATE_ROW = re.compile(rf"[\s-]*{_RANKS} (started|finished) ([A-Z_]{{1,60}})\s*$")
_HEADINGS = ("To our best knowledge", "Snapshot of ranks")

_REPORTS = 256
_PENDING = 512
_QUIET_LINES = 64


class _Statement(NamedTuple):
    line: LogLine
    ranks: tuple[int, ...]
    values: dict[str, Any]


@dataclass
class _Report:
    """What one rank reports. `group` is (name, whether it is the group of all ranks), once a line has told."""

    group: tuple[str, bool] | None = None
    number: int | None = None
    started: bool = False
    pending: list[_Statement] = field(default_factory=list)


class DesyncReport:
    """Ranks of a report count in its group; only where that is the group of all they are ranks of the job.

    Newer versions name the group on the next line of the same speaker, so statements wait for it. Where it is another group,
    or none is named, one row stands for each list of ranks and its `subject_rank` is null. Every rank prints the same
    report: what was said before is not repeated.
    """

    def __init__(self) -> None:
        self._reports: Bounded[int | None, _Report] = Bounded(_REPORTS)
        self._current: _Report | None = None
        self._quiet = 0
        self._said: Bounded[tuple[object, ...], None] = Bounded(65_536)

    @property
    def open(self) -> bool:
        """Whether a line without any mark may belong to a report."""
        return self._current is not None and self._current.started

    def heading(self, label: int | None, group: str | None, rows: Rows, *, default: bool) -> None:
        """A line of the process group of rank `label` begins: what follows without a label is its own."""
        report = self._reports.get(label)
        if report is None:
            if len(self._reports) == _REPORTS:
                self._release(next(iter(self._reports.values())), rows)
            report = self._reports[label] = _Report()
        report.group = (group, default) if group is not None else None
        if group is not None:
            self._release(report, rows)
        report.started = False
        self._current, self._quiet = report, 0

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """`desync` for a line of a report, else None."""
        report = self._reports.get(line.rank_label) if line.rank_label is not None else self._current
        if report is None:
            report = self._current = self._current or _Report()
        known = False
        for ranks, values in _statements(line.text, report):
            known = True
            report.pending.append(_Statement(line, ranks, values))
        known = known or any(part in line.text for part in _HEADINGS) or (report.started and _STATE.match(line.text) is not None)
        if not known:
            self._quiet += 1
            if self._quiet > _QUIET_LINES and self._current is not None:
                self._current.started = False
            return None
        report.started, self._quiet, self._current = True, 0, report
        if report.group is not None or len(report.pending) > _PENDING:
            self._release(report, rows)
        return "desync"

    def finish(self, rows: Rows) -> None:
        """Writes what still waits; no line named its group."""
        for report in [*self._reports.values(), *([self._current] if self._current else [])]:
            self._release(report, rows)

    def _release(self, report: _Report, rows: Rows) -> None:
        name, default = report.group or (None, False)
        pending, report.pending = report.pending, []
        for line, ranks, values in pending:
            said = (name, ranks, *sorted(values.items()))
            if said in self._said:
                continue
            self._said[said] = None
            for rank in ranks if default else (None,):
                rows.add(COMM_PROGRESS, line, origin="desync-report", group_name=name, subject_rank=rank, text=bounded(line.text), **values)


def _statements(text: str, report: _Report) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
    if "]" in text:
        if found := _TIMEOUT.search(text):
            stated = {"timed_out": integer(found[3], wide=True), "operation": ops.c10d_operation(found[2]), "status": "timed-out"}
            yield _ranks(found[1]), stated
        elif found := _NEVER.search(text):
            yield _ranks(found[1]), {"status": "missing"}
        elif found := _JOINED.search(text):
            yield _ranks(found[1]), {"last_started": integer(found[2], wide=True), "status": "running"}
        elif found := _FINISHED.search(text):
            number = integer(found[2], wide=True)
            yield _ranks(found[1]), {"last_started": number, "last_completed": number, "status": "missing"}
        elif report.number is not None and (found := _STATE_ROW.match(text)):
            what = "last_started" if found[2] == "started" else "last_completed"
            yield _ranks(found[1]), {what: report.number, "operation": ops.c10d_operation(found[3]), "status": "running"}
    elif found := _STATE.match(text):
        report.number = integer(found[1], wide=True)


def _ranks(listed: str) -> tuple[int, ...]:
    numbers = (integer(word.strip()) for word in listed.split(","))
    return tuple(n for n in numbers if n is not None)
