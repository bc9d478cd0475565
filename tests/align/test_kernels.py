from __future__ import annotations

import polars as pl
import pytest

from tests.builders.frames import gpu, parsed
from tracelab.align.kernels import classify, normalise_operation, with_class

COMMUNICATION = [
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "nccl", "all_reduce"),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "nccl", "send_recv"),
    ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl", "all_gather"),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl", "reduce_scatter"),
    ("ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", "nccl", "reduce"),
    ("ncclDevKernel_Broadcast_RING_LL(x)", "nccl", "broadcast"),
    ("ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)", "nccl", "all_reduce"),
    ("ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)", "nccl", "all_gather"),
    ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "rccl", "unknown"),
    ("ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", "rccl", "unknown"),
    ("mscclKernel_Sum_half_Simple_false(ncclDevComm*)", "msccl", "unknown"),
    ("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)", "deepep", "all_to_all"),
    ("void deep_ep::internode_ll::combine<true, 7168, 9>(void*)", "deepep", "all_to_all"),
    ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "deepep", "all_to_all"),
    ("nvshmemi_proxy_quiet_entrypoint", "nvshmem", "unknown"),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "custom", "all_reduce"),
    ("void sglang::cross_device_reduce_2stage<half, 8>(sglang::RankData*)", "custom", "all_reduce"),
    ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<0, __nv_bfloat16, 8>(x)", "custom", "all_reduce"),
    ("void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot>(half*)", "custom", "all_reduce"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", "symmetric-memory", "all_reduce"),
    ("void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float>(float**)", "symmetric-memory", "all_reduce"),
    ("EpDispatchIntraNodeKernel<__hip_bfloat16>", "mori", "all_to_all"),
]
COMPUTE = [
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float> > >(x)",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
    "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_kernel_dispatch>(long)",
    "ATen dispatch",
    "moe_dispatch_and_sort_tokens(int const*)",
    "void cutlass::device_kernel<gemm_broadcast_bias>(x)",
    "void cub::DeviceReduceKernel<barrier>(x)",
    "splitKreduce_kernel",
    "triton_red_fused_all_reduce_stats_0",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn",
]


@pytest.mark.parametrize(("name", "library", "operation"), COMMUNICATION)
def test_communication_is_more_than_nccl(name: str, library: str, operation: str) -> None:
    found = classify(name)
    assert (found.kind, found.library, found.operation) == ("communication", library, operation)


@pytest.mark.parametrize("name", COMPUTE)
def test_words_of_communication_alone_make_no_communication(name: str) -> None:
    assert classify(name).kind == "compute"


@pytest.mark.parametrize("kind", ["memcpy", "memset", "sync", "annotation"])
def test_what_is_no_kernel_keeps_its_kind(kind: str) -> None:
    assert classify("nccl:all_reduce", kind).kind == kind


@pytest.mark.parametrize(
    ("told", "standard"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("ALLTOALL_BASE", "all_to_all"),
        ("nccl:send 0->1", "send"),
        ("nccl:recv 0<-1", "recv"),
        ("batch_isend_irecv", "send_recv"),
        ("wait", None),
        ("", None),
        (None, None),
    ],
)
def test_operation_names_are_standardised(told: str | None, standard: str | None) -> None:
    assert normalise_operation(told) == standard


def test_a_copy_between_two_gpus_is_communication_and_rows_stay_in_order() -> None:
    rows = [
        gpu(0, 30, 1, "Memcpy PtoP (Device -> Device)", "memcpy", src_device=0, dst_device=3, copy_kind="PtoP"),
        gpu(0, 10, 1, "Memcpy PtoP (Device -> Device)", "memcpy", src_device=2, dst_device=2, copy_kind="PtoP"),
        gpu(0, 20, 1, "Memcpy HtoD (Pinned -> Device)", "memcpy"),
        gpu(0, 5, 1, "gemm"),
    ]
    found = with_class(parsed(gpu_spans=rows)["gpu_spans"]).select("source_ts_ns", "op_class", "library").collect()
    assert found.rows() == [(30, "communication", "peer-copy"), (10, "memcpy", None), (20, "memcpy", None), (5, "compute", None)]


def test_no_rows_give_no_rows() -> None:
    assert with_class(parsed()["gpu_spans"]).collect().height == 0
    assert with_class(parsed()["gpu_spans"]).collect_schema()["op_class"] == pl.String
