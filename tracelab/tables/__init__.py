"""The canonical tables: what parsers fill, what analyses read, documented column by column."""

from __future__ import annotations

from tracelab.errors import UnknownNameError
from tracelab.tables.aligned import ARRIVALS, CLOCKS, COLLECTIVES, GROUPS, MATCHES, STEPS
from tracelab.tables.counters import CANONICAL, COUNTER_RATES, COUNTER_SAMPLES, COUNTERS, Canonical, CounterKind
from tracelab.tables.fabric import ADAPTER_PATHS, CABLES, ENDPOINTS, INTERFACES, LINKS
from tracelab.tables.logs import (
    BANDWIDTH_BASELINES,
    CHANNEL_EDGES,
    COMM_PROGRESS,
    COMMUNICATORS,
    LOG_EVENTS,
    LOG_SETTINGS,
    LOGGED_COLLECTIVES,
    NET_DEVICES,
    NET_TRANSFERS,
    NODE_PATHS,
    RING_ORDERS,
    TUNING,
)
from tracelab.tables.schema import Column, DType, TableSpec
from tracelab.tables.source import NOTICES, RANKS, SOURCES
from tracelab.tables.spans import COMM_RECORDS, GPU_COUNTERS, GPU_SPANS, HOST_SPANS, MEMORY_EVENTS, PROCESS_GROUPS
from tracelab.tables.traffic import EDGES, JOB_COMMUNICATORS, OPERATIONS, TRAFFIC, TRAFFIC_EXPECTED, TRAFFIC_STEPS

__all__ = [
    "ADAPTER_PATHS",
    "ALIGNED_TABLES",
    "ARRIVALS",
    "BANDWIDTH_BASELINES",
    "CABLES",
    "CANONICAL",
    "CHANNEL_EDGES",
    "CLOCKS",
    "COLLECTIVES",
    "COMMUNICATORS",
    "COMM_PROGRESS",
    "COMM_RECORDS",
    "COUNTERS",
    "COUNTER_RATES",
    "COUNTER_SAMPLES",
    "EDGES",
    "ENDPOINTS",
    "FABRIC_TABLES",
    "GPU_COUNTERS",
    "GPU_SPANS",
    "GROUPS",
    "HOST_SPANS",
    "INTERFACES",
    "JOB_COMMUNICATORS",
    "LINKS",
    "LINK_TABLES",
    "LOGGED_COLLECTIVES",
    "LOG_EVENTS",
    "LOG_SETTINGS",
    "LOG_TABLES",
    "MATCHES",
    "MEMORY_EVENTS",
    "NET_DEVICES",
    "NET_TRANSFERS",
    "NODE_PATHS",
    "NOTICES",
    "OPERATIONS",
    "PARSED_TABLES",
    "PROCESS_GROUPS",
    "RANKS",
    "RING_ORDERS",
    "SOURCES",
    "STEPS",
    "TABLES",
    "TRAFFIC",
    "TRAFFIC_EXPECTED",
    "TRAFFIC_STEPS",
    "TRAFFIC_TABLES",
    "TUNING",
    "Canonical",
    "Column",
    "CounterKind",
    "DType",
    "TableSpec",
    "table",
]

LOG_TABLES = (
    COMMUNICATORS,
    CHANNEL_EDGES,
    RING_ORDERS,
    LOGGED_COLLECTIVES,
    COMM_PROGRESS,
    NET_DEVICES,
    NET_TRANSFERS,
    LOG_SETTINGS,
    LOG_EVENTS,
    NODE_PATHS,
    TUNING,
    BANDWIDTH_BASELINES,
)
"""Filled by parsers of logs and recorders."""

PARSED_TABLES = (GPU_SPANS, HOST_SPANS, COMM_RECORDS, PROCESS_GROUPS, MEMORY_EVENTS, GPU_COUNTERS, *LOG_TABLES)
"""Filled by parsers, one Parquet file per source and table."""

ALIGNED_TABLES = (STEPS, GROUPS, COLLECTIVES, MATCHES, ARRIVALS, CLOCKS)
"""Derived from the parsed ones when all sources of a job are put on one clock."""

TRAFFIC_TABLES = (JOB_COMMUNICATORS, EDGES, OPERATIONS, TRAFFIC, TRAFFIC_EXPECTED, TRAFFIC_STEPS)
"""Derived from logs and matched collectives: who sends how much to whom."""

FABRIC_TABLES = (COUNTER_SAMPLES, INTERFACES, CABLES, ADAPTER_PATHS)
"""Filled by parsers of counters and topologies: they speak of machines, not of ranks."""

LINK_TABLES = (COUNTERS, COUNTER_RATES, LINKS, ENDPOINTS)
"""Derived from them: whose counters they are, what they count per time, and which links the job's ranks use."""

TABLES = {t.name: t for t in (SOURCES, RANKS, NOTICES, *PARSED_TABLES, *FABRIC_TABLES, *ALIGNED_TABLES, *TRAFFIC_TABLES, *LINK_TABLES)}


def table(name: str) -> TableSpec:
    """The definition of the table of that name; `UnknownNameError` lists the existing ones."""
    try:
        return TABLES[name]
    except KeyError:
        raise UnknownNameError("table", name, TABLES) from None
