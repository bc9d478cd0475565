"""JSON lines of `nsys export -t jsonlines` (and `-t json`): one event or one row of a table per line.

{"data": ["[Unknown]", "cudaLaunchKernel_v7000", …]}            texts by their place
{"id": "17", "value": "ncclDevKernel_…"}                         a text (--separate-strings)
{"Type": 59, "NvtxEvent": {"Timestamp": "…", "Text": "…", …}}    a range
{"Type": 48, "TraceProcessEvent": {"startNs": "…", …}}           a call of the CUDA API
{"Type": 80, "CudaEvent": {"startNs": "…", "kernel": {…}, …}}    GPU work
{"CUPTI_ACTIVITY_KIND_KERNEL": {"start": 1, …}}                  a row of a table
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tracelab_parsers.nsys.source import MAX_TEXT
from tracelab_parsers.nsys_forms.notices import FormNotices
from tracelab_parsers.nsys_forms.text import lines
from tracelab_parsers.nsys_forms.writing import TableWriter

__all__ = ["LINE", "looks_like_export", "write_tables"]

MAX_LINE = 256 << 20
"""All texts of a capture may lie in one line."""
LINE = re.compile(
    rb'^\s*\{\s*(?:"Type"\s*:\s*-?\d+\s*,\s*)?"(?:NvtxEvent|TraceProcessEvent|CudaEvent|CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS\w*|TARGET_INFO_\w+|META_DATA_\w+)"\s*:\s*[{\[]',
    re.MULTILINE,
)
_TEXTS_FIRST = re.compile(rb'\s*\{\s*"data"\s*:\s*\[\s*"')
_SEEN = 64 << 20
_TABLE = re.compile(r"[A-Z][A-Z0-9_]{2,99}(?:_V\d{1,4})?|StringIds|ThreadNames|ProcessStreams")
_NVTX = {
    "timestamp": "start", "endtimestamp": "end", "type": "eventType", "text": "text", "textid": "textId", "globaltid": "globalTid",
    "endglobaltid": "endGlobalTid", "domainid": "domainId", "jsontext": "jsonText", "jsontextid": "jsonTextId", "rangeid": "rangeId",
}  # fmt: skip
_COMMON = {
    "startns": "start", "endns": "end", "correlationid": "correlationId", "globalpid": "globalPid", "globaltid": "globalTid", "streamid": "streamId",
    "deviceid": "deviceId", "contextid": "contextId", "eventclass": "eventClass", "name": "nameId", "graphnodeid": "graphNodeId", "graphid": "graphId",
}  # fmt: skip
_KERNEL = ("shortName", "demangledName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "graphNodeId", "graphId")
_COPY = ("copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "graphNodeId")
_SIZES = {"sizebytes": "bytes", "bytes": "bytes"}
_KERNEL = ("shortName", "demangledName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "graphNodeId", "graphId")
_COPY = ("copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "graphNodeId")
_SIZES = {"sizebytes": "bytes", "bytes": "bytes"}
_DETAILS = {
    "kernel": ("CUPTI_ACTIVITY_KIND_KERNEL", {n.lower(): n for n in _KERNEL}),
    "memcpy": ("CUPTI_ACTIVITY_KIND_MEMCPY", _SIZES | {n.lower(): n for n in _COPY}),
    "memset": ("CUPTI_ACTIVITY_KIND_MEMSET", {**_SIZES, "memkind": "memKind", "memorykind": "memKind", "graphnodeid": "graphNodeId"}),
    "sync": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"synctype": "syncType"}),
}
_API_CLASSES = frozenset({None, 0, 1, "0", "1"})


def looks_like_export(path: Path, head: bytes) -> bool:
    """Whether lines of an export are in the first bytes, or behind the texts that may fill them."""
    if LINE.search(head):
        return True
    if not _TEXTS_FIRST.match(head) or path.suffix.lower() not in {".jsonl", ".json", ".jsonlines", ".ndjson", ".gz"}:
        return False
    read = 0
    try:
        for line in lines(path, limit=_SEEN):
            if line is None:
                return False
            read += len(line)
            if LINE.match(line.encode("utf-8", "replace")):
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
    for line in lines(path, progress, limit=MAX_LINE):
        if line is None:
            notices.add("bad-line")
            continue
        if not line.strip():
            continue
        try:
            entry = decoder.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            notices.add("bad-line" if line.endswith("\n") else "cut-text")
            continue
        rows = _rows(entry, writer) if isinstance(entry, dict) else 0
        read += rows
        notices.add("unknown-lines", int(not rows))
    return read


def _rows(entry: Mapping[str, Any], writer: TableWriter) -> int:
    """Adds what a line says; returns the number of rows."""
    texts = entry.get("data")
    if isinstance(texts, list):
        for number, text in enumerate(texts):
            if isinstance(text, str):
                writer.add("StringIds", {"id": number, "value": text[:MAX_TEXT]}, min(len(text), MAX_TEXT))
        return len(texts)
    if entry.keys() == {"id", "value"}:
        return _add(writer, "StringIds", entry)
    for key, value in entry.items():
        if key == "NvtxEvent" and isinstance(value, dict):
            return _add(writer, "NVTX_EVENTS", {"eventType": entry.get("Type")} | _named(value, _NVTX))
        if key == "TraceProcessEvent" and isinstance(value, dict):
            row = _named(value, _COMMON)
            return _add(writer, "CUPTI_ACTIVITY_KIND_RUNTIME", row) if _scalar(row.get("eventClass")) in _API_CLASSES else 0
        if key == "CudaEvent" and isinstance(value, dict):
            return _gpu(value, writer)
    if len(entry) == 1:
        ((table, value),) = entry.items()
        if _TABLE.fullmatch(table):
            return sum(_add(writer, table, row) for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict))
    return 0


def _scalar(value: Any) -> Any:
    return value if isinstance(value, (str, int)) else None


def _gpu(value: Mapping[str, Any], writer: TableWriter) -> int:
    row = _named(value, _COMMON)
    for key, (table, names) in _DETAILS.items():
        details = value.get(key)
        if isinstance(details, dict):
            return _add(writer, table, row | _named(details, names))
    return 0


def _named(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The fields that are known, by the names of their columns."""
    return {names[k.lower()]: v for k, v in value.items() if k.lower() in names}


def _add(writer: TableWriter, table: str, row: Mapping[str, Any]) -> int:
    kept = {k[:100]: v[:MAX_TEXT] if isinstance(v, str) else v for k, v in row.items() if not isinstance(v, (dict, list))}
    writer.add(table, kept, sum(len(v) for v in kept.values() if isinstance(v, str)))
    return 1
