"""Two passes over a dump of SONiC's databases: names, then what they name."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import CABLES, INTERFACES
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.sonic_db_objects import ObjectNames
from tracelab_parsers.counters.sonic_db_records import Record, records
from tracelab_parsers.counters.sonic_meanings import db_meaning
from tracelab_parsers.counters.switch_values import SWITCH_TEXTS, address, json_number, vendor
from tracelab_parsers.counters.writing import Samples, Subject
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.nccl_json.values import whole
from tracelab_parsers.topology.lldp_rows import LldpRows, Neighbour, kind_by_capabilities

__all__ = ["Reading"]

_COUNTED = frozenset({"COUNTERS", "RATES", "USER_WATERMARKS", "PERSISTENT_WATERMARKS", "PERIODIC_WATERMARKS", "CRM", "PORT_PHY_ATTR"})
_MEMBERS = frozenset({"PORTCHANNEL_MEMBER", "LAG_MEMBER_TABLE"})
_STATUS = {"operational": 0.0, "stormed": 1.0}
_DOM = (
    (re.compile(r"temperature"), Meaning("module_temperature", width=0)),
    (re.compile(r"rx(\d+)power"), Meaning("rx_power", "rx", width=0)),
    (re.compile(r"tx(\d+)power"), Meaning("tx_power", "tx", width=0)),
)
_UNIT = re.compile(r"\s*(?:dBm|C|mA|Volts)$")
_CAPABILITIES = ((0x20, "Bridge"), (0x08, "Router"), (0x01, "Station"))


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(SWITCH_TEXTS)
        self._samples = Samples(emit)
        self._interfaces = RowBuffer(INTERFACES, emit)
        self._cables = RowBuffer(CABLES, emit)
        self._lldp = LldpRows(emit)
        self._names = ObjectNames()
        self._unnamed: set[str] = set()
        self._hosts: dict[str, str | None] = {}
        self._counts = dict.fromkeys(("numbers", "interfaces", "cables", "texts", "other records"), 0)

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            for record in records(stream, Notices(SWITCH_TEXTS)):
                self._learn(record)
        with ByteStream(self._source.path) as stream:
            for record in records(stream, self._notices):
                self._read(record)
                if record.number % 1000 == 0:
                    self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            self._notices.damage(stream.damage)
            return self._finish(torn=stream.torn)

    def _finish(self, *, torn: bool) -> SourceInfo:
        self._samples.close()
        self._interfaces.flush()
        self._cables.flush()
        self._lldp.flush()
        counts = self._counts
        counts["numbers"] = self._samples.count
        counts["interfaces"] += self._lldp.interfaces
        counts["cables"] += self._lldp.cables
        stored = ("numbers", "interfaces", "cables")
        self._notices.add("no-counters", 0, int(not any(counts[k] for k in stored)))
        self._notices.emit(self._emit)
        events = [EventCount(kind, n, kind in stored) for kind, n in counts.items() if n]
        return SourceInfo([], event_counts=events, truncated=torn or "truncated" in self._notices)

    def _learn(self, record: Record) -> None:
        fields = record.fields
        if fields is None:
            return
        if self._names.wanted(record.table):
            self._names.add(record.table, fields)
        elif record.table == "DEVICE_METADATA" and isinstance(fields.get("hostname"), str):
            self._hosts[fields["hostname"]] = address(fields.get("mac"))

    def _node(self, record: Record) -> str | None:
        """The one machine that the file's configuration names, or that of the prompt."""
        return next(iter(self._hosts)) if len(self._hosts) == 1 else record.context.node

    def _read(self, record: Record) -> None:
        fields, table = record.fields, record.table
        if fields is None:
            self._counts["other records"] += 1
        elif table in _COUNTED and record.rest:
            self._counters(record, fields)
        elif table in ("PORT", "PORT_TABLE") and record.rest:
            self._port(record, fields)
        elif table in _MEMBERS and re.fullmatch(r"[^|:]+[|:][^|:]+", record.rest):
            bond, port = re.split(r"[|:]", record.rest)
            self._interface(record, netdev=port, bond=bond, origin="table")
        elif table == "TRANSCEIVER_INFO" and record.rest:
            self._interface(record, netdev=record.rest, cable=_cable(fields), origin="table")
        elif table == "TRANSCEIVER_DOM_SENSOR" and record.rest:
            self._optics(record, fields)
        elif table == "LLDP_ENTRY_TABLE" and record.rest:
            self._lldp.add(_heard(record, fields, self._node(record)))
        elif table == "DEVICE_NEIGHBOR" and record.rest:
            self._planned(record, fields)
        else:
            known = table.endswith("_MAP") or table == "DEVICE_METADATA"
            self._counts["other records"] += int(not known)

    def _counters(self, record: Record, fields: dict[str, Any]) -> None:
        node, table = self._node(record), record.table
        for name, value in fields.items():
            if table == "CRM":
                kind, subject, queue = "crm", Subject("switch", f"CRM:{record.rest}", node=node, node_kind="switch"), None
            elif record.rest.startswith("oid:"):
                kind, subject, queue, known = self._names.of(record.rest, node, name)
                if not known and record.rest not in self._unnamed:
                    self._unnamed.add(record.rest)
                    self._notices.add("unnamed-object")
            else:
                kind, subject, queue = "other", Subject("other", record.rest, node=node, node_kind="switch"), None
            number = self._number(name, value)
            if number is not _TEXT:
                meaning = db_meaning(table, kind, name)
                self._samples.add(record.number, subject, name, meaning, number, ts_ns=record.ts_ns, quality=self._quality(record), queue=queue)

    def _number(self, name: str, value: object) -> Any:
        """The number of a field; `_TEXT` where it is none, which is counted."""
        if name == "PFC_WD_STATUS" and value in _STATUS:
            return _STATUS[str(value)]
        try:
            return json_number(value)
        except ValueError:
            if isinstance(value, int | Decimal):
                self._notices.add("bad-number")
                return None
            self._counts["texts"] += 1
            return _TEXT

    def _quality(self, record: Record) -> Any:
        return "device" if record.ts_ns is not None else None

    def _optics(self, record: Record, fields: dict[str, Any]) -> None:
        subject = Subject("switch-port", record.rest, node=self._node(record), node_kind="switch")
        for name, value in fields.items():
            number = self._number(name, _UNIT.sub("", value) if isinstance(value, str) else value)
            if number is _TEXT:
                continue
            meaning, queue = vendor(name, None, None, "gauge"), None
            for pattern, known in _DOM:
                if (m := pattern.fullmatch(name)) is not None:
                    meaning, queue = known, f"lane {m[1]}" if m.groups() else None
            self._samples.add(record.number, subject, name, meaning, number, ts_ns=record.ts_ns, quality=self._quality(record), queue=queue)

    def _interface(self, record: Record, **values: object) -> None:
        self._counts["interfaces"] += 1
        node = self._node(record)
        uid = self._hosts.get(node) if node is not None else None
        self._interfaces.add(line=record.number, node=node, node_kind="switch", node_uid=uid, **values)

    def _port(self, record: Record, fields: dict[str, Any]) -> None:
        if record.rest in ("PortConfigDone", "PortInitDone", "ConfigDone"):
            return
        speed, lanes, state = whole(fields.get("speed"), 32), _text(fields.get("lanes")), _text(fields.get("oper_status"))
        self._interface(
            record,
            netdev=record.rest,
            alias=_text(fields.get("alias")) or _text(fields.get("description")),
            speed_bps=speed * 10**6 if speed else None,
            lanes=lanes.count(",") + 1 if lanes else None,
            mtu=whole(fields.get("mtu"), 32),
            link_layer="Ethernet",
            up=state == "up" if state in ("up", "down") else None,
            origin="table",
        )
        if "flap_count" in fields:
            subject = Subject("switch-port", record.rest, node=self._node(record), node_kind="switch")
            number = self._number("flap_count", fields["flap_count"])
            if number is not _TEXT:
                meaning = vendor("flap_count", None, "event")
                self._samples.add(record.number, subject, "flap_count", meaning, number, ts_ns=record.ts_ns, quality=self._quality(record))

    def _planned(self, record: Record, fields: dict[str, Any]) -> None:
        """A cable that the configuration plans."""
        name, port = _text(fields.get("name")), _text(fields.get("port"))
        if name is None:
            return
        self._counts["cables"] += 1
        local = _text(fields.get("local_port")) or record.rest
        self._cables.add(line=record.number, a_node=self._node(record), a_kind="switch", a_port=local, b_node=name, b_port=port, origin="table")


_TEXT = object()


def _text(value: object) -> str | None:
    return value.strip()[:256] or None if isinstance(value, str) and value.strip().upper() != "N/A" else None


def _cable(fields: dict[str, Any]) -> str | None:
    keys = ("type", "manufacturer", "vendor_name", "model", "cable_type", "cable_length")
    return " ".join(t for k in keys if (t := _text(fields.get(k))) is not None)[:256] or None


def _heard(record: Record, fields: dict[str, Any], node: str | None) -> Neighbour:
    def stated(name: str) -> str | None:
        return _text(fields.get(f"lldp_rem_{name}"))

    return Neighbour(
        record.number,
        local=record.rest,
        node=node,
        node_kind="switch",
        name=stated("sys_name"),
        chassis=stated("chassis_id"),
        kind=kind_by_capabilities(_capabilities(stated("sys_cap_enabled"))),
        port=stated("port_id"),
        port_text=stated("port_desc"),
    )


def _capabilities(octets: str | None) -> set[str]:
    """The bits of LldpSystemCapabilitiesMap (IEEE 802.1AB MIB), which SONiC prints as hexadecimal octets: 28 00 is bridge and router."""
    first = re.match(r"[0-9A-Fa-f]{2}", octets or "")
    bits = int(first[0], 16) if first is not None else 0
    return {name for bit, name in _CAPABILITIES if bits & bit}
