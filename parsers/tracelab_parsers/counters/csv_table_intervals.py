"""Whether the counts of a table are since a start, or since the row before: nothing but how they move says it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracelab_parsers.counters.bulk import NO_TIME, Ints, Numbers
from tracelab_parsers.counters.csv_table_entities import Entity
from tracelab_parsers.counters.csv_table_meanings import Meanings
from tracelab_parsers.counters.csv_table_plan import Plan

__all__ = ["Steps"]

_FEWEST = 3
_FALLING = 0.25
"""Share of changes that are falls, from which on numbers are counts of intervals: those of steady traffic fall every other time, resets are seldom."""
_GROWING = 0.1
_NARROW = (2**31, 2**32)
"""Numbers whose highest lies between may be of a counter of 32 bits, which falls whenever it starts again."""


class Steps:
    """Counts how often each column, or each name in a table of names, rises and falls."""

    def __init__(self, plan: Plan, meanings: Meanings) -> None:
        self._plan = plan
        self._meanings = meanings
        self._seen: dict[str, list[int]] = {}

    def see(self, codes: Ints, ts: Ints, entities: Sequence[Entity], numbers: Sequence[Numbers]) -> None:
        """Rows in the order of the file: entity, moment, and the numbers of each column."""
        order = np.lexsort((ts, codes))
        for column, found in zip(self._plan.columns, numbers, strict=True):
            whole = found.whole[order] & (ts[order] != NO_TIME)
            raw, of = found.raw[order][whole], codes[order][whole]
            same = of[1:] == of[:-1]
            up, down = same & (raw[1:] > raw[:-1]), same & (raw[1:] < raw[:-1])
            if not len(of) or column.told is not None:
                continue
            starts = np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
            rises, falls = (np.add.reduceat(np.r_[False, moved], starts) for moved in (up, down))
            for code, rose, fell, top in zip(of[starts].tolist(), rises.tolist(), falls.tolist(), np.maximum.reduceat(raw, starts).tolist(), strict=True):
                if self._meanings.meaning(entities[code], column).stated_kind == "counter":
                    seen = self._seen.setdefault(self._meanings.name(entities[code], column), [0, 0, 0])
                    seen[:] = seen[0] + rose, seen[1] + fell, max(seen[2], top)

    def of_intervals(self) -> frozenset[str]:
        """The columns or names whose numbers count since the row before. Those that hardly change go with the others of their table."""
        falling = {n for n, (up, down, top) in self._seen.items() if down >= _FEWEST and down > _FALLING * (up + down) and not _NARROW[0] <= top < _NARROW[1]}
        growing = {n for n, (up, down, _) in self._seen.items() if up >= _FEWEST and down <= _GROWING * (up + down)}
        return frozenset(self._seen.keys() - growing) if falling else frozenset()
