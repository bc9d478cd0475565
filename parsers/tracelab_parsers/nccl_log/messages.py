"""What happens with one message or bare line: readers take it, rows follow, kinds are counted."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tracelab.plugins import Notice
from tracelab.tables import TableSpec
from tracelab.tables.logs import CHANNEL_EDGES, COMM_PROGRESS, LOG_EVENTS, NODE_PATHS, RING_ORDERS, TUNING
from tracelab_parsers.nccl_log.bindings import Bindings
from tracelab_parsers.nccl_log.choices import Choice, read_choice
from tracelab_parsers.nccl_log.communicators import CommunicatorReader
from tracelab_parsers.nccl_log.line import LogLine
from tracelab_parsers.nccl_log.lines import Bare, Message
from tracelab_parsers.nccl_log.operations import Call, read_call, read_operation
from tracelab_parsers.nccl_log.prefix import BARE, Front
from tracelab_parsers.nccl_log.processes import Communicator, Opening, Process, Processes
from tracelab_parsers.nccl_log.readers import Readers
from tracelab_parsers.nccl_log.rows import RowStore, event_row

__all__ = ["LoggedCall", "Messages"]

LoggedCall = tuple[LogLine, Process, Communicator | None, Call]

_VERSION = re.compile(r"\b([NR])CCL version ?:? ?(\d{1,3}(?:\.\d{1,4}){1,3})")
_NEIGHBOURS = frozenset({"ring", "ring_order", "trees", "tree", "channel", "collnet", "nvls_tree", "channels", "connected", "graph", "tuning"})
_SHAPES = 4_096
_SHOWN = 5
_WITH_COMM = frozenset({t.name for t in (CHANNEL_EDGES, COMM_PROGRESS, NODE_PATHS, RING_ORDERS, TUNING)})


class Messages:
    """Handles messages in the order of lines. It is the `Rows` of the readers. `calls` and `choices` gather until they are fetched."""

    def __init__(self, processes: Processes, store: RowStore, communicators: CommunicatorReader, readers: Readers) -> None:
        self._processes = processes
        self._store = store
        self._communicators = communicators
        self._readers = readers
        self._front: Front = BARE
        self._fields = 0
        self._asked: LogLine | None = None
        self.calls: list[LoggedCall] = []
        self.choices: list[Choice] = []
        self.kinds: Counter[str] = Counter()
        self.shapes: Counter[str] = Counter()
        self.with_fields = 0
        self.bindings: Bindings | None = None

    # --- the interface of readers

    def add(self, table: TableSpec, line: LogLine, **values: object) -> None:
        """See `Rows.add`."""
        process = self._process(line)
        if process is None:
            return
        self._fields += 1
        row: dict[str, Any] = {"part": process.part, "line": line.number, "source_ts_ns": line.source_ts_ns, **values}
        if "comm" not in values and line.level and table.name in _WITH_COMM:
            row["comm"] = self._working_on(line, process)
        self._store.put(table, row)

    def notice(self, notice: Notice) -> None:
        """See `Rows.notice`."""
        self._store.notice(notice)

    def version(self, line: LogLine) -> tuple[int, ...]:
        """See `Rows.version`."""
        if line.part is not None and self._processes.all[line.part].version != (0,):
            return self._processes.all[line.part].version
        return self._processes.version

    def _process(self, line: LogLine) -> Process | None:
        if line.part is not None:
            return self._processes.all[line.part]
        if line.rank_label is not None:
            for name in ("rank", "mpi"):
                found = self._processes.labelled(f"{name} {line.rank_label}")
                if found is not None:
                    return found
            return self._processes.speaker(f"rank {line.rank_label}", line.rank_label, True)
        return self._processes.speaker(None, None, False)

    def _working_on(self, line: LogLine, process: Process) -> Communicator | Opening | None:
        if self.bindings is not None and line is not self._asked and self._processes.states_starts(process):
            self._asked = line
            thread = process.thread(line.tid)
            last = self.bindings.last_of(process.part, line.tid or 0, line.number)
            if last is not None and last[0] > thread.last_line:
                thread.last_line, thread.last = last
        return self._communicators.working_on(line, process)

    # --- lines

    def bare(self, bare: Bare) -> None:
        """A line without the library's prefix."""
        label = bare.front.label
        process = self._processes.labelled(label) if label is not None else None
        rank = bare.front.rank if bare.front.sure else None
        line = LogLine(bare.number, bare.text, process.part if process is not None else None, rank_label=rank)
        self._front = bare.front
        self._fields = 0
        if "CCL version" in bare.text:
            self._note_version(bare.text, process)
        for reader in self._readers.bare:
            kind = reader.take(line, self)
            if kind is not None:
                self._event(line, self._process(line), kind, None)
                return

    def message(self, message: Message, process: Process) -> None:
        """A message of the library."""
        head, front = message.head, message.front
        rank = front.rank if front.sure else None
        line = LogLine(
            message.number,
            message.text,
            process.part,
            message.level,
            process.host,
            process.pid,
            head.tid,
            head.device,
            head.where,
            rank,
            front.source_ts_ns,
            front.local_ts_ns,
        )
        process.saw(front.source_ts_ns)
        self._front = front
        self._fields = 0
        if not self._operation(line, process):
            self._other(line, process)

    def _operation(self, line: LogLine, process: Process) -> bool:
        text = line.text
        call = read_operation(text) if ": opCount " in text[:64] else read_call(text) if line.level == "CALL" else None
        if call is None:
            return False
        comm = self.seen(line.number, process, call.comm, call.size or 0) if call.comm is not None else None
        if call.global_rank is not None:
            self.note_rccl(process, call.global_rank)
        if comm is not None:
            thread = process.thread(line.tid)
            thread.last, thread.last_line = comm, line.number
        self.calls.append((line, process, comm, call))
        return True

    def _other(self, line: LogLine, process: Process) -> None:
        if "CCL version" in line.text:
            self._note_version(line.text, process)
        kind = self._communicators.take(line, process)
        comm: Communicator | Opening | None = self._communicators.comm
        if kind is not None:
            self._fields += 1
        elif " Bytes -> " in line.text[:80] and (choice := read_choice(line, process.part, self.version(line))) is not None:
            kind = "choice"
            self._fields += 1
            self.choices.append(choice)
        else:
            for reader in self._readers.library:
                kind = reader.take(line, self)
                if kind is not None:
                    break
        if comm is None:
            comm = self._event_comm(line, process, kind)
        self._event(line, process, kind, comm)

    def _event_comm(self, line: LogLine, process: Process, kind: str | None) -> Communicator | Opening | None:
        """The communicator of a message that names none: only of one who initialises, or speaks of neighbours."""
        thread = process.thread(line.tid)
        if thread.initialising is not None:
            return thread.initialising
        if kind in _NEIGHBOURS:
            return self._working_on(line, process)
        return None if self._processes.states_starts(process) else self._communicators.working_on(line, process)

    def _event(self, line: LogLine, process: Process | None, kind: str | None, comm: Communicator | Opening | None) -> None:
        if process is None:
            return
        shape = None
        if kind is None:
            from tracelab_parsers.nccl_log.kinds import shape as shape_of

            kind, shape = "unknown", shape_of(line.text)
            if shape in self.shapes or len(self.shapes) < _SHAPES:
                self.shapes[shape] += 1
        self.kinds[kind] += 1
        self.with_fields += self._fields > 0
        self._store.put(LOG_EVENTS, event_row(line, process.part, kind, comm, shape))

    # --- communicators and versions

    def seen(self, line: int, process: Process, pointer: int, size: int) -> Communicator | None:
        """The communicator that an operation names, a new one where nothing was said of it before."""
        comm = process.bound.get(pointer)
        if comm is None:
            comm = self._communicators.create(line, process, pointer)
        if comm is not None and comm.size is None and size:
            comm.size = size
        return comm

    def note_rccl(self, process: Process, rank: int) -> None:
        """RCCL prints the rank of the job."""
        process.library = "rccl"
        if process.global_rank is None:
            process.global_rank = rank

    def _note_version(self, text: str, process: Process | None) -> None:
        m = _VERSION.search(text)
        if m is None:
            return
        version = tuple(int(v) for v in m[2].split("."))
        library = "rccl" if m[1] == "R" else "nccl"
        targets: list[Process | Processes] = [self._processes] if process is None else [process, self._processes]
        for target in targets:
            if target.version == (0,) or target is process:
                target.version, target.version_text, target.library = version, m[2], library

    def unknown(self) -> Notice | None:
        """What is said of messages that nobody knows."""
        count = self.kinds["unknown"]
        if not count:
            return None
        common = sorted(self.shapes.items(), key=lambda s: (-s[1], s[0]))[:_SHOWN]
        listed = "; ".join(f"{shape!r} ({n})" for shape, n in common)
        return Notice("unknown-message", "info", f"messages are of no known kind and were kept as text; the commonest: {listed}", count=count)
