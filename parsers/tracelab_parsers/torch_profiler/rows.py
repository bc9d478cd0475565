"""Chunks of decoded events to batches of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracelab.plugins import Emitter
from tracelab.tables import COMM_RECORDS, GPU_COUNTERS, GPU_SPANS, HOST_SPANS, MEMORY_EVENTS
from tracelab_parsers.torch_profiler.checks import Joins
from tracelab_parsers.torch_profiler.clock import Clock
from tracelab_parsers.torch_profiler.columns import GPU_KINDS, HOST_KINDS, Rows, counter_batch, gpu_batch, host_batch, memory_batch
from tracelab_parsers.torch_profiler.comms import HOST_NAME, MAX_BUFFERED, CommRecords, Groups, states_operation
from tracelab_parsers.torch_profiler.counts import EventCounter, Kind
from tracelab_parsers.torch_profiler.events import NOT_AN_OBJECT, Details, Event, Role, counters_of, details_of, role_of
from tracelab_parsers.torch_profiler.notices import Notices
from tracelab_parsers.torch_profiler.times import Times, span_times

__all__ = ["EventChunk", "RowWriter"]

_MEMORY = "[memory]"
_END_MARK = "Record Window End"
_RAW = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True)
class EventChunk:
    """Events in a row, the JSON array that holds them one for one, and where it begins."""

    events: Sequence[Event]
    text: bytes
    offset: int

    @cached_property
    def _texts(self) -> list[msgspec.Raw]:
        return _RAW.decode(self.text)

    def texts(self, at: Sequence[int]) -> list[msgspec.Raw]:
        """The text of the events at these positions."""
        return [self._texts[i] for i in at]

    def details(self, at: Sequence[int]) -> list[Details]:
        """The detailed arguments of the events at these positions."""
        return details_of(self.texts(at)) if at else []

    def times(self, at: Sequence[int], *, spans: bool) -> Times:
        """Their times, as the file counts them; those without length where they are no spans."""
        ts: list[Any] = [self.events[i].ts for i in at]
        dur: list[Any] = [self.events[i].dur for i in at] if spans else [0] * len(at)
        return span_times(ts, dur)


class RowWriter:
    """Emits the rows of one file and gathers what is known only at its end: counts, joins, the window of its times."""

    def __init__(self, emit: Emitter, clock: Clock, notices: Notices, *, python_functions: bool) -> None:
        self._emit = emit
        self._clock = clock
        self._notices = notices
        self._python = python_functions
        self._comms = CommRecords()
        self.counts = EventCounter(notices)
        self.joins = Joins()
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.end_mark = False

    @property
    def holds_much(self) -> bool:
        """Whether enough records of communication are held back to let them go."""
        return self._comms.buffered > MAX_BUFFERED

    def release(self, groups: Groups) -> None:
        """Emits the records of communication, their groups restored as far as `groups` and they themselves tell."""
        for batch in self._comms.drain(groups):
            self._emit.batch(COMM_RECORDS, batch)

    @property
    def cut_lists(self) -> tuple[int, int]:
        """Records with a list of ranks, and with split sizes, that were cut for good."""
        return self._comms.cut, self._comms.cut_splits

    def add(self, chunk: EventChunk) -> None:
        """Emits the rows of a chunk."""
        places = _places(chunk.events)
        tables: defaultdict[str, list[tuple[Kind, Role]]] = defaultdict(list)
        for kind, at in places.items():
            self.counts.add(kind, len(at), 0)
            role = role_of(*kind)
            tables[role.table].append((kind, role))
            if kind[0] == NOT_AN_OBJECT:
                self._notices.add("not-an-object", chunk.offset, len(at))
        for kind, _ in tables["unknown"]:
            self._notices.add("unknown-category", count=len(places[kind]))
            places[kind] = [i for i in places[kind] if type(chunk.events[i].pid) is int and type(chunk.events[i].tid) is int]
        host = tables["host"] + tables["unknown"] + (tables["python"] if self._python else [])
        self._gpu(chunk, *self._rows(chunk, places, tables["gpu"], GPU_KINDS))
        self._host(chunk, *self._rows(chunk, places, host, HOST_KINDS))
        for kind, _ in tables["memory"]:
            self._memory(chunk, kind, places[kind])
        for kind, _ in tables["counter"]:
            self._counters(chunk, kind, places[kind])

    def _rows(self, chunk: EventChunk, places: dict[Kind, list[int]], kinds: list[tuple[Kind, Role]], names: Sequence[str]) -> tuple[list[int], Rows]:
        """The positions of the spans of these kinds that have a usable time, and their rows without details."""
        at = [i for kind, _ in kinds for i in places[kind]]
        sizes = [len(places[kind]) for kind, _ in kinds]
        codes = np.repeat(np.array([names.index(role.kind) for _, role in kinds], np.int32), sizes)
        times = chunk.times(at, spans=True)
        begin = 0
        for (kind, _), size in zip(kinds, sizes, strict=True):
            self._counted(kind, times.usable[begin : begin + size])
            begin += size
        kept = np.flatnonzero(times.usable)
        if len(kept) < len(at):
            at = [at[i] for i in kept.tolist()]
            codes = codes[kept]
            times = times.take(kept)
        times = Times(self._clock.absolute(times.ts), times.dur, times.usable, times.clamped)
        self._extend(times)
        return at, Rows([chunk.events[i] for i in at], [], codes, times)

    def _counted(self, kind: Kind, usable: npt.NDArray[np.bool_]) -> None:
        stored = int(np.count_nonzero(usable))
        self.counts.add(kind, -stored, stored)
        self._notices.add("bad-time", count=len(usable) - stored)

    def _extend(self, times: Times) -> None:
        """Widens the window of the file; starts that were cut say nothing about it."""
        real = ~times.clamped
        self._notices.add("clamped-time", count=int(np.count_nonzero(times.clamped)))
        if not real.any():
            return
        start, end = int(times.ts[real].min()), int((times.ts[real] + times.dur[real]).max())
        self.start_ns = start if self.start_ns is None else min(self.start_ns, start)
        self.end_ns = end if self.end_ns is None else max(self.end_ns, end)

    def _gpu(self, chunk: EventChunk, at: list[int], rows: Rows) -> None:
        if not at:
            return
        rows = Rows(rows.events, chunk.details(at), rows.codes, rows.times)
        batch = gpu_batch(rows)
        self._emit.batch(GPU_SPANS, batch)
        self.joins.gpu(batch)
        for sizes, column in (([a.grid for a in rows.details], "blocks"), ([a.block for a in rows.details], "threads_per_block")):
            self._notices.add("bad-launch-size", count=sum(map(bool, sizes)) - batch.num_rows + batch.column(column).null_count)
        found = [i for i, a in enumerate(rows.details) if a.collective is not None]
        if found:
            self._comms.add([rows.events[i] for i in found], [rows.details[i] for i in found], rows.times.take(np.array(found)), 0)

    def _host(self, chunk: EventChunk, at: list[int], rows: Rows) -> None:
        if not at:
            return
        batch = host_batch(rows)
        self._emit.batch(HOST_SPANS, batch)
        self.joins.host(batch)
        named = [i for i, e in enumerate(rows.events) if e.name == HOST_NAME]
        details = chunk.details([at[i] for i in named])
        found = [(i, a) for i, a in zip(named, details, strict=True) if states_operation(a)]
        if found:
            self._comms.add([rows.events[i] for i, _ in found], [a for _, a in found], rows.times.take(np.array([i for i, _ in found])), 1)

    def _instants(self, chunk: EventChunk, kind: Kind, at: list[int]) -> tuple[list[int], npt.NDArray[np.int64]]:
        """Those that have a usable time, and their times."""
        times = chunk.times(at, spans=False)
        self._counted(kind, times.usable)
        kept = np.flatnonzero(times.usable)
        return [at[i] for i in kept.tolist()], self._clock.absolute(times.ts[kept])

    def _memory(self, chunk: EventChunk, kind: Kind, at: list[int]) -> None:
        self.end_mark = self.end_mark or any(chunk.events[i].name == _END_MARK for i in at)
        at, ts = self._instants(chunk, kind, [i for i in at if chunk.events[i].name == _MEMORY])
        if at:
            self._emit.batch(MEMORY_EVENTS, memory_batch(chunk.details(at), ts))

    def _counters(self, chunk: EventChunk, kind: Kind, at: list[int]) -> None:
        at, ts = self._instants(chunk, kind, at)
        batch = counter_batch([chunk.events[i] for i in at], [counters_of(t) for t in chunk.texts(at)], ts)
        if batch.num_rows:
            self._emit.batch(GPU_COUNTERS, batch)


class _Codes(dict[Kind, int]):
    """Numbers kinds in the order in which they are first asked for."""

    def __missing__(self, kind: Kind) -> int:
        self[kind] = len(self)
        return self[kind]


def _places(events: Sequence[Event]) -> dict[Kind, list[int]]:
    """The positions of the events of each kind."""
    numbers = _Codes()
    codes = np.array([numbers[e.ph, e.cat] for e in events], np.int64)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(numbers)))
    return {kind: at.tolist() for kind, at in zip(numbers, np.split(order, ends[:-1]), strict=True)} if numbers else {}
