"""Reads one log from its bytes to its rows, and describes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables.logs import COMMUNICATORS
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_log.bindings import Bindings
from tracelab_parsers.nccl_log.blocks import BLOCK_BYTES, Block, blocks
from tracelab_parsers.nccl_log.columns import NO_TIME, Columns, TailReader, columns_of
from tracelab_parsers.nccl_log.communicators import CommunicatorReader
from tracelab_parsers.nccl_log.lines import Bare, Message, take_apart, worth_reading
from tracelab_parsers.nccl_log.messages import LoggedCall, Messages
from tracelab_parsers.nccl_log.notices import Notices
from tracelab_parsers.nccl_log.operations import Operations, OperationStore, joined, name_code
from tracelab_parsers.nccl_log.prefix import Front, Prefixes
from tracelab_parsers.nccl_log.processes import Communicator, Process, Processes
from tracelab_parsers.nccl_log.readers import readers
from tracelab_parsers.nccl_log.rows import RowStore
from tracelab_parsers.nccl_log.scanning import Ints, Scan, scan

__all__ = ["Reading"]

_DAMAGE = {"torn": "gzip-torn", "corrupt": "gzip-corrupt", "garbage": "gzip-trailing-garbage", "bomb": "decompression-limit"}
_OPERATION = "operation"
_CALL = "call_operation"


class Reading:
    """One pass over one file. `in_columns`: operations are found in whole blocks; without it every line is read alone."""

    def __init__(self, source: SourceFile, emit: Emitter, *, block_bytes: int = BLOCK_BYTES, in_columns: bool = True) -> None:
        self._source = source
        self._emit = emit
        self._block_bytes = block_bytes
        self._in_columns = in_columns
        self._notices = Notices()
        self._prefixes = Prefixes()
        self._processes = Processes(self._notices)
        self._communicators = CommunicatorReader(self._processes, self._notices)
        self._store = RowStore(emit, self._notices)
        self._readers = readers()
        self._messages = Messages(self._processes, self._store, self._communicators, self._readers)
        self._operations = OperationStore(emit, self._notices)
        self._calls = 0
        self._tails = TailReader()
        self._line = 1

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            for block in blocks(stream, self._notices, self._block_bytes):
                self._block(block)
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            for damage in stream.damage:
                self._notices.add(_DAMAGE[damage.kind], damage.offset)
            torn = stream.torn
        for reader in self._readers.library:
            reader.finish(self._messages)
        self._operations.close()
        self._store.close()
        return self._finish(torn)

    # --- one block

    def _block(self, block: Block) -> None:
        found = scan(block.data)
        columns = columns_of(block.data, self._line, found, self._prefixes, self._tails) if self._in_columns else None
        items = self._single_lines(block, found, columns)
        self._line += len(found.begins) - (not block.data.endswith(b"\n"))
        self._learn_hosts(columns, items)
        items = self._unglued(items)
        speakers = self._speakers(columns, items)
        fast = self._bound(columns, speakers) if columns is not None and len(columns.row) else None
        bindings = self._messages.bindings
        for item in items:
            if bindings is not None:
                bindings.upto(item.number)
            if isinstance(item, Bare):
                self._messages.bare(item)
            else:
                self._message(item)
            if self._communicators.changed:
                self._forget(item.number)
        self._end_of_block(fast)

    def _single_lines(self, block: Block, found: Scan, columns: Columns | None) -> list[Message | Bare]:
        """Lines that are no operations, or that no columns took."""
        left = found.ends > found.begins
        if columns is not None:
            left[found.at[columns.row]] = False
        at = np.flatnonzero(left)
        at = at[worth_reading(block.data, found.begins[at], found.ends[at])]
        out: list[Message | Bare] = []
        for number, begin, end in zip((at + self._line).tolist(), found.begins[at].tolist(), found.ends[at].tolist(), strict=True):
            out += take_apart(block.data[begin:end], number, self._prefixes)
        return out

    def _learn_hosts(self, columns: Columns | None, items: Iterable[Message | Bare]) -> None:
        """Hosts of lines of their own, before hosts with text glued to them are looked at."""
        heads = [s.head for s in columns.speakers] if columns is not None else []
        heads += [item.head for item in items if isinstance(item, Message) and item.front.clean]
        for head in heads:
            self._processes.clean_host(head.host, head.pid)

    def _speakers(self, columns: Columns | None, items: Iterable[Message | Bare]) -> list[Process | None]:
        """The processes of the columns' speakers. All processes and labels of the block are known afterwards, in the order of lines."""
        known = list(columns.speakers) if columns is not None else []
        firsts = [(s.line, i, s.head, s.front) for i, s in enumerate(known)]
        firsts += [(item.number, -1, item.head, item.front) for item in items if isinstance(item, Message)]
        found: list[Process | None] = [None] * len(known)
        seen: set[tuple[str, int, str | None]] = set()
        for _, place, head, front in sorted(firsts, key=lambda f: f[0]):
            key = (head.host, head.pid, front.label)
            if place >= 0 or key not in seen:
                seen.add(key)
                process = self._named(head.host, head.pid, front)
                if place >= 0:
                    found[place] = process
        return found

    def _named(self, host: str, pid: int, front: Front) -> Process | None:
        process = self._processes.of(host, pid, front.label if front.sure else None)
        if process is not None and front.label is not None:
            self._processes.name(process, front.label, front.rank, front.sure)
        return process

    def _unglued(self, items: list[Message | Bare]) -> list[Message | Bare]:
        """Gives text that was glued to a host back to the piece of line before it."""
        for i, item in enumerate(items):
            if not isinstance(item, Message) or item.front.clean:
                continue
            self._notices.add("glued-message")
            host = self._processes.true_host(item.head.host, item.head.pid)
            extra = item.head.host.removesuffix(host)
            if extra and i and items[i - 1].number == item.number:
                items[i - 1] = items[i - 1]._replace(text=items[i - 1].text + extra)
            items[i] = item._replace(head=replace(item.head, host=host))
        return items

    def _message(self, item: Message) -> None:
        process = self._processes.of(item.head.host, item.head.pid, item.front.label if item.front.sure else None)
        if process is not None:
            self._messages.message(item, process)

    def _forget(self, line: int) -> None:
        bindings = self._messages.bindings
        for part, pointer in self._communicators.changed:
            if bindings is not None:
                bindings.changed(part, pointer, line)
        self._communicators.changed.clear()

    # --- operations

    def _bound(self, columns: Columns, speakers: list[Process | None]) -> tuple[Columns, Ints, Ints]:
        """The processes and threads of operations in columns; their communicators are followed from here on."""
        parts = np.array([p.part if p is not None else -1 for p in speakers], np.int64)[columns.speaker]
        tids = np.array([s.head.tid for s in columns.speakers], np.int64)[columns.speaker]
        ranks = columns.global_rank
        for row in np.flatnonzero(ranks >= 0).tolist():
            process = speakers[int(columns.speaker[row])]
            if process is not None and process.global_rank is None:
                self._messages.note_rccl(process, int(ranks[row]))

        def appears(line: int, part: int, pointer: int, size: int) -> Communicator | None:
            return self._messages.seen(line, self._processes.all[part], pointer, size) if part >= 0 else None

        line = columns.line
        threads = [(p.part if p is not None else -1, s.head.tid) for p, s in zip(speakers, columns.speakers, strict=True)]
        self._messages.bindings = Bindings(line, parts, columns.comm, columns.size, columns.speaker, threads, appears)
        return columns, parts, tids

    def _end_of_block(self, fast: tuple[Columns, Ints, Ints] | None) -> None:
        messages, made = self._messages, []
        calls, messages.calls = messages.calls, []
        choices, messages.choices = messages.choices, []
        if fast is not None:
            made.append(self._in_block(*fast))
        if calls:
            made.append(_of_calls(calls))
            self._calls += sum(c.origin for _, _, _, c in calls)
        self._operations.add(joined(made) if len(made) > 1 else made[0] if made else None, choices)

    def _in_block(self, columns: Columns, parts: Ints, tids: Ints) -> Operations:
        bindings = self._messages.bindings
        assert bindings is not None
        bindings.upto(1 << 62)
        for (part, tid), (line, comm) in bindings.last_by_thread().items():
            thread = self._processes.all[part].thread(tid) if part >= 0 else None
            if thread is not None and comm is not None and line > thread.last_line:
                thread.last, thread.last_line = comm, line
        place, comms = bindings.columns()
        self._messages.bindings = None
        numbers, ranks = _numbers_and_ranks(comms)
        timed = columns.ts != NO_TIME
        for part in np.unique(parts[timed & (parts >= 0)]).tolist() if timed.any() else ():
            times = columns.ts[timed & (parts == part)]
            self._processes.all[part].saw(int(times.min()))
            self._processes.all[part].saw(int(times.max()))
        c = columns
        out = Operations(
            c.line, parts, tids, numbers[place], ranks[place], c.name, c.op_count, c.count, c.datatype, c.reduction,
            c.root, c.size, c.stream, np.zeros(len(parts), np.int64), c.ts,
        )  # fmt: skip
        return out.take(np.flatnonzero(parts >= 0)) if (parts < 0).any() else out

    # --- the end

    def _finish(self, torn: bool) -> SourceInfo:
        messages, processes = self._messages, self._processes
        self._emit_communicators()
        kinds = dict(messages.kinds)
        done = self._operations.count
        for name, count in ((_OPERATION, done - self._calls), (_CALL, self._calls)):
            if count:
                kinds[name] = kinds.get(name, 0) + count
        total = sum(kinds.values())
        self._notices.add("no-message", count=int(not total))
        parts = processes.parts()
        for notice in self._notices.all():
            self._emit.notice(notice)
        unknown = messages.unknown()
        if unknown is not None:
            self._emit.notice(unknown)
        facts = {"messages": total, "messages_classified": total - messages.kinds["unknown"], "messages_with_fields": messages.with_fields + done}
        metadata = {key: str(value) for key, value in facts.items()}
        if processes.version_text is not None:
            metadata[f"{processes.library or 'nccl'}_version"] = processes.version_text
        return SourceInfo(parts, metadata, [EventCount(k, n, True) for k, n in sorted(kinds.items())], torn)

    def _emit_communicators(self) -> None:
        rows: list[dict[str, Any]] = []
        for process in self._processes.all:
            library = process.library or self._processes.library
            version = process.version_text or self._processes.version_text
            for comm in process.comms:
                row = {name: getattr(comm, name, None) for name in COMMUNICATORS.arrow.names}
                rows.append({**row, "part": process.part, "comm": comm.number, "library": library, "version": version})
        for row in rows:
            self._store.put(COMMUNICATORS, row)
        self._store.close()


def _numbers_and_ranks(comms: list[Communicator]) -> tuple[Ints, Ints]:
    """Number and rank of each communicator; the last entry, which -1 points at, stands for none."""
    numbers = np.array([c.number for c in comms] + [-1], np.int64)
    ranks = np.array([c.comm_rank if c.comm_rank is not None else -1 for c in comms] + [-1], np.int64)
    return numbers, ranks


def _of_calls(calls: list[LoggedCall]) -> Operations:
    """Operations that were read line by line."""

    def column(values: Iterable[int | None]) -> Ints:
        return np.array([-1 if v is None else v for v in values], np.int64)

    own = [c for _, _, _, c in calls]
    sizes = [call.size if call.size is not None else comm.size if comm is not None else None for _, _, comm, call in calls]
    return Operations(
        column(line.number for line, _, _, _ in calls),
        column(p.part for _, p, _, _ in calls),
        column(line.tid or 0 for line, _, _, _ in calls),
        column(comm.number if comm is not None else None for _, _, comm, _ in calls),
        column(comm.comm_rank if comm is not None else None for _, _, comm, _ in calls),
        column(name_code(c.name) for c in own),
        column(c.op_count for c in own),
        column(c.count for c in own),
        column(c.datatype for c in own),
        column(c.reduction for c in own),
        column(c.root for c in own),
        column(sizes),
        np.array([c.stream or 0 for c in own], np.uint64),
        column(c.origin for c in own),
        np.array([line.source_ts_ns if line.source_ts_ns is not None else NO_TIME for line, _, _, _ in calls], np.int64),
    )
