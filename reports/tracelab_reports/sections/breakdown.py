"""What each rank did with its time, and when it waited or computed."""

from __future__ import annotations

from tracelab.results import Section
from tracelab_reports.figures import Figure, SectionBody
from tracelab_reports.sections.ranks import rank_bars, rank_step_heatmap
from tracelab_reports.words import PARTS

__all__ = ["build"]

_PARTS = tuple((f"{part}_ns", PARTS[part][0]) for part in ("compute", "memcpy", "exposed_transfer", "exposed_wait", "idle"))


def build(section: Section) -> SectionBody:
    """Stacked bars of the five parts of the time per rank; heatmaps of waiting and of compute over rank and step."""
    figures: list[Figure | None] = [
        rank_bars(
            section,
            "rank_times",
            _PARTS,
            figure_id="rank-times",
            title="Time of each rank by what the GPU did",
            note="Summed over the analysed steps. A rank that waits little while its peers wait much is the one they wait for.",
            value_label="time",
            by="exposed_wait_ns",
            least=True,
        ),
        rank_step_heatmap(
            section,
            "rank_step_times",
            "exposed_wait_ns",
            figure_id="wait-heatmap",
            title="Exposed wait by rank and step",
            note="A dark row among bright ones is a rank that the others wait for; a bright column is a step in which all waited.",
            value_label="exposed wait",
            keep_low=True,
        ),
        rank_step_heatmap(
            section,
            "rank_step_times",
            "compute_ns",
            figure_id="compute-heatmap",
            title="Compute by rank and step",
            note="A bright row is a rank that computes longer than its peers: more work, or a slower GPU. The colours may begin above zero.",
            value_label="compute",
            from_zero=False,
        ),
    ]
    return SectionBody([f for f in figures if f is not None])
