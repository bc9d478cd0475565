"""A log as blocks of whole lines: colours, NUL bytes and carriage returns removed, memory bounded whatever the lines are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_log.notices import Notices

__all__ = ["Block", "blocks"]

BLOCK_BYTES = 2 << 20
"""As much as stays in a processor's cache with the columns made of it: more is slower."""
MAX_LINE = 1 << 20
"""A line without an end is given out in pieces of this size."""

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")


@dataclass(frozen=True)
class Block:
    """Lines of the file in a row, and where they begin in the uncompressed file."""

    data: bytes
    offset: int


def blocks(stream: ByteStream, notices: Notices, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """All lines of `stream`, every block but the last ends with a line end or is a piece of an overlong line."""
    carry, offset = b"", 0
    while True:
        data = stream.read(size)
        raw = carry + data if carry else data
        if not data:
            break
        end = raw.rfind(b"\n") + 1
        if not end and len(raw) < MAX_LINE:
            carry = raw
            continue
        if not end:
            notices.add("long-line", offset)
            end = len(raw)
        carry = raw[end:]
        yield Block(_cleaned(raw[:end], offset, notices), offset)
        offset += end
    if raw:
        notices.add("last-line-cut", offset)
        yield Block(_cleaned(raw, offset, notices), offset)


def _cleaned(raw: bytes, offset: int, notices: Notices) -> bytes:
    hole = raw.find(b"\0")
    if hole >= 0:
        notices.add("null-bytes", offset + hole, raw.count(b"\0"))
        raw = raw.replace(b"\0", b"")
    if b"\x1b" in raw:
        raw = _ANSI.sub(b"", raw)
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n")
    return raw
