"""The parser of answers of Prometheus' API as JSON, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, TableSpec

__all__ = ["PARSER", "PrometheusJsonParser"]

_ANSWER = re.compile(rb'"resultType"\s*:\s*"(?:matrix|vector|scalar|string)"|"result"\s*:\s*\[\s*\{\s*"metric"\s*:\s*\{')
_DATA = re.compile(rb'"data"\s*:\s*\{|"result"\s*:\s*\[')
_ERROR = re.compile(rb'\s*\{\s*"status"\s*:\s*"error"\s*,\s*"errorType"\s*:\s*"')
_EXPORT = re.compile(rb'\s*\{\s*"metric"\s*:\s*\{[^{}]*\}\s*,\s*"values"\s*:\s*\[')


class PrometheusJsonParser:
    """Reads answers of query_range and query (ranges and moments), of Prometheus and what speaks like it, and exports of VictoriaMetrics."""

    name = "prometheus-json"
    version = 2
    title = "Prometheus API answers (JSON): node_exporter, dcgm-exporter, infiniband_exporter, snmp_exporter, SONiC"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES,)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - answers are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] not in (b"{", b"["):
            return None
        if _ANSWER.search(text) is not None and _DATA.search(text) is not None:
            return Match(1.0, "an answer of Prometheus' API")
        if _ERROR.match(text) is not None:
            return Match(0.9, "an error of Prometheus' API")
        return Match(0.9, "series as VictoriaMetrics exports them") if _EXPORT.match(text) is not None else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.prometheus_json_reading import Reading

        return Reading(source, emit).run()


PARSER = PrometheusJsonParser()
