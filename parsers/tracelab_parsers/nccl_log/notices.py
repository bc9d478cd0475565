"""The notices of the NCCL log parser: what each code means and what to do about it."""

from __future__ import annotations

from tracelab_parsers.nccl_json import notices
from tracelab_parsers.nccl_json.notices import NoticeText as _Text

__all__ = ["Notices"]


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


class Notices(notices.Notices):
    """Counts notices by code and keeps the offset of the first."""

    def __init__(self) -> None:
        super().__init__(_TEXTS)
