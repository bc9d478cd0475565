"""Who waits, and who is waited for."""

from __future__ import annotations

from tracelab.results import Section
from tracelab_reports.figures import Figure, SectionBody
from tracelab_reports.sections.ranks import rank_bars, rank_step_heatmap

__all__ = ["build"]


def build(section: Section) -> SectionBody:
    """Bars of the lateness of each rank, and a heatmap of it over the steps."""
    figures: list[Figure | None] = [
        rank_bars(
            section,
            "arrivals_by_rank",
            (("late_ns", "lateness"),),
            figure_id="arrivals-by-rank",
            title="How late each rank came to collectives",
            note="How much later than the first rank of each operation it arrived, summed over all operations. The waits are in the table.",
            value_label="time late",
            by="late_ns",
        ),
        rank_step_heatmap(
            section,
            "rank_step_waits",
            "late_ns",
            figure_id="late-heatmap",
            title="Lateness by rank and step",
            note="A bright row is a rank that is late again and again; scattered bright cells are a culprit that changes.",
            value_label="time late",
        ),
    ]
    return SectionBody([f for f in figures if f is not None])
