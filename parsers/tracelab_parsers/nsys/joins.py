"""Whether what happened on the GPU can be joined with what launched it: on process and correlation, never on correlation alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tracelab_parsers.nsys.columns import Flags, Ints, split_by
from tracelab_parsers.nsys.notices import Notices

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Joins"]

_MOST = 1 << 28
"""Correlations of a process count up from 1: what is beyond is not told apart."""


@dataclass
class Joins:
    """Keeps the correlation of each GPU event (8 bytes) and which ones were called (1 byte for each number)."""

    events: int = 0
    launches: int = 0
    _unjoinable: int = 0
    _work: dict[int, list[Ints]] = field(default_factory=lambda: defaultdict(list))
    _called: dict[int, Flags] = field(default_factory=dict)

    def work(self, batch: pa.RecordBatch) -> None:
        """Adds kernels, copies and memory sets of `gpu_spans`."""
        self.events += batch.num_rows
        correlation = batch.column("correlation")
        self._unjoinable += correlation.null_count
        values = correlation.fill_null(0).to_numpy(zero_copy_only=False)
        parts = batch.column("part").to_numpy()
        for part, mine in split_by(parts):
            own = values[mine]
            self._work[part].append(own[own != 0])

    def calls(self, parts: Ints, correlations: Ints, launches: int) -> None:
        """Adds calls of the API, of which so many launch kernels."""
        self.launches += launches
        usable = (correlations > 0) & (correlations < _MOST)
        if not usable.all():
            parts, correlations = parts[usable], correlations[usable]
        for part, rows in split_by(parts):
            mine = correlations[rows]
            highest = int(mine.max())
            called = self._called.get(part, np.zeros(0, np.bool_))
            if highest >= len(called):
                called = np.concatenate([called, np.zeros(max(highest + 1 - len(called), len(called)), np.bool_)])
            called[mine] = True
            self._called[part] = called

    def judge(self, notices: Notices) -> None:
        """Adds what does not join to `notices`."""
        orphans = 0
        for part, blocks in self._work.items():
            called = self._called.get(part, np.zeros(0, np.bool_))
            for values in blocks:
                inside = values[(values > 0) & (values < len(called))]
                orphans += len(values) - int(np.count_nonzero(called[inside]))
        notices.add("orphan-gpu-events", orphans)
        notices.add("shared-correlation-zero", self._unjoinable)
        if self.launches and not self.events:
            notices.add("no-kernels-but-launches", self.launches)
