"""Nsight Systems SQLite exports in the documented layout, of several schema versions: by hand, or of a simulated job.

    export = Export("3.24.7")
    export.kernel("ncclDevKernel_SendRecv(...)", start=1_000, end=5_000, correlation=7)
    export.write(tmp_path / "report.sqlite")

    write_rank(tmp_path / "rank0.sqlite", Simulation(Job()), 0)

Times are those of the session; `epoch_ns` is what they count from. `python -m tests.builders.nsys_sqlite` writes
`sample_traces/formats/nsys-sqlite/` again.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.builders.job import START_NS, Job, Operation, Simulation, Span

__all__ = ["ENTRIES", "NCCL_DOMAIN", "VERSIONS", "Export", "comm_hash", "payload", "rank_export", "write_rank", "write_ranks"]

VERSIONS = ("2.9.1", "3.1.2", "3.13.0", "3.24.7", "3.25.0", "3.28.1")
NCCL_DOMAIN = 1
PUSH_POP, START_END, MARK, DOMAIN, THREAD_NAME = 59, 60, 34, 75, 39
SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "formats" / "nsys-sqlite"

_GPU = "start end deviceId contextId greenContextId@3.13 streamId correlationId globalPid"
_COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_GPU} demangledName shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY "
    "blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig "
    "qmdBulkReleaseDone@3.24 qmdPreexitDone@3.24 qmdLastCtaDone@3.24 graphId@3.24 clusterX@3.24 clusterY@3.24 clusterZ@3.24 clusterSchedulingPolicy@3.24 "
    "maxPotentialClusterSize@3.24 maxActiveClusters@3.24 sharedMemoryRequestedPercentage@3.24 tensorSizeMinusOneElements@3.25",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_GPU} bytes copyKind deprecatedSrcId@3.13 srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId "
    "migrationCause graphNodeId virtualAddress copyCount@3.24",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_GPU} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_GPU} deprecatedSyncType@3.13 syncType eventId eventSyncId@3.13",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_GPU} graphId graphExecId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "NVTX_EVENTS": "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value int64Value doubleValue "
    "uint32Value int32Value floatValue jsonTextId jsonText binaryData@3.13 eventId@3.28",
    "NVTX_PAYLOAD_SCHEMAS": "domainId schemaId name type flags numEntries payloadSize alignTo",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId schemaId idx flags type name description arrayOrUnionDetail offset",
    "StringIds": "id value",
    "PROCESSES": "globalPid pid name",
    "MPI_RANKS": "globalTid rank",
    "MPI_COLLECTIVES_EVENTS": "start end globalTid textId commHandle rootRank size recvSize",
    "UCP_SUBMIT_EVENTS": "start end globalTid textId bufferAddr packedSize peerWorkerUid tag",
    "PROFILER_OVERHEAD": "start end globalTid nameId overheadType",
    "OSRT_API": "start end eventClass globalTid nameId returnValue nestingLevel callchainId",
    "GPU_METRICS": "rawTimestamp@3.28 timestamp typeId metricId value",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId typeName metricId metricName",
    "NET_NIC_METRIC": "start end globalId portId@3.24 metricsListId metricsIdx value",
    "NET_IB_SWITCH_METRIC": "start end globalId portId@3.24 metricsListId metricsIdx value",
    "TARGET_INFO_NETWORK_METRICS": "metricsListId metricsIdx name description unit",
    "TARGET_INFO_NIC_INFO": "GUID stateName nicId name deviceId vendorId linkLayer",
    "NIC_ID_MAP": "nicId globalId",
    "NET_IB_DEVICE_INFO": "networkId guid name des lid",
    "NET_IB_SWITCH_CONGESTION_EVENT": "start globalId congestionType packetSLID packetDLID packetSL packetOpCode packetSourceQP packetDestinationQP "
    "switchIngressPort switchEgressPort",
    "ENUM_NET_IB_CONGESTION_EVENT_TYPE": "id name label",
    "ENUM_NET_LINK_TYPE": "id name label",
    "ENUM_NSYS_GENERIC_EVENT_FIELD_TYPE": "id name label",
    "GENERIC_EVENT_SOURCES": "sourceId nameId timeSourceId sourceGroupId data",
    "GENERIC_EVENT_TYPES": "typeId sourceId nameId data",
    "GENERIC_EVENT_TYPE_FIELDS": "typeId fieldIdx fieldNameId offset size type",
    "GENERIC_EVENTS": "genericEventId rawTimestamp timestamp typeId globalTid data",
    "GENERIC_EVENT_DATA": "genericEventId fieldIdx intVal uintVal floatVal doubleVal",
    "TARGET_INFO_NVTX_CUDA_DEVICE": "name hwId vmId deviceId",
    "META_DATA_EXPORT": "name value",
    "EXPORT_META_DATA": "name value",
    "META_DATA_CAPTURE": "name value",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName name nameEnum value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime systemClockNs@3.24 sessionStartCntVctNs@3.28",
    "TARGET_INFO_GPU": "vmId id name busLocation uuid@3.13 cuDevice",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid@3.24",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
}
_TEXT = frozenset({"text", "jsonText", "binaryData", "name", "tensorSizeMinusOneElements", "utcTime", "localTime", "metricName", "typeName", "description"})

ENTRIES: dict[str, tuple[int, Sequence[tuple[str, int, int]]]] = {
    "init": (16_777_218, (("NCCL communicator ID", 18, 0), ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16))),
    "gather": (16_777_220, (("NCCL communicator ID", 18, 0), ("Message size [bytes]", 22, 8))),
    "reduction": (16_777_223, (("NCCL communicator ID", 18, 0), ("Message size [bytes]", 22, 8), ("Reduction operation", 16_777_232, 16))),
    "rooted": (16_777_222, (("NCCL communicator ID", 18, 0), ("Message size [bytes]", 22, 8), ("Root", 5, 16))),
    "peer": (16_777_225, (("NCCL communicator ID", 18, 0), ("Message size [bytes]", 22, 8), ("Peer rank", 5, 16))),
    "old size": (16_777_236, (("Bytes", 22, 0),)),
}
"""Payload schemas: id, and label, type and offset of each entry. The last is of NCCL 2.20, which stated no communicator."""
_WIDTHS = {5: "<i", 18: "<Q", 22: "<Q", 16_777_232: "<i"}


def payload(schema: str, *values: int, domain: int = NCCL_DOMAIN) -> bytes:
    """A binary payload behind its header of domain, schema, size and offset."""
    number, entries = ENTRIES[schema]
    size = max(offset + struct.calcsize(_WIDTHS[kind]) for _, kind, offset in entries)
    body = bytearray(size)
    for (_, kind, offset), value in zip(entries, values, strict=True):
        struct.pack_into(_WIDTHS[kind], body, offset, value)
    return struct.pack("<4Q", domain, number, size, 32) + bytes(body)


def comm_hash(group: Sequence[int], kind: str = "") -> int:
    """The id of a communicator: the same on all its ranks."""
    return int.from_bytes(hashlib.blake2b(f"{kind}{list(group)}".encode(), digest_size=8).digest())


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")[:2]))


class Export:
    """Rows by table. Columns that the schema version has not are left out; tables without rows are, too, unless in `empty`."""

    def __init__(
        self,
        schema: str = "3.24.7",
        *,
        pid: int = 4000,
        epoch_ns: int | None = START_NS,
        suffixes: Mapping[str, str] | None = None,
        empty: Sequence[str] = (),
        normalized: bool = False,
        host: str = "node-0",
    ) -> None:
        self.schema = schema
        self.suffixes = suffixes or {}
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in empty}
        self._ids: dict[str, int] = {}
        self.process(pid)
        meta = "EXPORT_META_DATA" if _version(schema) < (3, 2) else "META_DATA_EXPORT"
        facts = {"EXPORT_PRODUCT_VERSION": "2026.4.1.1", "EXPORT_SCHEMA_VERSION": schema, "EXPORT_PARAM_TIME_NORMALIZE": str(normalized).lower()}
        for name, value in facts.items():
            self.add(meta, name=name, value=value)
        self.add("TARGET_INFO_SYSTEM_ENV", globalVid=1 << 48, devStateName="Local (CLI)", name="Hostname", value=host)
        if epoch_ns is not None:
            self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=epoch_ns, systemClockNs=28_254_349_605)

    def process(self, pid: int) -> None:
        """The process that rows are of from now on."""
        self.pid = pid
        self.global_pid = 1 << 48 | pid << 24
        self.add("PROCESSES", globalPid=self.global_pid, pid=pid, name="python3")

    def string(self, text: str) -> int:
        """The id of a text in StringIds."""
        if text not in self._ids:
            self._ids[text] = len(self._ids) + 1
            self.add("StringIds", id=self._ids[text], value=text)
        return self._ids[text]

    def add(self, table: str, **values: Any) -> None:
        """One row."""
        self.rows.setdefault(table, []).append(values)

    def tid(self, thread: int | None = None) -> int:
        """globalTid of a thread, by default the first."""
        return self.global_pid | (self.pid if thread is None else thread)

    def gpu(self, table: str, start: int | None, end: int | None, correlation: int | None = 1, stream: int = 7, device: int = 0, **more: Any) -> None:
        """One row of a table of GPU activity."""
        common = {
            "start": start,
            "end": end,
            "deviceId": device,
            "contextId": 1,
            "streamId": stream,
            "correlationId": correlation,
            "globalPid": self.global_pid,
        }
        self.add(f"CUPTI_ACTIVITY_KIND_{table}", **(common | more))

    def kernel(self, name: str | None, start: int | None, end: int | None, correlation: int | None = 1, stream: int = 7, **more: Any) -> None:
        """A kernel of 132 × 4 blocks of 256 threads."""
        short = name.split("(")[0] if name is not None else None
        sizes = {"gridX": 132, "gridY": 4, "gridZ": 1, "blockX": 256, "blockY": 1, "blockZ": 1}
        names = {"demangledName": self.string(name) if name is not None else None, "shortName": self.string(short) if short is not None else None}
        self.gpu("KERNEL", start, end, correlation, stream, **(sizes | names | more))

    def call(self, name: str, start: int, end: int, correlation: int | None, thread: int | None = None, event_class: int | None = 0) -> None:
        """A call of the CUDA API."""
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            eventClass=event_class,
            globalTid=self.tid(thread),
            correlationId=correlation,
            nameId=self.string(name),
            returnValue=0,
        )

    def range(self, text: str | None, start: int, end: int | None, thread: int | None = None, kind: int = PUSH_POP, domain: int = 0, **more: Any) -> None:
        """An NVTX range with its text in place, as PyTorch makes them."""
        self.add("NVTX_EVENTS", **({"start": start, "end": end, "eventType": kind, "text": text, "globalTid": self.tid(thread), "domainId": domain} | more))

    def nccl(self, name: str, start: int, end: int, thread: int | None = None, **more: Any) -> None:
        """A range of NCCL: a registered text, in its own domain."""
        self.range(None, start, end, thread, domain=NCCL_DOMAIN, textId=self.string(name), **more)

    def nccl_domain(self, *, named: bool = True) -> None:
        """Names the domain of NCCL and describes its payloads, as each process does."""
        if named:
            self.range("NCCL", 0, None, kind=DOMAIN, domain=NCCL_DOMAIN)
        for number, entries in ENTRIES.values():
            self.add("NVTX_PAYLOAD_SCHEMAS", domainId=NCCL_DOMAIN, schemaId=number, type=1, numEntries=len(entries))
            for index, (label, kind, offset) in enumerate(entries):
                self.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=NCCL_DOMAIN, schemaId=number, idx=index, type=kind, name=label, offset=offset or None)

    def environment(self, **variables: str) -> None:
        """The environment of the program that was profiled, with all its secrets."""
        for name, value in variables.items():
            self.add("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value=f"{name}={value}")
        text = "\n".join(f"{k}={v}" for k, v in variables.items())
        self.add("TARGET_INFO_SYSTEM_ENV", globalVid=1 << 48, devStateName="Local (CLI)", name="DeviceEnvironment", value=text)
        self.string(text)  # seen in real exports: the environment among the texts

    def columns(self, table: str) -> list[str]:
        """The columns of a table in this schema version."""
        listed = [c.partition("@") for c in _COLUMNS[table].split()]
        return [name for name, _, since in listed if not since or _version(self.schema) >= _version(since)]

    def write(self, path: Path, *, page_size: int = 4096, journal: str = "delete") -> Path:
        """Writes the database; the same rows give the same bytes."""
        path.unlink(missing_ok=True)
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("BEGIN")
        for table, rows in self.rows.items():
            name, columns = table + self.suffixes.get(table, ""), self.columns(table)
            declared = ", ".join(f"{c} {'TEXT' if c in _TEXT else 'INTEGER'}{' PRIMARY KEY' if (table, c) == ('StringIds', 'id') else ''}" for c in columns)
            if table in ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV", "StringIds"):
                declared = declared.replace("value INTEGER", "value TEXT")
            connection.execute(f"CREATE TABLE {name} ({declared})")
            marks = ",".join("?" * len(columns))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", [[r.get(c) for c in columns] for r in rows])
        connection.execute("COMMIT")
        connection.close()
        return path


_CALLS = {"all_reduce": ("ncclAllReduce", "reduction"), "reduce_scatter": ("ncclReduceScatter", "reduction"), "all_gather": ("ncclAllGather", "gather")}
_KERNELS = {"all_reduce": "AllReduce", "reduce_scatter": "ReduceScatter", "all_gather": "AllGather"}
_SESSION_NS = 1_000_000_000


def rank_export(run: Simulation, rank: int, schema: str = "3.24.7", *, payloads: str = "blob", into: Export | None = None) -> Export:
    """What Nsight Systems would have recorded of one rank. `payloads`: blob, json (NCCL's profiler plugin) or none."""
    job = run.job
    host = job.host(rank)
    base = START_NS - _SESSION_NS
    export = into if into is not None else Export(schema, pid=4000 + rank, epoch_ns=base, host=host)
    if into is not None:
        export.process(4000 + rank)
    else:
        export.environment(RANK=str(rank), WORLD_SIZE=str(job.world), LOCAL_RANK=str(job.device(rank)), HF_TOKEN="hf_not_to_be_shown", PATH="/usr/bin")
    writer = _RankWriter(export, run, rank, job.clock_error(host) - base, payloads)
    writer.write()
    return export


def write_rank(path: Path, run: Simulation, rank: int, schema: str = "3.24.7", *, payloads: str = "blob") -> Path:
    """Writes the export of one rank."""
    return rank_export(run, rank, schema, payloads=payloads).write(path)


def write_ranks(path: Path, run: Simulation, ranks: Sequence[int], schema: str = "3.24.7") -> Path:
    """Writes one export of several ranks of one host, as of a launcher that was profiled with its children."""
    export = rank_export(run, ranks[0], schema)
    for rank in ranks[1:]:
        rank_export(run, rank, schema, into=export)
    return export.write(path)


class _RankWriter:
    def __init__(self, export: Export, run: Simulation, rank: int, shift: int, payloads: str) -> None:
        self.export, self.run, self.rank, self.shift, self.payloads = export, run, rank, shift, payloads
        self.device = run.job.device(rank)
        self.numbers = 0

    def write(self) -> None:
        self.export.nccl_domain(named=self.payloads != "none")
        spans = self.run.written(self.rank)
        first = min(s.start for s in spans) + self.shift
        for kind in ("world", "tp", "dp"):
            for group in self.run.job.groups(kind):
                if self.rank in group and len(group) > 1:
                    self._init(kind, group, first)
        for span in spans:
            start, end = span.start + self.shift, span.end + self.shift
            if span.stream is None:
                self._host(span, start, end)
            else:
                self._gpu(span, start, end, span.stream)

    def _init(self, kind: str, group: tuple[int, ...], first: int) -> None:
        values = (comm_hash(group, kind), len(group), group.index(self.rank), self.device)
        more: dict[str, Any] = {}
        if self.payloads == "blob":
            more = {"binaryData": payload("init", *values)}
        elif self.payloads == "json":
            more = {"jsonText": json.dumps({"commHash": values[0], "nRanks": values[1], "rank": values[2]})}
        self.export.nccl("CommInit" if self.payloads == "json" else "ncclCommInitRankConfig", first - 9_000, first - 5_000, **more)

    def _host(self, s: Span, start: int, end: int) -> None:
        export = self.export
        thread = export.pid + 100 * s.autograd
        if s.category == "cuda_runtime":
            export.call(f"{s.name}_v7000", start, end, s.correlation, thread)
        elif s.collective is not None:
            self._collective(s.collective, start, end, thread)
        elif s.category == "cpu_op":
            self.numbers += 1
            export.range(f"{s.name}, op_id = {self.numbers}", start, end, thread)
        else:
            export.range(s.name, start, end, thread)

    def _collective(self, op: Operation, start: int, end: int, thread: int) -> None:
        width = {"Float": 4, "BFloat16": 2}[op.dtype]
        count = op.elements_out if op.operation == "reduce_scatter" else op.elements_in
        name, schema = _CALLS[op.operation]
        comm = comm_hash(op.group, op.kind)
        self.export.range(f"nccl:{op.operation}", start + 1_000, end - 1_000, thread)
        if self.payloads == "json":
            order = {"seqNumber": op.seq, "operationId": comm_hash([op.seq], f"{op.kind}{op.group}")}
            facts = {"commHash": comm, "count": count, "dataType": {"Float": 7, "BFloat16": 9}[op.dtype], **order}
            self.export.nccl(name.removeprefix("nccl"), start + 1_500, end - 1_500, thread, jsonText=json.dumps(facts))
        elif self.payloads == "blob":
            values = (comm, count * width, *([0] if schema == "reduction" else []))
            self.export.nccl(name, start + 1_500, end - 1_500, thread, binaryData=payload(schema, *values))
        else:
            self.export.nccl(name, start + 1_500, end - 1_500, thread)

    def _gpu(self, s: Span, start: int, end: int, stream: int) -> None:
        export = self.export
        if s.category == "gpu_memcpy":
            more = {"bytes": s.bytes, "copyKind": 1, "srcKind": 1, "dstKind": 2, "device": self.device}
            export.gpu("MEMCPY", start, end, s.correlation, stream, **more)
            return
        name = s.name
        if s.collective is not None:
            reduction = "" if s.collective.operation == "all_gather" else {"Float": "_Sum_f32", "BFloat16": "_Sum_bf16"}[s.collective.dtype]
            name = f"ncclDevKernel_{_KERNELS[s.collective.operation]}{reduction}_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
        grid = {} if s.collective is None else {"gridX": 24, "gridY": 1}
        export.kernel(name, start, end, s.correlation, stream, device=self.device, **grid)


def main() -> None:
    """Writes the sample again."""
    SAMPLE.mkdir(parents=True, exist_ok=True)
    run = Simulation(Job(world=2, hosts=1, tp=2, steps=2, layers=1, seed=21))
    write_rank(SAMPLE / "rank0.sqlite", run, 0)
    write_rank(SAMPLE / "rank1.sqlite", run, 1)


if __name__ == "__main__":
    main()
