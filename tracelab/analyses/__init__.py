"""The questions that tracelab answers, in the order of the report."""

from __future__ import annotations

from tracelab.analyses import breakdown, clocks, collectives, exposure, overlap, steps, stragglers, waits
from tracelab.analysis import Analysis

__all__ = ["ANALYSES"]

ANALYSES: tuple[Analysis, ...] = (
    steps.ANALYSIS,
    breakdown.ANALYSIS,
    overlap.ANALYSIS,
    collectives.ANALYSIS,
    waits.ANALYSIS,
    stragglers.ANALYSIS,
    exposure.ANALYSIS,
    clocks.ANALYSIS,
)
