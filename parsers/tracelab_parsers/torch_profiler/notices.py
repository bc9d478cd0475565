"""The notices of the PyTorch profiler parser: what each code means and what to do about it."""

from __future__ import annotations

from tracelab_parsers.nccl_json import notices
from tracelab_parsers.nccl_json.notices import NoticeText as _Text

__all__ = ["Notices"]


_CUT_HINT = "the process was killed while it wrote, or the copy is incomplete: copy it again, or let the profiler finish before the job ends"
_BROKEN_HINT = "a newer PyTorch writes valid JSON here; every other event was kept"

_TEXTS: dict[str, _Text] = {
    "truncated": _Text("warning", "the file ends in the middle of the trace; every complete event before that was kept", _CUT_HINT),
    "gzip-torn": _Text("warning", "the compressed file ends before its gzip stream does", _CUT_HINT),
    "gzip-corrupt": _Text("warning", "the compressed file is damaged; what comes after the damage is lost", "copy the file again from where it was written"),
    "gzip-trailing-garbage": _Text("info", "bytes after the end of the gzip data were ignored"),
    "decompression-limit": _Text(
        "error", "the file expands far more than any trace does; the rest was not read", "check where the file comes from; expand it by hand if it is genuine"
    ),
    "no-json": _Text("error", "the file is no JSON document", "remove it from the directory, or trace again"),
    "no-events": _Text("warning", "the trace holds no events", "check that the profiler was started and that the window covers a step"),
    "bad-event": _Text("warning", "events are no valid JSON and were dropped", _BROKEN_HINT),
    "bad-comma": _Text("info", "commas between events are missing or too many; they were read over", _BROKEN_HINT),
    "bad-time": _Text("warning", "events whose start or length is no usable number were dropped"),
    "oversized-event": _Text("warning", "single events larger than 64 MiB were skipped"),
    "not-an-object": _Text("warning", "elements of the event list are not objects and were skipped"),
    "invalid-utf8": _Text("info", "names that are no valid UTF-8 were kept with the bad bytes replaced"),
    "control-character": _Text("info", "events hold raw control characters inside text; they were kept"),
    "non-finite-number": _Text("info", "NaN or infinite numbers were read as missing", "kineto writes them where a copy lasts 0 µs; nothing is lost"),
    "bad-escape": _Text("info", "events hold stray backslashes (Windows paths); they were read as plain backslashes"),
    "broken-metadata": _Text("warning", "a part of the metadata is no valid JSON or is too large and was skipped", _BROKEN_HINT),
    "duplicate-key": _Text("warning", "a top-level key stands in the file twice", "two processes may have written to one file: give each rank its own path"),
    "interleaved-writers": _Text(
        "error",
        "the file holds parts of more than one trace: events of several writers may be mixed, and some are lost",
        "do not trust this file: two processes wrote to one path; give each rank its own file name",
    ),
    "trailing-data": _Text("warning", "text after the end of the trace was ignored"),
    "no-time-base": _Text(
        "warning",
        "times count from an unknown moment: the trace states no base time",
        "clocks of different ranks can only be compared through their collectives",
    ),
    "time-base-conflict": _Text("error", "the trace states two base times; the other one was used", "trace again; the times of this file cannot be trusted"),
    "fractional-time-base": _Text(
        "warning", "the base time is no whole number of nanoseconds and was rounded", "another tool has rewritten the trace: its clock may have lost precision"
    ),
    "clamped-time": _Text("info", "events whose start or length the profiler cut are marked as clamped", "they began before the capture; do not align on them"),
    "unknown-category": _Text("info", "events of categories that are not known were kept as other host spans, if they name a thread by number"),
    "record-end-missing": _Text("info", "the profiler's end mark is missing: the file was processed by another tool, or is older"),
    "orphan-gpu-events": _Text("info", "GPU events whose launch is not in the capture", "work launched before the capture began; its host side is unknown"),
    "no-kernels-but-launches": _Text(
        "warning",
        "kernels were launched but no GPU event was recorded",
        "the GPU was not idle: CUPTI or ROCm tracing failed; check permissions and other profilers",
    ),
    "shared-correlation-zero": _Text(
        "warning", "GPU events have correlation 0 and cannot be joined with their launches", "a known fault of roctracer with RCCL; update ROCm"
    ),
    "correlation-collision": _Text("info", "kernels share a correlation with another kernel outside of graphs: their launches are ambiguous"),
    "list-cut": _Text("info", "lists of ranks were cut by the profiler and could not be restored", "the groups of these records are unknown"),
    "split-list-cut": _Text("info", "split sizes were cut by the profiler: the bytes per peer are unknown"),
    "group-too-large": _Text(
        "warning",
        "groups state more ranks than the job has, or than can be held, without listing them",
        "the members of these groups are unknown; check the group sizes that the trace states",
    ),
    "bad-launch-size": _Text("info", "grids or blocks of kernels are not up to three whole numbers, or too large, and were read as missing"),
    "no-rank": _Text("info", "the trace states no rank"),
    "too-many-kinds": _Text("info", "events have more than 256 different categories; the rest are counted together"),
}


class Notices(notices.Notices):
    """Counts notices by code and keeps the offset of the first."""

    def __init__(self) -> None:
        super().__init__(_TEXTS)

    def report(self, code: str, offset: int) -> None:
        """As `add`, for one case at an offset."""
        self.add(code, offset)
