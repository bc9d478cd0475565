"""Jobs of which a part is missing or cannot be compared: steps left out, ranks without GPU work, clocks apart, one rank of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.builders.ddp import Job
from tests.builders.frames import Parsed, Row, frame, gpu, host, parsed, record, step
from tests.builders.run import AlignedTables, findings, outcomes
from tracelab.analyses import ANALYSES
from tracelab.analyses.common import resampled
from tracelab.analyses.partition import job_steps
from tracelab.analysis import Outcome, run_analyses
from tracelab.results import Finding
from tracelab.tables import TABLES

US, MS = 1_000, 1_000_000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def _table(results: dict[str, Outcome], analysis: str, table: str) -> list[dict[str, Any]]:
    result = results[analysis].result
    assert result is not None
    return result.frames[table].to_dicts()


def _regular(starts: dict[int, int], ranks: int = 2) -> Parsed:
    """Steps of 10 ms that start at these moments (ms): 6 ms of compute, a transfer of 1 ms, nothing; rank 1 leaves 0.2 ms later."""
    spans: list[Row] = []
    records: list[Row] = []
    marks: list[Row] = []
    for c, (number, at) in enumerate(starts.items(), 1):
        for rank in range(ranks):
            begin = at * MS + rank * 200 * US
            marks.append(step(rank, number, begin, 10 * MS))
            spans += [gpu(rank, begin, 6 * MS), gpu(rank, at * MS + 6 * MS + 200 * US, MS, REDUCE, stream=20, correlation=c)]
            records.append(record(rank, at * MS + 6 * MS + 200 * US, MS, "allreduce", list(range(ranks)), correlation=c, in_elements=1000))
    return parsed(gpu_spans=spans, comm_records=records, host_spans=marks)


def test_a_step_that_is_left_out_does_not_lengthen_the_next_one() -> None:
    tables = AlignedTables(_regular({n: 10 * n for n in range(6)}), {0: "a", 1: "a"})
    tables.frames["steps"] = tables.frames["steps"].filter(~pl.col("step").is_in([2, 3]))
    rows = job_steps(tables).select("step", pl.col("end_ns") - pl.col("start_ns"), "start_ns").rows()
    # The last rank enters every step 0.2 ms after its nominal start.
    assert rows == [(n, 10 * MS, n * 10 * MS + 200 * US) for n in (0, 1, 4, 5)]
    results = {o.status.id: o for o in run_analyses(ANALYSES, tables, raise_errors=True)}
    times = {(r["rank"], r["step"]): r for r in _table(results, "breakdown", "rank_step_times")}
    # Rank 0 is 0.2 ms ahead: a step holds the rest of its own compute and the beginning of what follows, if something does.
    assert [times[0, s]["compute_ns"] for s in (0, 1, 4, 5)] == [6 * MS, 6 * MS, 6 * MS, 5_800 * US]
    assert [times[1, s]["compute_ns"] for s in (0, 1, 4, 5)] == [6 * MS] * 4


def test_the_time_between_two_captures_belongs_to_no_step() -> None:
    minutes = 180_000
    found = outcomes(_regular({0: 0, 1: 10, 2: 20, 50: minutes, 51: minutes + 10}), {0: "a", 1: "a"})
    rows = [(r["step"], r["length_ns"]) for r in _table(found, "steps", "step_times")]
    assert rows == [(s, 10 * MS) for s in (0, 1, 2, 50, 51)]


def test_steps_of_a_second_run_are_kept() -> None:
    first, second = (_regular({1: at, 2: at + 10}) for at in (0, 60_000))
    both = {name: pl.concat([first[name], second[name]]) for name in first}
    rows = [(r["step"], r["start_ns"], r["length_ns"]) for r in _table(outcomes(both, {0: "a", 1: "a"}), "steps", "step_times")]
    assert rows == [(n, at * MS + 200 * US, 10 * MS) for n, at in ((1, 0), (2, 10), (3, 60_000), (4, 60_010))]


def _without_gpu(tables: Parsed, rank: int) -> Parsed:
    """The same job, with one rank whose GPU events were not recorded, but whose host operators were."""
    marks = tables["host_spans"].filter((pl.col("rank") == rank) & (pl.col("kind") == "annotation") & pl.col("name").cast(pl.String).str.contains("Step"))
    busy = [host(rank, t, d // 3, "aten::mm") for t, d in marks.select("source_ts_ns", "dur_ns").collect().iter_rows()]
    gone = {name: tables[name].filter(pl.col("rank") != rank) for name in ("gpu_spans", "comm_records")}
    return tables | gone | {"host_spans": pl.concat([tables["host_spans"], parsed(host_spans=busy)["host_spans"]])}


def test_a_rank_without_gpu_events_changes_no_finding_about_the_others() -> None:
    job = Job(slow=lambda rank, step: 1.2 if rank == 4 else 1.0)
    whole = job.build()
    results = outcomes(_without_gpu(whole, 1), job.hosts())
    (expected,), (found,) = findings(outcomes(whole, job.hosts())), findings(results)
    assert (found.kind, found.ranks, found.steps) == ("compute_straggler", [4], expected.steps)
    assert found.lost_s == pytest.approx(expected.lost_s, rel=0.05)
    assert {r["rank"] for r in _table(results, "stragglers", "excess_by_rank")} == {0, 2, 3, 4, 5, 6, 7}
    assert "rank 1" in results["stragglers"].status.reason
    assert "rank 1" in results["exposure"].status.reason
    assert results["exposure"].result is not None
    assert "exposure_by_step" in results["exposure"].result.frames


def test_hosts_that_nothing_links_have_steps_of_their_own() -> None:
    """Two hosts, 30 ms apart, that share no collective: each step takes 9 ms on either, 6 of them compute and 1 transfer."""
    spans: list[Row] = []
    records: list[Row] = []
    marks: list[Row] = []
    for rank in range(4):
        pair, shift = ([0, 1], 0) if rank < 2 else ([2, 3], 30 * MS)
        for n in range(8):
            at = n * 9 * MS + shift
            marks.append(step(rank, n, at, 9 * MS))
            spans += [gpu(rank, at, 6 * MS), gpu(rank, at + 6 * MS, MS, REDUCE, stream=20, correlation=n + 1)]
            records.append(record(rank, at + 6 * MS, MS, "allreduce", pair, correlation=n + 1, in_elements=1000))
    results = outcomes(parsed(gpu_spans=spans, comm_records=records, host_spans=marks), {0: "a", 1: "a", 2: "b", 3: "b"}, 4)
    assert [r["length_ns"] for r in _table(results, "steps", "step_times")] == [9 * MS] * 8
    parts = ("compute_ns", "exposed_transfer_ns", "exposed_wait_ns", "idle_ns")
    assert {tuple(r[p] for p in parts) for r in _table(results, "breakdown", "rank_step_times")} == {(6 * MS, MS, 0, 2 * MS)}
    assert len(_table(results, "breakdown", "rank_step_times")) == 32
    breakdown = results["breakdown"].result
    assert breakdown is not None
    assert breakdown.attribution is not None
    assert breakdown.attribution.per_step_total == pytest.approx(0.009)
    for analysis in ("steps", "breakdown", "stragglers", "exposure"):
        assert results[analysis].status.status == "degraded"
        assert "aligned" in results[analysis].status.reason


def test_a_slow_gpu_is_found_and_shown_on_a_clock_of_its_own() -> None:
    job = Job(slow=lambda rank, step: 1.2 if rank == 4 else 1.0, offsets={1: 40 * 10**9})
    whole = job.build()
    # Nothing is known to span the hosts: each states a group of its own four ranks.
    mine = [[0, 1, 2, 3], [4, 5, 6, 7]]
    lists = pl.Series([mine[r // 4] for r in whole["comm_records"].collect()["rank"]], dtype=pl.List(pl.Int32))
    whole["comm_records"] = whole["comm_records"].collect().with_columns(lists.alias("group_ranks"), pl.lit(4, pl.Int32).alias("group_size")).lazy()
    results = outcomes(whole, job.hosts(), 8)
    (found,) = findings(results)
    assert (found.kind, found.ranks) == ("compute_straggler", [4])
    # On its own host's clock, which is 40 s ahead.
    assert found.start_ns is not None
    assert found.start_ns - 1_700_000_000 * 10**9 == pytest.approx(40 * 10**9, abs=MS)
    assert found.evidence[0].rank == 4
    assert [r["length_ns"] for r in _table(results, "steps", "step_times")] == pytest.approx(job.lengths, abs=2 * MS)


def test_spans_with_cut_times_count_nowhere() -> None:
    tables = _regular({n: 10 * n + 1000 for n in range(4)})
    cut = [{**gpu(0, 0, 5 * MS), "clamped": True}, {**gpu(0, 1_015 * MS, 3 * MS, REDUCE), "clamped": True}]
    spans = pl.concat([tables["gpu_spans"], parsed(gpu_spans=cut)["gpu_spans"]])
    loader = {**host(0, 0, 1_012 * MS, "enumerate(DataLoader)#_Iter.__next__", "annotation"), "clamped": True}
    marks = pl.concat([tables["host_spans"], parsed(host_spans=[loader])["host_spans"]])
    plain = outcomes(tables, {0: "a", 1: "a"})
    found = outcomes(tables | {"gpu_spans": spans, "host_spans": marks}, {0: "a", 1: "a"})
    for analysis, table in (("overlap", "overlap_by_rank"), ("breakdown", "rank_step_times"), ("steps", "step_times")):
        assert _table(found, analysis, table) == _table(plain, analysis, table)
    # Two of eighteen.
    assert "11.1 %" in found["breakdown"].status.reason


def test_lost_gpu_hours_count_the_ranks_that_nobody_saw() -> None:
    job = Job(slow=lambda rank, step: 1.2 if rank == 4 else 1.0)
    tables = AlignedTables(job.build(), job.hosts())
    states = [{"source_id": 0, "role": "analysed", "world_size": 64}, {"source_id": 1, "role": "other-job", "world_size": 512}]
    tables.frames["sources"] = frame(TABLES["sources"], states).lazy()
    (found,) = findings({o.status.id: o for o in run_analyses(ANALYSES, tables, raise_errors=True)})
    assert found.lost_gpu_hours == pytest.approx(found.lost_s * 64 / 3600)


def _starved(steps: int, ranks: int, world: int) -> list[Finding]:
    """Half of each step the GPU waits for a launch that it starts 5 µs after."""
    spans: list[Row] = []
    hosts: list[Row] = []
    for rank in range(ranks):
        for n in range(steps):
            at = n * 10 * MS
            hosts.append(step(rank, n, at, 10 * MS))
            for k in range(10):
                start, c = at + k * MS + 500 * US, n * 10 + k + 1
                spans.append(gpu(rank, start, 500 * US, correlation=c))
                hosts.append(host(rank, start - 9 * US, 4 * US, "cudaLaunchKernel", "runtime", correlation=c))
    groups = [{"source_id": 0, "rank": 0, "part": 0, "group_name": "0", "size": world, "group_ranks": list(range(world))}]
    spans.append(gpu(0, 0, 10 * US, REDUCE, stream=20, correlation=999))
    records = [record(0, 0, 10 * US, "allreduce", list(range(world)), correlation=999, in_elements=10)]
    tables = parsed(gpu_spans=spans, host_spans=hosts, comm_records=records, process_groups=groups)
    return [f for f in findings(outcomes(tables, dict.fromkeys(range(ranks), "a"), world)) if f.kind == "launch_bound"]


@pytest.mark.parametrize(
    ("steps", "ranks", "world", "severity", "confidence"),
    [(5, 2, 2, "critical", "likely"), (2, 2, 2, "minor", "possible"), (5, 1, 8, "minor", "possible"), (5, 1, 1, "critical", "likely")],
)
def test_what_was_compared_with_nothing_is_minor_and_possible(steps: int, ranks: int, world: int, severity: str, confidence: str) -> None:
    (found,) = _starved(steps, ranks, world)
    assert (found.severity, found.confidence) == (severity, confidence)


def test_a_straggler_in_a_single_step_is_minor_and_possible() -> None:
    (found,) = findings(outcomes((job := Job(steps=1, slow=lambda rank, step: 2.0 if rank == 4 else 1.0)).build(), job.hosts()))
    assert (found.ranks, found.severity, found.confidence) == ([4], "minor", "possible")


def test_a_rank_whose_loader_and_host_stall_in_the_same_steps_is_one_finding() -> None:
    job = Job(loader=lambda rank, step: 40 * MS if rank == 3 else 500 * US, pause=lambda rank, step: 15 * MS if rank == 3 else 0)
    (found,) = findings(outcomes(job.build(), job.hosts()))
    healthy = Job()
    healthy.build()
    assert (found.kind, found.ranks, found.steps) == ("input_stall", [3], list(range(1, 11)))
    assert found.lost_s == pytest.approx((sum(job.lengths) - sum(healthy.lengths)) / 1e9, rel=0.1)


def test_resampled_means_lie_around_the_mean_whatever_the_number_of_steps() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, (30_000, 2))
    means = resampled(values, 200, 1)
    assert means.shape == (200, 2)
    assert means.mean(axis=0) == pytest.approx(values.mean(axis=0), abs=0.005)
    # The standard error of a mean of n values is their deviation over the root of n.
    assert means.std(axis=0) == pytest.approx(values.std(axis=0) / 30_000**0.5, rel=0.2)
