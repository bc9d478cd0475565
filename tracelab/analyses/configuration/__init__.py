"""Whether the communication is set up as the hardware allows, from what the libraries write about themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from tracelab.analyses.configuration.agreement import affinities, fewer_channels, mixed, mixed_gpus
from tracelab.analyses.configuration.costs import costly_settings
from tracelab.analyses.configuration.issue import Issue, findings_of
from tracelab.analyses.configuration.local import not_direct
from tracelab.analyses.configuration.messages import complaints, read_messages
from tracelab.analyses.configuration.network import no_gpudirect, sockets
from tracelab.analyses.configuration.nics import far_adapter, missing_adapters, uneven_rails
from tracelab.analyses.configuration.outputs import LOG_WARNINGS, SETTINGS_REVIEW, TRANSPORTS, log_warnings, settings_review, transports
from tracelab.analyses.configuration.setup import Setup, read_setup
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import SEVERITIES, Finding, NotObservable

__all__ = ["ANALYSIS", "LOG_WARNINGS", "SETTINGS_REVIEW", "TRANSPORTS", "Params"]

Check = Callable[[Setup, frozenset[str], pl.DataFrame], list[Issue]]

CHECKS: tuple[Check, ...] = (
    sockets,
    no_gpudirect,
    not_direct,
    far_adapter,
    missing_adapters,
    uneven_rails,
    fewer_channels,
    mixed,
    mixed_gpus,
    affinities,
    complaints,
    costly_settings,
)
"""In this order: a setting that an earlier check gives as the cause is no finding of a later one."""


@dataclass(frozen=True)
class Params:
    """No thresholds: what is a fault is a matter of what the logs say, not of size."""


def _run(tables: Tables, params: Params) -> AnalysisResult:
    setup = read_setup(tables)
    messages = read_messages(tables, setup)
    issues: list[Issue] = []
    for check in CHECKS:
        issues.extend(check(setup, _explained(issues), messages))
    issues.sort(key=lambda i: SEVERITIES.index(i.severity))
    findings = findings_of(tables, issues)
    frames = {
        "settings_review": settings_review(tables, setup),
        "transports": transports(tables, setup),
        "log_warnings": log_warnings(tables, messages),
    }
    dark = () if setup.connections.height else (_NO_CONNECTIONS,)
    silent = not setup.comms.height and not setup.settings.height and not setup.connections.height
    return AnalysisResult(_answer(setup, findings), frames, findings, degraded="the logs state no setup" if silent else "", not_observable=dark)


def _explained(issues: Sequence[Issue]) -> frozenset[str]:
    """Settings that an issue is about, and hosts that a serious one is about."""
    return frozenset(e for i in issues for e in i.explains if i.severity != "info" or not e.startswith("host "))


_NO_CONNECTIONS = NotObservable(
    "Which way does the data take between GPUs?",
    "the logs hold no line about connections",
    "logs of all ranks with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,NET, from the start of the job",
)


def _answer(s: Setup, findings: tuple[Finding, ...]) -> str:
    if findings:
        return " ".join(f.summary for f in findings)
    count = s.count
    if not s.connections.height and not s.settings.height:
        return "The logs say nothing of how communication is set up."
    return f"Nothing in the logs of {count} process{'es' if count != 1 else ''} says that communication is set up worse than the hardware allows."


ANALYSIS = Analysis(
    "configuration",
    "Configuration",
    "Is communication set up as the hardware allows, alike on all ranks?",
    ("log_events",),
    Params,
    (SETTINGS_REVIEW, TRANSPORTS, LOG_WARNINGS),
    _run,
    {"log_events": "no log of a communication library (NCCL_DEBUG=INFO) was found"},
)
