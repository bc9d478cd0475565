"""Rows of what a host's network tools print: counters and interfaces, with the notices of one file."""

from __future__ import annotations

import numpy as np

from tracelab.plugins import Emitter
from tracelab.tables import INTERFACES
from tracelab_parsers.counters.bulk import NO_TIME, Bulk, Key, numbers_of
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.notices import TEXTS
from tracelab_parsers.counters.writing import Subject, TimeQuality
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer

__all__ = ["Output"]

_BATCH = 50_000


class Output:
    """Collects the rows of a file; `close` emits the rest."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._bulk = Bulk(emit)
        self._rows = RowBuffer(INTERFACES, emit)
        self.notices = Notices(TEXTS)
        self.counters = self.interfaces = 0
        self._quality: TimeQuality | None = None
        self._keys: dict[tuple[str | None, str | None, int | None, str, str, tuple[str, ...]], int] = {}
        self._of_key: list[Key] = []
        self._codes: list[int] = []
        self._lines: list[int] = []
        self._moments: list[int] = []
        self._texts: list[str] = []

    def number(
        self,
        line: int,
        subject: Subject,
        name: str,
        meaning: Meaning,
        text: str,
        ts_ns: int | None,
        quality: TimeQuality | None,
        flags: tuple[str, ...] = (),
    ) -> None:
        """One counter, as printed; what is no number is kept as missing, and counted."""
        if quality != self._quality or len(self._codes) >= _BATCH:
            self._flush()
            self._quality = quality
        key = (subject.node, subject.device, subject.port, name, meaning.counter, flags)
        code = self._keys.get(key)
        if code is None:
            code = self._keys[key] = len(self._of_key)
            self._of_key.append(Key(subject, name, meaning, flags=flags))
        self._codes.append(code)
        self._lines.append(line)
        self._moments.append(NO_TIME if ts_ns is None else ts_ns)
        self._texts.append(text)
        self.counters += 1

    def interface(self, **values: object) -> None:
        """A row of interfaces."""
        self.interfaces += 1
        self._rows.add(node_kind="host", **values)

    def close(self) -> None:
        """Emits what is held, and the notices."""
        self._flush()
        self._bulk.close()
        self._rows.flush()
        self.notices.add("no-counters", count=int(not self.counters + self.interfaces))
        self.notices.emit(self._emit)

    def _flush(self) -> None:
        """Gives the numbers on, in the order in which they came."""
        if not self._codes:
            return
        numbers = numbers_of(self._texts)
        self.notices.add("bad-number", count=numbers.bad)
        ts_ns = np.array(self._moments, np.int64)
        self._bulk.add(self._of_key, np.array(self._codes, np.int64), np.array(self._lines, np.int64), numbers, ts_ns=ts_ns, quality=self._quality)
        self._keys.clear()
        self._of_key = []
        for column in (self._codes, self._lines, self._moments, self._texts):
            column.clear()
