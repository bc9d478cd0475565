"""What a schedule is: pairs of ranks and, for a call, whole numbers of bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Call", "Ints", "Links", "Part", "offsets", "plain", "split"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Call:
    """One operation: `size` in bytes as in OPERATIONS, `root` as a global rank, the channels it uses (null: all)."""

    size: int
    root: int | None = None
    channels: tuple[int, int] | None = None


@dataclass(frozen=True)
class Part:
    """Pairs that a schedule sends over, and how much.

    `src`, `dst`: global ranks; `channel`: per pair, -1 where the schedule does not depend on it; `amounts`: bytes per pair for
    a call, or per class of pairs where `classes` (the class of every pair) is given, as an all-to-all of a thousand ranks has a
    million pairs and a thousand different amounts.
    """

    src: Ints
    dst: Ints
    channel: Ints
    algorithm: str
    rung: npt.NDArray[np.str_]
    amounts: Callable[[Call], Ints]
    classes: Ints | None = None


@dataclass
class Links:
    """What schedules need to know of a communicator: `ranks` (global, -1 unknown) and `nodes` (number of the host, -1 unknown) by its own order.

    `rings`: per channel position, src, dst, rung. `trees`: per channel child, parent, rung of whole trees. `switch_trees`: pairs
    child, parent between the heads of hosts per channel. `one_domain`: all ranks reach each other through one switch.
    """

    ranks: Ints
    nodes: Ints
    one_domain: bool
    rings: dict[int, tuple[Ints, Ints, Ints, npt.NDArray[np.str_]]]
    trees: dict[int, tuple[Ints, Ints, npt.NDArray[np.str_]]]
    switch_trees: dict[int, tuple[Ints, Ints]]

    @property
    def size(self) -> int:
        """Ranks of the communicator."""
        return len(self.ranks)

    def by_node(self) -> list[Ints] | None:
        """The ranks of each host in the communicator's order; null where a rank or host is not known."""
        if (self.nodes < 0).any() or (self.ranks < 0).any():
            return None
        groups: dict[int, list[int]] = defaultdict(list)
        for rank, node in zip(self.ranks.tolist(), self.nodes.tolist(), strict=True):
            groups[node].append(rank)
        return [np.array(g) for g in groups.values()]


def split(size: int, parts: int) -> Ints:
    """`size` as `parts` whole numbers that differ by one at most, the larger ones first."""
    base, rest = divmod(size, parts)
    return base + (np.arange(parts) < rest).astype(np.int64)


def plain(src: Ints, dst: Ints, algorithm: str, rung: str, amounts: Callable[[Call], Ints], classes: Ints | None = None) -> Part:
    """A part whose pairs do not depend on channels and rest on one rung."""
    return Part(src, dst, np.full(len(src), -1, np.int64), algorithm, np.full(len(src), rung), amounts, classes)


def offsets(ranks: Ints) -> tuple[Ints, Ints, Ints]:
    """All ordered pairs of different ranks, and how far the second stands behind the first."""
    n = len(ranks)
    offset, place = (a.ravel() for a in np.meshgrid(np.arange(1, n), np.arange(n), indexing="ij"))
    return ranks[place], ranks[(place + offset) % n], offset
