from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracelab.analyses.intervals import EMPTY, intersection, length, partition, union

Spans = list[tuple[int, int]]
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1])), max_size=12)


def _arrays(spans: Spans) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in spans], dtype=np.int64), np.array([b for _, b in spans], dtype=np.int64)


def _moments(spans: Spans) -> set[int]:
    """The unit moments covered, counted one by one."""
    return {t for a, b in spans for t in range(a, b)}


@given(SPANS)
def test_a_union_covers_each_moment_once(spans: Spans) -> None:
    start, end = union(*_arrays(spans))
    assert length((start, end)) == len(_moments(spans))
    assert (start < end).all()
    assert (start[1:] > end[:-1]).all()


@given(SPANS, SPANS)
def test_an_intersection_is_what_both_cover(a: Spans, b: Spans) -> None:
    assert intersection(union(*_arrays(a)), union(*_arrays(b))) == len(_moments(a) & _moments(b))


@given(SPANS, SPANS, SPANS, st.lists(st.integers(1, 15), min_size=1, max_size=5))
def test_a_partition_gives_each_moment_to_its_first_layer(a: Spans, b: Spans, also: Spans, lengths: list[int]) -> None:
    edges = np.cumsum([3, *lengths])
    windows = (edges[:-1].astype(np.int64), edges[1:].astype(np.int64))
    total, covered = partition((union(*_arrays(a)), union(*_arrays(b))), windows, union(*_arrays(also)))
    for n, (low, high) in enumerate(zip(*windows, strict=True)):
        window = set(range(low, high))
        first = window & _moments(a)
        second = (window & _moments(b)) - first
        rest = window - first - second
        assert total[n].tolist() == [len(first), len(second), len(rest)]
        assert covered[n] == len(rest & _moments(also))


def test_windows_with_a_gap_and_times_beyond_double_precision() -> None:
    base = 1_700_000_000 * 10**9 + 1
    windows = (np.array([base, base + 100]), np.array([base + 10, base + 110]))
    total, _ = partition((union(np.array([base + 5]), np.array([base + 103])),), windows)
    assert total.tolist() == [[5, 5], [3, 7]]


def test_nothing() -> None:
    assert length(union(*EMPTY)) == 0
    assert partition((EMPTY, EMPTY), EMPTY)[0].shape == (0, 3)
    assert partition((EMPTY,), (np.array([0]), np.array([7])))[0].tolist() == [[0, 7]]
