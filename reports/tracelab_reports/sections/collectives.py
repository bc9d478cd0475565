"""Which collective operations cost most."""

from __future__ import annotations

from typing import Any

from tracelab.results import Section
from tracelab.units import format_bytes, format_duration
from tracelab_reports.figures import Bars, SectionBody, Series, color_of, columns, numbers, scale, scaled
from tracelab_reports.words import shorten

__all__ = ["build"]

_MAX_CLASSES = 20


def build(section: Section) -> SectionBody:
    """Stacked bars of transfer and wait of the classes of collectives that cost most."""
    found = columns(section, "collective_classes", "group", "operation", "bytes", "transfer_total_ns", "wait_total_ns")
    if found is None:
        return SectionBody()
    transfer, wait = numbers(found[3]), numbers(found[4])
    total = [(t or 0.0) + (w or 0.0) for t, w in zip(transfer, wait, strict=True)]
    rows = sorted(range(len(total)), key=lambda i: (-total[i], i))[:_MAX_CLASSES]
    names = [_class_name(found[0][i], found[1][i], found[2][i]) for i in rows]
    size, unit = scale([total[i] for i in rows])
    many = f" Shown are the {_MAX_CLASSES} costliest of {len(total):,} classes." if len(total) > _MAX_CLASSES else ""
    bars = Bars(
        id="collective-classes",
        title="Collectives that cost most: moving data or waiting for the last rank",
        alt=f"Bars of {len(rows)} classes of collectives: transfer and wait, summed. The costliest is {names[0]}: {format_duration(total[rows[0]])}.",
        table="collective_classes",
        note="A class is a group of ranks, an operation and a size. Transfer is the network's share, wait that of late ranks, summed over operations." + many,
        categories=names,
        series=[Series(part, scaled([values[i] for i in rows], size), color_of(part)) for part, values in (("transfer", transfer), ("wait", wait))],
        category_label="group, operation, size",
        value_label="time",
        unit=unit,
    )
    return SectionBody([bars])


def _class_name(group: Any, operation: Any, size: Any) -> str:
    amount = format_bytes(size) if isinstance(size, int | float) else "size unknown"
    name = "group unknown" if group is None else f"group {group}" if isinstance(group, int) else str(group)
    return f"{shorten(str(operation), 20)} {amount}, {shorten(name, 24)}"
