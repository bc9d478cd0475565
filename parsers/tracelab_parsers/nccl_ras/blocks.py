"""One block of a report's errors or warnings: who differs from whom, and in what."""

from __future__ import annotations

import re

from tracelab_parsers.nccl_ras.rows import Rows, Subject, number, operation_called, status_of_state

__all__ = ["Block"]

_OWNER = r"(?:GPU (?P<gpu>\d{1,6})(?: \(NVML (?P<nvml>\d{1,6})\))? managed by process (?P<pid>-?\d{1,12}) on node (?P<host>\S{1,256})|\[[^\]]{1,80}\])"
_SAYS = (
    r"(?:ha(?:s|ve) launched up to operation (?P<op>\d{1,19})|(?P<none>ha(?:s|ve) not launched any operations)"
    r"|ha(?:s|ve) status (?P<status>[A-Z]{2,16})|reported (?P<error>.{1,120}?))"
)
_RANK = re.compile(rf"Rank (?P<rank>\d{{1,9}})(?: {_SAYS})?(?: -- {_OWNER})?$")
_RANKS = re.compile(rf"(?P<count>\d{{1,9}}) ranks {_SAYS}$")
_LIST = re.compile(r"The (missing|unknown) ranks?: ([\d,]+)$")
_LACK = re.compile(r"Missing communicator data from (\d{1,9}) ranks?$")
_PROCESS = re.compile(
    r"Process (?P<pid>\d{1,12}) on node (?P<host>\S{1,256}) managing GPUs? (?P<gpus>[\d,]{1,256})(?: \(NVML (?P<nvml>[\d,]{1,256})\))?(?:\s.*)?$"
)
_COUNTS = re.compile(r"Communicator ranks have different (\w{1,40}) operation counts$")
_REST = re.compile(
    r"Communicator ranks have different status$|Missing communicator data from \d+ job process|\d+ job process(?:es)? (?:is|are) considered dead"
    r"|Encountered \d+ communication timeout|(?:Initialization|Asynchronous) errors? on \d+ ranks?$|\[could not find information on \d+ process"
)
_MOST_LISTED = 1_000_000
_MOST_LINES = 200


class Block:
    """Takes the lines below a heading; `comm_id` and `size` are those of its communicator, None where it is about the job."""

    def __init__(self, rows: Rows, line: int, heading: str, indent: int, kind: str, level: str, comm_id: str | None, size: int | None) -> None:
        self._rows = rows
        self._line = line
        self._indent = indent
        self._kind = kind
        self._level = level
        self._lines = [heading]
        self._comm = {"comm_id": comm_id, "size": size}
        self._operation: str | None = None
        self._said: re.Match[str] | None = None
        self._open = 0
        self._short = False
        self._lack: tuple[int, str] | None = None
        self._dead_or_missing = 0
        self.compares_states = False

    def take(self, line: int, words: str, indent: int) -> bool:
        """Whether the line belongs to the block."""
        if indent <= self._indent:
            return False
        known = self._rank(line, words) or self._ranks(line, words) or self._other(line, words)
        if known and len(self._lines) < _MOST_LINES:
            self._lines.append(words)
        return known

    def close(self) -> bool:
        """Writes the message of the block; whether the block ends inside a list of ranks."""
        if self._lack is not None and not self._dead_or_missing:
            self._rows.state(self._lack[0], Subject(), "incomplete", self._lack[1], **self._comm)
        self._rows.event(self._line, self._level, "\n".join(self._lines))
        return self._short or self._open_list

    @property
    def _open_list(self) -> bool:
        # A list may be left out as a whole: it is cut where it has begun.
        return self._said is not None and 0 < self._open < int(self._said["count"])

    def _ranks(self, line: int, words: str) -> bool:
        m = _RANKS.match(words)
        if m is None:
            return False
        self._short = self._short or self._open_list
        self._said, self._open = m, 0
        self._state(line, Subject(), m, words)
        return True

    def _rank(self, line: int, words: str) -> bool:
        m = _RANK.match(words)
        if m is None:
            return False
        says = any(m[name] is not None for name in ("op", "none", "status", "error"))
        host = m["host"]
        pid = number(m["pid"], 63) if m["pid"] is not None else None
        subject = Subject(number(m["rank"]), host, pid, number(m["nvml"] if m["nvml"] is not None else m["gpu"]))
        if not says and self._said is None:
            self._dead_or_missing += 1
            self._rows.state(line, subject, "missing" if self._kind == "INCOMPLETE" else self._kind.lower(), words, **self._comm)
            return True
        if not says:
            self._open += 1
        said = m if says or self._said is None else self._said
        self._state(line, subject, said, words if says else f"{words} ({said.group()})")
        return True

    def _state(self, line: int, subject: Subject, said: re.Match[str], words: str) -> None:
        if said["status"] is not None:
            self._rows.state(line, subject, status_of_state(said["status"]), words, **self._comm)
        elif said["error"] is not None:
            self._rows.state(line, subject, "error", words, **self._comm)
        else:
            count = number(said["op"], 64) if said["op"] is not None else 0
            self._rows.state(line, subject, "mismatch", words, operation=self._operation, last_enqueued=count, **self._comm)

    def _other(self, line: int, words: str) -> bool:
        if m := _COUNTS.match(words):
            self._operation, self.compares_states = operation_called(m[1]), False
            self._leave_list()
        elif m := _LIST.match(words):
            listed = m[2].split(",", _MOST_LISTED)[:_MOST_LISTED]
            ranks = [n for n in map(number, listed) if n is not None]
            self._dead_or_missing += len(ranks)
            for rank in ranks:
                self._rows.state(line, Subject(rank), "missing" if m[1] == "missing" else "mismatch", f"{m[1]} rank {rank}", **self._comm)
        elif m := _LACK.match(words):
            self._lack = (line, words)
        elif (process := self.process(words)) is not None:
            for subject in process:
                self._rows.state(line, subject, "missing", words)
        elif not _REST.match(words):
            return False
        else:
            self.compares_states = words.endswith("different status")
            self._leave_list()
        return True

    def _leave_list(self) -> None:
        self._short = self._short or self._open_list
        self._said, self._open = None, 0

    @staticmethod
    def process(words: str) -> list[Subject] | None:
        """The GPUs of a process (`Process 7 on node h managing GPUs 0,1 (NVML 2,3)`), one by one; None where there is none."""
        m = _PROCESS.match(words)
        if m is None:
            return None
        devices = (m["nvml"] or m["gpus"]).split(",")
        return [Subject(None, m["host"], number(m["pid"], 63), number(d)) for d in devices[:64]]
