"""The text of a ticket: it stands alone, and is short however large the job."""

from __future__ import annotations

import re

from tracelab.results import Finding, RunResult
from tracelab.units import format_time
from tracelab_reports import facts, words
from tracelab_reports.sections.pairs import top_pairs

__all__ = ["REPORTER", "MarkdownReporter", "escape"]

_MAX_FINDINGS = 5
_MAX_DETAILED = 3
_MAX_EVIDENCE = 2
_MAX_LIMITS = 4
_MAX_OPEN = 2
_LINE = 300
_JOINER = "\u2060"
"""Invisible; it keeps a tracker from seeing a mention, a reference or an address in the text of a trace."""


def escape(text: str, limit: int = _LINE) -> str:
    """`text` on one line, in which nothing is markup, a mention, a reference or an address."""
    line = words.shorten(text, limit)
    line = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = re.sub(r"([@#!])(?=\w)", rf"\1{_JOINER}", line)
    return re.sub(r"(?i)(:)(?=//)|(www)(?=\.)", lambda m: m.group(0) + _JOINER, line)


class MarkdownReporter:
    """Ticket text of at most 40 lines."""

    name = "markdown"
    suffixes: tuple[str, ...] = (".md", ".markdown")

    def render(self, result: RunResult) -> str:
        """The text, in the common subset of Markdown dialects."""
        return "\n".join([*_head(result), *_findings(result), *_limits(result), *_open_questions(result), *_foot(result)]) + "\n"


def _head(result: RunResult) -> list[str]:
    run = result.run
    start = f", from {format_time(run.start_ns)}" if run.start_ns is not None else ""
    lines = [f"**{escape(result.verdict)}**", "", f"Job {escape(run.name, 120)}: {escape(facts.job_text(result))}{start}.{_traffic(result)}"]
    cost = facts.cost_text(result)
    return [*lines, escape(cost)] if cost else lines


def _findings(result: RunResult) -> list[str]:
    if not result.findings:
        checked, unchecked = facts.checked(result), facts.unchecked(result)
        lines = [facts.nothing_found(result) + (f" Checked: {escape(', '.join(checked))}." if checked else "")]
        return ["", *lines, *([f"Not checked, or in part: {escape('; '.join(unchecked))}."] if unchecked else [])]
    lines = ["", "| severity | cause | where | lost (range) | confidence |", "|---|---|---|---|---|"]
    for f in result.findings[:_MAX_FINDINGS]:
        price = facts.price_text(result, f)
        lost = words.lost_text(f) + (f", {escape(price, 60)}" if price else "")
        cells = (words.SEVERITY[f.severity], words.kind_title(f.kind), escape(words.subject_text(f), 160), lost, f.confidence)
        lines.append(f"| {' | '.join(cells)} |")
    left = len(result.findings) - _MAX_FINDINGS
    lines += [f"| | and {words.plural(left, 'finding')} more | | | |"] if left > 0 else []
    lines.append("")
    for number, finding in enumerate(result.findings[:_MAX_DETAILED], 1):
        lines += _detail(number, finding)
    return lines


def _detail(number: int, finding: Finding) -> list[str]:
    lines = [f"{number}. {escape(words.sentence(finding.summary))} (id {escape(finding.id, 60)})"]
    for e in finding.evidence[:_MAX_EVIDENCE]:
        rank = "" if e.rank is None else f"rank {words.rank_label(e.rank)}, "
        at = "" if e.source_ts_ns is None else f" at {e.source_ts_ns} ns"
        lines.append(f"   - Seen: {escape(e.text, 200)} ({rank}{escape(e.source, 120)}{at})")
    return [*lines, f"   - Next: {escape(words.sentence(finding.next_step))}"]


def _limits(result: RunResult) -> list[str]:
    found = facts.limits(result)
    if not found:
        return ["", facts.trust_text(result)]
    more = [f"- and {len(found) - _MAX_LIMITS} more, see the full report"] if len(found) > _MAX_LIMITS else []
    return ["", "How far to trust this:", *(f"- {escape(limit)}" for limit in found[:_MAX_LIMITS]), *more]


def _traffic(result: RunResult) -> str:
    """What the job sends, behind its other facts on their line: a ticket has few."""
    section = result.section("traffic")
    if section is None or not section.answer:
        return ""
    top = top_pairs(section, 2)
    return f" Traffic between GPUs: {escape(words.sentence(section.answer))}" + (f" {escape(top)}" if top else "")


def _open_questions(result: RunResult) -> list[str]:
    rows = result.not_observable
    if not rows:
        return []
    more = [f"- and {len(rows) - _MAX_OPEN} more, see the full report"] if len(rows) > _MAX_OPEN else []
    return ["", "Not observable:", *(f"- {escape(n.question, 140)} Collect: {escape(n.collect, 140)}" for n in rows[:_MAX_OPEN]), *more]


def _foot(result: RunResult) -> list[str]:
    return ["", f"{escape(result.tool.name, 40)} {escape(result.tool.version, 40)}, {result.schema}"]


REPORTER = MarkdownReporter()
