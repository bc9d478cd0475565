"""The parser of iproute2's JSON (`ip -s -j link`, `ip -j addr`, `rdma statistic -j`, `rdma link -j`), as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "IprouteParser"]

_ABOVE = rb"(?:\xef\xbb\xbf)?(?:(?![ \t]*(?:\{|\[\s*[{\]]))[^\n]{0,400}\n){0,20}[^\n{]{0,400}?\s*"
"""Lines that tell what follows: a prompt, a moment, a heading."""
_START = re.compile(_ABOVE + rb'\[\s*(?:\{\s*\}\s*,\s*)*\{\s*"(?:ifindex|link_index)"\s*:\s*\d+\s*,\s*"(?:ifname|link)"\s*:')
_LINK = re.compile(rb'"(?:stats64|operstate|addr_info|link_type)"\s*:')
_RDMA = re.compile(rb'"port"\s*:\s*\d+\s*,\s*(?:"\w+"\s*:\s*\d+|"(?:state|subnet_prefix)"\s*:\s*")')


class IprouteParser:
    """Reads what `ip` and `rdma` print as JSON, also one output after another with lines that state moment and machine."""

    name = "iproute"
    version = 3
    title = "Network interfaces (ip -j, rdma -j)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the user chooses the name
        """See `tracelab.plugins.Parser.sniff`."""
        if _START.match(head) is None:
            return None
        if _LINK.search(head):
            return Match(0.95, "interfaces as ip -j lists them")
        return Match(0.9, "devices as rdma -j lists them") if _RDMA.search(head) else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.iproute_reading import Reading

        return Reading(source, emit).run()


PARSER = IprouteParser()
