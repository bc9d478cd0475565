"""Text files of strangers, plain or compressed, as lines of bounded length."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

__all__ = ["MAX_LINE", "XZ_MAGIC", "decoded_head", "encoding_of", "lines", "opened"]

XZ_MAGIC = b"\xfd7zXZ\x00"
MAX_LINE = 1 << 20
"""Characters of a line that are read unless more are asked for; a longer one is given as None."""
_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MEMORY = 256 << 20
"""A header may ask for a dictionary of 4 GiB."""
_BLOCK = 1 << 16


class _XzFile(io.RawIOBase):
    """The decompressed bytes of an xz file in bounded memory; ends where the file is cut or damaged, which `cut` tells."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        self.cut = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = b""
        try:
            while not data and not self._xz.eof:
                data = self._xz.decompress(self._file.read(_BLOCK) if self._xz.needs_input else b"", len(view))
                if not data and self._xz.needs_input and not self._file.peek(1):  # type: ignore[attr-defined]
                    self.cut = not self._xz.eof
                    break
        except lzma.LZMAError:
            self.cut = True
        view[: len(data)] = data
        return len(data)


class _GzipFile(io.RawIOBase):
    """As `_XzFile` for gzip."""

    def __init__(self, file: IO[bytes]) -> None:
        self._gzip = gzip.GzipFile(fileobj=file)
        self.cut = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            data = self._gzip.read1(len(view))
        except (EOFError, OSError, zlib.error):
            self.cut, data = True, b""
        view[: len(data)] = data
        return len(data)


def opened(file: IO[bytes], magic: bytes) -> tuple[IO[bytes], Callable[[], bool]]:
    """A buffered reader of the decompressed bytes, and what tells afterwards whether the file was cut or damaged."""
    if magic.startswith((XZ_MAGIC, _GZIP_MAGIC)):
        raw = _XzFile(file) if magic.startswith(XZ_MAGIC) else _GzipFile(file)
        return io.BufferedReader(raw, _BLOCK), lambda: raw.cut
    return file, lambda: False


def decoded_head(head: bytes) -> str:
    """The first bytes of a file as text, decompressed where they are xz."""
    if head.startswith(XZ_MAGIC):
        try:
            head = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY).decompress(head, _BLOCK)
        except lzma.LZMAError:
            return ""
    return head.decode(encoding_of(head), "replace")


def encoding_of(head: bytes) -> str:
    """UTF-8, or UTF-16 where the file begins so: what the shell of Windows writes."""
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def lines(path: Path, progress: Callable[[int], None] | None = None, limit: int = MAX_LINE) -> Iterator[str | None]:
    """The lines of a file with their ends; None for one that is too long, or lost to a damage of the compression (the last)."""
    with path.open("rb") as file:
        magic = file.peek(len(XZ_MAGIC))[: len(XZ_MAGIC)]
        reader, cut = opened(file, magic)
        start = reader.peek(2)[:2]  # type: ignore[attr-defined]
        text = io.TextIOWrapper(reader, encoding_of(start), "replace", newline="")
        number = 0
        while line := text.readline(limit):
            number += 1
            if progress is not None and number % 4096 == 0:
                progress(file.tell())
            if len(line) == limit and not line.endswith("\n"):
                while rest := text.readline(_BLOCK):
                    if rest.endswith("\n"):
                        break
                yield None
            else:
                yield line
        if cut():
            yield None
        text.detach()
