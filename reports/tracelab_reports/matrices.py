"""Figures of who sends how much to whom, free of any plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tracelab.units import format_bytes
from tracelab_reports.figures import Figure, Legend
from tracelab_reports.words import shorten

__all__ = ["BOTH", "DIRECTED", "Cell", "Matrix", "Tick", "amount_text", "axis_names", "ends_of"]

DIRECTED, BOTH = "directed", "both"
"""Layers of a picture that a page switches between."""

Tick = tuple[float, str]
"""A place, or the middle between places, and its name."""

_MOST_OWN = 64
"""Places up to which each has its name on the axes; beyond, hosts have."""
_MOST_BORDERS = 64
"""Borders between blocks: more would hide the cells."""
_LONGEST = 16
_FRAME, _LEAST_FRAME, _CELL = 600, 160, 48
_CHAR, _PAD, _LINE, _TOOLS = 7, 14, 20, 32


@dataclass(frozen=True)
class Cell:
    """A cell of a matrix: places of sender and receiver, bytes, share of all bytes, and what the pointer shows beside them.

    `stated` is the share of its bytes whose way a file states; `facts` follow the labels in `Matrix.facts`.
    """

    src: int
    dst: int
    value: float
    share: float
    stated: float
    facts: Sequence[str]


@dataclass(frozen=True)
class Matrix(Figure):
    """Who sends how much to whom: senders from top to bottom, receivers from left to right, in one order; values are bytes.

    A place is a `place_word` with one of `numbers`; `names` are those of the places in full, `ticks` those on the axes,
    `inner` those on the far side of both axes (none where empty). `blocks` (first place, name) are the hosts that neighbouring
    places belong to: borders are drawn between them.
    A cell stands for `together` neighbouring places on either side. Colours are logarithmic over positive values, from the
    least to the highest, or, where `signed`, two-sided around zero. A cell that is not given stays empty: no bytes.
    `both` are the cells with both directions added, which a page can switch to.
    """

    place_word: str
    numbers: Sequence[int]
    names: Sequence[str]
    ticks: Sequence[str]
    inner: Sequence[str]
    blocks: Sequence[tuple[int, str]]
    cells: Sequence[Cell]
    both: Sequence[Cell]
    facts: Sequence[str]
    x_label: str
    y_label: str
    value_label: str
    together: int = 1
    signed: bool = False

    @property
    def side(self) -> int:
        """Cells along a side."""
        return math.ceil(len(self.names) / self.together)

    @property
    def margins(self) -> tuple[int, int]:
        """CSS pixels before and behind the cells (there are the tools), the same along both axes, so that cells are square at any width."""
        longest = max((len(name) for _, name in self.place_ticks), default=0)
        before = _LINE + (_CHAR * longest + _PAD if longest else 0)
        if hosts := self.host_ticks:
            before += _LINE if self.hosts_along else _CHAR * max(len(name) for _, name in hosts) + _PAD
        return before + 4, _TOOLS + (_LINE if self.inner_ticks else 0)

    @property
    def width(self) -> int:
        """Width and height in CSS pixels, at most."""
        return min(_FRAME, max(_LEAST_FRAME, _CELL * self.side)) + sum(self.margins)

    @property
    def height(self) -> int:
        """As high as wide."""
        return self.width

    @property
    def style(self) -> str:
        """A square that shrinks with the page."""
        return f"aspect-ratio:1;max-width:{self.width}px"

    @property
    def place_ticks(self) -> list[Tick]:
        """Names of single places, where they fit or where there are no hosts to name instead."""
        step = math.ceil(len(self.names) / _MOST_OWN)
        if step > 1 and len(self.blocks) > 1:
            return []
        return [(float(i), self.ticks[i]) for i in range(0, len(self.names), step)]

    @property
    def inner_ticks(self) -> list[Tick]:
        """Names on the far side, where they fit."""
        return [(float(i), name) for i, name in enumerate(self.inner)] if len(self.names) <= _MOST_OWN else []

    @property
    def host_ticks(self) -> list[Tick]:
        """Names of hosts, at their middle; a drawing leaves out those that would overlap."""
        if len(self.blocks) < 2:
            return []
        ends = [*(first for first, _ in self.blocks), len(self.names)]
        names = axis_names([name for _, name in self.blocks])
        return [((a + b - 1) / 2, name) for (a, b), name in zip(pairwise(ends), names, strict=True)]

    @property
    def hosts_along(self) -> bool:
        """Whether the names of hosts fit along their axis; else they stand across it."""
        room = _FRAME / max(1, len(self.blocks))
        return len(self.names) <= _MOST_OWN and all(_CHAR * len(name) <= room for _, name in self.host_ticks)

    @property
    def border_step(self) -> int:
        """Every how many blocks there is a border; 1 in general."""
        return max(1, math.ceil(len(self.blocks) / _MOST_BORDERS))

    @property
    def borders(self) -> list[float]:
        """Where a block begins, the first excepted."""
        return [first - 0.5 for first, _ in self.blocks[:: self.border_step] if first > 0]

    @property
    def hatched(self) -> bool:
        """Whether cells whose way no file states are hatched: where a cell is large enough."""
        return self.side <= _MOST_OWN and any(c.stated < 1 for c in self.cells)

    def span(self, cells: Sequence[Cell]) -> tuple[float, float]:
        """The values of the first and the last colour."""
        values = [c.value for c in cells if c.value]
        if self.signed:
            most = max((abs(v) for v in values), default=1.0)
            return -most, most
        low, high = min(values, default=1.0), max(values, default=1.0)
        return (low, high) if high > low else (low / 10, high)

    @property
    def legends(self) -> Sequence[Legend]:
        """One for the cells, and one for those with both directions added."""
        ramp, scale = ("signed", "") if self.signed else ("sent", "logarithmic scale")
        out = []
        for cells, label, layer in ((self.cells, self.value_label, DIRECTED), (self.both, f"{self.value_label}, both directions added", BOTH)):
            low, high = (amount_text(v) for v in self.span(cells))
            out += [Legend(label, low, high, ramp, scale, layer)] if cells else []
        return out

    def name_of(self, place: int) -> str:
        """Who a cell stands for, in full."""
        last = min(place + self.together, len(self.names)) - 1
        return self.names[place] if last <= place else f"{self.names[place]} to {self.names[last]}"


def amount_text(value: float) -> str:
    """Bytes, or a difference of bytes, as text."""
    return f"{'−' if value < 0 else ''}{format_bytes(abs(value))}"


def axis_names(names: Sequence[str]) -> list[str]:
    """Short names: without the domain that all share, and of a long one its two ends."""
    first = [name.partition(".")[0] for name in names]
    one_domain = len({name.partition(".")[2] for name in names}) == 1 and all(first)
    return [ends_of(name, _LONGEST) for name in (first if one_domain else names)]


def ends_of(text: str, limit: int) -> str:
    """`text` in at most `limit` characters: of a longer one its two ends, since names of one kind differ in either."""
    line = shorten(text, 1_000)
    return line if len(line) <= limit else f"{line[: limit - limit // 2 - 1]}…{line[-(limit // 2) :]}"
