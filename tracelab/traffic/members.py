"""Which ranks of the job a communicator has, and in which order: what its processes print, completed by what the job knows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LARGEST", "Comm", "Known", "Row", "process_of"]

Row = Mapping[str, Any]

LARGEST = 131_072
"""Ranks of a communicator: a larger number is a damaged line."""


def process_of(row: Row) -> object:
    """What tells processes apart: the rank, else the place in the file."""
    return row["rank"] if row["rank"] >= 0 else (row["source_id"], row["part"])


@dataclass(frozen=True)
class Known:
    """What other sources say: the members of groups (sorted), by group_id, and the size of the job."""

    groups: Mapping[int, tuple[int, ...]]
    stated: Mapping[int, tuple[int, ...]]
    world_size: int | None

    def fitting(self, size: int | None, placed: Mapping[int, int], others: Iterable[int] = ()) -> list[tuple[int, ...]]:
        """Stated groups of `size` with these ranks at these places, and the other ranks somewhere."""
        others = set(others)
        return [g for g in self.stated.values() if len(g) == size and others <= set(g) and all(p < len(g) and g[p] == r for p, r in placed.items())]


@dataclass
class Comm:
    """One communicator of the job: the rows of `communicators` that describe it, and how they were found to belong together."""

    rows: list[Row]
    origin: str
    parent: Comm | None = None
    stated_ranks: tuple[int, ...] | None = None
    ranks: list[int | None] = field(default_factory=list)
    completed: bool = False

    @property
    def size(self) -> int | None:
        """Ranks in it, as most rows say."""
        found: Counter[int] = Counter(r["size"] for r in self.rows if r["size"] is not None and 0 < r["size"] <= LARGEST)
        if found:
            return max(found, key=lambda s: (found[s], -s))
        return len(self.stated_ranks) if self.stated_ranks else None

    @property
    def placed(self) -> dict[int, int]:
        """Global rank by place, where a process states both; places that two ranks claim are left out."""
        claims: dict[int, set[int]] = defaultdict(set)
        for row in self.rows:
            if row["rank"] >= 0 and row["comm_rank"] is not None and row["comm_rank"] >= 0:
                claims[row["comm_rank"]].add(row["rank"])
        once = Counter(r for ranks in claims.values() for r in ranks)
        return {place: rank for place, ranks in sorted(claims.items()) if len(ranks) == 1 for rank in ranks if once[rank] == 1}

    @property
    def contradicted(self) -> bool:
        """Two processes claim one place."""
        by_place: dict[int, set[object]] = defaultdict(set)
        for row in self.rows:
            if row["comm_rank"] is not None:
                by_place[row["comm_rank"]].add(process_of(row))
        return any(len(p) > 1 for p in by_place.values())

    @property
    def seen(self) -> set[int]:
        """Global ranks whose process logged it."""
        return {r["rank"] for r in self.rows if r["rank"] >= 0}

    @property
    def processes(self) -> set[object]:
        """Processes that logged it."""
        return {process_of(r) for r in self.rows}

    def first(self, column: str) -> Any:
        """The first value that a row states."""
        return next((r[column] for r in self.rows if r[column] is not None), None)

    def settle(self, known: Known) -> None:
        """Fills `ranks`: as the processes say, as a recorder lists them, or completed from the job or from a stated group."""
        size = self.size or 0
        if self.stated_ranks is not None and len(self.stated_ranks) == size:
            self.ranks = list(self.stated_ranks)
            return
        _order_by_key(self.rows, size)
        placed = {p: r for p, r in self.placed.items() if p < size}
        self.ranks = [placed.get(p) for p in range(size)]
        if None not in self.ranks:
            return
        loose = self.seen - set(placed.values())
        identity = size == known.world_size and all(p == r for p, r in placed.items()) and all(r < size for r in loose)
        fits = [tuple(range(size))] if identity else known.fitting(size, placed, loose) if placed or loose else []
        if len(fits) == 1:
            self.ranks, self.completed = list(fits[0]), True
            if identity and self.origin == "init-lines":
                self.origin = "assumed"


def _order_by_key(rows: Sequence[Row], size: int) -> None:
    """Places from the keys of a split, where no line states them and all its processes are seen: ordered by key, then by rank."""
    if any(r["comm_rank"] is not None for r in rows) or len({process_of(r) for r in rows}) != size:
        return
    if any(r["split_key"] is None or r["rank"] < 0 for r in rows):
        return
    order = sorted({(r["split_key"], r["parent_rank"] if r["parent_rank"] is not None else r["rank"], r["rank"]) for r in rows})
    places = {rank: place for place, (_, _, rank) in enumerate(order)}
    for row in rows:
        row["comm_rank"] = places[row["rank"]]  # type: ignore[index]
