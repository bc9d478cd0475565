"""What a picture shows, free of any plotting library: sections describe figures, `plots` draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelab.results import DataTable, Section
from tracelab.units import NS_PER_S

__all__ = [
    "COLORS",
    "Bars",
    "Figure",
    "Heatmap",
    "Key",
    "Legend",
    "Line",
    "SectionBody",
    "Series",
    "Switch",
    "byte_scale",
    "color_of",
    "columns",
    "numbers",
    "optional_column",
    "scale",
    "scaled",
    "whole",
]

COLORS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442", "#999999")
"""Colours that people with any colour vision can tell apart (Okabe and Ito, 2008; grey for black, which a dark page hides)."""

_BYTE_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
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
class Legend:
    """What colours say: the values of the first and the last one. `ramp` is the class of its colours in the style sheet.

    Of several, `layer` names the cells of the picture that it is for.
    """

    label: str
    low: str
    high: str
    ramp: str = ""
    scale: str = ""
    layer: str = ""


@dataclass(frozen=True)
class Key:
    """What a mark in a picture means: `sign` is the mark as text, in `color`, or in that of text where it is empty."""

    name: str
    color: str
    sign: str


@dataclass(frozen=True)
class Switch:
    """Something in the picture that the reader can hide: the name that it has in the drawing, and its words."""

    layer: str
    label: str


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
        """Height in CSS pixels."""
        return 280

    @property
    def style(self) -> str:
        """The room of the picture as CSS, so that the page does not move when the picture appears."""
        return f"min-height:{self.height}px"

    @property
    def legends(self) -> Sequence[Legend]:
        """Of figures whose colours follow values."""
        return ()

    @property
    def least_width(self) -> int:
        """Width in CSS pixels below which the picture is moved sideways rather than made smaller; 0 where it always fits."""
        return 0

    @property
    def keys(self) -> Sequence[Key]:
        """Of figures with marks of several kinds."""
        return ()

    @property
    def switches(self) -> Sequence[Switch]:
        """Of figures with parts that can be hidden."""
        return ()


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

    @property
    def legends(self) -> Sequence[Legend]:
        """Linear between its ends."""
        low, high = self.span
        return [Legend(self.value_label, f"{low:.3g}", f"{high:.3g} {self.unit}")]


@dataclass(frozen=True)
class SectionBody:
    """What a section shows beside its tables. `tables` stand in the place of those of the same id, or, where there is none, behind the others."""

    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    tables: Sequence[DataTable] = ()


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


def optional_column(section: Section, table_id: str, name: str) -> list[Any] | None:
    """A column of a table of the section; None where it is absent."""
    found = columns(section, table_id, name)
    return found[0] if found is not None else None


def scale(values_ns: Sequence[float | None]) -> tuple[float, str]:
    """The unit for an axis of times: its size in nanoseconds and its name, so that the largest value is at least one."""
    largest = max((abs(v) for v in values_ns if v is not None), default=0.0)
    for size, unit in ((NS_PER_S, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if largest >= size:
            return float(size), unit
    return 1.0, "ns"


def byte_scale(values: Sequence[float]) -> tuple[float, str]:
    """The decimal unit in which the largest value is at least one: its size in bytes and its name."""
    largest = max((abs(v) for v in values), default=0.0)
    return next(((size, unit) for size, unit in _BYTE_UNITS if largest >= size), (1.0, "B"))


def scaled(values_ns: Sequence[float | None], size: float) -> list[float | None]:
    """Nanoseconds in units of `size` nanoseconds."""
    return [None if v is None else v / size for v in values_ns]
