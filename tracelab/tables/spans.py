"""What happened on GPUs and hosts, as parsers emit it.

Parsers write times in the clock of the source (`source_ts_ns`, nanoseconds of the Unix epoch as that host counted it).
`source_id`, `rank` and the aligned `ts_ns` are added when a table is scanned, so that a file parsed once serves any
directory, rank map and clock model.
"""

from __future__ import annotations

from tracelab.tables.schema import Column, TableSpec

__all__ = ["COMM_RECORDS", "GPU_COUNTERS", "GPU_SPANS", "HOST_SPANS", "IDENTITY", "MEMORY_EVENTS", "PROCESS_GROUPS"]

IDENTITY = (
    Column("source_id", "int32", "file that the row comes from", nullable=False, added=True),
    Column("rank", "int32", "rank of the process; negative where no source states one", nullable=False, added=True),
    Column("part", "int16", "number of the process inside the file; 0 where a file holds one", nullable=False),
)
_TIME = (
    Column("ts_ns", "int64", "start, aligned clock", "ns", nullable=False, added=True),
    Column("source_ts_ns", "int64", "start, clock of the source", "ns", nullable=False),
)
_SPAN = (*IDENTITY, *_TIME, Column("dur_ns", "int64", "length", "ns", nullable=False))

GPU_SPANS = TableSpec(
    "gpu_spans",
    "One row per thing that occupied a GPU stream: kernels, copies, memory sets, stream waits, annotations.",
    (
        *_SPAN,
        Column("kind", "dict", "kernel, memcpy, memset, sync or annotation", nullable=False),
        Column("name", "dict", "name as the source has it", nullable=False),
        Column("device", "int32", "index of the GPU on its host"),
        Column("stream", "int64", "stream, or queue where the vendor has none"),
        Column("context", "int64", "GPU context"),
        Column("correlation", "int64", "joins with the launching runtime or driver call of the same source; null where the source has 0"),
        Column("external_id", "int64", "joins with the host operator that launched it; null where the source has 0"),
        Column("bytes", "int64", "bytes copied or set", "B"),
        Column("copy_kind", "dict", "direction of a copy: HtoD, DtoH, DtoD, PtoP, HtoH"),
        Column("src_device", "int32", "source GPU of a peer copy"),
        Column("dst_device", "int32", "destination GPU of a peer copy"),
        Column("blocks", "int64", "thread blocks in the grid"),
        Column("threads_per_block", "int32", "threads in a block"),
        Column("graph_id", "int64", "CUDA graph that launched it"),
        Column("graph_node_id", "int64", "node of that graph"),
        Column("clamped", "bool", "the source cut the start or the length: the times are not those of the hardware", nullable=False),
    ),
)

HOST_SPANS = TableSpec(
    "host_spans",
    "One row per thing that ran on a CPU thread: operators, annotations, runtime and driver calls.",
    (
        *_SPAN,
        Column("kind", "dict", "cpu_op, annotation, runtime, driver, python, overhead or other", nullable=False),
        Column("name", "dict", "name as the source has it", nullable=False),
        Column("pid", "int64", "process id"),
        Column("tid", "int64", "thread id"),
        Column("thread", "dict", "thread where the source names it by text"),
        Column("correlation", "int64", "joins a runtime or driver call with the GPU work it launched; null where the source has 0"),
        Column("external_id", "int64", "joins an operator with the GPU work under it; null where the source has 0"),
        Column("sequence_number", "int64", "autograd sequence number: joins forward with backward operators"),
        Column("clamped", "bool", "the source cut the start or the length", nullable=False),
    ),
)

COMM_RECORDS = TableSpec(
    "comm_records",
    "One row per event that states what a communication operation is: the arguments of a kernel or of its host operator.",
    (
        *_SPAN,
        Column("recorded_on", "dict", "kernel or cpu_op", nullable=False),
        Column("correlation", "int64", "of the kernel"),
        Column("external_id", "int64", "joins the host operator with its kernels"),
        Column("tid", "int64", "thread of the host operator"),
        Column("operation", "dict", "name of the operation as the source has it"),
        Column("dtype", "dict", "element type as the source has it"),
        Column("in_elements", "int64", "elements that this rank contributes"),
        Column("out_elements", "int64", "elements that this rank receives"),
        Column("in_split", "list<int64>", "elements for each peer, where stated in full"),
        Column("out_split", "list<int64>", "elements from each peer, where stated in full"),
        Column("group_name", "dict", "process group name; not one namespace over ranks"),
        Column("group_desc", "dict", "process group description"),
        Column("group_size", "int32", "ranks in the group"),
        Column("group_ranks", "list<int32>", "global ranks of the group; null where the source cut the list and no rule restores it"),
        Column("src_rank", "int32", "sender, for point to point and broadcast"),
        Column("dst_rank", "int32", "receiver, for point to point"),
        Column("seq", "int64", "sequence number in the group; point to point counts apart"),
        Column("comms_id", "string", "key of the operation that all ranks share"),
        Column("is_async", "bool", "the host does not wait for it"),
    ),
)

PROCESS_GROUPS = TableSpec(
    "process_groups",
    "One row per process group that a source lists.",
    (
        *IDENTITY,
        Column("group_name", "string", "name in that process", nullable=False),
        Column("group_desc", "string", "description"),
        Column("backend", "string", "backend configuration"),
        Column("size", "int32", "ranks in the group"),
        Column("group_ranks", "list<int32>", "global ranks; null where the source cut the list and no rule restores it"),
    ),
)

MEMORY_EVENTS = TableSpec(
    "memory_events",
    "One row per allocation or release of the framework's allocator.",
    (
        *IDENTITY,
        *_TIME,
        Column("device_type", "int32", "PyTorch device type: 0 CPU, 1 CUDA"),
        Column("device", "int32", "device index; -1 for the CPU"),
        Column("address", "int64", "address"),
        Column("bytes", "int64", "bytes allocated (positive) or released (negative)", "B"),
        Column("total_allocated_bytes", "int64", "allocated afterwards", "B"),
        Column("total_reserved_bytes", "int64", "reserved afterwards", "B"),
    ),
)

GPU_COUNTERS = TableSpec(
    "gpu_counters",
    "One row per sample of a counter that a profiler took on the GPU.",
    (
        *IDENTITY,
        *_TIME,
        Column("device", "int32", "index of the GPU on its host"),
        Column("counter", "dict", "name as the source has it", nullable=False),
        Column("value", "float64", "value in the source's unit"),
    ),
)
