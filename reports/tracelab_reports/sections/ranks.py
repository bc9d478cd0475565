"""Pictures over ranks that several sections draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tracelab.results import Section
from tracelab.units import format_duration
from tracelab_reports.figures import Bars, Heatmap, Series, color_of, columns, numbers, scale, scaled, whole
from tracelab_reports.words import rank_label

__all__ = ["MAX_BARS", "rank_bars", "rank_step_heatmap"]

MAX_BARS = 40
"""Bars in one picture: more cannot be told apart; those that matter most are shown and the table has all."""


def rank_bars(
    section: Section, table: str, parts: Sequence[tuple[str, str]], *, figure_id: str, title: str, note: str, value_label: str, by: str, least: bool = False
) -> Bars | None:
    """Stacked bars, one per rank: `parts` are (column in ns, name).

    Of many ranks, the `MAX_BARS` with the most time in the column `by` (or the least) are shown, that extreme first.
    """
    found = columns(section, table, "rank", *(column for column, _ in parts))
    if found is None:
        return None
    ranks: list[Any] = found[0]
    values = {column: numbers(v) for (column, _), v in zip(parts, found[1:], strict=True)}
    rows = [i for i, rank in enumerate(ranks) if whole(rank)]
    sign = 1 if least else -1
    ranked = sorted(rows, key=lambda i: (sign * (values[by][i] or 0.0), ranks[i]))
    if not ranked:
        return None
    cut = len(rows) > MAX_BARS
    shown = ranked[:MAX_BARS] if cut else sorted(rows, key=lambda i: ranks[i])
    size, unit = scale([sum(values[c][i] or 0.0 for c in values) for i in shown])
    extreme, name = "least" if least else "most", dict(parts)[by]
    many = f" Shown are the {MAX_BARS} of {len(rows):,} ranks with the {extreme} {name}, the {extreme} on top." if cut else ""
    first = ranked[0]
    shown_parts = ", ".join(name for _, name in parts)
    amount = format_duration(values[by][first] or 0.0)
    return Bars(
        id=figure_id,
        title=title,
        alt=f"Bars of {len(shown)} ranks: {shown_parts}. Rank {rank_label(ranks[first])} has the {extreme} {name}: {amount}.",
        table=table,
        note=note + many,
        categories=[f"rank {rank_label(ranks[i])}" for i in shown],
        series=[Series(name, scaled([values[column][i] for i in shown], size), color_of(column.removesuffix("_ns"))) for column, name in parts],
        category_label="rank",
        value_label=value_label,
        unit=unit,
    )


def rank_step_heatmap(
    section: Section, table: str, column: str, *, figure_id: str, title: str, note: str, value_label: str, from_zero: bool = True, keep_low: bool = False
) -> Heatmap | None:
    """A cell per rank and step, coloured by a column in ns; None with one rank or one step, where a bar says as much."""
    found = columns(section, table, "rank", "step", column)
    if found is None:
        return None
    cells = [(s, r, v) for r, s, v in zip(found[0], found[1], numbers(found[2]), strict=True) if whole(r) and whole(s)]
    known = [(v, r, s) for s, r, v in cells if v is not None]
    if not known or len({r for _, r, _ in cells}) < 2 or len({s for s, _, _ in cells}) < 2:
        return None
    size, unit = scale([v for v, _, _ in known])
    top, rank, step = max(known, key=lambda k: (k[0], -k[1], -k[2]))
    heatmap = Heatmap(
        id=figure_id,
        title=title,
        alt=f"Heatmap of rank by step: {value_label}. The highest is {format_duration(top)}, rank {rank_label(rank)} in step {step}.",
        table=table,
        note=note,
        x=[s for s, _, _ in cells],
        y=[r for _, r, _ in cells],
        values=scaled([v for _, _, v in cells], size),
        x_label="step",
        y_label="rank",
        value_label=value_label,
        unit=unit,
        from_zero=from_zero,
        keep_low=keep_low,
    )
    return replace(heatmap, note=" ".join([note, *_cell_notes(heatmap, next(t for t in section.tables if t.id == table).rows_left_out)]))


def _cell_notes(heatmap: Heatmap, left_out: int) -> list[str]:
    notes = []
    steps, ranks = heatmap.bins
    if steps > 1 or ranks > 1:
        sides = " and ".join(f"{n} neighbouring {word}" for n, word in ((ranks, "ranks"), (steps, "steps")) if n > 1)
        notes.append(f"Each cell stands for {sides}: the {'lowest' if heatmap.keep_low else 'highest'} value of them.")
    if left_out:
        notes.append(f"The result document leaves out {left_out:,} cells for its size; they are empty here.")
    elif len(set(zip(heatmap.x, heatmap.y, strict=True))) < (max(heatmap.x) - min(heatmap.x) + 1) * (max(heatmap.y) - min(heatmap.y) + 1):
        notes.append("Empty cells: no data.")
    return notes
