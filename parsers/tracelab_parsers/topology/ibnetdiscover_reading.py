"""Two passes over an output of ibnetdiscover: names first, then ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tracelab.plugins import Emitter, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.headings import heading_of
from tracelab_parsers.counters.notices import TEXTS
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.topology.ibnetdiscover_names import Kind, Names, guid_of, link_speed
from tracelab_parsers.topology.ibnetdiscover_rows import FABRIC_TEXTS, End, FabricRows

__all__ = ["Reading"]

_LINE_BYTES = 1 << 14
_KINDS: dict[str, Kind | None] = {"S": "switch", "H": "host", "R": None, "SW": "switch", "CA": "host", "RT": None}
_NODE = re.compile(r'(?:Switch|Ca|Rt)\s+\d+\s+"(?P<kind>[SHR])-(?P<guid>[0-9a-f]{16})"\s*#\s*"(?P<name>.*)"(?P<rest>.*)')
_SWITCH_LID = re.compile(r"\blid (\d{1,9})\b")
_EXT = r"(?:\[ext \d+\])?"
_SPEED = r"(?P<width>\d{1,3}x|\?\?)\s*(?P<speed>[A-Z]DR(?:10)?|\?\?\?)"
_PORT = re.compile(
    rf'\[(?P<port>\d{{1,9}})\]{_EXT}(?:\((?P<own>[0-9a-f]+)\))?\s+"(?P<kind>[SHR])-(?P<guid>[0-9a-f]{{16}})"\[(?P<peer>\d{{1,9}})\]{_EXT}'
    rf'\s*(?:\((?P<peer_guid>[0-9a-f]+)\)\s*)?#\s*(?:lid (?P<lid>\d{{1,9}}) lmc \d+ )?"(?P<name>.*)" lid (?P<peer_lid>\d{{1,9}}) {_SPEED}(?: .*)?'
)
_REPORT = re.compile(
    rf"(?P<kind>CA|SW|RT) +(?P<lid>\d{{1,9}}) +(?P<port>\d{{1,9}}) +0x(?P<guid>[0-9a-f]{{1,16}}) +{_SPEED}"
    r"(?: +- +(?P<peer_kind>CA|SW|RT) +(?P<peer_lid>\d{1,9}) +(?P<peer>\d{1,9}) +0x(?P<peer_guid>[0-9a-f]{1,16}) +\( (?P<names>.*) \)| +(?P<name>\S.*))"
)
_BETWEEN = "' - '"
_TALK = re.compile(
    r"#.*|(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=.*|Chassis \d+.*|Hostname: .*|Non-Chassis Nodes|DR path .*|numports = \d+", re.IGNORECASE
)


class _Owner(NamedTuple):
    kind: str
    guid: str | None
    name: str
    lid: int | None


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices({**TEXTS, **FABRIC_TEXTS})
        self._names = Names()
        self._rows = FabricRows(emit, self._notices, "ibnetdiscover")
        self._owner: _Owner | None = None

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            for _, _, text in self._texts(stream, None):
                self._learn(text)
        with ByteStream(self._source.path) as stream:
            for number, offset, text in self._texts(stream, self._notices):
                if not self._row(number, text) and _TALK.fullmatch(text) is None and heading_of(text) is None:
                    self._notices.add("unread-lines", offset)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            self._notices.damage(stream.damage)
            torn = stream.torn
        counts = self._rows.flush()
        self._notices.add("no-links", 0, int(not self._rows.interfaces))
        self._notices.emit(self._emit)
        return SourceInfo([], event_counts=counts, truncated=torn or "truncated" in self._notices)

    def _texts(self, stream: ByteStream, notices: Notices | None) -> Iterator[tuple[int, int, str]]:
        """Whole lines that are not empty; the notices are counted in one pass alone."""
        for line in lines(stream, lambda offset: notices.add("line-too-long", offset) if notices is not None else None, _LINE_BYTES):
            text = line.text.decode("utf-8", "replace").strip()
            if not line.whole and text:
                if notices is not None:
                    notices.add("truncated", line.offset)
            elif text:
                yield line.number, line.offset, text

    def _learn(self, text: str) -> None:
        if (m := _NODE.match(text) or _PORT.fullmatch(text)) is not None:
            self._names.add(guid_of(m["guid"]), m["name"], _KINDS[m["kind"]])
        elif (m := _REPORT.fullmatch(text)) is not None:
            if m["name"]:
                self._names.add(guid_of(m["guid"]), m["name"], _KINDS[m["kind"]])
            elif m["names"].count(_BETWEEN) == 1:
                own, peer = m["names"].split(_BETWEEN)
                self._names.add(guid_of(m["guid"]), own, _KINDS[m["kind"]])
                self._names.add(guid_of(m["peer_guid"]), peer, _KINDS[m["peer_kind"]])

    def _row(self, number: int, text: str) -> bool:
        """The rows of a line; whether it is one of ibnetdiscover's."""
        if (m := _NODE.match(text)) is not None:
            lid = _SWITCH_LID.search(m["rest"])
            self._owner = _Owner(m["kind"], guid_of(m["guid"]), m["name"], int(lid[1]) if lid is not None else None)
        elif (m := _PORT.fullmatch(text)) is not None:
            if self._owner is None:
                return False
            self._port(number, m, self._owner)
        elif (m := _REPORT.fullmatch(text)) is not None:
            self._report(number, m)
        else:
            return False
        return True

    def _port(self, number: int, m: re.Match[str], owner: _Owner) -> None:
        a = self._end(owner.kind, m["port"], m["lid"] or owner.lid, owner.name, owner.guid, m["own"])
        b = self._end(m["kind"], m["peer"], m["peer_lid"], m["name"], guid_of(m["guid"]), m["peer_guid"])
        self._link(number, a, b, m)

    def _report(self, number: int, m: re.Match[str]) -> None:
        if m["name"]:
            end = self._end(m["kind"], m["port"], m["lid"], m["name"], None, m["guid"])
            # Of a port that is down, only its state is valid: the rate is none.
            self._rows.interface(number, end, up=False)
            return
        own, peer = self._two_names(m)
        a = self._end(m["kind"], m["port"], m["lid"], own, None, m["guid"])
        b = self._end(m["peer_kind"], m["peer"], m["peer_lid"], peer, None, m["peer_guid"])
        self._link(number, a, b, m)

    def _two_names(self, m: re.Match[str]) -> tuple[str, str]:
        """Both names of a line; where they hold what stands between them, those known of the GUIDs from other lines decide."""
        parts = m["names"].split(_BETWEEN)
        splits = [(_BETWEEN.join(parts[:i]), _BETWEEN.join(parts[i:])) for i in range(1, len(parts))] or [(m["names"], "")]
        known = (self._names.descriptions.get(guid_of(m["guid"]) or ""), self._names.descriptions.get(guid_of(m["peer_guid"]) or ""))
        for own, peer in splits:
            if known[0] == own.strip("' ") or known[1] == peer.strip("' "):
                return own, peer
        return splits[0]

    def _end(self, kind: str, port: str, lid: str | int | None, name: str, guid: str | None, port_guid: str | None) -> End:
        stated, address = _KINDS[kind], guid_of(port_guid) if port_guid else None
        number = int(lid or 0)
        return End(self._names.machine(guid or address, name, stated), int(port), guid, address, number if 0 < number < 1 << 31 else None)

    def _link(self, number: int, a: End, b: End, m: re.Match[str]) -> None:
        lanes = int(m["width"][:-1]) if m["width"] != "??" else None
        speed = link_speed(lanes, m["speed"])
        self._rows.interface(number, a, speed_bps=speed, lanes=lanes, up=True)
        self._rows.cable(number, a, b, speed, lanes, up=True)
