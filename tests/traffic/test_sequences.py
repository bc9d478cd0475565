from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelab.traffic.sequences import CHUNK, KINDS, SMALL, pair_sequences, shift_of


def array(values: object) -> np.ndarray:
    return np.asarray(values, dtype=np.int64)


def longest(a: list[int], b: list[int]) -> int:
    """Length of the longest common subsequence, as the textbook has it."""
    row = [0] * (len(b) + 1)
    for x in a:
        new = [0]
        for j, y in enumerate(b):
            new.append(row[j] + 1 if x == y else max(new[-1], row[j + 1]))
        row = new
    return row[-1]


def checked(a: np.ndarray, b: np.ndarray, *shifts: int) -> np.ndarray:
    pairs = pair_sequences(a, b, shifts)
    assert (np.diff(pairs, axis=0) > 0).all()
    assert np.array_equal(a[pairs[:, 0]], b[pairs[:, 1]])
    return pairs


@given(st.lists(st.integers(0, 4), max_size=30), st.lists(st.integers(0, 4), max_size=30))
def test_short_sequences_pair_as_often_as_can_be(a: list[int], b: list[int]) -> None:
    best = longest(a, b)
    found = len(checked(array(a), array(b)))
    # One distance at which all agrees may be preferred to a tenth more pairs.
    assert 0.9 * best <= found <= best


def test_a_window_is_paired_at_one_distance() -> None:
    a = array([1, 2, 3, 4] * 20)
    pairs = checked(a, a[10:40])
    assert len(set((pairs[:, 0] - pairs[:, 1]).tolist())) == 1
    assert len(pairs) == 30


def test_a_suggested_distance_is_taken_where_all_agrees() -> None:
    a = array([1, 2] * 50)
    assert checked(a, a[:10], 40)[0].tolist() == [40, 0]
    assert checked(a, a[:10], 41, 60)[0].tolist() == [60, 0]
    assert checked(a, a[:10], 41, 5000)[0].tolist() == [0, 0]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_long_sequences_with_losses_pair_whatever_is_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = 30_000, 4_000
    whole = rng.integers(0, 50, 64)[np.arange(n) % 64] if seed % 2 else rng.integers(0, 10**6, n)
    start = int(rng.integers(n // 8, n - m - n // 8))
    lost = rng.choice(m, int(rng.integers(0, 12)), replace=False)
    part = np.delete(whole[start : start + m], lost)
    assert len(whole) * len(part) > SMALL
    assert len(checked(whole, part)) == len(part)
    assert len(checked(part, whole)) == len(part)


def test_a_run_of_losses_longer_than_what_is_compared_at_once() -> None:
    whole = np.random.default_rng(1).integers(0, 10**6, 20_000)
    part = np.delete(whole[5_000:9_000], slice(1_000, 1_000 + CHUNK // 2))
    assert len(checked(whole, part)) == len(part)


def test_sequences_that_have_nothing_in_common() -> None:
    assert len(checked(array(range(3_000)), array(range(5_000, 8_000)))) == 0
    assert len(checked(array([]), array([1]))) == 0


def test_equal_operations_without_end() -> None:
    assert len(checked(np.ones(50_000, dtype=np.int64), np.ones(2_000, dtype=np.int64))) == 2_000


def kind(k: int) -> int:
    return -1 - k


def sized(size: int, k: int) -> int:
    return size * KINDS + k


def test_without_sizes_kinds_are_paired() -> None:
    a, b = array([sized(5, 1), sized(6, 2), sized(7, 1)]), array([kind(2), kind(1)])
    assert pair_sequences(a, b).tolist() == [[1, 0], [2, 1]]


def test_an_operation_without_size_is_paired_between_certain_ones() -> None:
    a = array([sized(5, 1), sized(6, 2), sized(7, 1), sized(8, 2)])
    b = array([sized(5, 1), kind(2), sized(7, 1), kind(1)])
    assert pair_sequences(a, b).tolist() == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [([5, 6, 7], [6, 7], 1), ([6, 7], [5, 6, 7], -1), ([5, 7, 8], [6, 7], None), ([0, 0], [0, 1], None), ([5, 6], [6], None), ([-1, 0], [0, 1], None)],
)
def test_numbers_say_where_sequences_stand_if_they_count(a: list[int], b: list[int], want: int | None) -> None:
    assert shift_of(array(a), array(b)) == want
