"""What a picture shows, free of any plotting library: sections describe figures, `plots` draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelab.results import Section
from tracelab.units import NS_PER_S

__all__ = ["Bars", "Figure", "Heatmap", "Line", "Series", "SectionBody", "columns", "numbers", "scale"]

Number = float | int


@dataclass(frozen=True)
class Series:
    """One part of each bar; `values` in the unit of the figure, None where unknown."""

    name: str
    values: Sequence[float | None]


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
    """Stacked horizontal bars, one per category, the first on top. `unit` is that of all values."""

    categories: Sequence[str]
    series: Sequence[Series]
    category_label: str
    value_label: str
    unit: str

    @property
    def height(self) -> int:
        """Room for each bar, the legend and the axis."""
        count = len(self.categories)
        return 110 + count * (22 if count <= 16 else 15)


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
    """Values over two integer axes, as cells (x, y, value); a cell that is not given stays empty."""

    x: Sequence[int]
    y: Sequence[int]
    values: Sequence[float | None]
    x_label: str
    y_label: str
    value_label: str
    unit: str

    @property
    def height(self) -> int:
        """Room for each row, the axis and the colour bar."""
        return max(240, min(560, 150 + 16 * (max(self.y) - min(self.y) + 1)))


@dataclass(frozen=True)
class SectionBody:
    """What a section shows beside its tables."""

    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()


def numbers(values: Sequence[Any]) -> list[float | None]:
    """`values` as finite floats; anything else becomes None."""
    return [float(v) if isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < 1e300 and math.isfinite(v) else None for v in values]


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
