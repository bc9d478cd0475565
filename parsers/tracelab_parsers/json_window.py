"""A window that moves forward over a byte stream: what is behind it is gone, what is ahead is read when asked for."""

from __future__ import annotations

import re
from typing import Protocol

__all__ = ["Readable", "Window"]

_NOT_SPACE = re.compile(rb"[^ \t\r\n]")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{},]', re.DOTALL)
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class Readable(Protocol):
    """Anything that gives the next bytes of a file, fewer than asked for only at the end."""

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes."""


class Window:
    """The unread part of `stream`, as far as it is in memory. `refill` bytes are read at a time at least."""

    def __init__(self, stream: Readable, refill: int = 1 << 20) -> None:
        self._stream = stream
        self._refill = refill
        self._data = b""
        self._pos = 0
        self._base = 0
        self._eof = False

    @property
    def offset(self) -> int:
        """Position in the uncompressed file."""
        return self._base + self._pos

    def _more(self, size: int) -> bool:
        """Reads `size` bytes more; whether there were any."""
        if self._eof:
            return False
        size = max(size, self._refill)
        new = self._stream.read(size)
        self._eof = len(new) < size
        self._base += self._pos
        self._data = self._data[self._pos :] + new if self._pos < len(self._data) else new
        self._pos = 0
        return bool(new)

    def view(self, size: int) -> tuple[bytes, int, int, bool]:
        """The next `size` bytes, not consumed and not copied: a buffer, where they begin and end in it, and whether the file ends with them."""
        missing = size - (len(self._data) - self._pos)
        if missing > 0:
            self._more(missing)
        return self._data, self._pos, min(self._pos + size, len(self._data)), self._eof and len(self._data) - self._pos <= size

    def piece(self, size: int) -> tuple[bytes, bool]:
        """A copy of the next `size` bytes, not consumed, and whether the file ends with them."""
        data, start, stop, last = self.view(size)
        return data[start:stop], last

    def advance(self, size: int) -> None:
        """Consumes `size` bytes."""
        self._pos = min(self._pos + size, len(self._data))

    def peek(self) -> bytes:
        """The next byte that is no white space, not consumed; empty at the end of the file."""
        while True:
            m = _NOT_SPACE.search(self._data, self._pos)
            if m is not None:
                self._pos = m.start()
                return m.group()
            self._pos = len(self._data)
            if not self._more(self._refill):
                return b""

    def match(self, pattern: re.Pattern[bytes], reach: int) -> re.Match[bytes] | None:
        """`pattern` at the current position, looking `reach` bytes ahead; not consumed."""
        data, _ = self.piece(reach)
        return pattern.match(data)

    def find(self, pattern: re.Pattern[bytes], overlap: int = 4096) -> bool:
        """Moves to the next match of `pattern` (none longer than `overlap`); False, and to the end, where there is none."""
        while True:
            m = pattern.search(self._data, self._pos)
            if m is not None:
                self._pos = m.start()
                return True
            self._pos = max(self._pos, len(self._data) - overlap)
            if not self._more(self._refill):
                self._pos = len(self._data)
                return False

    def skip_value(self) -> bool:
        """Consumes a JSON value by its brackets, in bounded memory; False where the file ends inside."""
        return self.take_value(0)[1]

    def take_value(self, limit: int) -> tuple[bytes | None, bool]:
        """Consumes a JSON value by its brackets.

        Gives its text, or None where it is longer than `limit` bytes, and whether it ended before the file did.
        """
        depth, scan, kept = 0, self._pos, True
        while True:
            depth, scan, done = _advance(self._data, scan, depth)
            if done:
                text = self._data[self._pos : scan] if kept else None
                self._pos = scan
                return text, True
            kept = kept and len(self._data) - self._pos <= limit
            if kept:
                behind = scan - self._pos
                more = self._more(max(self._refill, len(self._data) - self._pos))
                scan = self._pos + behind
            else:
                self._pos = scan
                more = self._skip_string() if scan < len(self._data) else self._more(self._refill)
                scan = self._pos
            if not more:
                return None, False

    def _skip_string(self) -> bool:
        """Consumes a string that may be larger than memory; False where the file ends inside."""
        self._pos += 1
        while True:
            m = _IN_STRING.match(self._data, self._pos)
            self._pos = m.end() if m is not None else self._pos
            if self._data[self._pos : self._pos + 1] == b'"':
                self._pos += 1
                return True
            # What is left is nothing, or a backslash whose second byte has not been read.
            if not self._more(self._refill):
                return False


def _advance(data: bytes, start: int, depth: int) -> tuple[int, int, bool]:
    """Follows the brackets from `start`: depth, position, and whether the value ends there.

    Where it does not, the position is the end of the data, or the quote of a string that goes beyond it.
    """
    for m in _TOKEN.finditer(data, start):
        token = m.group()
        if token == b'"':
            return depth, m.start(), False
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            if depth == 0:
                return depth, m.start(), True
            depth -= 1
            if depth == 0:
                return depth, m.end(), True
        elif token == b"," and depth == 0:
            return depth, m.start(), True
    return depth, len(data), False
