"""Rows of `gpu_counters`: hardware metrics of GPUs, network cards and InfiniBand switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tracelab.tables import GPU_COUNTERS
from tracelab_parsers.nsys.columns import Ints, Timed, encoded, filled, int32_column, table_batch
from tracelab_parsers.nsys.context import Context
from tracelab_parsers.nsys.source import Field, newest

__all__ = ["counter_rows"]

_GPU = (Field("timestamp"), Field("typeId"), Field("metricId"), Field("value", "real"))
_NET = (*map(Field, ("start", "end", "globalId", "portId", "metricsListId", "metricsIdx")), Field("value", "real"))
_U64 = (1 << 64) - 1
_MAX_ROWS = 100_000


def _records(context: Context, name: str, fields: Sequence[Field]) -> Iterator[dict[str, int | str | None]]:
    table = newest(context.source.tables, name)
    left = _MAX_ROWS
    for batch in context.source.batches(table, fields) if table is not None else ():
        yield from batch.slice(0, left).to_pylist()
        left -= batch.num_rows
        if left <= 0:
            return


def counter_rows(context: Context) -> Iterator[pa.RecordBatch]:
    """All samples. Those of network devices are named after the device; they belong to no process and count to the first part."""
    yield from _gpu_metrics(context)
    metrics = {
        (r["metricsListId"], r["metricsIdx"]): str(r["name"])
        for r in _records(context, "TARGET_INFO_NETWORK_METRICS", (Field("metricsListId"), Field("metricsIdx"), Field("name", "text")))
        if r["name"]
    }
    cards = _card_names(context)
    switches = {r["guid"]: str(r["name"]) for r in _records(context, "NET_IB_DEVICE_INFO", (Field("guid"), Field("name", "text"))) if r["name"]}
    yield from _network(context, "NET_NIC_METRIC", metrics, lambda i: cards.get(i) or f"NIC {i & _U64:#x}")
    yield from _network(context, "NET_IB_SWITCH_METRIC", metrics, lambda i: switches.get(i) or f"switch {i & _U64:#x}")


def _card_names(context: Context) -> dict[int, str]:
    """Names of network cards by the id that samples carry: through NIC_ID_MAP, else their own id."""
    fields = (Field("GUID"), Field("globalId"), Field("nicId"), Field("name", "text"))
    by_nic: dict[int, str] = {}
    found: dict[int, str] = {}
    for row in _records(context, "TARGET_INFO_NIC_INFO", fields):
        for key in ("GUID", "globalId"):
            if isinstance(row[key], int) and row["name"]:
                found.setdefault(int(row[key] or 0), str(row["name"]))
        if isinstance(row["nicId"], int) and row["name"]:
            by_nic.setdefault(row["nicId"], str(row["name"]))
    for row in _records(context, "NIC_ID_MAP", (Field("nicId"), Field("globalId"))):
        if isinstance(row["globalId"], int) and isinstance(row["nicId"], int) and row["nicId"] in by_nic:
            found[row["globalId"]] = by_nic[row["nicId"]]
    return found


def _emitted(context: Context, rows: Timed, names: Sequence[str], codes: Ints, device: pa.Array, parts: Ints, kind: str) -> Iterator[pa.RecordBatch]:
    values = rows.batch.column("value")
    usable = np.isfinite(values.fill_null(np.nan).to_numpy(zero_copy_only=False))
    context.lost[kind] += int(np.count_nonzero(~usable))
    context.stored[kind] += int(np.count_nonzero(usable))
    batch = table_batch(
        GPU_COUNTERS,
        {
            "part": pa.array(parts.astype(np.int16)),
            "source_ts_ns": pa.array(rows.ts + context.session.base_ns),
            "device": device,
            "counter": encoded(pa.array(names, pa.string()).take(pa.array(codes))),
            "value": values.fill_null(np.nan),
        },
    ).filter(pa.array(usable))
    if batch.num_rows:
        yield batch


def _gpu_metrics(context: Context) -> Iterator[pa.RecordBatch]:
    table = newest(context.source.tables, "GPU_METRICS")
    if table is None:
        return
    fields = (Field("typeId"), Field("metricId"), Field("metricName", "text"))
    named = {(r["typeId"], r["metricId"]): str(r["metricName"]) for r in _records(context, "TARGET_INFO_GPU_METRICS", fields) if r["metricName"]}
    by_device = {p.device: n for n, p in reversed(list(enumerate(context.processes.all))) if p.device is not None}
    for batch in context.source.batches(table, _GPU):
        columns = ["start" if n == "timestamp" else n for n in batch.schema.names]
        rows = context.timed(batch.rename_columns(columns), "GPU_METRICS", points=True)
        if not len(rows.ts):
            continue
        types, _ = filled(rows.batch, "typeId")
        metrics, _ = filled(rows.batch, "metricId")
        unique, positions = np.unique(np.stack([types, metrics], axis=1), axis=0, return_inverse=True)
        names = [named.get((int(t), int(m))) or f"metric {m}" for t, m in unique]
        # the lowest byte of the type is the GPU's index on its host
        devices = types & 0xFF
        parts = np.array([by_device.get(int(d), 0) for d in range(256)], np.int64)[devices]
        context.processes.ensure_one()
        yield from _emitted(context, rows, names, positions.ravel(), int32_column(devices, np.ones(len(devices), np.bool_)), parts, "gpu metric")


def _network(context: Context, name: str, metrics: Mapping[Any, str], device: Callable[[int], str]) -> Iterator[pa.RecordBatch]:
    table = newest(context.source.tables, name)
    for batch in context.source.batches(table, _NET) if table is not None else ():
        rows = context.timed(batch, name)
        n = len(rows.ts)
        if not n:
            continue
        keys = np.stack([filled(rows.batch, c, -1)[0] for c in ("globalId", "portId", "metricsListId", "metricsIdx")], axis=1)
        unique, positions = np.unique(keys, axis=0, return_inverse=True)
        names = []
        for of, port, listed, index in unique.tolist():
            at = f" port {port}" if port >= 0 else ""
            names.append(f"{device(of)}{at}: {metrics.get((listed, index)) or f'metric {listed}.{index}'}")
        context.processes.ensure_one()
        yield from _emitted(context, rows, names, positions.ravel(), pa.nulls(n, pa.int32()), np.zeros(n, np.int64), name.lower())
