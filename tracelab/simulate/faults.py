"""What faults change: the length of compute, of host work and of launches, and the speed of links."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from tracelab.simulate.model import Fault, Job, Scenario
from tracelab.simulate.noise import generator
from tracelab.simulate.programs import stage_of

__all__ = ["IN_FLIGHT", "OF_LINKS", "Effects", "job_with", "links_of"]

OF_LINKS = ("slow_link", "packet_loss", "link_flap", "congestion")
"""Kinds of faults that are on the cable of an adapter."""
IN_FLIGHT = 800
"""Packets that a sender repeats for one that was lost: bandwidth is left by 1 / (1 + p·N) (go-back-N)."""
_CONGESTION_NS = 50_000_000


def job_with(scenario: Scenario) -> Job:
    """The job as it runs with its faults."""
    kinds = {f.kind for f in scenario.faults}
    return replace(scenario.job, layout="ddp_single_bucket") if "no_overlap" in kinds and scenario.job.layout == "ddp" else scenario.job


class Effects:
    """Faults of a scenario as functions of rank, step and moment. `length_ns`: of the run without faults."""

    def __init__(self, scenario: Scenario, length_ns: int) -> None:
        self._s = scenario
        self._length = length_ns

    def _now(self, rank: int, step: int, *kinds: str) -> list[Fault]:
        s, at = self._s, (step + 0.5) / self._s.job.steps
        host = s.cluster.host_of(rank)
        return [f for f in s.faults if f.kind in kinds and f.onset <= at < f.end and f.on(rank, host)]

    def compute(self, rank: int, step: int) -> float:
        """Factor of compute time."""
        out = 1.0
        for f in self._now(rank, step, "slow_gpu", "thermal_throttle", "load_imbalance", "pipeline_imbalance"):
            if f.kind == "slow_gpu":
                out *= f.size
            elif f.kind == "thermal_throttle":  # clocks fall over the first third of the time
                into = ((step + 0.5) / self._s.job.steps - f.onset) / max((f.end - f.onset) / 3, 1e-9)
                out *= 1 + (f.size - 1) * min(into, 1.0)
            elif f.kind == "load_imbalance":
                out *= float(np.exp(generator(self._s.seed, "load", rank, step).normal(0, f.size)))
            elif stage_of(self._s.cluster, self._s.job, rank) == self._s.job.pp - 1:
                out *= f.size
        return out

    def launch(self, rank: int, step: int) -> float:
        """Factor of the cost of a launch."""
        return float(np.prod([f.size for f in self._now(rank, step, "launch_bound", "numa_misbind")] or [1.0]))

    def copy(self, rank: int, step: int) -> float:
        """Factor of the time of copies from the host."""
        return 2.0 if self._now(rank, step, "numa_misbind") else 1.0

    def stall_ns(self, rank: int, step: int, kind: str) -> int:
        """What the loader (input_stall) or the host (host_stall) takes longer in this step."""
        return sum(round(f.size * 1e9) for f in self._now(rank, step, kind) if step % f.every == 0)

    def jitter_ns(self, rank: int, step: int, start: int, end: int) -> int:
        """What periodic interruptions add to compute from `start` to `end`."""
        out = 0
        for f in self._now(rank, step, "periodic_jitter"):
            period = f.period_s * 1e9
            out += (int(end // period) - int(start // period)) * round(f.size * 1e6)
        return out

    def stops(self, rank: int, step: int) -> bool:
        """Whether the rank stops in this step."""
        return any(f.kind == "hang" and rank in f.ranks and step >= f.onset * self._s.job.steps for f in self._s.faults)

    def spine(self, host: int, nic: int, other: int) -> int:
        """The uplink that a flow takes: spread evenly, unless it collides."""
        for f in self._s.faults:
            if f.kind == "ecmp_collision" and host in f.hosts:
                return 0
        return (host * self._s.cluster.nics + nic + other) % self._s.cluster.uplinks

    def changes(self) -> dict[str, tuple[list[int], list[float]]]:
        """Per link, moments (ns) from which a factor of its speed holds."""
        parts: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
        for n, f in enumerate(self._s.faults):
            start, end = round(f.onset * self._length), round(f.end * self._length)
            end = end if f.end < 1 else 1 << 62
            for link in links_of(f):
                if f.kind == "slow_link":
                    parts[link].append((start, end, f.size))
                elif f.kind == "packet_loss":
                    parts[link].append((start, end, 1 / (1 + f.size * IN_FLIGHT)))
                elif f.kind == "link_flap":
                    parts[link].append((start, start + round(f.size * 1e9), 0.0))
                elif f.kind == "congestion":
                    draws = generator(self._s.seed, "congestion", n).uniform(max(2 * f.size - 1, 0.05), min(2 * f.size, 1.0), 4096)
                    last = min(end, start + 4096 * _CONGESTION_NS)
                    parts[link] += [(t, t + _CONGESTION_NS, float(draws[k])) for k, t in enumerate(range(start, last, _CONGESTION_NS))]
        return {link: _steps(spans) for link, spans in parts.items()}


def links_of(f: Fault) -> list[str]:
    """Links that a fault is on: both ways of the cable of an adapter."""
    if f.kind not in OF_LINKS:
        return []
    return [f"nic:{host}:{f.nic}:{way}" for host in f.hosts for way in ("tx", "rx")]


def _steps(spans: list[tuple[int, int, float]]) -> tuple[list[int], list[float]]:
    """Spans with factors as moments and the factor from each on; factors of spans that overlap are multiplied."""
    moments = sorted({0, *(t for start, end, _ in spans for t in (start, end))})
    return moments, [float(np.prod([x for start, end, x in spans if start <= t < end] or [1.0])) for t in moments]
