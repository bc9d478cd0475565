"""Reads one trace: chunks of events to batches of rows, and what the file says about itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracelab.plugins import Emitter, EventCount, Part, SourceFile, SourceInfo
from tracelab.tables import COMM_RECORDS, GPU_COUNTERS, GPU_SPANS, HOST_SPANS, MEMORY_EVENTS, PROCESS_GROUPS
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.json_chunks import Chunk, Limits
from tracelab_parsers.json_document import JsonDocument
from tracelab_parsers.torch_profiler.checks import Joins
from tracelab_parsers.torch_profiler.clock import Clock
from tracelab_parsers.torch_profiler.columns import GPU_KINDS, HOST_KINDS, Rows, counter_batch, gpu_batch, host_batch, memory_batch
from tracelab_parsers.torch_profiler.comms import MAX_BUFFERED, CommRecords, Groups, is_comm_operator, process_group_batch
from tracelab_parsers.torch_profiler.events import EVENTS, EXACT_EVENTS, NOT_AN_OBJECT, CounterEvent, Event, Role, event_from_object, role_of
from tracelab_parsers.torch_profiler.metadata import KEPT, Metadata, read_metadata
from tracelab_parsers.torch_profiler.notices import Notices
from tracelab_parsers.torch_profiler.times import Times, needs_text, span_times

__all__ = ["Reading", "decoded_chunks"]

Kind = tuple[str | None, str | None]
_COUNTERS = msgspec.json.Decoder(list[CounterEvent])
_DAMAGE = {"torn": "gzip-torn", "corrupt": "gzip-corrupt", "garbage": "gzip-trailing-garbage", "bomb": "decompression-limit"}
_MAX_KINDS = 256
_MEMORY = "[memory]"
_END_MARK = "Record Window End"


def _document(stream: ByteStream, notices: Notices, limits: Limits | None = None) -> JsonDocument[Event]:
    return JsonDocument(stream, "traceEvents", EVENTS, event_from_object, notices.report, single=EXACT_EVENTS, keep=KEPT, limits=limits)


def decoded_chunks(source: SourceFile) -> Iterator[Chunk[Event]]:
    """The events of a trace, decoded and nothing more: what reading costs without building rows."""
    with ByteStream(source.path) as stream:
        yield from _document(stream, Notices())


class Reading:
    """One pass over one file. `run` does all; `limits` bounds memory."""

    def __init__(self, source: SourceFile, emit: Emitter, limits: Limits | None = None) -> None:
        self._source = source
        self._emit = emit
        self._limits = limits
        self._notices = Notices()
        self._python = bool(source.options.get("python_functions", False))
        self._joins = Joins()
        self._comms = CommRecords()
        self._counts: dict[Kind, list[int]] = {}
        self._start: int | None = None
        self._end: int | None = None
        self._end_mark = False
        self._layout = ""

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            document = _document(stream, self._notices, self._limits)
            self._clock = Clock(self._source.path, document.values, self._notices)
            for chunk in document:
                self._chunk(document, chunk)
                self._emit.progress(stream.file_position)
                if self._comms.buffered > MAX_BUFFERED:
                    self._drain(process_group_batch(read_metadata(document.values).pg_config, None)[1])
            self._emit.progress(stream.file_position)
            for damage in stream.damage:
                self._notices.add(_DAMAGE[damage.kind], damage.offset)
            trailing = document.trailing_text(64 << 10) if "trailing-data" in self._notices else b""
            torn = stream.torn or "truncated" in self._notices
            return self._finish(read_metadata(document.values), trailing, torn)

    # events -> rows

    def _chunk(self, document: JsonDocument[Event], chunk: Chunk[Event]) -> None:
        elements = chunk.elements
        if chunk.text and document.decoder is EVENTS and needs_text([e.ts for e in elements if e.ph == "X"]):
            document.decoder = EXACT_EVENTS
            elements = list(EXACT_EVENTS.decode(chunk.text))
        exact = document.decoder is EXACT_EVENTS or not chunk.text
        buckets: defaultdict[Kind, list[Event]] = defaultdict(list)
        for e in elements:
            buckets[e.ph, e.cat].append(e)
        by_table: dict[str, list[tuple[Kind, Role]]] = defaultdict(list)
        for kind, events in buckets.items():
            self._count(kind, len(events), 0)
            if kind[0] == NOT_AN_OBJECT:
                self._notices.add("not-an-object", chunk.offset, len(events))
            role = role_of(*kind)
            by_table[role.table].append((kind, role))
        self._spans(buckets, by_table["gpu"], exact, is_gpu=True)
        self._spans(buckets, by_table["host"] + self._python_kinds(by_table) + self._unknown_kinds(buckets, by_table), exact, is_gpu=False)
        for kind, _ in by_table["memory"]:
            self._memory(kind, buckets[kind], exact)
        if by_table["counter"]:
            self._counters(buckets, [k for k, _ in by_table["counter"]], chunk, exact)

    def _python_kinds(self, by_table: dict[str, list[tuple[Kind, Role]]]) -> list[tuple[Kind, Role]]:
        return by_table["python"] if self._python else []

    def _unknown_kinds(self, buckets: dict[Kind, list[Event]], by_table: dict[str, list[tuple[Kind, Role]]]) -> list[tuple[Kind, Role]]:
        """Spans of unknown categories, reduced to those with numbers for process and thread."""
        for kind, _ in by_table["unknown"]:
            self._notices.add("unknown-category", count=len(buckets[kind]))
            buckets[kind] = [e for e in buckets[kind] if type(e.pid) is int and type(e.tid) is int]
        return by_table["unknown"]

    def _spans(self, buckets: dict[Kind, list[Event]], kinds: Sequence[tuple[Kind, Role]], exact: bool, *, is_gpu: bool) -> None:
        names = GPU_KINDS if is_gpu else HOST_KINDS
        events = [e for kind, _ in kinds for e in buckets[kind]]
        if not events:
            return
        codes = np.repeat(np.array([names.index(r.kind) for _, r in kinds], np.int32), [len(buckets[k]) for k, _ in kinds])
        times = span_times(_plain([e.ts for e in events], exact), _plain([e.dur for e in events], exact))
        self._store(kinds, buckets, times.usable)
        rows = _usable(Rows(events, codes, times))
        if not rows.events:
            return
        rows = Rows(rows.events, rows.codes, Times(self._clock.absolute(rows.times.ts), rows.times.dur, rows.times.usable, rows.times.clamped))
        self._extend(rows.times)
        batch = gpu_batch(rows) if is_gpu else host_batch(rows)
        self._emit.batch(GPU_SPANS if is_gpu else HOST_SPANS, batch)
        if is_gpu:
            self._joins.gpu(batch)
            self._records(rows, [i for i, e in enumerate(rows.events) if e.args.collective is not None], 0)
        else:
            self._joins.host(batch)
            self._records(rows, [i for i, e in enumerate(rows.events) if e.args.dtype is not None or e.args.collective is not None], 1)

    def _records(self, rows: Rows, at: list[int], on: int) -> None:
        if on == 1:
            at = [i for i in at if is_comm_operator(rows.events[i])]
        if at:
            t = rows.times
            self._comms.add([rows.events[i] for i in at], Times(t.ts[at], t.dur[at], t.usable[at], t.clamped[at]), on)

    def _extend(self, times: Times) -> None:
        """Widens the window of the file; starts that were cut say nothing."""
        real = ~times.clamped
        self._notices.add("clamped-time", count=int(np.count_nonzero(times.clamped)))
        if not real.any():
            return
        start, end = int(times.ts[real].min()), int((times.ts[real] + times.dur[real]).max())
        self._start = start if self._start is None else min(self._start, start)
        self._end = end if self._end is None else max(self._end, end)

    def _memory(self, kind: Kind, events: list[Event], exact: bool) -> None:
        self._end_mark = self._end_mark or any(e.name == _END_MARK for e in events)
        events = [e for e in events if e.name == _MEMORY]
        events, ts = self._instants(kind, events, exact)
        if events:
            self._emit.batch(MEMORY_EVENTS, memory_batch(events, ts))

    def _instants(self, kind: Kind, events: list[Event], exact: bool) -> tuple[list[Event], npt.NDArray[np.int64]]:
        """Those with a time, their times, and both counted."""
        times = span_times(_plain([e.ts for e in events], exact), [0] * len(events))
        self._notices.add("bad-time", count=int(np.count_nonzero(~times.usable)))
        kept = np.flatnonzero(times.usable)
        self._count(kind, -len(kept), len(kept))
        return [events[i] for i in kept.tolist()], self._clock.absolute(times.ts[kept])

    def _counters(self, buckets: dict[Kind, list[Event]], kinds: list[Kind], chunk: Chunk[Event], exact: bool) -> None:
        if chunk.text:
            samples = _COUNTERS.decode(chunk.text)
            for kind in kinds:
                for e, sample in zip(buckets[kind], [s for s in samples if (s.ph, s.cat) == kind], strict=True):
                    e.counters = _values(sample.args)
        for kind in kinds:
            events, ts = self._instants(kind, buckets[kind], exact)
            batch = counter_batch(events, [e.counters or {} for e in events], ts)
            if batch.num_rows:
                self._emit.batch(GPU_COUNTERS, batch)

    # counting

    def _count(self, kind: Kind, lost: int, stored: int) -> None:
        if kind not in self._counts and len(self._counts) >= _MAX_KINDS:
            if "too-many-kinds" not in self._notices:
                self._notices.add("too-many-kinds")
            kind = ("other", None)
        counts = self._counts.setdefault(kind, [0, 0])
        counts[0] += lost
        counts[1] += stored

    def _store(self, kinds: Sequence[tuple[Kind, Role]], buckets: dict[Kind, list[Event]], usable: npt.NDArray[np.bool_]) -> None:
        """Moves the events of `kinds` that become rows from the lost to the stored ones."""
        begin = 0
        for kind, _ in kinds:
            end = begin + len(buckets[kind])
            n = int(np.count_nonzero(usable[begin:end]))
            self._count(kind, -n, n)
            self._notices.add("bad-time", count=end - begin - n)
            begin = end

    # the file as a whole

    def _drain(self, groups: Groups) -> None:
        for batch in self._comms.drain(groups):
            self._emit.batch(COMM_RECORDS, batch)

    def _finish(self, meta: Metadata, trailing: bytes, torn: bool) -> SourceInfo:
        notices = self._notices
        batch, groups, cut = process_group_batch(meta.pg_config, meta.world_size)
        if batch.num_rows:
            self._emit.batch(PROCESS_GROUPS, batch)
        self._drain(groups)
        notices.add("list-cut", count=cut + self._comms.cut)
        notices.add("split-list-cut", count=self._comms.cut_splits)
        notices.add("broken-metadata", count=meta.broken)
        if b'"ph"' in trailing or b'"traceEvents"' in trailing:
            notices.add("interleaved-writers")
        if meta.rank is None:
            notices.add("no-rank")
        if not self._counts and "no-json" not in notices:
            notices.add("no-events")
        elif self._counts and not torn and not self._end_mark:
            notices.add("record-end-missing")
        self._clock.confirm()
        self._joins.judge(notices)
        for notice in notices.all():
            self._emit.notice(notice)
        return SourceInfo([self._part(meta)], self._metadata(meta), self._event_counts(), torn)

    def _part(self, meta: Metadata) -> Part:
        device = _most(self._joins.kernels_by_device)
        return Part(
            rank=meta.rank,
            world_size=meta.world_size,
            host=meta.host,
            pid=_most(self._joins.rows_by_pid),
            device=device,
            gpu=meta.gpus.get(device) if device is not None else None,
            backend=meta.backend,
            job=meta.job,
            start_ns=self._start,
            end_ns=self._end,
        )

    def _metadata(self, meta: Metadata) -> dict[str, str]:
        found = dict(meta.plain)
        for key, value in (("pg_count", meta.pg_count), ("nccl_version", meta.nccl_version)):
            if value is not None:
                found[key] = str(value)
        found["vendor"] = meta.vendor(self._joins.gpu_events > 0)
        return dict(sorted(found.items()))

    def _event_counts(self) -> list[EventCount]:
        found: dict[tuple[str, bool], int] = {}
        for (ph, cat), counts in self._counts.items():
            name = f"{ph or '?'} {cat or ''}".strip()[:80]
            for stored in (False, True):
                if counts[stored]:
                    found[name, stored] = found.get((name, stored), 0) + counts[stored]
        return [EventCount(name, n, stored) for (name, stored), n in sorted(found.items())]


def _most(counts: dict[int, int]) -> int | None:
    """The key that is counted most, the smallest of several."""
    return min(counts, key=lambda k: (-counts[k], k)) if counts else None


def _plain(values: list[Any], exact: bool) -> list[Any]:
    """`values` with undecoded numbers as their text."""
    return [bytes(v) if type(v) is msgspec.Raw else v for v in values] if exact else values


def _usable(rows: Rows) -> Rows:
    t = rows.times
    if t.usable.all():
        return rows
    kept = np.flatnonzero(t.usable)
    return Rows([rows.events[i] for i in kept.tolist()], rows.codes[kept], Times(t.ts[kept], t.dur[kept], t.usable[kept], t.clamped[kept]))


def _values(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}

