"""Reads reports as text, line by line, whatever stands around them.

A report is a header, a table of the job, a table of groups of communicators, and blocks under `Errors` and `Warnings`. Ranks
that agree are only counted; those that are few are listed. Versions differ in the words: 2.24 and 2.25 count all collectives
together and call ranks without a communicator UNKNOWN; since 2.26 each operation is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_ras.blocks import Block
from tracelab_parsers.nccl_ras.rows import DEAD, Rows, Subject, level_of_event, local_ns, number, status_of_error, status_of_state

__all__ = ["TextReports"]

_VERSION = re.compile(r"[NR]CCL version (\S{1,64}) compiled with (?:CUDA|ROCm|HIP)\b")
_RUNTIME = re.compile(r"(?:CUDA|HIP) runtime version \d+, (?:amdgpu )?driver version (\d{1,12})$")
_GROUP = re.compile(r"(\d{1,9}) +(\d{1,9}) +[\d-]{1,21} +[\d-]{1,21} +(\d{1,9}) +\d{1,9} +([A-Z]{2,16}) +([A-Z,]{2,40})$")
_HEAD = re.compile(r"#(\d{1,9})-(\d{1,9}) \(([0-9a-f]{1,16})\) (INCOMPLETE|ERROR|MISMATCH)$")
_PLAIN_HEAD = re.compile(r"(?:INCOMPLETE|DEAD|TIMEOUT)$")
_MONITOR = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\] ([A-Z][A-Z_]{2,40}): (.*)$")
_UNIFORM = "(total) per node per process (total) (total)"
_SPLIT = "(total) (total) (total)"
_TABLE = re.compile(r"Group +Comms +Nodes +Ranks +Ranks +Ranks +Status +Errors$")
_KNOWN = re.compile(
    r"=+$|Nodes +Processes|Processes +GPUs$|per node(?: +per process)?$|per process$|# +in group|The outlier nodes?:$"
    r"|Node \S+ running process(?:es)? [\d,]+$|No communicator data collected!$|RAS Monitor Mode|[\d ]+$|OK$|SERVER PROTOCOL \d+$"
)


@dataclass
class _Report:
    """What was seen of the report that is being read. `announced` and `told` count communicators by group and kind of error."""

    begun: bool = False
    summary: bool = False
    table: bool = False
    tables: bool = False
    warnings: bool = False
    job: str = ""
    sizes: dict[int, int] = field(default_factory=dict)
    announced: Counter[tuple[int, str]] = field(default_factory=Counter)
    told: Counter[tuple[int, str]] = field(default_factory=Counter)

    @property
    def cut(self) -> bool:
        """Whether it ends too early, or lacks what its table announces."""
        return self.begun and (not self.warnings or any(self.told[key] < count for key, count in self.announced.items()))


class TextReports:
    """Takes lines; `finish` closes what is open. `reports` counts tables, blocks and monitor events."""

    def __init__(self, rows: Rows, notices: Notices) -> None:
        self._rows = rows
        self._notices = notices
        self._report = _Report()
        self._block: Block | None = None
        self._level = ""
        self._blank = False
        self.world_size: int | None = None
        self.version: str | None = None
        self.reports = 0

    def take(self, line: int, text: str, offset: int) -> None:
        """Takes a line without its end."""
        words = text.strip()
        indent = len(text) - len(text.lstrip())
        self._blank = not words
        if not words:
            self._report.table = self._report.table and not self._report.sizes
            return
        if self._block is not None and self._block.take(line, words, indent):
            return
        if not any(reader(line, words, indent) for reader in self._readers):
            self._close_block()
            self._notices.add("unknown-lines", offset)

    @property
    def _readers(self) -> tuple[Callable[[int, str, int], bool], ...]:
        return self._heading, self._section, self._header, self._job, self._group, self._event, self._furniture

    def _heading(self, line: int, words: str, indent: int) -> bool:
        m = _HEAD.match(words)
        if m is None and not _PLAIN_HEAD.match(words):
            return False
        self._close_block()
        kind = m[4] if m else words
        level = self._level or ("WARN" if kind in ("MISMATCH", "TIMEOUT") else "ERROR")
        group = number(m[1]) if m else None
        if m and group is not None:
            self._report.told[group, kind] += 1
        comm_id = f"0x{int(m[3], 16):x}" if m else None
        size = self._report.sizes.get(group) if group is not None else None
        self._block = Block(self._rows, line, words, indent, kind, level, comm_id, size)
        self.reports += 1
        return True

    def _section(self, line: int, words: str, indent: int) -> bool:  # noqa: ARG002 - all readers are called alike
        if words not in ("Errors", "Warnings"):
            return False
        self._close_block()
        self._level = "ERROR" if words == "Errors" else "WARN"
        self._report.warnings = self._report.warnings or words == "Warnings"
        return True

    def _header(self, line: int, words: str, indent: int) -> bool:  # noqa: ARG002
        if m := _VERSION.match(words):
            self._begin(again=True)
            self.version = m[1]
            self._rows.setting(line, "version", m[1])
            return True
        if m := _RUNTIME.match(words):
            self._rows.setting(line, "cuda_driver", m[1])
            return True
        if words == "Job summary":
            self._begin(again=self._report.summary or self._report.tables)
            self._report.summary = True
            return True
        if words.startswith("Communicators..."):
            self._begin(again=self._report.tables)
            self._report.tables = True
            return True
        return False

    def _job(self, line: int, words: str, indent: int) -> bool:  # noqa: ARG002
        columns = " ".join(words.split())
        if columns in (_UNIFORM, _SPLIT):
            self._report.job = columns
            return True
        fields = columns.split(" ")
        if not self._report.job or len(fields) != self._report.job.count("(total)") + 2 * (self._report.job == _UNIFORM):
            return False
        self._report.job = ""
        total = number(fields[-1])
        self.world_size = total or self.world_size
        return total is not None

    def _group(self, line: int, words: str, indent: int) -> bool:  # noqa: ARG002
        if _TABLE.match(words):
            self._begin(again=bool(self._report.sizes))
            self._report.tables = self._report.table = True
            return True
        m = _GROUP.match(words) if self._report.table else None
        if m is None:
            return False
        group, comms, size = int(m[1]), int(m[2]), int(m[3])
        self._report.sizes[group] = size
        for word in m[5].split(","):
            if word != "OK":
                self._report.announced[group, word] += comms
        status = status_of_state(m[4]) if m[5] == "OK" else status_of_error(m[5])
        self._rows.state(line, Subject(), status, f"group {group}: {comms} communicator{'s' if comms != 1 else ''} of {size} ranks, {m[4]}, {m[5]}", size=size)
        self.reports += 1
        return True

    def _event(self, line: int, words: str, indent: int) -> bool:  # noqa: ARG002
        m = _MONITOR.match(words)
        if m is None:
            return False
        self._close_block()
        self._rows.event(line, level_of_event(m[2]), words, local_ns(m[1]))
        process = Block.process(m[3])
        if process is not None and m[2] in DEAD:
            for subject in process:
                self._rows.state(line, subject, "missing", words)
        self.reports += 1
        return True

    def _furniture(self, line: int, words: str, indent: int) -> bool:  # noqa: ARG002
        return _KNOWN.match(words) is not None

    def _begin(self, *, again: bool) -> None:
        """Starts a report, or goes on with that which has begun; judges the one before."""
        self._close_block()
        if again:
            self._notices.add("cut-report", count=int(self._report.cut))
            self._report, self._level = _Report(), ""
        self._report.begun = True

    def _close_block(self) -> None:
        if self._block is not None:
            if self._block.close():
                self._notices.add("cut-report")
            self._block = None

    def finish(self) -> None:
        """Closes what is open."""
        # An empty line follows every block but those that compare states.
        self._notices.add("last-line-cut", count=int(self._block is not None and not self._blank and not self._block.compares_states))
        self._begin(again=True)
