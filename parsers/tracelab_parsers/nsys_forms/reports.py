"""The reports of `nsys stats` as CSV: which one a header belongs to, and its rows by names of columns that stay the same."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from tracelab_parsers.nsys_forms.notices import FormNotices
from tracelab_parsers.nsys_forms.text import head_of, lines

__all__ = [
    "API_TRACE",
    "GPU_TRACE",
    "HEADING",
    "KERN_EXEC",
    "PROJECTION",
    "RANGES",
    "Header",
    "Row",
    "column_name",
    "find_header",
    "first_report",
    "group_of",
    "read_rows",
]

GPU_TRACE, KERN_EXEC, PROJECTION, API_TRACE, RANGES = "cuda_gpu_trace", "cuda_kern_exec_trace", "nvtx_gpu_proj_trace", "cuda_api_trace", "nvtx_trace"

_ALIASES = {
    "pid": "pid", "processid": "pid", "tid": "tid", "threadid": "tid", "corrid": "correlation", "correlationid": "correlation",
    "strm": "stream", "stream": "stream", "ctx": "context", "context": "context", "device": "device", "devid": "device", "deviceid": "device",
    "grdx": "gridx", "grdy": "gridy", "grdz": "gridz", "blkx": "blockx", "blky": "blocky", "blkz": "blockz",
    "srcmemkd": "srcmemory", "dstmemkd": "dstmemory", "apidur": "apiduration", "kerneldur": "kernelduration", "queuedur": "queueduration",
    "projectedstart": "projstart", "projectedduration": "projduration", "projstart": "projstart", "projdur": "projduration",
    "origstart": "origstart", "originalstart": "origstart", "origduration": "origduration", "originalduration": "origduration",
    "numgpuops": "operations", "gpuops": "operations", "numgpuoperations": "operations", "gpuopcount": "operations", "gpuopscount": "operations",
    "lvl": "level", "stacklevel": "level",
    "numchild": "children", "childrencount": "children", "rangeid": "range", "parentid": "parent", "parentrangeid": "parent",
}  # fmt: skip
_REQUIRED = {
    KERN_EXEC: {"apistart", "apiduration", "kernelstart", "kernelduration", "kernelname"},
    PROJECTION: {"name", "projstart", "projduration", "operations"},
    GPU_TRACE: {"start", "duration", "device", "name"},
    API_TRACE: {"start", "duration", "name", "result", "tid"},
    RANGES: {"start", "duration", "name", "tid"},
}
"""What each report must have; the first that fits is it."""
_GROUPED = (
    ("cuda_gpu_trace", "gputrace"),
    ("cuda_kern_exec_trace", "kernexectrace"),
    ("nvtx_gpu_proj_trace",),
    ("cuda_api_trace", "cudaapitrace"),
    ("nvtx_pushpop_trace", "nvtxpptrace", "nvtxpushpoptrace"),
    ("nvtx_startend_trace", "nvtxssetrace"),
)
"""How files of one capture end, by report, the one that stands for the others first."""
_FILE = re.compile(
    r"(?P<stem>.*?)_?(?P<report>" + "|".join(n for names in _GROUPED for n in names) + r")(?P<end>\.csv(?:\.xz|\.gz)?)", re.IGNORECASE | re.DOTALL
)
HEADING = 200
"""Lines in which the first header may lie: `nsys stats` prints what it does before."""
_LONGEST_HEADER = 4096
_TIMES = re.compile(r"start|projected", re.IGNORECASE)
_UNIT = re.compile(r"^\s*(?P<name>[^()\[\]]*?)\s*[(\[]\s*(?P<unit>[^()\[\]]*?)\s*[)\]]\s*$")
_NS = {"ns": 1, "nsec": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9}
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_DELIMITERS = ",;\t|"
_PLAIN_DIGITS = 15
_SCIENTIFIC = re.compile(r"[-+]?[\d.]{1,40}(?:[eE][-+]?\d{1,2})?")

Row = Mapping[str, str]


@dataclass(frozen=True)
class Header:
    """Which report a header is of. `columns` names each place (None: not read), `units` are the factors to ns or bytes."""

    report: str
    columns: tuple[str | None, ...]
    units: Mapping[str, int]
    delimiter: str
    duplicates: int = 0

    def number(self, row: Row, column: str) -> int | None:
        """A whole number (ns where it is a time, bytes where a size); None where it is empty. `ValueError` where it is none."""
        text = row.get(column)
        if not text:
            return None
        unit = self.units[column]
        if len(text) <= _PLAIN_DIGITS and text.isascii() and text.isdigit():
            return int(text) * unit
        text = text.strip()
        if not text or text == "-":
            return None
        try:
            value = Decimal(_plain(text, fraction=unit != 1)) * unit
            found = int(value.to_integral_value())
        except (InvalidOperation, OverflowError) as e:
            raise ValueError(text[:40]) from e
        if not -(1 << 63) <= found < 1 << 63:
            raise ValueError(text[:40])
        return found


def _plain(text: str, *, fraction: bool) -> str:
    """A number as programs write it. A lone comma is a decimal one only where there can be a `fraction`."""
    text = text.replace("\u00a0", "").replace("\u202f", "").replace(" ", "").replace("'", "")
    last = max(text.rfind(","), text.rfind("."))
    mark = text[last] if last >= 0 else ""
    if mark == "," and (text.count(",") > 1 or ("." not in text and not fraction)):
        mark = ""
    if mark == "." and text.count(".") > 1:
        mark = ""
    whole, rest = (text[:last], "." + text[last + 1 :]) if mark else (text, "")
    found = whole.replace(",", "").replace(".", "") + rest
    if not _SCIENTIFIC.fullmatch(found):
        raise InvalidOperation
    return found


def first_report(head: str) -> str | None:
    """The report whose header comes first in the first characters of a file."""
    if "\0" in head[:512]:
        return None
    for line in head.splitlines()[:HEADING]:
        header = find_header(line)
        if header is not None:
            return header.report
    return None


def group_of(path: Path) -> list[Path]:
    """The reports of one capture that lie beside a file, by their names, itself among them; the one that stands for all first.

    Only one that holds a report can stand for others.
    """
    mine = _FILE.fullmatch(path.name)
    if mine is None:
        return [path]
    found = []
    for other in path.parent.iterdir():
        m = _FILE.fullmatch(other.name)
        if m is not None and m["stem"] == mine["stem"] and other.is_file():
            order = next(i for i, names in enumerate(_GROUPED) if m["report"].lower() in names)
            found.append((order, other.name, other))
    ordered = [other for _, _, other in sorted(found)]
    first = next((p for p in ordered if first_report(head_of(p)) is not None), path)
    return [first, *(p for p in ordered if p != first)]


def find_header(line: str) -> Header | None:
    """The report whose header a line is."""
    if len(line) > _LONGEST_HEADER or not _TIMES.search(line):
        return None
    for delimiter in sorted(_DELIMITERS, key=lambda d: -line.count(d)):
        try:
            cells = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:
            return None
        if len(cells) < 4:
            continue
        header = _header(cells, delimiter)
        if header is not None:
            return header
    return None


def _header(cells: Sequence[str], delimiter: str) -> Header | None:
    columns: list[str | None] = []
    units: dict[str, int] = {}
    duplicates = 0
    for cell in cells:
        name, factor = column_name(cell)
        if name in columns:
            duplicates += 1
            columns.append(None)
            continue
        columns.append(name)
        units[name] = factor
    known = {c for c in columns if c}
    if "end" in known and "start" in known:
        known.add("duration")
    report = next((r for r, needed in _REQUIRED.items() if needed <= known), None)
    return Header(report, tuple(columns), units, delimiter, duplicates) if report is not None else None


def column_name(cell: str) -> tuple[str, int]:
    """The name of a column whatever its spelling, and the factor from its unit to ns or bytes."""
    m = _UNIT.match(cell)
    text, unit = (m["name"], m["unit"].lower()) if m else (cell, "")
    key = re.sub(r"[\W_]+", "", text.lower())
    name = _ALIASES.get(key, key)
    return name, (_BYTES if name == "bytes" else _NS).get(unit, 1)


class _Tail:
    """Lines up to the end of a report: an empty one, or the heading of the next."""

    def __init__(self, source: Iterator[str | None], notices: FormNotices) -> None:
        self._source, self._notices = source, notices
        self.complete = True

    def __iter__(self) -> Iterator[str]:
        quotes = 0
        for line in self._source:
            if line is None:
                self._notices.add("bad-line")
            elif not line.strip() and quotes % 2 == 0:
                return
            else:
                quotes += line.count('"')
                self.complete = line.endswith("\n")
                yield line.replace("\0", "")


def read_rows(path: Path, notices: FormNotices) -> Iterator[tuple[Header, Row]]:
    """The rows of all reports in a file, with the header of each. Text around them (what `nsys stats` prints) is passed over."""
    source = lines(path)
    for line in source:
        header = find_header(line) if line is not None else None
        if header is None:
            notices.add("bad-line", int(line is None))
            continue
        notices.add("duplicate-column", header.duplicates)
        tail = _Tail(source, notices)
        rows = csv.reader(iter(tail), delimiter=header.delimiter)
        while True:
            try:
                cells = next(rows, None)
            except csv.Error:
                notices.add("bad-line")
                continue
            if cells is None:
                break
            if not tail.complete:
                notices.add("cut-text")
            elif len(cells) != len(header.columns):
                notices.add("ragged-row")
            if len(cells) < len(header.columns):
                continue
            yield header, {c: v for c, v in zip(header.columns, cells, strict=False) if c is not None}
