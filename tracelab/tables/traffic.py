"""Who sends how much to whom, over what: communicators of the job, the edges that they send over, and the bytes."""

from __future__ import annotations

from tracelab.tables.schema import Column, TableSpec

__all__ = ["EDGES", "JOB_COMMUNICATORS", "OPERATIONS", "TRAFFIC", "TRAFFIC_EXPECTED", "TRAFFIC_STEPS"]

_RUNGS = (
    "what the edge rests on, best first: transfers (the proxy counted the bytes), stated (a line states this edge), "
    "order (a complete ring order), completed (a cut order, closed by the repeating order of hosts and by connections), "
    "connections (the only cycle that connections allow), call (a send or an all-to-all names both ends), assumed (rank order, ranks grouped by host)"
)

_WINDOW = "capture (operations that a capture holds), or log (operations that only logs hold: before, after or beside the captures)"

JOB_COMMUNICATORS = TableSpec(
    "job_communicators",
    "One row per communicator of the job, over all processes that log it.",
    (
        Column("comm_key", "int32", "number of the communicator", nullable=False, key=True),
        Column("group_id", "int32", "group of `groups` with the same ranks; null where none is known"),
        Column("comm_id", "string", "id that its ranks print"),
        Column("size", "int32", "ranks in the communicator", nullable=False),
        Column("ranks", "list<int32>", "global ranks in the order of the communicator; null items are unknown"),
        Column("seen", "int32", "ranks whose process logged it", nullable=False),
        Column(
            "origin",
            "string",
            "comm-id, split, process-group (a recorder lists it), init-lines (size, order, complementary ranks), or assumed (job order)",
            nullable=False,
        ),
        Column("parent_key", "int32", "communicator that it was split from"),
        Column("nodes", "int32", "hosts it spans"),
        Column("channels", "int32", "channels for collectives"),
        Column("version", "string", "version of the library"),
        Column("name", "string", "description of its group, or its size", nullable=False),
    ),
    ("comm_key",),
)

EDGES = TableSpec(
    "edges",
    "One row per communicator, channel and directed pair of ranks that exchange data.",
    (
        Column("comm_key", "int32", "communicator; null for edges of a group that no log describes", key=True),
        Column("group_id", "int32", "group"),
        Column("kind", "dict", "ring, tree, collnet, nvls or p2p", nullable=False, key=True),
        Column("channel", "int32", "channel", nullable=False, key=True),
        Column("position", "int32", "of a ring: place of the sender in it, from communicator rank 0 on; of a tree: which of the two complementary trees"),
        Column("src_rank", "int32", "sender, global rank; of a tree the child", nullable=False, key=True),
        Column("dst_rank", "int32", "receiver, global rank; of a tree the parent", nullable=False, key=True),
        Column("transport", "dict", "as in `channel_edges`; null where not stated"),
        Column("net_device", "int32", "index of the sender's network device"),
        Column("nic", "string", "name of that device"),
        Column("gdr", "bool", "GPUDirect RDMA"),
        Column("proxy_rank", "int32", "global rank through whose interface the data leave"),
        Column("rung", "dict", _RUNGS, nullable=False),
    ),
)

OPERATIONS = TableSpec(
    "operations",
    "One row per communication operation of the job, from traces and logs together: none is counted twice.",
    (
        Column("operation_id", "int64", "number of the row", nullable=False, key=True),
        Column("group_id", "int32", "group"),
        Column("comm_key", "int32", "communicator; null where no log tells"),
        Column("origin", "string", "trace, log or both", nullable=False),
        Column("match_id", "int64", "row of `matches`; null where only a log has it or it was not matched"),
        Column("operation", "dict", "as in `collectives`", nullable=False),
        Column(
            "bytes",
            "int64",
            "size, as in `matches`: the full tensor for all_gather and reduce_scatter, else what one rank contributes",
            "B",
        ),
        Column("size", "int32", "ranks in the group"),
        Column("root", "int32", "root, global rank"),
        Column("src_rank", "int32", "sender of a point-to-point operation, global rank"),
        Column("dst_rank", "int32", "receiver of a point-to-point operation, global rank"),
        Column("algorithm", "dict", "as in `logged_collectives`; null where not stated"),
        Column("protocol", "dict", "as in `logged_collectives`"),
        Column("algorithm_origin", "string", "log, name (of the kernel: a hint) or null"),
        Column("channel_first", "int32", "first channel used"),
        Column("channel_last", "int32", "last channel used"),
        Column("step", "int32", "step; null where untimed or outside"),
        Column("start_ns", "int64", "first arrival, aligned clock; null where untimed", "ns"),
        Column("end_ns", "int64", "median end, aligned clock", "ns"),
        Column("line", "int64", "line of the log that states it"),
        Column("source_id", "int32", "file of that line"),
    ),
    ("operation_id",),
)

TRAFFIC = TableSpec(
    "traffic",
    "One row per directed pair of ranks, group, operation and path: the bytes that the job's operations put on it.",
    (
        Column("src_rank", "int32", "sender, global rank", nullable=False, key=True),
        Column("dst_rank", "int32", "receiver, global rank", nullable=False, key=True),
        Column("src_host", "string", "host of the sender"),
        Column("dst_host", "string", "host of the receiver"),
        Column("group_id", "int32", "group", key=True),
        Column("operation", "dict", "as in `collectives`", nullable=False, key=True),
        Column("algorithm", "dict", "algorithm that the bytes were spread by", nullable=False, key=True),
        Column("transport", "dict", "as in `channel_edges`; network or host where only the hosts tell; null where not even they", key=True),
        Column("nic", "string", "network device of the sender, where stated", key=True),
        Column("proxy_rank", "int32", "global rank through whose interface the data leave (PXN): the physical hop is from there", key=True),
        Column("window", "dict", _WINDOW, nullable=False, key=True),
        Column("bytes", "int64", "payload", "B", nullable=False),
        Column("operations", "int64", "operations of the job that the bytes come from", nullable=False),
        Column("rung", "dict", _RUNGS, nullable=False, key=True),
    ),
    ("src_rank", "dst_rank", "group_id", "operation"),
)

TRAFFIC_EXPECTED = TableSpec(
    "traffic_expected",
    "One row per directed pair of ranks: what the same operations would put on it over rings in rank order, host by host.",
    (
        Column("src_rank", "int32", "sender, global rank", nullable=False, key=True),
        Column("dst_rank", "int32", "receiver, global rank", nullable=False, key=True),
        Column("window", "dict", _WINDOW, nullable=False, key=True),
        Column("bytes", "int64", "payload", "B", nullable=False),
    ),
    ("src_rank", "dst_rank"),
)

TRAFFIC_STEPS = TableSpec(
    "traffic_steps",
    "One row per step, group and operation: bytes on all pairs together, and between hosts.",
    (
        Column("step", "int32", "step; null for operations outside the steps or without time", key=True),
        Column("group_id", "int32", "group", key=True),
        Column("operation", "dict", "as in `collectives`", nullable=False, key=True),
        Column("operations", "int64", "operations of the job", nullable=False),
        Column("bytes", "int64", "payload on all pairs", "B", nullable=False),
        Column("cross_host_bytes", "int64", "of it, between hosts", "B"),
    ),
    ("step", "group_id", "operation"),
)
