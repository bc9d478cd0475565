"""From the outcomes of all analyses to the one result document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from tracelab import __version__
from tracelab.analysis import Outcome
from tracelab.ingest.discovery import Candidate
from tracelab.ingest.identity import FileNotice
from tracelab.ingest.pipeline import Ingested
from tracelab.ingest.rankmap import Assignment, RankMap
from tracelab.observable import not_observable
from tracelab.results import (
    SEVERITIES,
    Attribution,
    Clock,
    Coverage,
    Finding,
    Input,
    Price,
    RankInfo,
    ResultNotice,
    RunInfo,
    RunResult,
    StepTime,
    Tool,
    Traffic,
)
from tracelab.verdict import verdict

if TYPE_CHECKING:
    import polars as pl

__all__ = ["JobFacts", "build_result", "list_clocks", "list_inputs", "list_notices", "run_info"]


_USE = ("analysed", "log", "other-job", "duplicate", "no-events")
"""Roles of a process, the most telling first: a file of several processes is listed with that of its best."""


@dataclass(frozen=True)
class JobFacts:
    """What is known of the job before any analysis: the frames are the tables of those names."""

    name: str
    rank_map: RankMap
    candidates: Sequence[Candidate]
    ingested: Sequence[Ingested]
    notices: Sequence[FileNotice]
    ranks: pl.DataFrame
    steps: pl.DataFrame
    clocks: pl.DataFrame
    tables: Mapping[str, pl.LazyFrame]
    price: Price | None = None


def list_inputs(facts: JobFacts) -> list[Input]:
    """Every file that was found and what became of it."""
    ingested = {i.candidate.name: i for i in facts.ingested}
    assigned: dict[str, list[Assignment]] = {}
    for a in facts.rank_map.assignments:
        assigned.setdefault(a.process.name, []).append(a)
    out = []
    for c in facts.candidates:
        item, mine = ingested.get(c.name), assigned.get(c.name, [])
        if c.ignored:
            role = "ignored"
        elif c.companion_of is not None:
            role = "companion"
        elif item is None:
            role = "unreadable" if c.notice is not None and c.notice.severity == "error" else "unknown"
        elif item.kind == "fabric":
            role = "unreadable" if item.source is None else "network" if item.source.info.events else "no-events"
        else:
            role = "unreadable" if item.source is None else min((a.role for a in mine), key=_USE.index, default="no-events")
        events = item.source.info.events if item is not None and item.source is not None else 0
        rank = mine[0].process.rank if len(mine) == 1 and mine[0].role in {"analysed", "log"} else None
        out.append(Input(c.name, c.parser or "", role, c.size_bytes, events, rank, c.looks_like))
    return out


def list_notices(facts: JobFacts) -> list[ResultNotice]:
    """All notices, of files in order, then of the job."""
    return [ResultNotice(n.path, n.notice.code, n.notice.severity, n.notice.count, n.notice.offset, n.notice.text, n.notice.hint) for n in facts.notices]


def _coverage(ranks: pl.DataFrame) -> list[Coverage]:
    return [Coverage(r["rank"], r["orphan_gpu_events"], r["truncated"], r["notices"]) for r in ranks.iter_rows(named=True)]


def _step_time(lengths_ns: Sequence[int]) -> StepTime | None:
    import numpy as np

    if not lengths_ns:
        return None
    seconds = np.asarray(lengths_ns, dtype=np.float64) / 1e9
    return StepTime(round(float(np.median(seconds)), 9), round(float(np.quantile(seconds, 0.95)), 9), round(float(seconds.max()), 9))


def _step_lengths(outcomes: Sequence[Outcome]) -> list[int]:
    for o in outcomes:
        if o.result is not None and "step_times" in o.result.frames:
            return [int(v) for v in o.result.frames["step_times"]["length_ns"].to_list()]
    return []


def run_info(facts: JobFacts, lengths: Sequence[int]) -> RunInfo:
    """The job and how much of it the files show; `lengths` are those of its steps, in ns."""
    ranks = [RankInfo(r["rank"], r["host"], r["device"], r["gpu"], r["sources"].split("\n")) for r in facts.ranks.iter_rows(named=True)]
    starts, ends = facts.ranks["start_ns"].drop_nulls(), facts.ranks["end_ns"].drop_nulls()
    return RunInfo(
        name=facts.name,
        start_ns=_int(starts.min()),
        end_ns=_int(ends.max()),
        world_size=facts.rank_map.world_size,
        ranks=ranks,
        missing_ranks=list(facts.rank_map.missing),
        steps=len(lengths),
        step_time_s=_step_time(lengths),
        coverage=_coverage(facts.ranks),
    )


def _int(value: Any) -> int | None:
    return None if value is None else int(value)


def list_clocks(clocks: pl.DataFrame) -> list[Clock]:
    """The table `clocks` in the form of the document."""
    return [Clock(**row) for row in clocks.iter_rows(named=True)]


def _findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    """All findings, the largest loss first. Two of one subject get ids of their own, in that order."""
    found = [f for o in outcomes if o.result is not None for f in o.result.findings]
    found.sort(key=lambda f: (-f.lost_s, SEVERITIES.index(f.severity), f.id))
    seen: dict[str, int] = {}
    out = []
    for f in found:
        seen[f.id] = seen.get(f.id, 0) + 1
        out.append(f if seen[f.id] == 1 else msgspec.structs.replace(f, id=f"{f.id}-{seen[f.id]}"))
    return out


def _attribution(outcomes: Sequence[Outcome]) -> Attribution | None:
    return next((o.result.attribution for o in outcomes if o.result is not None and o.result.attribution is not None), None)


def _traffic(outcomes: Sequence[Outcome]) -> Traffic | None:
    """Bytes per pair of ranks: sender, receiver, bytes; None where no operation states its size, or ranks are too many to list pairs."""
    import polars as pl

    for o in outcomes:
        if o.result is not None and "traffic_pairs" in o.result.frames:
            pairs = o.result.frames["traffic_pairs"].filter(pl.col("bytes") > 0).select("src_rank", "dst_rank", "bytes", "ranks")
            return Traffic(pairs.select("src_rank", "dst_rank", "bytes").rows()) if pairs["ranks"].max() == 1 else None
    return None


def _other_jobs(ranks: RankMap) -> str:
    """A verdict on one job must not pass for one on all that lie in the directory."""
    others = len({a.job for a in ranks.assignments}) - 1
    if others < 1:
        return ""
    return f" {others} other job{'s lie' if others > 1 else ' lies'} in the directory, not analysed here (--job N)."


def build_result(facts: JobFacts, outcomes: Sequence[Outcome]) -> RunResult:
    """The document. Equal facts and outcomes give equal documents."""
    info = run_info(facts, _step_lengths(outcomes))
    findings, attribution = _findings(outcomes), _attribution(outcomes)
    clocks = list_clocks(facts.clocks)
    unseen = not_observable(info, clocks, facts.steps, facts.tables)
    unseen += [n for o in outcomes if o.result is not None for n in o.result.not_observable]
    return RunResult(
        tool=Tool("tracelab", __version__),
        run=info,
        verdict=verdict(info, findings, attribution, [o.status for o in outcomes]) + _other_jobs(facts.rank_map),
        attribution=attribution,
        findings=findings,
        not_observable=list({n.question: n for n in unseen}.values()),
        clocks=clocks,
        analyses=[o.status for o in outcomes],
        price=facts.price,
        traffic=_traffic(outcomes),
        sections=[s for o in outcomes if (s := o.section()) is not None],
        inputs=list_inputs(facts),
        notices=list_notices(facts),
    )
