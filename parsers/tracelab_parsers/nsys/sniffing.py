"""Whether a file is an export of Nsight Systems, from its first bytes, or from its list of tables where those do not tell."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Match

__all__ = ["SQLITE_MAGIC", "sniff_export"]

SQLITE_MAGIC = b"SQLite format 3\x00"
_TABLE = re.compile(
    rb"CREATE TABLE \"?(CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS\w*|NVTX_PAYLOAD_\w+|ENUM_NSYS_\w+|ENUM_CUDA_\w+|ENUM_CUPTI_\w+|TARGET_INFO_\w+|META_DATA_EXPORT"
    rb"|META_DATA_CAPTURE|EXPORT_META_DATA|ANALYSIS_DETAILS|ANALYSIS_FILE|NET_NIC_METRIC|GPU_METRICS|StringIds|ProcessStreams|OSRT_API|DIAGNOSTIC_EVENT)\b"
)
_ENOUGH = 2


def sniff_export(path: Path, head: bytes) -> Match | None:
    """A match of 1 where two tables or more are those of Nsight Systems; None for any other database."""
    if not head.startswith(SQLITE_MAGIC):
        return None
    found = set(_TABLE.findall(head))
    if len(found) < _ENOUGH:
        from tracelab_parsers.nsys.database import table_names

        # the definitions of tables may lie anywhere in the file
        found |= set(_TABLE.findall("\n".join(f"CREATE TABLE {name}" for name in table_names(path)).encode()))
    if len(found) >= _ENOUGH:
        return Match(1.0, "an SQLite database with the tables of Nsight Systems")
    return None
