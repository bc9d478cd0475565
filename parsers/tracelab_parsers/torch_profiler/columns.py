"""Events to the rows of the span, memory and counter tables, as Arrow record batches."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.tables import GPU_COUNTERS, GPU_SPANS, HOST_SPANS, MEMORY_EVENTS, TableSpec
from tracelab_parsers.torch_profiler.events import Details, Event
from tracelab_parsers.torch_profiler.times import Times
from tracelab_parsers.torch_profiler.values import as_int, coded, integers, texts

__all__ = ["Rows", "counter_batch", "gpu_batch", "host_batch", "memory_batch"]

Codes = npt.NDArray[np.int32]
GPU_KINDS = ("kernel", "memcpy", "memset", "sync", "annotation")
HOST_KINDS = ("cpu_op", "annotation", "runtime", "driver", "python", "overhead", "other")
UNNAMED = "(unnamed)"
_STEP = "ProfilerStep#"
_SYNC_NAMES = frozenset({"Event Sync", "Stream Sync", "Context Sync", "Stream Wait Event", "Event Record", "Stream Synchronize", "Context Synchronize"})
_DIRECTION = re.compile(r"\b(HtoD|DtoH|DtoD|PtoP|HtoH)\b")
_DIRECTION_WORDS = re.compile(r"(Host|Device|Peer)To(Host|Device|Peer)")
_STREAM_NAME = re.compile(r"stream (\d{1,18})")
_DIMENSIONS = 3
_MAX_SIZE = 1 << 31
_GPU_PID = re.compile(r"GPU (\d{1,6})\b")


@dataclass(frozen=True)
class Rows:
    """Events of one table with their kinds (as codes) and times: `ts` has the base of the file added.

    `details` are those of the events of GPU rows, and empty for host rows.
    """

    events: list[Event]
    details: list[Details]
    codes: Codes
    times: Times


def _batch(table: TableSpec, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[c.name] for c in table.emitted], schema=table.arrow)


def _part(n: int) -> pa.Array:
    return pa.array(np.zeros(n, np.int16))


def _names(events: Sequence[Event]) -> pa.DictionaryArray:
    names = texts([e.name for e in events])
    if names.null_count:
        names = pc.fill_null(names.cast(pa.string()), UNNAMED).dictionary_encode()
    return names


def _recode(names: pa.DictionaryArray, codes: Codes, chosen: Sequence[bool], allowed: npt.NDArray[np.bool_], code: int) -> Codes:
    """`codes` with `code` where the name is `chosen` (per dictionary entry) and the row `allowed`."""
    if not any(chosen):
        return codes
    hit = np.asarray(chosen, np.bool_)[names.indices.to_numpy(zero_copy_only=False)]
    return np.where(hit & allowed, np.int32(code), codes).astype(np.int32)


def _external(events: Sequence[Event]) -> pa.Array:
    return integers([e.args.external_id or e.args.external_id_2021 or None for e in events], pa.int64())


def _spans(rows: Rows) -> dict[str, pa.Array]:
    t = rows.times
    return {
        "part": _part(len(rows.events)),
        "source_ts_ns": pa.array(t.ts),
        "dur_ns": pa.array(t.dur),
        "clamped": pa.array(t.clamped),
        "external_id": _external(rows.events),
        "correlation": integers([e.args.correlation or None for e in rows.events], pa.int64()),
    }


def gpu_batch(rows: Rows) -> pa.RecordBatch:
    """Rows of `gpu_spans`; the codes are positions in `GPU_KINDS`."""
    events, details = rows.events, rows.details
    names = _names(events)
    sync = [n in _SYNC_NAMES for n in names.dictionary.to_pylist()]
    codes = _recode(names, rows.codes, sync, rows.codes == GPU_KINDS.index("kernel"), GPU_KINDS.index("sync"))
    columns = _spans(rows)
    columns |= {
        "kind": coded(codes, GPU_KINDS),
        "name": names,
        "device": integers([_device(e, a) for e, a in zip(events, details, strict=True)], pa.int32()),
        "stream": integers([_stream(e, a) for e, a in zip(events, details, strict=True)], pa.int64()),
        "context": integers([a.context for a in details], pa.int64()),
        "bytes": integers([a.bytes for a in details], pa.int64()),
        "copy_kind": _copy_kinds(rows, codes == GPU_KINDS.index("memcpy")),
        "src_device": integers([a.from_device if a.from_device is not None else a.in_device for a in details], pa.int32()),
        "dst_device": integers([a.to_device if a.to_device is not None else a.out_device for a in details], pa.int32()),
        "blocks": _products([a.grid for a in details], pa.int64()),
        "threads_per_block": _products([a.block for a in details], pa.int32()),
        "graph_id": integers([a.graph_id or None for a in details], pa.int64()),
        "graph_node_id": integers([a.graph_node_id or None for a in details], pa.int64()),
    }
    return _batch(GPU_SPANS, columns)


def _device(e: Event, a: Details) -> Any:
    return a.device if a.device is not None else e.pid


def _stream(e: Event, a: Details) -> Any:
    """The stream of a GPU row: stated, else the queue of vendors without streams, else the row's own number."""
    for value in (a.stream, a.sycl_queue, a.l0_queue):
        if value is not None:
            return value
    if isinstance(e.tid, str):
        m = _STREAM_NAME.search(e.tid)
        return int(m.group(1)) if m else e.tid
    return e.tid


def _products(sizes: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The product of each list of sizes; null where it is none of up to three integers from 0 to 2^31."""
    if set(map(type, sizes)) <= {list, NoneType}:
        lists = [s for s in sizes if s]
        if max(map(len, lists), default=0) <= _DIMENSIONS:
            flat = list(chain.from_iterable(lists))
            if set(map(type, flat)) <= {int} and min(flat, default=0) >= 0 and max(flat, default=0) < _MAX_SIZE:
                return integers([math.prod(s) if s else None for s in sizes], kind)
    return integers([_product(s) for s in sizes], kind)


def _product(sizes: object) -> int | None:
    """The product of a list of sizes, or of its text (`[8, 1, 1]`)."""
    if isinstance(sizes, str):
        sizes = [int(n) for n in re.findall(r"\d{1,10}", sizes[:64])[:3]]
    if not isinstance(sizes, list) or not 0 < len(sizes) <= _DIMENSIONS:
        return None
    return math.prod(sizes) if all(type(n) is int and 0 <= n < _MAX_SIZE for n in sizes) else None


def _direction(text: str) -> str | None:
    """The direction of a copy from what a profiler calls it: `Memcpy HtoD (Pinned -> Device)`, `CopyHostToDevice`."""
    m = _DIRECTION.search(text)
    if m is not None:
        return m.group(1)
    w = _DIRECTION_WORDS.search(text)
    found = f"{w.group(1)[0]}to{w.group(2)[0]}" if w is not None else ""
    return found if _DIRECTION.fullmatch(found) else None


def _copy_kinds(rows: Rows, copies: npt.NDArray[np.bool_]) -> pa.DictionaryArray:
    if not copies.any():
        return pa.nulls(len(copies), pa.string()).dictionary_encode()
    found: list[str | None] = [None] * len(copies)
    for i in np.flatnonzero(copies).tolist():
        name, kind = rows.events[i].name, rows.details[i].kind
        found[i] = (_direction(name) if isinstance(name, str) else None) or (_direction(kind) if isinstance(kind, str) else None)
    return texts(found)


def host_batch(rows: Rows) -> pa.RecordBatch:
    """Rows of `host_spans`; the codes are positions in `HOST_KINDS`. A step's operator becomes an annotation."""
    events = rows.events
    names = _names(events)
    steps = [n.startswith(_STEP) for n in names.dictionary.to_pylist()]
    codes = _recode(names, rows.codes, steps, rows.codes == HOST_KINDS.index("cpu_op"), HOST_KINDS.index("annotation"))
    tids, threads = _threads([e.tid for e in events])
    columns = _spans(rows)
    columns |= {
        "kind": coded(codes, HOST_KINDS),
        "name": names,
        "pid": integers([e.pid for e in events], pa.int64()),
        "tid": tids,
        "thread": threads,
        "sequence_number": integers([e.args.sequence_number for e in events], pa.int64()),
    }
    return _batch(HOST_SPANS, columns)


def _threads(tids: list[Any]) -> tuple[pa.Array, pa.DictionaryArray]:
    """Thread numbers, and names of those threads that have text for a number."""
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(tids, pa.int64()), pa.nulls(len(tids), pa.string()).dictionary_encode()
    numbers = [int(t) if isinstance(t, str) and t.isascii() and t.isdigit() and len(t) < 19 else None if isinstance(t, str) else as_int(t) for t in tids]
    named = [t if isinstance(t, str) and n is None else None for t, n in zip(tids, numbers, strict=True)]
    return pa.array(numbers, pa.int64()), texts(named)


def memory_batch(details: Sequence[Details], ts: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Rows of `memory_events` at the times `ts`."""
    columns = {
        "part": _part(len(details)),
        "source_ts_ns": pa.array(ts),
        "device_type": integers([a.device_type for a in details], pa.int32()),
        "device": integers([a.device_id for a in details], pa.int32()),
        "address": integers([a.address for a in details], pa.int64()),
        "bytes": integers([a.memory_bytes for a in details], pa.int64()),
        "total_allocated_bytes": integers([a.total_allocated for a in details], pa.int64()),
        "total_reserved_bytes": integers([a.total_reserved for a in details], pa.int64()),
    }
    return _batch(MEMORY_EVENTS, columns)


def counter_batch(events: Sequence[Event], values: Sequence[dict[str, float]], ts: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Rows of `gpu_counters`: one per number in `values`, which goes with `events` and `ts`."""
    rows = [
        (int(t), _counter_device(e), f"{e.name} {key}".strip() if e.name is not None else key or UNNAMED, v)
        for e, found, t in zip(events, values, ts, strict=True)
        for key, v in found.items()
        if math.isfinite(v)
    ]
    columns = {
        "part": _part(len(rows)),
        "source_ts_ns": pa.array([r[0] for r in rows], pa.int64()),
        "device": integers([r[1] for r in rows], pa.int32()),
        "counter": texts([r[2] for r in rows]),
        "value": pa.array([r[3] for r in rows], pa.float64()),
    }
    return _batch(GPU_COUNTERS, columns)


def _counter_device(e: Event) -> int | None:
    m = _GPU_PID.search(e.pid) if isinstance(e.pid, str) else None
    return int(m.group(1)) if m is not None else as_int(e.pid, 32) if not isinstance(e.pid, str) else None
