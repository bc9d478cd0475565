"""Where the time of a step goes."""

from __future__ import annotations

from tracelab.results import Attribution
from tracelab.units import NS_PER_S, format_duration, format_share
from tracelab_reports.figures import Bars, Series, color_of, numbers, scale, scaled
from tracelab_reports.words import PARTS, kind_title

__all__ = ["attribution_bars"]

_MAX_PARTS = 8


def attribution_bars(attribution: Attribution) -> Bars | None:
    """One stacked bar: the causes and the unattributed rest of the time of a step."""
    parts = [(kind_title(c.kind), c.kind, c.seconds) for c in attribution.causes] + [("Unattributed", "", attribution.unattributed)]
    known = numbers([s for *_, s in parts])
    shown = [(name, kind, s * NS_PER_S) for (name, kind, _), s in zip(parts, known, strict=True) if s is not None and s * NS_PER_S >= 0.5]
    if not shown:
        return None
    if len(shown) > _MAX_PARTS:
        least = sorted(shown, key=lambda p: p[2])[: len(shown) - _MAX_PARTS + 1]
        shown = [p for p in shown if p not in least] + [("Others", "", sum(p[2] for p in least))]
    total = sum(ns for *_, ns in shown)
    size, unit = scale([total])
    used: list[str] = []
    series = []
    fixed = [color_of(kind) for _, kind, _ in shown if kind in PARTS]
    for name, kind, ns in shown:
        used.append(color_of(kind, used + fixed))
        series.append(Series(name, scaled([ns], size), used[-1], f"{format_duration(ns)}, {format_share(ns / total)}"))
    biggest = max(shown, key=lambda p: p[2])
    return Bars(
        id="attribution-bar",
        title="Where the time of a step goes",
        alt=f"One stacked bar of {format_duration(total)}: {', '.join(f'{name} {format_share(ns / total)}' for name, _, ns in shown)}.",
        table="attribution",
        note=f"The largest part is {biggest[0].lower()} with {format_share(biggest[2] / total)} of the step.",
        categories=["step"],
        series=series,
        category_label="",
        value_label="time",
        unit=unit,
    )
