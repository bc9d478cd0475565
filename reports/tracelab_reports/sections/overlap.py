"""How much communication is hidden behind compute."""

from __future__ import annotations

from tracelab.results import Section
from tracelab_reports.figures import SectionBody
from tracelab_reports.sections.ranks import rank_bars

__all__ = ["build"]


def build(section: Section) -> SectionBody:
    """Stacked bars of hidden and exposed communication per rank."""
    bars = rank_bars(
        section,
        "overlap_by_rank",
        (("hidden_ns", "hidden communication"), ("exposed_ns", "exposed communication")),
        figure_id="overlap-by-rank",
        title="Communication of each rank: hidden behind compute or exposed",
        note="Hidden communication costs nothing; exposed communication is time in which no compute ran.",
        value_label="time",
        by="exposed_ns",
    )
    return SectionBody([bars] if bars else [])
