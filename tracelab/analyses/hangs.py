"""Whether an operation never ended, and which ranks never entered it.

Ranks that wait are victims: a rank that did not enter one group's operation because it waits in another group is one too.
What remains at the end of the chain of waits is the culprit (the wait-for graph of the groups; C4D and CCL-D name it so).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tracelab.analyses.common import named, world_of
from tracelab.analyses.hang_progress import stuck_groups
from tracelab.analyses.hang_standing import Stuck
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import Confidence, Finding, finding_id
from tracelab.tables import Column, TableSpec
from tracelab.units import NS_PER_S, format_duration

__all__ = ["ANALYSIS", "HANG_STANDING", "Params"]

HANG_STANDING = TableSpec(
    "hang_standing",
    "How far each rank came in the groups with an operation that never ended",
    (
        Column("group", "string", "group", nullable=False, key=True),
        Column("rank", "int32", "global rank", nullable=False, key=True),
        Column("seq", "int64", "number of the operation that never ended, from 1", nullable=False),
        Column("operation", "string", "what it is", nullable=False),
        Column("entered", "int64", "operations that the rank handed to the library; null where nothing tells"),
        Column("completed", "int64", "operations that ended on it; null where nothing tells"),
        Column("waits", "bool", "its watchdog gave up waiting", nullable=False),
        Column("origin", "string", "what tells it: watchdog, flight recorder, log, trace; empty where nothing does", nullable=False),
    ),
    ("group", "rank"),
)


_CONFIDENCE: tuple[Confidence, ...] = ("proven", "likely", "possible")


@dataclass(frozen=True)
class Params:
    """`most_silent`: share of a group that may be silent for silence to point at someone; with more, the output of some is just missing."""

    most_silent: float = 0.25


@dataclass(frozen=True)
class _Blame:
    ranks: tuple[int, ...]
    confidence: Confidence
    why: str


def _run(tables: Tables, params: Params) -> AnalysisResult:
    stuck = stuck_groups(tables, world_of(tables))
    if not stuck:
        return AnalysisResult(
            "No watchdog gave up, no capture ends with operations launched in vain, and no rank reports an operation that never ended.",
            {HANG_STANDING.name: HANG_STANDING.empty()},
        )
    rows = [(s.group, r, s.seq, s.operation, s.of(r).entered, s.of(r).completed, s.of(r).waits, s.of(r).origin) for s in stuck for r in s.members]
    table = HANG_STANDING.conform(pl.DataFrame(rows, schema=HANG_STANDING.polars, orient="row"))
    blame = _blame(stuck, params)
    first = max(stuck, key=lambda s: (len(s.standing), s.waited_ns, s.group))
    finding = _finding(tables, stuck, first, blame)
    return AnalysisResult(finding.summary, {HANG_STANDING.name: table}, (finding,))


def _absent(s: Stuck) -> tuple[list[int], list[int]]:
    """Members that certainly did not enter the operation, and those of which nothing is known."""
    known = [r for r in s.members if (e := s.of(r).entered) is not None and e < s.seq]
    return known, [r for r in s.members if s.of(r).entered is None and not s.of(r).waits]


def _blame(stuck: Sequence[Stuck], params: Params) -> _Blame:
    waiting = {r for s in stuck for r in s.members if s.of(r).waits}
    absent = {r for s in stuck for r in _absent(s)[0]}
    if ends := sorted(absent - waiting):
        sure: Confidence = "proven" if all(_shown(s, r) for s in stuck for r in _absent(s)[0] if r in ends) else "likely"
        return _Blame(tuple(ends), sure, f"{named(ends)} never entered it")
    silent = {r for s in stuck for r in _absent(s)[1]} - waiting
    members = {r for s in stuck for r in s.members}
    if silent and not absent and len(silent) <= max(1, int(params.most_silent * len(members))) and len(waiting) >= 2:
        ends = sorted(silent)
        sure = "likely" if len(waiting) + len(silent) == len(members) else "possible"
        return _Blame(tuple(ends), sure, f"all others wait, and {named(ends)} does not report at all: it did not enter, or it is dead")
    if absent:
        text = f"{named(sorted(absent))} wait in one group and are waited for in another: the order of operations differs between ranks"
        return _Blame(tuple(sorted(absent)), "possible", text)
    for s in stuck:
        if different := _different(s):
            return different
    if silent:
        return _Blame((), "possible", f"of {len(silent)} ranks nothing tells how far they came")
    return _Blame((), "possible", "every rank entered it: the transfer itself stands still")


def _shown(s: Stuck, rank: int) -> bool:
    """Whether it is proven that the rank did not enter: its recorder says so, or two of log, trace, and a watchdog that alone keeps silent."""
    witnesses = s.of(rank).witnesses
    alone = set(s.members) - set(s.waiting) <= set(_absent(s)[0])
    return "recorder" in witnesses or len(witnesses) + alone > 1


_EQUAL = frozenset({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"})
"""Operations to which every rank gives as much as the others."""


def _different(s: Stuck) -> _Blame | None:
    """Ranks that gave another operation, or another size, to the number that the others entered."""
    if len(kinds := Counter(s.operations.values())) > 1:
        (usual, most), (_, next_most) = kinds.most_common(2)
        odd = sorted(r for r, operation in s.operations.items() if operation != usual)
        if most == next_most:
            return _Blame((), "possible", f"ranks entered different operations under this number: {' and '.join(sorted(kinds))}")
        return _Blame(tuple(odd), "likely", f"{named(odd)} entered {s.operations[odd[0]]} where the others entered {usual}")
    sizes = Counter(s.sizes.values()) if s.operation in _EQUAL else Counter[int]()
    if len(sizes) > 1 and (most_common := sizes.most_common(2))[0][1] > most_common[1][1]:
        odd = sorted(r for r, n in s.sizes.items() if n != most_common[0][0])
        return _Blame(tuple(odd), "likely", f"{named(odd)} entered it with another size")
    return None


def _finding(tables: Tables, stuck: Sequence[Stuck], s: Stuck, blame: _Blame) -> Finding:
    waiting = sorted({r for g in stuck for r in g.members if g.of(r).waits})
    hosts = dict(tables["ranks"].select("rank", "host").collect().iter_rows())
    logged = tables["sources"].filter(pl.col("rank").is_not_null() & (pl.col("role") == "log")).select("rank", "host").collect()
    hosts |= {r: h for r, h in logged.iter_rows() if r not in hosts and h}
    lost = s.waited_ns / NS_PER_S
    waited = f" until the watchdogs gave up after {format_duration(s.waited_ns)}" if s.waited_ns else ""
    number = f"{s.operation} number {s.seq} of the capture in {s.group}" if s.of_capture else f"{s.operation} number {s.seq} of {s.group}"
    summary = f"{number} never ended: {blame.why}; {named(waiting)} waited{waited}."
    end = tables["ranks"].select(pl.col("end_ns").max()).collect().item()
    of_culprit = [e for g in stuck for e in g.evidence if e.rank in blame.ranks]
    others = [e for g in stuck for e in g.evidence if e.rank not in blame.ranks]
    return Finding(
        id=finding_id("collective_hang", [s.group, *blame.ranks]),
        kind="collective_hang",
        severity="critical",
        summary=summary,
        confidence=max(blame.confidence, s.most, key=_CONFIDENCE.index),
        lost_s=lost,
        lost_s_low=lost,
        lost_s_high=lost,
        lost_gpu_hours=lost * len(s.members) / 3600,
        ranks=list(blame.ranks),
        hosts=sorted({hosts[r] for r in blame.ranks if r in hosts}),
        start_ns=end,
        evidence=[*of_culprit[:3], *others[:2]],
        next_step=_next_step(blame, s),
    )


def _next_step(blame: _Blame, s: Stuck) -> str:
    if blame.ranks:
        return f"look at the Python stacks of {named(blame.ranks)} (py-spy dump, or the flight recorder) and at its host's kernel log (Xid, OOM) at that time"
    return f"collect the flight recorder of all {len(s.members)} ranks (TORCH_FR_BUFFER_SIZE=2000) and the counters of their network interfaces"


ANALYSIS = Analysis(
    "hangs",
    "Operations that never ended",
    "Did an operation never end, and who did not enter it?",
    ("ranks",),
    Params,
    (HANG_STANDING,),
    _run,
    {"ranks": "no file shows a rank of the job"},
)
