"""One pass over a file of LLDP neighbours."""

from __future__ import annotations

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.switch_transcript import Item, transcript
from tracelab_parsers.counters.switch_values import SWITCH_TEXTS
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.values import decode
from tracelab_parsers.topology.lldp_json import json_neighbours
from tracelab_parsers.topology.lldp_rows import LldpRows
from tracelab_parsers.topology.lldp_text import TextNeighbours

__all__ = ["Reading"]


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(SWITCH_TEXTS)
        self._rows = LldpRows(emit)
        self._text = TextNeighbours()
        self._records = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            for item in transcript(stream, lambda offset: notices.add("line-too-long", offset)):
                if item.document is not None:
                    self._document(item, item.document)
                    continue
                for heard in self._text.line(item):
                    self._rows.add(heard)
            for heard in self._text.close():
                self._rows.add(heard)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            return self._finish(torn=stream.torn)

    def _document(self, item: Item, document: bytes) -> None:
        value = decode(document, self._notices.add if item.whole else None)
        if value is None:
            self._notices.add("bad-json" if item.whole else "truncated")
            return
        found = json_neighbours(item.line, item.context, value)
        self._notices.add("unknown-output", None, int(found is None))
        for heard in found or ():
            self._records += 1
            heard.line = self._records
            self._rows.add(heard)

    def _finish(self, *, torn: bool) -> SourceInfo:
        self._rows.flush()
        self._notices.add("unread-lines", None, max(self._text.unread, 0))
        self._notices.add("no-neighbours", 0, int(not self._rows.cables))
        self._notices.emit(self._emit)
        counts = {"cables": self._rows.cables, "interfaces": self._rows.interfaces}
        events = [EventCount(kind, n, stored=True) for kind, n in counts.items() if n]
        return SourceInfo([], event_counts=events, truncated=torn or "truncated" in self._notices)
