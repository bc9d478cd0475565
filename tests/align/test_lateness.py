"""Late ends by the durations of who entered last, and when they are believed."""

from __future__ import annotations

import numpy as np
import pytest

from tracelab.align.lateness import end_lateness, host_lateness
from tracelab.align.observations import Parts

US = 1e3
HOSTS, PER_HOST, COUNT = 4, 3, 1500
HOST = np.repeat(np.arange(HOSTS), PER_HOST)


def _job(late_us: np.ndarray, slow_us: np.ndarray, seed: int = 0) -> Parts:
    """Ranks enter within some 300 µs; who enters last transfers for 50 µs, and `slow_us` more if it is slow; ends are `late_us` late."""
    random = np.random.default_rng(seed)
    ranks = HOSTS * PER_HOST
    entered = np.arange(COUNT)[:, None] * 1e6 + random.exponential(100 * US, (COUNT, ranks))
    over = entered.max(1) + 50 * US + US * slow_us[entered.argmax(1)]
    end = over[:, None] + random.exponential(2 * US, (COUNT, ranks)) + US * late_us
    row, rank = np.divmod(np.arange(COUNT * ranks), ranks)
    return Parts([f"h{n}" for n in range(HOSTS)], [0] * HOSTS, row, HOST[rank], rank, entered.ravel(), end.ravel(), np.zeros(COUNT, dtype=np.int64))


def _lag(parts: Parts, late_us: np.ndarray) -> np.ndarray:
    """What ends show of each rank beside its host's mean."""
    mean = np.array([late_us[h == HOST].mean() for h in range(HOSTS)])
    return np.asarray((US * (late_us - mean[HOST]))[parts.rank])


LATE = np.array([0.0, 30, 60, 10, 20, 90, 70, 40, 100, 0, 20, 10])
NONE = np.zeros(HOSTS * PER_HOST)


def test_durations_show_who_ends_late() -> None:
    parts = _job(LATE, NONE)
    seen = end_lateness(parts, np.zeros(len(parts.row)))
    assert (seen.late - seen.late.mean()) / US == pytest.approx(LATE - LATE.mean(), abs=2.0)
    assert seen.spread / US == pytest.approx(LATE.std(), rel=0.3)


def test_hosts_are_corrected_where_ends_and_durations_of_their_ranks_agree() -> None:
    parts = _job(LATE, NONE)
    found = host_lateness(end_lateness(parts, np.zeros(len(parts.row))), parts, _lag(parts, LATE))
    true = np.array([LATE[h == HOST].mean() for h in range(HOSTS)])
    assert found / US == pytest.approx(true - true.mean(), abs=2.0)


def test_slow_links_are_not_taken_for_late_ends() -> None:
    """Operations that some ranks enter last take longer on all ranks: durations differ, and ends of one host do not."""
    parts = _job(NONE, LATE)
    seen = end_lateness(parts, np.zeros(len(parts.row)))
    assert seen.spread > 20 * US
    assert not host_lateness(seen, parts, _lag(parts, NONE)).any()


def test_clocks_of_gpus_that_differ_are_not_taken_for_late_ends() -> None:
    """Starts and ends of a rank are off alike: ends differ, and durations do not."""
    parts = _job(NONE, NONE)
    seen = end_lateness(parts, np.zeros(len(parts.row)))
    assert seen.spread == 0.0
    assert not host_lateness(seen, parts, _lag(parts, LATE)).any()


def test_too_few_operations_say_nothing() -> None:
    whole = _job(LATE, NONE)
    few = whole.row < 8
    parts = Parts(whole.hosts, whole.base, whole.row[few], whole.host[few], whole.rank[few], whole.start[few], whole.end[few], whole.kind[:8])
    assert not host_lateness(end_lateness(parts, np.zeros(int(few.sum()))), parts, _lag(parts, LATE)).any()
