"""The life of communicators: initialisation, layout, channels, times, splits, destruction."""

from __future__ import annotations

import re
from typing import Any

from tracelab_parsers.nccl_log.line import LogLine
from tracelab_parsers.nccl_log.notices import Notices
from tracelab_parsers.nccl_log.processes import MAX_COMMUNICATORS, Communicator, Opening, Process, Processes

__all__ = ["CommunicatorReader", "pointer_value"]

_LIFE = re.compile(
    r"(?:\[Rank \d+\] )?(?:(?P<function>nccl\w{1,60}):? )?comm (?P<pointer>\S+) rank (?P<rank>\d{1,9}) n[rR]anks (?P<size>\d{1,9})(?P<rest>.*)", re.DOTALL
)
_PHASE = re.compile(r"- ?(Init|Destroy|Abort|Revoke|Finalize|Shrink|Grow) (START|COMPLETE)")
_FIELD = re.compile(r"\b(cudaDev|nvmlDev|busId|commId|parent|splitCount|childCount|color|key|nNodes|localRanks|localRank) (-?\w+)")
_CHANNELS = re.compile(r"\d{1,6} coll channels")
_CHANNEL_COUNT = re.compile(r"(\d{1,6}) (coll|collnet|nvls|p2p) channels(?! per peer)|(\d{1,6}) p2p channels per peer")
_TIMINGS = re.compile(r"Init timings(?: - \w+)?: rank (?P<rank>\d{1,9}) nranks (?P<size>\d{1,9}) total (?P<total>\d+(?:\.\d+)?)")
_CHANNEL_COLUMNS = {"coll": "channels", "collnet": "collnet_channels", "nvls": "nvls_channels", "p2p": "p2p_channels"}
_ENDS = {"Destroy": "destroyed", "Abort": "aborted", "Revoke": "aborted"}
_HEX = re.compile(r"[0-9a-f]{1,16}")


def pointer_value(text: str) -> int | None:
    """An address as a number, None where it is masked or nil."""
    digits = text.lower().removeprefix("0x")
    return int(digits, 16) or None if _HEX.fullmatch(digits) else None


def _hex_text(text: str | None) -> str | None:
    value = pointer_value(text) if text else None
    return f"0x{value:x}" if value is not None else None


def _bus_id(text: str | None) -> str | None:
    digits = (text or "").lower()
    if not _HEX.fullmatch(digits) or len(digits) > 9:
        return None
    digits = digits.zfill(9)
    return f"{digits[:4]}:{digits[4:6]}:{digits[6:8]}.{digits[8]}"


def _int(text: str | None) -> int | None:
    if text is None or len(text) > 18:
        return None
    try:
        return int(text)
    except ValueError:
        return None


class CommunicatorReader:
    """Follows communicators. `changed` collects (part, pointer) whose meaning changed since it was last emptied."""

    def __init__(self, processes: Processes, notices: Notices) -> None:
        self._processes = processes
        self._notices = notices
        self.changed: list[tuple[int, int]] = []
        self.comm: Communicator | None = None
        """The communicator that the line taken last names."""

    def take(self, line: LogLine, process: Process) -> str | None:
        """The kind of the message if it tells of a communicator, else None."""
        text = line.text
        self.comm = None
        if " rank " in text and (m := _LIFE.match(text)) is not None:
            return self._life(line, process, m)
        if _CHANNELS.match(text):
            return self._channels(line, process)
        if text.startswith("Init timings") and (m := _TIMINGS.match(text)) is not None:
            return self._timings(line, process, m)
        return None

    # --- lines that name the communicator

    def _life(self, line: LogLine, process: Process, m: re.Match[str]) -> str | None:
        phase = _PHASE.search(m["rest"])
        fields: dict[str, str] = dict(_FIELD.findall(m["rest"]))
        if phase is None and "nNodes" not in fields:
            return None
        what, when = (phase[1], phase[2]) if phase else ("Layout", "")
        pointer = pointer_value(m["pointer"])
        thread = process.thread(line.tid)
        if what in _ENDS:
            comm = self._found(process, pointer) or self._new(line, process, pointer, "seen")
            kind = what.lower()
        elif what == "Init" and when == "START":
            self._processes.starts = process.starts = True
            comm = self._new(line, process, pointer, "started")
            thread.initialising, thread.opening = comm, None
            kind = "init"
        elif what == "Init":
            comm = self._completed(line, process, pointer, int(m["rank"]), int(m["size"]))
            kind = "init"
        else:
            comm = self._found(process, pointer) or self._new(line, process, pointer, "started")
            kind = "layout" if what == "Layout" else what.lower()
        if comm is None:
            return kind
        self._describe(process, comm, m, fields)
        if what == "Init" and when == "COMPLETE":
            comm.state = "complete"
        elif what in _ENDS and (when == "COMPLETE" or what != "Destroy"):
            comm.state = _ENDS[what]
            if when == "COMPLETE" and what != "Revoke":
                self._unbind(process, pointer)
        thread.last, thread.last_line = comm, line.number
        self.comm = comm
        return kind

    def _found(self, process: Process, pointer: int | None) -> Communicator | None:
        return process.bound.get(pointer) if pointer is not None else None

    def _completed(self, line: LogLine, process: Process, pointer: int | None, rank: int, size: int) -> Communicator | None:
        """The communicator whose initialisation ends: one that was started or used before, else a new one."""
        thread = process.thread(line.tid)
        comm = self._found(process, pointer)
        if comm is None and pointer is None and thread.initialising is not None:
            comm = thread.initialising
        if comm is None or comm.state not in {"started", "seen"} or (comm.comm_rank, comm.size) not in {(rank, size), (None, None), (None, size)}:
            comm = self._new(line, process, pointer, "started")
        opening, thread.opening, thread.initialising = thread.opening, None, None
        if opening is not None and comm is not None:
            opening.comm = comm
            for name, value in (opening.channels or {}).items():
                setattr(comm, name, value)
        return comm

    def _new(self, line: LogLine, process: Process, pointer: int | None, state: str) -> Communicator | None:
        comm = self.create(line.number, process, pointer)
        if comm is not None:
            comm.state = state
            if pointer is not None:
                self.changed.append((process.part, pointer))
        return comm

    def create(self, line: int, process: Process, pointer: int | None) -> Communicator | None:
        """A new communicator of the process, bound to the pointer; None where there are too many."""
        if len(process.comms) >= MAX_COMMUNICATORS:
            self._notices.add("too-many-communicators")
            return None
        comm = Communicator(len(process.comms), line, f"0x{pointer:x}" if pointer is not None else None)
        process.comms.append(comm)
        if pointer is not None:
            process.bound[pointer] = comm
        return comm

    def _unbind(self, process: Process, pointer: int | None) -> None:
        if pointer is not None and process.bound.pop(pointer, None) is not None:
            self.changed.append((process.part, pointer))

    def _describe(self, process: Process, comm: Communicator, m: re.Match[str], fields: dict[str, str]) -> None:
        values: dict[str, Any] = {
            "comm_rank": int(m["rank"]),
            "size": int(m["size"]),
            "function": m["function"],
            "cuda_device": _int(fields.get("cudaDev")),
            "nvml_device": _int(fields.get("nvmlDev")),
            "bus_id": _bus_id(fields.get("busId")),
            "comm_id": _hex_text(fields.get("commId")),
            "parent_pointer": _hex_text(fields.get("parent")),
            "split": _int(fields.get("splitCount", fields.get("childCount"))),
            "color": _int(fields.get("color")),
            "split_key": _int(fields.get("key")),
            "nodes": _int(fields.get("nNodes")),
            "local_ranks": _int(fields.get("localRanks")),
            "local_rank": _int(fields.get("localRank")),
        }
        for name, value in values.items():
            if value is not None:
                setattr(comm, name, value)
        parent = pointer_value(fields["parent"]) if "parent" in fields else None
        if parent is not None and comm.parent is None and parent in process.bound and process.bound[parent] is not comm:
            comm.parent = process.bound[parent].number

    # --- lines that do not

    def _channels(self, line: LogLine, process: Process) -> str:
        counts: dict[str, int | None] = {}
        for number, what, per_peer in _CHANNEL_COUNT.findall(line.text):
            counts[_CHANNEL_COLUMNS[what] if what else "p2p_channels_per_peer"] = int(number or per_peer)
        target = self.working_on(line, process)
        if isinstance(target, Opening):
            target.channels = counts
        elif target is not None:
            for name, value in counts.items():
                setattr(target, name, value)
            self.comm = target
        return "channels"

    def _timings(self, line: LogLine, process: Process, m: re.Match[str]) -> str:
        target = process.thread(line.tid).last
        if target is not None and (target.comm_rank, target.size) == (int(m["rank"]), int(m["size"])) and len(m["total"]) < 30:
            target.init_s = float(m["total"])
            self.comm = target
        return "init_timings"

    def working_on(self, line: LogLine, process: Process) -> Communicator | Opening | None:
        """The communicator that the thread of `line` works on; an opening where its name comes later; None where it is ambiguous."""
        thread = process.thread(line.tid)
        if thread.initialising is not None:
            return thread.initialising
        if self._processes.states_starts(process):
            return thread.last or process.only(line.device)
        if thread.opening is None:
            thread.opening = Opening(process, thread, line.device)
        return thread.opening
