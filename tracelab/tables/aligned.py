"""What is known once all ranks of a job stand on one clock: steps, groups, matched collectives, arrivals, clocks."""

from __future__ import annotations

from tracelab.tables.schema import Column, TableSpec

__all__ = ["ARRIVALS", "CLOCKS", "COLLECTIVES", "GROUPS", "MATCHES", "STEPS"]

_OPERATIONS = "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send, recv, send_recv, barrier or unknown"
_RANK = Column("rank", "int32", "global rank; negative where no source states one", nullable=False, key=True)

STEPS = TableSpec(
    "steps",
    "One row per rank and training step.",
    (
        _RANK,
        Column("step", "int32", "step number as the source has it, or the number of the capture window", nullable=False, key=True),
        Column("start_ns", "int64", "start, aligned clock", "ns", nullable=False),
        Column("end_ns", "int64", "start of the next step; the last step ends with its last host or GPU work", "ns", nullable=False),
        Column("origin", "string", "annotation, or window where the source marks no steps", nullable=False),
    ),
    ("rank", "step"),
)

GROUPS = TableSpec(
    "groups",
    "One row per set of ranks that communicate with each other.",
    (
        Column("group_id", "int32", "number of the group", nullable=False, key=True),
        Column("ranks", "list<int32>", "global ranks in order; null where unknown"),
        Column("size", "int32", "ranks in the group; null where unknown"),
        Column("name", "string", "what people call it: description, or the names its ranks give it", nullable=False),
        Column("origin", "string", "stated (by a source), or inferred (from kernels that end together)", nullable=False),
    ),
    ("group_id",),
)

COLLECTIVES = TableSpec(
    "collectives",
    "One row per rank and communication operation, on whatever it ran: a kernel, a copy between GPUs, or the CPU.",
    (
        Column("op_id", "int64", "number of the row", nullable=False, key=True),
        Column("source_id", "int32", "file that the row comes from", nullable=False),
        Column("rank", "int32", "global rank; negative where no source states one", nullable=False),
        Column("group_id", "int32", "group of ranks that takes part; null where unknown"),
        Column("operation", "dict", _OPERATIONS, nullable=False),
        Column("operation_origin", "string", "metadata, or name where only the kernel's name tells", nullable=False),
        Column("library", "dict", "what moved the data: nccl, rccl, gloo, deepep, nvshmem, custom, symmetric-memory, peer-copy …", nullable=False),
        Column("name", "dict", "name of the kernel, copy or annotation", nullable=False),
        Column("step", "int32", "step that it started in; null outside all steps"),
        Column("stream", "int64", "GPU stream; null on the CPU"),
        Column("start_ns", "int64", "start, aligned clock", "ns", nullable=False),
        Column("end_ns", "int64", "end, aligned clock", "ns", nullable=False),
        Column("source_ts_ns", "int64", "start, clock of the source", "ns", nullable=False),
        Column("dtype", "dict", "element type"),
        Column("in_bytes", "int64", "bytes that this rank contributes", "B"),
        Column("out_bytes", "int64", "bytes that this rank receives", "B"),
        Column("peer", "int32", "the other rank of a point-to-point operation"),
        Column("seq", "int64", "sequence number in the group, where stated"),
        Column("comms_id", "string", "key that all ranks share, where stated"),
        Column("match_id", "int64", "operation of the job that this row is part of; null where it could not be matched"),
    ),
    ("op_id",),
)

MATCHES = TableSpec(
    "matches",
    "One row per communication operation of the job, over all ranks that took part.",
    (
        Column("match_id", "int64", "number of the operation", nullable=False, key=True),
        Column("group_id", "int32", "group of ranks that takes part"),
        Column("operation", "dict", "as in `collectives`", nullable=False),
        Column("rung", "string", "what the match rests on: comms-id, sequence-number, order", nullable=False),
        Column("margin", "float64", "order only: share by which the best alignment beats the next; 1 is certain"),
        Column("members", "int32", "ranks in the group; null where unknown"),
        Column("present", "int32", "ranks whose part was seen", nullable=False),
        Column("step", "int32", "step of the earliest part"),
        Column("bytes", "int64", "size of the operation: the full tensor for all_gather and reduce_scatter, else what one rank contributes", "B"),
        Column("first_start_ns", "int64", "first arrival, aligned clock", "ns", nullable=False),
        Column("last_start_ns", "int64", "last arrival, aligned clock", "ns", nullable=False),
        Column("last_rank", "int32", "rank that arrived last", nullable=False),
        Column("last_by_ns", "int64", "time between the last arrival and the one before; null with fewer than two ranks", "ns"),
        Column("last_certain", "bool", "the last arrival is later than the one before by more than three times the clock uncertainty", nullable=False),
        Column("end_ns", "int64", "median end over ranks, aligned clock", "ns", nullable=False),
        Column("end_spread_ns", "int64", "latest minus earliest end", "ns", nullable=False),
        Column("transfer_ns", "int64", "median end minus last arrival; null unless all members were seen", "ns"),
        Column("algbw_bytes_per_s", "float64", "bytes / transfer", "B/s"),
        Column("busbw_bytes_per_s", "float64", "algbw times the operation's bus factor (nccl-tests definition)", "B/s"),
    ),
    ("match_id",),
)

ARRIVALS = TableSpec(
    "arrivals",
    "One row per rank and matched operation: how long it waited for its peers.",
    (
        Column("match_id", "int64", "operation", nullable=False, key=True),
        _RANK,
        Column("op_id", "int64", "row of `collectives`", nullable=False),
        Column("start_ns", "int64", "arrival, aligned clock", "ns", nullable=False),
        Column("end_ns", "int64", "end, aligned clock", "ns", nullable=False),
        Column("wait_ns", "int64", "min(length, last arrival - arrival), not below 0: Scalasca's wait at N×N", "ns", nullable=False),
        Column("late_ns", "int64", "arrival minus first arrival", "ns", nullable=False),
    ),
    ("match_id", "rank"),
)

CLOCKS = TableSpec(
    "clocks",
    "One row per host clock and stretch of time: what is added to the host's times to reach the aligned clock.",
    (
        Column("host", "string", "host", nullable=False, key=True),
        Column("start_ns", "int64", "from this moment of the host's own clock on", "ns", nullable=False, key=True),
        Column("offset_ns", "int64", "added at `start_ns`", "ns", nullable=False),
        Column("drift_ppm", "float64", "offset gained per time from there on", "ppm", nullable=False),
        Column("uncertainty_ns", "int64", "the aligned time is right within this, relative to the other hosts; null where unknown", "ns"),
        Column("method", "string", "collective-ends, single-host or none", nullable=False),
        Column("grade", "string", "A: within 10 µs, B: 100 µs, C: 1 ms, D: not aligned", nullable=False),
    ),
    ("host", "start_ns"),
)
