"""Whether the clocks of the hosts can be trusted, and whether one was set while the job ran."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import Finding, NotObservable, finding_id
from tracelab.units import format_duration

__all__ = ["ANALYSIS", "Params"]


class Piece(NamedTuple):
    """One row of `clocks`."""

    start_ns: int
    offset_ns: int
    drift_ppm: float
    uncertainty_ns: int | None


@dataclass(frozen=True)
class Params:
    """No thresholds: the alignment decides what is a jump."""


def _run(tables: Tables, params: Params) -> AnalysisResult:
    clocks = tables["clocks"].collect().sort("host", "start_ns")
    ends = int(tables["steps"].select(pl.col("end_ns").max()).collect().item() or 0)
    findings: list[Finding] = []
    for (host,), pieces in clocks.group_by("host", maintain_order=True):
        changes = pairwise(Piece(*row) for row in pieces.select(Piece._fields).iter_rows())
        findings.extend(_jump(str(host), before, after, ends) for before, after in changes if abs(_size(before, after)) > _unsure(before, after))
    loose = clocks.filter(pl.col("method") == "none")["host"].to_list()
    dark = (
        NotObservable(
            f"How do the times of {', '.join(loose[:5])} compare with those of the other hosts?",
            "no matched collective links them",
            "traces of all ranks of a group that spans the hosts, over the same steps",
        ),
    )
    worst = max(clocks["uncertainty_ns"].drop_nulls().to_list(), default=None)
    if clocks["host"].n_unique() <= 1:
        answer = "All ranks share the clock of one host."
    elif worst is None:
        answer = "The clocks of the hosts could not be compared."
    else:
        hosts = clocks["host"].n_unique() - len(loose)
        answer = f"The clocks of {hosts} hosts agree within {format_duration(worst)} after alignment by collective ends."
    answer = " ".join([answer, *(f.summary for f in findings)])
    return AnalysisResult(answer, {}, tuple(findings), not_observable=dark if loose else ())


def _size(before: Piece, after: Piece) -> int:
    """How far the clock was set forward where one piece follows the other, ns."""
    return before.offset_ns + round(before.drift_ppm * 1e-6 * (after.start_ns - before.start_ns)) - after.offset_ns


def _unsure(before: Piece, after: Piece) -> int:
    """What a change must exceed to be called one, ns: where a drift changes, pieces meet but for rounding."""
    return max(before.uncertainty_ns or 0, after.uncertainty_ns or 0, 2)


def _jump(host: str, before: Piece, after: Piece, ends: int) -> Finding:
    moment, size = after.start_ns, _size(before, after)
    way = "forward" if size > 0 else "back"
    aligned = moment + after.offset_ns
    return Finding(
        id=finding_id("clock_step", [host, moment]),
        kind="clock_step",
        severity="info",
        summary=f"The clock of host {host} was set {way} by {format_duration(abs(size))} while the job ran; times are corrected for it.",
        confidence="likely",
        lost_s=0.0,
        lost_s_low=0.0,
        lost_s_high=0.0,
        lost_gpu_hours=0.0,
        ranks=[],
        hosts=[host],
        steps=[],
        start_ns=aligned,
        end_ns=max(aligned, ends),
        evidence=[],
        next_step="let the time service slew instead of step while jobs run (chrony: makestep only at boot), or use PTP",
    )


ANALYSIS = Analysis(
    "clocks",
    "Clocks",
    "How well do the clocks of the hosts agree?",
    ("clocks", "steps"),
    Params,
    (),
    _run,
    {"clocks": "no source names a host", "steps": "no step and no work was recorded"},
)
