"""What torch's watchdog of process groups prints: timeouts, how far a group came, reports of ranks that fell behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracelab.tables.logs import COMM_PROGRESS
from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_log.desync import DesyncReport
from tracelab_parsers.nccl_log.fields import Bounded, bounded, integer
from tracelab_parsers.nccl_log.line import LogLine, Rows

__all__ = ["C10D_KINDS", "C10dReader"]

C10D_KINDS = frozenset({"watchdog", "desync", "abort", "nccl-error", "ended", "c10d"})
"""The kinds that this reader gives; its lines are of level ERROR but for those of kind `c10d`."""

_SPEAKERS = 65_536

_LABEL = re.compile(r"\[rank([0-9]{1,7})\]:")
_GROUP = re.compile(r"\[PG (?:ID [0-9]{1,9} ?PG GUID ([^\s(\]]{1,200})|([^\s(\]]{1,200}) ?)(?:\(([^\]]{0,200}?)\))? ?Rank ([0-9]{1,7})\]")
_WORK = re.compile(r"\bWork[A-Z][A-Za-z]{1,10}\(([^()]{0,400}(?:\(ms\)[^()]{0,100})?)(\))?")
_WORK_FIELD = re.compile(r"(SeqNum|OpType|NumelIn|NumelOut)=(-?[0-9A-Za-z_]{1,60})(?=[,)])")
_RAN = re.compile(r"\) ran for ([0-9]{1,15}) milliseconds")
_FAILED = re.compile(r"(?:detected by watchdog at work(?: sequence id)?:|Timeout at NCCL work:) ([0-9]{1,18})(?=,| PG status)")
# From 2.6 the end of the line closes the last number.
_LAST = re.compile(r"[Ll]ast (enqueued|started|completed)(?: NCCL)? work: (-?[0-9]{1,18})(?=[,.]| \()|last (completed) work: (-?[0-9]{1,18})\s*$")
_ABORTED = re.compile(r"NCCL communicator was aborted(?: on rank [0-9]{1,7}\.)?")
_DUMP = "Received a dump signal"

_WATCHDOG = (
    "Heartbeat monitor timed out",
    "watchdog got stuck",
    "Some NCCL operations have failed or timed out",
    "Stack trace of the failed collective",
    "preparing to dump debug info",
    "dump signal",
    "signal dumping",
    "watchdog detected an exception",
    "FlightRecorder",
    "flight recorder",
    "Flight Recorder",
)
_ABORT = ("terminate called", "taking the entire process down", "watchdog thread terminated with exception", "Aborting process", "aborting communicators")
_ENDED = ("closing signal SIGTERM", "death signal", "(SIGTERM)", "(SIGKILL)", "got signal: 15", "CANCELLED AT")
"""What launchers and schedulers print when they end processes: torchrun's agent, its workers, slurmstepd."""
_ERRORS = (
    "NCCL error in:",
    "ncclUnhandledCudaError",
    "ncclSystemError:",
    "ncclInternalError:",
    "ncclRemoteError:",
    "ncclInvalidUsage:",
    "ncclInvalidArgument:",
)


@dataclass
class _Speaker:
    """What a rank said before: its timed out works by number (None where one number stands for two), and its repeats."""

    timeouts: Bounded[int, dict[str, Any] | None] = field(default_factory=lambda: Bounded(64))
    said: Bounded[tuple[object, ...], None] = field(default_factory=lambda: Bounded(256))


class C10dReader:
    """Reads bare lines of `ProcessGroupNCCL`, and those of launchers that end its processes.

    The rank is that of the label `[rankG]:`, or of the group where that is the group of all, or of the launcher's label;
    `[Rank r]` counts in some group that the line does not name, and is never taken. Where none is stated it is null.
    """

    def __init__(self) -> None:
        self._speakers: Bounded[tuple[str, int | None], _Speaker] = Bounded(_SPEAKERS)
        self._desync = DesyncReport()

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """One of `C10D_KINDS`, else None."""
        if line.level:
            return None
        text = line.text
        if any(part in text for part in _ENDED):
            return "ended"
        if not ("NCCL" in text or "nccl" in text or "ollective" in text or "atchdog" in text or "terminate called" in text):
            return self._desync.take(line, rows) if self._desync.open else None
        if "ProcessGroupNCCL" in text or "[PG " in text or "[Rank " in text or "WorkNCCL" in text:
            label = _label(text, line)
            group = _Group.of(text)
            self._desync.heading(label, group.name if group else None, rows, default=bool(group and group.default))
            kind = self._statement(text, line, label, group, rows)
            if kind is not None:
                return kind
        if self._desync.open or "Timeout at collective" in text or "To our best knowledge" in text:
            kind = self._desync.take(line, rows)
            if kind is not None:
                return kind
        return self._classify(text)

    def finish(self, rows: Rows) -> None:
        """Writes what waited for the name of its group."""
        self._desync.finish(rows)

    def _statement(self, text: str, line: LogLine, label: int | None, group: _Group | None, rows: Rows) -> str | None:
        subject = label
        if group is not None and group.default and _LABEL.search(text) is None:
            subject = group.rank
        speaker = self._speaker(line, subject)
        values: dict[str, Any] = {"subject_rank": subject}
        if group is not None:
            values |= {"group_name": group.name, "group_desc": group.desc}
        if "Watchdog caught collective operation timeout" in text:
            self._timeout(text, line, speaker, values, rows)
            return "abort" if any(part in text for part in _ABORT) else "watchdog"
        if found := _FAILED.search(text):
            self._failed(text, integer(found[1], wide=True), line, speaker, values, rows)
            return "watchdog"
        if _DUMP in text and (last := _last(text)):
            local = "from this local rank" in text
            self._add(line, speaker, values | last | {"status": "timed-out" if local else "running"}, rows)
            return "watchdog"
        if _ABORTED.search(text):
            self._add(line, speaker, values | {"status": "aborted"}, rows)
            return "abort"
        return None

    def _timeout(self, text: str, line: LogLine, speaker: _Speaker, values: dict[str, Any], rows: Rows) -> None:
        work = _work(text)
        if work is None:
            return
        number = work["timed_out"]
        if number is not None:
            known = speaker.timeouts.get(number, work)
            same = known is not None and known["operation"] == work["operation"] and known["in_elements"] == work["in_elements"]
            speaker.timeouts[number] = work if same else None
        self._add(line, speaker, values | work | {"status": "timed-out"}, rows)

    def _failed(self, text: str, number: int | None, line: LogLine, speaker: _Speaker, values: dict[str, Any], rows: Rows) -> None:
        work = speaker.timeouts.get(number) if number is not None else None
        late = work is not None or number in speaker.timeouts or "Timeout at" in text
        stated = {"timed_out": number, "status": "timed-out" if late else "error"}
        self._add(line, speaker, values | (work or {}) | stated | _last(text), rows)

    def _speaker(self, line: LogLine, subject: int | None) -> _Speaker:
        key = ("rank", subject) if subject is not None else ("part", line.part)
        speaker = self._speakers.get(key)
        if speaker is None:
            speaker = self._speakers[key] = _Speaker()
        return speaker

    @staticmethod
    def _add(line: LogLine, speaker: _Speaker, values: dict[str, Any], rows: Rows) -> None:
        # Exceptions repeat the sentence of the watchdog that caused them, up to three times.
        said = tuple(sorted((k, v) for k, v in values.items() if v is not None))
        if values["subject_rank"] is not None and said in speaker.said:
            return
        speaker.said[said] = None
        rows.add(COMM_PROGRESS, line, origin="watchdog", text=bounded(line.text), **values)

    @staticmethod
    def _classify(text: str) -> str | None:
        if any(part in text for part in _ABORT):
            return "abort"
        if any(part in text for part in _ERRORS):
            return "nccl-error"
        if any(part in text for part in _WATCHDOG):
            return "watchdog"
        return "c10d" if "ProcessGroupNCCL" in text else None


@dataclass(frozen=True)
class _Group:
    """The group that a line names, and the speaker's rank in it."""

    name: str
    desc: str | None
    rank: int | None
    default: bool

    @staticmethod
    def of(text: str) -> _Group | None:
        found = _GROUP.search(text)
        if found is None:
            return None
        name, desc = found[1] or found[2], found[3]
        if desc == "undefined":
            desc = None
        # Before groups had descriptions, the first one of a process was the one of all ranks.
        default = desc == "default_pg" or (desc is None and found[2] == "0")
        return _Group(bounded(name, 200), desc, integer(found[4]), default)


def _label(text: str, line: LogLine) -> int | None:
    labels = _LABEL.findall(text, 0, 2000)
    return integer(labels[0]) if labels else line.rank_label


def _last(text: str) -> dict[str, int]:
    """-1 is none so far; of starts it is also what a watchdog says that does not time them, and is left out."""
    out: dict[str, int] = {}
    for what, digits in _numbers(text):
        number = integer(digits, wide=True)
        if number is not None and (number >= 0 or what != "started"):
            out[f"last_{what}"] = number
    return out


def _numbers(text: str) -> Iterator[tuple[str, str]]:
    for found in _LAST.finditer(text):
        yield found[1] or found[3], found[2] or found[4]


def _work(text: str) -> dict[str, Any] | None:
    """The fields of `WorkNCCL(…)`; those that a cut took away are null."""
    found = _WORK.search(text)
    if found is None:
        return None
    inside = found[1] + (found[2] or "")
    fields = {f[1]: f[2] for f in _WORK_FIELD.finditer(inside)}
    ran = _RAN.search(text, found.end() - 1)
    waited = integer(ran[1], wide=True) if ran else None
    return {
        "timed_out": integer(fields.get("SeqNum"), wide=True),
        "operation": ops.c10d_operation(fields["OpType"]) if "OpType" in fields else None,
        "in_elements": integer(fields.get("NumelIn"), wide=True),
        "out_elements": integer(fields.get("NumelOut"), wide=True),
        "waited_ns": waited * 1_000_000 if waited is not None and waited < 9_000_000_000_000 else None,
    }
