"""Two passes over reports of ibqueryerrors: what each hides and how nodes are called, then its ports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.headings import heading_of
from tracelab_parsers.counters.notices import TEXTS, described
from tracelab_parsers.counters.perfquery_commands import Command
from tracelab_parsers.counters.perfquery_names import is_full, port_meaning
from tracelab_parsers.counters.perfquery_reading import Context
from tracelab_parsers.counters.writing import Samples, Subject
from tracelab_parsers.nccl_json.lines import Line, lines
from tracelab_parsers.nccl_json.notices import Notices, NoticeText
from tracelab_parsers.topology.ibnetdiscover_names import Kind, Names, guid_of, link_speed, signalling_speed
from tracelab_parsers.topology.ibnetdiscover_rows import FABRIC_TEXTS, End, FabricRows

__all__ = ["Reading"]

_LINE_BYTES = 1 << 14
_HEADER = re.compile(r'(?P<what>Errors|Data Counters) for (?:0x(?P<guid>[0-9a-f]{1,16}) )?"(?P<name>.*)"')
_PORT = re.compile(r"GUID 0x(?P<guid>[0-9a-f]{1,16}) port (?P<port>\d{1,4}|ALL):(?P<counters>.*)")
_COUNTER = re.compile(r"\[(?P<name>\w{1,64}) == (?P<value>\d{1,20})(?P<wide> \([^)]*\))?\]")
_LINK = re.compile(r"Link info: +(?P<lid>\d{1,9}) +(?P<port>\d{1,9})\[ *(?P<ext>\d*)\] ==\((?P<state>.*?)\)==> *(?P<rest>.*)")
_REMOTE = re.compile(r'0x(?P<guid>[0-9a-f]{1,16}) +(?P<lid>\d{1,9}) +(?P<port>\d{1,9})\[[ \d]*\] "(?P<name>.*)" \(.*\)?')
_RATE = re.compile(r"(?P<width>\d{1,2})X +(?P<gbit>[\d.]{1,12}) Gbps(?: \((?P<speed>\w+)\))?", re.IGNORECASE)
_HIDDEN = re.compile(r"(?:## )?(?P<word>Thresholds|Suppressed|Suppressing): *(?P<what>\S.*)?")
_LAST = "Suppressed"
"""The line of this word ends a report."""
_TALK = re.compile(r"##.*|ibwarn: .*|src/.*|ibqueryerrors\b.*", re.IGNORECASE)
_TEXTS = (
    TEXTS
    | FABRIC_TEXTS
    | {
        "hidden-counters": NoticeText("info", "reports leave out counters below a threshold or suppressed ones: that one is absent does not say that it is 0"),
        "no-summary": NoticeText("info", "reports end without their summary: whether they leave counters out is unknown", "keep the whole output"),
        "no-counters": NoticeText("info", "the report names no port: none had errors, or nothing could be asked"),
    }
)
_TRAFFIC = ("bytes", "packets", "vendor.unicast_packets", "vendor.multicast_packets")


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._samples = Samples(emit)
        self._rows = FabricRows(emit, self._notices, "ibqueryerrors")
        self._names = Names()
        self._hides: list[bool] = []
        self._report = 0
        self._sums = 0
        self._node: tuple[str | None, str, Kind | None] = (None, "", None)
        self._guid: str | None = None
        self._context = Context()

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            self._learn(stream)
        with ByteStream(self._source.path) as stream:
            for line, text in self._texts(stream, self._notices):
                if not self._row(line, text):
                    self._notices.add("unread-lines", line.offset)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            self._notices.damage(stream.damage)
            torn = stream.torn
        return self._finish(torn=torn)

    def _finish(self, *, torn: bool) -> SourceInfo:
        self._samples.close()
        counts = [EventCount("counters", self._samples.count, stored=True), *self._rows.flush()]
        counts.append(EventCount("sums over all ports", self._sums, stored=False))
        self._notices.add("no-counters", 0, int(not self._samples.count))
        if self._samples.count:
            self._notices.add("hidden-counters", None, sum(self._hides))
            self._notices.add("no-summary", None, int(self._report == len(self._hides) - 1))
        self._notices.emit(self._emit)
        return described(counts, self._notices, torn=torn)

    def _texts(self, stream: ByteStream, notices: Notices | None) -> Iterator[tuple[Line, str]]:
        counted = notices if notices is not None else Notices(_TEXTS)
        for line in lines(stream, lambda offset: counted.add("line-too-long", offset), _LINE_BYTES):
            text = line.text.decode("utf-8", "replace").strip()
            if text and line.whole:
                yield line, text
            elif text:
                counted.add("truncated", line.offset)

    def _learn(self, stream: ByteStream) -> None:
        """Names of nodes, and for each report whether it hides counters, which its end tells."""
        hides, counted = False, False
        context = Context()
        for _, text in self._texts(stream, None):
            if (m := _HEADER.fullmatch(text)) is not None:
                guid = guid_of(m["guid"]) if m["guid"] else None
                self._names.add(guid, m["name"], "switch" if guid and m["what"] == "Errors" else None)
            elif (m := _PORT.fullmatch(text)) is not None:
                counted = True
            elif (m := _HIDDEN.fullmatch(text)) is not None:
                hides = hides or m["what"] is not None
                if m["word"] == _LAST:
                    self._hides.append(hides or context.command.hides)
                    hides, counted = False, False
            elif (heading := heading_of(text)) is not None:
                context.read(text, heading)
        if counted:
            self._hides.append(hides or context.command.hides)

    def _row(self, line: Line, text: str) -> bool:
        """The rows of a line; whether it is one of a report."""
        if (m := _HEADER.fullmatch(text)) is not None:
            guid = guid_of(m["guid"]) if m["guid"] else None
            # Only switches have their GUID in the heading of errors; that of data has it for all.
            kind: Kind | None = None if m["what"] != "Errors" else "switch" if guid else "host"
            self._node = guid, m["name"], kind
        elif (m := _PORT.fullmatch(text)) is not None:
            self._guid = guid_of(m["guid"])
            if m["port"] in ("ALL", "255"):
                self._sums += len(_COUNTER.findall(m["counters"]))
            else:
                self._port(line, int(m["port"]), m["counters"])
        elif (m := _LINK.fullmatch(text)) is not None:
            self._link(line, m)
        elif (m := _HIDDEN.fullmatch(text)) is not None:
            self._report += m["word"] == _LAST
        elif _TALK.fullmatch(text) is not None:
            pass
        elif (heading := heading_of(text)) is not None:
            self._context.read(text, heading)
        else:
            return False
        return True

    def _end(self, port: int, lid: int | None = None) -> End:
        guid, name, kind = self._node
        machine = self._names.machine(guid or self._guid, name, kind)
        if machine.kind is None and machine.device is None:  # only adapters have descriptions of host and device
            machine = machine._replace(kind="switch")
        return End(machine, port, guid, self._guid, lid)

    def _port(self, line: Line, port: int, counters: str) -> None:
        end = self._end(port)
        machine = end.machine
        switch = machine.kind == "switch"
        subject = Subject(
            "switch-port" if switch else "rdma",
            None if switch else machine.device or self._guid,
            node=machine.node,
            node_kind=machine.kind,
            port=port,
            uid=end.uid,
        )
        if _COUNTER.sub("", counters).strip():
            self._notices.add("unread-lines", line.offset)
        for m in _COUNTER.finditer(counters):
            number = int(m["value"])
            meaning = port_meaning(m["name"], extended=m["wide"] is not None)
            command: Command = self._context.command
            cleared = command.clears_data if meaning.counter in _TRAFFIC else command.clears_errors
            hidden = self._report < len(self._hides) and self._hides[self._report]
            states = (("saturated", is_full(meaning, number)), ("cleared-after-read", cleared), ("hidden-below-threshold", hidden))
            flags = "+".join(f for f, on in states if on) or None
            context = self._context
            self._samples.add(line.number, subject, m["name"], meaning, number, ts_ns=context.ts_ns, quality=context.quality, flags=flags)

    def _link(self, line: Line, m: re.Match[str]) -> None:
        lid = int(m["lid"])
        a = self._end(int(m["port"]), lid if 0 < lid < 1 << 31 else None)
        rate = _RATE.search(m["state"])
        lanes = int(rate["width"]) if rate is not None else None
        speed = None
        if rate is not None and re.fullmatch(r"\d+(?:\.\d*)?", rate["gbit"]):
            speed = link_speed(lanes, rate["speed"] or "") or signalling_speed(lanes, float(rate["gbit"]))
        up = "Down" not in m["state"]
        self._rows.interface(line.number, a, speed_bps=speed, lanes=lanes, up=up)
        remote = _REMOTE.fullmatch(m["rest"])
        if remote is None:
            return
        guid = guid_of(remote["guid"])
        machine = self._names.machine(guid, remote["name"], None)
        if machine.device is None and machine.kind is None:
            machine = machine._replace(kind="switch" if a.machine.kind == "host" or int(remote["port"]) > 2 else None)
        peer = int(remote["lid"])
        b = End(machine, int(remote["port"]), guid if machine.kind == "switch" else None, guid, peer if 0 < peer < 1 << 31 else None)
        self._rows.cable(line.number, a, b, speed, lanes, up=up)
