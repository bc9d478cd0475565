"""The notices that parsers of counters share."""

from __future__ import annotations

from tracelab.plugins import Notice
from tracelab_parsers.nccl_json.notices import NoticeText as _Text

__all__ = ["TEXTS", "no_number"]

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
