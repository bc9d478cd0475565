"""How long each step of the job took: from the latest end of the step before to the latest end of this one, over all ranks."""

from __future__ import annotations

from statistics import median

from tracelab.results import Section
from tracelab.units import format_duration
from tracelab_reports.figures import Figure, Line, SectionBody, columns, numbers, scale, scaled, whole

__all__ = ["build"]


def build(section: Section) -> SectionBody:
    """A line of the step time over the step number."""
    found = columns(section, "step_times", "step", "length_ns")
    if found is None:
        return SectionBody()
    points = [(int(s), y) for s, y in zip(found[0], numbers(found[1]), strict=True) if whole(s)]
    known = [y for _, y in points if y is not None]
    if len(known) < 2:
        return SectionBody()
    size, unit = scale(known)
    alt = f"Line: time of {len(points):,} steps, from {format_duration(min(known))} to {format_duration(max(known))}, median {format_duration(median(known))}."
    figures: list[Figure] = [
        Line(
            id="step-times",
            title="Step time over the run",
            alt=alt,
            table="step_times",
            note="Per step, from the moment that the last rank left the step before to the moment that the last rank left this one. "
            "A step that stands out is worth a look in the table.",
            x=[s for s, _ in points],
            y=scaled([y for _, y in points], size),
            x_label="step",
            y_label="step time",
            unit=unit,
        )
    ]
    return SectionBody(figures)
