"""Events of NCCL's example profiler to rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tracelab.plugins import Emitter
from tracelab.tables import LOGGED_COLLECTIVES, NET_TRANSFERS
from tracelab_parsers.nccl_json.amounts import amounts, operation_named
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import Communicators, RowBuffer
from tracelab_parsers.nccl_json.values import identifier, nanoseconds, natural, text
from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_profiler.operation import Operation, length_ns, moment_ns

__all__ = ["Beginning", "Tables", "Transfer"]

_ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})


class Beginning(Protocol):
    """The first event of an operation."""

    line: int
    offset: int
    part: int
    category: str
    name: str
    ts: object
    args: Mapping[str, Any]


@dataclass(slots=True)
class Transfer:
    """What the proxy moves for an operation over one channel to or from one peer."""

    line: int
    part: int
    direction: str
    start: int | None
    args: Mapping[str, Any]
    operation: Operation | None


class Tables:
    """Gives rows to `emit`."""

    def __init__(self, emit: Emitter, notices: Notices) -> None:
        self._notices = notices
        self._rows = RowBuffer(LOGGED_COLLECTIVES, emit)
        self._transfers = RowBuffer(NET_TRANSFERS, emit)
        self._communicators = Communicators(emit)
        self._numbers: Counter[tuple[int, int | None, str]] = Counter()

    def operation(self, event: Beginning, call: Mapping[str, Any]) -> Operation:
        """The operation that an event begins; `call` is what the program asked for, where recorded (2.28 and later)."""
        args = event.args
        rank, comm_id = natural(args.get("Rank"), 32), identifier(args.get("CommHash"))
        comm = self._communicators.number(event.part, comm_id, rank, event.line)
        if comm_id is None:
            self._notices.add("no-communicator", event.offset)
        operation = operation_named(event.name)
        if operation == ops.UNKNOWN:
            self._notices.add("unknown-operation", event.offset)
        seq = natural(args.get("SeqNum"))
        if seq is None:
            series = (event.part, comm, event.category)
            seq = self._numbers[series]
            self._numbers[series] += 1
        start = moment_ns(event.ts)
        if nanoseconds(event.ts) is None:
            self._notices.add("bad-time", event.offset)
        return Operation(event.category, event.name, event.line, event.part, comm, seq, rank, operation, start, args, call)

    def add_operation(self, operation: Operation, end: int | None) -> None:
        """The row of an operation that ends, or whose end is not in the dump."""
        copied = operation.category == "CE_COLL"
        state, length = _copy_outcome(operation) if copied else operation.outcome(end)
        self._notices.add("no-lengths" if state == "enqueued" else "unfinished", count=int(state != "completed"))
        self._judge(operation.start, end)
        args, rooted = operation.args, operation.operation in _ROOTED
        root = natural(operation.api.get("root"), 32) if rooted else None
        count, dtype, size = _amount(operation)
        inward, outward = amounts(operation.name, size, rank=operation.rank, root=root)
        self._rows.add(
            part=operation.part,
            line=operation.line,
            dur_ns=length,
            origin="profiler",
            comm=operation.comm,
            seq=operation.seq,
            operation=operation.operation,
            count=count,
            dtype=dtype,
            in_bytes=inward,
            out_bytes=outward,
            root=root,
            peer=natural(args.get("Peer"), 32),
            stream=text(operation.api.get("Stream")),
            algorithm="COPY_ENGINE" if copied else ops.algorithm(text(args.get("Algorithm")) or ""),
            protocol=ops.protocol(text(args.get("Protocol")) or ""),
            channel_first=operation.channels.first,
            channel_last=operation.channels.last,
            state=state,
        )

    def add_transfer(self, transfer: Transfer, end: int | None) -> None:
        """The row of a transfer that ends, or whose end is not in the dump."""
        args, operation = transfer.args, transfer.operation
        if operation is not None and end is not None:
            operation.transfers_done += 1
        self._judge(transfer.start, end)
        self._transfers.add(
            part=transfer.part,
            line=transfer.line,
            dur_ns=length_ns(transfer.start, end),
            comm=operation.comm if operation is not None else None,
            channel=natural(args.get("Channel"), 32),
            peer=natural(args.get("Peer"), 32),
            direction=transfer.direction,
            bytes=natural(args.get("transSize")),
            steps=natural(args.get("Steps")),
            operation=operation.operation if operation is not None else None,
            seq=operation.seq if operation is not None else None,
        )

    def _judge(self, start: int | None, end: int | None) -> None:
        self._notices.add("bad-time", count=int(start is not None and end is not None and end < start))

    def flush(self) -> None:
        """Emits what is held, and the communicators."""
        self._notices.add("too-many-communicators", count=self._communicators.refused)
        self._rows.flush()
        self._transfers.flush()
        self._communicators.flush()


def _amount(operation: Operation) -> tuple[int | None, str | None, int | None]:
    """Elements, their type, and bytes: as the call states them where it has as many bytes, for NCCL turns some into bytes itself."""
    args = operation.args
    count, dtype, size = _stated(args.get("Count", args.get("count")), args.get("Datatype", args.get("datatype")))
    asked = _stated(operation.api.get("count"), operation.api.get("datatype"))
    return asked if asked[2] is not None and asked[2] == size else (count, dtype, size)


def _stated(count: object, dtype: object) -> tuple[int | None, str | None, int | None]:
    n, kind = natural(count), ops.element_type_named(text(dtype) or "")
    size = n * kind.size if n is not None and kind is not None else None
    return n, kind.name if kind is not None else None, size


def _copy_outcome(operation: Operation) -> tuple[str, int | None]:
    """Copies state their lengths: by the GPU where it was asked to time them, else by the host. 0 where they have not ended."""
    args = operation.args
    length = moment_ns(args.get("duration_gpu_us")) or moment_ns(args.get("duration_cpu_us"))
    return "completed" if length is not None else "started", length
