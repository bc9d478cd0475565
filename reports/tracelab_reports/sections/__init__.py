"""What each section of the HTML report shows beside its tables: one module per analysis, listed in `SECTIONS`.

A section that is not listed is shown with its answer and tables alone, so that nothing of the document is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracelab.results import RunResult, Section
from tracelab_reports.figures import SectionBody
from tracelab_reports.sections import breakdown, collectives, network, overlap, steps, traffic, waits

__all__ = ["SECTIONS", "SectionView", "body_of", "in_order"]


@dataclass(frozen=True)
class SectionView:
    """The id of the analysis and the function that draws its section: from its tables alone, or `build_within` the whole document."""

    id: str
    build: Callable[[Section], SectionBody] | None = None
    build_within: Callable[[Section, RunResult], SectionBody] | None = None


SECTIONS: tuple[SectionView, ...] = (
    SectionView("breakdown", breakdown.build),
    SectionView("steps", steps.build),
    SectionView("waits", waits.build),
    SectionView("overlap", overlap.build),
    SectionView("collectives", collectives.build),
    SectionView("traffic", traffic.build),
    SectionView("network", build_within=network.build_faults),
    SectionView("links", build_within=network.build_links),
    *(SectionView(name, build_within=network.build_counters) for name in ("loss", "pause", "link_health", "bursts", "classes")),
)


def body_of(section: Section, result: RunResult | None = None) -> SectionBody:
    """Figures, notes and tables of a section; none where no module draws it, or where it needs the `result` that is not given."""
    view = next((v for v in SECTIONS if v.id == section.id), None)
    if view is not None and view.build is not None:
        return view.build(section)
    if view is not None and view.build_within is not None and result is not None:
        return view.build_within(section, result)
    return SectionBody()


def in_order(sections: list[Section]) -> list[Section]:
    """The sections in the order of `SECTIONS`; the others follow as they come."""
    place = {view.id: i for i, view in enumerate(SECTIONS)}
    return sorted(sections, key=lambda s: place.get(s.id, len(place)))
