"""The one sentence on top: the number, the subject, the time."""

from __future__ import annotations

from collections.abc import Sequence

from tracelab.results import Attribution, Finding, RunInfo
from tracelab.units import NS_PER_S, format_duration, format_share

__all__ = ["verdict"]

_MATTERS = ("critical", "major", "minor")


def verdict(info: RunInfo, findings: Sequence[Finding], attribution: Attribution | None) -> str:
    """What cost the most, or that nothing stands out; always with how much of the job was seen."""
    seen = len(info.ranks)
    scope = f"{seen} of {info.world_size} ranks" if info.world_size and info.world_size != seen else f"{seen} rank{'s' if seen != 1 else ''}"
    window = f"{info.steps} step{'s' if info.steps != 1 else ''} on {scope}"
    top = next((f for f in findings if f.severity in _MATTERS), None)
    if top is None:
        return f"No cause of lost time stands out from noise over {window}{_where_time_goes(attribution)}."
    total_ns = (info.step_time_s.median * info.steps if info.step_time_s else 0.0) * NS_PER_S
    share = f" ({format_share(min(1.0, top.lost_s * NS_PER_S / total_ns))} of it)" if total_ns > 0 and top.kind != "collective_hang" else ""
    others = sum(f.severity in _MATTERS for f in findings) - 1
    more = f" {others} more finding{'s' if others > 1 else ''} below." if others else ""
    return f"{format_duration(top.lost_s * NS_PER_S)} lost{share} over {window}: {top.summary.rstrip('.')}.{more}"


def _where_time_goes(attribution: Attribution | None) -> str:
    if attribution is None or attribution.per_step_total <= 0:
        return ""
    biggest = sorted(attribution.causes, key=lambda c: (-c.seconds, c.kind))[:2]
    parts = [f"{format_share(c.share)} {c.kind.replace('_', ' ')}" for c in biggest if c.seconds > 0]
    step = format_duration(attribution.per_step_total * NS_PER_S)
    return f"; a step takes {step}: {', '.join(parts)}" if parts else ""
