"""Two passes over outputs of perfquery: which ports belong to one device, then their counters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.headings import Heading, heading_of
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.notices import TEXTS, described
from tracelab_parsers.counters.perfquery_commands import Command, command_of
from tracelab_parsers.counters.perfquery_names import AGGREGATE_PORT, detail_meaning, is_full, port_meaning
from tracelab_parsers.counters.values import read_number
from tracelab_parsers.counters.writing import Samples, Subject, TimeQuality
from tracelab_parsers.nccl_json.lines import Line, lines
from tracelab_parsers.nccl_json.notices import Notices, NoticeText

__all__ = ["Context", "Reading"]

_LINE_BYTES = 1 << 14
_BLOCK = re.compile(
    r"# (?P<what>[A-Z][\w ]*): (?:Lid (?P<lid>\d{1,9})|DR path)?(?P<more>.*?) port (?P<port>\d{1,9})(?: \(CapMask: (?P<mask>0x[0-9A-Fa-f]{1,8})\b.*\))?"
)
_FIELD = re.compile(r"(?P<name>[A-Za-z]\w{0,63}):\.*(?P<value>[^.].*)?")
_SMALL = re.compile(r"\d{1,4}")
_NO_COUNTERS = frozenset({"PortSelect", "CounterSelect", "CounterSelect2", "AllPortSelect", "CounterSelectMask"})
_NARROW, _EXTENDED = "Port", "Port extended"
_ALL_PORT_SELECT = 0x100
"""Bit of the capability mask that switches have: they can add up their ports (IBA 16.1.4)."""
_MOST_PORTS_OF_ADAPTERS = 2
_TALK = re.compile(r"perfquery\b.*|ibwarn: .*|\++.*|--+|\$.*", re.IGNORECASE)
_TEXTS = TEXTS | {
    "no-counters": NoticeText("warning", "the file holds no counters", "see that the command gave an output"),
    "asked-from-elsewhere": NoticeText(
        "info", "headings name the machine that asked several switches; their ports are kept by LID", "write one file per switch"
    ),
}


@dataclass(slots=True)
class Context:
    """What the lines above an output state."""

    ts_ns: int | None = None
    quality: TimeQuality | None = None
    node: str | None = None
    command: Command = field(default_factory=Command)

    def read(self, line: str, heading: Heading) -> None:
        """Takes up a heading. The machine at a prompt is the one that is asked only where the command names no other."""
        if heading.ts_ns is not None:
            self.ts_ns, self.quality = heading.ts_ns, heading.quality
        command = command_of(heading.command) if heading.command is not None else None
        if command is None:
            self.node = heading.node or self.node
            return
        self.command = command
        elsewhere = not command.local and not line.startswith(("#", "=", "*", "-"))
        self.node = command.name or (None if elsewhere else heading.node or (self.node if heading.ts_ns is None else None))


@dataclass(slots=True)
class _Block:
    """The counters under one heading. `selected`: its port was printed as a field too."""

    what: str
    lid: int | None
    port: int | None
    mask: int | None
    context: Context
    selected: bool = False
    subject: Subject | None = None

    @property
    def device(self) -> tuple[int | None, str | None]:
        """What tells its device from others of the file."""
        return self.lid, self.context.command.guid


@dataclass(slots=True)
class _Device:
    """A device by all its blocks."""

    ports: set[int] = field(default_factory=set)
    adds_up: bool | None = None

    @property
    def is_switch(self) -> bool:
        """By its ports, or by what it says that it can do."""
        return bool(self.adds_up) or max(self.ports, default=0) > _MOST_PORTS_OF_ADAPTERS


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._samples = Samples(emit)
        self._devices: dict[str | None, dict[tuple[int | None, str | None], _Device]] = defaultdict(lambda: defaultdict(_Device))
        self._sets: set[str] = set()
        self._aggregates = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            last: _Block | None = None
            for _, _, _, block in self._fields(stream, None):
                if block is not None and block is not last:
                    self._learn(block)
                    last = block
        with ByteStream(self._source.path) as stream:
            for line, name, value, block in self._fields(stream, self._notices):
                self._field(line, name, value, block)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            self._notices.damage(stream.damage)
            torn = stream.torn
        self._samples.close()
        self._notices.add("no-counters", 0, int(not self._samples.count))
        self._notices.emit(self._emit)
        counts = [EventCount("counters", self._samples.count, stored=True), EventCount("sums over all ports", self._aggregates, stored=False)]
        return described(counts, self._notices, torn=torn)

    def _fields(self, stream: ByteStream, notices: Notices | None) -> Iterator[tuple[Line, str, str, _Block | None]]:
        """Names and values with the block that they stand in; None where there is none. Notices are counted in one pass alone."""
        context, block = Context(), None
        counted = notices if notices is not None else Notices(_TEXTS)
        for line in lines(stream, lambda offset: counted.add("line-too-long", offset), _LINE_BYTES):
            text = line.text.decode("utf-8", "replace").strip()
            if not text:
                continue
            if not line.whole:
                counted.add("truncated", line.offset)
            elif text.startswith("#") and (m := _BLOCK.fullmatch(text)) is not None:
                mask = int(m["mask"], 16) if m["mask"] else None
                block = _Block(m["what"].removesuffix(" counters"), int(m["lid"]) if m["lid"] else None, int(m["port"]), mask, replace(context))
            elif (m := _FIELD.fullmatch(text)) is not None:
                value = (m["value"] or "").strip()
                if m["name"] == "PortSelect" and _SMALL.fullmatch(value):
                    if block is None or block.selected:
                        block = _Block("", None, int(value), None, replace(context))
                    block.selected = True
                if block is not None and not block.what and m["name"] not in _NO_COUNTERS:
                    block.what = _EXTENDED if m["name"] == "PortXmitData" else _NARROW
                yield line, m["name"], value, block
            elif (heading := heading_of(text)) is not None:
                context.read(text, heading)
                block = None
            elif _TALK.fullmatch(text) is None:
                counted.add("unread-lines", line.offset)

    def _learn(self, block: _Block) -> None:
        self._sets.add(block.what)
        device = self._devices[block.context.node][block.device]
        if block.port is not None and block.port != AGGREGATE_PORT:
            device.ports.add(block.port)
        if block.mask is not None:
            device.adds_up = bool(device.adds_up) or bool(block.mask & _ALL_PORT_SELECT)

    def _field(self, line: Line, name: str, value: str, block: _Block | None) -> None:
        if block is None:
            self._notices.add("unread-lines", line.offset)
            return
        if name in _NO_COUNTERS:
            return
        if block.port == AGGREGATE_PORT:
            self._aggregates += 1
            return
        try:
            number = read_number(value)
        except ValueError:
            self._notices.add("bad-number", line.offset)
            number = None
        meaning = self._meaning(block.what, name)
        if block.subject is None:
            block.subject = self._subject(block)
        context = block.context
        flags = [f for f, on in (("saturated", is_full(meaning, number)), ("cleared-after-read", context.command.clears_data)) if on]
        self._samples.add(line.number, block.subject, name, meaning, number, ts_ns=context.ts_ns, quality=context.quality, flags="+".join(flags) or None)

    def _meaning(self, what: str, name: str) -> Meaning:
        if what == _EXTENDED:
            return port_meaning(name, extended=True)
        if what != _NARROW:
            return detail_meaning(name)
        meaning = port_meaning(name, extended=False)
        # Both sets count the same; the narrow one would stand still beside the other.
        apart = _EXTENDED in self._sets and not meaning.counter.startswith("vendor.")
        return replace(meaning, counter=f"vendor.{name}", unit=meaning.stated_unit, kind=meaning.stated_kind) if apart else meaning

    def _subject(self, block: _Block) -> Subject:
        node, (lid, guid) = block.context.node, block.device
        devices = self._devices[node]
        device = devices[block.device]
        several = len(devices) > 1
        if node is not None and sum(d.is_switch for d in devices.values()) > 1:
            self._notices.add("asked-from-elsewhere")
            node = None
        by_lid = f"lid {lid}" if lid is not None else None
        if device.is_switch:
            name = (guid or by_lid) if several else None
            return Subject("switch-port", name, node=node, node_kind="switch", port=block.port)
        return Subject("rdma", guid or by_lid, node=node, node_kind="host" if device.adds_up is False else None, port=block.port, uid=guid)
