"""One pass over a file of Telegraf: line protocol, its JSON output, or Cisco's telemetry before Telegraf took it apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.gnmic_reading import TELEMETRY_TEXTS
from tracelab_parsers.counters.gnmic_records import records
from tracelab_parsers.counters.notices import described
from tracelab_parsers.counters.telegraf_lines import Point, UnendedError, held, point
from tracelab_parsers.counters.telegraf_mdt import points_of_message
from tracelab_parsers.counters.telegraf_points import Points
from tracelab_parsers.counters.writing import Samples
from tracelab_parsers.nccl_json.lines import LINE_BYTES, Line, lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.values import whole

__all__ = ["Reading"]

_BOM = b"\xef\xbb\xbf"
_LONGEST_TEXT = 64 << 10


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(TELEMETRY_TEXTS)
        self._samples = Samples(emit)
        self._points = Points(self._samples, self._notices)

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices, points = self._notices, self._points
        json = self._is_json()
        with ByteStream(self._source.path) as stream:
            for number, found in self._of_json(stream) if json else self._of_lines(stream):
                points.add(number, found)
                if not points.points % 1000:
                    self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        self._samples.close()
        notices.add("no-counters", 0, int(not self._samples.count))
        notices.emit(self._emit)
        counts = [
            EventCount("numbers", self._samples.count, stored=True),
            EventCount("texts", points.texts, stored=False),
            EventCount("other points", points.others, stored=False),
        ]
        return described(counts, notices, torn=torn)

    def _is_json(self) -> bool:
        with ByteStream(self._source.path) as stream:
            return stream.read(_LONGEST_TEXT).removeprefix(_BOM).lstrip()[:1] in (b"{", b"[")

    def _of_json(self, stream: ByteStream) -> Iterator[tuple[int, Point]]:
        for record in records(stream, self._notices.add):
            found = _of_record(record.value)
            self._notices.add("unknown-record", record.offset, int(not found))
            for one in found:
                yield record.number, one

    def _of_lines(self, stream: ByteStream) -> Iterator[tuple[int, Point]]:
        """The points of lines; a quoted text may hold line ends, so that a line without its end waits for the next."""
        waiting: Line | None = None
        digits = 0
        for line in lines(stream, lambda offset: self._notices.add("line-too-long", offset), LINE_BYTES):
            if waiting is not None:
                joined = Line(waiting.number, waiting.offset, waiting.text + b"\n" + line.text, line.whole)
                found = self._point(joined) if b'"' in line.text else None
                if isinstance(found, Point):
                    waiting = None
                    yield joined.number, found
                    continue
                if found is None and len(joined.text) < _LONGEST_TEXT and not isinstance(self._point(line), Point):
                    waiting = joined
                    continue
                self._notices.add("bad-line", waiting.offset)
                waiting = None
            found = self._point(line)
            if isinstance(found, Point):
                size = len(str(found.stamp)) if found.stamp is not None else 0
                if not line.whole and size < digits:
                    self._notices.add("truncated", line.offset)  # a moment that is cut is another moment
                    continue
                digits = size
                yield line.number, found
            elif found is None:
                waiting = line
            elif not line.whole:
                self._notices.add("truncated", line.offset)
            elif found:
                self._notices.add("bad-line", line.offset)
        if waiting is not None:
            self._notices.add("truncated", waiting.offset)

    @staticmethod
    def _point(line: Line) -> Point | bool | None:
        """The point of a line; None where a quoted text goes on, else whether there is anything that is none."""
        text = line.text.removeprefix(_BOM).decode("utf-8", "replace").strip(" \t\r\n").removeprefix("> ")
        if not text or text.startswith("#"):
            return False
        try:
            return point(text)
        except UnendedError:
            return None
        except ValueError:
            return True


def _of_record(record: dict[str, Any]) -> list[Point]:
    """The points of a JSON object; none where it is of another kind."""
    if "dataGpbkv" in record and "encodingPath" in record:
        return points_of_message(record)
    tags, fields = record.get("tags"), record.get("fields")
    if not isinstance(fields, dict) or not isinstance(record.get("name"), str):
        return []
    named = {k: v for k, v in tags.items() if isinstance(v, str)} if isinstance(tags, dict) else {}
    return [Point(record["name"], named, {k: held(v) for k, v in fields.items()}, whole(record.get("timestamp")))]
