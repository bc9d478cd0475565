"""Names and numbers of NCCL and c10d: the published values, and none where a version does not know them."""

from __future__ import annotations

import pytest

from tracelab.align.kernels import normalise_operation
from tracelab_parsers.nccl_log import ops


def test_element_types_by_number() -> None:
    expected = [
        ("int8", 1),
        ("uint8", 1),
        ("int32", 4),
        ("uint32", 4),
        ("int64", 8),
        ("uint64", 8),
        ("float16", 2),
        ("float32", 4),
        ("float64", 8),
        ("bfloat16", 2),
        ("float8_e4m3fn", 1),
        ("float8_e5m2", 1),
    ]
    assert [ops.element_type(n) for n in range(12)] == expected
    assert ops.element_type(12) is None
    assert ops.element_type(-1) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("float", "float32"),
        ("half", "float16"),
        ("double", "float64"),
        ("bfloat16", "bfloat16"),
        ("ncclBfloat16", "bfloat16"),
        ("fp8_e4m3", "float8_e4m3fn"),
        ("f8e5m2", "float8_e5m2"),
        ("uint64", "uint64"),
        ("Float", "float32"),
        ("ncclFloat32", "float32"),
    ],
)
def test_element_types_by_name(name: str, expected: str) -> None:
    found = ops.element_type_named(name)
    assert found is not None
    assert found.name == expected


def test_reductions() -> None:
    assert [ops.reduction(n) for n in range(5)] == ["sum", "prod", "max", "min", "avg"]
    assert ops.reduction(5) == "user"
    assert ops.reduction(4, (2, 10, 3)) == "avg"
    assert ops.reduction(4, (2, 9, 9)) is None
    assert ops.reduction(7, (2, 8, 3)) is None
    assert ops.reduction(-1) is None
    assert [ops.reduction_named(n) for n in ("sum", "ncclAvg", "mulsum", "none")] == ["sum", "avg", "user", None]


def test_algorithms_and_protocols() -> None:
    names = ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"]
    assert [ops.algorithm(str(n)) for n in range(7)] == names
    assert [ops.algorithm(n) for n in ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")] == names
    assert [ops.algorithm(n) for n in names] == names
    assert ops.algorithm("CollNet") == "COLLNET_DIRECT"
    assert ops.algorithm("4", (2, 16, 2)) is None
    assert ops.algorithm("4", (2, 17, 1)) == "NVLS"
    assert ops.algorithm("6", (2, 23, 4)) == "PAT"
    assert ops.algorithm("6", (2, 22, 3)) is None
    assert [ops.algorithm(n) for n in ("7", "-1", "", "²", "9999999")] == [None] * 5
    assert [ops.protocol(p) for p in ("0", "1", "2", "LL", " LL128", "Simple", "3", "")] == ["LL", "LL128", "SIMPLE", "LL", "LL128", "SIMPLE", None, None]


def test_functions() -> None:
    expected = {
        "AllReduce": "all_reduce",
        "ncclAllReduce": "all_reduce",
        "mscclpp_ncclAllReduce": "all_reduce",
        "AllGather": "all_gather",
        "ReduceScatter": "reduce_scatter",
        "Broadcast": "broadcast",
        "ncclBcast": "broadcast",
        "Reduce": "reduce",
        "AlltoAll": "all_to_all",
        "AllToAll": "all_to_all",
        "AllToAllPivot": "all_to_all",
        "Gather": "gather",
        "Scatter": "scatter",
        "Send": "send",
        "Recv": "recv",
        "SendRecv": "send_recv",
        "PutSignal": "unknown",
        "": "unknown",
    }
    assert {name: ops.operation(name) for name in expected} == expected
    by_number = [ops.operation_number(n) for n in range(8)]
    assert by_number == ["broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce", "send_recv", "send", "recv"]
    assert ops.operation_number(8, (2, 27, 7)) is None
    assert ops.operation_number(8, (2, 28, 3)) == "all_to_all"


@pytest.mark.parametrize(
    "name",
    [
        "ALLREDUCE",
        "ALLREDUCE_COALESCED",
        "REDUCE",
        "ALLGATHER",
        "_ALLGATHER_BASE",
        "ALLGATHER_COALESCED",
        "GATHER",
        "SCATTER",
        "REDUCE_SCATTER",
        "ALLTOALL_BASE",
        "ALLTOALL",
        "SEND",
        "RECV",
        "RECVANYSOURCE",
        "BARRIER",
        "_REDUCE_SCATTER_BASE",
        "ALLREDUCE_SPARSE",
        "nccl:all_reduce",
        "nccl:_all_gather_base",
        "nccl:reduce_scatter_tensor_coalesced",
        "nccl:all_to_all",
        "nccl:send 0->1",
        "nccl:recv 0<-1",
        "nccl:broadcast",
    ],
)
def test_torch_names_mean_what_the_rest_of_tracelab_takes_them_for(name: str) -> None:
    assert ops.c10d_operation(name) == normalise_operation(name)


def test_coalesced_operations_are_unknown() -> None:
    assert ops.c10d_operation("COALESCED") == "unknown"
    assert ops.c10d_operation("nccl:coalesced") == "unknown"


def test_programs() -> None:
    expected = {
        "./build/all_reduce_perf": "all_reduce",
        "/opt/nccl-tests/build/alltoall_perf": "all_to_all",
        "sendrecv_perf_mpi": "send_recv",
        "reduce_scatter_perf": "reduce_scatter",
        "all_gather_perf": "all_gather",
        "hypercube_perf": None,
        "perf": None,
        "all_reduce": None,
    }
    assert {name: ops.program_operation(name) for name in expected} == expected
