"""The notices of the flight-recorder parser: what each code means and what to do about it."""

from __future__ import annotations

from tracelab_parsers.nccl_json.notices import NoticeText

__all__ = ["TEXTS"]

_Text = NoticeText
_CUT_HINT = "the process was killed while it wrote, or the copy is incomplete: copy it again, or give the dump more time (TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC)"
_WRITER_HINT = "no version of PyTorch writes this: another tool has rewritten the dump"

TEXTS: dict[str, NoticeText] = {
    "truncated": _Text("warning", "the dump ends in its middle; every complete entry before that was kept", _CUT_HINT),
    "trailing-data": _Text(
        "warning", "bytes after the end of the dump were ignored", "two processes may have written to one file: give each rank its own name"
    ),
    "no-json": _Text("error", "the file is no JSON document", "remove it from the directory, or dump again"),
    "no-entries": _Text(
        "warning",
        "the dump holds no operation",
        "set TORCH_FR_BUFFER_SIZE (TORCH_NCCL_TRACE_BUFFER_SIZE before PyTorch 2.9) to a number of operations, as 2000, before the job starts",
    ),
    "unknown-version": _Text(
        "warning", "the dump is of a version that is not known; what has the known names was read", "look for a newer release of tracelab"
    ),
    "overwritten-operations": _Text(
        "info",
        "older operations were overwritten: the recorder keeps the newest ones alone",
        "set TORCH_FR_BUFFER_SIZE (TORCH_NCCL_TRACE_BUFFER_SIZE before PyTorch 2.9) higher to see further back",
    ),
    "bad-entry": _Text("warning", "entries that do not say which operation they are were dropped", _WRITER_HINT),
    "unknown-state": _Text("warning", "entries without a known state were given the one that their times show", _WRITER_HINT),
    "unknown-element-type": _Text("info", "operations have an element type of unknown size: their bytes are unknown"),
    "too-many-sizes": _Text("warning", "operations on very many tensors: their bytes were not added up"),
    "too-many-entries": _Text("warning", "entries beyond the first million were dropped"),
    "bad-ranks": _Text("warning", "process groups whose list of ranks cannot be read are without it", _WRITER_HINT),
    "contradictory-writer": _Text(
        "warning",
        "the groups and the titles of sends and receives name different ranks as the writer; the rank is taken from the file's name",
        'check the name, or set [files."…"] rank = … in tracelab.toml',
    ),
    "bad-event": _Text("warning", "entries are no valid JSON and were dropped", _WRITER_HINT),
    "bad-comma": _Text("info", "commas between entries are missing or too many; they were read over", _WRITER_HINT),
    "oversized-event": _Text("warning", "single entries larger than 64 MiB were skipped"),
    "broken-metadata": _Text("warning", "a part of the dump beside its entries is no valid JSON or is too large and was skipped", _WRITER_HINT),
    "duplicate-key": _Text("warning", "a top-level key stands in the file twice", "two processes may have written to one file: give each rank its own name"),
    "interleaved-writers": _Text(
        "error", "the file holds parts of more than one dump; some are lost", "two processes wrote to one path; give each rank its own"
    ),
}
