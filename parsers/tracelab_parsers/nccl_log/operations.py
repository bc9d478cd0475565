"""Operations that processes log: COLL and P2P lines, and CALL lines; one row each, in columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracelab.plugins import Emitter
from tracelab.tables.logs import LOGGED_COLLECTIVES
from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_log.choices import Choice, attach
from tracelab_parsers.nccl_log.communicators import pointer_value
from tracelab_parsers.nccl_log.notices import Notices
from tracelab_parsers.nccl_log.scanning import codes_of

__all__ = ["Call", "OperationStore", "Operations", "joined", "name_code", "read_call", "read_operation"]

_WORD = r"(?:0x[0-9a-f]{1,16}|0x\.\.\.|\(nil\)|[0-9a-f]{1,16})"
_OPERATION = re.compile(
    rf"(?P<name>\w{{2,60}}): opCount (?P<op_count>[0-9a-f]{{1,16}}) sendbuff {_WORD} recvbuff {_WORD} count (?P<count>\d{{1,18}})"
    rf" datatype (?P<datatype>\d{{1,6}})"
    rf" op (?P<reduction>\d{{1,10}}) root (?P<root>-?\d{{1,9}}) comm (?P<comm>{_WORD})(?: \[nranks=(?P<size>\d{{1,9}})\])?(?: stream (?P<stream>{_WORD}))?"
    r"(?: task \d+)?(?: globalrank (?P<global_rank>\d{1,9}))?"
)
_CALL = re.compile(
    rf"(?P<name>nccl\w{{2,60}})\((?:{_WORD}),(?:{_WORD}),(?P<count>\d{{1,18}}),(?P<datatype>\d{{1,6}}),(?P<reduction>\d{{1,10}}),(?P<root>-?\d{{1,9}}),(?P<comm>{_WORD}),(?P<stream>{_WORD})\)"
)
NAMES = (
    *sorted({ops.operation(n) for n in ("AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "Send", "Recv", "AlltoAll", "Scatter", "Gather")}),
    ops.UNKNOWN,
)
_TYPES = [t for t in (ops.element_type(n) for n in range(32)) if t is not None]
_SIZES = np.array([t.size for t in _TYPES] + [0], np.int64)
_REDUCTIONS = ("sum", "prod", "max", "min", "avg", "user")
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_ROOTED = ("broadcast", "reduce", "scatter", "gather")
ORIGINS = ("coll-line", "call-line")
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT", "SYMMETRIC", "COPY_ENGINE")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
_COLUMNS = ("line", "part", "tid", "comm", "comm_rank", "name", "op_count", "count", "datatype", "reduction", "root", "size", "stream", "origin", "ts")
_CHOSEN = ("algorithm", "protocol", "first", "last")
BATCH = 50_000
_REACH = 3
"""Blocks that a choice may look back over, its own included."""
_MOST = 1 << 62

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Call:
    """An operation as one line states it. Addresses are None where they are masked."""

    name: str
    op_count: int | None
    count: int
    datatype: int
    reduction: int
    root: int
    comm: int | None
    size: int | None
    stream: int | None
    global_rank: int | None
    origin: int


def read_operation(text: str) -> Call | None:
    """A COLL or P2P line."""
    m = _OPERATION.match(text)
    if m is None or int(m["op_count"], 16) >= 1 << 63:
        return None
    size, rank = m["size"], m["global_rank"]
    return _call(m, int(m["op_count"], 16), int(size) if size else None, int(rank) if rank else None, 0)


def read_call(text: str) -> Call | None:
    """A CALL line of an operation; other calls are None."""
    m = _CALL.match(text)
    return _call(m, None, None, None, 1) if m is not None else None


def _call(m: re.Match[str], op_count: int | None, size: int | None, rank: int | None, origin: int) -> Call:
    stream = pointer_value(m["stream"]) if m["stream"] else None
    return Call(
        m["name"], op_count, int(m["count"]), int(m["datatype"]), int(m["reduction"]), int(m["root"]), pointer_value(m["comm"]), size, stream, rank, origin
    )


@dataclass
class Operations:
    """Operations of a block in the order of their lines; -1 stands for what is not stated. `comm_rank` and `comm` are those of the communicator."""

    line: Ints
    part: Ints
    tid: Ints
    comm: Ints
    comm_rank: Ints
    name: Ints
    op_count: Ints
    count: Ints
    datatype: Ints
    reduction: Ints
    root: Ints
    size: Ints
    stream: npt.NDArray[np.uint64]
    origin: Ints
    ts: Ints
    algorithm: Ints = field(init=False)
    protocol: Ints = field(init=False)
    first: Ints = field(init=False)
    last: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.algorithm, self.protocol, self.first, self.last = (np.full(len(self.line), -1, np.int64) for _ in range(4))

    def take(self, rows: Ints) -> Operations:
        """Only these rows."""
        return Operations(*(getattr(self, c)[rows] for c in _COLUMNS))

    def per_call(self) -> Ints:
        """Bytes of the elements that the call counts; -1 where the type is not known."""
        size = _SIZES[np.where(self.datatype < len(_TYPES), self.datatype, len(_TYPES))]
        fits = (size > 0) & (self.count <= _MOST // 8)
        return np.where(fits, self.count * np.where(fits, size, 0), -1)

    def full(self) -> Ints:
        """The same over all ranks of the communicator."""
        one = self.per_call()
        fits = (one >= 0) & (self.size > 0) & (one <= _MOST // np.maximum(self.size, 1))
        return np.where(fits, one * np.where(fits, self.size, 0), -1)


def name_code(name: str) -> int:
    """The place of an operation in `NAMES`."""
    return NAMES.index(ops.operation(name))


def in_out_bytes(o: Operations) -> tuple[Ints, Ints]:
    """Bytes that the rank contributes and receives; -1 where the type, the size or the rank that decides is not known."""
    one, full = o.per_call(), o.full()
    zero = np.zeros_like(one)
    none = np.full_like(one, -1)
    is_root = o.comm_rank == o.root
    known = o.comm_rank >= 0
    at_root = {key: np.where(known, np.where(is_root, value, 0), -1) for key, value in (("one", one), ("full", full))}
    table = {
        "all_reduce": (one, one),
        "broadcast": (at_root["one"], one),
        "reduce": (one, at_root["one"]),
        "all_gather": (one, full),
        "reduce_scatter": (full, one),
        "send": (one, zero),
        "recv": (zero, one),
        "all_to_all": (full, full),
        "scatter": (at_root["full"], one),
        "gather": (one, at_root["full"]),
    }
    sent, received = none.copy(), none.copy()
    for code in np.flatnonzero(np.bincount(o.name, minlength=len(NAMES))).tolist():
        if NAMES[code] in table:
            here = (o.name == code) & (one >= 0)
            np.copyto(sent, table[NAMES[code]][0], where=here)
            np.copyto(received, table[NAMES[code]][1], where=here)
    return sent, received


class OperationStore:
    """Numbers operations, joins them with the choices that belong to them, and emits them in batches.

    The last block is held back: choices at the beginning of the next may belong to its operations.
    """

    def __init__(self, emit: Emitter, notices: Notices) -> None:
        self._emit = emit
        self._notices = notices
        self._held: list[Operations] = []
        self._next: dict[tuple[int, int, int], int] = {}
        self.count = 0

    def add(self, block: Operations | None, choices: Sequence[Choice]) -> None:
        """The operations and choices of the next block. Choices may belong to operations before it."""
        blocks = [*self._held, block] if block is not None else self._held
        if choices:
            attach(blocks[-_REACH:], choices)
        if sum(len(o.line) for o in self._held) >= BATCH:
            self._flush()
        if block is not None and len(block.line):
            self._held.append(block)

    def close(self) -> None:
        """Emits what is left."""
        self._flush()

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held:
            o = _chained(held)
            self.count += len(o.line)
            self._emit.batch(LOGGED_COLLECTIVES, self._batch(o))

    def _sequence(self, o: Operations) -> Ints:
        """The number of each operation in its communicator, per process and origin."""
        keys = np.stack((o.part, o.comm, o.origin))
        base = (o.part * (1 << 20) + o.comm + 1) * 2 + o.origin
        order = np.argsort(base, kind="stable")
        starts = np.flatnonzero(np.concatenate(([True], np.diff(base[order]) != 0)))
        lengths = np.diff(np.append(starts, len(order)))
        seq = np.empty(len(order), np.int64)
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            part, comm, origin = keys[:, order[start]].tolist()
            first = self._next.get((part, comm, origin), 0)
            seq[order[start : start + length]] = np.arange(first, first + length)
            self._next[part, comm, origin] = first + length
        return seq

    def _batch(self, o: Operations) -> pa.RecordBatch:
        unknown = o.datatype >= len(_TYPES)
        self._notices.add("unknown-element-type", count=int(np.count_nonzero(unknown)))
        sent, received = in_out_bytes(o)
        reducing = np.isin(o.name, [NAMES.index(n) for n in _REDUCING])
        rooted = np.isin(o.name, [NAMES.index(n) for n in _ROOTED])
        paired = np.isin(o.name, [NAMES.index(n) for n in ("send", "recv")])
        columns: dict[str, pa.Array] = {
            "part": _ints(o.part, pa.int16()),
            "line": _ints(o.line, pa.int64()),
            "source_ts_ns": pa.array(o.ts, pa.int64(), mask=o.ts == np.iinfo(np.int64).min),
            "origin": _codes(o.origin, ORIGINS),
            "comm": _ints(o.comm, pa.int32()),
            "seq": _ints(self._sequence(o), pa.int64()),
            "op_count": _ints(o.op_count, pa.int64()),
            "operation": _codes(o.name, NAMES),
            "count": _ints(o.count, pa.int64()),
            "dtype": _codes(np.where(unknown, -1, o.datatype), [t.name for t in _TYPES]),
            "in_bytes": _ints(sent, pa.int64()),
            "out_bytes": _ints(received, pa.int64()),
            "reduction": _codes(np.where(reducing, np.minimum(o.reduction, len(_REDUCTIONS) - 1), -1), _REDUCTIONS),
            "root": _ints(np.where(rooted, o.root, -1), pa.int32()),
            "peer": _ints(np.where(paired, o.root, -1), pa.int32()),
            "size": _ints(np.where(o.size > 0, o.size, -1), pa.int32()),
            "stream": _addresses(o.stream),
            "algorithm": _codes(o.algorithm, ALGORITHMS),
            "protocol": _codes(o.protocol, PROTOCOLS),
            "channel_first": _ints(o.first, pa.int32()),
            "channel_last": _ints(o.last, pa.int32()),
            "state": _codes(np.zeros(len(o.line), np.int64), ("enqueued",)),
        }
        schema = LOGGED_COLLECTIVES.arrow
        arrays = [columns[f.name] if f.name in columns else pa.nulls(len(o.line), f.type) for f in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _ints(values: Ints, kind: pa.DataType) -> pa.Array:
    """Numbers that fit; others and negative ones are null."""
    limit = 1 << (kind.bit_width - 1)
    mask = (values < 0) | (values >= limit) if kind.bit_width < 64 else values < 0
    return pa.array(np.where(mask, 0, values).astype(kind.to_pandas_dtype()), kind, mask=mask)


def _codes(values: Ints, names: Sequence[str]) -> pa.Array:
    codes = pa.array(np.maximum(values, 0).astype(np.int32), pa.int32(), mask=values < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(names), pa.string()))


def _addresses(values: npt.NDArray[np.uint64]) -> pa.Array:
    """Addresses as text; 0 is null."""
    codes, first = codes_of(values)
    texts: list[Any] = [f"0x{v:x}" if v else None for v in values[first].tolist()]
    return pa.array(texts, pa.string()).take(pa.array(codes))


def _chained(blocks: Sequence[Operations]) -> Operations:
    """Blocks one after the other, with what was chosen for them."""
    out = Operations(*(np.concatenate([getattr(b, c) for b in blocks]) for c in _COLUMNS))
    for column in _CHOSEN:
        setattr(out, column, np.concatenate([getattr(b, column) for b in blocks]))
    return out


def joined(blocks: Sequence[Operations]) -> Operations:
    """Blocks as one, in the order of lines."""
    gathered = [np.concatenate([getattr(b, c) for b in blocks]) for c in _COLUMNS]
    order = np.argsort(gathered[0], kind="stable")
    return Operations(*(g[order] for g in gathered))
