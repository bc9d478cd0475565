"""How an analysis is declared, checked and run.

An analysis is a pure function from lazy tables and frozen parameters to a frozen result. The runner turns a table
that is not there into `not_applicable` and an exception into `error`, for that analysis alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tracelab.errors import SchemaError
from tracelab.results import AnalysisStatus, Attribution, DataColumn, DataTable, Evidence, Finding, NotObservable, Section

if TYPE_CHECKING:
    import polars as pl

    from tracelab.tables import TableSpec

__all__ = ["MAX_ROWS", "Analysis", "AnalysisResult", "Outcome", "Tables", "run_analyses"]

MAX_ROWS = 200_000
"""Rows of one result table that go into the document (2,048 ranks × 60 steps are 123,000); more are counted."""


class Tables(Protocol):
    """The tables of one job on one clock. All times are aligned. `memo` keeps what several analyses compute from them."""

    memo: dict[str, object]

    def __getitem__(self, name: str) -> pl.LazyFrame:
        """The table of that name (see `tracelab schema`); empty where nothing filled it."""

    def __contains__(self, name: object) -> bool:
        """Whether the table has rows."""

    def evidence(self, source_id: int, rank: int | None, source_ts_ns: int | None, ts_ns: int | None, text: str) -> Evidence:
        """A pointer into a source file."""


@dataclass(frozen=True)
class AnalysisResult:
    """What an analysis found: one sentence, tables by id (defined by the analysis' `outputs`), findings."""

    answer: str
    frames: Mapping[str, pl.DataFrame]
    findings: tuple[Finding, ...] = ()
    attribution: Attribution | None = None
    degraded: str = ""
    not_observable: tuple[NotObservable, ...] = ()


@dataclass(frozen=True)
class Analysis:
    """A question, what it needs, and the function that answers it.

    `requires` names tables that must have rows; `missing` says, per table, what it takes to have it.
    `params` is a frozen dataclass: thresholds with units, defaults and why that default.
    """

    id: str
    title: str
    question: str
    requires: tuple[str, ...]
    params: type
    outputs: tuple[TableSpec, ...]
    run: Callable[[Tables, Any], AnalysisResult]
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The status of one analysis, and its result where it has one."""

    analysis: Analysis
    status: AnalysisStatus
    result: AnalysisResult | None

    def section(self) -> Section | None:
        """The result in the form of the document."""
        if self.result is None:
            return None
        a = self.analysis
        tables = [_data_table(spec, self.result.frames[spec.name]) for spec in a.outputs if spec.name in self.result.frames]
        return Section(a.id, a.title, a.question, self.result.answer, tables)


def _data_table(spec: TableSpec, frame: pl.DataFrame) -> DataTable:
    import polars as pl

    shown = frame.head(MAX_ROWS)
    if frame.height > MAX_ROWS and "step" in frame.columns:
        # whole steps are cut rather than whole ranks: a rank that is left out could be the guilty one
        kept = frame.group_by("step").len().sort("step").filter(pl.col("len").cum_sum() <= MAX_ROWS)["step"]
        shown = frame.filter(pl.col("step").is_in(kept.implode()))
    columns = [DataColumn(c.name, c.unit, c.doc, shown[c.name].to_list()) for c in spec.columns]
    return DataTable(spec.name, spec.doc, columns, frame.height - shown.height)


def _run_one(analysis: Analysis, tables: Tables, params: object) -> Outcome:
    absent = [name for name in analysis.requires if name not in tables]
    if absent:
        reason = "; ".join(analysis.missing.get(n, f"no rows for the table {n!r}") for n in absent)
        return Outcome(analysis, AnalysisStatus(analysis.id, "not_applicable", reason), None)
    result = analysis.run(tables, params)
    known = {spec.name: spec for spec in analysis.outputs}
    extra = set(result.frames) - set(known)
    if extra:
        raise SchemaError(f"analysis {analysis.id!r} returns tables that it does not define: {sorted(extra)}")
    frames = {name: known[name].conform(frame) for name, frame in result.frames.items()}
    result = AnalysisResult(result.answer, frames, result.findings, result.attribution, result.degraded, result.not_observable)
    status = AnalysisStatus(analysis.id, "degraded", result.degraded) if result.degraded else AnalysisStatus(analysis.id, "ok")
    return Outcome(analysis, status, result)


def run_analyses(analyses: Iterable[Analysis], tables: Tables, params: Mapping[str, object] | None = None, *, raise_errors: bool = False) -> list[Outcome]:
    """Runs each analysis on its own; `params` overrides the default parameters by analysis id."""
    import polars as pl

    outcomes = []
    for analysis in analyses:
        try:
            outcomes.append(_run_one(analysis, tables, (params or {}).get(analysis.id) or analysis.params()))
        except (Exception, pl.exceptions.PanicException) as e:  # the one boundary: a broken analysis must not hide the others
            if raise_errors:
                raise
            outcomes.append(Outcome(analysis, AnalysisStatus(analysis.id, "error", f"{type(e).__name__}: {e}"), None))
    return outcomes
