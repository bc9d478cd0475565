"""The content of the HTML page, worked out before any markup: what the template prints."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tracelab.results import DataColumn, DataTable, Finding, RunResult, Section
from tracelab.units import format_duration, format_time
from tracelab_reports import facts, glossary, words
from tracelab_reports.figures import Figure
from tracelab_reports.sections import body_of, in_order
from tracelab_reports.sections.attribution import attribution_bars
from tracelab_reports.tableview import TableView, table_view

__all__ = ["Block", "Card", "Page", "SectionPart", "build_page"]

_MAX_EVIDENCE = 12
_MAX_OPEN_ROWS = 8


@dataclass(frozen=True)
class Block:
    """A picture with the table beside it, or one of the two alone. `open`: the table shows its rows at once."""

    figure: Figure | None
    table: TableView | None
    open: bool = False


@dataclass(frozen=True)
class SectionPart:
    """A section of the page."""

    anchor: str
    title: str
    question: str
    answer: str
    blocks: Sequence[Block]
    notes: Sequence[str]


@dataclass(frozen=True)
class Card:
    """A finding with its words."""

    anchor: str
    finding: Finding
    title: str
    meaning: str
    subject: str
    share: str
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
    checked: Sequence[str]
    limits: Sequence[str]
    notices: dict[str, int]
    trust: Sequence[SectionPart]
    sections: Sequence[SectionPart]
    closing: Sequence[SectionPart]
    glossary: Sequence[tuple[str, str]]
    figures: Sequence[Figure]


def build_page(result: RunResult) -> Page:
    """The page of a result."""
    origin = result.run.start_ns
    sections = [p for p in (_attribution(result), *(_section(s, origin) for s in in_order(result.sections))) if p is not None]
    trust = [p for p in (_coverage(result), _clocks(result), _analyses(result), _notices(result)) if p is not None]
    closing = [p for p in (_not_observable(result), _inputs(result), _exported(result)) if p is not None]
    return Page(
        title=words.shorten(result.run.name, 80),
        job=facts.job_text(result),
        start="" if origin is None else format_time(origin),
        cost=facts.cost_text(result),
        cards=_cards(result),
        checked=[a.id for a in result.analyses if a.status in {"ok", "degraded"}],
        limits=facts.limits(result),
        notices=facts.severity_counts(result),
        trust=trust,
        sections=_unique(sections),
        closing=closing,
        glossary=glossary.terms(result),
        figures=[b.figure for p in sections for b in p.blocks if b.figure is not None],
    )


def _anchor(prefix: str, name: str) -> str:
    """An id for a link: the name itself where it is a plain word, else a hash of it."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        return f"{prefix}-{name}"
    return f"{prefix}-{hashlib.blake2b(name.encode(errors='surrogatepass'), digest_size=6).hexdigest()}"


def _unique(parts: Sequence[SectionPart]) -> list[SectionPart]:
    """The sections with figures that a second section of the same id cannot clash with."""
    return list(parts)


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
                words.subject_text(finding),
                facts.share_text(result, finding),
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
    if words.subject_text(finding) == words.subject_text(finding, 1_000_000) and not (finding.links and finding.hosts):
        return []
    rows = [
        ("Ranks", words.ranks_text(finding.ranks, 40)),
        ("Hosts", ", ".join(finding.hosts)),
        ("Links", "; ".join(words.link_text(link) for link in finding.links)),
    ]
    return [(name, text) for name, text in rows if text]


def _table(table_id: str, title: str, *columns: DataColumn) -> DataTable:
    return DataTable(table_id, title, list(columns))


def _text(name: str, values: Sequence[object], doc: str = "", unit: str = "") -> DataColumn:
    return DataColumn(name, unit, doc, list(values))


def _evidence(finding: Finding, anchor: str, origin: int | None) -> TableView | None:
    rows = finding.evidence
    if not rows:
        return None
    table = _table(
        "evidence",
        "Where it can be seen",
        _text("what", [e.text for e in rows]),
        _text("source", [e.source for e in rows], "file, relative to the analysed directory"),
        _text("rank", [e.rank for e in rows]),
        _text("time in the source", [None if e.source_ts_ns is None else f"{e.source_ts_ns} ns" for e in rows], "in the file's own clock"),
        _text("ts_ns", [e.ts_ns for e in rows], "on the aligned clock", "ns"),
    )
    return table_view(table, origin_ns=origin, view_id=f"{anchor}-evidence", limit=_MAX_EVIDENCE)


def _section(section: Section, origin: int | None) -> SectionPart:
    body = body_of(section)
    anchor = _anchor("section", section.id)
    views = {t.id: table_view(t, origin_ns=origin, view_id=f"{anchor}-{i}") for i, t in enumerate(section.tables)}
    blocks: list[Block] = []
    for figure in body.figures:
        blocks.append(Block(figure, views.pop(figure.table, None) if figure.table else None))
    blocks += [Block(None, view, open=True) for view in views.values()]
    return SectionPart(anchor, section.title, section.question, section.answer, blocks, body.notes)


def _attribution(result: RunResult) -> SectionPart | None:
    a = result.attribution
    if a is None:
        return None
    parts = [(c.kind, c.seconds, c.share, c.low, c.high) for c in a.causes]
    rest = a.unattributed / a.per_step_total if a.per_step_total else None
    parts_table = _table(
        "attribution",
        "Causes of the time of a step",
        _text("cause", [words.kind_title(k) for k, *_ in parts] + ["Unattributed"]),
        _text("time per step", [words.seconds_text(s) for _, s, *_ in parts] + [words.seconds_text(a.unattributed)]),
        _text("share", [s for _, _, s, *_ in parts] + [rest]),
        _text("low", [words.seconds_text(low) for *_, low, _ in parts] + [None], "the least that it may be"),
        _text("high", [words.seconds_text(high) for *_, high in parts] + [None], "the most that it may be"),
    )
    view = table_view(parts_table, view_id="section-attribution-0")
    block = Block(attribution_bars(a), view)
    answer = f"A step takes {words.seconds_text(a.per_step_total)}; {words.seconds_text(a.unattributed)} of it could not be attributed to a cause."
    return SectionPart("section-attribution", "Attribution", "Where does the time of a step go?", answer, [block], [])


def _listing(table: DataTable, view_id: str) -> list[Block]:
    return [Block(None, table_view(table, view_id=view_id), open=table.rows <= _MAX_OPEN_ROWS)]


def _coverage(result: RunResult) -> SectionPart | None:
    run = result.run
    if not run.ranks:
        return None
    by_rank = {c.rank: c for c in run.coverage}
    rows = [(r, by_rank.get(r.rank)) for r in run.ranks]
    table = _table(
        "ranks",
        "Ranks that were seen, and what was lost of each",
        _text("rank", [r.rank for r, _ in rows]),
        _text("host", [r.host for r, _ in rows]),
        _text("device", [r.device for r, _ in rows]),
        _text("GPU", [r.gpu for r, _ in rows]),
        _text("GPU events without launch", [c.orphan_gpu_events if c else None for _, c in rows]),
        _text("cut off", [c.truncated if c else None for _, c in rows], "the file ends early"),
        _text("notices", [c.notices if c else None for _, c in rows]),
        _text("sources", [r.sources for r, _ in rows]),
    )
    expected = "unknown" if run.world_size is None else f"{run.world_size:,}"
    answer = f"{len(run.ranks):,} ranks seen, {expected} expected, {len(run.missing_ranks):,} missing."
    if run.missing_ranks:
        answer += f" Missing: {words.ranks_text(run.missing_ranks, 20)}."
    return SectionPart("coverage", "Ranks", "Which ranks do the files show, and what was lost of them?", answer, _listing(table, "coverage-0"), [])


def _clocks(result: RunResult) -> SectionPart | None:
    if not result.clocks:
        return None
    clocks = result.clocks
    table = _table(
        "clocks",
        "Clock of each host: what was added to its times",
        _text("host", [c.host for c in clocks]),
        _text("added", [facts.clock_text(c) for c in clocks], "offset ± uncertainty"),
        _text("drift", [c.drift_ppm for c in clocks], "change of the offset from then on", "ppm"),
        _text("from", [c.start_ns for c in clocks], "on the host's own clock", "ns"),
        _text("method", [c.method for c in clocks]),
        _text("grade", [c.grade for c in clocks], "A: far below the effects shown; D: the order across hosts is not known"),
    )
    worst = facts.worst_uncertainty_ns(result)
    bound = "not known for every host" if worst is None else f"at most {words.seconds_text(worst / 1e9)}"
    answer = f"Times of different hosts were put on one clock; the uncertainty is {bound}."
    return SectionPart("clocks", "Clocks", "How well do the hosts' clocks agree?", answer, _listing(table, "clocks-0"), [])


def _analyses(result: RunResult) -> SectionPart | None:
    if not result.analyses:
        return None
    rows = result.analyses
    table = _table(
        "analyses",
        "Analyses and how they ended",
        _text("analysis", [a.id for a in rows]),
        _text("outcome", [words.STATUS[a.status] for a in rows]),
        _text("reason", [a.reason or None for a in rows]),
    )
    done = sum(a.status == "ok" for a in rows)
    return SectionPart("analyses", "Analyses", "What was checked?", f"{done} of {words.plural(len(rows), 'analysis', 'analyses')} answered in full.", _listing(table, "analyses-0"), [])


def _notices(result: RunResult) -> SectionPart | None:
    rows = sorted(result.notices, key=lambda n: ("error", "warning", "info").index(n.severity))
    if not rows:
        return None
    table = _table(
        "notices",
        "What could not be read or trusted",
        _text("severity", [n.severity for n in rows]),
        _text("what", [n.text for n in rows]),
        _text("what to do", [n.hint or None for n in rows]),
        _text("count", [n.count for n in rows]),
        _text("file", [n.path for n in rows]),
        _text("offset", [n.offset_bytes for n in rows], "position of the first case in the uncompressed file", "byte"),
        _text("code", [n.code for n in rows]),
    )
    answer = ", ".join(words.plural(n, severity if severity != "info" else "remark") for severity, n in facts.severity_counts(result).items()) + "."
    return SectionPart("notices", "Notices", "What could not be read or trusted?", answer, _listing(table, "notices-0"), [])


def _not_observable(result: RunResult) -> SectionPart | None:
    rows = result.not_observable
    if not rows:
        return None
    table = _table(
        "not_observable",
        "Questions that the files cannot answer",
        _text("question", [n.question for n in rows]),
        _text("why not", [n.reason for n in rows]),
        _text("what to collect", [n.collect for n in rows]),
    )
    answer = f"{words.plural(len(rows), 'question')} stay open; the table says what to collect so that the next run answers them."
    return SectionPart("not-observable", "Not observable", "What can these files not tell?", answer, _listing(table, "not-observable-0"), [])


def _inputs(result: RunResult) -> SectionPart | None:
    rows = result.inputs
    if not rows:
        return None
    table = _table(
        "inputs",
        "Files that were found, and their role",
        _text("file", [i.path for i in rows]),
        _text("format", [i.format or None for i in rows]),
        _text("role", [words.ROLES.get(i.role, i.role) for i in rows]),
        _text("rank", [i.rank for i in rows]),
        _text("size", [i.size_bytes for i in rows], "on disk", "B"),
        _text("events", [i.events for i in rows]),
        _text("note", [i.note or None for i in rows]),
    )
    used = sum(i.role == "analysed" for i in rows)
    answer = f"{used:,} of {words.plural(len(rows), 'file')} analysed."
    return SectionPart("inputs", "Inputs", "Which files is this based on?", answer, _listing(table, "inputs-0"), [])


def _exported(result: RunResult) -> SectionPart | None:
    if not result.tables:
        return None
    rows = sorted(result.tables.items())
    table = _table("exported", "Tables that were exported beside this report", _text("table", [k for k, _ in rows]), _text("path", [v for _, v in rows]))
    return SectionPart("exported", "Exported tables", "Where are the full tables?", f"{words.plural(len(rows), 'table')} exported.", _listing(table, "exported-0"), [])
