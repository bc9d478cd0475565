"""Finds the line of headings of a table, and whether the table is one of counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tracelab_parsers.counters.csv_table_description import TableDescription
from tracelab_parsers.counters.csv_table_plan import Plan, delimiter_of, plan_of, split_lines

__all__ = ["Found", "find_plan", "is_table_of_counters"]

_PREAMBLE = 30
_ROWS = 500


class Found(NamedTuple):
    """The columns, and the place of the first row among the lines."""

    plan: Plan
    start: int


def find_plan(lines: Sequence[str], description: TableDescription | None = None, *, claimed: bool = False) -> Found | None:
    """The table in `lines`, which may stand below a few lines of anything else; None where there is none of counters.

    `claimed`: it is known to be one, so that a single known heading is enough.
    """
    if description is not None and description.columns:
        parting = description.delimiter or (delimiter_of(lines[0]) if lines else None) or ","
        plan = plan_of(description.columns, split_lines(lines[:_ROWS], parting), parting, description)
        return Found(plan, 0) if plan is not None and plan.columns else None
    for place, line in enumerate(lines[:_PREAMBLE]):
        text = line.removeprefix("\ufeff").strip().lstrip("#").strip()
        delimiter = (description.delimiter if description is not None else None) or delimiter_of(text)
        if not text or delimiter is None:
            continue
        headings = split_lines([text], delimiter)[0]
        rows = [r for r in split_lines([x for x in lines[place + 1 : place + 1 + _ROWS] if x.strip()], delimiter) if not r[0].startswith("#")]
        plan = plan_of(headings, rows, delimiter, description)
        if plan is not None and plan.columns and (description is not None or (claimed and plan.proofs) or is_table_of_counters(plan, rows)):
            return Found(plan, place + 1)
    return None


def is_table_of_counters(plan: Plan, rows: Sequence[Sequence[str]]) -> bool:
    """Whether nothing else can be meant: moments, columns that only counters have, who is counted, and rows as wide as the headings."""
    odd = sum(len(r) != len(plan.headings) for r in rows)
    enough = plan.proofs >= 1 if plan.entities else plan.proofs >= 2
    return plan.clock is not None and enough and (odd <= 1 or odd * 10 <= len(rows))
