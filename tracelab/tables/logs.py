"""What communication libraries and watchdogs say of themselves: communicators, rings, operations, warnings, settings.

Most of it carries no time: NCCL stamps its lines only on demand, and then in local time without a zone. `source_ts_ns` is
null unless the source states an absolute time; order within a process is that of `line`.

Every rank in these tables is a rank of the communicator (or group) that the row names, as the library prints it; the ranks
of the job are in the table `job_communicators`. `comm` numbers the communicators of one process in the order in which they
appear: pointers are used again, and fifteen processes may print the same one.
"""

from __future__ import annotations

from tracelab.tables.schema import Column, TableSpec
from tracelab.tables.spans import IDENTITY

__all__ = [
    "BANDWIDTH_BASELINES",
    "CHANNEL_EDGES",
    "COMMUNICATORS",
    "COMM_PROGRESS",
    "LOGGED_COLLECTIVES",
    "LOG_EVENTS",
    "LOG_SETTINGS",
    "NET_DEVICES",
    "NET_TRANSFERS",
    "NODE_PATHS",
    "RING_ORDERS",
    "TUNING",
]

_LINE = Column("line", "int64", "line of the file, from 1; number of the record where the file has no lines", nullable=False)
_TIME = (
    Column("ts_ns", "int64", "aligned clock", "ns", added=True),
    Column("source_ts_ns", "int64", "clock of the source; null where the source states no absolute time", "ns"),
)
_COMM = Column("comm", "int32", "communicator of this process; null where the source does not tell which")

COMMUNICATORS = TableSpec(
    "communicators",
    "One row per communicator of a process.",
    (
        *IDENTITY,
        _LINE,
        Column("comm", "int32", "number of the communicator in its process, in order of appearance", nullable=False, key=True),
        Column("pointer", "string", "address as printed: 0x and lower-case digits; used again after a destroy"),
        Column("comm_id", "string", "id that all ranks of the communicator print (commId, commHash), as 0x and lower-case digits without leading zeros"),
        Column("comm_rank", "int32", "rank of this process in the communicator; null where the line that says so was lost"),
        Column("size", "int32", "ranks in the communicator"),
        Column("cuda_device", "int32", "device index as the process sees it"),
        Column("nvml_device", "int32", "device index on the host"),
        Column("bus_id", "string", "PCI address of the GPU, as 0000:0f:00.0"),
        Column("function", "dict", "what made it: ncclCommInitRank, ncclCommSplit … where printed"),
        Column("parent", "int32", "communicator of this process that it was split from"),
        Column("parent_pointer", "string", "address of the parent as printed"),
        Column("split", "int32", "number of the split among those of the parent (splitCount, childCount)"),
        Column("color", "int64", "colour of the split: ranks of one parent, split and colour form one communicator"),
        Column("split_key", "int64", "key of the split: orders its ranks"),
        Column("nodes", "int32", "hosts (or NVLink domains) it spans, where printed"),
        Column("local_ranks", "int32", "ranks on this host"),
        Column("local_rank", "int32", "number of this rank on its host"),
        Column("channels", "int32", "channels for collectives"),
        Column("p2p_channels", "int32", "channels for point to point"),
        Column("p2p_channels_per_peer", "int32", "of them, for one peer"),
        Column("nvls_channels", "int32", "channels through the switch's multicast"),
        Column("collnet_channels", "int32", "channels through in-network reduction"),
        Column("init_s", "float64", "time that its initialisation took, where printed", "s"),
        Column("state", "dict", "started, complete, destroyed, aborted, or seen (no line of its initialisation)", nullable=False),
        Column("group_name", "string", "process group that it serves, where the source says so"),
        Column("group_desc", "string", "description of that group"),
        Column("version", "string", "version of the library, as 2.21.5"),
        Column("library", "dict", "nccl or rccl"),
    ),
    ("source_id", "part", "comm"),
)

CHANNEL_EDGES = TableSpec(
    "channel_edges",
    "One row per connection or neighbourhood that a process states.",
    (
        *IDENTITY,
        _LINE,
        _COMM,
        Column("kind", "dict", "ring (prev and next of a rank), tree (child to parent), connection, collnet, or nvls_tree", nullable=False),
        Column("channel", "int32", "channel", nullable=False),
        Column("connection", "int32", "connection index: 0 collectives, 1 point to point; null where not printed"),
        Column("src_rank", "int32", "sender; of a tree the child", nullable=False),
        Column("dst_rank", "int32", "receiver; of a tree the parent", nullable=False),
        Column("src_device", "string", "what stands in brackets after the sender: bus id or device, as printed"),
        Column("dst_device", "string", "what stands in brackets after the receiver"),
        Column("direction", "dict", "send or receive where only one end is described"),
        Column("transport", "dict", "P2P/IPC, P2P/CUMEM, P2P/direct pointer, P2P/indirect, P2P/MNNVL, SHM, NET/IB, NET/Socket, NET/<plugin>, COLLNET …"),
        Column("net_device", "int32", "index of the network device"),
        Column("gdr", "bool", "GPUDirect RDMA; null where the connection uses no network"),
        Column("proxy_rank", "int32", "rank through whose interface the data leave (PXN)"),
    ),
)

RING_ORDERS = TableSpec(
    "ring_orders",
    "One row per ring that is printed as a list of ranks. NCCL cuts the list after 20 ranks and does not say so.",
    (
        *IDENTITY,
        _LINE,
        _COMM,
        Column("channel", "int32", "channel", nullable=False),
        Column("channels", "int32", "number of channels as printed with it"),
        Column("order", "list<int32>", "ranks in the order of the ring, as far as printed", nullable=False),
        Column("cut", "bool", "the line says, or its length, that more follows", nullable=False),
    ),
)

LOGGED_COLLECTIVES = TableSpec(
    "logged_collectives",
    "One row per communication operation that a process logged.",
    (
        *IDENTITY,
        _LINE,
        *_TIME,
        Column("dur_ns", "int64", "length, where the source states one", "ns"),
        Column("origin", "dict", "coll-line, call-line, flight-recorder, inspector or profiler", nullable=False),
        _COMM,
        Column("seq", "int64", "number of the operation in its communicator and process: stated by recorders, counted for log lines from 0", nullable=False),
        Column("op_count", "int64", "opCount as printed: shared by a group and frozen at 0 in some versions, no key"),
        Column("operation", "dict", "as in `collectives`", nullable=False),
        Column("count", "int64", "elements as the call states them: all_gather sends, reduce_scatter receives, all_to_all gives each peer so many"),
        Column("dtype", "dict", "element type: float32, bfloat16, float8_e4m3fn …"),
        Column("in_bytes", "int64", "bytes that this rank contributes", "B"),
        Column("out_bytes", "int64", "bytes that this rank receives", "B"),
        Column("reduction", "dict", "sum, prod, max, min, avg or user"),
        Column("root", "int32", "root of a broadcast, reduce, gather or scatter"),
        Column("peer", "int32", "the other rank of a send or recv"),
        Column("size", "int32", "ranks in the communicator, as the row states it"),
        Column("stream", "string", "address of the stream"),
        Column("algorithm", "dict", "TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT, SYMMETRIC or COPY_ENGINE"),
        Column("protocol", "dict", "LL, LL128 or SIMPLE"),
        Column("channel_first", "int32", "first channel used"),
        Column("channel_last", "int32", "last channel used"),
        Column("state", "dict", "enqueued, scheduled, started or completed", nullable=False),
        Column("stack", "string", "innermost frames of the call, where recorded: file:line function, joined by line breaks"),
    ),
)

NET_DEVICES = TableSpec(
    "net_devices",
    "One row per network device that a process lists.",
    (
        *IDENTITY,
        _LINE,
        Column("plugin", "dict", "IB, Socket, OFI, or the plugin's name; bootstrap for the out-of-band interface", nullable=False),
        Column("device", "int32", "index of the device, as connections name it"),
        Column("name", "string", "name: mlx5_2, eth0, rdmap0s6 …"),
        Column("port", "int32", "port of the device"),
        Column("link_layer", "dict", "IB or RoCE, where printed"),
        Column("address", "string", "address of the interface, without port"),
        Column("gdr", "bool", "GPUDirect RDMA works with it; null where not printed"),
        Column("used", "bool", "the process says that it uses this plugin; null where it does not say", nullable=True),
    ),
)

LOG_SETTINGS = TableSpec(
    "log_settings",
    "One row per setting, version or property that a process states. Only names of an allow-list, never the environment.",
    (
        *IDENTITY,
        _LINE,
        Column("name", "dict", "NCCL_IB_HCA …, or version, cuda_driver, net_plugin, network, affinity, dma_buf", nullable=False),
        Column("value", "string", "value, bounded", nullable=False),
        Column("origin", "dict", "environment, file, or stated", nullable=False),
    ),
)

LOG_EVENTS = TableSpec(
    "log_events",
    "One row per message of a log that is no operation.",
    (
        *IDENTITY,
        _LINE,
        *_TIME,
        Column("local_ts_ns", "int64", "local time as printed, read as if it were UTC: the zone is not stated", "ns"),
        Column("level", "dict", "INFO, WARN, TRACE, CALL, VERSION, ABORT, ERROR (of a framework)", nullable=False),
        Column("kind", "dict", "what kind of message it is: init, ring, tree, channel, net, error …; unknown where no pattern fits", nullable=False),
        _COMM,
        Column("tid", "int64", "thread"),
        Column("device", "int32", "current device of the calling thread, not that of the communicator"),
        Column("where", "dict", "file and line of the library, where printed"),
        Column("text", "string", "message, bounded", nullable=False),
        Column("shape", "dict", "of an unknown message: its text with numbers and addresses blanked"),
    ),
)

NODE_PATHS = TableSpec(
    "node_paths",
    "One row per path between a GPU and another device of its host, as the library measured it.",
    (
        *IDENTITY,
        _LINE,
        _COMM,
        Column("src", "string", "device: GPU/0-2a000", nullable=False),
        Column("dst", "string", "device: GPU/…, NET/…, CPU/…, NVS/…", nullable=False),
        Column("hops", "int32", "links on the path"),
        Column("bandwidth_gb_per_s", "float64", "bandwidth as printed", "GB/s"),
        Column("path", "dict", "LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET or DIS", nullable=False),
    ),
)

TUNING = TableSpec(
    "tuning",
    "One row per cell of the table from which the library chooses algorithm and protocol.",
    (
        *IDENTITY,
        _LINE,
        _COMM,
        Column("operation", "dict", "as in `collectives`", nullable=False),
        Column("algorithm", "dict", "algorithm", nullable=False),
        Column("protocol", "dict", "protocol", nullable=False),
        Column("latency_us", "float64", "latency", "µs"),
        Column("algbw_gb_per_s", "float64", "algorithm bandwidth; 0 where switched off", "GB/s"),
    ),
)

BANDWIDTH_BASELINES = TableSpec(
    "bandwidth_baselines",
    "One row per measurement of a communication benchmark (nccl-tests): what the same machines reach without a job.",
    (
        *IDENTITY,
        _LINE,
        Column("operation", "dict", "as in `collectives`", nullable=False),
        Column("ranks", "int32", "ranks that took part"),
        Column("bytes", "int64", "size of the message", "B", nullable=False),
        Column("count", "int64", "elements"),
        Column("dtype", "dict", "element type"),
        Column("reduction", "dict", "reduction"),
        Column("root", "int32", "root"),
        Column("in_place", "bool", "in place or out of place", nullable=False),
        Column("time_ns", "int64", "mean time of the operation", "ns"),
        Column("algbw_bytes_per_s", "float64", "bytes / time", "B/s"),
        Column("busbw_bytes_per_s", "float64", "bus bandwidth (nccl-tests definition)", "B/s"),
        Column("errors", "int64", "wrong elements; null where not checked"),
    ),
)

COMM_PROGRESS = TableSpec(
    "comm_progress",
    "One row per statement of how far a rank came in a communicator or group: watchdogs, recorders, the library's own monitor.",
    (
        *IDENTITY,
        _LINE,
        *_TIME,
        Column("origin", "dict", "watchdog, desync-report, flight-recorder or ras", nullable=False),
        _COMM,
        Column("comm_id", "string", "id of the communicator, as in `communicators`"),
        Column("group_name", "string", "name of the process group"),
        Column("group_desc", "string", "description of the process group"),
        Column("subject_rank", "int32", "rank that the statement is about: of the communicator (ras), of the job (others)"),
        Column("subject_host", "string", "host of that rank"),
        Column("subject_pid", "int64", "process of that rank"),
        Column("subject_device", "int32", "GPU of that rank"),
        Column("size", "int32", "ranks in the communicator or group"),
        Column("operation", "dict", "operation that the statement is about, as in `collectives`; null where it counts all"),
        Column("timed_out", "int64", "operation that a watchdog gave up waiting for"),
        Column("last_enqueued", "int64", "last operation handed to the library"),
        Column("last_started", "int64", "last operation that began"),
        Column("last_completed", "int64", "last operation that ended"),
        Column("in_bytes", "int64", "size of the operation's input, where stated", "B"),
        Column("in_elements", "int64", "elements of the operation's input"),
        Column("out_elements", "int64", "elements of the operation's output"),
        Column("waited_ns", "int64", "how long the watchdog waited", "ns"),
        Column("status", "dict", "timed-out, running, missing, mismatch, incomplete, error, aborted, finalized, ok", nullable=False),
        Column("text", "string", "the statement, bounded", nullable=False),
    ),
)

NET_TRANSFERS = TableSpec(
    "net_transfers",
    "One row per transfer that the library's network proxy made.",
    (
        *IDENTITY,
        _LINE,
        *_TIME,
        Column("dur_ns", "int64", "length", "ns"),
        _COMM,
        Column("channel", "int32", "channel"),
        Column("peer", "int32", "the other rank in the communicator"),
        Column("direction", "dict", "send or receive", nullable=False),
        Column("bytes", "int64", "bytes moved", "B"),
        Column("steps", "int64", "chunks"),
        Column("operation", "dict", "operation that it belongs to, as in `collectives`"),
        Column("seq", "int64", "operation in its communicator, as in `logged_collectives`"),
    ),
)
