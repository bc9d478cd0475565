"""A pipeline-parallel job (1F1B) computed event by event; stages are hosts, the ranks of a host are data-parallel replicas.

A receive is posted when its rank has nothing else to do and ends with the send a fixed time after both are there; sends
run beside compute. Each step ends with an all-reduce over the replicas of a stage and one over all ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tests.builders.frames import Parsed, Row, gpu, host, parsed, record, step

US, MS = 1_000, 1_000_000
REDUCE, MOVE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ncclDevKernel_SendRecv(x)"


@dataclass
class Pipeline:
    """What to simulate: `slow` gives the factor of (rank, step)."""

    stages: int = 4
    replicas: int = 4
    micro: int = 8
    steps: int = 6
    forward_ns: int = 10 * MS
    move_ns: int = 500 * US
    noise: float = 0.003
    seed: int = 0
    slow: Callable[[int, int], float] = lambda rank, step: 1.0
    rows: dict[str, list[Row]] = field(default_factory=lambda: {"gpu_spans": [], "host_spans": [], "comm_records": []})
    lengths: list[int] = field(default_factory=list)

    @property
    def world(self) -> int:
        return self.stages * self.replicas

    def hosts(self) -> dict[int, str]:
        return {r: f"node{r // self.replicas}" for r in range(self.world)}

    def _order(self, stage: int) -> list[tuple[str, int]]:
        warm = min(self.stages - stage - 1, self.micro)
        order = [("F", i) for i in range(warm)]
        for i in range(self.micro - warm):
            order += [("F", warm + i), ("B", i)]
        return order + [("B", i) for i in range(self.micro - warm, self.micro)]

    def build(self) -> Parsed:
        random = np.random.default_rng(self.seed)
        speed = 1 + self.noise * random.standard_normal(self.world)
        begin = 1_700_000_000 * 10**9
        for k in range(self.steps):
            ready: dict[int, int] = {}
            for q in range(self.replicas):
                ready |= self._replica(q, k, begin, speed, random)
            first = {s: max(ready[r] for r in self._stage(s)) + 3 * MS for s in range(self.stages)}
            for s in range(self.stages):
                for r in self._stage(s):
                    self._collective(r, ready[r], first[s] + int(random.integers(0, 5 * US)), self._stage(s), "DP", k, begin)
            end = max(first.values()) + 100 * US
            for r in range(self.world):
                self._collective(r, first[r // self.replicas] + 10 * US, end + int(random.integers(0, 5 * US)), list(range(self.world)), "all", k, begin)
                self.rows["host_spans"].append(step(r, k + 1, begin, end + 50 * US - begin))
            self.lengths.append(end + 50 * US - begin)
            begin = end + 50 * US
        return parsed(**self.rows)

    def _stage(self, s: int) -> list[int]:
        return list(range(s * self.replicas, (s + 1) * self.replicas))

    def _replica(self, q: int, k: int, begin: int, speed: np.ndarray, random: np.random.Generator) -> dict[int, int]:
        """Runs one replica of the pipeline through a step; returns when each of its ranks is done."""
        clock = dict.fromkeys(range(self.stages), begin + 20 * US)
        todo = {s: self._order(s) for s in range(self.stages)}
        sent: dict[tuple[int, str, int], int] = {}
        while any(todo.values()):
            for s in range(self.stages):
                while todo[s]:
                    kind, i = todo[s][0]
                    source = s - 1 if kind == "F" else s + 1
                    needs = 0 <= source < self.stages
                    if needs and (source, kind, i) not in sent:
                        break
                    todo[s].pop(0)
                    r = s * self.replicas + q
                    if needs:
                        there = sent[source, kind, i]
                        end = max(clock[s], there) + self.move_ns
                        self._move(source * self.replicas + q, r, there, clock[s], end, k, begin)
                        clock[s] = end
                    work = self.forward_ns * (1 if kind == "F" else 2) * self.slow(r, k) * speed[r] * (1 + self.noise * random.standard_normal())
                    self.rows["gpu_spans"].append(gpu(r, clock[s], int(work), f"gemm_{kind}"))
                    clock[s] += int(work)
                    sent[s, kind, i] = clock[s]
        return {s * self.replicas + q: clock[s] for s in range(self.stages)}

    def _launched(self, r: int, start: int, end: int, name: str, stream: int, operation: str, ranks: list[int], begin: int, **more: object) -> None:
        c = len(self.rows["gpu_spans"]) + 1
        self.rows["gpu_spans"].append(gpu(r, start, end - start, name, stream=stream, correlation=c))
        self.rows["host_spans"].append(host(r, begin + 30 * US, 5 * US, "cudaLaunchKernel", "runtime", correlation=c))
        self.rows["comm_records"].append(record(r, start, end - start, operation, ranks, correlation=c, in_elements=1_000_000, **more))  # type: ignore[arg-type]

    def _move(self, a: int, b: int, sent: int, posted: int, end: int, k: int, begin: int) -> None:
        ranks = list(range(b % self.replicas, self.world, self.replicas))
        self._launched(a, sent, end, MOVE, 30, "send", ranks, begin, dst_rank=b, group_desc="PP")
        self._launched(b, posted, end + 2 * US, MOVE, 31, "recv", ranks, begin, src_rank=a, group_desc="PP")

    def _collective(self, r: int, start: int, end: int, ranks: list[int], desc: str, k: int, begin: int) -> None:
        self._launched(r, start, end, REDUCE, 40 if desc == "DP" else 41, "allreduce", ranks, begin, group_desc=desc)
