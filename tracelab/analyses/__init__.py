"""The questions that tracelab answers, in the order of the report."""

from __future__ import annotations

from tracelab.analyses import breakdown, clocks, collectives, configuration, exposure, hangs, overlap, steps, stragglers, traffic, waits
from tracelab.analyses.network import accounting, bursts, classes, faults, health, links, loss, pause
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
    hangs.ANALYSIS,
    traffic.ANALYSIS,
    faults.ANALYSIS,
    links.ANALYSIS,
    loss.ANALYSIS,
    pause.ANALYSIS,
    health.ANALYSIS,
    bursts.ANALYSIS,
    classes.ANALYSIS,
    accounting.ANALYSIS,
    configuration.ANALYSIS,
    clocks.ANALYSIS,
)
