"""What a report says about the job as a whole, as sentences: cost, and how far the result can be trusted."""

from __future__ import annotations

import math
from collections import Counter

from tracelab.results import Finding, RunResult
from tracelab.units import NS_PER_S, format_share
from tracelab_reports.figures import columns, numbers
from tracelab_reports.words import NOTHING_FOUND, gpu_hours_text, plural, ranks_text, seconds_text

__all__ = [
    "checked",
    "cost_text",
    "job_text",
    "limits",
    "nothing_found",
    "price_text",
    "severity_counts",
    "share_text",
    "trust_text",
    "unchecked",
    "worst_uncertainty_ns",
]

_FINDERS = ("stragglers", "exposure")
"""The analyses that find causes: only where both ran does a result without a finding mean something."""


def _span_s(result: RunResult) -> float | None:
    run = result.run
    if run.start_ns is None or run.end_ns is None or run.end_ns <= run.start_ns:
        return None
    return (run.end_ns - run.start_ns) / NS_PER_S


def _steps_s(result: RunResult) -> float:
    """The length of all steps together, in seconds; 0 where it is not known."""
    section = result.section("steps")
    found = columns(section, "step_times", "length_ns") if section else None
    lengths = numbers(found[0]) if found else []
    known = [ns for ns in lengths if ns is not None]
    if section and known and len(known) == len(lengths) and not section.table("step_times").rows_left_out:
        return sum(known) / NS_PER_S
    return result.attribution.per_step_total * result.run.steps if result.attribution else 0.0


def share_text(result: RunResult, finding: Finding) -> str:
    """The lost time as a share of all steps, as in the summaries: `7.9 % of the run`, or nothing where that says nothing."""
    steps_s = _steps_s(result)
    if not 0 < finding.lost_s <= steps_s or finding.kind == "collective_hang":
        return ""
    return f"{format_share(finding.lost_s / steps_s)} of the run"


def job_text(result: RunResult) -> str:
    """The job in one line: ranks, hosts, steps, median step, analysed time."""
    run = result.run
    hosts = {r.host for r in run.ranks}
    parts = [f"{plural(len(run.ranks), 'rank')} on {plural(len(hosts), 'host')}", plural(run.steps, "step")]
    if run.step_time_s:
        parts.append(f"median step {seconds_text(run.step_time_s.median)}")
    span = _span_s(result)
    if span:
        parts.append(f"{seconds_text(span)} analysed")
    return ", ".join(parts)


def price_text(result: RunResult, finding: Finding) -> str:
    """What the lost GPU time costs, where the user stated a price: `12.50 USD`."""
    cost = finding.lost_gpu_hours * result.price.per_gpu_hour if result.price else math.nan
    if result.price is None or not 0 < cost < math.inf:
        return ""
    return f"{'under 0.01' if cost < 0.005 else f'{cost:,.2f}'} {result.price.currency}"


def cost_text(result: RunResult) -> str:
    """What the largest cause costs. Savings of several causes are not added: each is the saving of that cause alone."""
    costly = [f for f in result.findings if f.lost_s > 0]
    if not costly:
        return ""
    top = max(costly, key=lambda f: f.lost_s)
    price = price_text(result, top)
    gpu_time = gpu_hours_text(top.lost_gpu_hours) + (f" ({price})" if price else "")
    return f"The costliest cause lost {', '.join(t for t in (seconds_text(top.lost_s), share_text(result, top), gpu_time) if t)}."


def checked(result: RunResult) -> list[str]:
    """The analyses that answered, in part at least."""
    return [a.id for a in result.analyses if a.status in {"ok", "degraded"}]


def unchecked(result: RunResult) -> list[str]:
    """The analyses that did not answer or did so in part, each with the reason: `links (no counters)`."""
    words = {"degraded": "in part", "not_applicable": "not applicable", "error": "failed"}
    return [f"{a.id} ({words[a.status]}{f': {a.reason}' if a.reason else ''})" for a in result.analyses if a.status in words]


def nothing_found(result: RunResult) -> str:
    """What a result without a finding means: that there is nothing to find, or only that it could not be looked for."""
    if result.run.steps and set(_FINDERS) <= set(checked(result)):
        return NOTHING_FOUND
    if not result.run.steps:
        return "The files show no step, so lost time could not be looked for."
    return "No finding, but not all causes of lost time could be looked for."


def trust_text(result: RunResult) -> str:
    """What speaks for the result where nothing limits it."""
    worst = worst_uncertainty_ns(result)
    clocks = "" if worst is None or len({c.host for c in result.clocks}) < 2 else f", and the hosts' clocks are known to {seconds_text(worst / NS_PER_S)}"
    return f"All expected ranks were seen, {'and ' if not clocks else ''}nothing was lost while reading{clocks}."


def severity_counts(result: RunResult) -> dict[str, int]:
    """Notices by severity, error first."""
    counts = Counter(n.severity for n in result.notices)
    return {s: counts[s] for s in ("error", "warning", "info") if counts[s]}


def worst_uncertainty_ns(result: RunResult) -> int | None:
    """The largest uncertainty of a host's clock; None where one is unknown or there are no clocks."""
    known = [c.uncertainty_ns for c in result.clocks]
    return None if not known or any(u is None for u in known) else max(u for u in known if u is not None)


def limits(result: RunResult) -> list[str]:
    """Whatever makes the result weaker than it looks, most important first; empty where nothing does."""
    run = result.run
    out = []
    if run.missing_ranks:
        out.append(f"{len(run.missing_ranks):,} of {run.world_size or '?'} ranks are missing: {ranks_text(run.missing_ranks)}.")
    elif run.world_size is None and run.ranks:
        out.append("No file states how many ranks the job had: whether ranks are missing is unknown.")
    if len(run.ranks) == 1:
        out.append("Only one rank was seen: who waits for whom, and which rank is slower than its peers, cannot be answered.")
    truncated = [c.rank for c in run.coverage if c.truncated]
    if truncated:
        out.append(f"Data are cut off for {ranks_text(truncated)}.")
    orphans = sum(c.orphan_gpu_events for c in run.coverage)
    if orphans:
        out.append(f"{orphans:,} GPU events have no launch in the files: what caused them is unknown.")
    for status, words in (("error", "failed"), ("degraded", "was answered in part")):
        out += [f"The analysis {a.id} {words}{f': {a.reason}' if a.reason else ''}." for a in result.analyses if a.status == status]
    counts = severity_counts(result)
    for severity, what in (("error", "a file or a rank was lost"), ("warning", "data were lost or are doubtful")):
        if severity in counts:
            out.append(f"{plural(counts[severity], severity)} while reading: {what}.")
    grades = sorted({c.grade for c in result.clocks if c.grade in {"C", "D"}})
    if grades:
        weak = sorted({c.host for c in result.clocks if c.grade in {"C", "D"}})
        out.append(f"The clocks of {plural(len(weak), 'host')} are known badly (grade {' and '.join(grades)}): the order of events across hosts is uncertain.")
    return out
