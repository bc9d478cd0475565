"""The notices of the parser of NCCL's example profiler: what each code means and what to do about it."""

from __future__ import annotations

from tracelab_parsers.nccl_json.notices import NoticeText as _Text

__all__ = ["TEXTS"]

TEXTS: dict[str, _Text] = {
    "relative-times": _Text("info", "times count from the start of the plugin: operations have lengths, but nothing says when they ran"),
    "truncated": _Text("warning", "the dump does not end as it should; every event before was kept", "the process was killed, or the copy is cut"),
    "unquoted-values": _Text("info", "values that JSON wants in quotes stand without (NCCL 2.28 and 2.29 write them so); they were read as text"),
    "bad-line": _Text("warning", "lines are no events and were dropped", "the plugin writes one event a line; a dump that was formatted anew cannot be read"),
    "bad-event": _Text("warning", "events lack a category or a phase, or state them wrongly, and were dropped"),
    "bad-time": _Text("warning", "times that are no usable numbers, and ends before starts, were read as missing"),
    "oversized-line": _Text("warning", "single lines of more than 1 MiB were skipped"),
    "no-events": _Text("warning", "the dump holds no events", "NCCL_PROFILE_EVENT_MASK says which events are recorded; 0 records none"),
    "no-operations": _Text("warning", "the dump holds no operations", "record them: NCCL_PROFILE_EVENT_MASK must include collectives and point to point"),
    "unmatched-end": _Text("info", "events end that did not begin: their beginning is lost"),
    "unfinished": _Text("info", "operations had not ended when the dump was written; their length is unknown"),
    "no-lengths": _Text(
        "info",
        "operations without events of the GPU or the proxy: when they ended is unknown, the dump says only when they were handed over",
        "record those events too (NCCL_PROFILE_EVENT_MASK)",
    ),
    "unknown-operation": _Text("info", "operations of unknown names were kept without their bytes"),
    "no-communicator": _Text("info", "operations do not tell their communicator"),
    "too-many-open": _Text("warning", "more than 10,000 events were open at once; the oldest were taken as unfinished"),
    "too-many-processes": _Text("warning", "events of more than 4096 processes in one file were dropped"),
    "too-many-communicators": _Text("warning", "operations of more than 65,536 communicators were kept without theirs"),
}
