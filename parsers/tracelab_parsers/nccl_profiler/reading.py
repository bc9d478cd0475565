"""One pass over a dump of NCCL's example profiler.

Events are written when the communicator ends, each operation with what belongs to it between its beginning and its end:
channels of the kernel (`GPU`), transfers of the proxy (`PROXY`), the steps of those (`NET`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tracelab.plugins import Emitter, EventCount, Part, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_json.lines import Line, lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.values import mapping, natural, text
from tracelab_parsers.nccl_profiler.events import events_of
from tracelab_parsers.nccl_profiler.notices import TEXTS
from tracelab_parsers.nccl_profiler.operation import Operation, moment_ns
from tracelab_parsers.nccl_profiler.tables import Tables, Transfer

__all__ = ["Reading"]

_MOST_PARTS = 4096
_MOST_OPEN = 10_000
_MOST_KINDS = 64
_OPERATIONS = frozenset({"COLL", "P2P", "CE_COLL"})
_CALLS = frozenset({"COLL_API", "P2P_API"})
_DIRECTIONS = {"ProgressSend": "send", "Send": "send", "ProgressRecv": "receive", "Recv": "receive"}
"""Names of the proxy's transfers, now and in the first versions; a transfer that waits to begin is another event (ScheduleSend)."""
_BOM = b"\xef\xbb\xbf"

Key = tuple[int, str, str, str | None]


@dataclass(slots=True)
class _Event:
    """One line: the beginning or the end of something."""

    line: int
    offset: int
    part: int
    category: str
    name: str
    key: Key
    ts: object
    args: Mapping[str, Any]


class Reading:
    """Reads `source` once and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(TEXTS)
        self._tables = Tables(emit, self._notices)
        self._parts: dict[int | None, Part] = {}
        self._operations: dict[Key, Operation] = {}
        self._transfers: dict[Key, Transfer] = {}
        self._current: Operation | None = None
        self._call: tuple[Key, str, Mapping[str, Any]] | None = None
        self._counts: Counter[str] = Counter()
        self._closed = False

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            shown = 0
            for line in lines(stream, lambda offset: notices.add("oversized-line", offset)):
                self._take_line(line)
                if stream.file_position > shown:
                    shown = stream.file_position
                    self._emit.progress(shown)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            return self._finish(torn=stream.torn)

    def _take_line(self, line: Line) -> None:
        data = line.text.removeprefix(_BOM) if line.number == 1 else line.text
        found = events_of(data, lambda code: self._notices.add(code, line.offset))
        if found is None:
            # The last line of a killed process is cut, which is told of otherwise.
            if line.whole:
                self._notices.add("bad-line", line.offset)
            return
        if data.rstrip(b" \t\r\n\0").endswith(b"]"):
            self._closed = True
        for value in found:
            if value != {}:
                self._take(value, line)

    def _take(self, value: object, line: Line) -> None:
        event = self._event(value, line)
        if event is None:
            return
        if mapping(value).get("ph") == "b":
            self._begin(event)
        else:
            self._end(event)

    def _event(self, value: object, line: Line) -> _Event | None:
        known = mapping(value)
        category, name, identity = text(known.get("cat")), text(known.get("name")), text(known.get("id"))
        if category is None or name is None or text(known.get("ph")) not in {"b", "e"}:
            self._notices.add("bad-event", line.offset)
            return None
        pid = natural(known.get("pid"))
        if pid not in self._parts and len(self._parts) >= _MOST_PARTS:
            self._notices.add("too-many-processes", line.offset)
            return None
        part = self._parts.setdefault(pid, Part(part=len(self._parts), pid=pid, partial=True)).part
        key = (part, category, name, identity)
        return _Event(line.number, line.offset, part, category, name, key, known.get("ts"), mapping(known.get("args")))

    def _begin(self, event: _Event) -> None:
        if event.category in _OPERATIONS:
            self._make_room(self._operations, self._close_operation, event)
            call = self._call[2] if self._call is not None and self._call[1] == event.name else {}
            self._current = self._operations[event.key] = self._tables.operation(event, call)
        elif event.category in _CALLS:
            self._call = (event.key, event.name, event.args)
        elif event.category == "PROXY" and event.name in _DIRECTIONS:
            self._make_room(self._transfers, self._close_transfer, event)
            if self._current is not None:
                self._current.transfers += 1
            self._transfers[event.key] = Transfer(event.line, event.part, _DIRECTIONS[event.name], moment_ns(event.ts), event.args, self._current)
        elif event.category == "GPU" and event.name == "KernelCh" and self._current is not None:
            self._current.kernel_begins(event.ts, event.args)

    def _make_room(self, opened: Mapping[Key, object], close: Callable[[Key, int | None], bool], event: _Event) -> None:
        """Closes what has the key of the event, and the oldest where too much is open."""
        close(event.key, None)
        if len(opened) >= _MOST_OPEN:
            self._notices.add("too-many-open", event.offset)
            close(next(iter(opened)), None)

    def _end(self, event: _Event) -> None:
        if event.category in _OPERATIONS:
            matched = self._close_operation(event.key, moment_ns(event.ts))
        elif event.category == "PROXY" and event.name in _DIRECTIONS:
            matched = self._close_transfer(event.key, moment_ns(event.ts))
        else:
            self._count(event.category if event.category != "PROXY" else f"PROXY {event.name}")
            if event.category == "GPU" and event.name == "KernelCh" and self._current is not None:
                self._current.kernel_ends(event.ts)
            elif self._call is not None and self._call[0] == event.key:
                self._call = None
            return
        if not matched:
            self._notices.add("unmatched-end", event.offset)

    def _count(self, kind: str) -> None:
        self._counts[kind if kind in self._counts or len(self._counts) < _MOST_KINDS else "other"] += 1

    def _close_operation(self, key: Key, end: int | None) -> bool:
        operation = self._operations.pop(key, None)
        if operation is None:
            return False
        self._tables.add_operation(operation, end)
        self._counts[operation.category] += 1
        if operation is self._current:
            self._current = None
        return True

    def _close_transfer(self, key: Key, end: int | None) -> bool:
        transfer = self._transfers.pop(key, None)
        if transfer is None:
            return False
        self._tables.add_transfer(transfer, end)
        self._counts["PROXY"] += 1
        return True

    def _finish(self, *, torn: bool) -> SourceInfo:
        for key in [*self._transfers]:
            self._close_transfer(key, None)
        for key in [*self._operations]:
            self._close_operation(key, None)
        self._tables.flush()
        notices = self._notices
        notices.add("truncated", count=int(not self._closed))
        notices.add("no-events", count=int(not self._parts))
        notices.add("no-operations", count=int(bool(self._parts) and not any(self._counts[c] for c in _OPERATIONS)))
        notices.add("relative-times", count=int(bool(self._parts)))
        notices.emit(self._emit)
        stored = {*_OPERATIONS, "PROXY"}
        counts = [EventCount(kind, n, kind in stored) for kind, n in sorted(self._counts.items()) if n]
        return SourceInfo([*self._parts.values()] or [Part()], {}, counts, torn or not self._closed)
