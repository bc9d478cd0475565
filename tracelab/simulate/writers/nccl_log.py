"""Debug logs of NCCL, one per rank, of version 2.21: communicators, rings, connections, and the operations that were called."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tracelab.simulate.model import Collective, Group, Outcome
from tracelab.simulate.network import rings_of
from tracelab.simulate.writers.kineto import pid_of

__all__ = ["log_of"]

_CALLS = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "broadcast": "Broadcast"}


def log_of(outcome: Outcome, rank: int) -> str:
    """The log of a rank's process."""
    cluster = outcome.scenario.cluster
    host, pid, device = cluster.host_name(cluster.host_of(rank)), pid_of(rank), rank % cluster.gpus
    devices = " ".join(f"[{n}]mlx5_{n}:1/RoCE" for n in range(cluster.nics))
    lines = [f"Bootstrap : Using eth0:10.0.0.{cluster.host_of(rank) + 1}<0>", "NCCL version 2.21.5+cuda12.4"]
    lines.append(f"NET/IB : Using {devices} [RO]; OOB eth0:10.0.0.{cluster.host_of(rank) + 1}<0>")
    for group in outcome.groups:
        if rank in group.ranks and len(group.ranks) > 1:
            lines += _communicator(outcome, group, rank, device)
    lines += [_call(outcome, c, rank) for c in _called(outcome, rank)]
    return "".join(f"{host}:{pid}:{pid} [{device}] NCCL INFO {line}\n" for line in lines)


def _pointer(group: Group, rank: int) -> str:
    return "0x" + hashlib.blake2b(f"{group.number}/{rank}".encode(), digest_size=6).hexdigest()


def _communicator(outcome: Outcome, group: Group, rank: int, device: int) -> Iterator[str]:
    cluster, ranks, pointer = outcome.scenario.cluster, group.ranks, _pointer(group, rank)
    me, size = ranks.index(rank), len(ranks)
    key = "0x" + hashlib.blake2b(f"comm {group.number}".encode(), digest_size=8).hexdigest()
    about = f"comm {pointer} rank {me} nranks {size} cudaDev {device} nvmlDev {device} busId {0x7000 + 0x1000 * device:x} commId {key}"
    yield f"ncclCommInitRank {about} - Init START"
    local = [r for r in ranks if cluster.host_of(r) == cluster.host_of(rank)]
    nodes = len({cluster.host_of(r) for r in ranks})
    yield f"comm {pointer} rank {me} nRanks {size} nNodes {nodes} localRanks {len(local)} localRank {local.index(rank)} MNNVL 0"
    rings = rings_of(cluster, ranks)
    for channel, (nic, ring) in enumerate(rings):
        if me == 0:
            yield f"Channel {channel:02d}/{len(rings):02d} : {' '.join(str(ranks.index(r)) for r in [*ring[ring.index(rank) :], *ring[: ring.index(rank)]])}"
        at = ring.index(rank)
        before, after = ring[at - 1], ring[(at + 1) % size]
        if cluster.host_of(before) != cluster.host_of(rank):
            yield f"Channel {channel:02d}/0 : {ranks.index(before)}[{before % cluster.gpus}] -> {me}[{device}] [receive] via NET/IB/{nic}/GDRDMA"
        way = "via P2P/CUMEM/read" if cluster.host_of(after) == cluster.host_of(rank) else f"[send] via NET/IB/{nic}/GDRDMA"
        yield f"Channel {channel:02d}/0 : {me}[{device}] -> {ranks.index(after)}[{after % cluster.gpus}] {way}"
    yield "Connected all rings"
    yield f"ncclCommInitRank {about} - Init COMPLETE"


def _called(outcome: Outcome, rank: int) -> list[Collective]:
    """Operations in the order in which the host called them."""
    return [outcome.collectives[s.collective] for s in outcome.host[rank] if s.kind == "collective" and s.collective >= 0]


def _call(outcome: Outcome, c: Collective, rank: int) -> str:
    group = outcome.groups[c.group]
    count = c.bytes // 4
    name = _CALLS.get(c.operation, "Send" if c.members[0] == rank else "Recv")
    if name in ("AllGather", "ReduceScatter"):
        count //= len(c.members)
    end = f"comm {_pointer(group, rank)} [nranks={len(group.ranks)}] stream 0x55b000000180"
    return f"{name}: opCount {c.seq:x} sendbuff 0x7f0000000000 recvbuff 0x7f0040000000 count {count} datatype 7 op 0 root 0 {end}"
