"""One pass over answers of Prometheus' API, series by series, in memory that is bounded by the largest one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.bulk import Bulk
from tracelab_parsers.counters.notices import described
from tracelab_parsers.counters.prometheus_series import TEXTS, Fabric, SeriesKeys, adjusted
from tracelab_parsers.counters.prometheus_values import Pairs, pairs_of, separate_columns
from tracelab_parsers.json_window import Window
from tracelab_parsers.nccl_json.notices import Notices

__all__ = ["MARK", "Reading"]

MARK = re.compile(rb'\{\s*"metric"\s*:\s*\{')
"""Where a series begins. No text of a label looks like it: quotes inside texts have a backslash before them."""
_BYTE = re.compile(r"trailing characters \(byte (\d+)\)")
_CHUNK = 4 << 20
_NOTHING = msgspec.Raw(b"")
_LARGEST = 256 << 20
_BETWEEN = 64 << 10
_FAILED = re.compile(rb'"status"\s*:\s*"error"|"errorType"\s*:')
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BARE = re.compile(rb'("(?:[^"\\]|\\.)*+")|[+-]?\b(?:NaN|Inf(?:inity)?)\b')
"""What is no number of JSON, and what of it stands in texts."""
_PARTIAL = re.compile(rb'"warnings"\s*:\s*\[\s*"|"isPartial"\s*:\s*true')


class Series(msgspec.Struct):
    """One series as the API prints it: `values` of a range, `value` of a moment, `timestamps` where an export parts them."""

    metric: dict[str, str]
    values: msgspec.Raw = _NOTHING
    value: msgspec.Raw = _NOTHING
    timestamps: msgspec.Raw = _NOTHING
    histogram: msgspec.Raw = _NOTHING
    histograms: msgspec.Raw = _NOTHING


class _Piece(NamedTuple):
    """The text from one series to the next. `last`: the file ends with it."""

    offset: int
    text: bytes
    last: bool


_DECODER = msgspec.json.Decoder(Series)


def _pieces(stream: ByteStream, report: Callable[[str, int], None], between: Callable[[bytes, int], None]) -> Iterator[_Piece]:
    """The series of a file. `between` gets what stands before the first of them."""
    window = Window(stream)
    head, _ = window.piece(_BETWEEN)
    m = MARK.search(head)
    between(head if m is None else head[: m.start()], 0)
    if not window.find(MARK, _BETWEEN):
        return
    size = _CHUNK
    while True:
        data, start, stop, last = window.view(size)
        marks = [m.start() for m in MARK.finditer(data, start, stop)]
        offset = window.offset
        for begin, end in pairwise(marks):
            yield _Piece(offset + begin - start, data[begin:end], last=False)
        if last:
            yield _Piece(offset + marks[-1] - start, data[marks[-1] : stop], last=True)
            return
        if len(marks) > 1:
            window.advance(marks[-1] - start)
            size = _CHUNK
        elif size < _LARGEST:
            size *= 2
        else:
            report("oversized-series", offset)
            window.advance(1)
            if not window.find(MARK, _BETWEEN):
                return
            size = _CHUNK


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(TEXTS)
        self._rows = Bulk(emit)
        self._keys = SeriesKeys(self._notices, self._fabric, all_unknown=True)
        self._histograms = 0
        self._failed = False
        self._open = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            for number, piece in enumerate(_pieces(stream, notices.add, self._between), 1):
                found = self._series(piece)
                if found is not None:
                    self._add(number, piece, found)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        self._rows.close()
        if self._open > 0 and "bad-series" not in notices and not self._failed:
            notices.add("truncated", stream.position, int("truncated" not in notices))
        notices.add("native-histograms", 0, self._histograms)
        notices.add("no-counters", 0, int(not self._rows.count and not self._failed))
        notices.emit(self._emit)
        counts = [
            EventCount("numbers", self._rows.count, stored=True),
            EventCount("series of other metrics", self._keys.others, stored=False),
            EventCount("native histograms", self._histograms, stored=False),
        ]
        return described(counts, notices, torn=torn)

    def _between(self, text: bytes, offset: int) -> None:
        """What stands around the series: whether the query failed, its answer is a part, or brackets stay open."""
        marks = _STRING.sub(b"", text)
        self._open += marks.count(b"{") + marks.count(b"[") - marks.count(b"}") - marks.count(b"]")
        if _FAILED.search(text):
            self._failed = True
            self._notices.add("query-failed", offset)
        if _PARTIAL.search(text):
            self._notices.add("partial-answer", offset)

    def _series(self, piece: _Piece) -> Series | None:
        """The series of a piece; of one that the file ends in, the samples that are whole."""
        found, rest = decoded(piece.text)
        if found is None and (bare := sum(m[1] is None for m in _BARE.finditer(piece.text))):
            piece = piece._replace(text=_BARE.sub(lambda m: m[1] or b"null", piece.text))
            found, rest = decoded(piece.text)
            self._notices.add("non-finite-number", piece.offset, bare if found is not None else 0)
        if found is not None:
            self._between(rest[:_BETWEEN], piece.offset)
            return found
        if not piece.last:
            self._notices.add("bad-series", piece.offset)
            return None
        self._notices.add("truncated", piece.offset)
        whole = piece.text[: piece.text.rfind(b"]") + 1]
        return decoded(whole + b"]}")[0] or decoded(whole + b"}")[0]

    def _add(self, number: int, piece: _Piece, series: Series) -> None:
        labels = series.metric
        known = self._keys.lookup(labels.get("__name__", ""), labels)
        self._histograms += bool(bytes(series.histogram)) or bool(bytes(series.histograms))
        if known is None:
            return
        try:
            pairs = _pairs(series)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._notices.add("bad-series", piece.offset)
            return
        self._notices.add("bad-number", piece.offset, pairs.numbers.bad)
        self._notices.add("bad-time", piece.offset, pairs.bad_times)
        self._rows.add([known.key], None, number, adjusted(pairs.numbers, [known], None), ts_ns=pairs.ts_ns, quality="collector")

    def _fabric(self) -> Fabric:
        """Reads the file for what its exporters of a fabric leave to other series."""
        fabric = Fabric.empty()
        with ByteStream(self._source.path) as stream:
            for piece in _pieces(stream, lambda *_: None, lambda *_: None):
                found, _ = decoded(piece.text)
                name = found.metric.get("__name__", "") if found is not None else ""
                if found is None or not Fabric.concerns(name):
                    continue
                try:
                    numbers = _pairs(found).numbers
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue
                stated = numbers.value[numbers.stated]
                fabric.see(name, found.metric, float(stated[-1]) if len(stated) else None)
        return fabric


def decoded(text: bytes) -> tuple[Series | None, bytes]:
    """The series at the beginning of `text`, and what follows it; None where it cannot be read."""
    body = text.rstrip(b", \t\r\n")
    try:
        return _DECODER.decode(body), b""
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        m = _BYTE.search(str(e))
    if m is None:
        return None, b""
    end = int(m[1]) - 1
    try:
        return _DECODER.decode(body[:end]), body[end:]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None, b""


def _pairs(series: Series) -> Pairs:
    values, value, timestamps = bytes(series.values), bytes(series.value), bytes(series.timestamps)
    if values and timestamps:
        return separate_columns(values, timestamps)
    return pairs_of(values or b"[%b]" % value)
