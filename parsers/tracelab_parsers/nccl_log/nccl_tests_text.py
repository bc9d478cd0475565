"""The tables that nccl-tests and rccl-tests print."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tracelab.tables.logs import BANDWIDTH_BASELINES
from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_log.fields import Bounded, integer, process
from tracelab_parsers.nccl_log.line import LogLine, Rows
from tracelab_parsers.nccl_log.nccl_tests_columns import HALF_NAMES, NEW_LAYOUT, Half, Layout, consistent, layout_of_header, layout_of_row, measured

__all__ = ["DeviceLine", "NcclTestsReader", "device_line"]

_RANK = re.compile(
    r"#\s+Rank\s+([0-9]{1,7})(?:\s+Group\s+([0-9]{1,7}))?\s+Pid\s+([0-9]{1,9})\s+on\s+(\S{1,128})\s+device\s+([0-9]{1,5})\s+\[([0-9A-Fa-fx:.]{1,20})\]"
)
_PROGRAM = re.compile(r"(?:^|[\s/])([a-z_]{2,30}_perf(?:_mpi)?)(?=\s|$)")
_SETTINGS = re.compile(r"#\s*nThread ")
# What another writer put behind a row: `host:pid:tid [device] NCCL …`, at once after the last number.
_FOREIGN = re.compile(r"(?:[A-Za-z][\w.-]{0,120})?:[0-9]{1,9}:[0-9]{1,9} \[[0-9]{1,4}\] ")
_PROCESSES = 4096
_HELD = 1024
_HEAD_WIDTHS = range(3, 6)


class DeviceLine(NamedTuple):
    """A line of the list of devices."""

    rank: int
    group: int | None
    pid: int
    host: str
    device: int
    bus: str


def device_line(text: str) -> DeviceLine | None:
    """What a line `# Rank 0 Group 0 Pid 64904 on host device 0 [0000:17:00] name` says, else None."""
    found = _RANK.match(text.lstrip()) if "Rank" in text and "Pid" in text else None
    if found is None:
        return None
    group = integer(found[2])
    return DeviceLine(int(found[1]), group, int(found[3]), found[4], int(found[5]), found[6])


@dataclass
class _Run:
    """One run of a program: its operation, ranks, the layout of its rows, and a row whose halves have not come yet.

    `held` are rows that wait for the last line of the run, which names its program where the first was lost.
    """

    operation: str = ops.UNKNOWN
    ranks: set[tuple[int | None, int]] = field(default_factory=set)
    layout: Layout | None = None
    head: dict[str, str] | None = None
    halves: int = 0
    rows_seen: bool = False
    held: list[tuple[LogLine, dict[str, Any]]] = field(default_factory=list)


class NcclTestsReader:
    """Reads a table line by line; a row may be torn in pieces by lines of the library.

    Without a header a row is read only where its numbers agree with each other (bytes / time = bandwidth).
    """

    def __init__(self) -> None:
        self._runs: Bounded[tuple[str, int | None], _Run] = Bounded(_PROCESSES)

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """`benchmark` for a line of a table or what stands around it, else None; `cuda-error`, `nccl-error` for its failures."""
        if line.level:
            return None
        text = line.text.strip()
        first = text[:1]
        if first == "#":
            return self._comment(text, line, rows)
        if first.isdigit() or text.startswith("N/A"):
            return self._numbers(text, line, rows)
        if "_perf" in text:
            return self._program(text, line, rows)
        if "Test CUDA failure" in text:
            return "cuda-error"
        return "nccl-error" if "Test NCCL failure" in text else None

    def finish(self, rows: Rows) -> None:
        """Writes what nobody named an operation for. A row whose times never came holds no measurement."""
        for run in self._runs.values():
            _release(run, rows)

    def _run(self, line: LogLine, rows: Rows) -> _Run:
        key = process(line)
        run = self._runs.get(key)
        if run is None:
            if len(self._runs) == _PROCESSES:
                _release(next(iter(self._runs.values())), rows)
            run = self._runs[key] = _Run()
        return run

    def _comment(self, text: str, line: LogLine, rows: Rows) -> str | None:
        if rank := device_line(text):
            self._begin(line, rows).ranks.add((rank.group, rank.rank))
            return "benchmark"
        if "test starting:" in text or _SETTINGS.match(text):
            operation = self._operation_in(text)
            run = self._begin(line, rows)
            run.operation = operation or run.operation
            return "benchmark"
        words = text[:2000].lstrip("# ").split()
        if words[:3] == ["size", "count", "type"]:
            run = self._run(line, rows)
            run.layout, run.head = layout_of_header(words), None
            return "benchmark"
        if text.startswith(("# Avg bus bandwidth", "# Out of bounds values", "# Collective test concluded")):
            self._conclude(text, self._run(line, rows), rows)
            return "benchmark"
        known = words[:1] in (["(B)"], ["out-of-place"]) or text.startswith(("# Using devices", "# nccl-tests", "# rccl-tests", "# Algorithm"))
        return "benchmark" if known else None

    def _conclude(self, text: str, run: _Run, rows: Rows) -> None:
        run.rows_seen = True
        operation = self._operation_in(text)
        if operation is not None:
            # Runs without their first lines may have been several.
            run.operation = operation if run.operation == ops.UNKNOWN else run.operation
            _release(run, rows)

    def _begin(self, line: LogLine, rows: Rows) -> _Run:
        """The run that a line of a program's beginning belongs to: a new one where the last has printed rows."""
        run = self._run(line, rows)
        if run.rows_seen:
            _release(run, rows)
            run = self._runs[process(line)] = _Run()
        return run

    def _program(self, text: str, line: LogLine, rows: Rows) -> str | None:
        operation = self._operation_in(text)
        if operation is None:
            return None
        self._begin(line, rows).operation = operation
        return "benchmark"

    @staticmethod
    def _operation_in(text: str) -> str | None:
        found = _PROGRAM.search(text[:4000])
        return ops.program_operation(found[1]) if found else None

    def _numbers(self, text: str, line: LogLine, rows: Rows) -> str | None:
        first = text.split(None, 3)
        whole = len(first) >= 3 and first[0].isdigit() and first[1].isdigit() and ops.element_type_named(first[2]) is not None
        run = self._runs.get(process(line))
        if not whole and (run is None or run.head is None):
            return None
        if ":" in text and (foreign := _FOREIGN.search(text, 0, 600)):
            text = text[: foreign.start()]
        words = text.split(None, 24)
        if whole:
            return self._row(words, self._run(line, rows), line, rows)
        return self._piece(words, run, line, rows) if run is not None else None

    def _row(self, words: list[str], run: _Run, line: LogLine, rows: Rows) -> str | None:
        run.head = None
        if len(words) in _HEAD_WIDTHS:
            return self._head(words, run)
        layout = run.layout or layout_of_row(words)
        if layout is None or not layout.width <= len(words) <= layout.width + layout.extra:
            return None
        head = dict(zip(layout.head, words, strict=False))
        for i in range(2):
            start = len(layout.head) + i * len(layout.half)
            self._measured(head, measured(words[start : start + len(layout.half)], layout), i == 1, run, line, rows)
        run.rows_seen = True
        return "benchmark"

    def _head(self, words: list[str], run: _Run) -> str | None:
        """A row of which only the leading columns stand on this line; its two halves come later, each on a line of its own."""
        layout = run.layout or (NEW_LAYOUT if len(words) == len(NEW_LAYOUT.head) else None)
        if layout is None or len(words) != len(layout.head):
            return None
        run.head, run.halves = dict(zip(layout.head, words, strict=True)), 0
        return "benchmark"

    def _piece(self, words: list[str], run: _Run, line: LogLine, rows: Rows) -> str | None:
        layout, head = run.layout or NEW_LAYOUT, run.head or {}
        if len(words) == len(HALF_NAMES) < len(layout.half) and line.text[-1:].isspace():
            # The last number went with the host's name of what was glued to it.
            words = [*words, *["N/A"] * (len(layout.half) - len(words))]
        if len(words) != len(layout.half):
            return None
        half = measured(words, layout)
        size = integer(head.get("size"), wide=True)
        if size is None or not consistent(size, words[0], words[1]):
            return None
        self._measured(head, half, run.halves == 1, run, line, rows)
        run.halves += 1
        run.rows_seen = True
        if run.halves == 2:
            run.head = None
        return "benchmark"

    @staticmethod
    def _measured(head: dict[str, str], half: Half, in_place: bool, run: _Run, line: LogLine, rows: Rows) -> None:
        size, element = integer(head.get("size"), wide=True), ops.element_type_named(head.get("type", ""))
        if size is None or half.time_us is None:
            return
        root = integer(head.get("root"))
        values: dict[str, Any] = {
            "ranks": _ranks(run.ranks),
            "bytes": size,
            "count": integer(head.get("count"), wide=True),
            "dtype": element.name if element else None,
            "reduction": ops.reduction_named(head.get("redop", "")),
            "root": root if root is not None and root >= 0 else None,
            "in_place": in_place,
            "time_ns": round(half.time_us * 1000),
            "algbw_bytes_per_s": half.algbw * 1e9 if half.algbw is not None else None,
            "busbw_bytes_per_s": half.busbw * 1e9 if half.busbw is not None else None,
            "errors": half.errors,
        }
        run.held.append((line, values))
        if run.operation != ops.UNKNOWN or len(run.held) > _HELD:
            _release(run, rows)


def _release(run: _Run, rows: Rows) -> None:
    held, run.held = run.held, []
    for line, values in held:
        rows.add(BANDWIDTH_BASELINES, line, operation=run.operation, **values)


def _ranks(listed: set[tuple[int | None, int]]) -> int | None:
    """Ranks of the first group, where the list of devices is complete."""
    if not listed:
        return None
    first = min(listed, key=lambda g: (g[0] or 0, g[1]))[0]
    numbers = {rank for group, rank in listed if group == first}
    everyone = {rank for _, rank in listed}
    return len(numbers) if len(everyone) == max(everyone) + 1 else None
