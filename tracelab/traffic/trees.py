"""The trees of one communicator: which of a channel's links are known, and whether they make a whole tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Tree", "tree_of", "which_tree"]

Pair = tuple[int, int]


@dataclass(frozen=True)
class Tree:
    """Links child → parent, sorted; `missing` of them are not known (0: the tree is whole). `contradiction`: a child with two parents, or a circle."""

    links: tuple[Pair, ...]
    missing: int
    contradiction: bool

    @property
    def whole(self) -> bool:
        """Whether bytes can be placed on it."""
        return not self.missing and not self.contradiction


def tree_of(links: Iterable[Pair], size: int) -> Tree:
    """The tree of one channel from what its ranks say. A rank names its parent and its children, so half of them can be enough."""
    unique = sorted(set(links))
    parent = dict(unique)
    contradiction = len(parent) < len(unique) or len(parent) >= size or _circle(parent)
    return Tree(tuple(unique), max(0, size - 1 - len(parent)), contradiction)


def which_tree(channel: int, channels: int) -> int:
    """0 or 1: NCCL sends half of the bytes over either of two complementary trees, the second on the upper half of the channels."""
    return int(channels > 1 and channel >= channels // 2)


def _circle(parent: dict[int, int]) -> bool:
    done: set[int] = set()
    for start in parent:
        path: set[int] = set()
        at = start
        while at in parent and at not in done:
            if at in path:
                return True
            path.add(at)
            at = parent[at]
        done |= path
    return False
