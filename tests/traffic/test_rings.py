"""Rings from what logs state: each rung of the ladder, and what must be dropped."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelab.traffic.rings import Evidence, rank_order, ring_of, single_cycle

PATTERNS = {
    "down": [0, 7, 6, 5, 4, 3, 2, 1],
    "over two hosts": [0, 3, 10, 15, 14, 13, 12, 9],
    "late crossing": [0, 7, 6, 5, 12, 11, 10, 9],
}
"""Orders of the first host's places in rings of a real job of 4 × 8 GPUs; the next hosts repeat them 8 higher, modulo 32."""


def pairs(order: list[int] | tuple[int, ...]) -> set[tuple[int, int]]:
    return {(order[i - 1], order[i]) for i in range(len(order))}


def whole(pattern: list[int], size: int = 32, step: int = 8) -> list[int]:
    return [(p + k) % size for k in range(0, size, step) for p in pattern]


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("known", ["all hosts", "one host", "no host"])
def test_a_list_that_was_cut_at_20_of_32_ranks_is_completed_from_host_to_host(pattern: list[int], known: str) -> None:
    by_name: dict[str, list[str | None]] = {"all hosts": [f"h{r // 8}" for r in range(32)], "one host": ["h0"] * 8 + [None] * 24, "no host": [None] * 32}
    hosts = by_name[known]
    expected = whole(pattern)
    assert sorted(expected) == list(range(32))
    ring = ring_of(Evidence(orders=[tuple(expected[:20])]), 32, hosts)
    assert list(ring.order) == expected
    assert ring.rungs == ("stated",) * 19 + ("completed",) * 13


def test_a_connection_of_the_completed_part_is_stated() -> None:
    ring = ring_of(Evidence(orders=[tuple(whole(PATTERNS["down"])[:20])], linked={(25, 0)}), 32, [None] * 32)
    assert ring.rungs == ("stated",) * 19 + ("completed",) * 12 + ("stated",)


def test_tree_links_do_not_speak_against_a_completed_ring() -> None:
    cut = tuple(whole(PATTERNS["down"])[:20])
    # Rank 0 is the root of a tree over hosts: 16 -> 0 and back, and its chain goes to 1.
    links = {(25, 0), (0, 7), (0, 1), (0, 16), (16, 0)}
    assert "completed" in ring_of(Evidence(orders=[cut], linked=links, tree={(1, 0), (16, 0)}, tree_known={0}), 32, [None] * 32).rungs


def test_a_connection_that_fits_neither_ring_nor_tree_refutes_the_completion() -> None:
    cut = tuple(whole(PATTERNS["down"])[:20])
    ring = ring_of(Evidence(orders=[cut], linked={(26, 0)}, tree={(1, 0)}, tree_known={0}), 32, [None] * 32)
    assert set(ring.rungs) == {"assumed"}
    assert ring.problem == "order-not-completed"


@pytest.mark.parametrize(
    "printed",
    [
        [0, 7, 6, 5, 4, 3, 2, 1, 8],  # one rank of the next host: no edge repeats
        [0, 7, 6, 5, 4, 3, 2, 1, 8, 9, 10, 11],  # the next host runs the other way
    ],
)
def test_without_a_repeating_pattern_nothing_is_completed(printed: list[int]) -> None:
    ring = ring_of(Evidence(orders=[tuple(printed)]), 32, [f"h{r // 8}" for r in range(32)])
    assert set(ring.rungs) == {"assumed"}
    assert ring.order == tuple(range(32))
    assert ring.problem


def test_hosts_that_take_turns_in_the_numbering_complete_too() -> None:
    hosts = [f"h{r % 4}" for r in range(24)]  # ranks of host k: k, k + 4, …
    one = [0, 8, 4, 20, 12, 16]
    expected = [r + k for k in range(4) for r in one]
    assert list(ring_of(Evidence(orders=[tuple(expected[:20])]), 24, hosts).order) == expected


def test_ring_lines_of_all_ranks_beat_a_printed_order() -> None:
    told = [0, 2, 1, 3]
    ring = ring_of(Evidence(neighbours=pairs(told), orders=[(0, 1, 2, 3)]), 4, [None] * 4)
    assert ring.order == tuple(told)
    assert set(ring.rungs) == {"stated"}


def test_an_order_that_contradicts_a_ring_line_is_dropped() -> None:
    ring = ring_of(Evidence(neighbours={(0, 2)}, orders=[(0, 1, 2, 3)]), 4, [None] * 4)
    assert set(ring.rungs) == {"assumed"}
    assert ring.problem == "order-contradicted"


def test_a_complete_order_starts_at_rank_0_and_names_what_connections_confirm() -> None:
    ring = ring_of(Evidence(orders=[(2, 0, 3, 1)], linked={(3, 1), (1, 3)}), 4, [None] * 4)
    assert ring.order == (0, 3, 1, 2)
    assert ring.rungs == ("order", "stated", "order", "order")


@pytest.mark.parametrize("order", [(0, 1, 1, 2), (0, 1, 2, 9), (0,)])
def test_impossible_orders_are_dropped_and_said_so(order: tuple[int, ...]) -> None:
    ring = ring_of(Evidence(orders=[order]), 4, ["a", "b", "a", "b"])
    assert ring.order == (0, 2, 1, 3)  # ranks of one host together
    assert ring.problem == "order-invalid"


def test_the_only_cycle_is_found_among_tree_links() -> None:
    ring_pairs = pairs([0, 1, 2, 3, 4, 5, 6, 7])
    tree = {(0, 4), (4, 0), (1, 0), (2, 1), (3, 2), (5, 4), (6, 5), (7, 6)}  # chains inside hosts of 4, and their roots
    ring = ring_of(Evidence(linked=ring_pairs | tree), 8, [None] * 8)
    assert ring.order == tuple(range(8))
    assert set(ring.rungs) == {"connections"}


def test_two_possible_cycles_are_none() -> None:
    ring = ring_of(Evidence(linked=pairs([0, 1, 2, 3]) | pairs([0, 3, 2, 1])), 4, [None] * 4)
    assert set(ring.rungs) == {"assumed"}
    assert ring.problem == "ambiguous-connections"


def brute_cycles(links: set[tuple[int, int]], size: int) -> list[tuple[int, ...]]:
    found = []
    stack: list[list[int]] = [[0]]
    while stack:
        path = stack.pop()
        if len(path) == size:
            if (path[-1], 0) in links:
                found.append(tuple(path))
            continue
        stack += [[*path, b] for b in range(size) if (path[-1], b) in links and b not in path]
    return found


@given(st.integers(3, 8), st.floats(0, 0.45), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_the_search_agrees_with_trying_all_paths(size: int, density: float, seed: int) -> None:
    rng = random.Random(seed)
    ring = list(range(size))
    rng.shuffle(ring)
    links = pairs(ring) | {(a, b) for a in range(size) for b in range(size) if a != b and rng.random() < density}
    cycles = brute_cycles(links, size)
    found = ring_of(Evidence(linked=links), size, [None] * size)
    if len(cycles) == 1:
        assert (found.order, set(found.rungs)) == (cycles[0], {"connections"})
    else:
        assert set(found.rungs) == {"assumed"}


def test_the_search_gives_up_on_a_graph_with_too_many_choices() -> None:
    links = {(a, b) for a in range(60) for b in range(60) if a != b}
    assert set(ring_of(Evidence(linked=links), 60, [None] * 60).rungs) == {"assumed"}


def test_a_large_ring_among_its_own_reversed_chains_is_found() -> None:
    size = 512
    links = pairs(list(range(size))) | {(b, a) for a, b in pairs(list(range(size))) if a // 8 == b // 8}
    assert ring_of(Evidence(linked=links), size, [None] * size).order == tuple(range(size))


def test_ranks_without_a_known_host_keep_their_place() -> None:
    assert rank_order(["a", None, "b", "a", None]) == (0, 3, 1, 2, 4)


def test_only_one_circle_through_all_ranks_is_a_ring() -> None:
    assert single_cycle({0: 1, 1: 0, 2: 3, 3: 2}, 4) is None
    assert single_cycle({0: 2, 2: 1, 1: 3, 3: 0}, 4) == (0, 2, 1, 3)
