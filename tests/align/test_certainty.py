"""How sure clocks are, on jobs whose clocks are known: what is stated must hold, and be no larger than it has to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from benchmarks.alignment_data import Scenario, make
from benchmarks.alignment_scores import aligned, clock_scores, last_arrivers, matching_scores, step_scores
from tracelab.align.certainty import disagreement
from tracelab.align.observations import Parts, thinned

US = 1e3
JOB = Scenario("sixteen hosts", hosts=16, per_host=4, slots=240)


@pytest.mark.parametrize(
    ("scenario", "median", "worst"),
    [(JOB, 0.5, 3.0), (replace(JOB, jitter_us=50.0), 4.0, 20.0), (replace(JOB, bias_us=20.0), 12.0, 35.0)],
    ids=["quiet", "scattered ends", "ranks that always end late"],
)
def test_stated_uncertainty_covers_and_the_last_arrival_is_right(scenario: Scenario, median: float, worst: float) -> None:
    """Ranks that always end σ 20 µs late or early move the mean of four by 10 µs: no estimate sees that, but four ranks that differ tell it."""
    job = make(scenario)
    found = aligned(job)
    score = clock_scores(job, found)
    assert max(score.raw) > 5_000
    assert float(np.median(score.errors)) < median
    assert max(score.errors) < worst
    assert all(score.covered)
    assert max(score.stated) < 2.5 * worst
    clear, right, raw = last_arrivers(job, found)
    assert clear > 1_000
    assert right >= 0.99 * clear
    assert raw < 0.5
    assert step_scores(job, found) == (0, 0, 0, 0)


def test_steps_are_found_in_a_whole_job_and_none_is_invented() -> None:
    job = make(replace(JOB, slots=400, steps=((), (40.0,), (), (-3_000.0, 500.0))))
    found = aligned(job)
    assert step_scores(job, found) == (3, 3, 3, 0)
    assert all(clock_scores(job, found).covered)


def test_a_step_below_the_stated_uncertainty_is_corrected_and_not_claimed() -> None:
    """20 µs, where ranks that always end late make every clock uncertain by more than that."""
    job = make(replace(JOB, slots=600, bias_us=40.0, steps=((), (), (20.0,))))
    found = aligned(job)
    there, seen, claimed, invented = step_scores(job, found)
    assert (there, seen, claimed, invented) == (1, 1, 0, 0)
    assert min(found.clocks["uncertainty_ns"].to_list()) > 20_000


@pytest.mark.parametrize("keys", [True, False])
def test_lost_operations_and_cut_windows_cost_no_match(keys: bool) -> None:
    job = make(Scenario("lossy", hosts=8, per_host=2, slots=240, dropped=0.01, cut_us=200_000.0, keys=keys))
    score = matching_scores(job, aligned(job))
    assert score.possible > 3_000
    assert score.right == score.matched
    assert score.right >= 0.999 * score.possible


def test_a_regular_pattern_does_not_starve_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fifth operation is of another group; every fifth is about what may be taken."""
    operations = pl.DataFrame({"match_id": range(1000), "group_id": [0 if k % 5 else 1 for k in range(1000)], "end_ns": range(1000), "parts": 4, "first": 0})
    monkeypatch.setattr("tracelab.align.observations.MOST_MATCHES", 200)
    chosen = thinned(operations, 4).to_list()
    in_other = [k for k in chosen if k % 5 == 0]
    assert 190 <= len(chosen) <= 200
    assert 60 <= len(in_other) <= 140
    # Over all of the run, and not in step with any pattern.
    assert [sum(first <= k < first + 250 for k in chosen) for first in (0, 250, 500, 750)] == pytest.approx([50] * 4, abs=5)
    assert len({k % 4 for k in chosen}) == 4


def _parts(start: np.ndarray, end: np.ndarray) -> Parts:
    count, hosts = start.shape
    row, host = np.divmod(np.arange(count * hosts), hosts)
    return Parts([f"h{n}" for n in range(hosts)], [0] * hosts, row, host, host, start.ravel(), end.ravel(), np.zeros(count, dtype=np.int64))


def test_durations_contradict_clocks_only_if_they_do() -> None:
    """Host 1 enters 100 µs after host 0 and both leave together; clocks that are 300 µs wrong, though ends say otherwise, turn that around."""
    entered = np.arange(50)[:, None] * 1e6 + np.array([0.0, 100 * US])
    parts = _parts(entered, np.arange(50)[:, None] * 1e6 + np.array([500 * US, 500 * US]))
    unsure = np.full(2, 5 * US)
    assert disagreement(parts, np.zeros(100), np.zeros(100), unsure) == (0.0, 0)
    wrong = np.array([0.0, 300 * US])[parts.host]
    assert disagreement(parts, wrong, np.zeros(100), unsure) == (100 * US, 100)
    # So far apart may durations be where ends scatter as much.
    assert disagreement(parts, wrong, np.tile([-60 * US, 60 * US], 50), unsure) == (0.0, 0)
