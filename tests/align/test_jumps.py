"""Steps of clocks in ends whose clocks are known: found where there is one, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from tracelab.align.jumps import with_steps
from tracelab.align.solve import Fit, solve

US, S = 1e3, 1e9
COUNT, HOSTS = 1200, 6


def _time(seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).uniform(0, 20 * S, COUNT))


def _ends(jitter_us: float = 5.0, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    drift = random.uniform(-2e-5, 2e-5, HOSTS)
    time = _time(seed)
    return time[:, None] * (1 + drift) + random.uniform(-1e6, 1e6, HOSTS) + random.exponential(jitter_us * US, (COUNT, HOSTS))


def _found(y: np.ndarray, kind: np.ndarray | None = None) -> Fit:
    exists = np.ones(y.shape, dtype=bool)
    return with_steps(y, exists, np.zeros(COUNT, dtype=np.int64) if kind is None else kind, solve(y, exists), {}, [0] * HOSTS)


def _summary(fit: Fit) -> list[tuple[int, int, int]]:
    """Host, moment in tenths of a second, size in µs."""
    return sorted((s.host, round(s.at / 1e8), round(size / US)) for s, size in zip(fit.steps, fit.sizes.tolist(), strict=True))


@pytest.mark.parametrize("size_us", [20, -60, 3000])
def test_a_step_is_found_where_it_is(size_us: int) -> None:
    y = _ends()
    y[_time() >= 7 * S, 2] += size_us * US
    fit = _found(y)
    assert [s.host for s in fit.steps] == [2]
    assert fit.steps[0].at == pytest.approx(7 * S, abs=0.15 * S)
    assert fit.sizes == pytest.approx([size_us * US], abs=2 * US)


def test_a_large_step_makes_none_of_other_hosts_and_hides_no_small_one() -> None:
    y = _ends()
    for host, at, size in ((0, 10, 5000), (3, 10.2, -400), (4, 6, 30), (4, 14, -30)):
        y[_time() >= at * S, host] += size * US
    hosts, moments, sizes = zip(*_summary(_found(y)), strict=True)
    assert hosts == (0, 3, 4, 4)
    assert moments == pytest.approx((100, 102, 60, 140), abs=2)
    assert sizes == pytest.approx((5000, -400, 30, -30), abs=3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("jitter_us", [1.0, 50.0])
def test_none_is_found_where_there_is_none(seed: int, jitter_us: float) -> None:
    assert _summary(_found(_ends(jitter_us, seed))) == []


def test_a_clock_that_drifts_differently_for_a_while_is_not_set() -> None:
    """3 ppm more for six seconds: 18 µs, gained little by little."""
    y, time = _ends(), _time()
    y[:, 1] += 3e-6 * np.clip(time - 7 * S, 0, 6 * S)
    assert _summary(_found(y)) == []


def test_another_mix_of_operations_is_no_step() -> None:
    """Operations of kind 1, in which host 2 always ends 40 µs later, are rare at first and usual later."""
    y, time, random = _ends(), _time(), np.random.default_rng(9)
    kind = (random.random(COUNT) < np.where(time < 9 * S, 0.2, 0.8)).astype(np.int64)
    y[:, 2] += 40 * US * kind
    assert _summary(_found(y, kind)) == []
