"""Exports that are folders, with a Parquet or Arrow file for each table: which file stands for the folder, and what else is in it."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["FIRST", "anchor_of", "is_table", "tables_beside"]

FIRST = "StringIds"
"""The table that stands for a folder, where there is one: names of kernels lie in it."""
_TABLE = re.compile(
    r"(?:CUPTI_ACTIVITY_KIND_\w+|NVTX_\w+|TARGET_INFO_\w+|META_DATA_\w+|EXPORT_META_DATA|ENUM_\w+|ANALYSIS_\w+|NET_\w+|GPU_METRICS|GPU_CONTEXT_SWITCH_EVENTS|"
    r"StringIds|ThreadNames|PROCESSES|ProcessStreams|OSRT_\w+|DIAGNOSTIC_EVENT|MPI_\w+|UCP_\w+|SCHED_EVENTS|COMPOSITE_EVENTS|GENERIC_EVENT\w*|PROFILER_OVERHEAD|"
    r"CUDA_\w+|SAMPLING_CALLCHAINS|NIC_ID_MAP)"
)
_ENOUGH = 2


def is_table(path: Path) -> bool:
    """Whether a file is named as a table of an export."""
    return _TABLE.fullmatch(path.stem) is not None


def tables_beside(path: Path) -> list[Path]:
    """The files of the same kind in the folder, in the order of their names, the given one among them."""
    return sorted(p for p in path.parent.iterdir() if p.suffix == path.suffix and p.is_file()) or [path]


def anchor_of(path: Path) -> Path | None:
    """The file that stands for the folder; None where the folder is no export."""
    known = [p for p in tables_beside(path) if is_table(p)]
    if len(known) < _ENOUGH:
        return None
    return next((p for p in known if p.stem == FIRST), known[0])
