"""Simulated training jobs of which all is known: what each rank did, when, and what each fault cost."""

from __future__ import annotations

from dataclasses import replace

from tracelab.simulate.engine import simulated
from tracelab.simulate.faults import OF_LINKS
from tracelab.simulate.model import Cluster, Fault, Job, Outcome, Scenario

__all__ = ["Cluster", "Fault", "Job", "Outcome", "Scenario", "lost_ns", "run"]


def run(scenario: Scenario) -> Outcome:
    """Runs a scenario. Equal scenarios give equal outcomes."""
    return simulated(scenario, _length(scenario))


def _length(scenario: Scenario) -> int:
    """Length of the run without faults, ns; needed only where a fault of a link lasts a share of it."""
    if not any(f.kind in OF_LINKS for f in scenario.faults):
        return 0
    return simulated(replace(scenario, faults=()), 0).step_ends[-1]


def lost_ns(scenario: Scenario, outcome: Outcome) -> list[int | None]:
    """What each fault cost: the run's length minus that of the same run without it; None where the job never ended."""
    if outcome.stalled:
        return [None for _ in scenario.faults]
    length = _length(scenario)
    without = [simulated(replace(scenario, faults=(*scenario.faults[:n], *scenario.faults[n + 1 :])), length) for n in range(len(scenario.faults))]
    return [outcome.step_ends[-1] - other.step_ends[-1] for other in without]
