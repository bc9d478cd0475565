from __future__ import annotations

import numpy as np
import pytest

from tests.builders.frames import parsed
from tests.builders.pipeline import Pipeline
from tests.builders.run import AlignedTables, findings, outcomes
from tracelab.analyses.excess import pipeline_positions
from tracelab.results import Finding


def _found(job: Pipeline) -> list[Finding]:
    return findings(outcomes(job.build(), job.hosts(), job.world))


def _lost(job: Pipeline, healthy: Pipeline) -> float:
    healthy.build()
    return (sum(job.lengths) - sum(healthy.lengths)) / 1e9


@pytest.mark.parametrize("job", [Pipeline(), Pipeline(seed=1, noise=0.01), Pipeline(seed=2, noise=0.02), Pipeline(stages=2, replicas=2), Pipeline(replicas=1)])
def test_the_bubble_of_a_healthy_pipeline_is_nobodys_fault(job: Pipeline) -> None:
    assert _found(job) == []


@pytest.mark.parametrize(("rank", "factor", "since"), [(5, 1.25, 0), (0, 1.25, 3), (15, 1.15, 0)])
def test_a_slow_gpu_is_told_from_a_slow_stage(rank: int, factor: float, since: int) -> None:
    job = Pipeline(slow=lambda r, k: factor if r == rank and k >= since else 1.0)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.hosts) == ("compute_straggler", [rank], [f"node{rank // 4}"])
    assert f.lost_s == pytest.approx(_lost(job, Pipeline()), rel=0.15)


@pytest.mark.parametrize(("stage", "factor"), [(0, 1.1), (1, 1.3), (3, 1.2)])
def test_a_stage_with_more_work(stage: int, factor: float) -> None:
    job = Pipeline(slow=lambda r, k: factor if r // 4 == stage else 1.0)
    (f,) = _found(job)
    assert (f.kind, f.ranks) == ("pipeline_imbalance", [4 * stage, 4 * stage + 1, 4 * stage + 2, 4 * stage + 3])
    assert f.lost_s == pytest.approx(_lost(job, Pipeline()), rel=0.35)
    # The stage is a host of its own and runs the same kernels: its GPUs may as well be slower.
    assert f.confidence == "possible"
    assert "slower GPUs" in f.summary
    assert "clocks" in f.next_step
    assert "move layers" in f.next_step


def test_more_kernels_are_more_work() -> None:
    job = Pipeline(slow=lambda r, k: 1.3 if r // 4 == 1 else 1.0)
    job.build()
    for row in [r for r in job.rows["gpu_spans"] if r["rank"] // 4 == 1 and r["name"].startswith("gemm")]:
        layer = int(row["dur_ns"] * 0.3 / 1.3)
        row["dur_ns"] -= layer
        job.rows["gpu_spans"].append({**row, "ts_ns": row["ts_ns"] + row["dur_ns"], "source_ts_ns": row["ts_ns"] + row["dur_ns"], "dur_ns": layer})
    (f,) = findings(outcomes(parsed(**job.rows), job.hosts(), job.world))
    assert (f.kind, f.ranks, f.confidence) == ("pipeline_imbalance", [4, 5, 6, 7], "likely")


def test_one_slow_gpu_of_two_is_no_slow_stage() -> None:
    job = Pipeline(replicas=2, slow=lambda r, k: 1.3 if r == 5 else 1.0)
    (f,) = _found(job)
    assert (f.kind, f.ranks) == ("compute_straggler", [5])
    assert f.lost_s == pytest.approx(_lost(job, Pipeline(replicas=2)), rel=0.15)


def test_a_slow_gpu_before_a_slow_stage_saves_only_what_it_is_slower() -> None:
    def slow(rank: int, factor: float) -> float:
        return 1.2 if rank // 4 == 2 else factor if rank == 1 else 1.0

    job = Pipeline(slow=lambda r, k: slow(r, 1.5))
    f = next(f for f in _found(job) if f.kind == "compute_straggler")
    assert f.ranks == [1]
    assert f.lost_s == pytest.approx(_lost(job, Pipeline(slow=lambda r, k: slow(r, 1.0))), rel=0.2)


@pytest.mark.parametrize("since", [3, 5])
def test_work_does_not_begin_in_the_middle_of_a_run(since: int) -> None:
    job = Pipeline(replicas=1, steps=8, slow=lambda r, k: 1.3 if r == 2 and k >= since else 1.0)
    (f,) = findings(outcomes(job.build(), dict.fromkeys(range(4), "node0"), job.world))
    assert (f.kind, f.ranks, f.steps) == ("compute_straggler", [2], list(range(since + 1, 9)))
    assert f.lost_s == pytest.approx(_lost(job, Pipeline(replicas=1, steps=8)), rel=0.15)


def test_a_stage_that_slows_down_is_its_host() -> None:
    job = Pipeline(steps=10, slow=lambda r, k: 1 + 0.08 * k if r // 4 == 1 and k > 1 else 1.0)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.hosts) == ("compute_straggler", [4, 5, 6, 7], ["node1"])


def test_a_stage_of_one_rank_leaves_the_reason_open() -> None:
    (f,) = _found(Pipeline(replicas=1, slow=lambda r, k: 1.2 if r == 2 else 1.0))
    assert (f.kind, f.ranks, f.confidence) == ("pipeline_imbalance", [2], "possible")


def test_stages_follow_from_who_sends_to_whom() -> None:
    job = Pipeline(steps=2)
    stages, micro = pipeline_positions(AlignedTables(job.build(), job.hosts()), range(16))
    assert np.array_equal(stages, np.repeat(np.arange(4), 4))
    assert micro == job.micro


def test_every_send_is_matched() -> None:
    job = Pipeline(steps=2)
    matches = AlignedTables(job.build(), job.hosts()).aligned.derived["matches"]
    kinds = dict(matches.group_by("operation").len().rows())
    # Per step: 3 boundaries, two directions, 8 micro-batches, 4 replicas; 4 all-reduces of stages and one of all.
    assert kinds == {"send_recv": 2 * 3 * 2 * 8 * 4, "all_reduce": 2 * 5}
    assert set(matches["present"] == matches["members"]) == {True}
