"""What a directory holds, before any analysis: files, jobs, ranks, clocks, gaps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tracelab import __version__
from tracelab.document import JobFacts, list_clocks, list_inputs, list_notices, run_info
from tracelab.ingest.rankmap import Assignment, RankMap
from tracelab.observable import not_observable
from tracelab.results import Clock, Input, NotObservable, ResultNotice, Tool

__all__ = ["FoundJob", "FoundRank", "Inspection", "inspect_job"]


class FoundJob(msgspec.Struct, frozen=True):
    """A job that some of the files belong to; number 0 is the one that `analyze` takes."""

    number: int
    ranks: int
    world_size: int | None
    files: list[str]
    start_ns: int | None
    end_ns: int | None


class FoundRank(msgspec.Struct, frozen=True):
    """A rank of job 0, and where its number and host were taken from. Times are in the host's own clock."""

    rank: int
    rank_origin: str
    host: str
    host_origin: str
    device: int | None
    gpu: str | None
    windows: int
    start_ns: int | None
    end_ns: int | None
    events: int
    files: list[str]


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `tracelab inspect --json`."""

    schema: str = "tracelab.inspection/1"
    tool: Tool
    name: str
    world_size: int | None
    jobs: list[FoundJob]
    ranks: list[FoundRank]
    missing_ranks: list[int]
    clocks: list[Clock]
    not_observable: list[NotObservable]
    inputs: list[Input]
    notices: list[ResultNotice]

    def to_json(self) -> bytes:
        """Indented JSON; equal inspections give equal bytes."""
        return msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=1) + b"\n"


def _span(found: Sequence[Assignment]) -> tuple[int | None, int | None]:
    spans = [a.process.span for a in found if a.process.span is not None]
    return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else (None, None)


def _jobs(ranks: RankMap) -> list[FoundJob]:
    out = []
    told = [a for a in ranks.assignments if a.role != "no-events"]
    for number in sorted({a.job for a in told}):
        mine = [a for a in told if a.job == number]
        seen = {a.process.rank if a.process.rank is not None else ("?", a.process.source) for a in mine}
        world = max((a.process.world_size for a in mine if a.process.world_size), default=None)
        out.append(FoundJob(number, len(seen), world, sorted({a.process.name for a in mine}), *_span(mine)))
    return out


def _ranks(ranks: RankMap) -> list[FoundRank]:
    out = []
    for rank, mine in ranks.by_rank.items():
        first = mine[0].process
        files = sorted({a.process.name for a in mine})
        events = sum(a.process.events for a in mine)
        part, host = first.part, mine[0].host
        out.append(FoundRank(rank, first.rank_origin, host, first.host_origin, part.device, part.gpu, len(mine), *_span(mine), events, files))
    return out


def inspect_job(facts: JobFacts) -> Inspection:
    """What can be said before any analysis; without a job to analyse, the files and what they look like."""
    clocks = list_clocks(facts.clocks)
    unseen = not_observable(run_info(facts, []), clocks, facts.steps, facts.tables) if facts.rank_map.used else []
    return Inspection(
        tool=Tool("tracelab", __version__),
        name=facts.name,
        world_size=facts.rank_map.world_size,
        jobs=_jobs(facts.rank_map),
        ranks=_ranks(facts.rank_map),
        missing_ranks=list(facts.rank_map.missing),
        clocks=clocks,
        not_observable=unseen,
        inputs=list_inputs(facts),
        notices=list_notices(facts),
    )
