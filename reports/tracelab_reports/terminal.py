"""The result on a terminal: the verdict, then one row per finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tracelab.results import Finding, RunResult
from tracelab_reports.facts import nothing_found
from tracelab_reports.words import CONFIDENCE, NOTHING_FOUND, SEVERITY, clean, cost_text, kind_title, plural, shorten, subject_text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_result"]

_STYLES = {"critical": "bold red", "major": "bold yellow", "minor": "yellow", "info": "blue"}
_MAX_FINDINGS = 20
_MAX_NEXT = 3


def print_result(result: RunResult, console: Console) -> None:
    """Prints the verdict line, the table of findings and what to do next; readable from 80 columns on, without colour too."""
    console.print(Text(" ".join(clean(result.verdict).split()), style="bold"))
    if not result.findings:
        if nothing_found(result) == NOTHING_FOUND and not result.verdict.startswith("No cause of lost time"):
            console.print(Text(NOTHING_FOUND))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if console.color_system else "")
    table.add_column("severity", no_wrap=True)
    table.add_column("cause", overflow="fold")
    table.add_column("where", overflow="fold")
    table.add_column("lost", justify="right", no_wrap=True)
    table.add_column("confidence", no_wrap=True)
    for finding in result.findings[:_MAX_FINDINGS]:
        table.add_row(*_row(finding))
    console.print(table)
    left = len(result.findings) - _MAX_FINDINGS
    if left > 0:
        console.print(Text(f"and {plural(left, 'finding')} more"))
    for finding in result.findings[:_MAX_NEXT]:
        line = f"next, for {kind_title(finding.kind).lower()}: {finding.next_step}"
        console.print(Text(shorten(" ".join(clean(line).split()), 300)))
    if result.not_observable:
        console.print(Text(f"{plural(len(result.not_observable), 'question')} the files cannot answer: see the report"))


def _row(finding: Finding) -> tuple[Text, ...]:
    return (
        Text(SEVERITY[finding.severity], style=_STYLES[finding.severity]),
        Text(kind_title(finding.kind)),
        Text(shorten(subject_text(finding, 2), 120)),
        Text(cost_text(finding)),
        Text(CONFIDENCE[finding.confidence][0]),
    )
