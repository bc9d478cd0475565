"""Exports that are folders, with a Parquet or Arrow file for each table: which file stands for the folder, and what else is in it."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["MAGICS", "anchor_of", "tables_beside"]

MAGICS = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")
"""How Parquet files, Arrow files and Arrow streams begin."""
_FIRST = "StringIds"
"""The table that stands for a folder, where there is one: names of kernels lie in it."""
_KNOWN = re.compile(
    r"CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS\w*|NVTX_PAYLOAD_\w+|TARGET_INFO_\w+|META_DATA_(?:EXPORT|CAPTURE)|EXPORT_META_DATA|ENUM_(?:CUDA|CUPTI|NSYS|NVTX)_\w+|"
    r"ANALYSIS_(?:DETAILS|FILE)|NET_(?:NIC|IB)_\w+|GPU_METRICS|StringIds|ThreadNames|ProcessStreams|OSRT_API|DIAGNOSTIC_EVENT|MPI_\w+_EVENTS|MPI_RANKS"
)
_TABLE = re.compile(r"[A-Z][A-Z0-9_]{2,99}(?:_V\d{1,4})?|DYNAMIC_\w{1,150}|StringIds|ThreadNames|ProcessStreams")
"""What an export calls its tables: names of reports that recipes write beside are not of that form."""
_ENOUGH = 2


def tables_beside(path: Path) -> list[Path]:
    """The tables in the folder of a file, of the same kind as it, in the order of their names; at least itself."""
    return sorted(p for p in path.parent.iterdir() if p.suffix == path.suffix and _TABLE.fullmatch(p.stem) and p.is_file()) or [path]


def anchor_of(path: Path) -> Path | None:
    """The file that stands for the folder of `path`: one that does begin as a table. None where the folder is no export."""
    if not _TABLE.fullmatch(path.stem):
        return None
    tables = [p for p in tables_beside(path) if _KNOWN.fullmatch(p.stem)]
    if len(tables) < _ENOUGH:
        return None
    ordered = sorted(tables, key=lambda p: (p.stem != _FIRST, p.name))
    return next((p for p in ordered if _begins_as_table(p)), None)


def _begins_as_table(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(max(map(len, MAGICS))).startswith(MAGICS)
    except OSError:
        return False
