"""Shapes of tables that no public export has, written by hand in the documented layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.job import START_NS
from tests.builders.nsys_sqlite import MARK, START_END, VERSIONS, Export, payload
from tracelab_parsers.nsys import PARSER

MS = 1_000_000
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)"
COMM = 0xF1F2F3F4F5F6F7F8


def _read(export: Export, tmp_path: Path, name: str = "report.sqlite") -> Read:
    path = export.write(tmp_path / name)
    match = PARSER.sniff(path, path.read_bytes()[:65536])
    assert match is not None
    assert match.confidence == 1
    return read(PARSER, path)


def _launch(export: Export, name: str, at: int, correlation: int, **more: Any) -> None:
    """A kernel launched at `at`, which starts 5 µs later."""
    export.call("cuLaunchKernelEx", at, at + 2_000, correlation, event_class=1)
    export.kernel(name, at + 5_000, at + 105_000, correlation, stream=20, **more)


def _on_kernels(found: Read) -> list[dict[str, Any]]:
    return [r for r in found.rows("comm_records") if r["recorded_on"] == "kernel"]


def test_copies_between_gpus(tmp_path: Path) -> None:
    export = Export()
    export.gpu("MEMCPY", 1_000, 3_000, 5, bytes=1 << 20, copyKind=10, srcKind=2, dstKind=2, srcDeviceId=0, dstDeviceId=3)
    export.gpu("MEMCPY", 4_000, 5_000, 6, bytes=64, copyKind=8, srcKind=2, dstKind=2)
    export.gpu("MEMCPY", 6_000, 7_000, 7, bytes=64, copyKind=3, srcKind=0, dstKind=3)
    peer, local, array = _read(export, tmp_path).rows("gpu_spans")
    assert (peer["copy_kind"], peer["src_device"], peer["dst_device"], peer["bytes"]) == ("PtoP", 0, 3, 1 << 20)
    assert peer["name"] == "Memcpy PtoP (Device -> Device)"
    assert (local["copy_kind"], local["src_device"], local["dst_device"]) == ("DtoD", None, None)
    assert (array["copy_kind"], array["name"]) == (None, "Memcpy HtoA (Pageable -> Array)")


def test_sets_and_waits(tmp_path: Path) -> None:
    export = Export()
    export.gpu("MEMSET", 1_000, 2_000, 5, bytes=512, memKind=2, value=0)
    for number, kind in enumerate((1, 2, 3, 4, 9)):
        export.gpu("SYNCHRONIZATION", 3_000 + number, 4_000, 6, stream=4_294_967_295 if kind == 4 else 7, syncType=kind, eventId=4_294_967_295)
    rows = _read(export, tmp_path).rows("gpu_spans")
    assert [(r["kind"], r["name"], r["stream"]) for r in rows] == [
        ("memset", "Memset (Device)", 7),
        ("sync", "Event Sync", 7),
        ("sync", "Stream Wait Event", 7),
        ("sync", "Stream Sync", 7),
        ("sync", "Context Sync", None),
        ("sync", "Sync", 7),
    ]


def test_graphs_as_a_whole_and_by_node(tmp_path: Path) -> None:
    export = Export()
    export.call("cudaGraphLaunch_v10000", 1_000, 2_000, 9)
    for node in range(3):
        export.kernel("gemm", 10_000 + 2_000 * node, 11_000 + 2_000 * node, 9, graphId=4, graphNodeId=(4 << 32) + node)
    nodes = _read(export, tmp_path)
    assert [(r["correlation"], r["graph_id"], r["graph_node_id"] - (4 << 32)) for r in nodes.rows("gpu_spans")] == [(9, 4, 0), (9, 4, 1), (9, 4, 2)]
    assert "graphs-hide-kernels" not in nodes.notices
    whole = Export()
    whole.gpu("GRAPH_TRACE", 10_000, 90_000, 9, graphId=4, graphExecId=6)
    found = _read(whole, tmp_path)
    (row,) = found.rows("gpu_spans")
    assert (row["kind"], row["name"], row["graph_id"], row["dur_ns"]) == ("kernel", "CUDA graph 6", 4, 80_000)
    assert found.notices["graphs-hide-kernels"].count == 1
    assert "no-kernels" not in found.notices


@pytest.mark.parametrize("schema", VERSIONS)
def test_every_schema_version(tmp_path: Path, schema: str) -> None:
    export = Export(schema)
    export.call("cudaLaunchKernel_v7000", 1_000, 2_000, 3)
    export.call("cuMemAlloc_v2", 2_500, 2_600, 4, event_class=1)
    export.kernel("void at::native::vectorized<(int)4, (bool)1, float>(int)", 5_000, 9_000, 3)
    export.range("step 7", 500, 9_500)
    found = _read(export, tmp_path)
    (kernel,) = found.rows("gpu_spans")
    assert (kernel["name"], kernel["blocks"], kernel["threads_per_block"]) == ("void at::native::vectorized<4, true, float>(int)", 528, 256)
    assert kernel["source_ts_ns"] == START_NS + 5_000
    assert [(r["kind"], r["name"]) for r in found.rows("host_spans")] == [
        ("annotation", "step 7"),
        ("runtime", "cudaLaunchKernel"),
        ("driver", "cuMemAlloc_v2"),
    ]
    assert found.info.metadata["schema_version"] == schema


def test_suffixed_tables_of_the_newest_version(tmp_path: Path) -> None:
    export = Export(suffixes={"NVTX_EVENTS": "_V3", "CUPTI_ACTIVITY_KIND_KERNEL": "_V2"})
    export.kernel("gemm", 5_000, 9_000)
    export.range("forward", 500, 9_500)
    found = _read(export, tmp_path)
    assert len(found.rows("gpu_spans")) == 1
    assert [r["name"] for r in found.rows("host_spans")] == ["forward"]


def test_all_forms_of_ranges(tmp_path: Path) -> None:
    export = Export()
    export.kernel("gemm", 1_000, 2_000)
    export.range("loader", 0, None, kind=75, domain=3)
    export.range("in place", 1_000, 2_000)
    export.range(None, 2_000, 3_000, textId=export.string("registered"))
    export.range("fetch", 3_000, 4_000, domain=3)
    export.range("from one thread to another", 4_000, 90_000, thread=11, kind=START_END, endGlobalTid=export.tid(12))
    export.range("mark", 5_000, None, kind=MARK)
    export.range("open", 6_000, None)
    export.range("aten::mm, seq = 41, op_id = 12, sizes = [[2, 2]]", 7_000, 8_000)
    export.range(None, 8_000, 8_500)
    export.range("pt_main_thread", 0, None, kind=39)
    export.add("ANALYSIS_DETAILS", duration=100_000)
    found = _read(export, tmp_path)
    rows = found.rows("host_spans")
    assert [(r["kind"], r["name"], r["dur_ns"], r["tid"], r["sequence_number"], r["clamped"]) for r in rows] == [
        ("annotation", "in place", 1_000, 4000, None, False),
        ("annotation", "registered", 1_000, 4000, None, False),
        ("annotation", "loader:fetch", 1_000, 4000, None, False),
        ("annotation", "from one thread to another", 86_000, 11, None, False),
        ("annotation", "mark", 0, 4000, None, False),
        ("annotation", "open", 94_000, 4000, None, True),
        ("cpu_op", "aten::mm", 1_000, 4000, 41, False),
        ("annotation", "(unnamed)", 500, 4000, None, False),
    ]
    assert found.counts() == {"open-range": 1, "unnamed": 1, "no-runtime-calls": 1, "orphan-gpu-events": 1, "no-rank": 1}


def test_payloads_give_sizes_and_communicators(tmp_path: Path) -> None:
    export = Export()
    export.environment(RANK="1", WORLD_SIZE="4")
    export.nccl_domain()
    export.nccl("ncclCommInitRankConfig", 100, 900, binaryData=payload("init", COMM, 4, 1, 1))
    export.nccl("ncclAllReduce", 1 * MS, 1 * MS + 50_000, binaryData=payload("reduction", COMM, 4096, 0))
    _launch(export, ALLREDUCE, 1 * MS + 10_000, 11)
    export.nccl("ncclBroadcast", 2 * MS, 2 * MS + 50_000, binaryData=payload("rooted", COMM, 4096, 2))
    _launch(export, "ncclDevKernel_Broadcast_RING_LL(x)", 2 * MS + 10_000, 12)
    export.nccl("ncclAllGather", 3 * MS, 3 * MS + 50_000, binaryData=payload("gather", COMM, 4096))
    _launch(export, "ncclDevKernel_AllGather_RING_LL(x)", 3 * MS + 10_000, 13)
    export.nccl("ncclSend", 4 * MS, 4 * MS + 50_000, binaryData=payload("peer", COMM, 4096, 3))
    _launch(export, SENDRECV, 4 * MS + 10_000, 14)
    found = _read(export, tmp_path)
    reduce, broadcast, gather, send = _on_kernels(found)
    for row in (reduce, broadcast, gather, send):
        assert (row["group_name"], row["group_size"], row["group_ranks"]) == ("0xf1f2f3f4f5f6f7f8", 4, [0, 1, 2, 3])
    assert (reduce["operation"], reduce["dtype"], reduce["in_elements"], reduce["out_elements"]) == ("ncclAllReduce", "BFloat16", 2048, 2048)
    assert (reduce["correlation"], reduce["source_ts_ns"], reduce["dur_ns"]) == (11, START_NS + 1 * MS + 15_000, 100_000)
    assert (broadcast["dtype"], broadcast["in_elements"], broadcast["src_rank"]) == ("Byte", 4096, 2)
    assert (gather["in_elements"], gather["out_elements"]) == (4096, 16384)
    assert (send["operation"], send["in_elements"], send["dst_rank"], send["src_rank"]) == ("ncclSend", 4096, 3, None)
    assert found.info.parts[0].job == "0xf1f2f3f4f5f6f7f8"
    assert "no-payloads" not in found.notices


def test_a_group_is_launched_at_its_end(tmp_path: Path) -> None:
    """Sends to and receives from all ranks are one kernel, launched inside ncclGroupEnd: an all-to-all with its splits."""
    export = Export()
    export.environment(RANK="0", WORLD_SIZE="2")
    export.nccl_domain()
    export.nccl("ncclCommInitRank", 100, 900, binaryData=payload("init", COMM, 2, 0, 0))
    at = MS
    export.nccl("ncclGroupStart", at, at + 500)
    for number, (name, peer, size) in enumerate((("Send", 0, 100), ("Recv", 0, 100), ("Send", 1, 300), ("Recv", 1, 200))):
        export.nccl(f"nccl{name}", at + 1_000 * (number + 1), at + 1_000 * (number + 1) + 500, binaryData=payload("peer", COMM, size, peer))
    export.nccl("ncclGroupEnd", at + 6_000, at + 60_000)
    _launch(export, SENDRECV, at + 20_000, 31)
    (kernel,) = _on_kernels(found := _read(export, tmp_path))
    assert (kernel["operation"], kernel["in_split"], kernel["out_split"]) == ("AlltoAll", [100, 300], [100, 200])
    assert (kernel["in_elements"], kernel["out_elements"], kernel["dtype"], kernel["correlation"]) == (400, 300, "Byte", 31)
    on_host = [r for r in found.rows("comm_records") if r["recorded_on"] == "cpu_op"]
    assert [(r["operation"], r["correlation"], r["tid"], r["in_elements"]) for r in on_host] == [
        ("ncclSend", 31, 4000, 100),
        ("ncclRecv", 31, 4000, 100),
        ("ncclSend", 31, 4000, 300),
        ("ncclRecv", 31, 4000, 200),
    ]


def test_a_group_on_two_communicators_is_not_guessed_at(tmp_path: Path) -> None:
    export = Export()
    export.nccl_domain()
    export.nccl("ncclGroupStart", 0, 100)
    export.nccl("ncclAllReduce", 200, 300, binaryData=payload("reduction", COMM, 4096, 0))
    export.nccl("ncclAllReduce", 400, 500, binaryData=payload("reduction", COMM + 1, 8192, 0))
    export.nccl("ncclGroupEnd", 600, 50_000)
    _launch(export, ALLREDUCE, 10_000, 1)
    _launch(export, ALLREDUCE, 20_000, 2)
    found = _read(export, tmp_path)
    assert _on_kernels(found) == []
    assert found.notices["ambiguous-group"].count == 2
    assert [r["correlation"] for r in found.rows("comm_records")] == [None, None]


def test_several_kernels_of_one_group_share_no_size(tmp_path: Path) -> None:
    export = Export()
    export.nccl_domain()
    export.nccl("ncclGroupStart", 0, 100)
    export.nccl("ncclAllReduce", 200, 300, binaryData=payload("reduction", COMM, 4096, 0))
    export.nccl("ncclAllReduce", 400, 500, binaryData=payload("reduction", COMM, 8192, 0))
    export.nccl("ncclGroupEnd", 600, 50_000)
    _launch(export, ALLREDUCE, 10_000, 1)
    _launch(export, ALLREDUCE, 20_000, 2)
    rows = _on_kernels(_read(export, tmp_path))
    assert [(r["operation"], r["group_name"], r["in_elements"]) for r in rows] == [("ncclAllReduce", f"{COMM:#x}", None)] * 2


def test_a_launch_belongs_to_the_range_on_its_own_thread(tmp_path: Path) -> None:
    export = Export()
    export.nccl_domain()
    export.nccl("ncclAllReduce", 0, 50_000, thread=1, binaryData=payload("reduction", COMM, 4096, 0))
    export.nccl("ncclAllReduce", 1_000, 60_000, thread=2, binaryData=payload("reduction", COMM + 1, 8192, 0))
    export.call("cuLaunchKernelEx", 20_000, 21_000, 5, thread=2, event_class=1)
    export.kernel(ALLREDUCE, 25_000, 99_000, 5)
    (kernel,) = _on_kernels(_read(export, tmp_path))
    assert kernel["group_name"] == f"{COMM + 1:#x}"


def test_payloads_are_decoded_by_their_labels(tmp_path: Path) -> None:
    """NCCL 2.20 and RCCL number their schemas otherwise and state no communicator: the size stays with the call alone."""
    export = Export()
    export.nccl_domain(named=False)
    export.nccl("ncclAllGather", 0, 50_000, binaryData=payload("old size", 4096))
    _launch(export, "ncclDevKernel_AllGather_RING_LL(x)", 10_000, 1)
    found = _read(export, tmp_path)
    (row,) = found.rows("comm_records")
    assert (row["recorded_on"], row["in_elements"], row["out_elements"], row["group_name"], row["correlation"]) == ("cpu_op", 4096, None, None, 1)
    assert [r["name"] for r in found.rows("host_spans") if r["kind"] == "annotation"] == ["NCCL:ncclAllGather"]


def test_damaged_payloads_are_counted(tmp_path: Path) -> None:
    export = Export()
    export.nccl_domain()
    whole = payload("gather", COMM, 4096)
    for number, blob in enumerate((whole[:40], whole[:20], b"\xff" * 48, whole)):
        export.nccl("ncclAllGather", 1_000 * number, 1_000 * number + 500, binaryData=blob)
    for number, text in enumerate(("{", "[1]", '{"commHash": true}', "[" * 5_000)):
        export.nccl("AllGather", 9_000 + number, 9_001 + number, jsonText=text)
    found = _read(export, tmp_path)
    assert found.notices["bad-payload"].count == 7
    assert [r["in_elements"] for r in found.rows("comm_records")] == [None, None, None, 4096, None, None, None, None]


def test_json_of_the_profiler_plugin(tmp_path: Path) -> None:
    export = Export("3.28.1")
    export.nccl_domain()
    facts = {"commHash": str(COMM), "rank": 1, "nRanks": 8, "count": 1000, "dataType": "ncclFloat16", "seqNumber": 17, "operationId": (1 << 63) + 5}
    export.nccl("API Group", 0, 90_000)
    export.nccl("ReduceScatter", 10_000, 80_000, jsonText=json.dumps(facts))
    export.nccl("KernelLaunch", 20_000, 40_000)
    _launch(export, "ncclDevKernel_ReduceScatter_Sum_f16_RING_LL(x)", 25_000, 3)
    export.nccl("AllReduce", 100_000, 180_000, jsonTextId=export.string(json.dumps({"args": facts | {"count": 5}})))
    _launch(export, ALLREDUCE, 125_000, 4)
    first, second = _on_kernels(_read(export, tmp_path))
    assert (first["operation"], first["dtype"], first["in_elements"], first["out_elements"]) == ("ReduceScatter", "Half", 8000, 1000)
    assert (first["group_name"], first["group_size"], first["seq"], first["comms_id"]) == (f"{COMM:#x}", 8, 17, str((1 << 63) + 5))
    assert (second["in_elements"], second["correlation"]) == (5, 4)


def test_other_libraries_ranges(tmp_path: Path) -> None:
    export = Export()
    export.kernel("gemm", 0, 1_000)
    label = export.string("MPI_Allreduce")
    export.add("MPI_COLLECTIVES_EVENTS", start=100, end=900, globalTid=export.tid(), textId=label, size=64)
    export.add("UCP_SUBMIT_EVENTS", start=200, end=300, globalTid=export.tid(), textId=export.string("ucp_tag_send_nbx"), packedSize=9)
    export.add("PROFILER_OVERHEAD", start=400, end=500, globalTid=export.tid(), nameId=export.string("CUPTI buffer flush"))
    export.add("MPI_RANKS", globalTid=export.tid(), rank=6)
    found = _read(export, tmp_path)
    assert [(r["kind"], r["name"]) for r in found.rows("host_spans")] == [
        ("other", "MPI_Allreduce"),
        ("other", "ucp_tag_send_nbx"),
        ("overhead", "CUPTI buffer flush"),
    ]
    assert found.info.parts[0].rank == 6


def test_metrics_of_gpus_cards_and_switches(tmp_path: Path) -> None:
    export = Export("3.28.1")
    export.kernel("gemm", 0, 1_000, device=1)
    kind = (5 << 32) + 1
    export.add("TARGET_INFO_GPU_METRICS", typeId=kind, sourceId=1, typeName="GH100", metricId=3, metricName="SMs Active [Throughput %]")
    export.add("GPU_METRICS", rawTimestamp=1, timestamp=2_000, typeId=kind, metricId=3, value=87)
    guid = -8_581_146_195_574_769_160
    export.add("TARGET_INFO_NIC_INFO", GUID=guid, nicId=2, name="mlx5_bond_0", linkLayer="Ethernet")
    export.add("NIC_ID_MAP", nicId=2, globalId=77)
    export.add("TARGET_INFO_NETWORK_METRICS", metricsListId=1, metricsIdx=0, name="IB: Bytes sent")
    export.add("NET_NIC_METRIC", start=3_000, end=4_000, globalId=77, portId=1, metricsListId=1, metricsIdx=0, value=12_345)
    export.add("NET_NIC_METRIC", start=4_000, end=3_000, globalId=guid, portId=1, metricsListId=1, metricsIdx=9, value=1)
    export.add("NET_IB_DEVICE_INFO", guid=guid, name="leaf-3")
    export.add("NET_IB_SWITCH_METRIC", start=5_000, end=6_000, globalId=guid, portId=30, metricsListId=1, metricsIdx=0, value=9)
    export.add("NET_IB_SWITCH_METRIC", start=6_000, end=7_000, globalId=-2, portId=30, metricsListId=1, metricsIdx=0, value=9)
    # a GPU that no process used
    export.add("GPU_METRICS", rawTimestamp=1, timestamp=2_500, typeId=(5 << 32) + 6, metricId=3, value=4)
    found = _read(export, tmp_path)
    rows = [row for batch in found.batches["counter_samples"] for row in batch.to_pylist()]
    columns = ("node", "device", "port", "raw_name", "value")
    # without a unit they are levels, taken at the end of their interval
    assert [(r["source_ts_ns"] - START_NS, *(r[c] for c in columns)) for r in rows] == [
        (2_000, "node-0", "1", None, "SMs Active [Throughput %]", pytest.approx(0.87)),
        (2_500, "node-0", "6", None, "metric 3", 4.0),
        (4_000, "node-0", "mlx5_bond_0", 1, "IB: Bytes sent", 12_345.0),
        (4_000, "node-0", "mlx5_bond_0", 1, "metric 1.9", 1.0),
        (6_000, "leaf-3", None, 30, "IB: Bytes sent", 9.0),
        (7_000, "switch 0xfffffffffffffffe", None, 30, "IB: Bytes sent", 9.0),
    ]
    assert [(p.part, p.device) for p in found.info.parts] == [(0, 1)]
    assert "gpu_counters" not in found.batches  # of no rank
    assert found.notices["inverted-time"].count == 1


def test_metrics_alone_are_of_no_process(tmp_path: Path) -> None:
    export = Export("3.28.1", host="node-7")
    export.add("GPU_METRICS", rawTimestamp=1, timestamp=2_000, typeId=(5 << 32) + 1, metricId=3, value=None)
    found = _read(export, tmp_path)
    assert [(p.rank, p.pid, p.device, p.host) for p in found.info.parts] == [(None, None, None, "node-7")]
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("gpu metric", 1, True)]


def test_gpus_by_their_index_on_the_host(tmp_path: Path) -> None:
    """Under CUDA_VISIBLE_DEVICES every process calls its GPU 0; the export maps the ordinals."""
    export = Export()
    for pid, gpu in ((4000, 5), (4001, 2)):
        if pid != 4000:
            export.process(pid)
        export.add("TARGET_INFO_GPU", id=gpu, name="NVIDIA H100" if gpu == 5 else "NVIDIA A100", cuDevice=0)
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=pid)
        export.kernel("gemm", 1_000, 2_000)
    found = _read(export, tmp_path)
    assert [(p.pid, p.device, p.gpu) for p in found.info.parts] == [(4000, 5, "NVIDIA H100"), (4001, 2, "NVIDIA A100")]
    assert [r["device"] for r in found.rows("gpu_spans")] == [5, 2]


def test_only_processes_with_gpu_work_are_parts(tmp_path: Path) -> None:
    export = Export(pid=100)
    export.range("worker", 0, 500)
    export.call("cudaGetDeviceCount_v3020", 10, 20, 1)
    export.process(200)
    export.kernel("gemm", 1_000, 2_000)
    export.call("cudaLaunchKernel_v7000", 500, 600, 1)
    found = _read(export, tmp_path)
    assert [p.pid for p in found.info.parts] == [200]
    assert [(r["pid"], r["name"]) for r in found.rows("host_spans")] == [(200, "cudaLaunchKernel")]
    assert found.notices["other-processes"].count == 2
    assert sum(c.count for c in found.info.event_counts if not c.stored) == 2


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "16", "SLURM_PROCID": "1"}, (3, 16)),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"}, (5, 8)),
        ({"SLURM_PROCID": "7", "SLURM_NTASKS": "32"}, (7, 32)),
        ({"PMI_RANK": "2"}, (2, None)),
        ({"RANK": "9", "WORLD_SIZE": "4"}, (None, None)),
        ({"MY_RANK": "4", "RANKING": "1", "CRANK": "2", "NOTE": "x"}, (None, None)),
        ({"RANK": "three"}, (None, None)),
    ],
)
def test_the_rank_is_that_of_the_launcher(tmp_path: Path, variables: dict[str, str], expected: tuple[int | None, int | None]) -> None:
    export = Export()
    export.environment(**variables)
    export.kernel("gemm", 1_000, 2_000)
    part = _read(export, tmp_path).info.parts[0]
    assert (part.rank, part.world_size) == expected


def test_the_rank_of_a_launcher_is_not_that_of_its_children(tmp_path: Path) -> None:
    export = Export()
    export.environment(SLURM_PROCID="1", SLURM_NTASKS="2")
    export.kernel("gemm", 1_000, 2_000)
    export.process(4001)
    export.kernel("gemm", 1_000, 2_000)
    found = _read(export, tmp_path)
    assert [(p.rank, p.world_size) for p in found.info.parts] == [(None, None), (None, None)]
    assert found.notices["no-rank"].count == 2


@pytest.mark.parametrize(
    ("communicators", "expected"),
    [
        ([(COMM, 2, 0), (COMM, 2, 1)], [(0, 2), (1, 2)]),
        ([(COMM, 4, 2), (COMM, 4, 3)], [(None, None), (None, None)]),
        ([(COMM, 2, 1), (COMM + 1, 2, 1)], [(None, None), (None, None)]),
        ([(COMM, 2, 0), (COMM + 1, 8, 5)], [(None, None), (None, None)]),
    ],
    ids=["all ranks", "larger", "twice", "one larger"],
)
def test_a_launchers_number_of_hosts_is_no_number_of_ranks(
    tmp_path: Path, communicators: list[tuple[int, int, int]], expected: list[tuple[int | None, int | None]]
) -> None:
    export = Export()
    export.environment(RANK="1", WORLD_SIZE="2")
    export.nccl_domain()
    for number, values in enumerate(communicators):
        export.process(5000 + number)
        export.nccl_domain()
        export.nccl("ncclCommInitRank", 100, 900, binaryData=payload("init", *values, number))
        export.kernel("gemm", 1_000, 2_000)
    assert [(p.rank, p.world_size) for p in _read(export, tmp_path).info.parts] == expected


def test_times_without_a_session_start(tmp_path: Path) -> None:
    export = Export(epoch_ns=None)
    export.kernel("gemm", 1_000, 2_000)
    found = _read(export, tmp_path)
    assert found.info.parts[0].time_base_lost
    assert found.rows("gpu_spans")[0]["source_ts_ns"] == 1_000
    assert found.notices["no-time-base"].severity == "warning"


@pytest.mark.parametrize("said", [True, False])
def test_times_that_count_from_the_epoch_already(tmp_path: Path, said: bool) -> None:
    export = Export(normalized=said)
    export.kernel("gemm", START_NS + 1_000, START_NS + 2_000)
    export.range("step", START_NS, START_NS + 5_000)
    found = _read(export, tmp_path)
    assert found.rows("gpu_spans")[0]["source_ts_ns"] == START_NS + 1_000
    assert found.info.parts[0].start_ns == START_NS
    assert not found.info.parts[0].time_base_lost


def test_bad_times_are_counted(tmp_path: Path) -> None:
    export = Export()
    export.kernel("before the session", -5_000, 1_000)
    export.kernel("inverted", 9_000, 8_000)
    export.kernel("no end", 10_000, None)
    export.kernel("no start", None, 10_000)
    export.kernel("far too late", 1 << 62, (1 << 62) + 5)
    export.kernel(None, 11_000, 12_000)
    found = _read(export, tmp_path)
    assert [(r["source_ts_ns"] - START_NS, r["dur_ns"], r["clamped"], r["name"]) for r in found.rows("gpu_spans")] == [
        (-5_000, 6_000, False, "before the session"),
        (9_000, 0, True, "inverted"),
        (10_000, 0, True, "no end"),
        (11_000, 1_000, False, "(unnamed)"),
    ]
    counts = found.counts()
    expected = {"time-before-session": 1, "inverted-time": 1, "open-range": 1, "bad-time": 2, "unnamed": 1}
    assert {code: counts.get(code) for code in expected} == expected


def test_launches_without_kernels(tmp_path: Path) -> None:
    export = Export(empty=["CUPTI_ACTIVITY_KIND_KERNEL"])
    for n in range(5):
        export.call("cudaLaunchKernel_v7000", 1_000 * n, 1_000 * n + 500, n + 1)
    found = _read(export, tmp_path)
    assert found.notices["no-kernels-but-launches"].count == 5
    assert len(found.rows("host_spans")) == 5
    assert found.info.parts[0].pid == 4000


def test_an_export_of_nothing(tmp_path: Path) -> None:
    found = _read(Export(empty=["NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"]), tmp_path)
    assert {"no-kernels", "no-ranges", "no-runtime-calls"} <= set(found.notices)
    assert not found.batches
    assert [p.host for p in found.info.parts] == ["node-0"]
    assert found.info.events == 0


def test_the_profilers_own_warnings(tmp_path: Path) -> None:
    export = Export()
    export.kernel("gemm", 0, 1_000)
    export.add("DIAGNOSTIC_EVENT", severity=2, text="CUPTI buffers were full: 4711 events dropped in /home/someone/secret")
    export.add("DIAGNOSTIC_EVENT", severity=1, text="0 events were dropped")
    found = _read(export, tmp_path)
    assert found.notices["events-dropped"].count == 1
    assert "someone" not in found.notices["events-dropped"].text
