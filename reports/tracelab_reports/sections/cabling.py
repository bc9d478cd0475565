"""The links of the job's network, put together from the tables of all sections that name their ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tracelab.results import DataTable, Link, RunResult
from tracelab_reports.figures import whole
from tracelab_reports.matrices import ends_of
from tracelab_reports.words import kind_title, shorten

__all__ = ["Cable", "End", "cables_of", "natural"]

End = tuple[str, str]
"""Machine and port."""

_MAX_END = 24
_MAX_DIGITS = 18


@dataclass(frozen=True)
class Cable:
    """A link: `a` is its host, or its lower switch. `verdicts` are the kinds of the findings that name it, `families` what stands out on it.

    `domain` is the one that the names of all machines end with; names in words go without it.
    """

    number: int
    a: End | None = None
    b: End | None = None
    tier: int | None = None
    used: bool | None = None
    label: str = ""
    verdicts: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    suspect: str = ""
    domain: str = ""

    @property
    def name(self) -> str:
        """Both ends in words."""
        ends = [self.end_text(end) for end in (self.a, self.b) if end is not None]
        return " ↔ ".join(ends) or shorten(self.label, 2 * _MAX_END) or f"link {self.number}"

    @property
    def verdict(self) -> str:
        """What findings call it; empty where none names it."""
        return ", ".join(kind_title(kind) for kind in self.verdicts)

    def end_text(self, end: End) -> str:
        """A port in words."""
        node = end[0].removesuffix(self.domain) or end[0]
        return f"{ends_of(node, _MAX_END)} {'port ' if end[1].isdigit() else ''}{ends_of(end[1], _MAX_END)}"


def natural(text: str) -> list[tuple[int, int | str]]:
    """A key that sorts `port 2` before `port 10`."""
    return [(0, int(part)) if part.isdecimal() and len(part) <= _MAX_DIGITS else (1, part) for part in re.split(r"(\d+)", text) if part]


def rows_of(table: DataTable, *names: str) -> Iterator[tuple[Any, ...]]:
    """The named columns row by row; None where a column is absent or short."""
    by_name = {c.name: c.values for c in table.columns}
    for i in range(table.rows):
        yield tuple(by_name[n][i] if n in by_name and i < len(by_name[n]) else None for n in names)


def cables_of(result: RunResult) -> dict[int, Cable]:
    """All links that a table names, by number."""
    found: dict[int, Cable] = {}
    tables = {t.id: t for s in result.sections for t in s.tables}
    for table in tables.values():
        names = {c.name for c in table.columns}
        if {"link", "side", "node", "port"} <= names:
            _add_ends(found, table)
        if {"link", "a_node", "a_port", "b_node", "b_port"} <= names:
            _add_pairs(found, table)
    if "link_signals" in tables:
        _add_signals(found, tables["link_signals"])
    domain = _domain({end[0] for cable in found.values() for end in (cable.a, cable.b) if end is not None})
    return _blamed({number: replace(cable, domain=domain) for number, cable in sorted(found.items())}, result)


def _domain(nodes: set[str]) -> str:
    """What the names with a dot in them share behind it, with the dot; empty where they share nothing, or are addresses."""
    tails = {node.partition(".")[2] for node in nodes if "." in node}
    tail = tails.pop() if len(tails) == 1 else ""
    return f".{tail}" if any(c.isalpha() for c in tail) else ""


def _cable(found: Mapping[int, Cable], number: Any) -> Cable | None:
    return found.get(number) or Cable(number) if whole(number) else None


def _end(node: Any, port: Any) -> End | None:
    return (node, port) if isinstance(node, str) and isinstance(port, str) else None


def _flag(value: Any, known: bool | None) -> bool | None:
    return value if isinstance(value, bool) else known


def _add_ends(found: dict[int, Cable], table: DataTable) -> None:
    for number, side, node, port, tier, used in rows_of(table, "link", "side", "node", "port", "tier", "used"):
        cable, end = _cable(found, number), _end(node, port)
        if cable is None or end is None or side not in ("a", "b"):
            continue
        a, b = (end, cable.b) if side == "a" else (cable.a, end)
        found[number] = replace(cable, a=a, b=b, tier=tier if whole(tier) else cable.tier, used=_flag(used, cable.used))


def _add_pairs(found: dict[int, Cable], table: DataTable) -> None:
    for number, a_node, a_port, b_node, b_port, used, suspect in rows_of(table, "link", "a_node", "a_port", "b_node", "b_port", "used", "suspect"):
        cable = _cable(found, number)
        if cable is not None:
            a, b = _end(a_node, a_port) or cable.a, _end(b_node, b_port) or cable.b
            found[number] = replace(cable, a=a, b=b, used=_flag(used, cable.used), suspect=suspect if isinstance(suspect, str) else cable.suspect)


def _add_signals(found: dict[int, Cable], table: DataTable) -> None:
    for number, family, name in rows_of(table, "link", "family", "name"):
        cable = _cable(found, number)
        if cable is not None and isinstance(family, str):
            families = cable.families if family in cable.families else (*cable.families, family)
            found[number] = replace(cable, families=families, label=name if isinstance(name, str) else cable.label)


def _blamed(found: dict[int, Cable], result: RunResult) -> dict[int, Cable]:
    """The links with the kinds of the findings that name them."""
    by_end = {end: number for number, cable in found.items() for end in (cable.b, cable.a) if end is not None}
    by_label = {cable.label: number for number, cable in found.items() if cable.label}
    for finding in result.findings:
        for link in finding.links:
            number = _number(link, by_end, by_label)
            if number is not None and finding.kind not in found[number].verdicts:
                found[number] = replace(found[number], verdicts=(*found[number].verdicts, finding.kind))
    return found


def _number(link: Link, by_end: Mapping[End, int], by_label: Mapping[str, int]) -> int | None:
    near, far = _end(link.host, link.nic), _end(link.switch, link.port)
    near_text, far_text = (" ".join(end) if end else "" for end in (near, far))
    label = f"{near_text} ({far_text})" if near and far else near_text or far_text
    for number in (by_end.get(near) if near else None, by_end.get(far) if far else None, by_label.get(label)):
        if number is not None:
            return number
    return None
