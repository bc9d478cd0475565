"""The first bytes of a file, decompressed where it is gzip, without ever reading more than a little of it."""

from __future__ import annotations

import contextlib
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
    data, problem = _inflate(raw)
    return Head(info.st_size, data, raw, problem)


def _inflate(raw: bytes) -> tuple[bytes, str]:
    """The first `HEAD_BYTES` of all members, up to a tear or damage; and what the damage is."""
    out, rest = b"", raw
    while rest[:2] == b"\x1f\x8b" and len(out) < HEAD_BYTES:
        member = zlib.decompressobj(wbits=31)
        try:
            # max_length bounds the output however well the input compresses
            out += member.decompress(rest, HEAD_BYTES - len(out))
        except zlib.error as e:
            return out + _before_damage(rest, HEAD_BYTES - len(out)), f"damaged gzip: {e}"
        rest = member.unused_data if member.eof else b""
    return out, ""


def _before_damage(member: bytes, most: int) -> bytes:
    """What a damaged member gives before its damage, byte by byte: a call that fails gives nothing."""
    out, inflate = b"", zlib.decompressobj(wbits=31)
    with contextlib.suppress(zlib.error):
        for at in range(len(member)):
            out += inflate.decompress(member[at : at + 1], max(1, most - len(out)))
            if len(out) >= most:
                break
    return out[:most]
