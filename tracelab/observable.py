"""What the files at hand cannot tell, and what to collect so that they can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tracelab.results import Clock, NotObservable, RunInfo
from tracelab.units import format_ranges

if TYPE_CHECKING:
    import polars as pl

__all__ = ["not_observable"]

_LISTED = 16


def _of_ranks(info: RunInfo) -> list[NotObservable]:
    out = []
    if info.missing_ranks:
        reason = f"no file of rank {format_ranges(info.missing_ranks)}"
        out.append(NotObservable("Did a missing rank cause the waiting?", reason, "the profiler trace of every rank, of the same steps"))
    if len(info.ranks) < 2:
        reason = "one rank alone cannot show who waits for whom"
        out.append(NotObservable("Is a rank slower than its peers?", reason, "traces of the other ranks, of the same steps"))
    cut = [c.rank for c in info.coverage if c.truncated]
    if cut:
        reason = f"the files of rank {format_ranges(cut)} are cut short"
        out.append(NotObservable("What happened at the end of the capture?", reason, "traces that were written to their end"))
    return out


def _of_clocks(info: RunInfo, clocks: Sequence[Clock]) -> list[NotObservable]:
    loose = sorted({c.host for c in clocks if c.grade == "D"})
    if not loose or len(info.ranks) < 2:
        return []
    reason = f"no collective ties the clock of {', '.join(loose[:_LISTED])} to the others"
    return [NotObservable("Which host was late?", reason, "traces of one time window of all hosts, with the collectives that span them")]


def _of_content(steps: pl.DataFrame, tables: Mapping[str, pl.LazyFrame]) -> list[NotObservable]:
    out = []
    if steps.height and (steps["origin"] == "window").any():
        reason = "some ranks mark no steps: their whole capture counts as one"
        collect = "traces with ProfilerStep marks: call profiler.step() once per iteration"
        out.append(NotObservable("How does time vary from step to step?", reason, collect))
    if "collectives" in tables and "comm_records" not in tables:
        reason = "the trace states neither size nor group of its collectives"
        collect = "traces of PyTorch 2.3 or newer of a job over NCCL or RCCL, which state them"
        out.append(NotObservable("What bandwidth do the collectives reach?", reason, collect))
    return out


def _of_network(info: RunInfo, tables: Mapping[str, pl.LazyFrame]) -> list[NotObservable]:
    if len(info.ranks) < 2 and (info.world_size or 1) < 2:
        return []
    question = "Was the network at fault (loss, congestion, a cable)?"
    collect = "counters of the interfaces and switches before and after, or sampled during, the slow steps"
    if "counters" not in tables:
        return [NotObservable(question, "no counters of network interfaces or switches lie beside the traces", collect)]
    if "counter_rates" not in tables:
        reason = "the counters at hand are single readings: a level says nothing of when it was reached"
        return [NotObservable(question, reason, "a second reading of the same counters, or readings with a moment in or above them")]
    if "links" not in tables:
        reason = "no counter is of an adapter of the job's hosts or of a switch that a source connects to them"
        return [NotObservable(question, reason, "counters in folders named after their machine, and what wires them: LLDP, ibnetdiscover or a table")]
    return []


def not_observable(info: RunInfo, clocks: Sequence[Clock], steps: pl.DataFrame, tables: Mapping[str, pl.LazyFrame]) -> list[NotObservable]:
    """The questions that stay open for want of data, the most important first."""
    network = _of_network(info, tables)
    return [*_of_ranks(info), *_of_clocks(info, clocks), *_of_content(steps, tables), *network]
