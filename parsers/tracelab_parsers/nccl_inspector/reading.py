"""One pass over a file of NCCL Inspector.

Operations of a communicator are numbered by function (`coll_sn`: an all_reduce and an all_gather may both be number 5), sends
and receives together (`p2p_sn`, from 1).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tracelab.plugins import Emitter, EventCount, Part, SourceFile, SourceInfo
from tracelab.tables import LOGGED_COLLECTIVES
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_inspector.context import DumpContext
from tracelab_parsers.nccl_inspector.notices import TEXTS
from tracelab_parsers.nccl_inspector.transfers import WHOLE_TRANSFER, Transfers
from tracelab_parsers.nccl_json.amounts import amounts, operation_named
from tracelab_parsers.nccl_json.lines import Line, lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import Communicators, RowBuffer
from tracelab_parsers.nccl_json.values import decode, identifier, mapping, nanoseconds, natural, text
from tracelab_parsers.nccl_log import ops

__all__ = ["Reading"]

_MOST_PARTS = 4096
_UNNAMED = "unknown"
_GPU_TIMED = "kernel_gpu"
_LOSSES = (
    ("coll_dropped_since_last_dump", "operations-overwritten"),
    ("p2p_dropped_since_last_dump", "operations-overwritten"),
    ("proxy_dropped_since_last_dump", "transfers-lost"),
    ("proxy_ops_dropped_since_last_dump", "transfers-lost"),
)
_STORED = frozenset({"coll", "p2p", WHOLE_TRANSFER})
_BLANK = b" \t\r\n\0"
_BOM = b"\xef\xbb\xbf"


@dataclass
class _Process:
    """What is known of a process: its part, and its ranks in the largest communicators."""

    part: Part
    ranks: set[int] = field(default_factory=set)

    def belongs(self, rank: int | None, size: int | None) -> None:
        """Takes note of a communicator of the process."""
        if rank is None or size is None or rank >= size:
            return
        if size > (self.part.world_size or 0):
            self.part.world_size = size
            self.ranks = set()
        if size == self.part.world_size:
            self.ranks.add(rank)

    def saw(self, ns: int) -> None:
        """Takes note of a moment."""
        self.part.start_ns = ns if self.part.start_ns is None else min(self.part.start_ns, ns)
        self.part.end_ns = ns if self.part.end_ns is None else max(self.part.end_ns, ns)


class Reading:
    """Reads `source` once and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(TEXTS)
        self._rows = RowBuffer(LOGGED_COLLECTIVES, emit)
        self._transfers = Transfers(emit, self._notices)
        self._communicators = Communicators(emit)
        self._context = DumpContext()
        self._not_made_here = 0
        self._processes: dict[tuple[str | None, int | None], _Process] = {}
        self._latest: _Process | None = None
        self._last: dict[tuple[int, int, str], int] = {}
        self._counts: Counter[str] = Counter()
        self._facts: dict[str, str] = {}
        self._starts = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            shown = 0
            for line in lines(stream, lambda offset: notices.add("oversized-line", offset)):
                self._take(line)
                if stream.file_position > shown:
                    shown = stream.file_position
                    self._emit.progress(shown)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            return self._finish(torn=stream.torn or "truncated" in notices)

    def _take(self, line: Line) -> None:
        data = (line.text.removeprefix(_BOM) if line.number == 1 else line.text).strip(_BLANK)
        if not line.whole and data:
            # Every record is written with its end of line.
            self._notices.add("truncated", line.offset)
        if not data:
            return
        record = decode(data, lambda code: self._notices.add(code, line.offset))
        known = mapping(record)
        if known.keys() & {"coll_perf", "p2p_perf"}:
            self._operation(known, line)
        elif "proxy_trace" in known:
            self._transfer(known, line)
        elif "header" in known and "metadata" in known:
            self._other(known, line)
        elif line.whole:
            self._notices.add("bad-line", line.offset)

    def _process(self, metadata: dict[str, Any], line: Line) -> _Process | None:
        """The process that wrote a record: one that does not say is taken to be that of the record before."""
        host, pid = text(metadata.get("hostname")), natural(metadata.get("pid"))
        process = self._processes.get((host, pid)) if (host, pid) != (None, None) else self._latest
        if process is None:
            if len(self._processes) >= _MOST_PARTS:
                self._notices.add("too-many-processes", line.offset)
                return None
            process = _Process(Part(part=len(self._processes), host=host, pid=pid))
            self._processes[host, pid] = process
        self._latest = process
        moment = nanoseconds(metadata.get("dump_timestamp_us"))
        if moment is not None and moment > 0:
            process.saw(moment)
        for name, key in (("format", "inspector_output_format_version"), ("recorded_by", "rec_mechanism")):
            value = text(metadata.get(key))
            if value is not None:
                self._facts.setdefault(name, value)
        return process

    def _other(self, record: dict[str, Any], line: Line) -> None:
        """A record that is no operation: the first of a dump, or one of a kind that is not known."""
        self._process(mapping(record["metadata"]), line)
        if "dump_stats" not in record:
            self._counts["other"] += 1
            self._notices.add("other-records", line.offset)
            return
        self._context.begin(record)
        self._counts["dump_stats"] += 1
        stats = mapping(record["dump_stats"])
        for key, code in _LOSSES:
            self._notices.add(code, line.offset, natural(stats.get(key)) or 0)
        self._not_made_here = max(self._not_made_here, natural(stats.get("proxy_pxn_skipped_process_total")) or 0)

    def _transfer(self, record: dict[str, Any], line: Line) -> None:
        """A record of the network proxy."""
        header, metadata = self._context.of(record, "proxy_trace")
        process, trace = self._process(metadata, line), mapping(record["proxy_trace"])
        if process is None:
            return
        if trace.get("record_type") != WHOLE_TRANSFER:
            self._counts["proxy_part"] += 1
            return
        comm = self._communicator(process, header, line)
        self._counts[WHOLE_TRANSFER] += self._transfers.add(trace, process.part.part, comm, line.number, line.offset)

    def _operation(self, record: dict[str, Any], line: Line) -> None:
        kind = "coll" if "coll_perf" in record else "p2p"
        header, metadata = self._context.of(record, f"{kind}_perf")
        perf = mapping(record[f"{kind}_perf"])
        function, seq = perf.get(kind), natural(perf.get(f"{kind}_sn"))
        process = self._process(metadata, line)
        if process is None:
            return
        if not isinstance(function, str) or seq is None:
            self._notices.add("bad-record", line.offset)
            return
        comm, operation = self._communicator(process, header, line), operation_named(function)
        self._notices.add("unknown-operation", line.offset, int(operation == ops.UNKNOWN))
        self._notices.add("cpu-timed", line.offset, int(perf.get(f"{kind}_timing_source", _GPU_TIMED) != _GPU_TIMED))
        self._follow(process.part.part, comm, operation if kind == "coll" else kind, seq, line)
        self._counts[kind] += 1
        start = self._start(perf, kind, line)
        if start is not None:
            process.saw(start)
        rank, size = natural(header.get("rank"), 32), natural(header.get("n_ranks"), 32)
        inward, outward = amounts(function, natural(perf.get(f"{kind}_msg_size_bytes")), ranks=size, rank=rank)
        self._rows.add(
            part=process.part.part,
            line=line.number,
            source_ts_ns=start,
            dur_ns=self._length(perf.get(f"{kind}_exec_time_us"), line),
            origin="inspector",
            comm=comm,
            seq=seq,
            operation=operation,
            in_bytes=inward,
            out_bytes=outward,
            peer=natural(perf.get("p2p_peer"), 32) if kind == "p2p" else None,
            size=size,
            algorithm=ops.algorithm(text(perf.get("coll_algo")) or ""),
            protocol=ops.protocol(text(perf.get("coll_proto")) or ""),
            state="completed",
        )

    def _communicator(self, process: _Process, header: dict[str, Any], line: Line) -> int | None:
        comm_id, name = identifier(header.get("id")), text(header.get("comm_name"))
        rank, size, nodes = (natural(header.get(key), 32) for key in ("rank", "n_ranks", "nnodes"))
        process.belongs(rank, size)
        if comm_id is None:
            self._notices.add("bad-header", line.offset)
        group = name if name != _UNNAMED else None
        return self._communicators.number(process.part.part, comm_id, rank, line.number, size=size, nodes=nodes, group_name=group)

    def _start(self, perf: dict[str, Any], kind: str, line: Line) -> int | None:
        """When the operation was handed to the library; None where the record is brief (or the moment was not seen: 0)."""
        trace = mapping(perf.get("event_trace_ts"))
        if f"{kind}_start_ts" not in trace:
            return None
        ns = nanoseconds(trace[f"{kind}_start_ts"])
        if ns is None or ns < 0:
            self._notices.add("bad-time", line.offset)
            return None
        self._starts += ns > 0
        return ns or None

    def _length(self, value: object, line: Line) -> int | None:
        ns = nanoseconds(value)
        if ns is None or ns < 0:
            self._notices.add("bad-time", line.offset)
            return None
        return ns

    def _follow(self, part: int, comm: int | None, series: str, seq: int, line: Line) -> None:
        """Counts the operations that are missing before this one."""
        if comm is None:
            return
        last = self._last.get((part, comm, series), seq)
        self._notices.add("numbers-skipped", line.offset, seq - last - 1)
        self._last[part, comm, series] = max(seq, last)

    def _finish(self, *, torn: bool) -> SourceInfo:
        torn = not self._context.end() or torn
        self._rows.flush()
        self._transfers.flush()
        self._communicators.flush()
        notices, operations = self._notices, self._counts["coll"] + self._counts["p2p"]
        notices.add("too-many-communicators", count=self._communicators.refused)
        notices.add("records-missing", count=self._context.missing)
        notices.add("transfers-for-others", count=self._not_made_here)
        notices.add("no-operations", count=int(not operations))
        notices.add("no-starts", count=int(operations > 0 and not self._starts))
        parts = [p.part for p in self._processes.values()] or [Part()]
        for process in self._processes.values():
            if len(process.ranks) == 1:
                (process.part.rank,) = process.ranks
            elif process.ranks:
                process.part.world_size = None
                notices.add("ambiguous-rank")
        notices.emit(self._emit)
        counts = [EventCount(kind, n, kind in _STORED) for kind, n in sorted(self._counts.items()) if n]
        return SourceInfo(parts, dict(sorted(self._facts.items())), counts, torn)
