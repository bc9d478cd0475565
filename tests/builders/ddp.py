"""A data-parallel job computed event by event: its tables, hosts and true step lengths.

Per step each rank loads a batch, copies it, runs its kernels back to back, sums gradients in two all-reduces (the first
beside compute, the second after it) and ends with one optimizer kernel. An all-reduce ends everywhere a fixed time after
the last rank has entered it, give or take a few microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.builders.frames import Parsed, Row, gpu, host, parsed, record, step

US, MS = 1_000, 1_000_000
Factor = Callable[[int, int], float]
Pause = Callable[[int, int], int]

FIRST, SECOND = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(a)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(b)"


@dataclass
class Job:
    """What to simulate; every hook gets (rank, step) and defaults to no fault."""

    ranks: int = 8
    per_host: int = 4
    steps: int = 10
    kernels: int = 20
    kernel_ns: int = 5 * MS
    transfer_ns: int = 4 * MS
    noise: float = 0.003
    seed: int = 0
    slow: Factor = lambda rank, step: 1.0
    loader: Pause = lambda rank, step: 500 * US
    pause: Pause = lambda rank, step: 0
    hiccup: Pause = lambda rank, step: 0
    copy: Pause = lambda rank, step: 300 * US
    offsets: dict[int, int] = field(default_factory=dict)
    metadata: bool = True
    rows: dict[str, list[Row]] = field(default_factory=lambda: {"gpu_spans": [], "host_spans": [], "comm_records": []})
    lengths: list[int] = field(default_factory=list)

    def hosts(self) -> dict[int, str]:
        return {r: f"node{r // self.per_host}" for r in range(self.ranks)}

    def build(self) -> Parsed:
        random = np.random.default_rng(self.seed)
        speed = 1 + self.noise * random.standard_normal(self.ranks)
        begin = [1_700_000_000 * 10**9 + int(random.integers(0, 50)) * US for _ in range(self.ranks)]
        correlation = 0
        before = max(begin)
        for k in range(self.steps):
            factors = [self.slow(r, k) * speed[r] * (1 + self.noise * random.standard_normal()) for r in range(self.ranks)]
            ready: list[tuple[int, int]] = []
            for r in range(self.ranks):
                t = begin[r]
                self._host(r, t, self.loader(r, k), "enumerate(DataLoader)#_Iter.__next__", "annotation")
                t += self.loader(r, k) + 20 * US
                self._gpu(r, t, self.copy(r, k), "Memcpy HtoD (Pinned -> Device)", kind="memcpy")
                t += self.copy(r, k)
                half = t
                for n in range(self.kernels):
                    correlation += 1
                    length = int(self.kernel_ns * factors[r] * (1 + 0.01 * random.standard_normal()))
                    self._host(r, begin[r] + self.loader(r, k) + n * 8 * US, 6 * US, "cudaLaunchKernel", "runtime", correlation=correlation)
                    t += self.pause(r, k) if n == self.kernels // 2 else 0
                    length += self.hiccup(r, k) if n == self.kernels // 2 else 0
                    self._gpu(r, t, length, f"gemm_{n}", correlation=correlation)
                    t += length
                    if n == self.kernels // 2:
                        half = t
                ready.append((half, t))
            first = max(h for h, _ in ready) + self.transfer_ns
            starts = [max(t, first + 10 * US) for _, t in ready]
            second = max(starts) + self.transfer_ns
            for r in range(self.ranks):
                ends = (first + int(random.integers(0, 4 * US)), second + int(random.integers(0, 4 * US)))
                for start, end, name, elements in ((ready[r][0], ends[0], FIRST, 25_000_000), (starts[r], ends[1], SECOND, 10_000_000)):
                    correlation += 1
                    self._host(r, begin[r] + self.loader(r, k) + 900 * US, 6 * US, "cudaLaunchKernel", "runtime", correlation=correlation)
                    self._gpu(r, start, end - start, name, stream=20, correlation=correlation)
                    if self.metadata:
                        row = record(
                            r,
                            start + self.offsets.get(r // self.per_host, 0),
                            end - start,
                            "allreduce",
                            list(range(self.ranks)),
                            correlation=correlation,
                            in_elements=elements,
                        )
                        self.rows["comm_records"].append(row)
                self._gpu(r, ends[1], 500 * US, "adam")
                over = ends[1] + 510 * US
                self.rows["host_spans"].append(step(r, k + 1, begin[r] + self.offsets.get(r // self.per_host, 0), over - begin[r]))
                begin[r] = over
            self.lengths.append(max(begin) - before)
            before = max(begin)
        return parsed(**self.rows)

    def _gpu(self, rank: int, start: int, dur: int, name: str, **more: object) -> None:
        self.rows["gpu_spans"].append(gpu(rank, start + self.offsets.get(rank // self.per_host, 0), dur, name, **more))  # type: ignore[arg-type]

    def _host(self, rank: int, start: int, dur: int, name: str, kind: str, **more: object) -> None:
        self.rows["host_spans"].append(host(rank, start + self.offsets.get(rank // self.per_host, 0), dur, name, kind, **more))  # type: ignore[arg-type]
