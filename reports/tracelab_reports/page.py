"""The content of the HTML page, worked out before any markup: what the template prints."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracelab.results import Finding, RunResult, Section
from tracelab.units import format_duration, format_time
from tracelab_reports import facts, glossary, parts, words
from tracelab_reports.figures import Figure, SectionBody
from tracelab_reports.parts import Block, SectionPart, column, table_of
from tracelab_reports.sections import body_of, in_order
from tracelab_reports.tableview import TableView, table_view

__all__ = ["Card", "Page", "build_page"]

_MAX_EVIDENCE = 12
_MAX_SUBJECTS = 3
_MAX_OPEN_ROWS = 16


@dataclass(frozen=True)
class Card:
    """A finding with its words."""

    anchor: str
    finding: Finding
    title: str
    meaning: str
    subject: str
    lost: str
    price: str
    when: str
    details: Sequence[tuple[str, str]]
    evidence: TableView | None


@dataclass(frozen=True)
class Page:
    """Everything on the page. `figures` are all pictures in order."""

    title: str
    job: str
    start: str
    cost: str
    cards: Sequence[Card]
    nothing_found: str
    checked: Sequence[str]
    unchecked: Sequence[str]
    limits: Sequence[str]
    trusted: str
    notices: dict[str, int]
    trust: Sequence[SectionPart]
    sections: Sequence[SectionPart]
    closing: Sequence[SectionPart]
    glossary: Sequence[tuple[str, str]]
    figures: Sequence[Figure]


def build_page(result: RunResult) -> Page:
    """The page of a result."""
    origin = result.run.start_ns
    sections = _sections(result)
    return Page(
        title=words.shorten(result.run.name, 80),
        job=facts.job_text(result),
        start="" if origin is None else format_time(origin),
        cost=facts.cost_text(result),
        cards=_cards(result),
        nothing_found=facts.nothing_found(result),
        checked=facts.checked(result),
        unchecked=facts.unchecked(result),
        limits=facts.limits(result),
        trusted=facts.trust_text(result),
        notices=facts.severity_counts(result),
        trust=_present(parts.coverage(result), parts.clocks(result), parts.analyses(result), parts.notices(result)),
        sections=sections,
        closing=_present(parts.not_observable(result), parts.inputs(result), parts.exported(result)),
        glossary=glossary.terms(result),
        figures=[b.figure for p in sections for b in p.blocks if b.figure is not None],
    )


def _anchor(prefix: str, name: str) -> str:
    """An id for a link: the name itself where it is a plain word, else a hash of it."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        return f"{prefix}-{name}"
    return f"{prefix}-{hashlib.blake2b(name.encode(errors='surrogatepass'), digest_size=6).hexdigest()}"


def _cards(result: RunResult) -> list[Card]:
    cards: list[Card] = []
    taken: set[str] = set()
    for finding in result.findings:
        anchor = _anchor("finding", finding.id)
        while anchor in taken:
            anchor += "-again"
        taken.add(anchor)
        title, meaning = words.KINDS.get(finding.kind, (words.kind_title(finding.kind), ""))
        cards.append(
            Card(
                anchor,
                finding,
                title,
                meaning,
                words.subject_text(finding, _MAX_SUBJECTS),
                "; ".join(t for t in (words.range_text(finding), facts.share_text(result, finding)) if t),
                facts.price_text(result, finding),
                _when(finding, result.run.start_ns),
                _details(finding),
                _evidence(finding, anchor, result.run.start_ns),
            )
        )
    return cards


def _when(finding: Finding, origin: int | None) -> str:
    if finding.start_ns is None:
        return ""
    if origin is None:
        return format_time(finding.start_ns)
    end = finding.end_ns if finding.end_ns is not None else finding.start_ns
    first, last = ("0 s" if t == origin else format_duration(t - origin) for t in (finding.start_ns, end))
    return f"{first} to {last} after job start" if last != first else f"{first} after job start"


def _details(finding: Finding) -> list[tuple[str, str]]:
    """The whole subject, where the heading has room for a part of it only."""
    if words.subject_text(finding, _MAX_SUBJECTS) == words.subject_text(finding, sys.maxsize):
        return []
    rows = [
        ("Ranks", words.ranks_text(finding.ranks, sys.maxsize).removeprefix("ranks ").removeprefix("rank ")),
        ("Hosts", ", ".join(finding.hosts)),
        ("Links", "; ".join(words.link_text(link) for link in finding.links)),
    ]
    return [(name, text) for name, text in rows if text]


def _evidence(finding: Finding, anchor: str, origin: int | None) -> TableView | None:
    rows = finding.evidence
    if not rows:
        return None
    table = table_of(
        "evidence",
        "Where it can be seen",
        column("what", [e.text for e in rows]),
        column("source", [e.source for e in rows], "file, relative to the analysed directory"),
        column("rank", [e.rank for e in rows]),
        column("source_ts_ns", [e.source_ts_ns for e in rows], "in the file's own clock", "ns"),
        column("ts_ns", [e.ts_ns for e in rows], "on the aligned clock", "ns"),
    )
    return table_view(table, origin_ns=origin, view_id=f"{anchor}-evidence", limit=_MAX_EVIDENCE)


def _present(*found: SectionPart | None) -> list[SectionPart]:
    return [p for p in found if p is not None]


def _sections(result: RunResult) -> list[SectionPart]:
    """One part per section, but for `clocks`, which stands beside the table of clocks.

    The attribution opens the section `breakdown`, which answers the same for each rank.
    """
    attribution = parts.attribution(result)
    breakdown, elsewhere = result.section("breakdown"), result.section("clocks") if result.clocks else None
    out = _present(attribution if breakdown is None else None)
    taken: set[str] = set()
    for section in in_order([s for s in result.sections if s is not elsewhere]):
        anchor = _anchor("section", section.id)
        # A second section of the same id keeps its tables, but its figures would claim the same places.
        body = SectionBody() if anchor in taken else body_of(section, result)
        while anchor in taken:
            anchor += "-again"
        taken.add(anchor)
        part = _section(section, body, anchor, result.run.start_ns)
        if attribution is not None and section is breakdown:
            part = replace(part, blocks=[*attribution.blocks, *part.blocks], notes=[*part.notes, *attribution.notes])
        out.append(part)
    return out


def _section(section: Section, body: SectionBody, anchor: str, origin: int | None) -> SectionPart:
    instead = {t.id: t for t in body.tables}
    own = [instead.pop(t.id, t) for t in section.tables]
    views = [(t.id, table_view(t, origin_ns=origin, view_id=f"{anchor}-{i}")) for i, t in enumerate([*own, *instead.values()])]
    blocks: list[Block] = []
    for figure in body.figures:
        place = next((i for i, (table_id, _) in enumerate(views) if table_id == figure.table), None)
        blocks.append(Block(figure, None if place is None else views.pop(place)[1]))
    blocks += [Block(None, view, open=view.total <= _MAX_OPEN_ROWS) for _, view in views]
    return SectionPart(anchor, section.title, section.question, section.answer, blocks, body.notes)
