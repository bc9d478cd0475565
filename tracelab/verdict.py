"""The one sentence on top: the number, the subject, the time."""

from __future__ import annotations

from collections.abc import Sequence

from tracelab.results import AnalysisStatus, Attribution, Finding, RunInfo
from tracelab.units import NS_PER_S, format_duration, format_share

__all__ = ["verdict"]

_MATTERS = ("critical", "major", "minor")
_HEAVY = ("critical", "major")


def verdict(info: RunInfo, findings: Sequence[Finding], attribution: Attribution | None, statuses: Sequence[AnalysisStatus] = ()) -> str:
    """What cost the most, or that nothing stands out; always with how much of the job was seen."""
    seen = _seen(info)
    matter = [f for f in findings if f.severity in _MATTERS]
    unpriced = next((f for f in matter if f.lost_s == 0 and f.severity in _HEAVY and f.confidence != "possible"), None)
    if unpriced is not None and (matter[0].lost_s == 0 or matter[0] is unpriced):
        # A proven fallback whose cost the files do not show comes before possible faults of no known cost.
        matter = [unpriced, *(f for f in matter if f is not unpriced)]
    failed = [s.id for s in statuses if s.status == "error"]
    if not matter and (failed or not info.steps):
        why = f"the analyses {', '.join(failed)} failed" if failed else "the files show no step of the job"
        return f"Whether time was lost could not be checked: {why} ({seen})."
    if not matter:
        unseen = _unseen(info)
        what = "No cause of lost time stands out from noise"
        if len(info.ranks) < 2:
            what = "No cause of lost time can be seen from one rank alone"
        elif unseen:
            others = f"{unseen} unseen one{'s' if unseen > 1 else ''}"
            what = f"No cause of lost time stands out on the ranks that were seen; {others} can neither be blamed nor cleared"
        return f"{what}: {seen}{_where_time_goes(attribution, unseen)}."
    summary = _capital(matter[0].summary.rstrip("."))
    beside = f" Besides: {unpriced.summary.rstrip('.')}." if unpriced is not None and unpriced is not matter[0] else ""
    rest = len(matter) - 1 - bool(beside)
    more = f" {rest} more finding{'s' if rest > 1 else ''} below." if rest else ""
    return f"{summary} ({seen}).{beside}{more}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _seen(info: RunInfo) -> str:
    ranks = len(info.ranks)
    scope = f"{ranks} of {info.world_size} ranks" if info.world_size and info.world_size != ranks else f"{ranks} rank{'s' if ranks != 1 else ''}"
    return f"{info.steps} step{'s' if info.steps != 1 else ''} on {scope}"


def _unseen(info: RunInfo) -> int:
    """Ranks of the job that left no trace."""
    return max(len(info.missing_ranks), (info.world_size or 0) - len(info.ranks), 0)


def _where_time_goes(attribution: Attribution | None, unseen: int) -> str:
    if attribution is None or attribution.per_step_total <= 0:
        return ""
    biggest = sorted(attribution.causes, key=lambda c: (-c.seconds, c.kind))[:2]
    # From the arrival of the last rank seen on, a collective that waits for an unseen one looks as if it moved data.
    open_question = f" (may be waiting for {unseen} unseen rank{'s' if unseen > 1 else ''})" if unseen else ""
    said = {c.kind: c.kind.replace("_", " ") + (open_question if c.kind == "exposed_transfer" else "") for c in biggest}
    parts = [f"{format_share(c.share)} {said[c.kind]}" for c in biggest if c.seconds > 0]
    step = format_duration(attribution.per_step_total * NS_PER_S)
    return f"; a step takes {step}: {', '.join(parts)}" if parts else ""
