"""The parser of nccl-tests' JSON reports, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import BANDWIDTH_BASELINES, LOG_SETTINGS, TableSpec

__all__ = ["PARSER", "NcclTestsParser"]

_BOM = b"\xef\xbb\xbf"
_START = re.compile(rb'\{\s*"version"\s*:\s*\d+\s*,\s*"start_time"\s*:\s*"[^"]*"\s*,\s*"args"\s*:\s*\[')
_PROGRAM = re.compile(rb'\s*"[^"]*_perf')
_KEYS = re.compile(rb'"(?:nccl_version|results|config|env|args)"\s*:')


class NcclTestsParser:
    """Reads the reports of nccl-tests. Neither its arguments nor its environment, which the report holds too, are stored."""

    name = "nccl-tests"
    version = 1
    title = "nccl-tests report (JSON)"
    kind: SourceKind = "log"
    tables: tuple[TableSpec, ...] = (BANDWIDTH_BASELINES, LOG_SETTINGS)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 -- the user chooses the name
        """See `tracelab.plugins.Parser.sniff`."""
        text = head.removeprefix(_BOM).lstrip()
        start = _START.match(text)
        if start is not None and _PROGRAM.match(text, start.end()):
            return Match(0.95, "a report that begins as those of nccl-tests do")
        # The environment may be longer than the head.
        if start is not None and len({m.group() for m in _KEYS.finditer(text)}) > 1:
            return Match(0.8, "version, arguments and results in the order of nccl-tests")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.nccl_tests.reading import Reading

        return Reading(source, emit).run()


PARSER = NcclTestsParser()
