"""Reads one dump from its bytes to its rows, and describes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tracelab.errors import TracelabError
from tracelab.plugins import Emitter, EventCount, Part, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.flight_recorder.contents import Header, Ranks, Record, read_header, read_record
from tracelab_parsers.flight_recorder.notices import TEXTS
from tracelab_parsers.flight_recorder.plain_pickle import Limits, load_plain
from tracelab_parsers.flight_recorder.rows import RowWriter
from tracelab_parsers.flight_recorder.sniffing import PICKLE
from tracelab_parsers.json_chunks import Limits as JsonLimits
from tracelab_parsers.json_document import JsonDocument
from tracelab_parsers.nccl_json.notices import Notices

__all__ = ["MOST_BYTES", "Reading"]

MOST_BYTES = 128 << 20
"""A pickle is read as a whole: a dump of 100,000 operations with their stacks has 40 MB."""

_BLOCK = 1 << 20
_MOST_ENTRIES = 1_000_000
_ENTRIES = "entries"
_TOP = frozenset({"version", "comm_lib_version", "nccl_version", "rank", "pg_config", "pg_status"})
_KNOWN_VERSION = re.compile(r"2\.\d{1,3}")
_LAST_KEY = "state"
_ANY = msgspec.json.Decoder(list[Any])
_JSON_LIMITS = JsonLimits(value=32 << 20)


class Reading:
    """One pass over a pickle, two over JSON: its keys are sorted, and what the entries refer to stands behind them."""

    def __init__(self, source: SourceFile, emit: Emitter, limits: Limits | None = None) -> None:
        self._source = source
        self._emit = emit
        self._limits = limits
        self._notices = Notices(TEXTS)
        self._torn = False

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read, `TracelabError` where it is no dump."""
        with ByteStream(self._source.path) as stream:
            pickled = stream.read(1) == PICKLE
        info = self._pickle() if pickled else self._json()
        self._notices.emit(self._emit)
        return info

    def _pickle(self) -> SourceInfo:
        with ByteStream(self._source.path) as stream:
            data = _all(stream)
            self._damage(stream)
        if len(data) > MOST_BYTES:
            raise TracelabError(
                f"{self._source.name}: the dump has more than {MOST_BYTES >> 20} MiB, and a pickle cannot be read in pieces",
                hint="dump fewer operations (TORCH_FR_BUFFER_SIZE), or as JSON",
            )
        loaded = load_plain(data, self._source.name, self._limits)
        self._torn = self._torn or loaded.torn
        if loaded.torn:
            self._notices.add("truncated", loaded.end)
        elif data[loaded.end :].strip(b"\0"):
            self._notices.add("trailing-data", loaded.end)
        top = {_ENTRIES: loaded.value} if isinstance(loaded.value, list) else loaded.value
        if not isinstance(top, dict) or not (top.keys() & (_TOP | {_ENTRIES}) or loaded.torn):
            raise self._stranger()
        entries = top.get(_ENTRIES)
        self._emit.progress(self._source.path.stat().st_size)
        return self._write(read_header(top), self._whole(entries if isinstance(entries, list | tuple) else ()))

    def _whole(self, entries: list[Any] | tuple[Any, ...]) -> Iterable[object]:
        """The entries; of a torn dump without the last one where that is not complete."""
        self._notices.add("too-many-entries", count=max(0, len(entries) - _MOST_ENTRIES))
        last = entries[-1] if entries else None
        cut = self._torn and not (isinstance(last, dict) and _LAST_KEY in last)
        return entries[: min(_MOST_ENTRIES, len(entries) - int(cut and bool(entries)))]

    def _json(self) -> SourceInfo:
        with ByteStream(self._source.path) as stream:
            # No array is asked for: entries are passed over like any other value.
            document = JsonDocument(stream, "", _ANY, _same, _unheard, keep=_TOP, limits=_JSON_LIMITS)
            bare = any(document.bare for _ in document) or document.bare
            top = {key: _decoded(raw) for key, raw in document.values.items()}
        with ByteStream(self._source.path) as stream:
            document = JsonDocument(stream, _ENTRIES, _ANY, _same, self._report, keep=_TOP, limits=_JSON_LIMITS)
            info = self._write(read_header(top), self._streamed(document, stream))
            self._damage(stream)
        info.truncated = self._torn = self._torn or document.torn or "truncated" in self._notices
        if not (top or info.events or bare or self._torn or "no-json" in self._notices):
            raise self._stranger()
        return info

    def _streamed(self, document: JsonDocument[Any], stream: ByteStream) -> Iterator[object]:
        for chunk in document:
            yield from chunk.elements
            self._emit.progress(stream.file_position)
        self._emit.progress(stream.file_position)

    def _report(self, code: str, offset: int) -> None:
        self._notices.add(code, offset)

    def _damage(self, stream: ByteStream) -> None:
        self._notices.damage(stream.damage)
        self._torn = self._torn or stream.torn

    def _stranger(self) -> TracelabError:
        return TracelabError(
            f"{self._source.name}: holds none of the keys of a flight-recorder dump", hint="remove it from the directory, or name another parser for it"
        )

    def _write(self, header: Header, entries: Iterable[object]) -> SourceInfo:
        writer, ranks = RowWriter(self._emit, header, self._notices), Ranks(header)
        for line, entry in enumerate(entries, 1):
            record: Record | None = read_record(entry)
            if record is None:
                self._notices.add("bad-entry")
                continue
            ranks.see(record)
            writer.add(record, line)
        writer.close(ranks.found)
        self._judge(header, writer, ranks)
        counts = [EventCount("operation", writer.operations, stored=True), EventCount("group status", writer.states, stored=True)]
        part = Part(rank=ranks.found, world_size=header.world_size, backend=None, start_ns=writer.start_ns, end_ns=writer.end_ns)
        facts = {"dump_version": header.version, "library_version": header.library}
        return SourceInfo([part], {k: v for k, v in facts.items() if v is not None}, [c for c in counts if c.count], self._torn)

    def _judge(self, header: Header, writer: RowWriter, ranks: Ranks) -> None:
        notices = self._notices
        notices.add("no-entries", count=int(not writer.operations and "no-json" not in notices))
        notices.add("unknown-version", count=int(header.version is not None and not _KNOWN_VERSION.fullmatch(header.version)))
        # A list that the end of the file cut is told with that.
        notices.add("bad-ranks", count=0 if self._torn else header.cut_groups)
        notices.add("contradictory-writer", count=int(ranks.contradictory))


def _all(stream: ByteStream) -> bytes:
    """The rest of the file, but not more than one block beyond `MOST_BYTES`."""
    pieces, size = [], 0
    while size <= MOST_BYTES and (piece := stream.read(_BLOCK)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _same(value: object) -> object:
    return value


def _unheard(code: str, offset: int) -> None:
    """The second pass tells of what is wrong."""


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
