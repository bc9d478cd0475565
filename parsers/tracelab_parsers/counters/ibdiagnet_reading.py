"""Two passes over ibdiagnet's tables: nodes first, then what is known of their ports."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.ibdiagnet_sections import Row, plain, rows_of, small
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.notices import TEXTS, described
from tracelab_parsers.counters.perfquery_names import AGGREGATE_PORT, apart, error_rate_meaning, is_full, port_meaning
from tracelab_parsers.counters.values import read_number
from tracelab_parsers.counters.writing import Samples, Subject
from tracelab_parsers.nccl_json.notices import Notices, NoticeText
from tracelab_parsers.topology.ibnetdiscover_names import Kind, Names, guid_of, link_speed
from tracelab_parsers.topology.ibnetdiscover_rows import FABRIC_TEXTS, End, FabricRows

__all__ = ["Reading"]

_TEXTS = (
    TEXTS
    | FABRIC_TEXTS
    | {
        "bad-row": NoticeText("warning", "rows do not fit the columns of their section and were left out", "collect the file again"),
        "no-port": NoticeText("warning", "rows name no node or no port and were left out"),
        "nothing-known": NoticeText("warning", "the file holds no counters, no links and no ports", "run ibdiagnet with --pc and --get_cable_info"),
    }
)
_KINDS: dict[str, Kind | None] = {"1": "host", "2": "switch", "ca": "host", "sw": "switch"}
_COUNTED = frozenset({"PM_INFO", "PM_DELTA"})
_KEYS = frozenset({"nodeguid", "portguid", "portnum", "lid", "nodedesc", "systemimageguid"})
_WIDTHS = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
"""PortInfo:LinkWidthActive (IBA 14.2.5.6)."""
_SPEEDS = {1: "SDR", 2: "DDR", 4: "QDR", 1 << 8: "FDR", 1 << 9: "EDR", 1 << 10: "HDR", 1 << 11: "NDR", 1 << 12: "XDR", 1 << 16: "FDR10"}
"""PortInfo:LinkSpeedActive in the low byte, LinkSpeedExtActive above it."""
_STATES = {1: False, 2: False, 3: False, 4: True}
_CABLE_COLUMNS = ("vendor", "pn", "type", "typedesc", "identifier", "lengthdesc", "length")
_TEMPERATURE = re.compile(r"(-?\d{1,4}(?:\.\d{1,6})?) ?C?")
_POWER = re.compile(r"(?:[\d.]+ ?mW,? ?)?(-?\d{1,3}(?:\.\d{1,6})?) ?dBm")
_LANE_POWER = re.compile(r"(rx|tx)(?:(\d)power|power(?:lane)?(\d)?)")


class _Node(NamedTuple):
    kind: Kind | None
    ports: int | None
    port_guid: str | None


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._samples = Samples(emit)
        self._rows = FabricRows(emit, self._notices, "ibdiagnet")
        self._names = Names()
        self._nodes: dict[str, _Node] = {}
        self._meanings: dict[tuple[str, ...], dict[str, Meaning]] = {}
        self._counts = {"sums over all ports": 0, "rows of other sections": 0}

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            for row in rows_of(stream, Notices(_TEXTS)):
                if row.section == "NODES":
                    self._node(row)
        with ByteStream(self._source.path) as stream:
            for row in rows_of(stream, self._notices):
                self._row(row)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            self._notices.damage(stream.damage)
            torn = stream.torn
        self._samples.close()
        counts = [EventCount("counters", self._samples.count, stored=True), *self._rows.flush()]
        self._notices.add("nothing-known", 0, int(not any(c.count for c in counts)))
        self._notices.emit(self._emit)
        counts += [EventCount(kind, n, stored=False) for kind, n in self._counts.items()]
        return described(counts, self._notices, torn=torn)

    def _node(self, row: Row) -> None:
        guid = guid_of(row.values.get("nodeguid"))
        if guid is None:
            return
        kind = _KINDS.get(row.values.get("nodetype", "").lower())
        self._names.add(guid, row.values.get("nodedesc", ""), kind)
        self._nodes[guid] = _Node(kind, small(row.values.get("numports")), guid_of(row.values.get("portguid")))

    def _row(self, row: Row) -> None:
        if row.section in _COUNTED:
            self._counters(row)
        elif row.section == "LINKS":
            self._link(row)
        elif row.section == "PORTS":
            self._port(row)
        elif row.section == "CABLE_INFO":
            self._cable(row)
        elif row.section == "TEMP_SENSING":
            self._temperatures(row)
        elif row.section != "NODES":
            self._counts["rows of other sections"] += 1

    def _end(self, row: Row, suffix: str = "", lid: int | None = None) -> End | None:
        """The port that a row is about; None, and counted, where it names none."""
        guid = guid_of(row.values.get(f"nodeguid{suffix}")) or guid_of(row.values.get(f"portguid{suffix}"))
        port = small(row.values.get(f"portnum{suffix}"))
        if guid is None or port is None:
            self._notices.add("no-port", row.offset)
            return None
        node = self._nodes.get(guid, _Node(None, None, None))
        stated = guid_of(row.values.get(f"portguid{suffix}"))
        port_guid = stated or (node.port_guid if node.ports == 1 else None)
        kind = node.kind or ("switch" if port > 2 else None)
        return End(self._names.machine(guid, None, kind), port, guid, port_guid, lid)

    def _subject(self, end: End) -> Subject:
        machine = end.machine
        if machine.kind == "switch":
            return Subject("switch-port", node=machine.node, node_kind="switch", port=end.port)
        name = machine.device or end.port_guid or end.guid
        return Subject("rdma", name, node=machine.node, node_kind=machine.kind, port=end.port, uid=end.uid)

    def _counters(self, row: Row) -> None:
        end = self._end(row)
        if end is None:
            return
        meanings = self._meanings.get(row.columns)
        if meanings is None:
            columns = [c for c in row.columns if plain(c) not in _KEYS]
            meanings = self._meanings[row.columns] = apart((c, _meaning(c)) for c in columns)
        if end.port == AGGREGATE_PORT:
            self._counts["sums over all ports"] += len(meanings)
            return
        subject = self._subject(end)
        delta = row.section == "PM_DELTA"
        for column, meaning in meanings.items():
            number = self._number(row, row.values[plain(column)])
            stated = Meaning(f"vendor.{column}", meaning.direction, meaning.scale, 0, kind="delta", unit=meaning.stated_unit) if delta else meaning
            flags = "saturated" if is_full(stated, number) else None
            self._samples.add(row.line, subject, column, stated, number, flags=flags)

    def _number(self, row: Row, text: str) -> float | None:
        try:
            return read_number(text)
        except ValueError:
            self._notices.add("bad-number", row.offset)
            return None

    def _link(self, row: Row) -> None:
        a, b = self._end(row, "1"), self._end(row, "2")
        if a is not None and b is not None:
            self._rows.cable(row.line, a, b)

    def _port(self, row: Row) -> None:
        lid = small(row.values.get("lid")) or None
        end = self._end(row, lid=lid)
        if end is None or (end.port == 0 and end.machine.kind != "host"):  # port 0 is the switch itself
            return
        state = small(row.values.get("portstate"))
        up = _STATES.get(state) if state is not None else None
        lanes = _WIDTHS.get(small(row.values.get("linkwidthactv")) or 0) if up is not False else None
        speed = _SPEEDS.get(small(row.values.get("linkspeedactv")) or 0, "") if up is not False else ""
        mtu = small(row.values.get("nmtu"))
        self._rows.interface(
            row.line, end, speed_bps=link_speed(lanes, speed), lanes=lanes, up=up, mtu=128 << mtu if mtu is not None and 1 <= mtu <= 5 else None
        )

    def _cable(self, row: Row) -> None:
        end = self._end(row)
        if end is None:
            return
        stated = [row.values.get(c, "") for c in _CABLE_COLUMNS]
        text = " ".join(dict.fromkeys(s for s in stated if s and s.upper() not in ("N/A", "NA")))[:256]
        if text:
            self._rows.interface(row.line, end, cable=text)
        subject = self._subject(end)
        for column in row.columns:
            name, value = plain(column), row.values[plain(column)]
            lane = _LANE_POWER.fullmatch(name)
            if name == "temperature" and (m := _TEMPERATURE.fullmatch(value)) is not None:
                self._samples.add(row.line, subject, column, Meaning("module_temperature", width=0), float(m[1]))
            elif lane is not None and (m := _POWER.fullmatch(value)) is not None:
                meaning = Meaning("rx_power", "rx", width=0) if lane[1] == "rx" else Meaning("tx_power", "tx", width=0)
                number = lane[2] or lane[3]
                self._samples.add(row.line, subject, column, meaning, float(m[1]), queue=f"lane {number}" if number else None)

    def _temperatures(self, row: Row) -> None:
        guid = guid_of(row.values.get("nodeguid"))
        if guid is None:
            self._notices.add("no-port", row.offset)
            return
        machine = self._names.machine(guid, None, self._nodes.get(guid, _Node(None, None, None)).kind)
        subject = Subject("switch" if machine.kind == "switch" else "other", machine.device, node=machine.node, node_kind=machine.kind)
        for column in row.columns:
            if plain(column) not in _KEYS and (m := _TEMPERATURE.fullmatch(row.values[plain(column)])) is not None:
                meaning = Meaning(f"vendor.{column}", width=0, kind="gauge", unit="celsius")
                self._samples.add(row.line, subject, column, meaning, float(m[1]))


def _meaning(column: str) -> Meaning:
    low = plain(column)
    if low.endswith("ber"):
        return error_rate_meaning(column, corrected="raw" not in low)
    return port_meaning(column, extended=low.endswith(("ext", "extended")) or low.startswith(("portunicast", "portmulticast")))
