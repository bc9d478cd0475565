"""What each section of the HTML report shows beside its tables: one module per analysis, listed in `SECTIONS`.

A section that is not listed is shown with its answer and tables alone, so that nothing of the document is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracelab.results import Section
from tracelab_reports.figures import SectionBody
from tracelab_reports.sections import breakdown, collectives, overlap, steps, traffic, waits

__all__ = ["SECTIONS", "SectionView", "body_of", "in_order"]


@dataclass(frozen=True)
class SectionView:
    """The id of the analysis and the function that draws its section."""

    id: str
    build: Callable[[Section], SectionBody]


SECTIONS: tuple[SectionView, ...] = (
    SectionView("breakdown", breakdown.build),
    SectionView("steps", steps.build),
    SectionView("waits", waits.build),
    SectionView("overlap", overlap.build),
    SectionView("collectives", collectives.build),
    SectionView("traffic", traffic.build),
)


def body_of(section: Section) -> SectionBody:
    """Figures and notes of a section; none where no module draws it."""
    view = next((v for v in SECTIONS if v.id == section.id), None)
    return view.build(section) if view else SectionBody()


def in_order(sections: list[Section]) -> list[Section]:
    """The sections in the order of `SECTIONS`; the others follow as they come."""
    place = {view.id: i for i, view in enumerate(SECTIONS)}
    return sorted(sections, key=lambda s: place.get(s.id, len(place)))
