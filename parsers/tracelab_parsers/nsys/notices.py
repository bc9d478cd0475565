"""The notices of the Nsight Systems parsers: what each code means and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tracelab.plugins import Notice, Severity

__all__ = ["Notices"]


class _Text(NamedTuple):
    severity: Severity
    text: str
    hint: str = ""


_EXPORT_AGAIN = "export the report again: nsys export -t sqlite --include-blobs=true --include-json=true report.nsys-rep"
_LISTED = 6

_TEXTS: dict[str, _Text] = {
    "truncated": _Text("warning", "the database ends before its last page; the rows before that were kept", _EXPORT_AGAIN),
    "table-damaged": _Text("warning", "tables are damaged; the rows before the damage were kept", _EXPORT_AGAIN),
    "table-refused": _Text("info", "tables that are no plain tables (views, virtual tables) were not read"),
    "wal-beside": _Text("warning", "a write-ahead log lies beside the database and could not be read: its rows are missing", _EXPORT_AGAIN),
    "journal-beside": _Text("warning", "a rollback journal lies beside the database: it was being written, or its writer died", _EXPORT_AGAIN),
    "bad-value": _Text("warning", "values are of another type than their column and were read as missing", _EXPORT_AGAIN),
    "bad-time": _Text("warning", "rows without a usable start were dropped", _EXPORT_AGAIN),
    "inverted-time": _Text("info", "rows that end before they start have length 0 and are marked as clamped"),
    "open-range": _Text("info", "rows without an end are marked as clamped; open ranges last to the end of the capture, where the export states it"),
    "time-before-session": _Text("info", "rows begin before the session's start; their times are kept"),
    "no-time-base": _Text(
        "warning",
        "times count from an unknown moment: the export states no start of the session",
        "clocks of different files can only be compared through their collectives; export with the table TARGET_INFO_SESSION_START_TIME",
    ),
    "shifted-times": _Text("info", "the export shifted all times by a stated amount (--ts-shift); they are used as they are"),
    "unnamed": _Text("info", "rows whose name is missing are called (unnamed)", "export the report again, with the table StringIds, which holds the names"),
    "no-kernels": _Text(
        "warning", "the export holds no kernels: what the GPU did is unknown", "record with nsys profile -t cuda,nvtx, and let the capture window cover a step"
    ),
    "no-kernels-but-launches": _Text(
        "warning",
        "kernels were launched but no GPU event was recorded: the process was killed before it flushed, CUPTI failed, or the export left the tables out",
        "do not take the GPU for idle: export all tables, or record again and let the process end by itself",
    ),
    "no-runtime-calls": _Text("info", "the export holds no calls of the CUDA API: launches are unknown", "record with nsys profile -t cuda"),
    "no-ranges": _Text("info", "the export holds no NVTX ranges: no steps, no sizes of collectives", "record with nsys profile -t cuda,nvtx"),
    "graphs-hide-kernels": _Text(
        "warning",
        "CUDA graphs were recorded as a whole: their kernels, collectives among them, are not in the capture",
        "record with nsys profile --cuda-graph-trace=node",
    ),
    "no-payloads": _Text(
        "info",
        "NCCL's ranges carry no payload: sizes and communicators of collectives are unknown",
        "export with --include-blobs=true --include-json=true (both are off by default)",
    ),
    "bad-payload": _Text("info", "payloads of NCCL's ranges do not fit their description and were left out"),
    "group-without-end": _Text("info", "NCCL calls in groups whose end is not in the capture stand alone", "let the capture window cover whole steps"),
    "ambiguous-group": _Text("info", "kernels were launched from a group of calls on several communicators: which one each is of is unknown"),
    "orphan-gpu-events": _Text("info", "GPU events whose launch is not in the capture", "work launched before the capture began; its host side is unknown"),
    "shared-correlation-zero": _Text("info", "GPU events have no correlation and cannot be joined with their launches"),
    "other-processes": _Text("info", "host rows of processes without GPU work were left out"),
    "too-many-processes": _Text(
        "warning",
        "the file holds more processes than can be told apart; rows of the rest were dropped",
        "record fewer processes per report: one nsys profile per rank",
    ),
    "events-dropped": _Text("warning", "the profiler reports that it lost events", "record a shorter window, or fewer kinds of events"),
    "no-rank": _Text("info", "the export states no rank", 'name the file after it (rank3.sqlite), or state it in tracelab.toml: [files."…"] rank = 3'),
}


@dataclass
class Notices:
    """Counts notices by code; `about` names what the cases are about (tables)."""

    _counts: dict[str, int] = field(default_factory=dict)
    _about: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, code: str, count: int = 1, about: str | None = None) -> None:
        """Counts `count` more cases of `code`."""
        if not count:
            return
        self._counts[code] = self._counts.get(code, 0) + int(count)
        if about is not None:
            self._about.setdefault(code, {})[about] = None

    def __contains__(self, code: str) -> bool:
        return code in self._counts

    def all(self) -> list[Notice]:
        """One notice per code, in the order of their codes."""
        return [Notice(code, t.severity, t.text + self._names(code), t.hint, n) for code, n in sorted(self._counts.items()) for t in [_TEXTS[code]]]

    def _names(self, code: str) -> str:
        names = sorted(self._about.get(code, ()))
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return f" ({', '.join(names[:_LISTED])}{more})" if names else ""
