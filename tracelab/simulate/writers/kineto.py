"""Traces of the PyTorch profiler, one per rank, as three generations of Kineto wrote them.

`2022`: integer microseconds since 1970, operations without metadata. `2024`: relative to a base that follows the events, with
metadata. `2026`: the base, the host's name, sequence numbers and a common id of each operation come too.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any, Literal

from tracelab.simulate.clocks import EPOCH_NS, Clock
from tracelab.simulate.model import Collective, GpuSpan, Group, HostSpan, Outcome
from tracelab.simulate.noise import generator

__all__ = ["GENERATIONS", "Generation", "compressed", "pid_of", "trace_of"]

Generation = Literal["2022", "2024", "2026"]
GENERATIONS: tuple[Generation, ...] = ("2022", "2024", "2026")
_BASE_STEP_NS = 7_889_238 * 1_000_000_000
"""Kineto rounds its base down to a multiple of three mean months."""
_GPU = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_028_175_872, "computeMajor": 9, "computeMinor": 0, "numSms": 132}
_COLLECTIVE = {
    "all_reduce": "allreduce",
    "reduce_scatter": "_reduce_scatter_base",
    "all_gather": "_allgather_base",
    "all_to_all": "all_to_allv",
    "broadcast": "broadcast",
}
_NCCL = {
    "all_reduce": "AllReduce_Sum_f32_RING_LL",
    "reduce_scatter": "ReduceScatter_Sum_f32_RING_LL",
    "all_gather": "AllGather_RING_LL",
    "broadcast": "Broadcast_RING_LL",
}
_OPERATORS = {
    "forward0": ("aten::mm", "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"),
    "forward1": (
        "aten::_scaled_dot_product_flash_attention",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >(Flash_fwd_params)",
    ),
    "forward2": ("aten::addmm", "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn"),
    "forward3": ("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)"),
    "backward0": ("MmBackward0", "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nt"),
    "backward1": ("FlashAttentionBackward0", "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<128>(Flash_bwd_params)"),
    "backward2": ("AddmmBackward0", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nt"),
    "backward3": ("GeluBackward0", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl>(int)"),
    "optimizer": ("aten::_fused_adamw_", "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> >(TensorListMetadata)"),
    "copy": ("aten::copy_", "Memcpy HtoD (Pinned -> Device)"),
}
_CALLS = {"launch": ("cudaLaunchKernel", 211), "copy": ("cudaMemcpyAsync", 41), "synchronize": ("cudaDeviceSynchronize", 165)}
_DESCRIPTION = {"world": "default_pg", "dp": "DATA_PARALLEL_GROUP", "tp": "TENSOR_MODEL_PARALLEL_GROUP", "pp": "PIPELINE_MODEL_PARALLEL_GROUP"}


def pid_of(rank: int) -> int:
    """Process id of a rank."""
    return 4_000 + 17 * rank


def compressed(text: str) -> bytes:
    """A gzip member without name and time: equal texts give equal bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(text.encode()) + packer.flush()


def trace_of(outcome: Outcome, rank: int, clock: Clock, generation: Generation = "2026", dropped: float = 0.0) -> str:
    """The text of one rank's trace. `dropped`: share of GPU events that the profiler lost."""
    return _Trace(outcome, rank, clock, generation, dropped).text()


class _Trace:
    def __init__(self, outcome: Outcome, rank: int, clock: Clock, generation: Generation, dropped: float) -> None:
        self.outcome, self.rank, self.clock, self.generation = outcome, rank, clock, generation
        cluster = outcome.scenario.cluster
        self.host_name = cluster.host_name(cluster.host_of(rank))
        self.device = rank % cluster.gpus
        self.pid = pid_of(rank)
        self.base = 0 if generation == "2022" else EPOCH_NS // _BASE_STEP_NS * _BASE_STEP_NS
        # conversion of the GPU's clock to the host's is never exact
        self.gpu_error = round(float(generator(outcome.scenario.seed, "gpu clock", rank).normal(0, 2_000)))
        lost = generator(outcome.scenario.seed, "dropped", rank).uniform(size=len(outcome.gpu[rank])) < dropped
        self.gpu = [s for s, gone in zip(outcome.gpu[rank], lost, strict=True) if not gone]

    def text(self) -> str:
        head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": n, **_GPU} for n in range(self.outcome.scenario.cluster.gpus)]}
        head["distributedInfo"] = self._distributed()
        if self.generation == "2026":
            head |= {"host_name": self.host_name, "displayTimeUnit": "ms", "baseTimeNanoseconds": self.base}
        tail: dict[str, Any] = {"traceName": f"/tmp/trace{self.rank}.json"}  # noqa: S108  # a name that profilers write, not a file
        if self.generation == "2024":
            tail |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": self.base}
        events = ",\n".join(self._events())
        return f'{json.dumps(head)[:-1]},\n"traceEvents": [\n{events}\n],\n{json.dumps(tail)[1:]}'

    def _distributed(self) -> dict[str, Any]:
        groups = self.outcome.groups
        info: dict[str, Any] = {"backend": "nccl", "rank": self.rank, "world_size": self.outcome.scenario.cluster.world}
        if self.generation != "2022":
            mine = [g for g in groups if self.rank in g.ranks]
            config = [
                {"pg_name": str(g.number), "pg_desc": _DESCRIPTION[g.kind], "backend_config": "cuda:nccl", "pg_size": len(g.ranks), "ranks": list(g.ranks)}
                for g in mine
            ]
            info |= {"pg_count": len(groups), "pg_config": config, "nccl_version": "2.21.5"}
        return info

    def _time(self, moment: int) -> str:
        shown = self.clock.shows(moment) - self.base
        return str(shown // 1000) if self.generation == "2022" else f"{shown // 1000}.{shown % 1000:03d}"

    def _length(self, start: int, end: int) -> str:
        ns = self.clock.shows(end) - self.clock.shows(start)
        return str(max(ns, 0) // 1000) if self.generation == "2022" else f"{max(ns, 0) // 1000}.{max(ns, 0) % 1000:03d}"

    def _complete(self, category: str, name: str, tid: int | str, start: int, end: int, args: dict[str, Any], pid: int | str | None = None) -> str:
        where = f'"pid": {json.dumps(self.pid if pid is None else pid)}, "tid": {json.dumps(tid)}'
        times = f'"ts": {self._time(start)}, "dur": {self._length(start, end)}'
        return f'{{"ph": "X", "cat": "{category}", "name": {json.dumps(name)}, {where}, {times}, "args": {json.dumps(args)}}}'

    def _events(self) -> Iterator[str]:
        spans = self.outcome.host[self.rank]
        first = min((s.start for s in spans), default=0)
        last = max([0, *(s.end for s in spans), *(s.end for s in self.gpu)])
        names = {"process_name": {"name": "python"}, "process_labels": {"labels": "CPU"}}
        for name, args in names.items():
            yield f'{{"ph": "M", "ts": {self._time(first)}, "name": "{name}", "pid": {self.pid}, "tid": 0, "args": {json.dumps(args)}}}'
        for host in spans:
            yield self._host(host)
        for gpu in self.gpu:
            yield self._gpu(gpu)
        yield self._complete("Trace", "PyTorch Profiler (0)", "PyTorch Profiler", first, last, {"Op count": 0}, pid="Spans")
        yield f'{{"ph": "i", "ts": {self._time(last)}, "name": "Record Window End", "s": "g", "pid": "", "tid": ""}}'

    def _host(self, s: HostSpan) -> str:
        args: dict[str, Any] = {"External id": s.correlation} if s.correlation else {}
        match s.kind:
            case "step":
                number = self.outcome.scenario.job.first_step + int(s.name.removeprefix("step"))
                return self._complete("user_annotation", f"ProfilerStep#{number}", self.pid, s.start, s.end, {})
            case "loader":
                return self._complete("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", self.pid, s.start, s.end, {})
            case "runtime":
                name, cbid = ("cudaLaunchKernelExC", 430) if s.collective >= 0 else _CALLS[s.name]
                return self._complete("cuda_runtime", name, self.pid, s.start, s.end, args | {"cbid": cbid, "correlation": s.correlation or 900_000_000})
            case "collective":
                return self._complete("cpu_op", "record_param_comms", self.pid, s.start, s.end, args | self._metadata(self.outcome.collectives[s.collective]))
            case _:
                return self._complete("cpu_op", _OPERATORS[s.name][0], self.pid, s.start, s.end, args)

    def _gpu(self, s: GpuSpan) -> str:
        args: dict[str, Any] = {"External id": s.correlation, "device": self.device, "context": 1, "stream": s.stream, "correlation": s.correlation}
        start, end = s.start + self.gpu_error, s.end + self.gpu_error
        if s.kind == "copy":
            args |= {"bytes": s.bytes, "memory bandwidth (GB/s)": s.bytes / max(s.end - s.start, 1)}
            return self._complete("gpu_memcpy", _OPERATORS["copy"][1], s.stream, start, end, args, pid=self.device)
        args |= {"queued": 0, "registers per thread": 96, "shared memory": 0, "grid": [24 if s.collective >= 0 else 528, 1, 1], "block": [512, 1, 1]}
        if s.collective < 0:
            return self._complete("kernel", _OPERATORS[s.name][1], s.stream, start, end, args, pid=self.device)
        collective = self.outcome.collectives[s.collective]
        prefix = "ncclKernel" if self.generation == "2022" else "ncclDevKernel"
        name = f"{prefix}_{_NCCL.get(collective.operation, 'SendRecv')}(ncclDevComm*, unsigned long, ncclWork*)"
        return self._complete("kernel", name, s.stream, start, end, args | self._metadata(collective), pid=self.device)

    def _metadata(self, c: Collective) -> dict[str, Any]:
        if self.generation == "2022":
            return {}
        group: Group = self.outcome.groups[c.group]
        whole = c.bytes // 4
        part = whole // len(c.members)
        sizes = {"all_gather": (part, whole), "reduce_scatter": (whole, part)}.get(c.operation, (whole, whole))
        data: dict[str, Any] = {"Collective name": _COLLECTIVE.get(c.operation, "send" if c.members[0] == self.rank else "recv")}
        if c.operation == "send_recv":
            peer = {"Dst Rank": c.members[1]} if c.members[0] == self.rank else {"Src Rank": c.members[0]}
            data |= {"Rank": group.ranks.index(self.rank), **peer}
        data |= {"In msg nelems": sizes[0], "Out msg nelems": sizes[1], "Group size": len(group.ranks), "dtype": "Float", "In split size": "[]"}
        data |= {"Process Group Name": str(group.number), "Process Group Description": _DESCRIPTION[group.kind], "Process Group Ranks": _listed(group.ranks)}
        if self.generation == "2026" and c.operation != "send_recv":
            key = hashlib.blake2b(f"{c.group}/{c.seq}".encode(), digest_size=7).digest()
            data |= {"Seq": c.seq + 1, "Comms Id": str(int.from_bytes(key))}
        return data


def _listed(ranks: tuple[int, ...]) -> str:
    """Kineto cuts lists longer than 30."""
    shown = ", ".join(str(r) for r in ranks[:30])
    return f"[{shown}]" if len(ranks) <= 30 else f"[{shown}, ..., {ranks[-1]}, ...]"
