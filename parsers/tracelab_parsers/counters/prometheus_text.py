"""The parser of what exporters print for Prometheus, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, TableSpec

__all__ = ["PARSER", "PrometheusTextParser"]

_TYPE = re.compile(rb"^# TYPE [a-zA-Z_:][\w:]* (?:counter|gauge|histogram|summary|untyped|unknown|info|stateset|gaugehistogram)\s*$", re.MULTILINE)
_LINES = 40
_FEWEST = 3
_SELDOM = 5


class PrometheusTextParser:
    """Reads the text of exporters, one scrape or many; lines between scrapes may state a moment and a machine."""

    name = "prometheus-text"
    version = 2
    title = "Prometheus exposition (text), OpenMetrics: node_exporter, dcgm-exporter, infiniband_exporter, snmp_exporter, SONiC"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES,)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - expositions are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        from tracelab_parsers.counters.headings import heading_of
        from tracelab_parsers.counters.prometheus_names import known_metric
        from tracelab_parsers.counters.prometheus_text_lines import labels_of, sample_of

        if b"\0" in head[:4096]:
            return None
        text = head.decode("utf-8", "replace").removeprefix("\ufeff")
        found = [line.strip() for line in text.split("\n")]
        if len(head) >= 1 << 16 and len(found) > 1:
            found.pop()  # cut by the head
        rows = [line for line in found if line and not line.startswith("#")][:_LINES]
        samples = [sample_of(line) for line in rows if heading_of(line) is None]
        typed = len(_TYPE.findall(head))
        broken = sum(s is None for s in samples)
        if typed and broken * _SELDOM <= len(samples) and (samples or typed >= _FEWEST):
            return Match(1.0, "metrics as exporters print them")
        if broken or not samples:
            return None
        known = 0
        for sample in samples:
            labels = labels_of(sample.labels) if sample is not None else None
            if sample is None or labels is None:
                return None
            known += bool(labels) and known_metric(sample.name, labels) is not None
        return Match(0.95, "metrics of exporters without their descriptions") if known >= min(_FEWEST, len(samples)) else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.prometheus_text_reading import Reading

        return Reading(source, emit).run()


PARSER = PrometheusTextParser()
