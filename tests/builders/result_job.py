"""The times of a made-up job: one slow GPU, a loader that stalls now and then, a slow link of the last host."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["MS", "ORIGIN_NS", "PARTS", "Cell", "ResultJob"]

ORIGIN_NS = 1_772_000_000_000_000_000
MS = 1_000_000
PARTS = ("compute", "memcpy", "exposed_transfer", "exposed_wait", "idle")


@dataclass(frozen=True)
class Cell:
    """What one rank did in one step, in ns: the five from `compute` on add up to the step; the loader overlaps them."""

    rank: int
    step: int
    compute: int
    memcpy: int
    exposed_transfer: int
    exposed_wait: int
    idle: int
    dataloader: int

    @property
    def busy(self) -> int:
        return self.wall - self.exposed_wait

    @property
    def wall(self) -> int:
        return self.compute + self.memcpy + self.exposed_transfer + self.exposed_wait + self.idle


@dataclass(frozen=True)
class ResultJob:
    """Ranks in lock step: whoever is done early waits, so that all steps end together."""

    ranks: int
    steps: int
    slow_rank: int
    stalled: tuple[int, ...]
    name: str = "llama-8b-pretrain"
    file_suffix: str = ""
    host_prefix: str = "node"
    group_suffix: str = ""
    seed: int = 7
    per_host: int = 8
    cells: list[Cell] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        for step in range(self.steps):
            drafts = [self._draft(rng, rank, step) for rank in range(self.ranks)]
            longest = max(sum(d[:4]) for d in drafts)
            self.cells.extend(Cell(rank, step, d[0], d[1], d[2], longest - sum(d[:4]), d[3], d[4]) for rank, d in enumerate(drafts))

    def _draft(self, rng: random.Random, rank: int, step: int) -> tuple[int, int, int, int, int]:
        compute = int(620 * MS * (1.11 if rank == self.slow_rank else 1) * rng.gauss(1, 0.004))
        stall = 240 * MS if step in self.stalled and rank == 0 else 0
        transfer = int(64 * MS * (1.12 if self.host(rank) == self.host(self.ranks - 1) else 1))
        return compute, int(9 * MS * rng.uniform(0.9, 1.1)), transfer, int(21 * MS * rng.uniform(0.8, 1.2)) + stall, 4 * MS + stall

    def host(self, rank: int) -> str:
        return f"{self.host_prefix}-{rank // self.per_host}"

    def source(self, rank: int) -> str:
        return f"traces/rank{rank}{self.file_suffix}.json.gz"

    @cached_property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(self.host(r) for r in range(self.ranks)))

    @cached_property
    def by_rank(self) -> dict[int, list[Cell]]:
        out: dict[int, list[Cell]] = {r: [] for r in range(self.ranks)}
        for c in self.cells:
            out[c.rank].append(c)
        return out

    @cached_property
    def lengths(self) -> list[int]:
        return [c.wall for c in self.by_rank[0]]

    @cached_property
    def starts(self) -> list[int]:
        return [ORIGIN_NS + sum(self.lengths[:i]) for i in range(self.steps)]

    def in_step(self, step: int) -> list[Cell]:
        return self.cells[step * self.ranks : (step + 1) * self.ranks]

    def total(self, rank: int, part: str) -> int:
        return sum(getattr(c, part) for c in self.by_rank[rank])

    @property
    def straggler_ns(self) -> int:
        """What the slow rank costs: per step, its lead over the slowest other rank."""
        lost = 0
        for step in range(self.steps):
            busy = {c.rank: c.busy for c in self.in_step(step)}
            lost += max(0, busy[self.slow_rank] - max(b for r, b in busy.items() if r != self.slow_rank))
        return lost
