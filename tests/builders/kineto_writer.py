"""PyTorch-profiler traces of a simulated job, one file per rank, as several generations of Kineto wrote them.

    from tests.builders.kineto_writer import Job, write_job

    truth = write_job(tmp_path, Job(world=8, hosts=2, slow={5: 1.4}, clock_offsets_ns=[0, 3_000_000]))

The same job gives the same bytes (with the same zlib where `compress` is on). See `Job` for what can go wrong in it
and `truth_of` for what `write_job` returns; its key `files` maps ranks to file names. Generations:

- ``2022``: integer absolute microseconds, collectives without metadata
- ``2024-absolute``: absolute microseconds with three decimals (more digits than a double holds)
- ``2024``: times relative to a base that comes after the events; metadata on collectives, process groups listed
- ``2025``: the same with the base before the events
- ``2026``: the same with the host name, and sequence numbers and a common id on collectives
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.builders.job import COMPUTE_STREAM, START_NS, Job, Operation, Simulation, Span
from tests.builders.truth import truth_of

__all__ = ["GENERATIONS", "Job", "trace_texts", "write_job"]

GENERATIONS = ("2022", "2024-absolute", "2024", "2025", "2026")

_BASE_STEP_NS = 7_889_238 * 1_000_000_000
"""Kineto rounds its base time down to a multiple of three mean months."""

_GPU = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_028_175_872, "computeMajor": 9, "computeMinor": 0, "numSms": 132}
_OPERATION_NAMES = {"all_reduce": "allreduce", "reduce_scatter": "_reduce_scatter_base", "all_gather": "_allgather_base"}
_KERNEL_NAMES = {"all_reduce": "AllReduce", "reduce_scatter": "ReduceScatter", "all_gather": "AllGather"}
_CBID = {"cudaLaunchKernel": 211, "cudaLaunchKernelExC": 430, "cudaMemcpyAsync": 41, "cudaDeviceSynchronize": 165}


def write_job(directory: Path, job: Job) -> dict[str, Any]:
    """Simulates `job`, writes the trace of every rank that is not missing, and returns the truth."""
    run = Simulation(job)
    truth = truth_of(run)
    truth["files"] = {}
    directory.mkdir(parents=True, exist_ok=True)
    for rank, text in trace_texts(run):
        name = f"{job.host(rank)}_{_pid(rank)}.{START_NS // 1_000_000 + rank}.pt.trace.json" + (".gz" if job.compress else "")
        (directory / name).write_bytes(_gzip(text.encode()) if job.compress else text.encode())
        truth["files"][str(rank)] = name
    return truth


def trace_texts(run: Simulation) -> Iterator[tuple[int, str]]:
    """The text of each rank's file."""
    for rank in range(run.job.world):
        if rank not in run.job.missing:
            yield rank, _RankTrace(run, rank).text()


def _pid(rank: int) -> int:
    return 4_000 + rank


def _gzip(data: bytes) -> bytes:
    """A gzip member without name and time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


class _RankTrace:
    """Writes one rank's spans in the layout of the job's generation."""

    def __init__(self, run: Simulation, rank: int) -> None:
        self.run, self.job, self.rank = run, run.job, rank
        self.host = run.job.host(rank)
        self.device = run.job.device(rank)
        self.stated = run.job.generation != "2022"
        self.relative = run.job.generation in {"2024", "2025", "2026"}
        self.base = START_NS // _BASE_STEP_NS * _BASE_STEP_NS if self.relative else 0
        self.spans = run.written(rank)

    def text(self) -> str:
        events = ",\n".join(f"  {e}" for e in self._events())
        head = ['"schemaVersion": 1', f'"deviceProperties": {self._devices()}', f'"distributedInfo": {json.dumps(self._distributed())}']
        if self.stated:
            head += ['"cupti_version": 24', '"cuda_runtime_version": 12080', '"cuda_driver_version": 12090', '"record_shapes": 1']
        base = ['"displayTimeUnit": "ms"', f'"baseTimeNanoseconds": {self.base}']
        tail = [f'"traceName": "/tmp/tmp{self.rank}.json"']
        if self.job.generation == "2026":
            head += [f'"host_name": "{self.host}"', *base]
        elif self.job.generation == "2025":
            head += base
        elif self.relative:
            tail += base
        return "{\n  " + ",\n  ".join(head) + ',\n  "traceEvents": [\n' + events + "\n  ],\n  " + ",\n  ".join(tail) + "\n}"

    def _devices(self) -> str:
        local = sum(self.job.host(r) == self.host for r in range(self.job.world))
        return json.dumps([{"id": i, **_GPU} for i in range(local)])

    def _distributed(self) -> dict[str, Any]:
        info: dict[str, Any] = {"backend": "nccl", "rank": self.rank, "world_size": self.job.world}
        if self.stated:
            kinds = [(kind, group) for kind in ("world", "tp", "dp") for group in self.job.groups(kind)]
            mine = [self._process_group(kind, group) for kind, group in kinds if self.rank in group]
            info |= {"pg_count": len(kinds), "pg_config": mine, "nccl_version": "2.26.2"}
        return info

    def _process_group(self, kind: str, group: tuple[int, ...]) -> dict[str, Any]:
        name = self.job.group_name(kind, group)
        return {"pg_name": name, "pg_desc": _description(kind), "backend_config": "cuda:nccl", "pg_size": len(group), "ranks": list(group)}

    def _time(self, ns: int, *, length: bool = False) -> str:
        """Nanoseconds on the common clock (or a length) as the file has them."""
        shown = ns if length else ns + self.job.clock_error(self.host) - self.base
        return f"{shown // 1000}.{shown % 1000:03d}" if self.stated else str(shown // 1000)

    def _complete(self, category: str, name: str, pid: int | str, tid: int | str, start: int, end: int, args: dict[str, Any]) -> str:
        head = f'"ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {json.dumps(pid)}, "tid": {json.dumps(tid)}'
        return f'{{\n    {head},\n    "ts": {self._time(start)}, "dur": {self._time(end - start, length=True)},\n    "args": {json.dumps(args)}\n  }}'

    def _point(self, phase: str, at: int, **fields: Any) -> str:
        rest = "".join(f", {json.dumps(k)}: {json.dumps(v)}" for k, v in fields.items())
        return f'{{\n    "ph": "{phase}", "ts": {self._time(at)}{rest}\n  }}'

    def _events(self) -> Iterator[str]:
        first, last = min(s.start for s in self.spans), max(s.end for s in self.spans)
        yield from self._names(first)
        for span in self.spans:
            yield from self._host_span(span) if span.stream is None else self._gpu_span(span, span.stream)
        yield self._complete("Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", first, last, {"Op count": 0})
        yield self._point("i", first, name="Iteration Start: PyTorch Profiler", s="g", pid="Traces", tid="Trace PyTorch Profiler")
        yield self._point("i", last, name="Record Window End", s="g", pid="", tid="")

    def _names(self, at: int) -> Iterator[str]:
        pid = _pid(self.rank)
        yield self._point("M", at, name="process_name", pid=pid, tid=0, args={"name": "python"})
        yield self._point("M", at, name="process_labels", pid=pid, tid=0, args={"labels": "CPU"})
        yield self._point("M", at, name="process_labels", pid=self.device, tid=0, args={"labels": f"GPU {self.device}"})
        for stream in sorted({s.stream for s in self.spans if s.stream is not None}):
            yield self._point("M", at, name="thread_name", pid=self.device, tid=stream, args={"name": f"stream {stream} "})

    def _host_span(self, s: Span) -> Iterator[str]:
        pid = _pid(self.rank)
        tid = pid + 100 * s.autograd
        args: dict[str, Any] = {"External id": s.external_id} if s.external_id else {}
        if s.category == "cuda_runtime":
            args |= {"cbid": _CBID[s.name], "correlation": s.correlation}
        if s.collective is not None and self.stated:
            group = s.collective.group
            args |= self._metadata(s.collective) | {"Rank": group.index(self.rank), "Global rank start": group[0], "Global rank stride": group[1] - group[0]}
        yield self._complete(s.category, s.name, pid, tid, s.start, s.end, args)
        if s.category == "cuda_runtime" and s.name != "cudaDeviceSynchronize":
            yield self._flow("s", s.correlation, pid, tid, s.start)
        if s.collective is not None:
            name = f"nccl:{s.collective.operation}"
            yield self._complete("user_annotation", name, pid, tid, s.start + 1_000, s.end - 1_000, {"External id": s.external_id + 1})
        if s.name.startswith("ProfilerStep#"):
            yield self._gpu_copy(s)

    def _gpu_copy(self, s: Span) -> str:
        """The copy of a step's annotation that Kineto stretches over the GPU work launched in it."""
        inside = [g for g in self.spans if g.stream == COMPUTE_STREAM and g.step == s.step]
        start, end, q = min(g.start for g in inside), max(g.end for g in inside), self.job.quantum
        return self._complete("gpu_user_annotation", s.name, self.device, COMPUTE_STREAM, start - q, end + q, {"External id": 1})

    def _gpu_span(self, s: Span, stream: int) -> Iterator[str]:
        args: dict[str, Any] = {"External id": s.external_id, "device": self.device, "context": 1, "stream": stream, "correlation": s.correlation}
        name = s.name
        if s.category == "gpu_memcpy":
            args |= {"bytes": s.bytes, "memory bandwidth (GB/s)": s.bytes / (s.end - s.start)}
        else:
            grid = [132 * 4, 1, 1] if s.collective is None else [24, 1, 1]
            args |= {"queued": 0, "registers per thread": 96, "shared memory": 0, "grid": grid, "block": [256, 1, 1], "est. achieved occupancy %": 30}
        if s.collective is not None:
            name = self._kernel_name(s.collective)
            args |= self._metadata(s.collective) if self.stated else {}
        yield self._complete(s.category, name, self.device, stream, s.start, s.end, args)
        yield self._flow("f", s.correlation, self.device, stream, s.start)

    def _flow(self, phase: str, correlation: int, pid: int, tid: int, at: int) -> str:
        kind = "ac2g" if self.stated else "async_cpu_to_gpu"
        end = {"bp": "e"} if phase == "f" else {}
        return self._point(phase, at, id=correlation, pid=pid, tid=tid, cat=kind, name=kind, **end)

    def _kernel_name(self, op: Operation) -> str:
        kind = _KERNEL_NAMES[op.operation]
        if not self.stated:
            dtype = {"Float": "float", "BFloat16": "__nv_bfloat16"}[op.dtype] if kind != "AllGather" else "int8_t"
            return f"ncclKernel_{kind}_RING_LL_Sum_{dtype}(ncclDevComm*, unsigned long, ncclWork*)"
        reduction = "" if kind == "AllGather" else {"Float": "_Sum_f32", "BFloat16": "_Sum_bf16"}[op.dtype]
        return f"ncclDevKernel_{kind}{reduction}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

    def _metadata(self, op: Operation) -> dict[str, Any]:
        name = self.job.group_name(op.kind, op.group)
        data: dict[str, Any] = {
            "Collective name": _OPERATION_NAMES[op.operation],
            "In msg nelems": op.elements_in,
            "Out msg nelems": op.elements_out,
            "Group size": len(op.group),
            "dtype": op.dtype,
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": name,
            "Process Group Description": _description(op.kind),
            "Process Group Ranks": _rank_list(op.group),
        }
        if self.job.generation == "2026":
            key = hashlib.blake2b(f"{name}/{op.seq}/{op.group}".encode(), digest_size=7).digest()
            data |= {"Seq": op.seq, "Comms Id": str(int.from_bytes(key))}
        return data


def _description(kind: str) -> str:
    return "default_pg" if kind == "world" else kind


def _rank_list(group: tuple[int, ...]) -> str:
    """Kineto cuts lists longer than 30."""
    shown = [str(r) for r in group]
    return f"[{', '.join(shown)}]" if len(group) <= 30 else f"[{', '.join(shown[:30])}, ..., {shown[-1]}, ...]"
