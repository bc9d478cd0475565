"""The parser of NCCL and RCCL logs, as the plugin registry knows it."""

from __future__ import annotations

from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import TableSpec
from tracelab.tables.logs import (
    BANDWIDTH_BASELINES,
    CHANNEL_EDGES,
    COMM_PROGRESS,
    COMMUNICATORS,
    LOG_EVENTS,
    LOG_SETTINGS,
    LOGGED_COLLECTIVES,
    NET_DEVICES,
    NODE_PATHS,
    RING_ORDERS,
    TUNING,
)
from tracelab_parsers.nccl_log.sniffing import sniff_log

__all__ = ["PARSER", "NcclLogParser"]


class NcclLogParser:
    """Reads every text in which NCCL, RCCL, torch's watchdog or nccl-tests speak, whatever stands around their lines."""

    name = "nccl-log"
    version = 2
    title = "NCCL or RCCL log"
    kind: SourceKind = "log"
    tables: tuple[TableSpec, ...] = (
        COMMUNICATORS,
        LOGGED_COLLECTIVES,
        CHANNEL_EDGES,
        RING_ORDERS,
        NET_DEVICES,
        LOG_SETTINGS,
        LOG_EVENTS,
        NODE_PATHS,
        TUNING,
        BANDWIDTH_BASELINES,
        COMM_PROGRESS,
    )
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`."""
        return sniff_log(path, head)

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: some ten times the 2 MiB of text read at once, and what communicators and threads there are."""
        from tracelab_parsers.nccl_log.reading import Reading

        return Reading(source, emit).run()


PARSER = NcclLogParser()
