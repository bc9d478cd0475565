"""Records of UFM's telemetry, one per port and moment, from messages (JSON) or rows (CSV)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.switch_moments import moment_in
from tracelab_parsers.counters.switch_transcript import transcript
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.values import decode, mapping, number

__all__ = ["Record", "records", "since_1970_ns"]

_LINE_BYTES = 1 << 20
_SCALES = ((17, 1), (14, 1_000), (11, 1_000_000), (8, 1_000_000_000))
"""Units of a time by its number of digits: ns, µs, ms, s."""


class Record(NamedTuple):
    """`values` as printed; `ts_ns` and `quality` of the message that it stands in, where it states no moment of its own."""

    line: int
    values: Mapping[str, Any]
    ts_ns: int | None
    quality: Literal["collector", "local"] | None


def since_1970_ns(value: object) -> int | None:
    """A moment in s, ms, µs or ns since 1970, whichever makes a moment between 1973 and 2096 of it, as ns."""
    stated = number(value)
    if stated is None or not 0 < stated < Decimal(4 * 10**18):
        return None
    for digits, scale in _SCALES:
        if stated >= 10**digits:
            ns = int(stated * scale)
            return ns if ns < 4 * 10**18 else None
    return None


def records(stream: ByteStream, notices: Notices) -> Iterator[Record]:
    """All records of the file in order; those of messages are numbered from 1, rows have their lines."""
    head = stream.read(4096)
    rest = _Prefixed(head, stream)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        yield from _messages(rest, notices)
    else:
        yield from _rows(rest, notices)


class _Prefixed:
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, stream: ByteStream) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`."""
        if self._head:
            part, self._head = self._head[:size], self._head[size:]
            return part
        return self._stream.read(size)


def _messages(stream: _Prefixed, notices: Notices) -> Iterator[Record]:
    count = 0
    for item in transcript(stream, lambda offset: notices.add("line-too-long", offset)):
        if item.document is None:
            notices.add("unread-lines", None, int(bool(item.text.strip())))
            continue
        value = decode(item.document, notices.add if item.whole else None)
        if value is None:
            notices.add("bad-json" if item.whole else "truncated")
            continue
        for message in value if isinstance(value, list) else [value]:
            body = mapping(message)
            values = body.get("values")
            if not isinstance(values, list):
                notices.add("bad-message")
                continue
            notices.add("changes-only", None, int(body.get("type") == "delta"))
            ts_ns = since_1970_ns(body.get("timestamp"))
            quality: Literal["collector", "local"] | None = "collector"
            if ts_ns is None:
                moment = moment_in(str(body.get("timestamp", "")))
                ts_ns = moment.ns if moment is not None else None
                quality = None if moment is None else "collector" if moment.zoned else "local"
            for fields in values:
                count += 1
                yield Record(count, mapping(fields), ts_ns, quality)


def _rows(stream: _Prefixed, notices: Notices) -> Iterator[Record]:
    columns: list[str] | None = None
    for line in lines(stream, lambda offset: notices.add("line-too-long", offset), _LINE_BYTES):
        text = line.text.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if not text:
            continue
        try:
            cells = [c.strip() for c in next(csv.reader([text.lstrip("#") if columns is None else text], skipinitialspace=True))]
        except (csv.Error, StopIteration):
            notices.add("bad-row", line.offset)
            continue
        if columns is None or (line.whole and cells == columns):  # files of several answers repeat their headings
            columns = cells
        elif not line.whole:
            notices.add("truncated", line.offset)
        elif len(cells) != len(columns):
            notices.add("bad-row", line.offset)
        else:
            yield Record(line.number, dict(zip(columns, cells, strict=True)), None, None)
