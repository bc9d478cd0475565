"""The notices of the NCCL Inspector parser: what each code means and what to do about it."""

from __future__ import annotations

from tracelab_parsers.nccl_json.notices import NoticeText as _Text

__all__ = ["TEXTS"]

TEXTS: dict[str, _Text] = {
    "truncated": _Text("warning", "the file ends in the middle of a line; every record before was kept", "the process was killed, or the copy is incomplete"),
    "bad-line": _Text("warning", "lines are no records of NCCL Inspector and were dropped"),
    "bad-record": _Text("warning", "records lack the operation's name or number, or state them wrongly, and were dropped"),
    "bad-header": _Text("warning", "records do not tell their communicator: their operations belong to none"),
    "bad-time": _Text("warning", "lengths or starts that are no usable numbers were read as missing"),
    "oversized-line": _Text("warning", "single lines of more than 1 MiB were skipped"),
    "no-operations": _Text("warning", "the file holds no operations", "operations below NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES (8192) are not recorded"),
    "unknown-operation": _Text("info", "operations of unknown names were kept without their bytes"),
    "other-records": _Text("info", "records of other kinds were counted and not stored"),
    "operations-overwritten": _Text(
        "warning",
        "operations were overwritten in memory before they could be written: they are missing here",
        "raise NCCL_INSPECTOR_DUMP_COLL_RING_SIZE and NCCL_INSPECTOR_DUMP_P2P_RING_SIZE, or dump more often",
    ),
    "transfers-lost": _Text(
        "warning",
        "transfers of the network proxy were lost before they could be written: they are missing here",
        "raise NCCL_INSPECTOR_PROXY_OP_POOL_SIZE and NCCL_INSPECTOR_DUMP_PROXY_RING_SIZE, or dump more often",
    ),
    "transfers-for-others": _Text("info", "transfers that the proxy made for other processes (PXN) are not recorded"),
    "bytes-incomplete": _Text("warning", "transfers lack some of their steps: their bytes are too few", "raise NCCL_INSPECTOR_PROXY_STEP_POOL_SIZE"),
    "records-missing": _Text("warning", "dumps announce more records than follow", "the file was cut or filtered; give it as the plugin wrote it"),
    "numbers-skipped": _Text(
        "info",
        "operations are missing between those recorded",
        "small ones are left out (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES), and old ones when more than 1024 of a communicator wait to be written",
    ),
    "cpu-timed": _Text("info", "lengths of operations were measured by the CPU, not by the GPU: they hold its delays"),
    "no-starts": _Text("info", "the records hold lengths of operations but not when they began", "set NCCL_INSPECTOR_DUMP_VERBOSE=1"),
    "ambiguous-rank": _Text("info", "the process has several ranks in its largest communicators: its rank in the job and the job's size are unknown"),
    "too-many-processes": _Text("warning", "records of more than 4096 processes in one file were dropped"),
    "too-many-communicators": _Text("warning", "operations of more than 65,536 communicators were kept without theirs"),
}
