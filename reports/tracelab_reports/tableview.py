"""Result tables as people read them (headings in words, values with units) and as CSV."""

from __future__ import annotations

import base64
import csv
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

from tracelab.results import DataColumn, DataTable
from tracelab.units import format_bytes, format_duration, format_rate, format_share, format_time
from tracelab_reports.words import clean, rank_label, seconds_text

__all__ = ["MAX_SHOWN_ROWS", "TableColumn", "TableView", "csv_text", "packed", "table_view"]

MAX_SHOWN_ROWS = 20
"""Rows of a table that stand on the page; the CSV has the others."""
_MAX_CELL = 240
_EPOCH_FROM_NS = 10**17
"""Times above this (1973) count as points of the Unix epoch, below as spans from an unknown start."""
_EMPTY = "–"
_SHORT = 26
_LEAST_SHARE = 0.001


@dataclass(frozen=True)
class TableColumn:
    """A heading: its words, its explanation and how its cells are set: `n` numbers, `s` short text, `l` long text."""

    heading: str
    doc: str
    style: str


@dataclass(frozen=True)
class TableView:
    """A table ready for the page. `csv` is the compressed CSV of all rows that the document holds, empty where there are none."""

    id: str
    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    total: int
    left_out: int
    csv: str

    @property
    def more(self) -> int:
        """Rows of the document that are not on the page."""
        return self.total - len(self.rows)


def table_view(table: DataTable, *, origin_ns: int | None = None, view_id: str = "", limit: int = MAX_SHOWN_ROWS) -> TableView:
    """The table for the page; points in time are given from `origin_ns` on where it is known."""
    formats = [_format_of(c, origin_ns) for c in table.columns]
    shown = [[_cell(write, v) for v in c.values[:limit]] for c, (write, _) in zip(table.columns, formats, strict=True)]
    height = min(limit, table.rows)
    rows = [[cells[i] if i < len(cells) else _EMPTY for cells in shown] for i in range(height)]
    heads = [
        TableColumn(_heading(c, origin_ns), c.doc, _style(cells, numeric=numeric)) for c, (_, numeric), cells in zip(table.columns, formats, shown, strict=True)
    ]
    return TableView(view_id or table.id, table.title.rstrip("."), heads, rows, table.rows, table.rows_left_out, packed(csv_text(table)) if table.rows else "")


def _style(cells: Sequence[str], *, numeric: bool) -> str:
    longest = max(map(len, cells), default=0)
    return "n" if numeric else "s" if longest <= _SHORT else "l"


def csv_text(table: DataTable) -> str:
    """All rows with the raw values: integers of nanoseconds and bytes as the column names say."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_csv_value(c.name) for c in table.columns])
    columns = [c.values for c in table.columns]
    for i in range(table.rows):
        writer.writerow([_csv_value(values[i]) if i < len(values) else "" for values in columns])
    return out.getvalue()


def packed(text: str) -> str:
    """`text` as zlib data in base64: small, and with no character that means anything in HTML."""
    return base64.b64encode(zlib.compress(text.encode(errors="replace"), 9)).decode("ascii")


def _csv_value(value: Any) -> Any:
    # A spreadsheet runs a cell that starts like a formula; an apostrophe makes it text.
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _cell(write: Callable[[Any], str], value: Any) -> str:
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return _EMPTY
    text = write(value) if isinstance(value, int | float) and not isinstance(value, bool) else _plain(value)
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_plain(v) for v in value[:_MAX_CELL])
    return clean(str(value))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 9_999 else f"{value:,.0f}"


def _point(origin_ns: int | None, value: float) -> str:
    if origin_ns is not None:
        return "0 s" if value == origin_ns else f"{'+' if value > origin_ns else '−'}{format_duration(abs(value - origin_ns))}"
    return format_time(int(value)) if value >= _EPOCH_FROM_NS else format_duration(value)


def _is_point(column: DataColumn) -> bool:
    return column.unit == "ns" and column.name in {"start_ns", "end_ns", "ts_ns"}


def _format_of(column: DataColumn, origin_ns: int | None) -> tuple[Callable[[Any], str], bool]:
    """How to write a number of the column, and whether the column holds numbers."""
    given = [v for v in column.values[:100] if v is not None]
    numeric = bool(given) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in given)
    return (partial(_point, origin_ns) if _is_point(column) else _number_format(column)), numeric


_BY_UNIT: dict[str, Callable[[Any], str]] = {
    "ns": format_duration,
    "s": seconds_text,
    "B": format_bytes,
    "bytes": format_bytes,
    "B/s": format_rate,
    "bytes/s": format_rate,
    "byte": format_bytes,
    "byte/s": format_rate,
    "bit/s": lambda n: format_bytes(n).replace("B", "bit/s"),
    "us": lambda us: format_duration(1_000 * us),
    "ratio": lambda share: f"{100 * share:.2g} %" if 0 < abs(share) < _LEAST_SHARE else format_share(share),
}
_BY_SUFFIX: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("rank", rank_label),
    ("ratio", format_share),
    ("share", format_share),
    ("_bytes_per_s", format_rate),
    ("_ns", format_duration),
    ("bytes", format_bytes),
    ("_id", str),
)
_BY_NAME: dict[str, Callable[[Any], str]] = {"source_ts_ns": lambda ns: f"{ns} ns", "step": str, "group": str}
_MULTIPLES = frozenset({"times", "times_peers", "max_over_mean", "expected", "jain"})
"""Ratios that are no share of anything."""


def _number_format(column: DataColumn) -> Callable[[Any], str]:
    if column.name in _BY_NAME:
        return _BY_NAME[column.name]
    if column.name in _MULTIPLES:
        return _number
    if column.unit in _BY_UNIT:
        return _BY_UNIT[column.unit]
    return next((write for suffix, write in _BY_SUFFIX if column.name.endswith(suffix)), _number)


def _heading(column: DataColumn, origin_ns: int | None) -> str:
    name = {"ts_ns": "time", "source_ts_ns": "time in the source"}.get(column.name, column.name)
    name = name.removesuffix("_bytes_per_s").removesuffix("_ns").removesuffix("_bps").removesuffix("_us").replace("_", " ").strip() or column.name
    if _is_point(column) and origin_ns is not None:
        return f"{name} after job start"
    return name if column.unit in {*_BY_UNIT, "", "1"} else f"{name} [{column.unit}]"
