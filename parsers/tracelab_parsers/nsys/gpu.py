"""Rows of `gpu_spans`: kernels, copies, memory sets, waits, and whole CUDA graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.tables import GPU_SPANS
from tracelab_parsers.nsys.columns import (
    NONE_U32,
    Flags,
    Ints,
    Timed,
    coded,
    distinct,
    encoded,
    filled,
    int32_column,
    int_column,
    no_texts,
    split_by,
    table_batch,
)
from tracelab_parsers.nsys.context import Context
from tracelab_parsers.nsys.names import kernel_name
from tracelab_parsers.nsys.source import Field, newest

__all__ = ["GpuRows", "gpu_rows"]

KINDS = ("kernel", "memcpy", "memset", "sync", "annotation")
_COMMON = (Field("start"), Field("end"), Field("deviceId"), Field("contextId"), Field("streamId"), Field("correlationId"), Field("globalPid"))
_GRAPH = (Field("graphId"), Field("graphNodeId"))
_KERNEL = (
    *_COMMON,
    *_GRAPH,
    Field("demangledName"),
    Field("shortName"),
    Field("blocks", product=("gridX", "gridY", "gridZ")),
    Field("threads", product=("blockX", "blockY", "blockZ")),
)
_MEMCPY = (*_COMMON, *_GRAPH, *map(Field, ("bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId")))
_MEMSET = (*_COMMON, *_GRAPH, Field("bytes"), Field("memKind"))
_SYNC = (*_COMMON, Field("syncType"))
_GRAPH_TRACE = (*_COMMON, Field("graphId"), Field("graphExecId"))

_DIRECTIONS = dict(enumerate(("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"), 1))
"""Of ENUM_CUDA_MEMCPY_OPER; A is an array, the last three are copies of unified memory."""
_STANDARD = frozenset({"HtoD", "DtoH", "DtoD", "PtoP", "HtoH"})
_MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
_UNIFIED = frozenset({11, 12, 13})
_WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_NCCL = re.compile(r"^(?:void )?nccl|nccl(?:Sym)?k?(?:Dev)?Kernel|mscclKernel", re.IGNORECASE)


@dataclass(frozen=True)
class GpuRows:
    """A batch of `gpu_spans` and, of its kernels of NCCL, the positions in it."""

    batch: pa.RecordBatch
    nccl: Ints


def gpu_rows(context: Context) -> Iterator[GpuRows]:
    """All rows of the GPU, table by table."""
    for name, fields, kind in (
        ("CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL, "kernel"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", _MEMCPY, "memcpy"),
        ("CUPTI_ACTIVITY_KIND_MEMSET", _MEMSET, "memset"),
        ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", _SYNC, "sync"),
        ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _GRAPH_TRACE, "graph"),
    ):
        table = newest(context.source.tables, name)
        for batch in context.source.batches(table, fields) if table is not None else ():
            rows = context.timed(batch, name)
            parts = context.processes.parts(*filled(rows.batch, "globalPid"), gpu=True)
            rows, parts = context.kept(rows, parts, kind)
            if len(parts):
                yield _rows(context, rows, parts, kind, name)


def _rows(context: Context, rows: Timed, parts: Ints, kind: str, table: str) -> GpuRows:
    batch = rows.batch
    correlation, joins = filled(batch, "correlationId")
    stream, has_stream = filled(batch, "streamId")
    columns = {
        "part": pa.array(parts.astype(np.int16)),
        "source_ts_ns": pa.array(rows.ts + context.session.base_ns),
        "dur_ns": pa.array(rows.dur),
        "kind": coded(np.full(len(parts), KINDS.index("kernel" if kind == "graph" else kind), np.int32), KINDS),
        "stream": int_column(stream, has_stream & (stream != NONE_U32) & (stream >= 0)),
        "context": int_column(*filled(batch, "contextId")),
        "correlation": int_column(correlation, joins & (correlation != 0)),
        "clamped": pa.array(rows.clamped),
        "copy_kind": no_texts(len(parts)),
    }
    for column, name in (("graph_id", "graphId"), ("graph_node_id", "graphNodeId")):
        if name in batch.schema.names:
            values, known = filled(batch, name)
            columns[column] = int_column(values, known & (values != 0))
    columns["device"] = _device(context, batch, "deviceId", parts, counted=kind != "sync")
    nccl = np.zeros(0, np.int64)
    if kind == "kernel":
        nccl = _kernels(context, batch, columns, table)
    elif kind == "memcpy":
        _copies(context, batch, columns, parts)
    elif kind == "memset":
        columns["name"] = encoded(_memories(batch, "memKind", "Memset ({})"))
        columns["bytes"] = int_column(*filled(batch, "bytes"))
    elif kind == "sync":
        columns["name"] = _lookup(filled(batch, "syncType"), _WAITS, "Sync")
    else:
        columns["name"] = _graphs(batch)
        context.notices.add("graphs-hide-kernels", len(parts))
    return GpuRows(table_batch(GPU_SPANS, columns), nccl)


def _device(context: Context, batch: pa.RecordBatch, name: str, parts: Ints, *, counted: bool = False) -> pa.Array:
    values, known = filled(batch, name, -1)
    known = known & (values >= 0) & (values != NONE_U32)
    values = values.copy()
    for part, rows in split_by(parts):
        mine = rows if known.all() else np.flatnonzero(known & (parts == part))
        values[mine] = context.processes.device_index(part, values[mine], context.session.gpu_of)
        if counted:
            counts = context.processes.all[part].kernels
            devices, positions = distinct(values[mine])
            for device, n in zip(devices.tolist(), np.bincount(positions).tolist(), strict=True):
                counts[device] = counts.get(device, 0) + n
    return int32_column(values, known)


def _kernels(context: Context, batch: pa.RecordBatch, columns: dict[str, pa.Array], table: str) -> Ints:
    demangled, has_demangled = filled(batch, "demangledName")
    short, has_short = filled(batch, "shortName")
    names = context.names.of(np.where(has_demangled, demangled, short), has_demangled | has_short, kernel_name)
    columns["name"] = names = context.names.or_unnamed(names, table)
    columns["blocks"] = int_column(*filled(batch, "blocks"))
    columns["threads_per_block"] = int32_column(*filled(batch, "threads"))
    chosen = np.array([_NCCL.search(n[:512]) is not None for n in names.dictionary.to_pylist()], np.bool_)
    return np.flatnonzero(chosen[names.indices.to_numpy(zero_copy_only=False)]) if chosen.any() else np.zeros(0, np.int64)


def _copies(context: Context, batch: pa.RecordBatch, columns: dict[str, pa.Array], parts: Ints) -> None:
    kinds, known = filled(batch, "copyKind")
    src, dst = filled(batch, "srcKind", -1)[0], filled(batch, "dstKind", -1)[0]
    # all of them are small numbers; no larger one has a name
    most = 1 << 8
    src, dst = np.clip(src, -1, most), np.clip(dst, -1, most)
    shape = (most + 1, most + 2, most + 2)
    unique, positions = distinct(np.ravel_multi_index((np.where(known & (kinds >= 0), np.minimum(kinds, most), most), src + 1, dst + 1), shape))
    names = [_copy_name(int(k), int(s) - 1, int(d) - 1) for k, s, d in zip(*np.unravel_index(unique, shape), strict=True)]
    columns["name"] = encoded(pa.array(names, pa.string()).take(pa.array(positions)))
    standard = {k: d for k, d in _DIRECTIONS.items() if d in _STANDARD}
    columns["copy_kind"] = _lookup((kinds, known), standard, None)
    columns["bytes"] = int_column(*filled(batch, "bytes"))
    columns["src_device"] = _device(context, batch, "srcDeviceId", parts)
    columns["dst_device"] = _device(context, batch, "dstDeviceId", parts)


def _copy_name(kind: int, src: int, dst: int) -> str:
    """The name that other profilers give such a copy."""
    if kind in _UNIFIED:
        return f"Unified Memory Memcpy {_DIRECTIONS[kind]}"
    ends = f" ({_MEMORY.get(src, 'Unknown')} -> {_MEMORY.get(dst, 'Unknown')})" if src >= 0 or dst >= 0 else ""
    return f"Memcpy {_DIRECTIONS.get(kind, 'Unknown')}{ends}"


def _memories(batch: pa.RecordBatch, column: str, form: str) -> pa.Array:
    names = _lookup(filled(batch, column), {k: form.format(v) for k, v in _MEMORY.items()}, form.format("Unknown"))
    return names.cast(pa.string())


def _lookup(values: tuple[Ints, Flags], names: dict[int, str], other: str | None) -> pa.DictionaryArray:
    """The names of codes; `other` for unknown ones."""
    entries = list(dict.fromkeys([*names.values(), *([other] if other is not None else [])]))
    numbers = {k: entries.index(v) for k, v in names.items()}
    rest = entries.index(other) if other is not None else -1
    unique, positions = distinct(np.where(values[1], values[0], -1))
    codes: npt.NDArray[np.int32] = np.array([numbers.get(int(u), rest) for u in unique], np.int32)[positions]
    return coded(np.maximum(codes, 0), entries, codes >= 0)


def _graphs(batch: pa.RecordBatch) -> pa.DictionaryArray:
    executed, known = filled(batch, "graphExecId")
    graph, _ = filled(batch, "graphId")
    numbers = pa.array(np.where(known, executed, graph), pa.int64()).cast(pa.string())
    return encoded(pc.binary_join_element_wise("CUDA graph", numbers, " "))
