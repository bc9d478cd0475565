"""A training job of a few steps, simulated on one true clock: what every rank's host and GPU did, and why.

Each rank runs the same program: load a batch, copy it to the GPU, forward layers with a tensor-parallel all-reduce
each, backward layers whose gradients are reduce-scattered over the data-parallel group while the next layer computes,
an all-reduce of the gradient norm over the world, the optimizer, an all-gather of the parameters, a synchronization.
A collective ends on all its ranks `transfer` after the last of them started it, so a late rank makes the others wait.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

COMPUTE_STREAM = 7
TP_STREAM, DP_STREAM, WORLD_STREAM = 16, 20, 24
START_NS = 1_785_000_000_000_000_000


@dataclass(frozen=True)
class Job:
    """What to simulate. Faults are off by default; times are nanoseconds, ranks are global.

    `slow` multiplies the compute kernels of a rank; `loader_stalls` adds to the data loader of (rank, step);
    `clock_offsets_ns` is what each host's clock is ahead by (only differences matter: the mean is taken off);
    `dropped` leaves every n-th GPU event of a rank out of its file; `missing` ranks run but leave no file.
    """

    generation: str = "2026"
    world: int = 8
    hosts: int = 2
    tp: int = 2
    steps: int = 4
    first_step: int = 10
    layers: int = 3
    seed: int = 0
    slow: Mapping[int, float] = field(default_factory=dict)
    loader_stalls: Mapping[tuple[int, int], int] = field(default_factory=dict)
    clock_offsets_ns: Sequence[int] = ()
    dropped: Mapping[int, int] = field(default_factory=dict)
    missing: Sequence[int] = ()
    compress: bool = True

    @property
    def quantum(self) -> int:
        """Resolution of the profiler's times."""
        return 1_000 if self.generation == "2022" else 1

    def host(self, rank: int) -> str:
        """Name of the host of a rank: ranks fill one host after the other."""
        return f"node-{rank * self.hosts // self.world}"

    def device(self, rank: int) -> int:
        """Index of a rank's GPU on its host."""
        return sum(self.host(r) == self.host(rank) for r in range(rank))

    def clock_error(self, host: str) -> int:
        """What the clock of `host` shows beyond the common clock."""
        offsets = [*self.clock_offsets_ns, *[0] * self.hosts][: self.hosts]
        mean = sum(offsets) // self.hosts
        return (offsets[int(host.removeprefix("node-"))] - mean) // self.quantum * self.quantum

    def groups(self, kind: str) -> list[tuple[int, ...]]:
        """The communicators of a kind: world, tp (neighbours) or dp (the same place in every tp group)."""
        if kind == "world":
            return [tuple(range(self.world))]
        if kind == "tp":
            return [tuple(range(first, first + self.tp)) for first in range(0, self.world, self.tp)]
        return [tuple(range(place, self.world, self.tp)) for place in range(self.tp)]

    def group_name(self, kind: str, group: tuple[int, ...]) -> str:
        """The name that every process gives a group: a counter over all groups ever made."""
        ordered = [(k, g) for k in ("world", "tp", "dp") for g in self.groups(k)]
        return str(ordered.index((kind, group)))


@dataclass
class Operation:
    """One collective of the job: when each rank started and ended it."""

    kind: str
    operation: str
    group: tuple[int, ...]
    step: int
    stream: int
    elements_in: int
    elements_out: int
    dtype: str
    seq: int
    transfer_ns: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    """Something with a start and an end on a rank; `stream` is None on the host."""

    rank: int
    category: str
    name: str
    start: int
    end: int
    step: int
    stream: int | None = None
    autograd: bool = False
    external_id: int = 0
    correlation: int = 0
    bytes: int = 0
    collective: Operation | None = None


_ELEMENT_BYTES = {"Float": 4, "BFloat16": 2}


class Simulation:
    """Runs a `Job`; afterwards `spans`, `operations` and `step_starts` hold what happened, on the true clock."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.spans: list[Span] = []
        self.operations: list[Operation] = []
        self.step_starts: dict[tuple[int, int], int] = {}
        self._rng = random.Random(job.seed)
        self._host = [START_NS + self._length(50_000, 0.2) for _ in range(job.world)]
        self._free: list[dict[int, int]] = [{} for _ in range(job.world)]
        self._ids = [0] * job.world
        self._seq: dict[tuple[str, tuple[int, ...]], int] = {}
        for step in range(job.first_step, job.first_step + job.steps):
            self._step(step)

    @property
    def wall_ns(self) -> int:
        """From the first to the last moment of the job."""
        return max(s.end for s in self.spans) - min(s.start for s in self.spans)

    def written(self, rank: int) -> list[Span]:
        """What the file of `rank` holds: all its spans, host first, without those that were dropped."""
        if rank in self.job.missing:
            return []
        spans = sorted((s for s in self.spans if s.rank == rank), key=lambda s: (s.stream is not None, s.start, -s.end))
        nth = self.job.dropped.get(rank)
        on_gpu = [s for s in spans if s.stream is not None]
        lost = {id(s) for s in on_gpu[nth - 1 :: nth]} if nth else set()
        return [s for s in spans if id(s) not in lost]

    def _length(self, ns: float, spread: float = 0.005) -> int:
        """A duration near `ns`. Draws once whatever the faults, so that a job without them has the same randomness."""
        q = self.job.quantum
        return max(q, round(ns * self._rng.uniform(1 - spread, 1 + spread) / q) * q)

    def _step(self, step: int) -> None:
        job = self.job
        for rank in range(job.world):
            self.step_starts[rank, step] = self._host[rank]
            self._load(rank, step)
        for _ in range(job.layers):
            self._kernel(step, "aten::mm", "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", 900_000)
            self._collective(step, "tp", "all_reduce", TP_STREAM, 2_097_152, "BFloat16", wait=True)
        for _ in range(job.layers):
            self._kernel(step, "MmBackward0", "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nt", 1_800_000, autograd=True)
            self._collective(step, "dp", "reduce_scatter", DP_STREAM, 2_097_152, "BFloat16", wait=False)
        self._wait(DP_STREAM)
        self._collective(step, "world", "all_reduce", WORLD_STREAM, 1, "Float", wait=True)
        self._kernel(step, "aten::_fused_adamw_", "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", 400_000)
        self._collective(step, "dp", "all_gather", DP_STREAM, 2_097_152, "BFloat16", wait=True)
        for rank in range(job.world):
            self._finish(rank, step)

    def _load(self, rank: int, step: int) -> None:
        start = self._host[rank]
        end = start + self._length(60_000, 0.6) + self.job.loader_stalls.get((rank, step), 0) // self.job.quantum * self.job.quantum
        self._add(rank, step, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start, end)
        self._host[rank] = end + self._length(5_000)
        size = 2_097_152
        self._launch(
            rank, step, "aten::copy_", "cudaMemcpyAsync", "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", COMPUTE_STREAM, self._length(size / 25, 0.01), size
        )

    def _kernel(self, step: int, op: str, name: str, ns: int, *, autograd: bool = False) -> None:
        for rank in range(self.job.world):
            length = round(self._length(ns) * self.job.slow.get(rank, 1.0) / self.job.quantum) * self.job.quantum
            self._launch(rank, step, op, "cudaLaunchKernel", "kernel", name, COMPUTE_STREAM, length, autograd=autograd)

    def _launch(
        self, rank: int, step: int, op: str, call: str, category: str, name: str, stream: int, length: int, size: int = 0, *, autograd: bool = False
    ) -> None:
        start, launch, external, correlation = self._issue(rank)
        self._add(rank, step, "cpu_op", op, start, self._host[rank], autograd=autograd, external_id=external)
        self._add(rank, step, "cuda_runtime", call, launch, launch + 4_000, autograd=autograd, external_id=external, correlation=correlation)
        begin = max(launch + 5_000, self._free[rank].get(stream, 0) + 1_000)
        self._add(rank, step, category, name, begin, begin + length, stream=stream, external_id=external, correlation=correlation, size=size)
        self._free[rank][stream] = begin + length

    def _issue(self, rank: int) -> tuple[int, int, int, int]:
        """An operator's start, its launch call, and fresh ids; moves the host on."""
        start = self._host[rank]
        launch = start + self._length(6_000, 0.1)
        self._host[rank] = launch + self._length(9_000, 0.1)
        self._ids[rank] += 2
        return start, launch, self._ids[rank], 40_000 + self._ids[rank]

    def _collective(self, step: int, kind: str, operation: str, stream: int, elements: int, dtype: str, *, wait: bool) -> None:
        for group in self.job.groups(kind):
            if len(group) > 1:
                self._one_collective(step, kind, operation, group, stream, elements, dtype)
        if wait:
            self._wait(stream)

    def _one_collective(self, step: int, kind: str, operation: str, group: tuple[int, ...], stream: int, elements: int, dtype: str) -> None:
        n = len(group)
        seq = self._seq[kind, group] = self._seq.get((kind, group), 0) + 1
        part = elements // n
        sizes = {"all_reduce": (elements, elements), "reduce_scatter": (elements, part), "all_gather": (part, elements)}[operation]
        done = Operation(kind, operation, group, step, stream, *sizes, dtype, seq)
        hosts = {self.job.host(r) for r in group}
        moved = elements * _ELEMENT_BYTES[dtype] * (n - 1) / n * (2 if operation == "all_reduce" else 1)
        done.transfer_ns = self._length(12_000 + moved / (40 if len(hosts) > 1 else 300), 0.02)
        issued = {r: self._issue(r) for r in group}
        for r, (_, launch, _, _) in issued.items():
            done.starts[r] = max(launch + 5_000, self._free[r].get(stream, 0) + 1_000, self._free[r].get(COMPUTE_STREAM, 0) + 2_000)
        for r, (start, launch, external, correlation) in issued.items():
            end = done.ends[r] = max(done.starts.values()) + done.transfer_ns + self._length(1_000, 0.9)
            self._add(r, step, "cpu_op", "record_param_comms", start, self._host[r], autograd=done.stream != TP_STREAM, external_id=external, collective=done)
            self._add(
                r,
                step,
                "cuda_runtime",
                "cudaLaunchKernelExC",
                launch,
                launch + 4_000,
                autograd=done.stream != TP_STREAM,
                external_id=external,
                correlation=correlation,
            )
            self._add(r, step, "kernel", "nccl", done.starts[r], end, stream=stream, external_id=external, correlation=correlation, collective=done)
            self._free[r][stream] = end
        self.operations.append(done)

    def _wait(self, stream: int) -> None:
        """The compute stream goes on when the work issued to `stream` is done."""
        for free in self._free:
            free[COMPUTE_STREAM] = max(free.get(COMPUTE_STREAM, 0), free.get(stream, 0))

    def _finish(self, rank: int, step: int) -> None:
        start = self._host[rank]
        end = max(start, *self._free[rank].values()) + self._length(4_000)
        self._add(rank, step, "cuda_runtime", "cudaDeviceSynchronize", start, end, correlation=50_000 + self._ids[rank])
        self._host[rank] = end + self._length(20_000, 0.1)
        self._add(rank, step, "user_annotation", f"ProfilerStep#{step}", self.step_starts[rank, step], self._host[rank])
        self._host[rank] += self._length(3_000)

    def _add(
        self,
        rank: int,
        step: int,
        category: str,
        name: str,
        start: int,
        end: int,
        *,
        stream: int | None = None,
        autograd: bool = False,
        external_id: int = 0,
        correlation: int = 0,
        size: int = 0,
        collective: Operation | None = None,
    ) -> None:
        self.spans.append(Span(rank, category, name, start, end, step, stream, autograd, external_id, correlation, size, collective))
