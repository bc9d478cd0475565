"""Rows of reports, and the words for what they say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from tracelab.plugins import Emitter
from tracelab.tables import COMM_PROGRESS, LOG_EVENTS, LOG_SETTINGS
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.nccl_log.ops import operation

__all__ = ["DEAD", "Rows", "Subject", "level_of_event", "local_ns", "number", "operation_called", "status_of_error", "status_of_state"]

DEAD = frozenset({"PEER_DEAD", "TIMEOUT_DEAD"})
"""Monitor events that tell of the death of a process."""

_TROUBLE = re.compile(r"DEAD|UNRESPONSIVE|DISCONNECTED|STUCK|TIMEOUT|LOST|FAIL|ERROR")
_TEXT_CHARS = 2_000
_WORST = (("ERROR", "error"), ("INCOMPLETE", "incomplete"), ("MISMATCH", "mismatch"))
# A rank that has no such communicator has left it, or has not joined it yet: it answers, so that it is not missing.
_STATES = {
    "NOCOMM": "mismatch",
    "UNKNOWN": "mismatch",
    "INIT": "running",
    "RUNNING": "ok",
    "FINALIZE": "finalized",
    "ABORT": "aborted",
}


@dataclass(frozen=True)
class Subject:
    """Who a statement is about; None where it does not say. `device` is the number that is unique on the host (NVML), where it differs."""

    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    device: int | None = None


def status_of_error(errors: str) -> str:
    """The worst of the words in the column Errors; ok where there is none."""
    words = errors.split(",")
    return next((status for word, status in _WORST if word in words), "ok")


def status_of_state(state: str) -> str:
    """What a state of a communicator (RUNNING, FINALIZE …) is called in `comm_progress`."""
    return _STATES.get(state, "mismatch")


def level_of_event(name: str) -> str:
    """ERROR for the death of a process, WARN for other trouble, else INFO."""
    return "ERROR" if name in DEAD else "WARN" if _TROUBLE.search(name) else "INFO"


def operation_called(name: str) -> str | None:
    """The operation of a report's word (AllReduce); None for `collective`, which counts all."""
    return None if name == "collective" else operation(name)


def number(digits: str | None, bits: int = 32) -> int | None:
    """The number that `digits` are; None where they are none, or too many."""
    if digits is None or len(digits) > 20 or not (digits.isascii() and digits.isdigit()):
        return None
    n = int(digits)
    return n if n < 1 << bits - 1 else None


def local_ns(stamp: str | None) -> int | None:
    """A printed local time (`2025-12-19 13:07:07`), read as if it were UTC."""
    try:
        return int(datetime.strptime(stamp or "", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()) * 1_000_000_000
    except ValueError:
        return None


class Rows:
    """Where readers put what they find."""

    def __init__(self, emit: Emitter) -> None:
        self._progress = RowBuffer(COMM_PROGRESS, emit)
        self._events = RowBuffer(LOG_EVENTS, emit)
        self._settings = RowBuffer(LOG_SETTINGS, emit)
        self.progress = 0
        self.events = 0
        self.settings = 0

    def state(self, line: int, subject: Subject, status: str, text: str, **values: object) -> None:
        """Adds a row of `comm_progress`."""
        self._progress.add(
            part=0,
            line=line,
            origin="ras",
            subject_rank=subject.rank,
            subject_host=subject.host,
            subject_pid=subject.pid,
            subject_device=subject.device,
            status=status,
            text=text[:_TEXT_CHARS],
            **values,
        )
        self.progress += 1

    def event(self, line: int, level: str, text: str, local: int | None = None) -> None:
        """Adds a row of `log_events`."""
        self._events.add(part=0, line=line, local_ts_ns=local, level=level, kind="ras", text=text[:_TEXT_CHARS])
        self.events += 1

    def setting(self, line: int, name: str, value: str) -> None:
        """Adds a row of `log_settings`."""
        self._settings.add(part=0, line=line, name=name, value=value[:256], origin="stated")
        self.settings += 1

    def flush(self) -> None:
        """Emits what is held."""
        for table in (self._progress, self._events, self._settings):
            table.flush()
