"""What a picture shows, free of any plotting library: sections describe figures, `plots` draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelab.results import Section
from tracelab.units import NS_PER_S

__all__ = [
    "COLORS",
    "Bars",
    "Cell",
    "Figure",
    "Heatmap",
    "Line",
    "Matrix",
    "SectionBody",
    "Series",
    "color_of",
    "columns",
    "numbers",
    "scale",
    "scaled",
    "whole",
]

COLORS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442", "#999999")
"""Colours that people with any colour vision can tell apart (Okabe and Ito, 2008; grey for black, which a dark page hides)."""

_MAX_ROWS, _MAX_COLUMNS = 256, 512
"""Cells of a heatmap: with more, a single rank would be thinner than a pixel and vanish."""

_COLOR_OF_PART = {
    "compute": COLORS[0],
    "hidden": COLORS[4],
    "memcpy": COLORS[1],
    "exposed_transfer": COLORS[2],
    "transfer": COLORS[2],
    "exposed_wait": COLORS[3],
    "exposed": COLORS[3],
    "wait": COLORS[3],
    "late": COLORS[3],
    "idle": COLORS[7],
}


@dataclass(frozen=True)
class Series:
    """One part of each bar; `values` in the unit of the figure, None where unknown; `detail` follows the name in the legend."""

    name: str
    values: Sequence[float | None]
    color: str
    detail: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture: `alt` says in a sentence what it shows, `table` is the id of the table that holds its numbers."""

    id: str
    title: str
    alt: str
    table: str | None
    note: str

    @property
    def height(self) -> int:
        """Height in CSS pixels, so that the page does not move when the picture appears."""
        return 280


@dataclass(frozen=True)
class Bars(Figure):
    """Stacked horizontal bars, one per category, the first on top. `unit` is that of all values.

    The parts of a bar stand from left to right in the order of `series`.
    """

    categories: Sequence[str]
    series: Sequence[Series]
    category_label: str
    value_label: str
    unit: str

    @property
    def height(self) -> int:
        """Room for each bar, the legend and the axis."""
        count = len(self.categories)
        return 70 + max(count * (22 if count <= 16 else 15), 40)


@dataclass(frozen=True)
class Line(Figure):
    """Values over a number; None leaves a gap."""

    x: Sequence[int]
    y: Sequence[float | None]
    x_label: str
    y_label: str
    unit: str


@dataclass(frozen=True)
class Heatmap(Figure):
    """Values over two integer axes, as cells (x, y, value); a cell that is not given stays empty.

    Colours span the values from zero; where `from_zero` is false, from the least one, but from 90 % of the highest at most,
    so that noise stays pale. Where there are more rows or
    columns than a screen can show, neighbours share a cell: their highest value, or their lowest where `keep_low`.
    """

    x: Sequence[int]
    y: Sequence[int]
    values: Sequence[float | None]
    x_label: str
    y_label: str
    value_label: str
    unit: str
    from_zero: bool
    keep_low: bool

    @property
    def height(self) -> int:
        """Room for each row (two pixels at least) and the axis."""
        rows = (max(self.y) - min(self.y)) // self.bins[1] + 1
        return max(200, min(2 * _MAX_ROWS + 90, 90 + 16 * rows))

    @property
    def bins(self) -> tuple[int, int]:
        """How many neighbours share a cell, along x and along y."""
        return math.ceil((max(self.x) - min(self.x) + 1) / _MAX_COLUMNS), math.ceil((max(self.y) - min(self.y) + 1) / _MAX_ROWS)

    @property
    def span(self) -> tuple[float, float]:
        """The values of the first and the last colour."""
        known = [v for v in self.values if v is not None]
        high = max(known, default=0.0)
        low = 0.0 if self.from_zero else min(0.9 * high, min(known, default=0.0))
        return low, high if high > low else low + 1.0


@dataclass(frozen=True)
class Cell:
    """A cell of a matrix: places of sender and receiver, the value, and what the pointer shows beside it."""

    src: int
    dst: int
    value: float
    text: str = ""


@dataclass(frozen=True)
class Matrix(Figure):
    """Who sends how much to whom: senders from top to bottom, receivers from left to right, in one order.

    `names` are those of the places, `blocks` (first place, name) the hosts that neighbouring places belong to: borders are
    drawn between them. A place stands for `together` neighbours. Colours are logarithmic over positive values, from the
    least to the highest, or, where `signed`, two-sided around zero. A cell that is not given stays empty: no bytes.
    """

    names: Sequence[str]
    blocks: Sequence[tuple[int, str]]
    cells: Sequence[Cell]
    x_label: str
    y_label: str
    value_label: str
    unit: str
    together: int = 1
    signed: bool = False

    @property
    def scale_name(self) -> str:
        """How colours follow the values, for the legend."""
        return "" if self.signed else "logarithmic"

    @property
    def height(self) -> int:
        """About square on a wide page."""
        return max(320, min(760, 150 + 22 * math.ceil(len(self.names) / self.together)))

    @property
    def span(self) -> tuple[float, float]:
        """The values of the first and the last colour."""
        values = [c.value for c in self.cells if c.value]
        if self.signed:
            most = max((abs(v) for v in values), default=1.0)
            return -most, most
        low, high = min(values, default=1.0), max(values, default=1.0)
        return (low, high) if high > low else (low / 10, high)


@dataclass(frozen=True)
class SectionBody:
    """What a section shows beside its tables."""

    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()


def color_of(part: str, others: Sequence[str] = ()) -> str:
    """The colour of a part of the time: the same in all pictures. An unknown part takes the first one that `others` leave."""
    if part in _COLOR_OF_PART:
        return _COLOR_OF_PART[part]
    return next((c for c in COLORS if c not in others), COLORS[7])


def numbers(values: Sequence[Any]) -> list[float | None]:
    """`values` as finite floats; anything else becomes None."""
    return [float(v) if isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < 1e300 and math.isfinite(v) else None for v in values]


def whole(value: Any) -> bool:
    """Whether a value can stand on an axis of ranks or steps: an integer that a float holds exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def columns(section: Section, table_id: str, *names: str) -> list[list[Any]] | None:
    """The named columns of a table of the section; None where the table, a column or all rows are absent."""
    table = next((t for t in section.tables if t.id == table_id), None)
    if table is None or table.rows == 0:
        return None
    by_name = {c.name: c.values for c in table.columns}
    if any(len(by_name.get(n, ())) != table.rows for n in names):
        return None
    return [by_name[n] for n in names]


def scale(values_ns: Sequence[float | None]) -> tuple[float, str]:
    """The unit for an axis of times: its size in nanoseconds and its name, so that the largest value is at least one."""
    largest = max((abs(v) for v in values_ns if v is not None), default=0.0)
    for size, unit in ((NS_PER_S, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if largest >= size:
            return float(size), unit
    return 1.0, "ns"


def scaled(values_ns: Sequence[float | None], size: float) -> list[float | None]:
    """Nanoseconds in units of `size` nanoseconds."""
    return [None if v is None else v / size for v in values_ns]
