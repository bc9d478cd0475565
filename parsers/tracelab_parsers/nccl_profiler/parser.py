"""The parser of dumps of NCCL's example profiler plugin, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COMMUNICATORS, LOGGED_COLLECTIVES, NET_TRANSFERS, TableSpec

__all__ = ["PARSER", "NcclProfilerParser"]

_BOM = b"\xef\xbb\xbf"
_EVENT = re.compile(
    rb'\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"cat"\s*:\s*'
    rb'"(?:GROUP_API|COLL_API|P2P_API|KERNEL_LAUNCH|GROUP|COLL|P2P|PROXY|NET|NET_IB|NET_SOCK|GPU|CE_COLL|CE_SYNC|CE_BATCH)"'
    rb'\s*,\s*"ph"\s*:\s*"[be]"\s*,\s*"id"\s*:'
)


class NcclProfilerParser:
    """Reads the events of NCCL's example profiler: operations, and what the network proxy moved for them."""

    name = "nccl-profiler"
    version = 1
    title = "NCCL example profiler dump"
    kind: SourceKind = "log"
    tables: tuple[TableSpec, ...] = (LOGGED_COLLECTIVES, NET_TRANSFERS, COMMUNICATORS)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 -- the user chooses the name
        """See `tracelab.plugins.Parser.sniff`."""
        text = head.removeprefix(_BOM).lstrip(b" \t\r\n\0")
        # The bracket may be missing: dumps are pasted in parts.
        if _EVENT.match(text.removeprefix(b"[").lstrip()):
            return Match(0.95, "async events of the categories of NCCL's example profiler")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`. Memory: one line of at most 1 MiB, a batch of rows, and 10,000 open events."""
        from tracelab_parsers.nccl_profiler.reading import Reading

        return Reading(source, emit).run()


PARSER = NcclProfilerParser()
