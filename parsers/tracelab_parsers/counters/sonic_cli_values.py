"""Cells of SONiC's tables: numbers with thousands separators, rates with units, shares, pairs."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracelab_parsers.counters.values import read_number

__all__ = ["Cell", "read_cell"]

_QUANTITY = re.compile(r"([+-]?[\d.,]+(?:[eE][+-]?\d+)?) ?([KMGT]?B/s|/s|%|[KMGT]?bps)?(?: \(([\d.]+)%\))?", re.ASCII)
_STEPS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Cell(NamedTuple):
    """`number` as printed (None where there is none), canonical units of one, whether it was rounded, and a share in brackets behind it."""

    number: float | None
    scale: float
    rounded: bool
    share: float | None


def read_cell(text: str) -> Cell:
    """What a cell says. Steps are of 1,000 (netstat.py of sonic-utilities). Raises `ValueError` where it is no number."""
    m = _QUANTITY.fullmatch(text)
    if m is None:
        return Cell(read_number(text), 1.0, rounded=False, share=None)
    unit = m[2] or ""
    scale = _STEPS.get(unit[:1], 1.0)
    if unit.endswith("bps"):
        scale /= 8
    return Cell(read_number(m[1]), scale, rounded=bool(unit) and "." in m[1], share=float(m[3]) if m[3] else None)
