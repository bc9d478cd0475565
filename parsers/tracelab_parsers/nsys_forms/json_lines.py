"""JSON lines of `nsys export -t jsonlines` (and of `-t json` before it): a row of a table or an event per line.

{"CUPTI_ACTIVITY_KIND_KERNEL": {"start": 1, …}}                  a row, the tables being those of all other exports
{"table": "CUPTI_ACTIVITY_KIND_KERNEL", "start": 1, …}           a row
{"Type": 59, "NvtxEvent": {"Timestamp": "…", "Text": "…", …}}    a range, as versions before 2025.6 wrote it
{"Type": 48, "TraceProcessEvent": {"startNs": "…", …}}           a call of the CUDA API
{"Type": 79, "CudaEvent": {"startNs": "…", "kernel": {…}, …}}    GPU work
{"data": ["[Unknown]", "cudaLaunchKernel_v7000", …]}             texts by their place
{"type": "String", "id": "17", "value": "ncclDevKernel_…"}       a text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tracelab_parsers.nsys.source import MAX_TEXT
from tracelab_parsers.nsys_forms.notices import FormNotices
from tracelab_parsers.nsys_forms.text import MAX_LINE, lines
from tracelab_parsers.nsys_forms.writing import TableWriter

__all__ = ["looks_like_export", "write_tables"]

_KNOWN = r"(?:CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS\w*|NVTX_PAYLOAD_\w+|TARGET_INFO_\w+|META_DATA_(?:EXPORT|CAPTURE))"
_LINE = re.compile(
    r'\s*\{\s*(?:"Type"\s*:\s*-?\d+\s*,\s*)?"(?:(?:NvtxEvent|TraceProcessEvent|CudaEvent)"\s*:\s*\{'
    rf'|{_KNOWN}"\s*:\s*[{{\[]|(?:table|Table|tableName|table_name)"\s*:\s*"{_KNOWN}")'
)
_TEXTS = re.compile(r'\s*\{\s*"data"\s*:\s*\[(?=\s*["\]])')
_TEXT = re.compile(r'\s*,?\s*"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SEEN = 64 << 20
"""Characters that may lie before the first line that tells what the file is."""
_SUFFIXES = frozenset({".jsonl", ".json", ".jsonlines", ".ndjson", ".gz", ".xz"})
_TABLE = re.compile(r"[A-Z][A-Z0-9_]{2,99}(?:_V\d{1,4})?|StringIds|ThreadNames|ProcessStreams")
_NAMED_BY = ("table", "Table", "tableName", "table_name")


def _spelled(names: Mapping[str, str]) -> dict[str, str]:
    """Columns by the names of fields, which begin with a small or a capital letter."""
    return {**names, **{n[0].upper() + n[1:]: column for n, column in names.items()}}


def _same(names: str) -> dict[str, str]:
    return dict(zip(names.split(), names.split(), strict=True))


_NVTX = _spelled(
    {"timestamp": "start", "endTimestamp": "end", "type": "eventType"} | _same("text textId globalTid endGlobalTid domainId jsonText jsonTextId rangeId")
)
_COMMON = _spelled(
    {"startNs": "start", "endNs": "end", "name": "nameId"}
    | _same("correlationId globalPid globalTid streamId deviceId contextId eventClass graphNodeId graphId")
)
_KERNEL = _same("shortName demangledName gridX gridY gridZ blockX blockY blockZ graphNodeId graphId")
_COPY = _same("bytes copyKind srcKind dstKind srcDeviceId dstDeviceId graphNodeId")
_DETAILS = {
    "kernel": ("CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL),
    "memcpy": ("CUPTI_ACTIVITY_KIND_MEMCPY", _COPY | {"sizebytes": "bytes", "sizeBytes": "bytes"}),
    "memset": ("CUPTI_ACTIVITY_KIND_MEMSET", _same("bytes memKind graphNodeId") | {"sizebytes": "bytes", "sizeBytes": "bytes", "memoryKind": "memKind"}),
    "sync": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", _same("syncType")),
}
_WAITS = {
    "SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE": 1, "SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT": 2, "SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE": 3,
    "SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE": 4,
}  # fmt: skip
_API_CLASSES = frozenset({None, 0, 1, "0", "1"})


def looks_like_export(path: Path, head: str) -> bool:
    """Whether lines of an export are in the first characters, or behind the texts that may fill them."""
    if any(_LINE.match(line) for line in head.split("\n", 200)):
        return True
    if not _TEXTS.match(head) or path.suffix.lower() not in _SUFFIXES:
        return False
    read = 0

    def count(pieces: Iterator[str]) -> None:
        nonlocal read
        for piece in pieces:
            read += len(piece)

    try:
        for line in lines(path, long=count):
            read += len(line or "")
            if line is not None and _LINE.match(line):
                return True
            if read > _SEEN:
                return False
    except OSError:
        return False
    return False


def write_tables(path: Path, writer: TableWriter, notices: FormNotices, progress: Callable[[int], None] | None = None) -> int:
    """Writes every line as a row of the table that it is of; returns how many were read."""
    decoder = msgspec.json.Decoder()
    read = 0

    def long(pieces: Iterator[str]) -> None:
        nonlocal read
        read += _long_line(pieces, writer, notices)

    for line in lines(path, progress, long):
        if line is None:
            notices.add("cut-text")
            continue
        if not line.strip():
            continue
        try:
            entry = decoder.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            notices.add("bad-line" if line.endswith("\n") else "cut-text")
            continue
        rows = _rows(entry, writer, len(line)) if isinstance(entry, dict) else 0
        read += rows
        notices.add("unknown-lines", int(not rows))
    return read


def _long_line(pieces: Iterator[str], writer: TableWriter, notices: FormNotices) -> int:
    """Writes the texts of a line that holds all of them. No other line is longer than some thousand characters."""
    left = next(pieces)
    start = _TEXTS.match(left)
    if start is None:
        notices.add("bad-line")
        return 0
    number, at, whole = 0, start.end(), left.endswith("\n")
    while True:
        while m := _TEXT.match(left, at):
            _add_text(writer, number, m[1])
            number, at = number + 1, m.end()
        left, at = left[at:].lstrip(), 0
        if left.startswith("]"):
            return number
        more = next(pieces, None) if left[:1] in ("", ",", '"') and len(left) <= MAX_LINE else None
        if more is None:
            notices.add("bad-line" if whole or len(left) > MAX_LINE else "cut-text")
            return number
        whole = more.endswith("\n")
        left += more


def _add_text(writer: TableWriter, number: int, raw: str) -> None:
    """A text of a long line, as JSON writes it."""
    try:
        text = msgspec.json.decode(f'"{raw}"', type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        text = raw
    writer.add("StringIds", {"id": number, "value": text[:MAX_TEXT]}, min(len(text), MAX_TEXT))


def _rows(entry: dict[str, Any], writer: TableWriter, size: int) -> int:
    """Adds what a line says; returns the number of rows."""
    texts = entry.get("data")
    if isinstance(texts, list):
        for number, text in enumerate(texts):
            if isinstance(text, str):
                writer.add("StringIds", {"id": number, "value": text[:MAX_TEXT]}, min(len(text), MAX_TEXT))
        return len(texts)
    if {"id", "value"} <= entry.keys() <= {"id", "value", "type"} and entry.get("type", "String") == "String":
        return _add(writer, "StringIds", {"id": entry["id"], "value": entry["value"]}, size)
    for key, value in entry.items():
        if key == "NvtxEvent" and isinstance(value, dict):
            return _add(writer, "NVTX_EVENTS", {"eventType": entry.get("Type")} | _named(value, _NVTX), size)
        if key == "TraceProcessEvent" and isinstance(value, dict):
            row = _named(value, _COMMON)
            return _add(writer, "CUPTI_ACTIVITY_KIND_RUNTIME", row, size) if _scalar(row.get("eventClass")) in _API_CLASSES else 0
        if key == "CudaEvent" and isinstance(value, dict):
            return _gpu(value, writer, size)
    return _table_rows(entry, writer, size)


def _table_rows(entry: dict[str, Any], writer: TableWriter, size: int) -> int:
    """Adds the rows of a line that names their table."""
    name = next((n for n in _NAMED_BY if isinstance(entry.get(n), str)), None)
    if name is not None:
        table = entry.pop(name)
        values = [v for v in entry.values() if isinstance(v, (dict, list))]
        value: Any = values[0] if len(entry) == len(values) == 1 else entry
    elif len(entry) == 1:
        ((table, value),) = entry.items()
    else:
        return 0
    if not _TABLE.fullmatch(table):
        return 0
    return sum(_add(writer, table, row, size) for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict))


def _scalar(value: Any) -> Any:
    return value if isinstance(value, (str, int)) else None


def _gpu(value: Mapping[str, Any], writer: TableWriter, size: int) -> int:
    row = _named(value, _COMMON)
    for key, (table, names) in _DETAILS.items():
        details = value.get(key)
        if isinstance(details, dict):
            row |= _named(details, names)
            if key == "sync":
                # this form calls the device of every wait 0
                row.pop("deviceId", None)
                row["syncType"] = _WAITS.get(str(row.get("syncType")), row.get("syncType"))
            return _add(writer, table, row, size)
    return 0


def _named(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The fields that are known, by the names of their columns."""
    return {names[k]: v for k, v in value.items() if k in names}


def _add(writer: TableWriter, table: str, row: Mapping[str, Any], size: int) -> int:
    """Adds a row of a line of `size` characters."""
    if size > MAX_TEXT:
        row = {k[:100]: v[:MAX_TEXT] if isinstance(v, str) else v for k, v in row.items() if not isinstance(v, (dict, list))}
        size = sum(len(v) for v in row.values() if isinstance(v, str))
    writer.add(table, row, size)
    return 1
