"""Findings on jobs that are computed event by event, where the loss is known from the same job without its fault."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders.ddp import MS, US, Job
from tests.builders.frames import parsed
from tests.builders.run import AlignedTables, findings, outcomes
from tracelab.analyses.episodes import episode, level_of
from tracelab.analyses.excess import excess_of
from tracelab.analyses.uneven import coherent
from tracelab.results import Finding


def _found(job: Job) -> list[Finding]:
    return findings(outcomes(job.build(), job.hosts()))


def _lost(job: Job, healthy: Job) -> float:
    """Seconds that the fault cost: the same job, the same noise, without it."""
    healthy.build()
    return (sum(job.lengths) - sum(healthy.lengths)) / 1e9


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.02])
@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_job_names_nobody(seed: int, noise: float) -> None:
    assert _found(Job(seed=seed, noise=noise)) == []


@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_a_healthy_job_of_any_size_names_nobody(ranks: int) -> None:
    assert _found(Job(ranks=ranks, steps=6, noise=0.01)) == []


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_healthy_job_of_few_steps_names_nobody(steps: int) -> None:
    assert _found(Job(steps=steps, noise=0.01)) == []


def test_stalls_that_wander_over_ranks_name_nobody() -> None:
    assert _found(Job(steps=20, pause=lambda rank, step: 10 * MS if (rank * 7 + step * 13) % 11 == 0 else 0)) == []


@pytest.mark.parametrize(("factor", "since"), [(1.05, 0), (1.2, 0), (1.2, 6), (2.0, 3)])
def test_a_slow_gpu(factor: float, since: int) -> None:
    job = Job(slow=lambda rank, step: factor if rank == 4 and step >= since else 1.0)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.hosts) == ("compute_straggler", [4], ["node1"])
    assert f.steps == list(range(since + 1, 11))
    lost = _lost(job, Job())
    assert f.lost_s == pytest.approx(lost, rel=0.15)
    assert f.lost_s_low <= f.lost_s <= f.lost_s_high
    assert f.lost_gpu_hours == pytest.approx(f.lost_s * 8 / 3600)
    assert f.confidence == "likely"
    assert f.evidence[0].rank == 4
    assert "gemm" in f.evidence[0].text


def test_clocks_that_are_seconds_apart_change_nothing() -> None:
    def slow(rank: int, step: int) -> float:
        return 1.2 if rank == 4 else 1.0

    here, apart = _found(Job(slow=slow)), _found(Job(slow=slow, offsets={1: 3 * 10**9}))
    assert [(f.kind, f.ranks) for f in here] == [(f.kind, f.ranks) for f in apart]
    assert here[0].lost_s == pytest.approx(apart[0].lost_s, rel=0.01)


def test_a_slow_host_is_named_as_a_host() -> None:
    job = Job(slow=lambda rank, step: 1 + 0.05 * step if rank >= 4 and step > 3 else 1.0)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.hosts) == ("compute_straggler", [4, 5, 6, 7], ["node1"])
    assert f.lost_s == pytest.approx(_lost(job, Job()), rel=0.1)


def test_two_equally_slow_gpus_do_not_hide_each_other() -> None:
    job = Job(slow=lambda rank, step: 1.2 if rank in (2, 5) else 1.0)
    (f,) = _found(job)
    assert (f.kind, f.ranks) == ("compute_straggler", [2, 5])
    assert f.lost_s == pytest.approx(_lost(job, Job()), rel=0.1)


def test_two_nearly_equally_slow_gpus_are_one_loss() -> None:
    job = Job(slow=lambda rank, step: {2: 1.32, 5: 1.29}.get(rank, 1.0))
    (f,) = _found(job)
    assert (f.kind, f.ranks) == ("compute_straggler", [2, 5])
    # Mended alone the first one would save a tenth of this.
    assert f.lost_s == pytest.approx(_lost(job, Job()), rel=0.1)


def test_a_slower_one_hides_a_slow_one() -> None:
    job = Job(slow=lambda rank, step: {2: 1.3, 5: 1.15}.get(rank, 1.0))
    (f,) = _found(job)
    assert f.ranks == [2]
    assert "once that is mended they will wait for rank 5" in f.summary
    # Mended alone it saves only what it is slower than the other.
    assert f.lost_s == pytest.approx(_lost(job, Job(slow=lambda rank, step: 1.15 if rank == 5 else 1.0)), rel=0.1)


def test_the_loader_of_one_rank() -> None:
    job = Job(loader=lambda rank, step: 30 * MS if rank == 3 and step % 3 == 0 else 500 * US)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.steps) == ("input_stall", [3], [1, 4, 7, 10])
    # The first step of a capture begins when its last rank is there: its own stall counts in full.
    assert f.lost_s == pytest.approx(_lost(job, Job()), rel=0.1)
    assert "loader" in f.evidence[0].text


def test_two_causes_are_two_findings() -> None:
    found = _found(Job(slow=lambda rank, step: 1.2 if rank == 4 else 1.0, loader=lambda rank, step: 60 * MS if rank == 3 and step > 5 else 500 * US))
    assert [(f.kind, f.ranks) for f in found] == [("input_stall", [3]), ("compute_straggler", [4])]


def test_a_host_that_pauses() -> None:
    job = Job(pause=lambda rank, step: 20 * MS if rank == 6 and step in (4, 5, 7) else 0)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.steps) == ("host_stall", [6], [5, 6, 8])
    assert f.lost_s == pytest.approx(_lost(job, Job()), rel=0.05)
    assert "stood still for 20" in f.evidence[0].text


def test_one_long_pause_is_found_but_not_sure() -> None:
    (f,) = _found(Job(pause=lambda rank, step: 80 * MS if rank == 6 and step == 4 else 0))
    assert (f.kind, f.ranks, f.steps, f.confidence) == ("host_stall", [6], [5], "possible")


def test_copies_in_the_way() -> None:
    job = Job(copy=lambda rank, step: 12 * MS if rank == 1 else 300 * US)
    (f,) = _found(job)
    assert (f.kind, f.ranks) == ("memory_copy", [1])
    assert f.lost_s == pytest.approx(_lost(job, Job()), rel=0.1)


def test_uneven_work_moves_and_names_no_rank() -> None:
    factors = np.exp(np.random.default_rng(5).normal(0, 0.08, (8, 30)))
    job = Job(steps=30, slow=lambda rank, step: float(factors[rank, step]))
    (f,) = _found(job)
    assert (f.kind, f.ranks) == ("load_imbalance", [])
    assert f.lost_s == pytest.approx(_lost(job, Job(steps=30)), rel=0.25)


def test_one_rank_of_each_step_has_more_work() -> None:
    most = np.random.default_rng(6).integers(0, 8, 20)
    job = Job(steps=20, slow=lambda rank, step: 1.25 if rank == most[step] else 1.0)
    (f,) = _found(job)
    assert (f.kind, f.ranks) == ("load_imbalance", [])
    assert f.lost_s == pytest.approx(_lost(job, Job(steps=20)), rel=0.1)


def test_stalls_that_wander_over_the_ranks_of_one_host_are_the_hosts() -> None:
    job = Job(steps=40, ranks=16, pause=lambda rank, step: 15 * MS if step % 3 == 0 and rank == 4 + step % 4 else 0)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.hosts) == ("host_stall", [4, 5, 6, 7], ["node1"])
    assert f.steps == list(range(1, 41, 3))
    assert f.lost_s == pytest.approx(_lost(job, Job(steps=40, ranks=16)), rel=0.1)


def test_interrupted_kernels_are_no_slow_gpu() -> None:
    job = Job(steps=12, hiccup=lambda rank, step: 12 * MS if rank >= 4 else 0)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.hosts) == ("periodic_jitter", [4, 5, 6, 7], ["node1"])
    assert f.lost_s == pytest.approx(_lost(job, Job(steps=12)), rel=0.1)


def test_the_same_input_gives_the_same_findings() -> None:
    def once() -> list[Finding]:
        return _found(Job(slow=lambda rank, step: 1.2 if rank == 4 else 1.0))

    assert once() == once()


def test_a_stall_that_comes_once_counts_from_one_percent() -> None:
    job = Job(steps=20, loader=lambda rank, step: 40 * MS if (rank, step) == (3, 12) else 500 * US)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.steps, f.confidence, f.severity) == ("input_stall", [3], [13], "possible", "minor")
    assert f.lost_s == pytest.approx(_lost(job, Job(steps=20)), rel=0.1)
    assert _found(Job(steps=20, pause=lambda rank, step: 40 * MS if (rank, step) == (3, 12) else 0))[0].steps == [13]


def test_one_kernel_that_takes_longer_for_once_is_usual() -> None:
    assert _found(Job(steps=20, hiccup=lambda rank, step: 30 * MS if (rank, step) == (3, 12) else 0)) == []


def test_a_gpu_that_turns_slow_at_the_end() -> None:
    def late_kernel(rank: int, step: int) -> int:  # on other ranks, and once on the same one, a kernel takes 3 ms longer
        return 3 * MS if (rank, step) in {(0, 1), (5, 2), (3, 2), (6, 4), (7, 5), (1, 6)} else 0

    job = Job(slow=lambda rank, step: 1.3 if rank == 3 and step >= 8 else 1.0, hiccup=late_kernel)
    (f,) = _found(job)
    assert (f.kind, f.ranks, f.steps) == ("compute_straggler", [3], [9, 10])
    assert f.lost_s == pytest.approx(_lost(job, Job(hiccup=late_kernel)), rel=0.1)


def test_one_rank_that_is_slow_for_a_while_makes_no_uneven_work() -> None:
    job = Job(slow=lambda rank, step: 1.3 if rank == 3 and step >= 8 else 1.0)
    tables = AlignedTables(job.build(), job.hosts())
    x = excess_of(tables)
    assert x is not None
    assert not coherent(tables, x, np.arange(8))


def test_uneven_work_behind_a_slow_gpu_costs_nothing() -> None:
    factors = np.exp(np.random.default_rng(5).normal(0, 0.08, (8, 20)))
    job = Job(steps=20, slow=lambda rank, step: 1.5 if rank == 4 else min(float(factors[rank, step]), 1.3))
    assert [(f.kind, f.ranks) for f in _found(job)] == [("compute_straggler", [4])]


def test_more_kernels_are_no_slower_kernels() -> None:
    job = Job(hiccup=lambda rank, step: 30 * MS if rank == 6 and step in (4, 5, 7) else 0)
    job.build()
    for row in [r for r in job.rows["gpu_spans"] if r["rank"] == 6 and r["name"] == "gemm_10" and r["dur_ns"] > 20 * MS]:
        row["dur_ns"] -= 30 * MS
        after = row["ts_ns"] + row["dur_ns"]
        job.rows["gpu_spans"].append({**row, "name": "gemm_0", "ts_ns": after, "source_ts_ns": after, "dur_ns": 30 * MS})
    (f,) = findings(outcomes(parsed(**job.rows), job.hosts()))
    assert (f.kind, f.ranks, f.steps) == ("host_stall", [6], [5, 6, 8])
    assert "no kernel is slower" in f.summary


def test_the_stretch_of_a_fault_ends_at_its_change_points() -> None:
    over = np.array([0, 4, 0, 0, 0, 0, 10, 11, 0, 12, 10, 0, 3, 0], dtype=float)
    # 43 of 50 lie between the steps 6 and 10; the small ones outside are something else.
    assert np.flatnonzero(episode(over, over > 0)).tolist() == [6, 7, 9, 10]
    # What comes and goes has no stretch: all of its steps are its.
    again = np.array([10, 0, 0, 11, 0, 0, 9, 0, 0, 10], dtype=float)
    assert np.flatnonzero(episode(again, again > 0)).tolist() == [0, 3, 6, 9]
    # Half of 4 + 10 + 11 + 12 + 10 + 3 = 50 is in steps of at least 10 + ... : 12 + 11 = 23 are not enough, 12 + 11 + 10 are.
    assert level_of(over) == 10
    assert level_of(np.zeros(3)) == 0
