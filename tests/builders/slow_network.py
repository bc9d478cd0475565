"""A job over a network, simulated twice where need be: with slow transfers and without, all else equal.

Every rank runs one program on three streams: parameters are gathered one layer ahead, kernels compute, gradients are
scattered behind the compute that made them, and the host waits for its GPU at the end of each step.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["COMPUTE", "GATHER", "MS", "SCATTER", "US", "Sim"]

US, MS = 1_000, 1_000_000
COMPUTE, GATHER, SCATTER = 7, 20, 24


@dataclass
class Sim:
    """Ranks that run one program: hosts launch, streams run in order, collectives start when their last rank is there.

    `scale` multiplies every transfer (a function of the moment, where its speed changes); all else is drawn from the seed, so
    that two runs differ by the transfers alone.
    """

    ranks: int
    seed: int
    scale: float | Callable[[int], float]
    rows: dict[int, list[tuple[int, int, int, int, int, int]]] = field(default_factory=dict)
    waits: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)

    def run(self, steps: int, layers: int) -> Sim:
        rng = random.Random(self.seed)
        host = [1_000_000_000 + rng.randrange(50 * US) for _ in range(self.ranks)]
        free: list[dict[int, int]] = [{COMPUTE: 0, GATHER: 0, SCATTER: 0} for _ in range(self.ranks)]
        match = 0
        self.rows = {r: [] for r in range(self.ranks)}
        self.waits = {r: [] for r in range(self.ranks)}
        for _ in range(steps):
            gathered = self._collective(host, free, GATHER, match, rng.randrange(2 * MS, 4 * MS), after_compute=False)
            match += 1
            for layer in range(layers):
                following = gathered
                if layer + 1 < layers:  # the next layer's parameters are fetched beside this one's work
                    following = self._collective(host, free, GATHER, match, rng.randrange(2 * MS, 4 * MS), after_compute=False)
                    match += 1
                for r in range(self.ranks):
                    free[r][COMPUTE] = max(free[r][COMPUTE], gathered[r] + 3 * US)
                for _ in range(3):
                    base = rng.randrange(MS // 2, 2 * MS)
                    for r in range(self.ranks):
                        self._compute(host, free, r, base + rng.randrange(20 * US))
                gathered = following
                self._collective(host, free, SCATTER, match, rng.randrange(MS, 3 * MS), after_compute=True)
                match += 1
            for r in range(self.ranks):
                free[r][COMPUTE] = max(free[r][COMPUTE], free[r][SCATTER] + 3 * US)
                self._compute(host, free, r, MS + rng.randrange(20 * US))
                began = host[r]
                host[r] = max(host[r], free[r][COMPUTE]) + 8 * US
                self.waits[r].append((began, host[r]))
                host[r] += 400 * US + rng.randrange(50 * US)
            self.steps.append(max(free[r][COMPUTE] for r in range(self.ranks)))
        return self

    def _issue(self, host: list[int], r: int) -> int:
        launch = host[r]
        host[r] += 12 * US
        return launch

    def _compute(self, host: list[int], free: list[dict[int, int]], r: int, length: int) -> None:
        launch = self._issue(host, r)
        start = max(launch + 6 * US, free[r][COMPUTE])
        free[r][COMPUTE] = start + length
        self.rows[r].append((start, start + length, COMPUTE, launch, -1, 0))

    def _collective(self, host: list[int], free: list[dict[int, int]], stream: int, match: int, length: int, *, after_compute: bool) -> list[int]:
        launches = [self._issue(host, r) for r in range(self.ranks)]
        starts = [max(launches[r] + 6 * US, free[r][stream], free[r][COMPUTE] if after_compute else 0) for r in range(self.ranks)]
        last = max(starts)
        end = last + round(length * (self.scale(last) if callable(self.scale) else self.scale))
        for r, start in enumerate(starts):
            free[r][stream] = end
            self.rows[r].append((start, end, stream, launches[r], match, stream))
        return [end] * self.ranks

    def transfers(self, factor: float) -> dict[int, int]:
        """New length of every transfer."""
        last: dict[int, int] = {}
        ends: dict[int, int] = {}
        for rows in self.rows.values():
            for start, end, _, _, match, _ in rows:
                if match >= 0:
                    last[match], ends[match] = max(last.get(match, 0), start), end
        return {m: round((ends[m] - last[m]) * factor) for m in last}
