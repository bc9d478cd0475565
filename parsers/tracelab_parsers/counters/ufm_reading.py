"""Two passes over UFM's telemetry: what its numbers are and whose, then the numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.notices import TEXTS, described
from tracelab_parsers.counters.perfquery_names import AGGREGATE_PORT, apart, is_full
from tracelab_parsers.counters.switch_values import json_number
from tracelab_parsers.counters.ufm_names import is_label, ufm_meaning
from tracelab_parsers.counters.ufm_records import Record, records, since_1970_ns
from tracelab_parsers.counters.ufm_units import PacketSizes, Unit
from tracelab_parsers.counters.writing import Samples, Subject
from tracelab_parsers.nccl_json.notices import Notices, NoticeText
from tracelab_parsers.nccl_json.values import natural, text
from tracelab_parsers.topology.ibnetdiscover_names import Machine, Names, guid_of
from tracelab_parsers.topology.ibnetdiscover_rows import FABRIC_TEXTS

__all__ = ["Reading"]

_TEXTS = (
    TEXTS
    | FABRIC_TEXTS
    | {
        "bad-row": NoticeText("warning", "rows do not fit their columns and were left out"),
        "bad-message": NoticeText("warning", "messages without a list of values were left out"),
        "no-port": NoticeText("warning", "records without a GUID or a port were left out"),
        "no-counters": NoticeText("warning", "the file holds no counters"),
        "changes-only": NoticeText("info", "messages hold only what changed: a counter that is absent stands where it stood"),
        "unit-by-packet-size": NoticeText(
            "info", "the names of counters of data state another unit than their packets do; sizes of packets decided between bytes and words of four"
        ),
        "unit-assumed": NoticeText("info", "no packet tells whether counters of data count bytes or words of four; the meaning of their name was taken"),
        "unit-unclear": NoticeText(
            "warning", "counters of data fit neither bytes nor words of four; they are kept without a unit", "see which unit UFM is set to"
        ),
        "interval-counts": NoticeText("info", "counters of traffic fall again and again: they are taken for counts of one interval each"),
    }
)
_NODES, _PORTS = ("node_guid", "sys_image_guid"), ("port_num", "port_number", "aport")
_DESCRIPTIONS = ("node_description", "node_desc", "node_name", "device_name", "hostname")
_FEW_STEPS, _MANY_FALLS = 4, 0.2
_TRAFFIC = ("bytes", "packets")


@dataclass(slots=True)
class _Column:
    """A counter: its meaning in this file, and what makes that doubtful. `seen`: the file holds a number of it."""

    meaning: Meaning
    flag: str | None = None
    seen: bool = False


@dataclass(slots=True)
class _Node:
    ports: set[int] = field(default_factory=set)
    guids: dict[str, int] = field(default_factory=dict)
    shares: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether its ports share an address, or are more than an adapter has."""
        return self.shares or max(self.ports, default=0) > 2

    def add(self, port: int, guid: str | None) -> None:
        if len(self.ports) < 4:
            self.ports.add(port)
        if guid is not None and len(self.guids) < 4:
            self.shares = self.shares or self.guids.setdefault(guid, port) != port


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._samples = Samples(emit)
        self._names = Names()
        self._nodes: dict[str, _Node] = defaultdict(_Node)
        self._columns: dict[str, _Column] = {}
        self._sizes = PacketSizes()
        self._last: dict[tuple[str, int], int] = {}
        self._steps = self._falls = 0
        self._texts = self._sums = 0
        self._unnamed: set[str] = set()

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            for record in records(stream, Notices(_TEXTS)):
                self._learn(record)
        self._settle()
        with ByteStream(self._source.path) as stream:
            for record in records(stream, self._notices):
                self._record(record)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            self._notices.damage(stream.damage)
            torn = stream.torn
        self._samples.close()
        self._notices.add("no-counters", 0, int(not self._samples.count))
        self._notices.emit(self._emit)
        stored = EventCount("counters", self._samples.count, stored=True)
        counts = [stored, EventCount("texts", self._texts, stored=False), EventCount("sums over all ports", self._sums, stored=False)]
        return described(counts, self._notices, torn=torn)

    def _learn(self, record: Record) -> None:
        low = _labels(record)
        node, port = _whose(low)
        if node is None or port is None or port == AGGREGATE_PORT:
            return
        self._nodes[node].add(port, guid_of(low.get("port_guid")))
        traffic: dict[tuple[str, str | None], tuple[str, int]] = {}
        for name, value in record.values.items():
            if is_label(name):
                continue
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = _Column(ufm_meaning(name))
            number = _number(value)
            column.seen = column.seen or number is not None
            if isinstance(number, int) and column.meaning.counter in _TRAFFIC:
                traffic[column.meaning.counter, column.meaning.direction] = name, number
        for direction in ("tx", "rx"):
            data, packets = traffic.get(("bytes", direction)), traffic.get(("packets", direction))
            if data is not None and packets is not None:
                self._sizes.add(data[0], data[1], packets[1])
        if (sent := traffic.get(("bytes", "tx"))) is not None:
            before = self._last.get((node, port))
            self._steps += before is not None
            self._falls += before is not None and sent[1] < before
            self._last[node, port] = sent[1]
        described = next((d for k in _DESCRIPTIONS if (d := text(low.get(k)))), None)
        if described is not None:
            self._names.add(node, described, "switch" if self._nodes[node].is_switch else None)

    def _settle(self) -> None:
        """Units and kinds, when the whole file has been seen."""
        interval = self._steps >= _FEW_STEPS and self._falls >= _MANY_FALLS * self._steps
        if interval:
            self._notices.add("interval-counts", None, self._falls)
        alone = apart((name, c.meaning) for name, c in self._columns.items())
        for name, column in self._columns.items():
            column.meaning = alone[name]
            if column.meaning.counter == "bytes":
                column.meaning, column.flag = self._data_unit(name, column.meaning)
            if interval and column.meaning.counter in _TRAFFIC:
                column.meaning = replace(column.meaning, kind="delta", width=0)
        self._last.clear()

    def _data_unit(self, name: str, meaning: Meaning) -> tuple[Meaning, str | None]:
        in_words = not ("MBOut" in name or "MBIn" in name)
        unit = self._sizes.unit(name)
        if unit is Unit.UNCLEAR:
            self._notices.add("unit-unclear")
            return Meaning(f"vendor.{name}", meaning.direction, kind="counter"), "unit-unclear"
        if unit is Unit.UNKNOWN:
            self._notices.add("unit-assumed")
            return replace(meaning, scale=4.0 if in_words else 1.0), "unit-assumed"
        meaning = replace(meaning, scale=1.0 if unit is Unit.BYTES else 4.0)
        if unit is Unit.WORDS and in_words:
            return meaning, None
        self._notices.add("unit-by-packet-size")
        return meaning, "unit-by-packet-size"

    def _record(self, record: Record) -> None:
        low = _labels(record)
        node, port = _whose(low)
        if node is None or port is None:
            self._notices.add("no-port")
            return
        values = [(name, value) for name, value in record.values.items() if not is_label(name)]
        if port == AGGREGATE_PORT:
            self._sums += len(values)
            return
        own = since_1970_ns(low.get("timestamp"))
        ts_ns = own if own is not None else record.ts_ns
        quality = "collector" if own is not None else record.quality
        subject = self._subject(node, port, guid_of(low.get("port_guid")), low)
        for name, value in values:
            column = self._columns[name]
            number = _number(value)
            if number is None and not _absent(value):
                self._texts += 1
                self._notices.add("bad-number", None, int(not column.meaning.counter.startswith("vendor.")))
                if not column.seen:
                    continue
            elif number is None and not column.seen and column.meaning.counter.startswith("vendor."):
                continue  # a column that holds no number anywhere
            flags = "+".join(f for f in ("saturated" if is_full(column.meaning, number) else None, column.flag) if f) or None
            self._samples.add(record.line, subject, name, column.meaning, number, ts_ns=ts_ns, quality=quality, flags=flags)

    def _subject(self, node: str, port: int, port_guid: str | None, low: dict[str, Any]) -> Subject:
        switch = self._nodes[node].is_switch
        described = next((d for k in _DESCRIPTIONS if (d := text(low.get(k)))), None)
        machine = Machine(node, None, None, named=False)
        if described is not None:
            machine = self._names.machine(node, described, "switch" if switch else None)
        if not machine.named and node not in self._unnamed:
            self._unnamed.add(node)
            self._notices.add("unnamed-machine")
        if switch or machine.kind == "switch":
            return Subject("switch-port", node=machine.node, node_kind="switch", port=port)
        return Subject("rdma", machine.device or port_guid or node, node=machine.node, node_kind=machine.kind, port=port, uid=port_guid)


def _labels(record: Record) -> dict[str, Any]:
    return {k.lower(): v for k, v in record.values.items() if is_label(k)}


def _whose(low: dict[str, Any]) -> tuple[str | None, int | None]:
    """GUID and port of a record; None where it lacks them."""
    node = next((g for k in _NODES if (g := guid_of(low.get(k)))), None)
    port = next((p for k in _PORTS if (p := natural(low.get(k), 31)) is not None), None)
    return node, port


def _number(value: object) -> int | float | None:
    try:
        return json_number(value)
    except ValueError:
        return None


def _absent(value: object) -> bool:
    """Whether a value stands for none: null, an empty cell, N/A."""
    try:
        return not isinstance(value, Decimal) and json_number(value) is None
    except ValueError:
        return False
