"""What a check hands back: an issue, the lines that prove it, and how both become a finding of the document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from tracelab.analysis import Tables
from tracelab.results import Confidence, Evidence, Finding, FindingKind, FindingSeverity, Link, finding_id

__all__ = ["Issue", "Proof", "clean", "findings_of", "proofs"]

MOST_PROOFS = 6
"""Lines shown for one finding; the sentence says how many ranks it is about."""
LONGEST_LINE = 240
"""Characters of a quoted line."""


class Proof(NamedTuple):
    """A line of a log; `said` is what it states, shown where the line itself was not kept."""

    source_id: int
    rank: int
    line: int
    said: str


@dataclass(frozen=True, kw_only=True)
class Issue:
    """What a check found. `check` and `subject` name it again in a later run.

    `explains` names settings and hosts (as `host NAME`) whose other oddities of that kind need no finding of their own.
    """

    check: str
    subject: tuple[str | int, ...]
    kind: FindingKind
    severity: FindingSeverity
    confidence: Confidence
    says: str
    next_step: str
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    proofs: tuple[Proof, ...] = ()
    explains: frozenset[str] = frozenset()


def proofs(frame: pl.DataFrame, said: str, most: int = 2) -> list[Proof]:
    """The first lines of `frame` (source_id, rank, line), each of another host while there are some. `said` may name its columns."""
    first = frame.sort("host", "rank", "source_id", "line")
    one_each = first.unique("host", keep="first", maintain_order=True)
    rows = pl.concat([one_each, first]).unique(["source_id", "line"], keep="first", maintain_order=True).head(most)
    return [Proof(r["source_id"], r["rank"], r["line"], clean(said.format(**r))) for r in rows.iter_rows(named=True)]


def clean(text: str) -> str:
    """`text` of a log without control characters, and not too long."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: LONGEST_LINE + 1])
    return shown if len(shown) <= LONGEST_LINE else shown[:LONGEST_LINE] + "…"


def findings_of(tables: Tables, issues: Sequence[Issue]) -> tuple[Finding, ...]:
    """One finding per issue, in their order, with the text of the lines that prove it."""
    shown = [_distinct(i.proofs)[:MOST_PROOFS] for i in issues]
    texts = _texts(tables, [p for ps in shown for p in ps])
    return tuple(_finding(i, [_evidence(tables, p, texts) for p in ps]) for i, ps in zip(issues, shown, strict=True))


def _distinct(found: Iterable[Proof]) -> list[Proof]:
    return list({(p.source_id, p.line): p for p in reversed(list(found))}.values())[::-1]


def _texts(tables: Tables, wanted: Sequence[Proof]) -> dict[tuple[int, int], str]:
    """The text of the wanted lines, by file and line, read in one pass."""
    if not wanted:
        return {}
    schema = {"source_id": pl.Int32, "line": pl.Int64}
    keys = pl.LazyFrame(sorted({(p.source_id, p.line) for p in wanted}), schema=schema, orient="row")
    rows = tables["log_events"].select("source_id", "line", "text").join(keys, on=["source_id", "line"], how="semi").collect(engine="streaming")
    return {(s, n): t for s, n, t in rows.sort("source_id", "line", "text", descending=[False, False, True]).iter_rows()}


def _evidence(tables: Tables, p: Proof, texts: dict[tuple[int, int], str]) -> Evidence:
    text = clean(texts.get((p.source_id, p.line), p.said))
    return tables.evidence(p.source_id, p.rank if p.rank >= 0 else None, None, None, f"line {p.line}: {text}")


def _finding(i: Issue, evidence: list[Evidence]) -> Finding:
    return Finding(
        id=finding_id(i.kind, [i.check, *i.subject]),
        kind=i.kind,
        severity=i.severity,
        summary=f"{clean_sentence(i.says)} (cost not measured).",
        confidence=i.confidence,
        lost_s=0.0,
        lost_s_low=0.0,
        lost_s_high=0.0,
        lost_gpu_hours=0.0,
        ranks=sorted({r for r in i.ranks if r >= 0}),
        hosts=sorted({h for h in i.hosts if h}),
        links=list(i.links),
        steps=[],
        evidence=evidence,
        next_step=i.next_step,
    )


def clean_sentence(text: str) -> str:
    """`text` without control characters: names of hosts and values of settings come from files."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
