"""The notices of the nccl-tests parser: what each code means and what to do about it."""

from __future__ import annotations

from tracelab_parsers.nccl_json.notices import NoticeText as _Text

__all__ = ["TEXTS"]

_CUT_HINT = "the benchmark was killed while it wrote, or the copy is incomplete"

TEXTS: dict[str, _Text] = {
    "truncated": _Text("warning", "the report is cut short; every complete result before that was kept", _CUT_HINT),
    "no-json": _Text("error", "the file is no JSON document", "remove it from the directory, or run the benchmark again with -J"),
    "no-results": _Text("warning", "the report holds no results", "the benchmark failed or was stopped before it measured anything"),
    "bad-event": _Text("warning", "results are no valid JSON and were dropped"),
    "bad-comma": _Text("info", "commas between results are missing or too many; they were read over"),
    "bad-result": _Text("warning", "results do not state a size, or state it wrongly, and were dropped"),
    "bad-time": _Text("warning", "times that are no usable numbers were read as missing"),
    "oversized-event": _Text("warning", "single results larger than 64 MiB were skipped"),
    "broken-metadata": _Text("warning", "a part of the report beside its results is no valid JSON or is too large and was skipped"),
    "duplicate-key": _Text("warning", "a top-level key stands in the file twice", "two processes may have written to one file"),
    "interleaved-writers": _Text("error", "the file holds parts of more than one report", "give each run its own file name"),
    "trailing-data": _Text("warning", "text after the end of the report was ignored"),
    "unknown-operation": _Text("warning", "the report does not tell, by the name of its program, which operation was measured"),
    "cpu-times": _Text("warning", "results hold CPU times (-C), which say nothing about the network, and were left out", "run the benchmark without -C"),
    "wrong-elements": _Text("warning", "results hold wrong elements: data were corrupted on the way", "test memory and links before a job runs there"),
}
