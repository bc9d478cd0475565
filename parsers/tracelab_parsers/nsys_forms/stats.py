"""The CSV reports of `nsys stats` as the tables that they were made from, as far as they tell.

Reports of one capture lie in several files. Where two of them say the same, the one that says more is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tracelab.errors import TracelabError
from tracelab_parsers.nsys.source import MAX_TEXT
from tracelab_parsers.nsys_forms.columnar import ColumnarSource
from tracelab_parsers.nsys_forms.notices import EXPORT_COMMAND, FormNotices
from tracelab_parsers.nsys_forms.reports import API_TRACE, GPU_TRACE, HEADING, KERN_EXEC, PROJECTION, RANGES, Header, Row, find_header, read_rows
from tracelab_parsers.nsys_forms.text import lines
from tracelab_parsers.nsys_forms.writing import TableWriter

__all__ = ["global_id", "reports_in", "stats_source"]

_PUSH_POP = 59
_VM = 1 << 48
_MOST_NAMES = 100_000
_DEVICE = re.compile(r"\((\d{1,6})\)\s*$")
_DIRECTION = re.compile(r"(HtoD|DtoH|DtoD|PtoP|HtoH|HtoA|AtoH|AtoA|AtoD|DtoA)|(Host|Device|Peer|Array)[- ]to[- ](Host|Device|Peer|Array)", re.IGNORECASE)
_KINDS = {"HtoD": 1, "DtoH": 2, "HtoA": 3, "AtoH": 4, "AtoA": 5, "AtoD": 6, "DtoA": 7, "DtoD": 8, "HtoH": 9, "PtoP": 10}
_UNIFIED = {"HtoD": 11, "DtoH": 12, "DtoD": 13}
_MEMORY = {"pageable": 0, "pinned": 1, "device": 2, "array": 3, "managed": 4, "device static": 5, "managed static": 6}


def global_id(pid: int | None, tid: int = 0) -> int | None:
    """Process and thread in one number, as exports have them."""
    return None if pid is None or not 0 <= pid < 1 << 24 else _VM | pid << 24 | tid & 0xFFFFFF


def reports_in(path: Path) -> set[str]:
    """The reports whose headers a file holds, at its beginning or behind empty lines; none where it cannot be read."""
    found: set[str] = set()
    above = ""
    try:
        for number, line in enumerate(lines(path)):
            if line is not None and (number < HEADING or not above.strip()):
                header = find_header(line)
                if header is not None:
                    found.add(header.report)
            above = line or ""
    except (OSError, EOFError):
        return set()
    return found


@dataclass
class _Tables:
    """Puts rows of reports into tables. `wanted` are the reports that are read; `pids` the processes seen."""

    writer: TableWriter
    notices: FormNotices
    wanted: frozenset[str]
    pids: set[int] = field(default_factory=set)
    rows: int = 0
    _ids: dict[str, int] = field(default_factory=dict)
    _names: int = 0
    _launches: int = 0

    def name(self, text: str) -> int:
        """The id of a text in StringIds."""
        text = text[:MAX_TEXT]
        if text not in self._ids:
            if len(self._ids) >= _MOST_NAMES:
                self._ids.clear()
            self._names += 1
            self._ids[text] = self._names
            self.writer.add("StringIds", {"id": self._ids[text], "value": text}, len(text))
        return self._ids[text]

    def take(self, header: Header, row: Row) -> None:
        """Adds what a row says."""
        if header.report not in self.wanted:
            self.notices.add("redundant-report")
            return
        self.rows += 1
        numbers = _Numbers(header, row, self.notices)
        pid, tid = numbers["pid"], numbers["tid"]
        if pid is not None:
            self.pids.add(pid)
        if header.report == KERN_EXEC:
            self._executed(numbers, row, pid, tid)
        elif header.report == GPU_TRACE:
            self._gpu(numbers, row)
        elif header.report == API_TRACE:
            self._call(numbers, row["name"], "", pid, tid, numbers["correlation"])
        elif header.report == RANGES:
            # ranges of the domain that programs use by default have an empty name before the colon
            text = row["name"].removeprefix(":")[:MAX_TEXT]
            entry = {**numbers.span(""), "eventType": _PUSH_POP, "text": text, "globalTid": global_id(pid, tid or 0)}
            self.writer.add("NVTX_EVENTS", entry, len(text))

    def _call(self, numbers: _Numbers, name: str, prefix: str, pid: int | None, tid: int | None, correlation: int | None) -> None:
        entry = {**numbers.span(prefix), "globalTid": global_id(pid, tid or 0), "correlationId": correlation, "nameId": self.name(name)}
        self.writer.add("CUPTI_ACTIVITY_KIND_RUNTIME", entry)

    def _executed(self, numbers: _Numbers, row: Row, pid: int | None, tid: int | None) -> None:
        """A launch and its kernel: the report joins them itself, and numbers nothing."""
        self._launches += 1
        if API_TRACE not in self.wanted:
            self._call(numbers, row.get("apifunction", ""), "api", pid, tid, self._launches if GPU_TRACE not in self.wanted else None)
        if GPU_TRACE in self.wanted:
            return
        sizes = {axis: value for kind in ("grid", "block") for axis, value in _sizes(kind, row.get(f"{kind}xyz", ""))}
        entry = {**numbers.span("kernel"), "deviceId": numbers["device"], "globalPid": global_id(pid), "demangledName": self.name(row["kernelname"])}
        self.writer.add("CUPTI_ACTIVITY_KIND_KERNEL", entry | sizes | {"correlationId": self._launches if API_TRACE not in self.wanted else None})

    def _gpu(self, numbers: _Numbers, row: Row) -> None:
        name, device = row["name"], _DEVICE.search(row["device"])
        own = numbers["pid"]
        pid = own if own is not None else next(iter(self.pids)) if len(self.pids) == 1 else None
        self.notices.add("no-process-stated", int(pid is None and len(self.pids) > 1))
        entry: dict[str, Any] = {**numbers.span(""), "deviceId": int(device[1]) if device else numbers.quietly("device"), "globalPid": global_id(pid)}
        entry |= {"correlationId": numbers["correlation"], "streamId": numbers["stream"], "contextId": numbers["context"]}
        lowered = name.lower()
        if lowered.startswith("[") and "memset" in lowered:
            entry |= {"bytes": numbers["bytes"], "memKind": _memory(row, "srcmemory", "dstmemory")}
            self.writer.add("CUPTI_ACTIVITY_KIND_MEMSET", entry)
        elif lowered.startswith("[") and ("memcpy" in lowered or "unified memory" in lowered):
            entry |= {"bytes": numbers["bytes"], "copyKind": _copy_kind(name), "srcKind": _memory(row, "srcmemory"), "dstKind": _memory(row, "dstmemory")}
            self.writer.add("CUPTI_ACTIVITY_KIND_MEMCPY", entry)
        else:
            sizes = {f"{kind}{axis.upper()}": numbers[f"{kind}{axis}"] for kind in ("grid", "block") for axis in "xyz"}
            self.writer.add("CUPTI_ACTIVITY_KIND_KERNEL", entry | sizes | {"demangledName": self.name(name)})


@dataclass
class _Numbers:
    """The numbers of a row; what should be one and is none is counted and missing."""

    header: Header
    row: Row
    notices: FormNotices

    def __getitem__(self, column: str) -> int | None:
        try:
            return self.header.number(self.row, column)
        except ValueError:
            self.notices.add("bad-number")
            return None

    def quietly(self, column: str) -> int | None:
        """As `[]`, for columns that may hold something else."""
        try:
            return self.header.number(self.row, column)
        except ValueError:
            return None

    def span(self, prefix: str) -> dict[str, int | None]:
        """Start and end in ns."""
        start, length = self[f"{prefix}start"], self[f"{prefix}duration"]
        end = start + length if start is not None and length is not None else self[f"{prefix}end"]
        return {"start": start, "end": end}


def _sizes(kind: str, text: str) -> Iterator[tuple[str, int]]:
    found = re.findall(r"\d{1,10}", text)
    if len(found) == len("XYZ"):
        yield from ((f"{kind}{axis}", int(n)) for axis, n in zip("XYZ", found, strict=True))


def _copy_kind(name: str) -> int | None:
    m = _DIRECTION.search(name)
    if m is None:
        return None
    direction = m[1] or f"{m[2][0].upper()}to{m[3][0].upper()}"
    direction = next((d for d in _KINDS if d.lower() == direction.lower()), "")
    return (_UNIFIED if "unified" in name.lower() else _KINDS).get(direction)


def _memory(row: Row, *columns: str) -> int | None:
    texts = [row.get(c, "").strip().lower() for c in columns]
    return next((_MEMORY.get(t, -1) for t in texts if t and t != "-"), None)


@contextmanager
def stats_source(paths: Sequence[Path], notices: FormNotices, progress: Callable[[int], None] | None = None) -> Iterator[tuple[ColumnarSource, bool]]:
    """The tables of all reports of one capture, and whether one of their files is cut. Adds to `notices` which kinds of reports lack.

    Raises `TracelabError` where there is no report in them.
    """
    held = {path: reports_in(path) for path in paths}
    there = set().union(*held.values())
    notices.add("unknown-report", sum(not reports for reports in held.values()))
    if not there - {PROJECTION}:
        raise TracelabError(
            "none of the reports of nsys stats that carry times begins in the file", hint=f"export the capture itself: {EXPORT_COMMAND} report.nsys-rep"
        )
    wanted = there - {PROJECTION}
    notices.add("no-gpu-report", int(not wanted & {GPU_TRACE, KERN_EXEC}))
    if {GPU_TRACE, API_TRACE} <= wanted:
        wanted -= {KERN_EXEC}
    elif GPU_TRACE in wanted:
        # launches are in none of the reports, which says nothing of the capture
        notices.silence("orphan-gpu-events")
    with TemporaryDirectory(prefix="tracelab-") as folder:
        writer = TableWriter(Path(folder))
        tables = _Tables(writer, notices, frozenset(wanted))
        # GPU work is the last: the other reports tell whose it is
        for gpu, path in ((gpu, path) for gpu in (False, True) for path in paths if any((r == GPU_TRACE) == gpu for r in held[path])):
            again = gpu and held[path] != {GPU_TRACE}
            for header, row in read_rows(path, FormNotices() if again else notices):
                if (header.report == GPU_TRACE) == gpu:
                    tables.take(header, row)
            if progress is not None:
                progress(sum(p.stat().st_size for p in paths) // 2)
        writer.close()
        yield ColumnarSource(writer.files, notices), "cut-text" in notices or "bad-line" in notices
