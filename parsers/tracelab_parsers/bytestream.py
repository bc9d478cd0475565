"""The plain bytes of a file, whether it is gzip or not, and whether it is whole or not.

Compression is told from the content, never from the name. A torn or damaged gzip file gives every byte before the
damage. Memory is bounded by the size of one read, whatever the file claims.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from isal import igzip_lib

__all__ = ["ByteStream", "Damage"]

GZIP_MAGIC = b"\x1f\x8b"
_FEED = 256 << 10
_SLOW_FEED = 16 << 10
_GZIP_WINDOW = 31
_IsalError = cast("type[Exception]", igzip_lib.IsalError)


@dataclass(frozen=True)
class Damage:
    """What is wrong with the compression of a file. `offset` is in the uncompressed bytes.

    `kind`: torn (the file ends inside a gzip member), corrupt (the compressed bytes contradict themselves), garbage
    (bytes after the last member) or bomb (more output than any trace of that size holds).
    """

    kind: str
    offset: int


class ByteStream:
    """Reads `path` forward, decompressed where it is gzip (of one or several members).

    More than `max_ratio` times the compressed size stops the stream once `free_bytes` were given out: real traces
    compress 10 to 20 times, while deflate can reach 1,000. Raises `OSError` where the file cannot be read.
    """

    def __init__(self, path: Path, *, max_ratio: int = 250, free_bytes: int = 1 << 30) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb", buffering=0)
        self._file_size = path.stat().st_size
        head = self._file.read(2)
        self.compressed = head == GZIP_MAGIC
        self._file.seek(0)
        self._limit = max(free_bytes, max_ratio * self._file_size)
        self._inflate = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        self._carry = b""
        self._ended = False
        self._slow: _SlowInflate | None = None
        self.position = 0
        self.file_position = 0
        self.damage: list[Damage] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        if self._slow is not None:
            self._slow.close()

    @property
    def torn(self) -> bool:
        """Whether the bytes end before the file's compression says they should."""
        return any(d.kind != "garbage" for d in self.damage)

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        parts: list[bytes] = []
        missing = size
        while missing > 0 and not self._ended:
            part = self._next(missing)
            parts.append(part)
            missing -= len(part)
            self.position += len(part)
            if self.compressed and self.position > self._limit:
                self._stop("bomb")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _stop(self, kind: str) -> None:
        self.damage.append(Damage(kind, self.position))
        self._ended = True

    def _raw(self, size: int) -> bytes:
        data = self._file.read(size)
        self.file_position += len(data)
        return data

    def _next(self, size: int) -> bytes:
        if not self.compressed:
            data = self._raw(size)
            self._ended = not data
            return data
        if self._slow is not None:
            return self._next_slow(size)
        if self._inflate.eof and not self._next_member():
            return b""
        data, self._carry = self._carry, b""
        if not data and self._inflate.needs_input:
            data = self._raw(_FEED)
            if not data:
                self._stop("torn")
                return b""
        return self._step(data, size)

    def _step(self, data: bytes, size: int) -> bytes:
        try:
            return bytes(self._inflate.decompress(data, max_length=size))
        except _IsalError:
            # The fast decoder gives nothing back of the call that failed; the slow one starts over and gets to the damage.
            self._slow = _SlowInflate(self._path, self.position)
            return b""

    def _next_slow(self, size: int) -> bytes:
        assert self._slow is not None
        data = self._slow.read(size)
        if not data:
            self._stop("corrupt")
        return data

    def _next_member(self) -> bool:
        """Starts the next gzip member; zero bytes between members are padding."""
        rest = self._inflate.unused_data.lstrip(b"\0")
        while len(rest) < len(GZIP_MAGIC):
            more = self._raw(_FEED)
            if not more:
                break
            rest = (rest + more).lstrip(b"\0")
        if not rest.startswith(GZIP_MAGIC):
            if rest:
                self._stop("garbage")
            self._ended = True
            return False
        self._inflate = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        self._carry = rest
        return True


class _SlowInflate:
    """Inflates a damaged gzip file again, and its damaged step byte by byte: every byte before the damage is given out."""

    def __init__(self, path: Path, skip: int) -> None:
        self._file = path.open("rb", buffering=_FEED)
        self._inflate = zlib.decompressobj(_GZIP_WINDOW)
        self._skip = skip
        self._pending = b""
        self._dead = False

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def read(self, size: int) -> bytes:
        """Some bytes after those skipped; none from the damage on."""
        while not self._dead:
            if self._inflate.eof:
                self._pending = self._inflate.unused_data.lstrip(b"\0")
                self._inflate = zlib.decompressobj(_GZIP_WINDOW)
            data = self._pending or self._file.read(_SLOW_FEED)
            if not data:
                break
            out = self._step(data, size)
            drop = min(self._skip, len(out))
            self._skip -= drop
            if len(out) > drop:
                return out[drop:]
        return b""

    def _step(self, data: bytes, size: int) -> bytes:
        before = self._inflate.copy()
        try:
            out = self._inflate.decompress(data, size)
        except zlib.error:
            self._dead = True
            return b"".join(_bytewise(before, data))
        self._pending = self._inflate.unconsumed_tail
        return out


def _bytewise(inflate: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    for i in range(len(data)):
        try:
            yield inflate.decompress(data[i : i + 1])
        except zlib.error:
            return
