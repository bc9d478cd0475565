"""Runs a job event by event: hosts issue, streams work in order, operations move bytes when their last rank is there."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from tracelab.simulate.faults import Effects, job_with
from tracelab.simulate.model import Collective, GpuSpan, HostSpan, Outcome, Scenario
from tracelab.simulate.network import FRAMING, Network, Transfer, edges_of, path_of
from tracelab.simulate.noise import generator
from tracelab.simulate.programs import COMPUTE, Communicate, Copy, Kernel, Load, Op, Sync, Wait, groups_of, program

__all__ = ["simulated"]

LAUNCH_TO_START_NS = 5_000
SYNC_NS = 8_000
OVERLAP = 0.08
"""Compute takes this much longer while communication runs beside it (5 to 15 % are usual)."""
LATENCY_NS = {"nvlink": 3_000, "nic": 12_000}
"""Of one hop of a ring."""
COPY_BYTES_PER_S = 22e9


@dataclass(eq=False)
class _Item:
    """Work of a stream. `after`: items that must be done before; `done`: when it was."""

    name: str
    kind: str
    ns: int
    issued: int
    correlation: int
    step: int
    after: list[_Item] = field(default_factory=list)
    done: int = -1
    start: int = -1
    size: int = 0
    collective: Collective | None = None
    waiters: list[Callable[[int], None]] = field(default_factory=list)


class _Rank:
    """State of one rank: its streams, the last item issued to each, and the position of its host."""

    def __init__(self) -> None:
        self.queues: dict[int, deque[_Item]] = defaultdict(deque)
        self.last: dict[int, _Item] = {}
        self.pending: dict[int, list[_Item]] = defaultdict(list)  # what the next item of a stream waits for
        self.free: dict[int, int] = defaultdict(int)
        self.communicating = 0
        self.correlation = 0
        self.host = 0
        self.seq: dict[tuple[int, object], int] = defaultdict(int)


class _Engine:
    def __init__(self, scenario: Scenario, length_ns: int) -> None:
        self.s = scenario
        self.job = job_with(scenario)
        self.cluster = scenario.cluster
        self.effects = Effects(scenario, length_ns)
        self.groups = groups_of(self.cluster, self.job)
        self.network = Network(self.cluster, self.effects.changes())
        self.heap: list[tuple[int, int, Callable[[int], None]]] = []
        self.order = 0
        self.version = 0
        self.ranks = [_Rank() for _ in range(self.cluster.world)]
        world = self.cluster.world
        self.out = Outcome(scenario, self.groups, [[] for _ in range(world)], [[] for _ in range(world)], [[] for _ in range(world)], [], [])
        self.open: dict[tuple[int, object, int], Collective] = {}
        self.moving: dict[Transfer, Collective] = {}
        self.bias = [int(generator(scenario.seed, "bias", r).uniform(0, 20_000)) for r in range(world)]

    def run(self) -> Outcome:
        for r in range(self.cluster.world):
            self.at(int(generator(self.s.seed, "begin", r).uniform(0, 50_000)), partial(self.step, r, 0))
        while self.heap:
            now, _, action = heapq.heappop(self.heap)
            action(now)
        self.out.loads = self.network.loads
        self.out.stalled = any(len(s) < self.job.steps for s in self.out.steps)
        for r, rank in enumerate(self.ranks):
            for queue in rank.queues.values():  # what began and never ended is in no trace
                queue.clear()
            self.out.gpu[r].sort(key=lambda x: (x.start, x.correlation))
            self.out.host[r].sort(key=lambda x: (x.start, -x.end))
        return self.out

    def at(self, moment: int, action: Callable[[int], None]) -> None:
        self.order += 1
        heapq.heappush(self.heap, (moment, self.order, action))

    # hosts

    def step(self, r: int, step: int, now: int) -> None:
        """Begins a step of a rank's host."""
        if step == self.job.steps:
            return
        draws = generator(self.s.seed, "host", r, step)
        ops = program(self.job, self.groups, r)
        self.ranks[r].host = now
        self.issue(r, step, now, deque(ops), draws, generator(self.s.seed, "gpu", r, step), self.effects.compute(r, step))

    def issue(self, r: int, step: int, began: int, ops: deque[Op], draws: np.random.Generator, gpu: np.random.Generator, slow: float) -> None:
        """The host goes on until it waits for its GPU, or stops."""
        rank, spans = self.ranks[r], self.out.host[r]
        launch = self.job.launch_us * 1e3 * self.effects.launch(r, step)
        stops = self.effects.stops(r, step)
        middle = len(ops) // 2
        while ops:
            op = ops.popleft()
            if stops and isinstance(op, Communicate) and len(ops) <= middle:
                return
            cost = int(launch * draws.uniform(0.9, 1.3))
            match op:
                case Load():
                    end = rank.host + int(self.job.loader_ms * 1e6 * draws.uniform(0.9, 1.1)) + self.effects.stall_ns(r, step, "input_stall")
                    spans.append(HostSpan("loader", "loader", rank.host, end))
                    rank.host = end + self.effects.stall_ns(r, step, "host_stall")
                case Wait(stream, on):
                    if on in rank.last:
                        rank.pending[stream].append(rank.last[on])
                case Copy(size):
                    ns = size / COPY_BYTES_PER_S * 1e9 * self.effects.copy(r, step)
                    self.launch(r, COMPUTE, _Item("copy", "copy", int(ns * gpu.uniform(0.97, 1.03)), 0, 0, step, size=size), cost)
                case Kernel(name, ms):
                    ns = ms * 1e6 * slow * float(np.exp(gpu.normal(0, 0.006)))
                    self.launch(r, COMPUTE, _Item(name, "kernel", max(int(ns), 1_000), 0, 0, step), cost)
                case Communicate():
                    self.launch(r, op.stream, self.communication(r, step, op), cost)
                case Sync():
                    self.sync(r, step, began, [i for i in rank.last.values() if i.done < 0])

    def launch(self, r: int, stream: int, item: _Item, cost: int) -> None:
        """Issues an item to a stream."""
        rank = self.ranks[r]
        rank.correlation += 1
        item.correlation = rank.correlation
        began = rank.host
        rank.host += cost
        item.issued = rank.host + LAUNCH_TO_START_NS
        item.after = [i for i in rank.pending.pop(stream, []) if i.done < 0 or i.done > item.issued]
        number = item.collective.number if item.collective else -1
        self.out.host[r].append(HostSpan(item.name, "collective" if item.collective else "operator", began, rank.host, item.correlation, number))
        self.out.host[r].append(
            HostSpan("copy" if item.kind == "copy" else "launch", "runtime", began + cost // 2, rank.host - 1_000, item.correlation, number)
        )
        rank.last[stream] = item
        rank.queues[stream].append(item)
        if len(rank.queues[stream]) == 1:
            self.at(item.issued, partial(self.ready, r, stream, item))

    def sync(self, r: int, step: int, began: int, items: list[_Item]) -> None:
        """The host waits for `items`, then ends its step."""
        waiting = {id(i) for i in items}
        called = self.ranks[r].host

        def one(item: _Item, now: int) -> None:
            waiting.discard(id(item))
            if not waiting:
                done(now)

        def done(now: int) -> None:
            end = max(called, now) + SYNC_NS
            self.out.host[r].append(HostSpan("synchronize", "runtime", called, end))
            self.out.host[r].append(HostSpan(f"step{step}", "step", began, end))
            self.out.steps[r].append((self.job.first_step + step, began, end))
            self.at(end + 3_000, partial(self.step, r, step + 1))

        for item in items:
            item.waiters.append(partial(one, item))
        if not items:
            done(called)

    # streams

    def ready(self, r: int, stream: int, item: _Item, now: int) -> None:
        """The first item of a stream was issued: starts it, or waits for what it depends on."""
        for other in item.after:
            if other.done < 0:
                other.waiters.append(partial(self.ready, r, stream, item))
                return
        start = max([item.issued, self.ranks[r].free[stream] + 1_000, *(i.done + 1_500 for i in item.after)])
        if start > now:
            self.at(start, partial(self.begin, r, stream, item))
        else:
            self.begin(r, stream, item, now)

    def begin(self, r: int, stream: int, item: _Item, now: int) -> None:
        item.start = now
        if item.collective is not None:
            self.ranks[r].communicating += 1
            self.joined(r, stream, item, now)
            return
        ns = item.ns * (1 + OVERLAP) if item.kind == "kernel" and self.ranks[r].communicating else item.ns
        end = now + int(ns) + (self.effects.jitter_ns(r, item.step, now, now + int(ns)) if item.kind == "kernel" else 0)
        self.at(end, partial(self.end, r, stream, item))

    def end(self, r: int, stream: int, item: _Item, now: int) -> None:
        rank = self.ranks[r]
        item.done = rank.free[stream] = now
        kind: Literal["collective", "copy", "kernel"] = "collective" if item.collective else "copy" if item.kind == "copy" else "kernel"
        number = item.collective.number if item.collective else -1
        self.out.gpu[r].append(GpuSpan(item.name, kind, stream, item.start, now, item.correlation, number, item.size))
        rank.communicating -= item.collective is not None
        queue = rank.queues[stream]
        queue.popleft()
        for waiter in item.waiters:
            waiter(now)
        item.waiters.clear()
        item.after.clear()
        if queue:
            following = queue[0]
            self.at(max(now, following.issued), partial(self.ready, r, stream, following))

    # communication

    def communication(self, r: int, step: int, op: Communicate) -> _Item:
        group = self.groups[op.group]
        seq = self.ranks[r].seq[op.group, op.pair]
        self.ranks[r].seq[op.group, op.pair] += 1
        key = (op.group, op.pair, seq)
        collective = self.open.get(key)
        if collective is None:
            members = op.pair or group.ranks
            collective = self.open[key] = Collective(len(self.out.collectives), op.group, seq, op.operation, op.bytes, members, step)
            self.out.collectives.append(collective)
        return _Item(op.operation, "collective", 0, 0, 0, step, size=op.bytes, collective=collective)

    def joined(self, r: int, stream: int, item: _Item, now: int) -> None:
        c = item.collective
        assert c is not None
        c.starts[r] = now
        c.waiting[r] = partial(self.end, r, stream, item)
        if len(c.starts) < len(c.members):
            return
        weights: dict[str, float] = defaultdict(float)
        latency = 0
        for a, b, nic, size in edges_of(self.cluster, c.operation, c.members, c.bytes):
            spine = self.effects.spine(self.cluster.host_of(a), nic, self.cluster.host_of(b))
            path = path_of(self.cluster, a, b, nic, spine)
            latency += LATENCY_NS["nic" if len(path) > 2 or path[0].startswith("nic") else "nvlink"] if c.operation != "all_to_all" else 0
            for link in path:
                weights[link] += size * (FRAMING if not link.startswith("nvlink") else 1.0)
        c.began = now
        self.at(now + max(latency, 10_000), partial(self.move, Transfer({k: v for k, v in weights.items() if v > 0}), c))

    def move(self, transfer: Transfer, c: Collective, now: int) -> None:
        if not transfer.weights:
            self.arrived(c, now)
            return
        self.network.advance(now)
        self.network.active.append(transfer)
        self.moving[transfer] = c
        self.shared()

    def shared(self) -> None:
        """Shares the links anew, and looks again when the next transfer ends or a link changes."""
        self.network.share()
        self.version += 1
        following = self.network.next_change()
        if following is not None:
            self.at(following, partial(self.changed, self.version))

    def changed(self, version: int, now: int) -> None:
        if version != self.version:
            return
        self.network.advance(now)
        for transfer in self.network.ended():
            self.arrived(self.moving.pop(transfer), now)
        self.shared()

    def arrived(self, c: Collective, now: int) -> None:
        c.ended = now
        late = generator(self.s.seed, "end", c.group, str(c.members if c.operation == "send_recv" else ""), c.seq)
        for r in c.members:
            c.ends[r] = now + int(late.exponential(1.0) * 4_000) + self.bias[r]
            self.at(c.ends[r], c.waiting[r])
        c.waiting.clear()


def simulated(scenario: Scenario, length_ns: int) -> Outcome:
    """What happens; `length_ns`: of the run without faults, of which faults of links last a share."""
    return _Engine(scenario, length_ns).run()
