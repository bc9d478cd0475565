"""The lines of a file of any size, whatever they hold, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tracelab_parsers.json_window import Readable

__all__ = ["LINE_BYTES", "Line", "lines"]

LINE_BYTES = 1 << 20
"""A record of a collective with the trace of 64 channels has 20 kB."""
_BLOCK = 256 << 10


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end. `number` counts from 1, `offset` is its first byte, `whole` tells whether an end of line follows it."""

    number: int
    offset: int
    text: bytes
    whole: bool


def lines(stream: Readable, too_long: Callable[[int], None], limit: int = LINE_BYTES) -> Iterator[Line]:
    """The lines of `stream` in order; `too_long` gets the offset of each that has more than `limit` bytes and is left out."""
    number, offset, start, skipping = 1, 0, b"", False
    while block := stream.read(_BLOCK):
        pieces = (start + block).split(b"\n")
        start = pieces.pop()
        for piece in pieces:
            if skipping:
                skipping = False
            elif len(piece) > limit:
                too_long(offset)
            else:
                yield Line(number, offset, piece, whole=True)
            number += 1
            offset += len(piece) + 1
        if len(start) > limit or skipping:
            if not skipping:
                too_long(offset)
            skipping = True
            offset += len(start)
            start = b""
    if start:
        yield Line(number, offset, start, whole=False)
