"""The canonical tables: what parsers fill, what analyses read, documented column by column."""

from __future__ import annotations

from tracelab.errors import UnknownNameError
from tracelab.tables.aligned import ARRIVALS, CLOCKS, COLLECTIVES, GROUPS, MATCHES, STEPS
from tracelab.tables.schema import Column, DType, TableSpec
from tracelab.tables.source import NOTICES, RANKS, SOURCES
from tracelab.tables.spans import COMM_RECORDS, GPU_COUNTERS, GPU_SPANS, HOST_SPANS, MEMORY_EVENTS, PROCESS_GROUPS

__all__ = [
    "ALIGNED_TABLES",
    "ARRIVALS",
    "CLOCKS",
    "COLLECTIVES",
    "COMM_RECORDS",
    "GPU_COUNTERS",
    "GPU_SPANS",
    "GROUPS",
    "HOST_SPANS",
    "MATCHES",
    "MEMORY_EVENTS",
    "NOTICES",
    "PARSED_TABLES",
    "PROCESS_GROUPS",
    "RANKS",
    "SOURCES",
    "STEPS",
    "TABLES",
    "Column",
    "DType",
    "TableSpec",
    "table",
]

PARSED_TABLES = (GPU_SPANS, HOST_SPANS, COMM_RECORDS, PROCESS_GROUPS, MEMORY_EVENTS, GPU_COUNTERS)
"""Filled by parsers, one Parquet file per source and table."""

ALIGNED_TABLES = (STEPS, GROUPS, COLLECTIVES, MATCHES, ARRIVALS, CLOCKS)
"""Derived from the parsed ones when all sources of a job are put on one clock."""

TABLES = {t.name: t for t in (SOURCES, RANKS, NOTICES, *PARSED_TABLES, *ALIGNED_TABLES)}


def table(name: str) -> TableSpec:
    """The definition of the table of that name; `UnknownNameError` lists the existing ones."""
    try:
        return TABLES[name]
    except KeyError:
        raise UnknownNameError("table", name, TABLES) from None
