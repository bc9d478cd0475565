"""The tables of the analyses on a job of two ranks and two steps, worked out by hand (times in µs)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders.frames import Parsed, gpu, host, parsed, record, step
from tests.builders.run import findings, outcomes
from tracelab.analysis import Outcome

US = 1_000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def _span(rank: int, start: int, end: int, name: str = "gemm", kind: str = "kernel", **more: Any) -> Any:
    return gpu(rank, start * US, (end - start) * US, name, kind, **more)


def _job() -> Parsed:
    """Step 1: both ranks from 0 to 100. Step 2: from 100 to 200, rank 1 computes 30 µs longer.

    rank 0, step 1: copy 0-10, compute 10-50, all-reduce 40-70 (rank 1 comes at 60), idle 70-100
    rank 1, step 1: copy 0-10, compute 5-60, all-reduce 60-70, memset 70-75, idle
    rank 0, step 2: compute 100-130, all-reduce 130-180; idle
    rank 1, step 2: loader 100-110, compute 110-160, all-reduce 160-180, compute 180-200
    """
    spans = [
        _span(0, 0, 10, "Memcpy HtoD", "memcpy"),
        _span(0, 10, 50),
        _span(0, 40, 70, REDUCE, stream=20, correlation=1),
        _span(1, 0, 10, "Memcpy HtoD", "memcpy"),
        _span(1, 5, 60),
        _span(1, 60, 70, REDUCE, stream=20, correlation=1),
        _span(1, 70, 75, "Memset (Device)", "memset"),
        _span(0, 100, 130),
        _span(0, 130, 180, REDUCE, stream=20, correlation=2),
        _span(1, 110, 160),
        _span(1, 160, 180, REDUCE, stream=20, correlation=2),
        _span(1, 180, 200),
        _span(1, 0, 200, "nccl:all_reduce", "annotation"),
    ]
    records = [
        record(r, a * US, (b - a) * US, "allreduce", [0, 1], correlation=c, in_elements=n, group_desc="dp")
        for r, a, b, c, n in ((0, 40, 70, 1, 1000), (1, 60, 70, 1, 1000), (0, 130, 180, 2, 500), (1, 160, 180, 2, 500))
    ]
    marks = [step(r, n, (n - 1) * 100 * US, 100 * US) for r in (0, 1) for n in (1, 2)]
    loader = host(1, 100 * US, 10 * US, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation")
    return parsed(gpu_spans=spans, comm_records=records, host_spans=[*marks, loader])


@pytest.fixture(scope="module")
def results() -> dict[str, Outcome]:
    return outcomes(_job(), {0: "a", 1: "a"})


def _rows(results: dict[str, Outcome], analysis: str, table: str) -> list[dict[str, Any]]:
    result = results[analysis].result
    assert result is not None
    return result.frames[table].to_dicts()


def test_step_times(results: dict[str, Outcome]) -> None:
    assert _rows(results, "steps", "step_times") == [
        {"step": 1, "start_ns": 0, "length_ns": 100 * US, "slowest_rank": 0, "spread_ns": 0},
        {"step": 2, "start_ns": 100 * US, "length_ns": 100 * US, "slowest_rank": 0, "spread_ns": 0},
    ]


def test_every_moment_is_counted_once(results: dict[str, Outcome]) -> None:
    rows = {
        (r["rank"], r["step"]): [r[f"{k}_ns"] // US for k in ("compute", "memcpy", "exposed_transfer", "exposed_wait", "idle", "dataloader")]
        for r in _rows(results, "breakdown", "rank_step_times")
    }
    # All-reduce 1: rank 0 waits 40-60, of which compute hides 40-50; transfer 60-70.
    assert rows[0, 1] == [40, 10, 10, 10, 30, 0]
    assert rows[1, 1] == [55, 10, 10, 0, 25, 0]
    assert rows[0, 2] == [30, 0, 20, 30, 20, 0]
    assert rows[1, 2] == [70, 0, 20, 0, 10, 10]
    assert all(sum(r[:5]) == 100 for r in rows.values())


def test_totals_per_rank_and_their_attribution(results: dict[str, Outcome]) -> None:
    totals = {r["rank"]: r for r in _rows(results, "breakdown", "rank_times")}
    assert (totals[0]["wall_ns"], totals[0]["steps"], totals[0]["host"], totals[0]["compute_ns"], totals[0]["exposed_wait_ns"]) == (
        200 * US,
        2,
        "a",
        70 * US,
        40 * US,
    )
    result = results["breakdown"].result
    assert result is not None
    a = result.attribution
    assert a is not None
    assert a.per_step_total == pytest.approx(100e-6)
    means = {"compute": (40 + 55 + 30 + 70) / 4, "memcpy": 5, "exposed_transfer": 15, "exposed_wait": 10, "idle": (30 + 25 + 20 + 10) / 4}
    assert {c.kind: c.seconds for c in a.causes} == pytest.approx({k: v * 1e-6 for k, v in means.items()})
    assert sum(c.seconds for c in a.causes) + a.unattributed == pytest.approx(a.per_step_total, rel=1e-12)
    assert all(c.low <= c.seconds <= c.high for c in a.causes)
    assert a.per_rank["1"].compute_s == pytest.approx(125e-6)


def test_overlap(results: dict[str, Outcome]) -> None:
    ranks = {
        r["rank"]: [r[f"{k}_ns"] // US for k in ("kernel_time", "busy", "idle", "compute", "communication", "hidden", "exposed")]
        for r in _rows(results, "overlap", "overlap_by_rank")
    }
    assert ranks == {0: [180, 150, 30, 70, 80, 10, 70], 1: [200, 165, 35, 125, 30, 0, 30]}
    group = _rows(results, "overlap", "overlap_by_group")
    assert [(g["group"], g["operation"], g["count"], g["communication_ns"], g["hidden_ns"]) for g in group] == [("dp", "all_reduce", 4, 110 * US, 10 * US)]
    assert group[0]["overlap_ratio"] == pytest.approx(10 / 110)


def test_collectives(results: dict[str, Outcome]) -> None:
    small, large = sorted(_rows(results, "collectives", "collective_classes"), key=lambda c: c["bytes"])
    assert (small["bytes"], small["count"], small["transfer_total_ns"], small["wait_total_ns"]) == (2000, 1, 20 * US, 30 * US)
    assert (large["bytes"], large["count"], large["transfer_total_ns"], large["wait_total_ns"]) == (4000, 1, 10 * US, 20 * US)
    # Two ranks: the bus factor of all_reduce is 1.
    assert large["busbw_median_bytes_per_s"] == pytest.approx(4000 / 10e-6)
    assert [(c["step"], c["last_rank"], c["last_by_ns"]) for c in _rows(results, "collectives", "costliest")] == [(2, 1, 30 * US), (1, 1, 20 * US)]


def test_waits(results: dict[str, Outcome]) -> None:
    by_rank = {
        r["rank"]: (r["operations"], r["last_count"], r["last_certain_count"], r["last_share"], r["wait_ns"], r["late_ns"])
        for r in _rows(results, "waits", "arrivals_by_rank")
    }
    assert by_rank == {0: (2, 0, 0, 0.0, 50 * US, 0), 1: (2, 2, 2, 1.0, 0, 50 * US)}
    assert [(r["rank"], r["step"], r["wait_ns"]) for r in _rows(results, "waits", "rank_step_waits")] == [
        (0, 1, 20 * US),
        (0, 2, 30 * US),
        (1, 1, 0),
        (1, 2, 0),
    ]


def test_all_ran(results: dict[str, Outcome]) -> None:
    unread = ("configuration", "network", "links", "loss", "pause", "link_health", "bursts", "classes", "accounting")  # no log, no counter
    without_logs = dict.fromkeys(unread, "not_applicable")
    # No file states a ring, so that the traffic rests on the order of ranks.
    assert {k: o.status.status for k, o in results.items()} == dict.fromkeys(results, "ok") | without_logs | {"traffic": "degraded"}
    assert list(results)[:7] == ["steps", "breakdown", "overlap", "collectives", "waits", "stragglers", "exposure"]


def test_answers_have_the_numbers(results: dict[str, Outcome]) -> None:
    answers = {k: o.result.answer for k, o in results.items() if o.result}
    assert "100 µs" in answers["steps"]
    assert "48.8 % compute" in answers["breakdown"]
    assert "rank 1" in answers["waits"].lower()


def test_what_is_not_there_is_not_applicable_and_nothing_breaks() -> None:
    for tables in (
        parsed(),
        parsed(gpu_spans=[gpu(0, 0, 5)]),
        parsed(host_spans=[host(0, 0, 5)]),
        parsed(gpu_spans=[gpu(-1, 0, 5, REDUCE), gpu(-2, 3, 5, REDUCE)]),
    ):
        found = outcomes(tables, {0: "a", -1: "b", -2: "b"})
        assert {o.status.status for o in found.values()} <= {"ok", "not_applicable", "degraded"}
        assert findings(found) == []


def test_unmatched_communication_counts_as_transfer_and_says_so() -> None:
    found = outcomes(parsed(gpu_spans=[gpu(0, 0, 50 * US), gpu(0, 50 * US, 50 * US, REDUCE)]), {0: "a"})
    assert found["breakdown"].status.status == "degraded"
    assert "could not be matched" in found["breakdown"].status.reason
    times = _rows(found, "breakdown", "rank_times")[0]
    assert (times["exposed_transfer_ns"], times["exposed_wait_ns"]) == (50 * US, 0)


def test_a_cpu_job_counts_host_operators_as_compute() -> None:
    spans = [
        x
        for r, late in ((0, 0), (1, 40))
        for x in (
            host(r, 0, (50 + late) * US, "aten::mm"),
            host(r, 10 * US, 5 * US, "aten::add"),
            host(r, (50 + late) * US, 2 * US, "c10d::allreduce_"),
            host(r, (50 + late) * US, (60 - late) * US, "gloo:all_reduce", "annotation", tid=9),
        )
    ]
    found = outcomes(parsed(host_spans=spans), {0: "a", 1: "a"})
    rows = {r["rank"]: [r[f"{k}_ns"] // US for k in ("compute", "exposed_transfer", "exposed_wait", "idle")] for r in _rows(found, "breakdown", "rank_times")}
    assert rows == {0: [50, 20, 40, 0], 1: [90, 20, 0, 0]}


def test_polars_frames_follow_their_definitions(results: dict[str, Outcome]) -> None:
    for outcome in results.values():
        if outcome.status.status == "not_applicable":
            continue
        assert outcome.result is not None
        for spec in outcome.analysis.outputs:
            if spec.name == "traffic_nics":  # no log names a network device
                assert spec.name not in outcome.result.frames
                continue
            frame = outcome.result.frames[spec.name]
            assert isinstance(frame, pl.DataFrame)
            assert frame.columns == list(spec.names)
