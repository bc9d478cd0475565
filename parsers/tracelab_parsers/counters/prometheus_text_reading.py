"""One pass over what exporters print, of one scrape or of many after each other, in bounded memory."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, DecimalException

import numpy as np

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import CounterKind
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.bulk import NO_TIME, Bulk, numbers_of
from tracelab_parsers.counters.headings import heading_of
from tracelab_parsers.counters.notices import described
from tracelab_parsers.counters.prometheus_series import TEXTS, Fabric, Known, SeriesKeys, adjusted
from tracelab_parsers.counters.prometheus_text_lines import Sample, describes, labels_of, sample_of
from tracelab_parsers.counters.prometheus_values import read_value
from tracelab_parsers.counters.switch_moments import EARLIEST_NS, LATEST_NS
from tracelab_parsers.counters.writing import Subject, TimeQuality
from tracelab_parsers.nccl_json.lines import Line, lines
from tracelab_parsers.nccl_json.notices import Notices

__all__ = ["Reading"]

_BLOCK = 20_000
_KNOWN_SERIES = 500_000
_SECONDS = Decimal(10**11)
"""Moments below are seconds (OpenMetrics), others milliseconds."""
_PARTS_OF_DISTRIBUTIONS = ("_bucket", "_sum", "_count", "_created", "_gsum", "_gcount")
_KINDS: dict[str, CounterKind] = {"counter": "counter", "gauge": "gauge"}
_DISTRIBUTIONS = frozenset({"histogram", "summary", "gaugehistogram", "info", "stateset"})
_BOM = "\ufeff"


class _Block:
    """Rows that wait to become columns."""

    def __init__(self, quality: TimeQuality) -> None:
        self.quality = quality
        self.series: list[Known] = []
        self.places: dict[int, int] = {}
        self.of: list[int] = []
        self.lines: list[int] = []
        self.values: list[str] = []
        self.ts: list[int] = []

    def add(self, known: Known, line: int, value: str, ts_ns: int) -> None:
        place = self.places.get(id(known))
        if place is None:
            place = self.places[id(known)] = len(self.series)
            self.series.append(known)
        self.of.append(place)
        self.lines.append(line)
        self.values.append(value)
        self.ts.append(ts_ns)


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(TEXTS)
        self._rows = Bulk(emit)
        self._keys = SeriesKeys(self._notices, self._fabric, all_unknown=False)
        self._known: dict[tuple[str, str], Known | None] = {}
        self._block = _Block("collector")
        self._kinds: dict[str, str] = {}
        self._node: str | None = None
        self._ts_ns = NO_TIME
        self._quality: TimeQuality = "collector"
        self._others = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            for line in lines(stream, lambda offset: notices.add("line-too-long", offset)):
                self._line(line)
                if not line.number % 1000:
                    self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        self._flush()
        self._rows.close()
        notices.add("no-counters", 0, int(not self._rows.count))
        notices.emit(self._emit)
        counts = [EventCount("numbers", self._rows.count, stored=True), EventCount("samples of other metrics", self._others, stored=False)]
        return described(counts, notices, torn=torn)

    def _line(self, line: Line) -> None:
        text = line.text.decode("utf-8", "replace").removeprefix(_BOM).strip()
        if not text or text == "# EOF":
            return
        if text.startswith("#"):
            self._comment(text)
            return
        sample = sample_of(text)
        if sample is not None:
            if line.whole:
                self._sample(line, sample)
            else:
                self._notices.add("truncated", line.offset)  # a number that is cut is another number
        elif not self._heading(text):
            self._notices.add("bad-line" if line.whole else "truncated", line.offset)

    def _comment(self, text: str) -> None:
        told = describes(text)
        if told is None:
            self._heading(text)
        elif told[0] == "TYPE":
            if len(self._kinds) >= _KNOWN_SERIES:
                self._kinds.clear()
            self._kinds[told[1]] = told[2].strip()

    def _heading(self, text: str) -> bool:
        """Whether a line states the moment or the machine of the scrape below it."""
        heading = heading_of(text)
        if heading is None:
            return False
        self._flush()
        self._ts_ns = NO_TIME if heading.ts_ns is None else heading.ts_ns
        self._quality = heading.quality or "collector"
        if heading.node != self._node:
            self._node = heading.node
            self._known.clear()
        return True

    def _sample(self, line: Line, sample: Sample) -> None:
        of = (sample.name, sample.labels)
        if of in self._known:
            known = self._known[of]
        else:
            if len(self._known) >= _KNOWN_SERIES:
                self._known.clear()
            known = self._known[of] = self._lookup(line, sample)
        if known is None:
            self._others += 1
            return
        ts_ns, quality = self._ts_ns, self._quality
        if sample.stamp is not None:
            ts_ns, quality = _moment(sample.stamp), "collector"
            self._notices.add("bad-time", line.offset, int(ts_ns == NO_TIME))
        if len(self._block.of) >= _BLOCK or self._block.quality != quality:
            self._flush(quality)
        self._block.add(known, line.number, sample.value, ts_ns)

    def _lookup(self, line: Line, sample: Sample) -> Known | None:
        labels = labels_of(sample.labels)
        if labels is None:
            self._notices.add("bad-line", line.offset)
            return None
        name = sample.name or labels.get("__name__", "")
        told = self._kind(name)
        if told in _DISTRIBUTIONS:
            return None
        found = self._keys.lookup(name, labels, _KINDS.get(told))
        if found is None or self._node is None or found.key.subject.node is not None:
            return found
        s = found.key.subject
        subject = Subject(s.kind, s.device, node=self._node, node_kind=s.node_kind, port=s.port, uid=s.uid)
        return found._replace(key=replace(found.key, subject=subject))

    def _kind(self, name: str) -> str:
        """The type that the file states of a metric, or of the family that it is a part of."""
        told = self._kinds.get(name) or self._kinds.get(name.removesuffix("_total"))
        if told is not None:
            return told
        family = next((name.removesuffix(s) for s in _PARTS_OF_DISTRIBUTIONS if name.endswith(s)), name)
        of_family = self._kinds.get(family, "")
        return of_family if of_family in _DISTRIBUTIONS else ""

    def _flush(self, quality: TimeQuality = "collector") -> None:
        """Makes rows of what waits; `quality` is that of the moments to come."""
        block, self._block = self._block, _Block(quality)
        if not block.of:
            return
        of = np.array(block.of, np.int64)
        numbers = numbers_of(block.values, read_value)
        self._notices.add("bad-number", None, numbers.bad)
        numbers = adjusted(numbers, block.series, of)
        keys = [k.key for k in block.series]
        self._rows.add(keys, of, np.array(block.lines, np.int64), numbers, ts_ns=np.array(block.ts, np.int64), quality=block.quality)

    def _fabric(self) -> Fabric:
        """Reads the file for what its exporters of a fabric leave to other lines."""
        fabric = Fabric.empty()
        with ByteStream(self._source.path) as stream:
            for line in lines(stream, lambda _: None):
                if not line.text.lstrip().startswith((b"infiniband_", b"# HELP infiniband_")):
                    continue
                text = line.text.decode("utf-8", "replace").strip()
                told = describes(text) if text.startswith("#") else None
                if told is not None:
                    fabric.evidence.help(told[1], told[2])
                    continue
                sample = sample_of(text)
                labels = labels_of(sample.labels) if sample is not None and Fabric.concerns(sample.name) else None
                if sample is not None and labels is not None:
                    fabric.see(sample.name, labels, _number(sample.value))
        return fabric


def _moment(text: str) -> int:
    try:
        value = Decimal(text)
        ns = int(value * 10**9) if value < _SECONDS else int(value * 10**6)
    except (DecimalException, ValueError):
        return NO_TIME
    return ns if EARLIEST_NS <= ns < LATEST_NS else NO_TIME


def _number(text: str) -> float | None:
    try:
        return read_value(text)
    except ValueError:
        return None
