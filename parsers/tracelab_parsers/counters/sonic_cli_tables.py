"""Tables as SONiC's commands print them: a line of headings, a line of dashes, rows below them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tracelab_parsers.counters.switch_transcript import Context

__all__ = ["Table", "headings", "is_rule"]

_RULE = re.compile(r"\s*-{2,}(?: +-{2,})*\s*")
_DASHES = re.compile(r"-{2,}")
_GAP = re.compile(r" {2,}|\t+")


@dataclass(frozen=True, slots=True)
class Table:
    """The head of a table: its columns, where they stand, and what the lines before it say of it."""

    columns: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    context: Context
    title: str = ""
    namespace: str | None = None
    since_clear: bool = False
    interval_ns: int | None = None

    def cells(self, text: str) -> list[str] | None:
        """The cells of a row; None where it does not fit the columns. A row that lost its leading spaces is taken by its gaps."""
        if self._aligned(text):
            return [text[begin:end].strip() for begin, end in self.spans]
        cells = _GAP.split(text.strip())
        return cells if len(cells) == len(self.columns) else None

    def _aligned(self, text: str) -> bool:
        """Whether the text between the columns is blank, the first of them is not, and none holds a gap itself."""
        at = 0
        for begin, end in self.spans:
            if text[at:begin].strip() or _GAP.search(text[begin:end].strip()):
                return False
            at = end
        first, last = self.spans[0], self.spans[-1]
        return bool(text[first[0] : first[1]].strip()) and not text[last[1] :].strip()

    def called(self, title: str, namespace: str | None, *, since_clear: bool, interval_ns: int | None) -> Table:
        """The table with what the lines before it say."""
        return replace(self, title=title, namespace=namespace, since_clear=since_clear, interval_ns=interval_ns)


def is_rule(text: str) -> bool:
    """Whether a line is the dashes below headings."""
    return _RULE.fullmatch(text) is not None


def headings(text: str, rule: str, context: Context) -> Table | None:
    """The head of a table from its two lines; None where they do not fit."""
    spans = tuple(m.span() for m in _DASHES.finditer(rule))
    table = Table(("",) * len(spans), spans, context)
    cells = table.cells(text)
    if cells is None or not all(cells):
        cells = _GAP.split(text.strip())
        if len(cells) != len(spans):
            return None
    return replace(table, columns=tuple(cells))
