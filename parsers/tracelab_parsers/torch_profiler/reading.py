"""Reads one trace from its bytes to its rows, and describes it."""

from __future__ import annotations

from collections.abc import Iterator

from tracelab.plugins import Emitter, Part, SourceFile, SourceInfo
from tracelab.tables import PROCESS_GROUPS
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.json_chunks import Chunk, Limits
from tracelab_parsers.json_document import JsonDocument
from tracelab_parsers.torch_profiler.clock import Clock
from tracelab_parsers.torch_profiler.comms import Ranges, process_group_batch
from tracelab_parsers.torch_profiler.events import EVENTS, EXACT_EVENTS, Event, event_from_object
from tracelab_parsers.torch_profiler.metadata import KEPT, Metadata, read_metadata
from tracelab_parsers.torch_profiler.notices import Notices
from tracelab_parsers.torch_profiler.rows import EventChunk, RowWriter
from tracelab_parsers.torch_profiler.times import needs_text

__all__ = ["Reading", "decoded_chunks"]

_DAMAGE = {"torn": "gzip-torn", "corrupt": "gzip-corrupt", "garbage": "gzip-trailing-garbage", "bomb": "decompression-limit"}
_TRAILING_BYTES = 64 << 10
_HEADS = frozenset({"schemaVersion", "distributedInfo", "traceEvents"})
"""Top-level keys that the arguments of no event have."""


def _document(stream: ByteStream, notices: Notices, limits: Limits | None = None) -> JsonDocument[Event]:
    return JsonDocument(stream, "traceEvents", EVENTS, event_from_object, notices.report, single=EXACT_EVENTS, keep=KEPT, heads=_HEADS, limits=limits)


def decoded_chunks(source: SourceFile) -> Iterator[Chunk[Event]]:
    """The events of a trace, decoded and nothing more: what reading costs without building rows."""
    with ByteStream(source.path) as stream:
        yield from _document(stream, Notices())


class Reading:
    """One pass over one file. `limits` bounds memory."""

    def __init__(self, source: SourceFile, emit: Emitter, limits: Limits | None = None) -> None:
        self._source = source
        self._emit = emit
        self._limits = limits
        self._notices = Notices()
        self._ranges = Ranges()

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            document = _document(stream, self._notices, self._limits)
            clock = Clock(self._source.path, document.values, self._notices)
            rows = RowWriter(self._emit, clock, self._notices, python_functions=bool(self._source.options.get("python_functions", False)))
            for chunk in document:
                rows.add(self._opened(document, chunk))
                self._emit.progress(stream.file_position)
                if rows.holds_much:
                    meta = read_metadata(document.values)
                    rows.release(process_group_batch(meta.pg_config, meta.world_size, self._ranges)[1])
            self._emit.progress(stream.file_position)
            for damage in stream.damage:
                self._notices.add(_DAMAGE[damage.kind], damage.offset)
            self._judge_writers(document)
            clock.confirm()
            info = self._finish(read_metadata(document.values), rows, stream.torn or document.torn or "truncated" in self._notices)
            if rows.start_ns is not None:
                info.metadata["generation"] = _generation(clock, document.decoder is EXACT_EVENTS)
                info.parts[0].time_base_ns = clock.base_ns
                info.parts[0].time_base_lost = clock.counts_from_base and clock.base_ns is None
            return info

    def _opened(self, document: JsonDocument[Event], chunk: Chunk[Event]) -> EventChunk:
        """The chunk, decoded again with its times as text where floats cannot hold them; so is what follows."""
        if document.decoder is EVENTS and not chunk.singly and needs_text([e.ts for e in chunk.elements if e.ts is not None]):
            document.decoder = EXACT_EVENTS
            return EventChunk(EXACT_EVENTS.decode(chunk.text), chunk.text, chunk.offset)
        return EventChunk(chunk.elements, chunk.text, chunk.offset)

    def _judge_writers(self, document: JsonDocument[Event]) -> None:
        """A second trace after the first, or top-level keys that stand twice in a damaged file, were written by another process."""
        notices = self._notices
        if "interleaved-writers" in notices:
            return
        text = document.trailing_text(_TRAILING_BYTES) if "trailing-data" in notices else b""
        twice = "duplicate-key" in notices and ("bad-event" in notices or "broken-metadata" in notices)
        notices.add("interleaved-writers", count=int(twice or b'"ph"' in text or b'"traceEvents"' in text))

    def _finish(self, meta: Metadata, rows: RowWriter, torn: bool) -> SourceInfo:
        batch, groups, cut = process_group_batch(meta.pg_config, meta.world_size, self._ranges)
        if batch is not None:
            self._emit.batch(PROCESS_GROUPS, batch)
        rows.release(groups)
        notices = self._notices
        cut_ranks, cut_splits = rows.cut_lists
        notices.add("list-cut", count=cut + cut_ranks)
        notices.add("group-too-large", count=self._ranges.refused)
        notices.add("split-list-cut", count=cut_splits)
        notices.add("broken-metadata", count=meta.broken)
        notices.add("no-rank", count=int(meta.rank is None))
        notices.add("no-events", count=int(not rows.counts and "no-json" not in notices))
        notices.add("record-end-missing", count=int(bool(rows.counts) and not torn and not rows.end_mark))
        rows.joins.judge(notices)
        for notice in notices.all():
            self._emit.notice(notice)
        return SourceInfo([_part(meta, rows)], _facts(meta, rows), rows.counts.result(), torn)


def _generation(clock: Clock, fractions: bool) -> str:
    """How the trace counts time, which tells the age of the profiler: until March 2024, until May 2024, or since."""
    return "relative" if clock.counts_from_base else "absolute-ns" if fractions else "absolute-us"


def _part(meta: Metadata, rows: RowWriter) -> Part:
    device = _most(rows.joins.kernels_by_device)
    return Part(
        rank=meta.rank,
        world_size=meta.world_size,
        host=meta.host,
        pid=_most(rows.joins.rows_by_pid),
        device=device,
        gpu=meta.gpus.get(device) if device is not None else None,
        backend=meta.backend,
        job=meta.job,
        start_ns=rows.start_ns,
        end_ns=rows.end_ns,
    )


def _facts(meta: Metadata, rows: RowWriter) -> dict[str, str]:
    found = dict(meta.plain)
    for key, value in (("pg_count", meta.pg_count), ("nccl_version", meta.nccl_version)):
        if value is not None:
            found[key] = str(value)
    found["vendor"] = meta.vendor(rows.joins.gpu_events > 0)
    return dict(sorted(found.items()))


def _most(counts: dict[int, int]) -> int | None:
    """The key that is counted most, the smallest of several."""
    return min(counts, key=lambda k: (-counts[k], k)) if counts else None
