"""Tables of a job as analyses see them, from parsed frames."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tests.builders.frames import frame
from tracelab.align import Aligned, align
from tracelab.analyses import ANALYSES
from tracelab.analysis import Outcome, run_analyses
from tracelab.results import Evidence, Finding
from tracelab.tables import RANKS, TABLES
from tracelab.traffic.build import traffic_tables


class AlignedTables:
    """The protocol `tracelab.analysis.Tables` over frames in memory."""

    def __init__(self, parsed: Mapping[str, pl.LazyFrame], hosts: Mapping[int, str], world_size: int | None = None) -> None:
        self.memo: dict[str, object] = {}
        self.aligned: Aligned = align(parsed, hosts, world_size)
        self.frames = {name: self.aligned.to_aligned(f) if "ts_ns" in f.collect_schema().names() else f for name, f in parsed.items()}
        self.frames |= {name: f.lazy() for name, f in self.aligned.derived.items()}
        self.frames |= {name: f.lazy() for name, f in traffic_tables(parsed, self.aligned.derived, hosts, world_size).frames.items()}
        ranks = [{"rank": r, "host": h, "sources": "", "windows": 1, "orphan_gpu_events": 0, "truncated": False, "notices": 0} for r, h in hosts.items()]
        self.frames["ranks"] = frame(RANKS, ranks).lazy()

    def __getitem__(self, name: str) -> pl.LazyFrame:
        return self.frames.get(name, TABLES[name].empty().lazy())

    def __contains__(self, name: object) -> bool:
        return str(name) in self.frames and self.frames[str(name)].limit(1).collect().height > 0

    def evidence(self, source_id: int, rank: int | None, source_ts_ns: int | None, ts_ns: int | None, text: str) -> Evidence:
        return Evidence(f"source {source_id}", rank, source_ts_ns, ts_ns, text)


def outcomes(parsed: Mapping[str, pl.LazyFrame], hosts: Mapping[int, str], world_size: int | None = None) -> dict[str, Outcome]:
    """All analyses by id; any error is raised."""
    return {o.status.id: o for o in run_analyses(ANALYSES, AlignedTables(parsed, hosts, world_size), raise_errors=True)}


def findings(results: Mapping[str, Outcome]) -> list[Finding]:
    """All findings, largest loss first."""
    found = [f for o in results.values() if o.result for f in o.result.findings]
    return sorted(found, key=lambda f: -f.lost_s)
