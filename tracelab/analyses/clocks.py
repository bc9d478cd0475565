"""Whether the clocks of the hosts can be trusted, and whether one was set while the job ran."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import Finding, NotObservable, finding_id
from tracelab.units import format_duration

__all__ = ["ANALYSIS", "Params"]


@dataclass(frozen=True)
class Params:
    """No thresholds: the alignment decides what is a jump."""


def _run(tables: Tables, params: Params) -> AnalysisResult:
    clocks = tables["clocks"].collect().sort("host", "start_ns")
    ranks = tables["ranks"].select("rank", "host").collect()
    ends = int(tables["steps"].select(pl.col("end_ns").max()).collect().item() or 0)
    findings: list[Finding] = []
    for (host,), pieces in clocks.group_by("host", maintain_order=True):
        own = sorted(ranks.filter(pl.col("host") == host)["rank"].to_list())
        findings.extend(
            _jump(str(host), own, before, after, ends)
            for before, after in zip(pieces.iter_rows(named=True), pieces.slice(1).iter_rows(named=True), strict=False)
        )
    loose = clocks.filter(pl.col("method") == "none")["host"].to_list()
    dark = (
        NotObservable(
            f"How do the times of {', '.join(loose[:5])} compare with those of the other hosts?",
            "no matched collective links them",
            "traces of all ranks of a group that spans the hosts, over the same steps",
        ),
    )
    worst = clocks["uncertainty_ns"].max()
    if clocks["host"].n_unique() <= 1:
        answer = "All ranks share the clock of one host."
    elif worst is None:
        answer = "The clocks of the hosts could not be compared."
    else:
        hosts = clocks["host"].n_unique() - len(loose)
        answer = f"The clocks of {hosts} hosts agree within {format_duration(float(str(worst)))} after alignment by collective ends."
    answer = " ".join([answer, *(f.summary for f in findings)])
    return AnalysisResult(answer, {}, tuple(findings), not_observable=dark if loose else ())


def _jump(host: str, ranks: list[int], before: dict[str, object], after: dict[str, object], ends: int) -> Finding:
    moment, drift = int(str(after["start_ns"])), float(str(before["drift_ppm"]))
    expected = int(str(before["offset_ns"])) + round(drift * 1e-6 * (moment - int(str(before["start_ns"]))))
    size = expected - int(str(after["offset_ns"]))
    way = "forward" if size > 0 else "back"
    aligned = moment + int(str(after["offset_ns"]))
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
