"""Reads one file of reports from its bytes to its rows, and describes it."""

from __future__ import annotations

import re

from tracelab.errors import TracelabError
from tracelab.plugins import Emitter, EventCount, Part, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_ras.json_report import JsonReports, Pieces
from tracelab_parsers.nccl_ras.notices import TEXTS
from tracelab_parsers.nccl_ras.rows import Rows
from tracelab_parsers.nccl_ras.text_report import TextReports

__all__ = ["Reading"]

_LINE_BYTES = 64 << 20
_RESTART = re.compile(r"\s*(?:[NR]CCL version \S+ compiled with|Job summary\s*$|Communicators\.\.\.)")
_BOM = "\ufeff"


class Reading:
    """One pass over one file."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(TEXTS)
        self._rows = Rows(emit)
        self._texts = TextReports(self._rows, self._notices)
        self._documents = JsonReports(self._rows, self._notices)
        self._pieces = Pieces(self._notices)
        self._documented = False

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read, `TracelabError` where it holds no report."""
        notices, unended, number, read = self._notices, False, 0, 0
        with ByteStream(self._source.path) as stream:
            for line in lines(stream, lambda offset: notices.add("long-line", offset), _LINE_BYTES):
                number = line.number
                self._take(number, line.text.decode("utf-8", "replace").removeprefix(_BOM).rstrip("\r\0"), line.offset)
                if stream.file_position != read:
                    read = stream.file_position
                    self._emit.progress(read)
                unended = not line.whole
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        if self._pieces.open or (unended and not self._documented):
            torn = True
            notices.add("truncated")
        elif unended:
            notices.add("last-line-cut")
        if self._pieces.open:
            self._documents.cut(number, self._pieces.drop())
        self._texts.finish()
        if not (self._texts.reports or self._documents.reports or self._rows.settings):
            raise TracelabError(
                f"{self._source.name}: holds no report of NCCL's RAS subsystem", hint="remove it from the directory, or name another parser for it"
            )
        self._rows.flush()
        notices.emit(self._emit)
        return self._info(torn)

    def _take(self, number: int, text: str, offset: int) -> None:
        if self._pieces.open and (_RESTART.match(text) or self._pieces.begins(text)):
            self._notices.add("truncated", offset)
            self._documents.cut(number, self._pieces.drop())
        if self._pieces.open or self._pieces.begins(text):
            for piece in self._pieces.take(number, text):
                self._documents.take(piece)
            self._documented = True
        else:
            self._documented = False
            self._texts.take(number, text, offset)

    def _info(self, torn: bool) -> SourceInfo:
        rows = self._rows
        counts = [EventCount("rank state", rows.progress, stored=True), EventCount("message", rows.events, stored=True)]
        version = self._documents.version or self._texts.version
        # A report speaks for the whole job: it is no rank's.
        part = Part(world_size=self._texts.world_size)
        return SourceInfo([part], {"nccl_version": version} if version is not None else {}, [c for c in counts if c.count], torn)
