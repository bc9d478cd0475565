"""What each rank's host does in a step, by layout: a list of operations that the engine runs in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from tracelab.simulate.model import Cluster, Group, Job

__all__ = ["COMPUTE", "Communicate", "Copy", "Kernel", "Load", "Op", "Sync", "Wait", "groups_of", "program", "stage_of"]

COMPUTE, GATHER, SCATTER, REDUCE = 7, 16, 20, 24
FROM_BEFORE, TO_AFTER, FROM_AFTER, TO_BEFORE = 32, 36, 40, 44
"""Streams of a pipeline's sends and receives, one per peer and direction: each is in one order on both sides."""
_MB = 1_000_000


@dataclass(frozen=True)
class Kernel:
    """Compute of `ms` on the compute stream; its name says the direction and its place in the layer."""

    name: str
    ms: float


@dataclass(frozen=True)
class Copy:
    """A copy of `bytes` from the host to the GPU, before compute."""

    bytes: int


@dataclass(frozen=True)
class Communicate:
    """An operation of a group on a stream; between the ranks `pair` (from, to) of it where given."""

    group: int
    operation: str
    bytes: int
    stream: int
    pair: tuple[int, int] | None = None


@dataclass(frozen=True)
class Wait:
    """Work issued to `stream` from now on starts after all that was issued to `on` so far."""

    stream: int
    on: int


@dataclass(frozen=True)
class Load:
    """The loader's wait for a batch."""


@dataclass(frozen=True)
class Sync:
    """The host waits for its GPU."""


Op = Kernel | Copy | Communicate | Wait | Load | Sync


def groups_of(cluster: Cluster, job: Job) -> list[Group]:
    """The process groups of a layout; number 0 holds all ranks."""
    world = tuple(range(cluster.world))
    number = count(1)
    out = [Group(0, "world", world)]
    if job.layout == "tp_dp":
        out += [Group(next(number), "tp", world[n : n + job.tp]) for n in range(0, len(world), job.tp)]
        out += [Group(next(number), "dp", world[n :: job.tp]) for n in range(job.tp)]
    elif job.layout == "pp_dp":
        replicas = len(world) // job.pp
        out += [Group(next(number), "dp", world[s * replicas : (s + 1) * replicas]) for s in range(job.pp)]
        out += [Group(next(number), "pp", world[n::replicas]) for n in range(replicas)]
    return out


def stage_of(cluster: Cluster, job: Job, rank: int) -> int:
    """Pipeline stage of a rank; 0 in other layouts."""
    return rank // (cluster.world // job.pp) if job.layout == "pp_dp" else 0


def program(job: Job, groups: list[Group], rank: int) -> list[Op]:
    """One step of a rank."""
    mine = {str(g.kind): g for g in groups if rank in g.ranks}
    match job.layout:
        case "fsdp":
            body = _fsdp(job, mine["world"])
        case "tp_dp":
            body = _tensor(job, mine["tp"], mine["dp"])
        case "pp_dp":
            body = _pipeline(job, mine["pp"], mine["dp"], mine["world"], rank)
        case "moe":
            body = _experts(job, mine["world"])
        case _:
            body = _data(job, mine["world"])
    return [Load(), Copy(8 * _MB), *body, Kernel("optimizer", 0.4 * job.compute_ms), Sync()]


def _compute(job: Job, way: str, share: float = 1.0) -> Iterator[Op]:
    ms = job.compute_ms * (1 if way == "forward" else 2) * share / job.kernels
    for n in range(job.kernels):
        yield Kernel(f"{way}{n % 4}", ms)


def _reduce(group: Group, size: int) -> Iterator[Op]:
    yield Wait(REDUCE, COMPUTE)
    yield Communicate(group.number, "all_reduce", size, REDUCE)


def _data(job: Job, world: Group) -> Iterator[Op]:
    size = round(job.layer_mbytes * _MB)
    for _ in range(job.layers):
        yield from _compute(job, "forward")
    for _ in range(job.layers):
        yield from _compute(job, "backward")
        if job.layout == "ddp":
            yield from _reduce(world, size)
    if job.layout != "ddp":
        yield from _reduce(world, size * job.layers)
    yield Wait(COMPUTE, REDUCE)


def _fsdp(job: Job, world: Group) -> Iterator[Op]:
    """Parameters are gathered one layer ahead of compute, gradients scattered behind it."""
    size = round(job.layer_mbytes * _MB)
    for way in ("forward", "backward"):
        yield Wait(GATHER, COMPUTE)
        yield Communicate(world.number, "all_gather", size, GATHER)
        for layer in range(job.layers):
            yield Wait(COMPUTE, GATHER)
            if layer + 1 < job.layers:
                yield Wait(GATHER, COMPUTE)
                yield Communicate(world.number, "all_gather", size, GATHER)
            yield from _compute(job, way)
            if way == "backward":
                yield Wait(SCATTER, COMPUTE)
                yield Communicate(world.number, "reduce_scatter", size, SCATTER)
    yield Wait(COMPUTE, SCATTER)


def _tensor(job: Job, shards: Group, replicas: Group) -> Iterator[Op]:
    """Two all-reduces per layer and direction among the GPUs that share a layer; gradients among those that share a shard."""
    activations = 16 * _MB
    for way in ("forward", "backward"):
        for _ in range(job.layers):
            for _ in range(2):
                yield from _compute(job, way, 0.5)
                yield Wait(GATHER, COMPUTE)
                yield Communicate(shards.number, "all_reduce", activations, GATHER)
                yield Wait(COMPUTE, GATHER)
            if way == "backward":
                yield from _reduce(replicas, round(job.layer_mbytes * _MB / job.tp))
    yield Wait(COMPUTE, REDUCE)


def _experts(job: Job, world: Group) -> Iterator[Op]:
    """Tokens go to their experts and back in each layer and direction."""
    tokens = round(0.5 * job.layer_mbytes * _MB)
    for way in ("forward", "backward"):
        for _ in range(job.layers):
            for _ in range(2):
                yield from _compute(job, way, 0.5)
                yield Wait(GATHER, COMPUTE)
                yield Communicate(world.number, "all_to_all", tokens, GATHER)
                yield Wait(COMPUTE, GATHER)
            if way == "backward":
                yield from _reduce(world, round(0.3 * job.layer_mbytes * _MB))
    yield Wait(COMPUTE, REDUCE)


def _pipeline(job: Job, pipe: Group, replicas: Group, world: Group, rank: int) -> Iterator[Op]:
    """One forward, one backward (1F1B; Narayanan et al. 2021, PipeDream-Flush), then gradients within the stage."""
    stage = pipe.ranks.index(rank)
    before = pipe.ranks[stage - 1] if stage else None
    after = pipe.ranks[stage + 1] if stage + 1 < job.pp else None
    size = 8 * _MB

    def one(way: str, source: int | None, take: int, sink: int | None, give: int) -> Iterator[Op]:
        if source is not None:
            yield Communicate(pipe.number, "send_recv", size, take, (source, rank))
            yield Wait(COMPUTE, take)
        for _ in range(max(job.layers // job.pp, 1)):
            yield from _compute(job, way, 1 / job.micro)
        if sink is not None:
            yield Wait(give, COMPUTE)
            yield Communicate(pipe.number, "send_recv", size, give, (rank, sink))

    forward = ("forward", before, FROM_BEFORE, after, TO_AFTER)
    backward = ("backward", after, FROM_AFTER, before, TO_BEFORE)
    ahead = min(job.pp - stage - 1, job.micro)
    for _ in range(ahead):
        yield from one(*forward)
    for _ in range(job.micro - ahead):
        yield from one(*forward)
        yield from one(*backward)
    for _ in range(ahead):
        yield from one(*backward)
    if len(replicas.ranks) > 1:
        yield from _reduce(replicas, round(job.layer_mbytes * _MB))
        yield Wait(COMPUTE, REDUCE)
    yield Wait(REDUCE, COMPUTE)
    yield Communicate(world.number, "all_reduce", 4, REDUCE)
    yield Wait(COMPUTE, REDUCE)
