"""The notices of the NCCL log parser: what each code means and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tracelab.plugins import Notice, Severity

__all__ = ["Notices"]


class _Text(NamedTuple):
    severity: Severity
    text: str
    hint: str = ""


_CUT_HINT = "the copy is incomplete or the process was killed while it wrote: copy the file again"

_TEXTS: dict[str, _Text] = {
    "gzip-torn": _Text("warning", "the compressed file ends before its gzip stream does", _CUT_HINT),
    "gzip-corrupt": _Text("warning", "the compressed file is damaged; what comes after the damage is lost", "copy the file again from where it was written"),
    "gzip-trailing-garbage": _Text("info", "bytes after the end of the gzip data were ignored"),
    "decompression-limit": _Text(
        "error", "the file expands far more than any log does; the rest was not read", "check where the file comes from; expand it by hand if it is genuine"
    ),
    "last-line-cut": _Text("info", "the file ends inside a line", "the process may still write, or the copy is incomplete"),
    "long-line": _Text("info", "lines longer than 1 MiB were read in pieces"),
    "null-bytes": _Text(
        "warning", "the file holds NUL bytes; they were skipped", "several processes opened one NCCL_DEBUG_FILE: add %p to its name, lines of some are lost"
    ),
    "no-message": _Text("info", "the file holds no message of NCCL, RCCL or their watchdogs", "set NCCL_DEBUG=INFO (and NCCL_DEBUG_SUBSYS) to have them"),
    "glued-message": _Text("info", "messages begin inside a line that another writer had not ended; they were taken apart", "give each rank its own file"),
    "bad-number": _Text("warning", "rows with numbers that are too large were dropped"),
    "unknown-element-type": _Text("info", "operations have an element type that is not known: their bytes are unknown"),
    "too-many-processes": _Text("error", "the file speaks for more processes than can be told apart; the messages of the rest were dropped"),
    "too-many-communicators": _Text("warning", "processes have more communicators than can be told apart; what belongs to the rest has none"),
    "several-ranks-in-process": _Text("info", "processes hold several ranks of one communicator; the one that was named first stands for the process"),
    "rank-conflict": _Text(
        "info",
        "the launcher's label and the rank in the largest communicator differ; the label was used",
        "the log shows no communicator of all ranks",
    ),
}


@dataclass
class Notices:
    """Counts notices by code and keeps the offset of the first."""

    _counts: dict[str, int] = field(default_factory=dict)
    _offsets: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, offset: int | None = None, count: int = 1) -> None:
        """Counts `count` more cases of `code`."""
        if not count:
            return
        self._counts[code] = self._counts.get(code, 0) + count
        if offset is not None:
            self._offsets.setdefault(code, offset)

    def __contains__(self, code: str) -> bool:
        return code in self._counts

    def all(self) -> list[Notice]:
        """One notice per code, in the order of their codes."""
        return [Notice(code, t.severity, t.text, t.hint, n, self._offsets.get(code)) for code, n in sorted(self._counts.items()) for t in [_TEXTS[code]]]
