"""Matching, waits and transfers on tables small enough to work out by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.builders.frames import Row, gpu, host, parsed, record, step
from tracelab.align import Aligned, align

US, MS = 1_000, 1_000_000
ALL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
P2P = "ncclDevKernel_SendRecv(x)"


class _Trace:
    """Collects kernels with their launches and records."""

    def __init__(self) -> None:
        self.gpu: list[Row] = []
        self.host: list[Row] = []
        self.records: list[Row] = []

    def collective(
        self, rank: int, start: int, end: int, launch: int, operation: str = "allreduce", ranks: list[int] | None = None, name: str = ALL, **more: Any
    ) -> None:
        c = len(self.gpu) + 1
        self.gpu.append(gpu(rank, start, end - start, name, correlation=c, stream=20))
        self.host.append(host(rank, launch, 1, "cudaLaunchKernel", "runtime", correlation=c))
        self.records.append(record(rank, start, end - start, operation, ranks or [0, 1], correlation=c, **more))

    def align(self, hosts: dict[int, str] | None = None, *, metadata: bool = True) -> Aligned:
        ranks = sorted({r["rank"] for r in self.gpu})
        return align(parsed(gpu_spans=self.gpu, host_spans=self.host, comm_records=self.records if metadata else []), hosts or dict.fromkeys(ranks, "h"))


def _members(aligned: Aligned) -> list[list[tuple[int, int]]]:
    """Per match the (rank, start) of its parts, in order of match."""
    rows = aligned.derived["arrivals"].sort("match_id", "rank")
    return [list(zip(p["rank"], p["start_ns"], strict=True)) for _, p in rows.group_by("match_id", maintain_order=True)]


def test_wait_transfer_and_bandwidth_by_hand() -> None:
    t = _Trace()
    for rank, start, end in ((0, 100 * US, 900 * US), (1, 400 * US, 902 * US), (2, 250 * US, 904 * US), (3, 300 * US, 901 * US)):
        t.collective(rank, start, end, 1, ranks=[0, 1, 2, 3], in_elements=1_000_000, out_elements=1_000_000)
    aligned = t.align()
    m = aligned.derived["matches"].row(0, named=True)
    # Ends 900, 901, 902, 904: median 901.5 µs; last arrival 400 µs.
    assert (m["present"], m["members"], m["last_rank"], m["last_by_ns"]) == (4, 4, 1, 100 * US)
    assert (m["first_start_ns"], m["last_start_ns"], m["end_ns"], m["end_spread_ns"], m["transfer_ns"]) == (100 * US, 400 * US, 901_500, 4 * US, 501_500)
    assert m["bytes"] == 4_000_000
    assert m["algbw_bytes_per_s"] == pytest.approx(4_000_000 / 501.5e-6)
    assert m["busbw_bytes_per_s"] == pytest.approx(4_000_000 / 501.5e-6 * 2 * 3 / 4)
    assert m["last_certain"]
    assert aligned.derived["arrivals"].sort("rank")["wait_ns"].to_list() == [300 * US, 0, 150 * US, 100 * US]
    assert aligned.derived["arrivals"].sort("rank")["late_ns"].to_list() == [0, 300 * US, 150 * US, 200 * US]


def test_a_wait_is_never_longer_than_the_kernel() -> None:
    t = _Trace()
    t.collective(0, 0, 50, 1)
    t.collective(1, 200, 260, 1)
    assert t.align().derived["arrivals"].sort("rank")["wait_ns"].to_list() == [50, 0]


def test_the_last_by_less_than_the_clocks_can_tell_is_not_certain() -> None:
    t = _Trace()
    t.collective(0, 0, 100 * US, 1)
    t.collective(1, 14 * US, 100 * US, 1)  # within three times 5 µs on one host
    assert t.align().derived["matches"]["last_certain"].to_list() == [False]


@pytest.mark.parametrize(
    ("operation", "elements", "size", "factor"),
    [
        ("_allgather_base", (250, 1000), 4000, 3 / 4),
        ("_reduce_scatter_base", (1000, 250), 4000, 3 / 4),
        ("all_to_all", (1000, 1000), 4000, 3 / 4),
        ("broadcast", (1000, 1000), 4000, 1.0),
    ],
)
def test_sizes_and_bus_factors_are_those_of_nccl_tests(operation: str, elements: tuple[int, int], size: int, factor: float) -> None:
    t = _Trace()
    for rank in range(4):
        t.collective(rank, 0, 1000, 1, operation, [0, 1, 2, 3], in_elements=elements[0], out_elements=elements[1])
    m = t.align().derived["matches"].row(0, named=True)
    assert m["bytes"] == size
    assert m["busbw_bytes_per_s"] == pytest.approx(size / 1e-6 * factor)


def test_a_group_that_is_not_all_there_has_waits_but_no_transfer() -> None:
    t = _Trace()
    t.collective(0, 0, 1000, 1, ranks=[0, 1, 2])
    t.collective(1, 300, 1000, 1, ranks=[0, 1, 2])
    m = t.align().derived["matches"].row(0, named=True)
    assert (m["present"], m["members"], m["transfer_ns"], m["busbw_bytes_per_s"]) == (2, 3, None, None)
    assert t.align().derived["arrivals"]["wait_ns"].sum() == 300


def test_comms_ids_match_across_any_order() -> None:
    t = _Trace()
    for rank, order in ((0, ("a", "b", "c")), (1, ("c", "a"))):
        for n, key in enumerate(order):
            t.collective(rank, 1000 * n + rank, 1000 * n + 500, 1, comms_id=key)
    aligned = t.align()
    assert set(aligned.derived["matches"]["rung"]) == {"comms-id"}
    assert _members(aligned) == [[(0, 0), (1, 1001)], [(0, 1000)], [(0, 2000), (1, 1)]]


def test_a_sequence_number_that_returns_is_another_operation() -> None:
    t = _Trace()
    for window in (0, 10**9):
        for rank in (0, 1):
            t.collective(rank, window + rank, window + 500, 1, seq=7)
    aligned = t.align()
    assert aligned.derived["matches"]["rung"].to_list() == ["sequence-number"] * 2
    assert _members(aligned) == [[(0, 0), (1, 1)], [(0, 10**9), (1, 10**9 + 1)]]


def test_a_key_whose_operations_differ_is_not_believed() -> None:
    t = _Trace()
    t.collective(0, 0, 500, 1, "allreduce", seq=7)
    t.collective(1, 0, 500, 1, "broadcast", seq=7)
    aligned = t.align()
    assert aligned.derived["matches"].filter(pl.col("present") == 2).height == 0
    assert "contradicting-key" in [n.code for n in aligned.notices]


def test_ranks_without_a_key_join_the_matches_of_those_with_one() -> None:
    """Ranks 0 and 1 state sequence numbers, 2 and 3 were recorded by a profiler that knows none, on a clock 3 s ahead; rank 3 lost the third kernel."""
    t = _Trace()
    ends = [10, 27, 41, 60, 66, 90]
    for rank in range(4):
        shift = 3 * 10**9 if rank > 1 else 0
        for n, end in enumerate(ends):
            if (rank, n) != (3, 2):
                more: dict[str, Any] = {} if shift else {"seq": 100 + n}
                t.collective(rank, shift + (end - 4) * MS, shift + end * MS + rank * US, shift + n, ranks=[0, 1, 2, 3], **more)
    matches = t.align({0: "a", 1: "a", 2: "b", 3: "b"}).derived["matches"].sort("first_start_ns")
    assert matches["present"].to_list() == [4, 4, 3, 4, 4, 4]
    assert set(matches["rung"]) == {"order"}
    assert matches.filter(pl.col("end_spread_ns") > 3 * US).is_empty()


def test_one_lost_kernel_does_not_shift_the_others() -> None:
    t = _Trace()
    ends = [10, 27, 41, 60, 66, 90]
    for rank in (0, 1, 2):
        for n, end in enumerate(ends):
            if (rank, n) != (1, 2):
                t.collective(rank, (end - 4) * MS, end * MS + rank * US, n, ranks=[0, 1, 2])
        t.host.append(step(rank, 1, 0, 100 * MS))
    aligned = t.align()
    matches = aligned.derived["matches"].sort("first_start_ns")
    assert matches["present"].to_list() == [3, 3, 2, 3, 3, 3]
    assert matches["end_spread_ns"].max() == 2 * US


def test_the_step_that_launched_it_anchors_an_operation() -> None:
    t = _Trace()
    for rank, shift in ((0, 0), (1, 5 * 10**9)):
        for n in range(4):
            t.host.append(step(rank, n + 1, shift + n * 100 * MS, 100 * MS))
            if (rank, n) != (0, 0):  # rank 0 was not yet recorded in the first step
                t.collective(rank, shift + n * 100 * MS + 130 * MS, shift + n * 100 * MS + 140 * MS, shift + n * 100 * MS + 50 * MS)
    matches = t.align({0: "a", 1: "b"}).derived["matches"]
    assert sorted(matches["present"].to_list()) == [1, 2, 2, 2]


def test_sends_match_receives_in_order_for_each_pair() -> None:
    t = _Trace()
    for n in range(3):
        at = 1000 * n
        t.collective(0, at, at + 300, 1, "send", [0, 1, 2], P2P, dst_rank=1)
        t.collective(1, at + 100, at + 301, 1, "recv", [0, 1, 2], P2P, src_rank=0)
    t.collective(1, 5000, 5100, 1, "send", [0, 1, 2], P2P, dst_rank=2)
    t.collective(2, 4900, 5100, 1, "recv", [0, 1, 2], P2P, src_rank=1)
    matches = t.align().derived["matches"].sort("first_start_ns")
    assert set(matches["operation"].cast(pl.String)) == {"send_recv"}
    assert matches.select("present", "members", "last_rank", "transfer_ns").rows() == [(2, 2, 1, 200)] * 3 + [(2, 2, 1, 100)]


def test_without_metadata_ranks_that_end_together_are_a_group() -> None:
    t = _Trace()
    ends = {(0, 1): [11, 35, 52, 90, 104], (2, 3): [13, 31, 57, 84, 111]}
    for ranks, times in ends.items():
        for rank in ranks:
            for n, end in enumerate(times):
                t.collective(rank, end * MS - 2 * MS, end * MS + rank * US, n + 1)
    aligned = t.align(metadata=False)
    groups = aligned.derived["groups"]
    assert groups["ranks"].to_list() == [[0, 1], [2, 3]]
    assert set(groups["origin"]) == {"inferred"}
    assert aligned.derived["matches"]["present"].to_list() == [2] * 10


def test_a_group_inferred_from_some_ranks_of_a_job_is_not_complete() -> None:
    t = _Trace()
    for rank in (0, 1):
        for n, end in enumerate([11, 35, 52, 90, 104]):
            t.collective(rank, end * MS - 2 * MS, end * MS, n + 1)
    tables = parsed(gpu_spans=t.gpu, host_spans=t.host)
    aligned = align(tables, {0: "h", 1: "h"}, world_size=8)
    assert aligned.derived["groups"].select("ranks", "size").rows() == [(None, 8)]
    assert aligned.derived["matches"]["transfer_ns"].null_count() == 5


def test_names_are_no_namespace_over_ranks() -> None:
    t = _Trace()
    for rank, ranks, name in ((0, [0, 2], "3"), (2, [0, 2], "3"), (1, [1, 3], "3"), (3, [1, 3], "4")):
        t.collective(rank, 0, 100, 1, ranks=ranks, group_name=name)
    aligned = t.align()
    assert aligned.derived["groups"]["ranks"].to_list() == [[0, 2], [1, 3]]
    assert aligned.derived["matches"]["present"].to_list() == [2, 2]


def test_two_communicators_of_the_same_ranks_do_not_mix() -> None:
    t = _Trace()
    for rank, order in ((0, "xy"), (1, "yx")):
        for n, desc in enumerate(order):
            t.collective(rank, 1000 * n, 1000 * n + 900, 1, group_name=desc, group_desc=desc)
    assert _members(t.align()) == [[(0, 0), (1, 1000)], [(0, 1000), (1, 0)]]


def test_empty_and_partial_tables_give_empty_results() -> None:
    for tables in ({}, parsed(), parsed(gpu_spans=[gpu(0, 0, 5)]), parsed(host_spans=[host(-1, 0, 5)])):
        aligned = align(tables, {0: "h", -1: "h"})
        assert aligned.derived["matches"].height == aligned.derived["arrivals"].height == aligned.derived["collectives"].height == 0
    aligned = align({}, {})
    assert {name: frame.height for name, frame in aligned.derived.items()} == dict.fromkeys(
        ("steps", "groups", "collectives", "matches", "arrivals", "clocks"), 0
    )


def test_ranks_that_nobody_states_are_not_matched() -> None:
    aligned = align(parsed(gpu_spans=[gpu(-1, 0, 50, ALL), gpu(-2, 10, 40, ALL)]), {-1: "h", -2: "h"})
    assert aligned.derived["collectives"]["match_id"].to_list() == [None, None]
    assert [n.code for n in aligned.notices] == ["unmatched-operation"]
