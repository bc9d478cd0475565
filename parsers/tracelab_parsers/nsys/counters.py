"""Hardware metrics of GPUs, network cards and InfiniBand switches, as rows of `counter_samples`: they are of machines, not of ranks.

Metrics of networks are rates over the interval between two samples; what was counted in it is their product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracelab.plugins import Emitter
from tracelab_parsers.counters.bulk import Bulk, Key, Numbers
from tracelab_parsers.counters.device_kinds import device_kind_of
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.writing import Subject
from tracelab_parsers.nsys.columns import Flags, Ints, Timed, filled
from tracelab_parsers.nsys.context import Context
from tracelab_parsers.nsys.fields import FieldTypes
from tracelab_parsers.nsys.metric_names import gpu_meaning, is_clock, network_metric
from tracelab_parsers.nsys.session import small_rows
from tracelab_parsers.nsys.source import Field, newest

__all__ = ["Metrics", "numbers_of_floats"]

_GPU = (Field("timestamp"), Field("typeId"), Field("metricId"), Field("value", "real"))
_NET = (*map(Field, ("start", "end", "globalId", "portId", "metricsListId", "metricsIdx")), Field("value", "real"))
_CONGESTION = tuple(map(Field, ("start", "globalId", "congestionType", "switchEgressPort")))
_U64 = (1 << 64) - 1
_LONGEST_NS = 3_600 * 10**9
"""Cards of low frequency begin with a row that lasts from before the session: no sample takes an hour."""
_SLOWEST_HZ = 100_000
"""A clock below this is stated in MHz, for no clock of a GPU is so slow in Hz, or so quick in MHz."""
_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass
class _Card:
    name: str
    guid: int | None
    ethernet: bool


@dataclass
class Metrics:
    """Reads all tables of metrics once. `samples` gathers rows of `counter_samples`, also for others."""

    context: Context
    emit: Emitter
    samples: Bulk = field(init=False)

    def __post_init__(self) -> None:
        self.samples = Bulk(self.emit)

    def read(self) -> None:
        """Adds all of them to `samples`."""
        self._gpus()
        source = self.context.source
        listed = small_rows(source, "TARGET_INFO_NETWORK_METRICS", Field("metricsListId"), Field("metricsIdx"), Field("name", "text"), Field("unit", "text"))
        named = {(r["metricsListId"], r["metricsIdx"]): (str(r["name"]), r["unit"]) for r in listed if r["name"]}
        cards = self._cards()
        known = small_rows(source, "NET_IB_DEVICE_INFO", Field("guid"), Field("name", "text"))
        switches = {r["guid"]: str(r["name"]) for r in known if r["guid"] is not None and r["name"]}

        def card(of: int) -> _Card:
            return cards.get(of) or _Card(f"NIC {of & _U64:#x}", None, ethernet=False)

        def switch(of: int) -> _Card:
            return _Card(switches.get(of) or f"switch {of & _U64:#x}", of, ethernet=False)

        self._network("NET_NIC_METRIC", named, card, at_switch=False)
        self._network("NET_IB_SWITCH_METRIC", named, switch, at_switch=True)
        self._congestion(switch)

    def stamps(self, ts: Ints) -> Ints | None:
        """Moments as `counter_samples` has them; None where the export states no start of its session."""
        return None if self.context.session.base_lost else ts + self.context.session.base_ns

    def _cards(self) -> dict[int, _Card]:
        """Network cards by the id that samples carry: through NIC_ID_MAP, else their own id."""
        source = self.context.source
        links = small_rows(source, "ENUM_NET_LINK_TYPE", Field("id"), Field("name", "text"), Field("label", "text"))
        ethernet = {str(r["id"]) for r in links if "ethernet" in f"{r['name']} {r['label']}".lower()}
        by_nic: dict[int, _Card] = {}
        found: dict[int, _Card] = {}
        fields = (Field("GUID"), Field("globalId"), Field("nicId"), Field("name", "text"), Field("linkLayer", "text"))
        for row in small_rows(source, "TARGET_INFO_NIC_INFO", *fields):
            if not row["name"]:
                continue
            link = str(row["linkLayer"])
            card = _Card(str(row["name"]), row["GUID"], link in ethernet or link.lower() == "ethernet")
            for key in ("GUID", "globalId"):
                if row[key] is not None:
                    found.setdefault(row[key], card)
            if row["nicId"] is not None:
                by_nic.setdefault(row["nicId"], card)
        for row in small_rows(source, "NIC_ID_MAP", Field("nicId"), Field("globalId")):
            if row["globalId"] is not None and row["nicId"] in by_nic:
                found[row["globalId"]] = by_nic[row["nicId"]]
        return found

    def _gpus(self) -> None:
        context = self.context
        table = newest(context.source.tables, "GPU_METRICS")
        if table is None:
            return
        fields = (Field("typeId"), Field("metricId"), Field("metricName", "text"))
        named = {(r["typeId"], r["metricId"]): str(r["metricName"]) for r in small_rows(context.source, "TARGET_INFO_GPU_METRICS", *fields) if r["metricName"]}
        types = FieldTypes.read(context.source)
        line = 1
        for batch in context.source.batches(table, (*_GPU[:3], Field("value")) if types.bits else _GPU):
            rows = context.timed(batch, "GPU_METRICS", start="timestamp", points=True)
            n = len(rows.ts)
            if not n:
                continue
            of_type, metric = filled(rows.batch, "typeId")[0], filled(rows.batch, "metricId")[0]
            unique, positions = np.unique(np.stack([of_type, metric], axis=1), axis=0, return_inverse=True)
            positions = positions.ravel()
            keys = [(int(t), int(m)) for t, m in unique]
            names = [named.get(k) or types.name(k, context.names) or f"metric {k[1]}" for k in keys]
            values = rows.batch.column("value").cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False).copy()
            made = [self._gpu_key(k, name, values, positions == at, rows, types) for at, (k, name) in enumerate(zip(keys, names, strict=True))]
            context.stored["gpu metric"] += n
            self.samples.add(made, positions, np.arange(line, line + n), numbers_of_floats(values), ts_ns=self.stamps(rows.ts), quality="collector")
            line += n

    def _gpu_key(self, key: tuple[int, int], name: str, values: _Floats, mine: Flags, rows: Timed, types: FieldTypes) -> Key:
        """The series of a metric; puts its numbers right in `values`: what the table has are the bits of whatever type the metric is of."""
        at = np.flatnonzero(mine)
        if types.bits:
            bits, stated = filled(rows.batch.take(pa.array(at)), "value")
            values[at] = np.where(stated, types.decoded(key, bits), np.nan)
        scale = 1.0
        if is_clock(name):
            values[at] = np.where(values[at] < 0, values[at] + 2.0**32, values[at])
            scale = 1e6 if np.nanmax(values[at], initial=0.0) < _SLOWEST_HZ else 1.0
        index = key[0] & 0xFF  # of the GPU on its host
        session = self.context.session
        subject = Subject("gpu", str(index), node=session.host, node_kind="host", uid=session.gpu_uuids.get(index))
        return Key(subject, name, gpu_meaning(name, scale))

    def _subject(self, card: _Card, port: int, *, at_switch: bool) -> Subject:
        uid = f"{card.guid & _U64:016x}" if card.guid is not None else None
        if at_switch:
            return Subject("switch-port", None, node=card.name, node_kind="switch", port=port if port >= 0 else None, uid=uid)
        # ports of cards count from 1: 0 stands for a card with one port
        kind = device_kind_of(card.name)
        return Subject(kind, card.name, node=self.context.session.host, node_kind="host", port=port if port > 0 else None, uid=uid)

    def _network(self, table: str, named: dict[tuple[int, int], tuple[str, str | None]], device: Callable[[int], _Card], *, at_switch: bool) -> None:
        context, line = self.context, 1
        found = newest(context.source.tables, table)
        for batch in context.source.batches(found, _NET) if found is not None else ():
            rows = self._without_overlong(context.timed(batch, table), table)
            n = len(rows.ts)
            if not n:
                continue
            ids = np.stack([filled(rows.batch, c, -1)[0] for c in ("globalId", "portId", "metricsListId", "metricsIdx")], axis=1)
            unique, positions = np.unique(ids, axis=0, return_inverse=True)
            keys, lengths = [], []
            for of, port, listed, index in unique.tolist():
                name, unit = named.get((listed, index)) or (f"metric {listed}.{index}", None)
                card = device(of)
                metric = network_metric(name, unit, ethernet=card.ethernet)
                keys.append(Key(self._subject(card, port, at_switch=at_switch), name, metric.meaning))
                lengths.append(metric.per_ns)
            codes = positions.ravel()
            values = rows.batch.column("value").fill_null(np.nan).to_numpy(zero_copy_only=False)
            context.stored[table.lower()] += n
            per = np.array(lengths)[codes]
            counted = values * np.where(per > 0, rows.dur / np.where(per > 0, per, 1), 1)
            interval = np.where(per > 0, rows.dur, np.iinfo(np.int64).min)
            lines = np.arange(line, line + n)
            self.samples.add(keys, codes, lines, numbers_of_floats(counted), ts_ns=self.stamps(rows.ts + rows.dur), quality="collector", interval_ns=interval)
            line += n

    def _without_overlong(self, rows: Timed, table: str) -> Timed:
        usable = rows.dur < _LONGEST_NS
        if usable.all():
            return rows
        self.context.lost[table.lower()] += int(np.count_nonzero(~usable))
        return Timed(rows.batch.filter(pa.array(usable)), rows.ts[usable], rows.dur[usable], rows.clamped[usable])

    def _congestion(self, device: Callable[[int], _Card]) -> None:
        """Congestion that switches report: one occurrence each, at the port that the packet left by."""
        context, name, line = self.context, "NET_IB_SWITCH_CONGESTION_EVENT", 1
        table = newest(context.source.tables, name)
        if table is None:
            return
        enum = small_rows(context.source, "ENUM_NET_IB_CONGESTION_EVENT_TYPE", Field("id"), Field("name", "text"), Field("label", "text"))
        labels = {r["id"]: str(r["label"] or r["name"]) for r in enum if r["label"] or r["name"]}
        for batch in context.source.batches(table, _CONGESTION):
            rows = context.timed(batch, name, points=True)
            n = len(rows.ts)
            if not n:
                continue
            ids = np.stack([filled(rows.batch, c, -1)[0] for c in ("globalId", "switchEgressPort", "congestionType")], axis=1)
            unique, positions = np.unique(ids, axis=0, return_inverse=True)
            keys = []
            for of, port, kind in unique.tolist():
                meaning = Meaning("vendor.congestion_event", "tx", width=0, kind="event", unit="event")
                keys.append(Key(self._subject(device(of), port, at_switch=True), labels.get(kind) or f"congestion type {kind}", meaning))
            lines = np.arange(line, line + n)
            self.samples.add(keys, positions.ravel(), lines, numbers_of_floats(np.ones(n)), ts_ns=self.stamps(rows.ts), quality="collector")
            context.stored["switch congestion"] += n
            line += n


def numbers_of_floats(values: _Floats) -> Numbers:
    """Numbers as the helpers of all counter parsers take them; exact where they are whole and a float holds them exactly."""
    stated = np.isfinite(values)
    known = np.where(stated, values, 0.0)
    whole = stated & (known >= 0) & (known < 2.0**53) & (known == np.floor(known))
    return Numbers(np.where(whole, known, 0).astype(np.uint64), whole, known, stated)
