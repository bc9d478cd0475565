from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.frames import Parsed, gpu, host, parsed, record, step
from tracelab.align.collectives import DTYPE_BYTES, communication_rows
from tracelab.align.steps import rank_steps

if TYPE_CHECKING:
    import polars as pl

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def _rows(tables: Parsed) -> pl.DataFrame:
    return communication_rows(tables, rank_steps(tables["gpu_spans"], tables["host_spans"])[0])


def test_metadata_of_the_kernel_wins_over_that_of_its_host_operator() -> None:
    tables = parsed(
        gpu_spans=[gpu(0, 100, 10, NCCL, correlation=5, external_id=9)],
        comm_records=[
            record(0, 100, 10, "_allgather_base", [0, 1], correlation=5, dtype="BFloat16", in_elements=10, out_elements=20),
            record(0, 50, 3, "allreduce", [0, 1], external_id=9, recorded_on="cpu_op"),
        ],
    )
    row = _rows(tables).row(0, named=True)
    assert (row["operation"], row["operation_origin"], row["in_bytes"], row["out_bytes"], row["dtype"]) == ("all_gather", "metadata", 20, 40, "BFloat16")


def test_one_record_serves_several_kernels_and_several_records_one_kernel() -> None:
    kernels = [gpu(0, 100 * n, 10, NCCL, correlation=n, external_id=9) for n in (1, 2, 3)]
    records = [record(0, 50, 3, "allreduce_coalesced", [0, 1], external_id=9, recorded_on="cpu_op") for _ in range(4)]
    rows = _rows(parsed(gpu_spans=kernels, comm_records=records))
    assert rows["operation"].to_list() == ["all_reduce"] * 3


def test_kernels_of_a_graph_share_a_correlation_and_are_told_apart_by_their_start() -> None:
    kernels = [gpu(0, 100, 10, NCCL, correlation=7), gpu(0, 200, 10, NCCL, correlation=7)]
    records = [record(0, 100, 10, "allreduce", [0, 1], correlation=7, in_elements=1), record(0, 200, 10, "allreduce", [0, 1], correlation=7, in_elements=2)]
    assert _rows(parsed(gpu_spans=kernels, comm_records=records))["in_bytes"].to_list() == [4, 8]


def test_records_of_another_source_do_not_join() -> None:
    tables = parsed(gpu_spans=[gpu(0, 100, 10, NCCL, correlation=5)], comm_records=[record(1, 100, 10, "broadcast", [0, 1], correlation=5)])
    row = _rows(tables).row(0, named=True)
    assert (row["operation"], row["operation_origin"], row["in_bytes"]) == ("all_reduce", "name", None)


def test_the_annotation_around_the_launch_tells_what_a_silent_kernel_does() -> None:
    tables = parsed(
        gpu_spans=[gpu(0, 900, 10, "ncclDevKernel_SendRecv(x)", correlation=5)],
        host_spans=[
            host(0, 100, 30, "nccl:send 0->1", "annotation"),
            host(0, 110, 5, "cudaLaunchKernel", "runtime", correlation=5),
            host(0, 80, 3, "nccl:recv 0<-1", "annotation"),
        ],
    )
    row = _rows(tables).row(0, named=True)
    assert (row["operation"], row["note_self"], row["note_peer"]) == ("send", 0, 1)


def test_the_launch_and_not_the_gpu_decides_which_step_it_belongs_to() -> None:
    tables = parsed(
        gpu_spans=[gpu(0, 250, 10, NCCL, correlation=5)],
        host_spans=[step(0, 1, 0, 200), step(0, 2, 200, 200), host(0, 190, 5, "cudaLaunchKernel", "runtime", correlation=5)],
    )
    row = _rows(tables).row(0, named=True)
    assert (row["step"], row["launch_step"]) == (2, 1)


def test_gloo_counts_once_and_only_without_gpu_communication() -> None:
    spans = [
        host(0, 10, 5, "gloo:all_reduce", "annotation", tid=50),
        host(0, 8, 2, "c10d::allreduce_"),
        host(0, 30, 5, "gloo:all_gather", "annotation", tid=51),
    ]
    rows = _rows(parsed(host_spans=spans))
    assert rows.select("operation", "library", "channel").rows() == [("all_reduce", "gloo", 0), ("all_gather", "gloo", 0)]
    assert _rows(parsed(host_spans=spans, gpu_spans=[gpu(0, 100, 10, NCCL)]))["library"].to_list() == ["nccl"]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("Float", 4), ("BFloat16", 2), ("Float8_e4m3fn", 1), ("Long", 8), ("ComplexFloat", 8), ("c10::Half", 2), ("Byte", 1), ("Bool", 1), ("Int4", None)],
)
def test_sizes_follow_the_element_type(dtype: str, size: int | None) -> None:
    tables = parsed(
        gpu_spans=[gpu(0, 1, 1, NCCL, correlation=1)], comm_records=[record(0, 1, 1, "allreduce", [0, 1], correlation=1, dtype=dtype, in_elements=10)]
    )
    assert _rows(tables)["in_bytes"].to_list() == [None if size is None else 10 * size]


@pytest.mark.parametrize("elements", [-1, 2**62])
def test_impossible_sizes_are_unknown(elements: int) -> None:
    tables = parsed(gpu_spans=[gpu(0, 1, 1, NCCL, correlation=1)], comm_records=[record(0, 1, 1, "allreduce", [0, 1], correlation=1, in_elements=elements)])
    assert _rows(tables)["in_bytes"].to_list() == [None]


def test_every_size_is_that_of_torch() -> None:
    torch_names = {
        "uint8": 1,
        "int8": 1,
        "int16": 2,
        "int32": 4,
        "int64": 8,
        "float16": 2,
        "float32": 4,
        "float64": 8,
        "complex64": 8,
        "complex128": 16,
        "bool": 1,
        "bfloat16": 2,
    }
    assert {k: DTYPE_BYTES[k] for k in torch_names} == torch_names


def test_nothing_gives_nothing() -> None:
    assert _rows(parsed()).height == 0
    assert _rows(parsed(host_spans=[host(0, 1, 1)], gpu_spans=[gpu(0, 1, 1)])).height == 0
