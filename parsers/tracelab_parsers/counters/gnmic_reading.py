"""Notifications of gNMI to counters."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.gnmic_meanings import leaf_of, number_of
from tracelab_parsers.counters.gnmic_paths import Entity, entity, flatten, list_items, node_name, tags_of_elements, xpath
from tracelab_parsers.counters.gnmic_records import records
from tracelab_parsers.counters.notices import described
from tracelab_parsers.counters.switch_moments import EARLIEST_NS, LATEST_NS
from tracelab_parsers.counters.writing import Samples, Subject
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.notices import NoticeText as _Text
from tracelab_parsers.nccl_json.values import decode, mapping, text, whole

__all__ = ["TELEMETRY_TEXTS", "Reading", "subject_of", "time_of"]

_AGAIN = "the collector was stopped while it wrote, or the copy is incomplete"
TELEMETRY_TEXTS: dict[str, _Text] = {
    "truncated": _Text("warning", "the file ends in the middle of a record; all before it was kept", _AGAIN),
    "bad-record": _Text("warning", "records that cannot be read were left out", _AGAIN),
    "oversized-record": _Text("warning", "records larger than 32 MiB were left out", "subscribe to counters instead of whole trees"),
    "unread-lines": _Text("info", "text that is no record was left out"),
    "unknown-record": _Text("info", "records of other kinds were left out"),
    "bad-number": _Text("warning", "values of counters that are no numbers were kept as missing"),
    "bad-time": _Text("warning", "records state no usable time; their numbers were kept without one"),
    "line-too-long": _Text("warning", "lines larger than 1 MiB were left out"),
    "bad-line": _Text("warning", "lines that are no line protocol were left out", "a line of other text, or two writers in one file"),
    "no-counters": _Text("warning", "the file holds no counters", "see that the subscription or plugin covers interfaces"),
}

_NO_PLUG = re.compile(r"(?:port-?channel|vlan|bdi|loopback|tunnel|vxlan|nve|null|po\d|lag|ae\d|irb|bond|lo\d?$|system\d)", re.IGNORECASE)
_SECONDS, _MILLIS, _MICROS = 10**11, 10**14, 10**17


def time_of(value: object) -> int | None:
    """A moment since 1970 in ns, whatever unit it is printed in: its size tells; None where it is none from 1971 to 2096."""
    number = whole(value)
    if number is None:
        return None
    scale = 10**9 if number < _SECONDS else 10**6 if number < _MILLIS else 10**3 if number < _MICROS else 1
    return number * scale if EARLIEST_NS <= number * scale < LATEST_NS else None


def subject_of(found: Entity, node: str | None) -> Subject:
    """Who a notification of a switch counts: a port; the parts of one, and bundles of several, are other things."""
    if found.device is not None:
        if found.sub is not None:
            return Subject("other", f"{found.device}.{found.sub}", node=node, node_kind="switch")
        return Subject("other" if _NO_PLUG.match(found.device) else "switch-port", found.device, node=node, node_kind="switch")
    return Subject("other" if found.component is not None else "switch", found.component, node=node, node_kind="switch")


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(TELEMETRY_TEXTS)
        self._samples = Samples(emit)
        self._subjects: dict[tuple[Entity, str | None], Subject] = {}
        self._texts = self._deletes = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            for record in records(stream, notices.add):
                self._record(record.number, record.value)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        self._samples.close()
        notices.add("no-counters", 0, int(not self._samples.count))
        notices.emit(self._emit)
        counts = [
            EventCount("numbers", self._samples.count, stored=True),
            EventCount("texts", self._texts, stored=False),
            EventCount("deletes", self._deletes, stored=False),
        ]
        return described(counts, notices, torn=torn)

    def _record(self, line: int, record: dict[str, Any]) -> None:
        if "sync-response" in record or "syncResponse" in record:
            return
        known = False
        for node, ts, leaves in _notifications(record):
            known = True
            ts_ns = time_of(ts)
            self._notices.add("bad-time", None, int(ts_ns is None))
            for path, value, tags in leaves:
                self._leaf(line, node, ts_ns, path, value, tags)
        deletes = record.get("deletes") or mapping(record.get("update")).get("delete")
        if isinstance(deletes, list):
            self._deletes += len(deletes)
            known = True
        self._notices.add("unknown-record", None, int(not known))

    def _leaf(self, line: int, node: str | None, ts_ns: int | None, path: str, value: object, tags: Mapping[str, str]) -> None:
        leaf = leaf_of(path)
        found = entity(tags)
        try:
            read = number_of(leaf, value)
        except ValueError:
            self._notices.add("bad-number")
            read = leaf.meaning, None
        if read is None:
            self._texts += 1
            return
        if found.device is None and found.component is None:
            found = _of_database(path, found)
        key = (found, node)
        subject = self._subjects.get(key) or self._subjects.setdefault(key, subject_of(found, node))
        priority = found.priority if read[0].priority is None else None
        self._samples.add(line, subject, path, read[0], read[1], ts_ns=ts_ns, quality="device", queue=found.queue, priority=priority)


_Leaves = Iterator[tuple[str, object, Mapping[str, str]]]


def _notifications(record: dict[str, Any]) -> Iterator[tuple[str | None, object, _Leaves]]:
    """Machine, moment and leaves of what a record holds; nothing where it has none of the known forms."""
    tags, values = record.get("tags"), record.get("values")
    if isinstance(tags, dict) and (values is None or isinstance(values, dict)):
        named = {k: v for k, v in tags.items() if isinstance(v, str)}
        yield _node(named.get("system-name"), named.get("source"), named.get("target")), record.get("timestamp"), list_items(values or {}, named)
    elif isinstance(record.get("updates"), list):
        node = _node(record.get("system-name"), record.get("source"), record.get("target"))
        yield node, record.get("timestamp"), _of_updates(text(record.get("prefix")) or "", record["updates"])
    elif isinstance(record.get("update"), dict):
        inner = record["update"]
        target = mapping(inner.get("prefix")).get("target")
        yield _node(None, None, target), inner.get("timestamp"), _of_protobuf(inner)
    elif isinstance(record.get("update"), list) and "timestamp" in record:
        yield _node(None, None, mapping(record.get("prefix")).get("target")), record["timestamp"], _of_protobuf(record)


def _node(system: object, source: object, target: object) -> str | None:
    return node_name(system) or node_name(source) or node_name(target)


def _of_updates(prefix: str, updates: list[Any]) -> _Leaves:
    """Leaves of the form json: a path with keys, and values under the same path without them, below a prefix."""
    before, outer = xpath(prefix)
    for update in updates:
        path, tags = xpath(str(mapping(update).get("Path") or ""))
        for value in mapping(mapping(update).get("values")).values():
            yield from flatten("/".join(p for p in (before, path) if p), value, {**outer, **tags})


def _of_protobuf(notification: dict[str, Any]) -> _Leaves:
    """Leaves of protobuf's JSON form."""
    before, outer = tags_of_elements(notification.get("prefix"))
    updates = notification.get("update")
    for update in updates if isinstance(updates, list) else ():
        path, tags = tags_of_elements(mapping(update).get("path"))
        value = _typed(mapping(mapping(update).get("val")))
        yield from flatten("/".join(p for p in (before, path) if p), value, {**outer, **tags})


def _typed(value: dict[str, Any]) -> object:
    """A typed value: the only member, whose name tells how it is written."""
    for name, inner in value.items():
        kind = name.replace("_", "").lower()
        if kind in ("jsonietfval", "jsonval") and isinstance(inner, str):
            try:
                return decode(base64.b64decode(inner, validate=True))
            except (binascii.Error, ValueError):
                return None
        if kind == "decimalval":
            digits, precision = whole(mapping(inner).get("digits")), whole(mapping(inner).get("precision") or 0, 8)
            return None if digits is None or precision is None else Decimal(digits).scaleb(-precision)
        return inner
    return None


_DATABASE = re.compile(r"^/?(?:COUNTERS_DB/|SONiC_DB[^/]*/)*COUNTERS/(Ethernet[^/:]+)(?::(\d+))?/")


def _of_database(path: str, found: Entity) -> Entity:
    """The port, and the queue of it, that stand in the paths of SONiC's databases as elements instead of keys."""
    m = _DATABASE.match(path)
    return found if m is None else found._replace(device=m[1], queue=m[2] or found.queue)
