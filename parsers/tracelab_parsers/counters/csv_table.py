"""The parser of tables of counters, as the plugin registry knows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, TableSpec

__all__ = ["PARSER", "CounterCsvParser"]

_OTHERS = re.compile(rb"\s*(?:[\[{<]|START_[A-Z]|(?:# )?(?:HELP|TYPE) )|[^\n]*\bsource_id\s*,\s*tag\b")
"""JSON, XML, ibdiagnet's sections, Prometheus' text, and UFM's telemetry have parsers of their own."""


class CounterCsvParser:
    """Reads CSV and its kin whose headings name a time and counters; or, as the option `tables` (JSON) describes them, any columns."""

    name = "counter-csv"
    version = 2
    title = "Tables of counters (CSV, TSV), nvidia-smi --format=csv"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES,)
    option_names: tuple[str, ...] = ("tables",)

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - tables are told by their headings and rows
        """See `tracelab.plugins.Parser.sniff`."""
        if b"\0" in head[:4096] or _OTHERS.match(head):
            return None
        first = head[: 8 << 10]
        if not any(d in first for d in (b",", b";", b"\t", b"|")) or b"\n" not in head:
            return None
        from tracelab_parsers.counters.csv_table_finding import find_plan

        lines = head.decode("utf-8", "replace").split("\n")
        found = find_plan([line.removesuffix("\r") for line in lines[:-1]][:400])
        if found is None:
            return None
        counters = [c.name for c in found.plan.columns if c.heading is not None][:3] or ["rows of one counter each"]
        return Match(1.0, f"a table with a time and counters ({', '.join(counters)[:80]})")

    def check_options(self, options: Mapping[str, bool | int | str]) -> None:
        """See `tracelab.plugins.WithCheckedOptions`."""
        from tracelab_parsers.counters.csv_table_description import read_description

        read_description(str(options["tables"]))

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.csv_table_reading import Reading

        return Reading(source, emit).run()


PARSER = CounterCsvParser()
