"""The parts of a page that come straight from the lists of the result document, each as a table with its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracelab.results import DataColumn, DataTable, RunResult
from tracelab_reports import facts, words
from tracelab_reports.figures import Figure
from tracelab_reports.sections.attribution import attribution_bars
from tracelab_reports.tableview import TableView, table_view

__all__ = ["Block", "SectionPart", "analyses", "attribution", "clocks", "column", "coverage", "exported", "inputs", "not_observable", "notices", "table_of"]

_MAX_OPEN_ROWS = 8
_LEAST_S = 0.5e-9
_UNNAMED = "unnamed-host-"


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


def table_of(table_id: str, title: str, *columns: DataColumn) -> DataTable:
    """A table of the page."""
    return DataTable(table_id, title, list(columns))


def column(name: str, values: Sequence[object], doc: str = "", unit: str = "") -> DataColumn:
    """A column of it; names and units follow those of result tables, so that the CSV holds raw values."""
    return DataColumn(name, unit, doc, list(values))


def attribution(result: RunResult) -> SectionPart | None:
    """Causes of the time of a step; None where no analysis attributes it."""
    a = result.attribution
    if a is None:
        return None
    rows: list[tuple[str, float, float | None, float | None, float | None]] = [(words.kind_title(c.kind), c.seconds, c.share, c.low, c.high) for c in a.causes]
    # Sums of floating-point numbers leave a rest of a few attoseconds.
    rest = 0.0 if abs(a.unattributed) < _LEAST_S else a.unattributed
    if rest:
        rows.append(("Unattributed", rest, rest / a.per_step_total if a.per_step_total else None, None, None))
    parts_table = table_of(
        "attribution",
        "Causes of the time of a step",
        column("cause", [name for name, *_ in rows]),
        column("time per step", [s for _, s, *_ in rows], "", "s"),
        column("share", [share for _, _, share, *_ in rows]),
        column("low", [low for *_, low, _ in rows], "the least that it may be", "s"),
        column("high", [high for *_, high in rows], "the most that it may be", "s"),
    )
    view = table_view(parts_table, view_id="section-attribution-0")
    block = Block(attribution_bars(a), view)
    notes = [f"{words.seconds_text(rest)} of a step could not be attributed to a cause."] if rest else []
    answer = f"A step takes {words.seconds_text(a.per_step_total)}."
    return SectionPart("section-attribution", "Attribution", "Where does the time of a step go?", answer, [block], notes)


def _listing(table: DataTable, view_id: str) -> list[Block]:
    return [Block(None, table_view(table, view_id=view_id), open=table.rows <= _MAX_OPEN_ROWS)]


def coverage(result: RunResult) -> SectionPart | None:
    """Ranks seen, expected and missing, and what was lost of each."""
    run = result.run
    if not run.ranks:
        return None
    by_rank = {c.rank: c for c in run.coverage}
    rows = [(r, by_rank.get(r.rank)) for r in run.ranks]
    table = table_of(
        "ranks",
        "Ranks that were seen, and what was lost of each",
        column("rank", [r.rank for r, _ in rows]),
        column("host", [r.host for r, _ in rows]),
        column("device", [r.device for r, _ in rows]),
        column("GPU", [r.gpu for r, _ in rows]),
        column("GPU events without launch", [c.orphan_gpu_events if c else None for _, c in rows]),
        column("cut off", [c.truncated if c else None for _, c in rows], "the file ends early"),
        column("notices", [c.notices if c else None for _, c in rows]),
        column("sources", [r.sources for r, _ in rows]),
    )
    expected = "unknown" if run.world_size is None else f"{run.world_size:,}"
    answer = f"{words.plural(len(run.ranks), 'rank')} seen, {expected} expected, {len(run.missing_ranks):,} missing."
    if run.missing_ranks:
        answer += f" Missing: {words.ranks_text(run.missing_ranks, 20)}."
    unnamed = [r.rank for r in run.ranks if r.host.startswith(_UNNAMED)]
    notes = [_unnamed_note(unnamed)] if unnamed else []
    return SectionPart("coverage", "Ranks", "Which ranks do the files show, and what was lost of them?", answer, _listing(table, "coverage-0"), notes)


def _unnamed_note(ranks: Sequence[int]) -> str:
    return (
        f"No file names the host of {words.ranks_text(ranks)}. Such ranks count as one host, {_UNNAMED}0 and so on, as long as their GPU numbers go up with "
        "the rank, and as one host each where that is unknown. The key host in tracelab.toml names it."
    )


def clocks(result: RunResult) -> SectionPart | None:
    """Offset and uncertainty of each host's clock, with the answer and the tables of the section `clocks` where there is one."""
    if not result.clocks:
        return None
    clocks = result.clocks
    table = table_of(
        "clocks",
        "Clock of each host: what was added to its times",
        column("host", [c.host for c in clocks]),
        column("offset_ns", [c.offset_ns for c in clocks], "added to the host's times", "ns"),
        column("± uncertainty", [c.uncertainty_ns for c in clocks], "of the offset", "ns"),
        column("drift", [c.drift_ppm for c in clocks], "change of the offset from the start on", "ppm"),
        column("start_ns", [c.start_ns for c in clocks], "on the host's own clock", "ns"),
        column("method", [c.method for c in clocks]),
        column("grade", [c.grade for c in clocks], "A: far below the effects shown; D: the order across hosts is not known"),
    )
    worst = facts.worst_uncertainty_ns(result)
    bound = "not known for every host" if worst is None else f"at most {words.seconds_text(worst / 1e9)}"
    section = result.section("clocks")
    answer = section.answer if section else f"Times of different hosts were put on one clock; the uncertainty is {bound}."
    more = [Block(None, table_view(t, view_id=f"clocks-{i}"), open=t.rows <= _MAX_OPEN_ROWS) for i, t in enumerate(section.tables if section else [], 1)]
    return SectionPart("clocks", "Clocks", "How well do the hosts' clocks agree?", answer, [*_listing(table, "clocks-0"), *more], [])


def analyses(result: RunResult) -> SectionPart | None:
    """How each analysis ended."""
    if not result.analyses:
        return None
    rows = result.analyses
    table = table_of(
        "analyses",
        "Analyses and how they ended",
        column("analysis", [a.id for a in rows]),
        column("outcome", [words.STATUS[a.status] for a in rows]),
        column("reason", [a.reason or None for a in rows]),
    )
    done = sum(a.status == "ok" for a in rows)
    answer = f"{done} of {words.plural(len(rows), 'analysis', 'analyses')} answered in full."
    block = Block(None, table_view(table, view_id="analyses-0"), open=done < len(rows))
    return SectionPart("analyses", "Analyses", "What was checked?", answer, [block], [])


def notices(result: RunResult) -> SectionPart | None:
    """Notices of the parsers, errors first."""
    rows = sorted(result.notices, key=lambda n: ("error", "warning", "info").index(n.severity))
    if not rows:
        return None
    table = table_of(
        "notices",
        "What could not be read or trusted",
        column("severity", [n.severity for n in rows]),
        column("what", [n.text for n in rows]),
        column("what to do", [n.hint or None for n in rows]),
        column("count", [n.count for n in rows]),
        column("file", [n.path for n in rows]),
        column("offset", [n.offset_bytes for n in rows], "position of the first case in the uncompressed file", "byte"),
        column("code", [n.code for n in rows]),
    )
    answer = ", ".join(words.plural(n, severity if severity != "info" else "remark") for severity, n in facts.severity_counts(result).items()) + "."
    return SectionPart("notices", "Notices", "What could not be read or trusted?", answer, _listing(table, "notices-0"), [])


def not_observable(result: RunResult) -> SectionPart | None:
    """Questions that stay open."""
    rows = result.not_observable
    if not rows:
        return None
    table = table_of(
        "not_observable",
        "Questions that the files cannot answer",
        column("question", [n.question for n in rows]),
        column("why not", [n.reason for n in rows]),
        column("what to collect", [n.collect for n in rows]),
    )
    answer = (
        f"{words.plural(len(rows), 'question')} {'stays' if len(rows) == 1 else 'stay'} open; the table says what to collect so that the next run answers them."
    )
    return SectionPart("not-observable", "Not observable", "What can these files not tell?", answer, _listing(table, "not-observable-0"), [])


def inputs(result: RunResult) -> SectionPart | None:
    """Files and their role."""
    rows = result.inputs
    if not rows:
        return None
    table = table_of(
        "inputs",
        "Files that were found, and their role",
        column("file", [i.path for i in rows]),
        column("format", [i.format or None for i in rows]),
        column("role", [words.ROLES.get(i.role, i.role) for i in rows]),
        column("rank", [i.rank for i in rows]),
        column("size", [i.size_bytes for i in rows], "on disk", "B"),
        column("events", [i.events for i in rows]),
        column("note", [i.note or None for i in rows]),
    )
    used = sum(i.role == "analysed" for i in rows)
    answer = f"{used:,} of {words.plural(len(rows), 'file')} analysed."
    return SectionPart("inputs", "Inputs", "Which files is this based on?", answer, _listing(table, "inputs-0"), [])


def exported(result: RunResult) -> SectionPart | None:
    """Tables that stand beside the report."""
    if not result.tables:
        return None
    rows = sorted(result.tables.items())
    table = table_of("exported", "Tables that were exported beside this report", column("table", [k for k, _ in rows]), column("path", [v for _, v in rows]))
    return SectionPart(
        "exported", "Exported tables", "Where are the full tables?", f"{words.plural(len(rows), 'table')} exported.", _listing(table, "exported-0"), []
    )
