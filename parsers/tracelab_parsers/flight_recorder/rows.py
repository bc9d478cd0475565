"""Rows of a dump: operations, communicators, process groups and how far each group came."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tracelab.plugins import Emitter
from tracelab.tables import COMM_PROGRESS, COMMUNICATORS, LOGGED_COLLECTIVES, PROCESS_GROUPS
from tracelab_parsers.flight_recorder.contents import Group, Header, Launch, Progress, Record
from tracelab_parsers.flight_recorder.names import COALESCED, UNKNOWN, element_type, ends, operation
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.nccl_json.values import natural, text

__all__ = ["RowWriter"]

_HELD = 8_000
_KEPT = 4_000
_FRAMES = 16
_FRAME_CHARS = 240
_MOST_TENSORS = 65_536
_MOST_DIMENSIONS = 64
_BUDGET = 20_000_000
_LARGEST = (1 << 63) - 1


class RowWriter:
    """Turns records into rows, in their order.

    The operations inside of a group (`batch_isend_irecv`) are recorded without events: their state never changes. Theirs is
    that of the entry `coalesced`, which stands for the launch of the group and follows them. Rows are held until it is known.
    """

    def __init__(self, emit: Emitter, header: Header, notices: Notices) -> None:
        self._emit = emit
        self._header = header
        self._notices = notices
        self._operations = RowBuffer(LOGGED_COLLECTIVES, emit)
        self._held: list[tuple[tuple[Launch, bool], dict[str, Any]]] = []
        self._launched: dict[tuple[Launch, bool], str] = {}
        self._members: set[tuple[Launch, bool]] = set()
        self._groups: dict[str | int | None, tuple[int, Group | None]] = {}
        self._of_pg_id: dict[int, tuple[str | None, str | None]] = {}
        self._given_up: dict[int, dict[str, Any]] = {}
        self._budget = _BUDGET
        self._first_record: int | None = None
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.operations = 0
        self.states = 0
        for group in header.groups:
            self._groups[group.name] = (len(self._groups), group)

    def add(self, record: Record, line: int) -> None:
        """Adds the row of a record; `line` is its number in the dump."""
        comm, group = self._communicator(record)
        self._note(record)
        row = self._row(record, comm, group, line)
        key = (record.launch, record.point_to_point)
        if record.title.rpartition(":")[2].strip().lower() == COALESCED:
            self._launched[key] = record.state
            if key in self._members and row["in_bytes"] is None:
                # What it moves, the rows of its operations say.
                row |= {"in_bytes": 0, "out_bytes": 0}
        else:
            self._members.add(key)
        pg_id = record.launch.pg_id
        if pg_id is not None and record.retired and record.state != "completed":
            self._given_up.setdefault(pg_id, row)
        self._held.append((key, row))
        self.operations += 1
        if len(self._held) >= _HELD:
            self._write(_HELD - _KEPT)

    def close(self, rank: int | None) -> None:
        """Writes what is held and all that stands beside the entries; `rank` is that of the writer, where known."""
        self._write(len(self._held))
        self._operations.flush()
        self._write_communicators(rank)
        self._write_groups()
        self._write_progress(rank)
        self._notices.add("overwritten-operations", count=self._first_record or 0)

    def _write(self, count: int) -> None:
        for key, row in self._held[:count]:
            self._operations.add(**(row | {"state": self._launched.get(key, row["state"])}))
        del self._held[:count]
        waiting = {key for key, _ in self._held}
        self._members &= waiting
        if self._launched:
            self._launched = {key: state for key, state in self._launched.items() if key in waiting}

    def _communicator(self, record: Record) -> tuple[int | None, Group | None]:
        key: str | int | None = record.group if record.group is not None else record.launch.pg_id
        if key is None:
            return None, None
        if key not in self._groups:
            self._groups[key] = (len(self._groups), Group(record.group, record.group_desc, None) if record.group is not None else None)
        if record.launch.pg_id is not None:
            self._of_pg_id.setdefault(record.launch.pg_id, (record.group, record.group_desc))
        return self._groups[key]

    def _note(self, record: Record) -> None:
        if record.created_ns is not None:
            self.start_ns = record.created_ns if self.start_ns is None else min(self.start_ns, record.created_ns)
            self.end_ns = record.created_ns if self.end_ns is None else max(self.end_ns, record.created_ns)
        if record.record_id is not None:
            self._first_record = record.record_id if self._first_record is None else min(self._first_record, record.record_id)
        self._notices.add("unknown-state", count=int(not record.stated))

    def _row(self, record: Record, comm: int | None, group: Group | None, line: int) -> dict[str, Any]:
        what = operation(record.title, point_to_point=record.point_to_point)
        pair = ends(record.title)
        given, given_bytes, given_type = self._tensors(record.values, "input")
        taken, taken_bytes, taken_type = self._tensors(record.values, "output")
        return {
            "part": 0,
            "line": line,
            "source_ts_ns": record.created_ns,
            "dur_ns": record.duration_ns,
            "origin": "flight-recorder",
            "comm": comm,
            "seq": record.seq,
            "operation": what,
            "count": _count(what, given, taken),
            "dtype": taken_type if given is None else given_type,
            "in_bytes": 0 if what == "recv" else given_bytes,
            "out_bytes": 0 if what == "send" else taken_bytes,
            "peer": pair.peer if pair is not None else None,
            "size": group.size if group is not None else None,
            "state": record.state,
            "stack": _stack(record.values.get("frames")),
        }

    def _tensors(self, values: Mapping[str, Any], what: str) -> tuple[int | None, int | None, str | None]:
        """Elements, bytes and element type of the tensors of an operation; None where they are not stated or not known."""
        shapes, types = values.get(f"{what}_sizes"), values.get(f"{what}_dtypes")
        if not isinstance(shapes, list | tuple) or not shapes:
            return None, None, None
        self._budget -= len(shapes)
        if len(shapes) > _MOST_TENSORS or self._budget < 0:
            self._notices.add("too-many-sizes")
            return None, None, None
        amounts = [self._elements(s) for s in shapes]
        elements = _sum(amounts)
        names = [t for t in types if isinstance(t, str)] if isinstance(types, list | tuple) else []
        if len(names) != len(shapes):
            return elements, None, None
        kinds = [element_type(n[:64]) for n in names]
        self._notices.add("unknown-element-type", count=int(any(k.size is None for k in kinds)))
        size = _sum([n * k.size if n is not None and k.size is not None else None for n, k in zip(amounts, kinds, strict=True)])
        return elements, size, kinds[0].name if len(set(kinds)) == 1 else None

    def _elements(self, shape: object) -> int | None:
        """Elements of a tensor; 1 without dimensions."""
        if not isinstance(shape, list | tuple) or len(shape) > _MOST_DIMENSIONS:
            return None
        self._budget -= len(shape)
        if not all(type(n) is int and 0 <= n <= _LARGEST for n in shape):
            return None
        return math.prod(shape)

    def _write_communicators(self, rank: int | None) -> None:
        rows = RowBuffer(COMMUNICATORS, self._emit)
        for number, (comm, group) in enumerate(self._groups.values(), 1):
            ranks = group.ranks if group is not None else None
            rows.add(
                part=0,
                line=number,
                comm=comm,
                comm_rank=ranks.index(rank) if ranks and rank is not None and rank in ranks else None,
                size=group.size if group is not None else None,
                state="seen",
                group_name=group.name if group is not None else None,
                group_desc=group.desc if group is not None else None,
                version=self._header.library,
            )
        rows.flush()

    def _write_groups(self) -> None:
        rows = RowBuffer(PROCESS_GROUPS, self._emit, batch_rows=1_000)
        for g in self._header.groups:
            rows.add(part=0, group_name=g.name, group_desc=g.desc, size=g.size, group_ranks=list(g.ranks) if g.ranks else None)
        rows.flush()

    def _write_progress(self, rank: int | None) -> None:
        rows = RowBuffer(COMM_PROGRESS, self._emit)
        for number, p in enumerate(self._header.progress, 1):
            name, desc = self._of_pg_id.get(p.pg_id, (None, None))
            comm, group = self._groups.get(name if name is not None else p.pg_id, (None, None))
            given_up = self._given_up.get(p.pg_id, {})
            rows.add(
                part=0,
                line=number,
                origin="flight-recorder",
                comm=comm,
                group_name=name,
                group_desc=group.desc if group is not None else desc,
                subject_rank=rank,
                size=group.size if group is not None else None,
                operation=given_up.get("operation"),
                timed_out=given_up.get("seq"),
                in_bytes=given_up.get("in_bytes"),
                last_enqueued=p.enqueued,
                last_started=p.started,
                last_completed=p.completed,
                status=_status(p, given_up=bool(given_up)),
                text=f"enqueued {_shown(p.enqueued)}, started {_shown(p.started)}, completed {_shown(p.completed)}",
            )
            self.states += 1
        rows.flush()


def _status(p: Progress, *, given_up: bool) -> str:
    if given_up:
        return "timed-out"
    return "ok" if p.enqueued is not None and p.completed == p.enqueued else "running"


def _shown(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _sum(numbers: list[int | None]) -> int | None:
    known = [n for n in numbers if n is not None]
    total = sum(known)
    return total if len(known) == len(numbers) and total <= _LARGEST else None


def _count(what: str, given: int | None, taken: int | None) -> int | None:
    """The elements that the call states: what it receives for reduce_scatter and scatter, nothing certain for all_to_all and groups."""
    if what in ("all_to_all", "send_recv", UNKNOWN):
        return None
    return taken if what in ("reduce_scatter", "scatter") else given


def _stack(frames: object) -> str | None:
    """The innermost frames, which the recorder writes first."""
    if not isinstance(frames, list | tuple):
        return None
    lines = []
    for f in frames[:_FRAMES]:
        if isinstance(f, Mapping):
            where, line, name = text(f.get("filename")) or "?", natural(f.get("line")), text(f.get("name")) or "?"
            lines.append(" ".join(f"{where}:{'?' if line is None else line} {name}".split())[:_FRAME_CHARS])
    return "\n".join(lines) or None
