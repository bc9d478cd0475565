"""The verdict and the findings on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelab.cli.console import printable, say, stdout
from tracelab.units import NS_PER_S, format_duration

if TYPE_CHECKING:
    from tracelab.results import Finding, RunResult

__all__ = ["print_findings"]

_SHOWN = 20
_STYLES = {"critical": "bold red", "major": "red", "minor": "yellow", "info": "dim"}


def _seconds(value: float) -> str:
    return format_duration(value * NS_PER_S)


def _subject(f: Finding) -> str:
    ranks = f"rank {', '.join(str(r) for r in f.ranks[:6])}{' …' if len(f.ranks) > 6 else ''}" if f.ranks else ""
    hosts = ", ".join(f.hosts[:3]) + (" …" if len(f.hosts) > 3 else "")
    links = ", ".join("/".join(v for v in (link.host, link.nic, link.switch, link.port) if v) for link in f.links[:2])
    return " · ".join(part for part in (ranks, hosts, links) if part) or "the whole job"


def print_findings(result: RunResult) -> None:
    """The verdict first, then one row per finding, then how the analyses ended where one did not end well."""
    say(result.verdict)
    if result.findings:
        _table(result)
    bad = [a for a in result.analyses if a.status == "error"]
    for a in bad:
        say(f"the analysis {a.id!r} failed: {a.reason}")


def _table(result: RunResult) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("severity", "kind", "subject", "lost", "range", "confidence"):
        table.add_column(name, justify="right" if name == "lost" else "left", no_wrap=name in ("severity", "lost"), overflow="fold")
    for f in result.findings[:_SHOWN]:
        cells = (f.kind.replace("_", " "), _subject(f), _seconds(f.lost_s), f"{_seconds(f.lost_s_low)} … {_seconds(f.lost_s_high)}", f.confidence)
        table.add_row(Text(f.severity, _STYLES[f.severity]), *(Text(printable(c)) for c in cells))
    stdout().print(table)
    if len(result.findings) > _SHOWN:
        say(f"… and {len(result.findings) - _SHOWN} more findings in the report")
