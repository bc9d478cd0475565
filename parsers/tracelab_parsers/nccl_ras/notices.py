"""The notices of the RAS parser: what each code means and what to do about it."""

from __future__ import annotations

from tracelab_parsers.nccl_json.notices import NoticeText

__all__ = ["TEXTS"]

_Text = NoticeText
_CUT_HINT = "ncclras was ended while it printed, or the copy is incomplete: ask again, with a longer timeout (-t) for a job in trouble"

TEXTS: dict[str, NoticeText] = {
    "truncated": _Text("warning", "the file ends inside a report; what was complete before that was kept", _CUT_HINT),
    "last-line-cut": _Text("info", "the end of line that every report ends with is missing", "the copy may be incomplete"),
    "cut-report": _Text("warning", "reports end before their warnings, or lack details that their tables announce", _CUT_HINT),
    "unknown-lines": _Text("info", "lines that are no part of a report were passed over; the position is that of the first"),
    "long-line": _Text("warning", "lines longer than 64 MiB were skipped"),
    "oversized-record": _Text("warning", "records of more than 64 MiB of JSON were skipped", "give the report as text, which groups ranks that agree"),
    "missing-comma": _Text("info", "records lack a comma, as NCCL 2.28 writes them for missing ranks; they were read as meant"),
    "bad-record": _Text("warning", "records are no valid JSON, or no part of a report, and were dropped"),
    "bad-number": _Text("warning", "ranks without a usable number were dropped"),
    "too-many-ranks": _Text("warning", "lists of more than a million ranks were cut"),
}
