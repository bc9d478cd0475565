"""The notices that parsers of counters share."""

from __future__ import annotations

from collections.abc import Iterable

from tracelab.plugins import EventCount, Notice, SourceInfo
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.notices import NoticeText as _Text

__all__ = ["TEXTS", "described", "no_number"]

TEXTS: dict[str, _Text] = {
    "bad-number": _Text("warning", "counters whose value is no number were kept as missing"),
    "no-counters": _Text("warning", "nothing in the file is a counter or an interface", "check whether the tool failed when the file was written"),
    "unread-lines": _Text("info", "lines that belong to no known output were passed over"),
    "line-too-long": _Text("warning", "lines longer than any that the tool prints were left out", "check whether the file is what its name says"),
    "truncated": _Text("warning", "the file ends in the middle of a record", "the collector was stopped while it wrote, or the copy is incomplete"),
    "bad-json": _Text("warning", "parts of the file are no valid JSON and were left out"),
    "unreadable-value": _Text("warning", "files of single counters could not be read", "check the permissions of the copied tree"),
}


def no_number(count: int = 1) -> Notice:
    """That numbers were too large for a float in their unit."""
    return Notice("bad-number", "warning", "counters whose value is no number were kept as missing", count=count)


def described(counts: Iterable[EventCount], notices: Notices, *, torn: bool) -> SourceInfo:
    """A file of machines, with what it holds any of; `torn`: its compression ends too early."""
    return SourceInfo([], event_counts=[c for c in counts if c.count], truncated=torn or "truncated" in notices)
