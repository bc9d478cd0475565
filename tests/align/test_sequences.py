from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracelab.align.sequences import align_sequences

MS = 1_000_000


def _ends(count: int, seed: int) -> np.ndarray:
    """Ends with gaps between 1 and 20 ms: irregular, as real steps are."""
    return np.cumsum(np.random.default_rng(seed).integers(1 * MS, 20 * MS, count)).astype(np.int64)


def _same(count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


@given(st.integers(0, 10_000), st.sets(st.integers(0, 29), max_size=8), st.sets(st.integers(0, 29), max_size=8), st.integers(-(10**10), 10**10))
def test_lost_operations_shift_no_others_whatever_the_clocks_say(seed: int, lost_a: set[int], lost_b: set[int], offset: int) -> None:
    ends = _ends(30, seed)
    jitter = np.random.default_rng(seed + 1).integers(0, 20_000, 30)
    a = [k for k in range(30) if k not in lost_a]
    b = [k for k in range(30) if k not in lost_b]
    found = align_sequences(_same(len(a)), ends[a], _same(len(b)), (ends + jitter + offset)[b])
    assert [(a[i], b[j]) for i, j in found.pairs] == [(k, k) for k in a if k in b]
    assert found.margin > 0.3


def test_windows_that_overlap_in_part_are_laid_over_each_other() -> None:
    ends = _ends(40, 3)
    found = align_sequences(_same(25), ends[:25], _same(25), ends[15:] - 7 * 10**9)
    assert found.pairs == [(k, k - 15) for k in range(15, 25)]


def test_tokens_must_agree() -> None:
    ends = _ends(6, 1)
    found = align_sequences(np.array([1, 2, 1, 2, 1, 2]), ends, np.array([1, 2, 2, 1, 2]), ends[[0, 1, 3, 4, 5]])
    assert found.pairs == [(0, 0), (1, 1), (3, 2), (4, 3), (5, 4)]


def test_an_operation_that_ended_late_on_one_side_is_still_paired() -> None:
    ends = _ends(10, 2)
    late = ends.copy()
    late[[0, 4, 9]] += 400_000
    assert align_sequences(_same(10), ends, _same(10), late).pairs == [(k, k) for k in range(10)]


def test_ends_that_scatter_leave_the_order_to_the_tokens_and_say_so() -> None:
    random = np.random.default_rng(0)
    a, b = (np.sort(random.integers(0, 10**11, n)).astype(np.int64) for n in (6, 5))
    found = align_sequences(np.array([1, 2, 3, 4, 5, 6]), a, np.array([1, 2, 4, 5, 6]), b)
    assert found.pairs == [(0, 0), (1, 1), (3, 2), (4, 3), (5, 4)]
    assert found.margin == 0.0


def test_a_perfectly_regular_sequence_is_ambiguous() -> None:
    ends = np.arange(10, dtype=np.int64) * 10 * MS
    assert align_sequences(_same(10), ends, _same(10), ends).margin <= 0.1


def test_nothing_in_common() -> None:
    assert align_sequences(np.array([1]), np.array([5]), np.array([2]), np.array([5])).pairs == []


def test_a_clock_that_is_set_halfway_splits_the_sequence() -> None:
    ends = _ends(40, 4)
    other = np.where(np.arange(40) < 17, ends, ends - 55 * MS)
    assert align_sequences(_same(40), ends, _same(40), other).pairs == [(k, k) for k in range(40)]


def test_long_sequences_are_laid_over_each_other_in_little_memory() -> None:
    """All tokens alike, 12,000 against 6,000 from the middle: the 72 million pairs would take a gigabyte."""
    ends = _ends(12_000, 5)
    jitter = np.random.default_rng(6).integers(0, 20_000, 6_000)
    tracemalloc.start()
    found = align_sequences(_same(12_000), ends, _same(6_000), ends[3_000:9_000] + jitter + 5 * 10**9)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.pairs == [(k + 3_000, k) for k in range(6_000)]
    assert found.margin > 0.3
    assert most < 100_000_000
