"""Text files of strangers, plain or compressed, as lines of bounded length."""

from __future__ import annotations

import codecs
import io
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from tracelab_parsers.bytestream import ByteStream

__all__ = ["MAX_LINE", "XZ_MAGIC", "LongLine", "decoded_head", "head_of", "lines"]

XZ_MAGIC = b"\xfd7zXZ\x00"
MAX_LINE = 1 << 20
"""Characters of a line; a longer one is given as None."""
LongLine = Callable[[Iterator[str]], None]
"""Takes a line that is too long, in pieces; what it leaves of them is passed over."""
_XZ_MEMORY = 256 << 20
"""A header may ask for a dictionary of 4 GiB."""
_BLOCK = 1 << 16
_FREE_BYTES = 256 << 20
_MAX_RATIO = 250
"""Lines of numbers compress twenty times, xz can reach 7,000."""
_EVERY = 4096


class _Bytes(Protocol):
    """The decompressed bytes of a file; `torn` tells whether they end before they should."""

    @property
    def torn(self) -> bool: ...

    @property
    def file_position(self) -> int: ...

    def read(self, size: int) -> bytes: ...

    def close(self) -> None: ...


class _XzStream:
    """The decompressed bytes of an xz file (of one or several streams) in bounded memory, up to where it is cut or damaged."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb", buffering=0)
        self._limit = max(_FREE_BYTES, _MAX_RATIO * path.stat().st_size)
        self._xz = _decompressor()
        self._rest = b""
        self._given = 0
        self._ended = self.torn = False
        self.file_position = 0

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def read(self, size: int) -> bytes:
        """Some of the next bytes, none at the end."""
        data = b""
        while not data and not self._ended:
            if self._xz.eof and not self._next_stream():
                break
            feed = self._rest if self._rest or not self._xz.needs_input else self._raw()
            self._rest = b""
            if not feed and self._xz.needs_input:
                self._ended = self.torn = True
                break
            try:
                data = self._xz.decompress(feed, size)
            except lzma.LZMAError:
                self._ended = self.torn = True
        self._given += len(data)
        if self._given > self._limit:
            self._ended = self.torn = True
        return data

    def _raw(self) -> bytes:
        data = self._file.read(_BLOCK)
        self.file_position += len(data)
        return data

    def _next_stream(self) -> bool:
        """Starts the stream behind one that ended; zero bytes between them are padding."""
        rest = self._xz.unused_data.lstrip(b"\0")
        while not rest and (more := self._raw()):
            rest = more.lstrip(b"\0")
        self._ended = not rest
        self._rest, self._xz = rest, _decompressor()
        return not self._ended


def _decompressor() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


class _Raw(io.RawIOBase):
    """What the classes of `io` can read text from."""

    def __init__(self, source: _Bytes) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._source.read(len(view))
        view[: len(data)] = data
        return len(data)


def decoded_head(head: bytes) -> str:
    """The first bytes of a file as text, decompressed where they are xz."""
    if head.startswith(XZ_MAGIC):
        try:
            head = _decompressor().decompress(head, _BLOCK)
        except lzma.LZMAError:
            return ""
    return head.decode(_encoding(head), "replace")


def head_of(path: Path) -> str:
    """The first 64 KiB of a file as text; nothing where it cannot be read."""
    try:
        source = _opened(path)
    except OSError:
        return ""
    try:
        return decoded_head(source.read(_BLOCK))
    except OSError:
        return ""
    finally:
        source.close()


def _encoding(head: bytes) -> str:
    """UTF-8, or UTF-16 where the file begins so: what the shell of Windows writes."""
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def _opened(path: Path) -> _Bytes:
    with path.open("rb") as file:
        magic = file.read(len(XZ_MAGIC))
    return _XzStream(path) if magic == XZ_MAGIC else ByteStream(path, max_ratio=_MAX_RATIO, free_bytes=_FREE_BYTES)


def lines(path: Path, progress: Callable[[int], None] | None = None, long: LongLine | None = None) -> Iterator[str | None]:
    """The lines of a file with their ends; None for one that is too long, or lost to a damage of the compression (the last).

    A line that is too long goes to `long` instead, where there is one. Raises `OSError` where the file cannot be read.
    """
    source = _opened(path)
    try:
        reader = io.BufferedReader(_Raw(source), _BLOCK)
        text = io.TextIOWrapper(reader, _encoding(reader.peek(2)[:2]), "replace", newline="")
        number = 0
        while line := text.readline(MAX_LINE):
            number += 1
            if progress is not None and number % _EVERY == 0:
                progress(source.file_position)
            if len(line) < MAX_LINE or line.endswith("\n"):
                yield line
                continue
            pieces = _pieces(line, text)
            if long is not None:
                long(pieces)
            for _ in pieces:  # up to the end of the line
                pass
            if long is None:
                yield None
        if source.torn:
            yield None
    finally:
        source.close()


def _pieces(first: str, text: io.TextIOWrapper) -> Iterator[str]:
    """A line that is too long."""
    yield first
    while piece := text.readline(MAX_LINE):
        yield piece
        if piece.endswith("\n"):
            return
