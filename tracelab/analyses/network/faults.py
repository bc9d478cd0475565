"""Which link cost the job time: counters that stand out, transfers that were slow, and the job run again without that.

Neither alone is a finding. Errors that cost nothing are named in the answer; slow transfers without a link that stands out
say nothing of where. The cost is what the job, run again with transfers as links of that speed allow, would have saved.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracelab.analyses.common import severity, world_of
from tracelab.analyses.network.cost import Slow, Slowness, job_again
from tracelab.analyses.network.ends import uncovered
from tracelab.analyses.network.fault_words import NEXT, evidence_of, link_of, name_of, summary_of
from tracelab.analyses.network.params import Params
from tracelab.analyses.network.signals import Signal, repeats_of, signals_of
from tracelab.analyses.network.suspects import Suspect, fits, overloaded, suspects_of
from tracelab.analyses.partition import partition_of
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import Confidence, Finding, finding_id
from tracelab.tables import Column, TableSpec
from tracelab.units import NS_PER_S

__all__ = ["ANALYSIS", "LINK_SIGNALS", "Params"]

LINK_SIGNALS = TableSpec(
    "link_signals",
    "Counters that stand out beside those of the other links of their tier",
    (
        Column("link", "int32", "row of `links`", nullable=False, key=True),
        Column(
            "family",
            "string",
            "down, degraded (below the speed of the others), integrity, discards, resent, paused, marked or waiting",
            nullable=False,
            key=True,
        ),
        Column("name", "string", "the link by its ends", nullable=False),
        Column("node", "string", "machine that counted", nullable=False, key=True),
        Column("counter", "string", "counter", nullable=False),
        Column("count", "float64", "counted in the window; of a degraded link its speed, bit/s", nullable=False),
        Column("per_s", "float64", "rate", "1/s", nullable=False),
        Column("usual", "float64", "median rate of the other links; of a degraded link their speed, bit/s", "1/s", nullable=False),
    ),
    ("link", "family", "node"),
)


@dataclass(frozen=True)
class _Case:
    """What a suspect is judged by. `links`: the table of that name; `run_ns`: length of the analysed steps."""

    tables: Tables
    links: pl.DataFrame
    slow: Slow
    run_ns: float
    params: Params


def _run(tables: Tables, params: Params) -> AnalysisResult:
    job = partition_of(tables).job
    window = (int(job["start_ns"][0]), int(job["end_ns"][-1]))
    links = tables["links"].collect()
    signals = signals_of(tables, links, window)
    frames = {"link_signals": _signal_rows(signals, links)}
    gap, unseen = uncovered(tables)
    if not signals:
        return AnalysisResult(f"No link's counters stand out beside those of its peers.{gap}", frames, not_observable=unseen)
    case = _Case(tables, links, Slow(tables, links, window), float((job["end_ns"] - job["start_ns"]).sum()), params)
    suspects = suspects_of(tables, signals, links, repeats_of(tables), case.slow, params)
    findings: list[Finding] = []
    silent: list[str] = []
    told: set[int] = set()
    taken: set[int] = set()
    for n, suspect in enumerate(suspects):
        if suspect.links[0] in told:
            continue
        rivals = suspect.rivals(suspects[n + 1 :])
        finding, explained = _finding(case, suspect, rivals, [x for x in suspects if x is not suspect and x.effect == "shown"], taken)
        if finding is not None:
            findings.append(finding)
            taken |= explained
            told |= {x.links[0] for x in rivals}
        elif suspect.kind != "congestion":
            silent.append(name_of(links, suspect.links[0]))
    answer = " ".join(f.summary for f in findings) or "Counters of some links stand out, but no transfer was slow that they explain."
    if silent:
        answer += f" Errors or losses without a measurable cost: {', '.join(silent[:5])}{' and others' if len(silent) > 5 else ''}."
    return AnalysisResult(answer + gap, frames, tuple(findings), degraded=case.slow.assumed, not_observable=unseen)


def _finding(case: _Case, suspect: Suspect, rivals: list[Suspect], others: list[Suspect], taken: Collection[int]) -> tuple[Finding | None, set[int]]:
    """What the suspect cost, and the matches that it explains; None where it cost nothing that `taken` matches do not explain."""
    params, slow, links = case.params, case.slow, case.links
    of_link = links.filter(pl.col("link") == suspect.links[0])["tier"].item() == 0 and suspect.kind != "congestion"
    link, spans = suspect.links[0] if of_link else None, suspect.spans
    slowness, job = slow.of(link, params.efficiency), job_again(case.tables)
    if suspect.effect == "none" or slowness is None or job is None:
        return None, set()
    mine = slowness.beside(spans, taken)
    elsewhere = [span for x in others if x not in rivals for span in x.spans]
    if not _slow_enough(case, suspect, mine) or not fits(suspect, slow, slowness.apart([], taken), elsewhere, params):
        return None, set()
    saving = job.saving(mine.healthy)
    lost = float(np.clip(saving, 0, None).sum())
    if lost < params.least_share * case.run_ns:
        return None, set()
    bounds = [lost]
    for efficiency in params.efficiency_range:
        other = slow.of(link, efficiency)
        if other is not None:
            bounds.append(float(np.clip(job.saving(other.beside(spans, taken).healthy), 0, None).sum()))
    steps = partition_of(case.tables).job
    touched = np.flatnonzero(saving >= 0.25 * max(np.max(saving), 1.0))
    subject = [link_of(links, n) for n in suspect.links]
    share = lost / case.run_ns
    finding = Finding(
        id=finding_id(suspect.kind, [name_of(links, suspect.links[0])]),
        kind=suspect.kind,
        severity=severity(share, enough=len(saving) > 1),
        summary=summary_of(suspect, rivals, links, mine.ratio, lost, share),
        confidence=_confidence(suspect, rivals, links),
        lost_s=lost / NS_PER_S,
        lost_s_low=min(bounds) / NS_PER_S,
        lost_s_high=max(bounds) / NS_PER_S,
        lost_gpu_hours=lost / NS_PER_S * world_of(case.tables) / 3600,
        hosts=sorted({x.host for x in subject[:1] if x.host}),
        links=subject[:16],
        steps=[int(steps["step"][int(n)]) for n in touched],
        start_ns=int(steps["start_ns"][int(touched[0])]),
        end_ns=int(steps["end_ns"][int(touched[-1])]),
        evidence=evidence_of(case.tables, suspect),
        next_step=NEXT[suspect.kind],
    )
    return finding, set(mine.transfers["match_id"])


def _confidence(suspect: Suspect, rivals: list[Suspect], links: pl.DataFrame) -> Confidence:
    """Proven where both ends say so, with an effect that was counted, and nothing else could be the reason."""
    if not (links["tier"] == 0).any():
        return "possible"
    ends = {s.node for s in suspect.signals if s.link == suspect.links[0]}
    sure = len(ends) > 1 and (suspect.kind != "congestion" or len({s.family for s in suspect.signals}) > 1)
    if suspect.effect == "unknown":
        return "likely" if sure and not rivals else "possible"
    return "proven" if sure and not rivals else "likely"


def _slow_enough(case: _Case, suspect: Suspect, mine: Slowness) -> bool:
    """Whether transfers were slow while the link stood out, and what stands out can be the reason."""
    params = case.params
    if mine.measured:
        return mine.ratio >= params.slow
    if mine.ratio < params.slow_always:
        return False
    if suspect.kind != "congestion":
        return True
    paused = max((s.per_s / 1e6 for s in suspect.signals if s.counter in ("pfc_pause_us", "global_pause_us")), default=0.0)
    return paused >= params.paused or mine.spread >= params.scatter or overloaded(case.tables, suspect.links[0], case.links) >= params.imbalance


def _signal_rows(signals: list[Signal], links: pl.DataFrame) -> pl.DataFrame:
    rows = [(s.link, s.family, name_of(links, s.link), s.node, s.counter, s.count, s.per_s, s.usual) for s in signals]
    return LINK_SIGNALS.conform(pl.DataFrame(rows, schema=LINK_SIGNALS.polars, orient="row"))


ANALYSIS = Analysis(
    "network",
    "Network faults",
    "Which link cost the job time?",
    ("counter_rates", "links", "matches", "steps"),
    Params,
    (LINK_SIGNALS,),
    _run,
    {
        "counter_rates": "no counters of adapters or switches were sampled twice or more",
        "links": "no adapter of the job's hosts has counters or a known cable",
        "matches": "no communication was matched between ranks",
        "steps": "no step and no work was recorded",
    },
)
