"""Where the time of a step goes."""

from __future__ import annotations

from tracelab.results import Attribution
from tracelab.units import NS_PER_S, format_share
from tracelab_reports.figures import Bars, Series, numbers, scale, scaled
from tracelab_reports.words import kind_title, seconds_text

__all__ = ["attribution_bars"]


def attribution_bars(attribution: Attribution) -> Bars | None:
    """One stacked bar: the causes and the unattributed rest of the time of a step."""
    parts = [(c.kind, c.seconds) for c in attribution.causes] + [("unattributed", attribution.unattributed)]
    seconds = numbers([s for _, s in parts])
    shown = [(kind, s * NS_PER_S) for (kind, _), s in zip(parts, seconds, strict=True) if s is not None and s > 0]
    if not shown:
        return None
    total = sum(ns for _, ns in shown)
    size, unit = scale([total])
    biggest = max(shown, key=lambda p: p[1])
    return Bars(
        id="attribution-bar",
        title="Where the time of a step goes",
        alt=f"One stacked bar of {seconds_text(total / NS_PER_S)}: " + ", ".join(f"{kind_title(k)} {format_share(ns / total)}" for k, ns in shown) + ".",
        table="attribution",
        note=f"The largest part is {kind_title(biggest[0]).lower()} with {format_share(biggest[1] / total)} of the step.",
        categories=["step"],
        series=[Series(kind_title(kind), scaled([ns], size)) for kind, ns in shown],
        category_label="",
        value_label="time per step",
        unit=unit,
    )
