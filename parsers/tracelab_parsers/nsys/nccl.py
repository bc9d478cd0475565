"""Communication records: what NCCL's ranges state, tied to the kernels that were launched inside them.

A kernel belongs to a range if its launching call lies inside the range on the same thread (the rule of Nsight Systems).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tracelab.tables import COMM_RECORDS
from tracelab_parsers.nsys.columns import Ints, encoded, table_batch
from tracelab_parsers.nsys.communicators import Communicator, joined
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.payload import Facts, dtype_bytes, standard_dtype
from tracelab_parsers.nsys.ranges import OPERATIONS, Call, Unit, base_name, units

__all__ = ["Nccl"]

_BATCH = 65_536
_RANKS_PER_BATCH = 4 << 20
_REDUCED = re.compile(r"_(?:Sum|Prod|Min|Max|MinMax|PreMulSum|SumPostDiv)_(\w+?)(?:_(?:RING|TREE|NVLS|COLLNET|PAT)\w*)?$", re.IGNORECASE)
_REDUCTION = re.compile(r"AllReduce|ReduceScatter|Reduce_", re.IGNORECASE)
_POINT_TO_POINT = frozenset({"Send", "Recv"})
_MAX_KEY = 1 << 32


def _keys(parts: Ints, correlations: Ints) -> Ints:
    """Part and correlation in one number; -1 where there is no correlation, or one of more than 32 bits."""
    usable = (correlations > 0) & (correlations < _MAX_KEY)
    return np.where(usable, parts << 32 | correlations, -1)


@dataclass
class Nccl:
    """Gathers kernels, launches and ranges while they are read, and makes the records in the end."""

    notices: Notices
    communicators: dict[int, dict[int, Communicator]] = field(default_factory=lambda: defaultdict(dict))
    calls: int = 0
    seen: int = 0
    _kernels: list[tuple[Ints, Ints, Ints, Ints]] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _flat: tuple[Ints, ...] = ()
    _wanted: Ints | None = None
    _launches: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    _ranges: dict[tuple[int, int], list[Call]] = field(default_factory=lambda: defaultdict(list))

    def kernels(self, batch: pa.RecordBatch, at: Ints) -> None:
        """Adds the kernels at these positions of a batch of `gpu_spans`."""
        rows = batch.take(pa.array(at))
        numbers = [rows.column(c).fill_null(0).to_numpy(zero_copy_only=False) for c in ("correlation", "source_ts_ns", "dur_ns")]
        self._kernels.append((rows.column("part").to_numpy().astype(np.int64), *numbers))
        self._names += rows.column("name").to_pylist()

    def launches(self, parts: Ints, correlations: Ints, tids: Ints, ts: Ints) -> None:
        """Adds those runtime and driver calls that launched one of the kernels."""
        if self._wanted is None:
            found = np.unique(np.concatenate([np.zeros(0, np.int64), *(_keys(p, c) for p, c, _, _ in self._kernels)]))
            self._wanted = found[found >= 0]
        if not len(self._wanted):
            return
        keys = _keys(parts, correlations)
        at = np.minimum(np.searchsorted(self._wanted, keys), len(self._wanted) - 1)
        hit = self._wanted[at] == keys
        if hit.any():
            self._launches.append((keys[hit], tids[hit], ts[hit]))

    def range(self, part: int, tid: int, call: Call) -> None:
        """Adds a range of NCCL."""
        self._ranges[part, tid].append(call)
        name, facts = base_name(call.name), call.facts
        self.calls += name in OPERATIONS
        self.seen += 1
        if facts is not None and facts.comm and facts.size:
            known = self.communicators[part].get(facts.comm)
            self.communicators[part][facts.comm] = joined(known, facts, call.name, self.seen)

    def records(self, worlds: dict[int, int]) -> Iterator[pa.RecordBatch]:
        """Rows of `comm_records`; `worlds` are the sizes of the jobs of the parts, where known."""
        rows: list[dict[str, Any]] = []
        most = min(_BATCH, _RANKS_PER_BATCH // max(1, *worlds.values(), 1))
        kernels = self._joined_kernels()
        for (part, tid), calls in sorted(self._ranges.items()):
            launches = kernels.get((part, tid), [])
            found, broken = units(calls, [when for when, _ in launches])
            self.notices.add("group-without-end", broken)
            for unit in self._tied(found, launches):
                rows += self._rows(unit, part, tid, worlds.get(part))
                if len(rows) >= most:
                    yield _batch(rows)
                    rows = []
        if rows:
            yield _batch(rows)

    def _joined_kernels(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Per thread the launches of kernels in the order of time: when, and the kernel's number."""
        out: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        if not self._launches or not self._kernels:
            return out
        part, correlation, start, dur = (np.concatenate(c) for c in zip(*self._kernels, strict=True))
        self._flat = (correlation, start, dur)
        keys, tids, ts = (np.concatenate(c) for c in zip(*self._launches, strict=True))
        # of two calls with one correlation (a runtime call and the driver call in it) the first counts
        order = np.lexsort((ts, keys))
        keys, tids, ts = keys[order], tids[order], ts[order]
        first = np.r_[True, keys[1:] != keys[:-1]]
        keys, tids, ts = keys[first], tids[first], ts[first]
        mine = _keys(part, correlation)
        at = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
        for number in np.flatnonzero(keys[at] == mine).tolist():
            out[int(part[number]), int(tids[at[number]])].append((int(ts[at[number]]), number))
        for launches in out.values():
            launches.sort()
        return out

    def _tied(self, all_units: list[Unit], launches: list[tuple[int, int]]) -> list[Unit]:
        starts = [u.start for u in all_units]
        for when, kernel in launches:
            at = bisect_right(starts, when) - 1
            if at >= 0 and when <= all_units[at].end:
                all_units[at].kernels.append(kernel)
        return all_units

    def _kernel(self, number: int) -> tuple[int, int, int]:
        """Correlation, start and length of a kernel."""
        correlation, ts, dur = (int(column[number]) for column in self._flat)
        return correlation, ts, dur

    def _rows(self, unit: Unit, part: int, tid: int, world: int | None) -> Iterator[dict[str, Any]]:
        """A row per call, and one per kernel where its communicator is stated."""
        correlation = self._kernel(unit.kernels[0])[0] if len(unit.kernels) == 1 else None
        dtypes = [self._dtype(k) for k in unit.kernels]
        named = dtypes[0] if len(set(dtypes)) == 1 else None
        for call in unit.calls:
            row = _described([call], named, self._size(part, call.facts), world)
            yield row | {
                "part": part, "source_ts_ns": call.start, "dur_ns": call.end - call.start, "recorded_on": "cpu_op", "tid": tid, "correlation": correlation,
            }  # fmt: skip
        comms = {c.facts.comm for c in unit.calls if c.facts is not None}
        if not unit.kernels or None in comms or not comms:
            return
        if len(comms) > 1:
            self.notices.add("ambiguous-group", len(unit.kernels))
            return
        alike = len({(c.name, c.facts) for c in unit.calls}) == 1 and len(unit.kernels) == len(unit.calls)
        calls = unit.calls[:1] if alike else unit.calls
        for number, dtype in zip(unit.kernels, dtypes, strict=True):
            correlation, ts, dur = self._kernel(number)
            row = _described(calls, dtype, self._size(part, calls[0].facts), world)
            if len(unit.kernels) > 1 and not alike:  # which calls this kernel carries out is unknown
                row |= dict.fromkeys(("in_elements", "out_elements", "in_split", "out_split", "dtype", "src_rank", "dst_rank", "seq", "comms_id"))
            yield row | {"part": part, "source_ts_ns": ts, "dur_ns": dur, "recorded_on": "kernel", "tid": None, "correlation": correlation or None}

    def _size(self, part: int, facts: Facts | None) -> int | None:
        if facts is None or facts.comm is None:
            return None
        known = self.communicators[part].get(facts.comm)
        return facts.size or (known.size if known is not None else None)

    def _dtype(self, kernel: int) -> str | None:
        """The element type in a kernel's name, which is true for reductions only."""
        name = self._names[kernel].split("(", 1)[0]
        m = _REDUCED.search(name)
        return standard_dtype(m.group(1)) if m is not None and _REDUCTION.search(name) else None


def _described(calls: Sequence[Call], named: str | None, size: int | None, world: int | None) -> dict[str, Any]:
    """What calls that make one operation say of it."""
    facts = [c.facts if c.facts is not None else Facts() for c in calls]
    names = {base_name(c.name) for c in calls}
    first = facts[0]
    row: dict[str, Any] = {"operation": calls[0].name.removeprefix("NCCL:") if len(names) == 1 else None}
    row["group_name"] = f"{first.comm:#x}" if first.comm is not None else None
    row["group_size"] = size
    whole = size is not None and size == world
    row["group_ranks"] = list(range(size)) if whole and size is not None else None
    if len(calls) == 1:
        row["seq"] = first.seq
        row["comms_id"] = str(first.operation_id) if first.operation_id is not None else None
    dtype = next((f.dtype for f in facts if f.dtype is not None), named)
    row["dtype"], unit = _unit(facts, dtype)
    amounts = [_elements(f, unit) for f in facts]
    if names <= _POINT_TO_POINT:
        row |= _point_to_point(calls, facts, amounts, size, whole=whole)
    elif len(names) == 1 and None not in amounts:
        total = sum(a for a in amounts if a is not None)
        row["in_elements"], row["out_elements"] = _both_sides(next(iter(names)), total, size)
        if whole and first.root is not None:
            row["src_rank" if names <= {"Broadcast", "Bcast", "Scatter"} else "dst_rank"] = first.root
    return row


def _unit(facts: Sequence[Facts], dtype: str | None) -> tuple[str | None, int]:
    """The element type and its bytes; where the type is unknown or does not fit the sizes, sizes are given in single bytes."""
    if all(f.bytes is None and f.count is None for f in facts):
        return dtype, 1
    size = dtype_bytes(dtype)
    if size is not None and all(f.bytes is None or f.bytes % size == 0 for f in facts):
        return dtype, size
    return "Byte", 1


def _elements(f: Facts, unit: int) -> int | None:
    if f.bytes is not None:
        return f.bytes // unit
    return f.count if f.dtype is not None else None


def _both_sides(name: str, n: int, size: int | None) -> tuple[int | None, int | None]:
    """Elements that a rank contributes and receives, from the argument of the call."""
    times = n * size if size is not None else None
    if name in ("AllGather", "AllGatherV", "Gather"):
        return n, times
    if name in ("ReduceScatter", "Scatter"):
        return times, n
    return (times, times) if name in ("AlltoAll", "AllToAll") else (n, n)


def _point_to_point(calls: Sequence[Call], facts: Sequence[Facts], amounts: Sequence[int | None], size: int | None, *, whole: bool) -> dict[str, Any]:
    """Sends and receives that one kernel carries out; those with every rank of the communicator are an all-to-all."""
    sides: dict[str, dict[int | None, int]] = {"Send": {}, "Recv": {}}
    for call, f, n in zip(calls, facts, amounts, strict=True):
        side = sides[base_name(call.name)]
        side[f.peer] = side.get(f.peer, 0) + (n or 0)
    sent, received = sides["Send"], sides["Recv"]
    known = None not in amounts
    row: dict[str, Any] = {}
    if known:
        row = {"in_elements": sum(sent.values()), "out_elements": sum(received.values())}
    if not sent or not received:
        only = sent or received
        if known:
            row = {"in_elements": sum(only.values()), "out_elements": sum(only.values())}
        peer = next(iter(only)) if len(only) == 1 else None
        # a peer is a rank of the communicator: a rank of the job only where the communicator holds them all
        return row | ({"dst_rank" if sent else "src_rank": peer} if whole and peer is not None else {})
    if size is not None and size > 1 and sent.keys() == received.keys() == set(range(size)):
        splits = {"in_split": [sent[p] for p in range(size)], "out_split": [received[p] for p in range(size)]} if known else {}
        return row | splits | {"operation": "AlltoAll"}
    return row | {"operation": "SendRecv"}


def _batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    def values(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([r.get(name) for r in rows], kind)

    columns = {f.name: encoded(values(f.name, pa.string())) if pa.types.is_dictionary(f.type) else values(f.name, f.type) for f in COMM_RECORDS.arrow}
    return table_batch(COMM_RECORDS, columns)
