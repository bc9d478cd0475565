"""The least-squares solution against one that keeps every unknown, and against clocks that are known."""

from __future__ import annotations

import numpy as np
import pytest

from tracelab.align.solve import Step, beside_steps, own_moment, solve
from tracelab.align.wander import wandering

US, S = 1e3, 1e9


def _moments(count: int, length_s: float, seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).uniform(0, length_s * S, count))


def test_eliminating_the_moments_gives_what_solving_for_them_gives() -> None:
    """Groups {0, 1}, {1, 2} and {0, 1, 2} in turn, ends 1 to 900 ns off, so little that all weights of the last round are nearly equal."""
    random = np.random.default_rng(5)
    exists = np.array([[True, True, False], [False, True, True], [True, True, True]] * 4)
    y = np.where(exists, 1e5 * np.arange(1, 13)[:, None] + np.array([0.0, 7e3, -2e3]) + random.integers(1, 900, exists.shape), 0.0)
    fit = solve(y, exists)  # within 1.2 ms there is no drift to see
    assert fit.theta.shape == (1, 3)
    # All unknowns at once, with the weights of the solution: 12 moments and 3 offsets, their mean held at 0.
    rows, right, weights = [], [], []
    for k, h in zip(*np.nonzero(exists), strict=True):
        row = np.zeros(15)
        row[k], row[12 + h] = 1.0, 1.0
        rows.append(row)
        right.append(y[k, h])
        weights.append(np.sqrt(fit.weight[k, h]))
    rows.append(np.concatenate([np.zeros(12), np.ones(3)]))
    whole = np.linalg.lstsq(np.array(rows) * np.array([*weights, 1.0])[:, None], np.array([*right, 0.0]) * np.array([*weights, 1.0]), rcond=None)[0]
    assert fit.theta[0] == pytest.approx(whole[12:], abs=20.0)
    assert abs(float(fit.theta[0].sum())) < 1.0


def test_hosts_that_only_a_chain_of_groups_links_are_exact() -> None:
    """64 hosts, each sharing operations with the next only: what is solved in turn would not have converged."""
    true = np.random.default_rng(1).uniform(-1e7, 1e7, 64)
    true -= true.mean()
    exists = np.zeros((63 * 4, 64), dtype=bool)
    for k in range(len(exists)):
        exists[k, [k % 63, k % 63 + 1]] = True
    time = np.arange(len(exists)) * 1e5
    fit = solve(np.where(exists, time[:, None] + true, 0.0), exists)
    assert np.abs(fit.offset(fit.time[:1])[:, 0] - true).max() < 100


def test_a_few_wild_ends_move_nothing() -> None:
    time = _moments(200, 10)
    y = np.stack([time, time + 3e6, time - 2e6], axis=1)
    y[::20, 1] += 5e6
    fit = solve(y, np.ones(y.shape, dtype=bool))
    found = fit.offset(np.array([5 * S]))[:, 0]
    assert found - found[0] == pytest.approx([0.0, 3e6, -2e6], abs=2 * US)


def test_a_step_is_part_of_the_solution_whichever_way_the_clock_goes() -> None:
    time = _moments(300, 20)
    for size in (-2e6, 40e3):
        y = np.stack([time, time + size * (time > 8 * S) + 15e-6 * time, time], axis=1)
        fit = solve(y, np.ones(y.shape, dtype=bool), [Step(1, 8 * S)])
        assert fit.sizes == pytest.approx([size], abs=1 * US)
        assert fit.step_error(0) < 1 * US
        # The host's clock half way between its operations before and after the step.
        k = int(np.searchsorted(time, 8 * S))
        assert own_moment(fit, y, 1, fit.steps[0].at) == pytest.approx((y[k - 1, 1] + y[k, 1]) / 2, abs=2 * US)


def test_the_error_is_that_of_repeated_trials() -> None:
    """The standard error of an offset over 40 seeds against what each solution states."""
    off, stated = [], []
    for seed in range(40):
        random = np.random.default_rng(seed)
        time = _moments(200, 10, seed)
        fit = solve(time[:, None] + random.normal(0, 5 * US, (200, 4)), np.ones((200, 4), dtype=bool))
        off.append(fit.offset(np.array([5 * S]))[0, 0])
        stated.append(fit.error(0, 5 * S, np.zeros(0, dtype=bool)))
    assert float(np.mean(stated)) == pytest.approx(float(np.std(off)), rel=0.35)


def test_a_clock_that_wanders_gets_a_bent_course() -> None:
    """One clock is 100 µs ahead in the middle of 80 s, as a sine has it, and right at both ends."""
    time, random = _moments(2000, 80), np.random.default_rng(2)
    bend = 100 * US * np.sin(np.pi * time / (80 * S))
    y = time[:, None] + random.normal(0, 5 * US, (2000, 4))
    y[:, 2] += bend
    exists = np.ones(y.shape, dtype=bool)
    fit = solve(y, exists)
    while knots := wandering(fit, exists):
        fit = solve(y, exists, (), knots, fit)
    moments = np.linspace(2, 78, 20) * S
    ahead = fit.offset(moments)
    assert fit.basis.knots > 2
    assert np.abs(ahead[2] - ahead[0] - 100 * US * np.sin(np.pi * moments / (80 * S))).max() < 4 * US


def test_a_straight_course_is_left_straight() -> None:
    time = _moments(2000, 80)
    y = time[:, None] * (1 + np.array([0.0, 2e-5, -1e-5])) + np.random.default_rng(2).normal(0, 5 * US, (2000, 3))
    assert wandering(solve(y, np.ones(y.shape, dtype=bool)), np.ones(y.shape, dtype=bool)) == 0


def test_the_smaller_a_step_the_more_operations_may_lie_on_its_other_side() -> None:
    time, random = _moments(1000, 20), np.random.default_rng(4)
    near = {}
    for size_us in (20, 2000):
        y = np.stack([time, time + size_us * US * (time > 8 * S), time], axis=1) + random.normal(0, 10 * US, (1000, 3))
        found = beside_steps(solve(y, np.ones(y.shape, dtype=bool), [Step(1, 8 * S)]))
        near[size_us] = int(found.sum())
        assert found[np.abs(time - 8 * S).argmin()]
        assert np.abs(time[found] - 8 * S).max() < 1 * S
    # Ten on each side, and more by the square of four times the scatter (of residuals of three hosts: 8 µs) over the size.
    assert near[2000] == 20
    assert 22 <= near[20] <= 28
