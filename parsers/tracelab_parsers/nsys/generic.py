"""Metrics that plugins of the profiler take (EFA, NVML, network interfaces): they lie among generic events.

Exports hold the values of an event as rows of GENERIC_EVENT_DATA, older ones as a JSON text. Events of the operating system
lie there, too; what is a metric, the names of the source, of the type or of its fields tell.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab_parsers.counters.bulk import Key, Numbers
from tracelab_parsers.counters.device_kinds import device_kind_of
from tracelab_parsers.counters.values import MAX_RAW, read_number
from tracelab_parsers.counters.writing import Subject
from tracelab_parsers.nsys.columns import Ints, filled
from tracelab_parsers.nsys.context import Context
from tracelab_parsers.nsys.counters import Metrics, numbers_of_floats
from tracelab_parsers.nsys.fields import FieldTypes
from tracelab_parsers.nsys.metric_names import generic_meaning, gpu_meaning
from tracelab_parsers.nsys.session import small_rows
from tracelab_parsers.nsys.source import Field, newest

__all__ = ["generic_metrics"]

_METRIC_SOURCE = re.compile(r"(?<![a-z])(?:efa|nvml|nic|network|infiniband|power|gpu metrics|metrics?)(?![a-z])", re.IGNORECASE)
_GPU = re.compile(r"gpu metrics", re.IGNORECASE)
_RATE = re.compile(r"per second\s*$", re.IGNORECASE)
_DATA = (Field("genericEventId"), Field("fieldIdx"), Field("intVal"), Field("uintVal"), Field("floatVal", "real"), Field("doubleVal", "real"))
_EVENTS = (Field("genericEventId"), Field("timestamp"), Field("typeId"), Field("data", "text"))
_LONGEST_NAME = 200


class _Types:
    """Types of events that are metrics: names of their fields, and who is counted."""

    def __init__(self, context: Context) -> None:
        self._context, self._fields = context, FieldTypes.read(context.source)
        of_type: dict[int, dict[int, str]] = defaultdict(dict)
        for (kind, index), name in self._fields.names.items():
            of_type[kind][index] = context.names.one(name) or f"field {index}"
        rows = list(small_rows(context.source, "GENERIC_EVENT_TYPES", *map(Field, ("typeId", "sourceId", "nameId")), Field("data", "text")))
        described = small_rows(context.source, "GENERIC_EVENT_SOURCES", *map(Field, ("sourceId", "nameId")), Field("data", "text"))
        sources = {r["sourceId"]: self._name(r) for r in described}
        names = {r["typeId"]: self._name(r) for r in rows if r["typeId"] is not None}
        self.fields = of_type
        self.subjects: dict[int, Subject] = {}
        self.gpus: set[int] = set()
        # their values stand in a table of their own
        own_table = "TARGET_INFO_GPU_METRICS" if newest(context.source.tables, "GPU_METRICS") is not None else ""
        taken = {r["typeId"] for r in small_rows(context.source, own_table, Field("typeId"))}
        for row in rows:
            kind, source = row["typeId"], sources.get(row["sourceId"], "")
            if kind is None or kind in taken:
                continue
            told = f"{source} {names[kind]}"
            if _METRIC_SOURCE.search(told) or any(map(_RATE.search, of_type[kind].values())):
                self.subjects[kind] = self._subject(kind, names, told)

    @staticmethod
    def name_in(data: object) -> str:
        """The name in a JSON description."""
        try:
            value = msgspec.json.decode(data) if isinstance(data, str) else None
        except (msgspec.DecodeError, RecursionError):
            return ""
        found = value.get("Name", value.get("name")) if isinstance(value, dict) else None
        return found[:_LONGEST_NAME] if isinstance(found, str) else ""

    def _name(self, row: Mapping[str, Any]) -> str:
        return (self._context.names.one(row["nameId"]) if row["nameId"] is not None else None) or self.name_in(row["data"])

    def _subject(self, kind: int, names: Mapping[int, str], told: str) -> Subject:
        """Who a type of event counts. The lowest byte numbers the devices of one kind: it is named where their types are called alike."""
        host, index = self._context.session.host, kind & 0xFF
        if _GPU.search(told):
            self.gpus.add(kind)
            return Subject("gpu", str(index), node=host, node_kind="host", uid=self._context.session.gpu_uuids.get(index))
        name = names[kind] or "metrics"
        alike = sum(n == names[kind] for n in names.values()) > 1
        return Subject(device_kind_of(name), f"{name} {index}" if alike else name, node=host, node_kind="host")


def generic_metrics(context: Context, metrics: Metrics) -> None:
    """Adds the metrics among generic events to `metrics.samples`; counts every other event as not stored."""
    table = newest(context.source.tables, "GENERIC_EVENTS")
    if table is None:
        return
    types = _Types(context)
    if not types.subjects:
        context.lost["generic_events"] += context.source.count(table)
        return
    wanted = np.array(sorted(types.subjects), np.int64)
    ids: list[Ints] = []
    moments: list[Ints] = []
    kinds: list[Ints] = []
    keys: dict[tuple[int, str], Key] = {}
    for batch in context.source.batches(table, _EVENTS):
        rows = context.timed(batch, "GENERIC_EVENTS", start="timestamp", points=True)
        kind, _ = filled(rows.batch, "typeId")
        at = np.flatnonzero(np.isin(kind, wanted))
        context.stored["plugin metric"] += len(at)
        context.lost["generic_events"] += len(kind) - len(at)
        if not len(at):
            continue
        chosen = rows.batch.take(pa.array(at))
        ids.append(filled(chosen, "genericEventId")[0])
        moments.append(rows.ts[at])
        kinds.append(kind[at])
        texts = chosen.column("data")
        if texts.null_count < len(texts):
            _from_texts(types, metrics, keys, zip(ids[-1].tolist(), rows.ts[at].tolist(), kind[at].tolist(), texts.to_pylist(), strict=True))
    if ids:
        _from_data(context, types, metrics, keys, *map(np.concatenate, (ids, moments, kinds)))


def _key(types: _Types, keys: dict[tuple[int, str], Key], kind: int, name: str) -> Key:
    found = keys.get((kind, name))
    if found is None:
        meaning = gpu_meaning(name) if kind in types.gpus else generic_meaning(name)
        found = keys[kind, name] = Key(types.subjects[kind], name, meaning)
    return found


def _from_texts(types: _Types, metrics: Metrics, keys: dict[tuple[int, str], Key], events: Iterable[tuple[int, int, int, str | None]]) -> None:
    """Values of events that are JSON objects."""
    found: list[Key] = []
    rows: list[tuple[int, int, float]] = []
    for line, ts, kind, text in events:
        for name, number in _numbers_in(text):
            found.append(_key(types, keys, kind, name))
            rows.append((line, ts, number))
    if rows:
        lines, moments = np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows], np.int64)
        of, unique = _codes(found)
        metrics.samples.add(unique, of, lines, _exact([r[2] for r in rows]), ts_ns=metrics.stamps(moments), quality="collector")


def _exact(numbers: list[float]) -> Numbers:
    """Whole numbers as they are written; a float holds only those up to 2**53."""
    floats = numbers_of_floats(np.array(numbers, np.float64))
    whole = np.array([isinstance(n, int) and 0 <= n <= MAX_RAW for n in numbers], np.bool_)
    raw = np.array([n if w else 0 for n, w in zip(numbers, whole.tolist(), strict=True)], np.uint64)
    return floats._replace(raw=np.where(whole, raw, floats.raw), whole=whole | floats.whole)


def _codes(found: list[Key]) -> tuple[Ints, list[Key]]:
    place: dict[Key, int] = {}
    of = np.array([place.setdefault(k, len(place)) for k in found], np.int64)
    return of, list(place)


def _numbers_in(text: str | None) -> Iterator[tuple[str, float]]:
    try:
        value = msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError):
        return
    for name, stated in value.items() if isinstance(value, dict) else ():
        number: float | None = None
        if isinstance(stated, (int, float)) and not isinstance(stated, bool):
            number = stated
        elif isinstance(stated, str):
            try:
                number = read_number(stated)
            except ValueError:
                continue
        if number is not None and abs(number) < 1e300:
            yield name[:_LONGEST_NAME], number


def _from_data(context: Context, types: _Types, metrics: Metrics, keys: dict[tuple[int, str], Key], ids: Ints, moments: Ints, kinds: Ints) -> None:
    """Values of events in GENERIC_EVENT_DATA: of the four columns the first that has one."""
    table = newest(context.source.tables, "GENERIC_EVENT_DATA")
    order = np.argsort(ids, kind="stable")
    ids, moments, kinds = ids[order], moments[order], kinds[order]
    for batch in context.source.batches(table, _DATA) if table is not None else ():
        event, stated = filled(batch, "genericEventId")
        at = np.minimum(np.searchsorted(ids, event), len(ids) - 1)
        mine = np.flatnonzero(stated & (ids[at] == event))
        if not len(mine):
            continue
        rows, at = batch.take(pa.array(mine)), at[mine]
        fields = filled(rows, "fieldIdx")[0]
        unique, positions = np.unique(np.stack([kinds[at], fields], axis=1), axis=0, return_inverse=True)
        made = [_key(types, keys, int(k), types.fields[int(k)].get(int(f), f"field {f}")) for k, f in unique]
        metrics.samples.add(made, positions.ravel(), event[mine], _values(rows), ts_ns=metrics.stamps(moments[at]), quality="collector")


def _values(rows: pa.RecordBatch) -> Numbers:
    """Exact where a whole number from 0 on is stated, whatever the rows beside it hold."""
    unsigned, has_unsigned = filled(rows, "uintVal")
    signed, has_signed = filled(rows, "intVal")
    floats = numbers_of_floats(pc.coalesce(rows.column("floatVal"), rows.column("doubleVal")).fill_null(np.nan).to_numpy(zero_copy_only=False))
    negative = has_signed & (signed < 0)
    exact = (has_signed | has_unsigned) & ~negative
    raw = np.where(has_signed, signed, unsigned).astype(np.uint64)
    value = np.where(negative, signed, np.where(exact, raw.astype(np.float64), floats.value))
    return Numbers(np.where(exact, raw, floats.raw), exact | (floats.whole & ~negative), value, exact | negative | floats.stated)
