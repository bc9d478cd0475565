"""Counted notices: one per code and file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tracelab.plugins import Emitter, Notice, Severity
from tracelab_parsers.bytestream import Damage

__all__ = ["DAMAGE", "NoticeText", "Notices"]

_MOST = (1 << 53) - 1


class NoticeText(NamedTuple):
    """What a code means, and what to do about it."""

    severity: Severity
    text: str
    hint: str = ""


_Text = NoticeText
_CUT_HINT = "the process was killed while it wrote, or the copy is incomplete: copy it again"

DAMAGE: dict[str, NoticeText] = {
    "gzip-torn": _Text("warning", "the compressed file ends before its gzip stream does", _CUT_HINT),
    "gzip-corrupt": _Text("warning", "the compressed file is damaged; what comes after the damage is lost", "copy the file again from where it was written"),
    "gzip-trailing-garbage": _Text("info", "bytes after the end of the gzip data were ignored"),
    "decompression-limit": _Text(
        "error", "the file expands far more than any log does; the rest was not read", "check where the file comes from; expand it by hand if it is genuine"
    ),
    "invalid-utf8": _Text("info", "text that is no valid UTF-8 was kept with the bad bytes replaced"),
    "control-character": _Text("info", "records hold raw control characters inside text; they were kept"),
    "non-finite-number": _Text("info", "NaN or infinite numbers were read as missing"),
    "bad-escape": _Text("info", "records hold stray backslashes; they were read as plain backslashes"),
}
"""Damage that any file can have."""

_OF_COMPRESSION = {"torn": "gzip-torn", "corrupt": "gzip-corrupt", "garbage": "gzip-trailing-garbage", "bomb": "decompression-limit"}


class Notices:
    """Counts notices by code and keeps the offset, or the line, of the first. Only codes of `texts` and `DAMAGE` may be added."""

    def __init__(self, texts: Mapping[str, NoticeText]) -> None:
        self._texts = {**DAMAGE, **texts}
        self._counts: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        self._lines: dict[str, int] = {}

    def add(self, code: str, offset: int | None = None, count: int = 1, *, line: int | None = None) -> None:
        """Counts `count` more cases of `code`."""
        if count <= 0:
            return
        self._counts[code] = min(self._counts.get(code, 0) + count, _MOST)
        if offset is not None:
            self._offsets.setdefault(code, int(offset))
        if line is not None:
            self._lines.setdefault(code, line)

    def damage(self, damage: Iterable[Damage]) -> None:
        """Adds what was wrong with the compression."""
        for d in damage:
            self.add(_OF_COMPRESSION[d.kind], d.offset)

    def __contains__(self, code: str) -> bool:
        return code in self._counts

    def all(self) -> list[Notice]:
        """One notice per code, in the order of their codes."""
        found = []
        for code, count in sorted(self._counts.items()):
            text = self._texts[code]
            first = f"; the first in line {self._lines[code]}" if code in self._lines else ""
            found.append(Notice(code, text.severity, text.text + first, text.hint, count, self._offsets.get(code)))
        return found

    def emit(self, emit: Emitter) -> None:
        """Gives out all of them."""
        for notice in self.all():
            emit.notice(notice)
