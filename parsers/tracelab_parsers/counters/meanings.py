"""What a counter's printed name means: the canonical counter, its direction, unit, width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracelab.tables import CANONICAL, CounterKind

__all__ = ["Meaning", "meaning_of_unknown"]

Direction = Literal["tx", "rx"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """One printed name. `scale`: canonical units per printed unit. `kind` and `unit` are the canonical ones unless the source differs.

    `width`: bits of the printed number where it starts again (or `saturates`), 0 where unknown.
    """

    counter: str
    direction: Direction | None = None
    scale: float = 1.0
    width: int = 64
    saturates: bool = False
    priority: int | None = None
    queue: str | None = None
    kind: CounterKind | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        if self.counter not in CANONICAL and not self.counter.startswith("vendor."):
            raise ValueError(f"{self.counter!r} is no canonical counter")

    @property
    def stated_kind(self) -> CounterKind:
        """Kind of the numbers."""
        return self.kind or (CANONICAL[self.counter].kind if self.counter in CANONICAL else "counter")

    @property
    def stated_unit(self) -> str | None:
        """Unit of the numbers after scaling."""
        return self.unit or (CANONICAL[self.counter].unit if self.counter in CANONICAL else None)


def meaning_of_unknown(raw_name: str, direction: Direction | None = None, kind: CounterKind = "counter") -> Meaning:
    """The meaning of a name that no table knows: it keeps its own name."""
    return Meaning(f"vendor.{raw_name}", direction, width=0, kind=kind)
