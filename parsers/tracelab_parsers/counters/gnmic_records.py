"""The objects of a JSON file one by one: of one array, of many, one per line or printed over many lines, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tracelab_parsers.json_window import Readable, Window
from tracelab_parsers.nccl_json.values import decode

__all__ = ["Record", "head_records", "records"]

RECORD_BYTES = 32 << 20
_LINE_BYTES = 64 << 10
_WRAPPER = re.compile(rb'\{\s*"(?:metrics|notification)"\s*:\s*(?=\[)')
_OUTSIDE = re.compile(rb"\[[\[\s]*|[\],}\s]+")
_NOTHING = re.compile(rb"(?!)")
_AFTER = b" \t\r,"
_END_OF_LINE = re.compile(rb"\n")
_FEW = 8
_BOM = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """An object, its number from 1, and where its line or text begins."""

    number: int
    offset: int
    value: dict[str, Any]


def records(stream: Readable, report: Callable[[str, int], None], limit: int = RECORD_BYTES) -> Iterator[Record]:
    """The objects of `stream` in order.

    `report` gets a code and an offset for: truncated, bad-record (no valid JSON), oversized-record (more than `limit` bytes),
    unread-lines (text that is no JSON), and repairs. Where every record has its own line, a broken one costs no other.
    """
    window = Window(stream)
    number = depth = 0
    if window.piece(len(_BOM))[0] == _BOM:
        window.advance(len(_BOM))
    while mark := window.peek():
        if mark not in b"{[],}":
            report("unread-lines", window.offset)
            window.find(_END_OF_LINE, 1)
            continue
        offset = window.offset
        found = None if mark in b"],}" else _value(window, mark, report, limit)
        if found is None:
            depth += _brackets(window)
            continue
        for value in found:
            if isinstance(value, dict):
                number += 1
                yield Record(number, offset, value)
            elif value is not None:
                report("bad-record", offset)
    if depth > 0:
        report("truncated", window.offset)


def _value(window: Window, mark: bytes, report: Callable[[str, int], None], limit: int) -> list[Any] | None:
    """Consumes the value at the window: the items of a list on a line of its own, or the one object; None where a longer list begins."""
    offset = window.offset
    found, size = _own_line(window, lambda code: report(code, offset))
    if size:
        window.advance(size)
        if found is None:
            report("bad-record" if window.peek() else "truncated", offset)
    elif mark == b"[" or window.match(_WRAPPER, 256) is not None:
        return None
    else:
        text, ended = window.take_value(limit)
        if not ended:
            report("truncated", offset)
            window.find(_NOTHING, 1)
        else:
            found = _spread(text, offset, report)
    return found if isinstance(found, list) else [found]


def _brackets(window: Window) -> int:
    """Consumes what opens or closes lists, and tells how many more were opened."""
    m = window.match(_WRAPPER, 256) or window.match(_OUTSIDE, 4096)
    text = m[0] if m is not None else b"["
    window.advance(len(text))
    return text.count(b"[") - text.count(b"]")


def _own_line(window: Window, repaired: Callable[[str], None]) -> tuple[Any, int]:
    """The value that the line holds, as far as it can be `repaired`, and its length; 0 where the line is no record of its own."""
    data, start, stop, last = window.view(_LINE_BYTES)
    end = data.find(b"\n", start, stop)
    begins = data[start - 1 : start] == b"\n" if start else window.offset in (0, len(_BOM))
    if not begins or (end < 0 and not last):
        return None, 0
    end = stop if end < 0 else end
    following, tail = data[end + 1 : end + 2], data[max(start, end - 8) : end].rstrip(_AFTER)[-1:]
    # A line that does not close what it opens is a broken record only where the next one begins another.
    closes = tail == b"]" if data[start : start + 1] == b"[" else tail == b"}" or following == b"{"
    if following not in (b"{", b"[", b"]", b"") or end - start < 2 or not closes or _WRAPPER.match(data, start, end) is not None:
        return None, 0
    line = data[start:end].rstrip(_AFTER)
    return decode(line, repaired), end - start


def _spread(text: bytes | None, offset: int, report: Callable[[str, int], None]) -> Any:
    """The value of a text that may span lines."""
    if text is None:
        report("oversized-record", offset)
        return None
    value = decode(text, lambda code: report(code, offset))
    if value is None:
        report("bad-record", offset)
    return value


class _Head:
    """The beginning of a file as a stream."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        out, self._data = self._data[:size], self._data[size:]
        return out


def head_records(head: bytes) -> list[dict[str, Any]]:
    """The first whole objects of the beginning of a file, at most eight; none where it does not begin as JSON does."""
    text = head.removeprefix(_BOM).lstrip()
    if text[:1] not in (b"{", b"["):
        return []
    found: list[dict[str, Any]] = []
    for record in records(_Head(text), lambda _code, _offset: None):
        found.append(record.value)
        if len(found) == _FEW:
            break
    return found
