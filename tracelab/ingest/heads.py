"""The first bytes of a file, decompressed where it is gzip, without ever reading more than a little of it."""

from __future__ import annotations

import stat
import zlib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["HEAD_BYTES", "Head", "read_head"]

HEAD_BYTES = 64 * 1024


@dataclass(frozen=True)
class Head:
    """The start of a file: `data` decompressed, `raw` as on disk; `problem` says why there is none."""

    size_bytes: int
    data: bytes = b""
    raw: bytes = b""
    problem: str = ""

    @property
    def gzipped(self) -> bool:
        """Whether the file starts with the magic bytes of gzip, whatever its name says."""
        return self.raw[:2] == b"\x1f\x8b"


def read_head(path: Path) -> Head:
    """The head of a regular file. Pipes, devices and sockets are refused unread: opening one could block for ever."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            return Head(0, problem="not a regular file")
        if info.st_size == 0:
            return Head(0, problem="empty file")
        with path.open("rb") as f:
            raw = f.read(HEAD_BYTES)
    except OSError as e:
        return Head(0, problem=e.strerror or type(e).__name__)
    if raw[:2] != b"\x1f\x8b":
        return Head(info.st_size, raw, raw)
    try:
        # max_length bounds the output however well the input compresses
        data = zlib.decompressobj(wbits=31).decompress(raw, HEAD_BYTES)
    except zlib.error as e:
        return Head(info.st_size, b"", raw, problem=f"damaged gzip: {e}")
    return Head(info.st_size, data, raw)
