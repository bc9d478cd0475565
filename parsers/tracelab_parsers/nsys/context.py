"""What the makers of rows share while one export is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tracelab_parsers.nsys.columns import Flags, Ints, Timed, filled, timed, usable_times
from tracelab_parsers.nsys.names import Names
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.processes import Processes
from tracelab_parsers.nsys.session import Session
from tracelab_parsers.nsys.source import Source

__all__ = ["Context"]


@dataclass
class Context:
    """The source, what is known of it, and what is counted. `stored` and `lost` count rows by kind."""

    source: Source
    notices: Notices
    session: Session
    names: Names
    processes: Processes
    stored: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    _seen: bool = False

    def timed(self, batch: pa.RecordBatch, table: str, *, start: str = "start", to_end: bool = False, points: bool = False) -> Timed:
        """See `columns.timed`; finds out on the first row what times count from. `to_end`: rows without end last to that of the capture."""
        if not self._seen:
            self._see(*filled(batch, start))
        rows = timed(batch, self.notices, table, start=start, end_of_open=self.session.end_ns if to_end else None, points=points)
        self.lost[table] += batch.num_rows - len(rows.ts)
        if len(rows.ts) and not self.session.absolute:
            self.notices.add("time-before-session", int(np.count_nonzero(rows.ts < 0)), table)
        return rows

    def _see(self, times: Ints, stated: Flags) -> None:
        usable = np.flatnonzero(usable_times(times, stated))
        if len(usable):
            self.session.see(int(times[usable[0]]))
            self._seen = True

    def kept(self, rows: Timed, parts: Ints, kind: str) -> tuple[Timed, Ints]:
        """The rows whose process has a part, counted as `kind`; widens the windows of their parts."""
        known = parts >= 0
        if not known.all():
            self.notices.add("other-processes", int(np.count_nonzero(~known)))
            self.lost[kind] += int(np.count_nonzero(~known))
            rows = Timed(rows.batch.filter(pa.array(known)), rows.ts[known], rows.dur[known], rows.clamped[known])
            parts = parts[known]
        if len(parts):
            self.stored[kind] += len(parts)
            self.processes.extend(parts, rows, self.session.base_ns)
        return rows, parts
