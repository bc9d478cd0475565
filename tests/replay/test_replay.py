"""A job run again: what the replay says beside the same job simulated with other transfers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders.slow_network import MS, US, Sim
from tracelab.replay.engine import replay
from tracelab.replay.job import Job
from tracelab.replay.work import NO_BOUND, RankWork, contract


def job_of(sim: Sim) -> Job:
    nodes = {}
    for r, rows in sim.rows.items():
        columns = np.array(sorted(rows), dtype=np.int64).T
        waits = np.array(sim.waits[r], dtype=np.int64).reshape(-1, 2).T
        nodes[r] = contract(RankWork(*columns, *waits))
    return Job(nodes, 1_000_000_000, np.array(sim.steps, dtype=np.int64))


@pytest.mark.parametrize("seed", range(8))
def test_nothing_changed_gives_the_same_ends(seed: int) -> None:
    job = job_of(Sim(4, seed, 3.0).run(4, 4))
    new = replay(job.nodes, {}).end
    for rank, nodes in job.nodes.items():
        assert np.abs(new[rank] - nodes.end).max() <= 10 * US


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("scale", [1.5, 3.0, 6.0])
def test_transfers_of_another_speed_give_the_job_that_has_them(seed: int, scale: float) -> None:
    slow, fast = Sim(4, seed, scale).run(6, 4), Sim(4, seed, 1.0).run(6, 4)
    saved = job_of(slow).saving(slow.transfers(1 / scale)).sum()
    truth = (slow.steps[-1] - slow.steps[0]) - (fast.steps[-1] - fast.steps[0]) + (slow.steps[0] - fast.steps[0])
    assert truth > 0
    assert abs(saved - truth) <= 0.03 * truth + 100 * US


def test_hidden_transfers_save_nothing() -> None:
    """Transfers half as long as the compute beside them: making them shorter still saves only those at the beginning of each step."""
    sim = Sim(2, 3, 0.2).run(4, 4)
    saved = job_of(sim).saving(sim.transfers(0.5)).sum()
    other = Sim(2, 3, 0.1).run(4, 4)
    assert abs(saved - (sim.steps[-1] - other.steps[-1])) <= 0.1 * saved + 200 * US


def _work(rows: np.ndarray) -> RankWork:
    """Columns: start, end, stream, launch, match, kind; the host never waits."""
    start, end, stream, launch, match, kind = (rows[:, column] for column in range(6))
    none = np.empty(0, dtype=np.int64)
    return RankWork(start, end, stream, launch, match, kind, sync_start=none, sync_end=none)


def test_two_kernels_and_a_transfer_by_hand() -> None:
    """Rank 0 computes 0-10, rank 1 0-14, both send until 34, then compute until 44: with 8 instead of 20 the end is at 32."""

    def rank(first: int) -> RankWork:
        rows = np.array([(0, first, 7, -1, -1, 0), (first, 34, 20, -1, 5, 1), (34, 44, 7, -1, -1, 0)], dtype=np.int64) * MS
        rows[:, 2:] //= MS
        rows[:, 3] = -1
        return _work(rows)

    nodes = {0: contract(rank(10)), 1: contract(rank(14))}
    assert [list(n.waits_for) for n in nodes.values()] == [[-1, 0, 1], [-1, 0, 1]]
    assert all((n.launch == NO_BOUND).all() for n in nodes.values())
    new = replay(nodes, {5: 8 * MS}).end
    assert {r: list(e // MS) for r, e in new.items()} == {0: [10, 22, 32], 1: [14, 22, 32]}


def test_work_that_follows_at_once_is_one_node() -> None:
    rows = np.array([(0, 5, 7, -1, -1, 0), (5, 9, 7, -1, -1, 0), (9, 12, 7, -1, -1, 0)], dtype=np.int64)
    rows[:, :2] *= MS
    nodes = contract(_work(rows))
    assert (list(nodes.start), list(nodes.end)) == ([0], [12 * MS])


def test_a_faster_job_waits_for_its_launches() -> None:
    """The second kernel was launched at 30 ms: however short the transfer before it, it cannot start earlier."""
    rows = np.array([(0, 10, 7, 0, -1, 0), (10, 50, 20, 1, 5, 1), (50, 60, 7, 30, -1, 0)], dtype=np.int64)
    rows[:, (0, 1, 3)] *= MS
    nodes = {0: contract(_work(rows))}
    assert list(replay(nodes, {5: 5 * MS}).end[0] // MS) == [10, 15, 40]
