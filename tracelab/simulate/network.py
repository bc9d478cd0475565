"""Links with a speed that changes, and transfers that share them.

A transfer moves along all its links at once (a ring is as slow as its slowest edge). Links are shared by progressive filling: the
tightest link gives each of its transfers an equal share, and what these leave elsewhere is shared by the others (Bertsekas and
Gallager, Data Networks, §6.5.2: max-min fairness).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tracelab.simulate.model import Cluster, LinkLoad

__all__ = ["Network", "Transfer", "edges_of", "path_of", "rings_of"]

FRAMING = 1.015
"""Bytes on the wire per byte of payload."""
FLOOR = 1.0
"""Bytes per second of a link that is down: a transfer over it goes on when it is back."""


def path_of(cluster: Cluster, a: int, b: int, nic: int, spine: int) -> tuple[str, ...]:
    """Links from rank `a` to rank `b`, over the adapters `nic` of their hosts, and `spine` between leaves."""
    host_a, host_b = cluster.host_of(a), cluster.host_of(b)
    if host_a == host_b:
        return (f"nvlink:{a}:tx", f"nvlink:{b}:rx")
    leaf_a, leaf_b = cluster.leaf_of(host_a), cluster.leaf_of(host_b)
    between = () if leaf_a == leaf_b else (f"uplink:{leaf_a}:{spine}:tx", f"uplink:{leaf_b}:{spine}:rx")
    return (f"nic:{host_a}:{nic}:tx", *between, f"nic:{host_b}:{nic}:rx")


def edges_of(cluster: Cluster, operation: str, ranks: Sequence[int], size: int) -> list[tuple[int, int, int, float]]:
    """(from, to, adapter, payload bytes) of an operation on `size` bytes: one ring per adapter, pairs for all-to-all and sends.

    A ring moves 2(n-1)/n (all-reduce) or (n-1)/n (all-gather, reduce-scatter) of the bytes over each edge (NCCL: performance.md).
    """
    n = len(ranks)
    if operation == "send_recv":
        return [(ranks[0], ranks[1], cluster.nic_of(ranks[0]), float(size))]
    if operation == "all_to_all":
        return [(a, b, cluster.nic_of(a), size / n) for a in ranks for b in ranks if a != b]
    factor = (2 if operation == "all_reduce" else 1) * (n - 1) / n
    if operation == "broadcast":
        factor = 1.0
    rings = rings_of(cluster, ranks)
    return [(a, b, nic, size * factor / len(rings)) for nic, ring in rings for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)]


def rings_of(cluster: Cluster, ranks: Sequence[int]) -> list[tuple[int, list[int]]]:
    """The rings of a group, one per adapter that is near one of its GPUs, each with that adapter; one within a host."""
    several_hosts = len({cluster.host_of(r) for r in ranks}) > 1
    nics = sorted({cluster.nic_of(r) for r in ranks}) if several_hosts else [cluster.nic_of(ranks[0])]
    return [(nic, _ring(cluster, ranks, nic)) for nic in nics]


def _ring(cluster: Cluster, ranks: Sequence[int], nic: int) -> list[int]:
    """Ranks host by host; on each the ring enters at a GPU near the adapter."""
    return sorted(ranks, key=lambda rank: (cluster.host_of(rank), cluster.nic_of(rank) != nic, rank))


@dataclass(eq=False)
class Transfer:
    """Bytes under way: `weights` is what each link must carry in all; `left` of it, from 1 to 0; `rate` per second."""

    weights: Mapping[str, float]
    left: float = 1.0
    rate: float = 0.0


@dataclass
class Network:
    """The links of a cluster. `speed` in bytes/s by kind of link; `changes`: per link, moments (ns) from which a factor of its speed holds."""

    cluster: Cluster
    changes: Mapping[str, tuple[list[int], list[float]]] = field(default_factory=dict)
    active: list[Transfer] = field(default_factory=list)
    loads: list[LinkLoad] = field(default_factory=list)
    now: int = 0

    def speed(self, link: str, now: int) -> float:
        """Bytes per second that a link can carry."""
        c = self.cluster
        full = {"nvlink": c.nvlink_gbytes_s * 1e9, "nic": c.nic_gbps * 1e9 / 8, "uplink": c.uplink_gbps * 1e9 / 8}[link.partition(":")[0]]
        moments, factors = self.changes.get(link, ((), ()))
        n = bisect_right(moments, now)
        return max(full * (factors[n - 1] if n else 1.0), FLOOR)

    def advance(self, now: int) -> None:
        """Moves all transfers on to `now`, and notes what the links carried."""
        if now > self.now and self.active:
            used: dict[str, float] = defaultdict(float)
            for t in self.active:
                t.left = max(t.left - t.rate * (now - self.now) / 1e9, 0.0)
                for link, weight in t.weights.items():
                    used[link] += weight * t.rate
            self.loads += [LinkLoad(link, self.now, now, rate) for link, rate in used.items() if not link.startswith("nvlink")]
        self.now = now

    def share(self) -> None:
        """Gives every transfer its rate."""
        free = {link: self.speed(link, self.now) for t in self.active for link in t.weights}
        users: dict[str, set[int]] = defaultdict(set)
        for n, t in enumerate(self.active):
            for link in t.weights:
                users[link].add(n)
        waiting = set(range(len(self.active)))
        while waiting:
            tightest = min((link for link, u in users.items() if u), key=lambda link: (free[link] / len(users[link]), link))
            for n in sorted(users[tightest]):
                t = self.active[n]
                t.rate = min(free[link] / len(users[link]) / weight for link, weight in t.weights.items())
                waiting.discard(n)
            for n in sorted(users[tightest]):
                for link, weight in self.active[n].weights.items():
                    free[link] = max(free[link] - weight * self.active[n].rate, FLOOR)
                    if link != tightest:
                        users[link].discard(n)
            users[tightest] = set()

    def next_change(self) -> int | None:
        """The next moment at which a transfer ends or a link in use changes; None without transfers."""
        moments = [self.now + max(int(t.left / t.rate * 1e9), 1) for t in self.active]
        for t in self.active:
            for link in t.weights:
                starts = self.changes.get(link, ((), ()))[0]
                n = bisect_right(starts, self.now)
                if n < len(starts):
                    moments.append(starts[n])
        return min(moments, default=None)

    def ended(self) -> list[Transfer]:
        """Transfers with nothing left (less than what their rate moves in a nanosecond), taken out."""
        done = [t for t in self.active if t.left <= t.rate * 1e-9]
        self.active = [t for t in self.active if t.left > t.rate * 1e-9]
        return done
