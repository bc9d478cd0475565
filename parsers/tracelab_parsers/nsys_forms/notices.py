"""Notices of the forms of export that are not SQLite, beside those that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracelab.plugins import Notice, Severity
from tracelab_parsers.nsys.notices import Notices

__all__ = ["EXPORT_COMMAND", "FormNotices"]

EXPORT_COMMAND = "nsys export -t sqlite --include-blobs=true --include-json=true"
"""The whole of a report: without the options sizes and communicators of NCCL's collectives are lost."""

_TEXTS: Mapping[str, tuple[Severity, str, str]] = {
    "bad-line": ("warning", "lines could not be read and were left out", "export the report again"),
    "cut-text": ("warning", "the file ends inside a line; what came before was kept", "copy or export it again"),
    "bad-number": ("warning", "values that should be numbers are none and were read as missing", "export with nsys stats --format csv"),
    "ragged-row": ("warning", "rows have another number of values than their header", "a text with separators in it was not quoted: export again"),
    "duplicate-column": ("info", "columns occur twice in a header; the first of each was read", ""),
    "unknown-report": ("warning", "reports beside this one could not be read: their header is not known", "export with nsys stats --format csv"),
    "redundant-report": ("info", "rows of reports repeat what others say, and were left out", ""),
    "report-only": (
        "info",
        "the file is a report made from a capture: sizes and communicators of collectives, the time of day and the host are not in it",
        f"export the capture itself: {EXPORT_COMMAND} report.nsys-rep",
    ),
    "no-process-stated": (
        "warning",
        "the report names no process for GPU work, and there are several: the work was given to none of them",
        f"export the capture itself: {EXPORT_COMMAND} report.nsys-rep",
    ),
    "unattributed-work": ("info", "GPU work outside all NVTX ranges is summed up in one row and was left out", "annotate it, or export the capture itself"),
    "several-operations": (
        "info",
        "ranges stand for several GPU operations each: they are kept as annotations, when the GPU worked inside them is unknown",
        f"export the capture itself: {EXPORT_COMMAND} report.nsys-rep",
    ),
    "rank-is-order": ("warning", "ranks are the order of the files that the report was made from: their names tell none", "name reports after their rank"),
    "no-gpu-report": (
        "warning",
        "no report of GPU work lies beside the file: what the GPU did is unknown",
        "add the report cuda_gpu_trace or cuda_kern_exec_trace",
    ),
    "stale-export": (
        "warning",
        "the SQLite export beside the report is older than it: it may be of another capture",
        f"delete it, or export again: {EXPORT_COMMAND} --force-overwrite=true report.nsys-rep",
    ),
    "exported-beside": ("info", "an export of the report lies beside it and is read instead", ""),
    "export-without-payloads": (
        "warning",
        "this nsys does not export payloads: sizes and communicators of NCCL's collectives are lost",
        "export with a newer version of Nsight Systems",
    ),
    "unknown-lines": ("info", "lines of kinds that are not read were left out", ""),
}


@dataclass
class FormNotices(Notices):
    """As `Notices`, with more codes. Codes of `silent` are not reported."""

    silent: frozenset[str] = frozenset()
    _more: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, count: int = 1, about: str | None = None) -> None:
        """See `Notices.add`."""
        if code not in _TEXTS:
            super().add(code, count, about)
        elif count:
            self._more[code] = self._more.get(code, 0) + int(count)

    def silence(self, code: str) -> None:
        """From now on the code is not reported."""
        self.silent |= {code}

    def __contains__(self, code: str) -> bool:
        return code in self._more or super().__contains__(code)

    def all(self) -> list[Notice]:
        """See `Notices.all`."""
        more = [Notice(code, *_TEXTS[code], count=n) for code, n in self._more.items()]
        return sorted((n for n in [*super().all(), *more] if n.code not in self.silent), key=lambda n: n.code)
