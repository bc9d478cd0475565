"""Times that cannot be compared: clocks that nothing links, spans that the source cut."""

from __future__ import annotations

import polars as pl

from tests.builders.frames import Row, gpu, host, parsed, record, step
from tracelab.align import align

US, MS = 1_000, 1_000_000
T0 = 1_700_000_000 * 10**9
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
SEND = "ncclDevKernel_SendRecv(x)"


def _operation(rank: int, at: int, dur: int, name: str, operation: str, ranks: list[int], c: int, **more: int) -> tuple[Row, Row, Row]:
    return (
        gpu(rank, at, dur, name, correlation=c),
        record(rank, at, dur, operation, ranks, correlation=c, in_elements=10, **more),
        host(rank, at - 10 * US, US, "cudaLaunchKernel", "runtime", correlation=c),
    )


def test_waits_across_clocks_that_nothing_links_are_withheld() -> None:
    """Ranks 0, 1 on host a and 2, 3 on host b, 30 ms apart: all-reduces inside the hosts, sends from 1 to 2."""
    rows = []
    for rank in range(4):
        pair, shift = ([0, 1], 0) if rank < 2 else ([2, 3], 30 * MS)
        for n in range(5):
            at = T0 + n * 10 * MS + shift
            rows.append(_operation(rank, at + rank * 100 * US, MS - rank * 100 * US, REDUCE, "allreduce", pair, 2 * n + 1))
    for n in range(5):
        for rank, operation, shift in ((1, "send", 0), (2, "recv", 30 * MS)):
            rows.append(_operation(rank, T0 + n * 10 * MS + 5 * MS + shift, MS, SEND, operation, [1, 2], 2 * n + 2, src_rank=1, dst_rank=2))
    spans, records, calls = (list(x) for x in zip(*rows, strict=True))
    aligned = align(parsed(gpu_spans=spans, comm_records=records, host_spans=calls), {0: "a", 1: "a", 2: "b", 3: "b"}, 4)
    assert aligned.clocks["method"].to_list() == ["none", "none"]
    matches = aligned.derived["matches"].with_columns(pl.col("operation").cast(pl.String))
    inside, across = matches.filter(pl.col("operation") == "all_reduce"), matches.filter(pl.col("operation") == "send_recv")
    assert (inside["present"].to_list(), inside["transfer_ns"].null_count(), set(inside["last_by_ns"])) == ([2] * 10, 0, {100 * US})
    assert (across["present"].to_list(), across["transfer_ns"].null_count(), across["last_by_ns"].null_count()) == ([2] * 5, 5, 5)
    assert across["last_certain"].to_list() == [False] * 5
    # Only what was matched on one clock has arrivals; rank 0 waits 0.1 ms for rank 1, rank 2 for rank 3.
    waits = aligned.derived["arrivals"].group_by("rank").agg(pl.col("wait_ns").sum(), pl.len()).sort("rank").rows()
    assert waits == [(0, 500 * US, 5), (1, 0, 5), (2, 500 * US, 5), (3, 0, 5)]


def test_spans_that_the_source_cut_move_no_clock_no_step_and_are_no_operation() -> None:
    cut = {"clamped": True}
    spans = [gpu(0, T0, MS), gpu(0, T0 + 2 * MS, MS), {**gpu(0, 0, MS), **cut}, {**gpu(0, 0, 0, REDUCE), **cut}]
    marks = [step(1, 1, T0, MS), {**step(1, 0, 0, MS), **cut}]
    aligned = align(parsed(gpu_spans=spans, host_spans=marks), {0: "a", 1: "a"})
    assert aligned.derived["steps"].rows() == [(0, 0, T0, T0 + 3 * MS, "window"), (1, 1, T0, T0 + MS, "annotation")]
    assert aligned.derived["collectives"].height == 0
    assert aligned.clocks["start_ns"].to_list() == [T0]


def test_the_median_end_of_a_host_is_exact() -> None:
    """Two ranks per host whose ends are 3 ns apart: float64 would round moments since 1970 to 256 ns."""
    rows = []
    for rank in range(4):
        late = (0, 3, 1000, 1003)[rank]
        rows.append(_operation(rank, T0 + 77 + late, MS, REDUCE, "allreduce", [0, 1, 2, 3], 1))
    spans, records, calls = (list(x) for x in zip(*rows, strict=True))
    aligned = align(parsed(gpu_spans=spans, comm_records=records, host_spans=calls), {0: "a", 1: "a", 2: "b", 3: "b"}, 4)
    offsets = dict(zip(aligned.clocks["host"], aligned.clocks["offset_ns"], strict=True))
    assert offsets["a"] - offsets["b"] == 1000
