"""The records of a dump of SONiC's databases, one at a time, whatever its form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.switch_moments import epoch_ns
from tracelab_parsers.counters.switch_transcript import Context, transcript_context
from tracelab_parsers.json_window import Window
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.values import decode, number

__all__ = ["Record", "records"]

_VALUE_BYTES = 64 << 20
_KEY_BYTES = 64 << 10
_LINE_BYTES = 64 << 10
_KEY = re.compile(rb'"([^"\\\n]{1,4096})"\s*:')
_LINE = re.compile(rb"[^\n]*(?:\n|$)")
_SPLIT = re.compile(r"([A-Z][A-Z0-9_]*)(?:[:|](.*))?", re.DOTALL)


class Record(NamedTuple):
    """One key: its table, the rest of the key, its fields (None where it is no hash), and when it was read."""

    number: int
    table: str
    rest: str
    fields: dict[str, Any] | None
    ts_ns: int | None
    context: Context


def records(stream: ByteStream, notices: Notices) -> Iterator[Record]:
    """All records of all documents of the file. Damage is a notice; what follows it in its document is lost."""
    window = Window(stream)
    context, number = Context(), 0
    if window.piece(3)[0] == b"\xef\xbb\xbf":
        window.advance(3)
    while mark := window.peek():
        if mark != b"{":
            line = window.match(_LINE, _LINE_BYTES)
            window.advance(line.end() if line is not None and line.end() else 1)
            text = line.group().decode("utf-8", "replace") if line is not None else ""
            context, output = transcript_context(text, context)
            notices.add("unread-lines", window.offset, int(output))
            continue
        window.advance(1)
        while (step := window.peek()) == b'"' or step == b",":
            if step == b",":
                window.advance(1)
                continue
            offset = window.offset
            key = window.match(_KEY, _KEY_BYTES)
            if key is None:
                break
            window.advance(key.end())
            value, ended = window.take_value(_VALUE_BYTES)
            if not ended:
                notices.add("truncated", offset)
                return
            number += 1
            if value is None:
                notices.add("line-too-long", offset)
                continue
            yield from _expanded(number, key.group(1).decode("utf-8", "replace"), value, context, notices, offset)
        if step == b"}":
            window.advance(1)
            continue
        if not step:
            notices.add("truncated", window.offset)
            return
        notices.add("bad-json", window.offset)
        line = window.match(_LINE, _LINE_BYTES)
        window.advance(line.end() if line is not None and line.end() else 1)


def _expanded(number: int, key: str, value: bytes, context: Context, notices: Notices, offset: int) -> Iterator[Record]:
    split = _SPLIT.fullmatch(key)
    decoded = decode(value, lambda code: notices.add(code, offset))
    if split is None or decoded is None:
        notices.add("bad-json", offset, int(decoded is None))
        yield Record(number, key, "", None, None, context)
        return
    table, rest, ts_ns = split[1], split[2], None
    if isinstance(decoded, dict) and "value" in decoded and "type" in decoded and decoded.keys() <= {"expireat", "ttl", "type", "value", "name", "db"}:
        ts_ns = _moment(decoded)
        decoded = decoded["value"]
    if not isinstance(decoded, dict):
        yield Record(number, table, rest or "", None, ts_ns, context)
    elif rest is None and decoded and all(isinstance(v, dict) for v in decoded.values()):
        for name, fields in decoded.items():
            yield Record(number, table, name, fields, ts_ns, context)
    else:
        yield Record(number, table, rest or "", decoded, ts_ns, context)


def _moment(wrapped: dict[str, Any]) -> int | None:
    """When redis-dump read the key: it writes that moment plus the rest of the key's life, which is -1 ms for keys that live on."""
    life, at = number(wrapped.get("ttl")), number(wrapped.get("expireat"))
    if life is None or at is None:
        return None
    return epoch_ns(at - life if life > 0 else at)
