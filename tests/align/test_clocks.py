from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.builders.frames import Row, gpu, host, parsed, record, step
from tracelab.align import Aligned, align

US, MS, S = 1_000, 1_000_000, 1_000_000_000
T0 = 1_700_000_000 * S
ALL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def _job(
    offsets: list[int],
    ppm: list[float] | None = None,
    *,
    count: int = 200,
    jitter: int = 4 * US,
    jump: tuple[int, int, int] | None = None,
    groups: list[list[int]] | None = None,
    steps: bool = False,
    straggler: int = 0,
) -> Aligned:
    """One rank per host, all-reduces every 20 to 60 ms; clock of host h = true + offset + drift, set by `jump` (host, at n, ns)."""
    random = np.random.default_rng(3)
    world = len(offsets)
    at = T0
    begins: list[tuple[int, int]] = []
    rows: list[Row] = []
    records: list[Row] = []
    spans: list[Row] = []

    def local(h: int, t: int, n: int) -> int:
        moved = jump[2] if jump is not None and (h, n) >= (jump[0], jump[1]) and h == jump[0] else 0
        return t + offsets[h] + round((ppm[h] if ppm else 0.0) * 1e-6 * (t - T0)) + moved

    for n in range(count):
        began = at
        at += int(random.integers(20 * MS, 60 * MS))
        for members in groups or [list(range(world))]:
            for h in members:
                start = local(h, at - int(random.integers(0, 5 * MS)) + (straggler if h == world - 1 else 0), n)
                end = local(h, at + max(straggler, 0) + 2 * MS + int(random.integers(0, jitter)), n)
                rows.append(gpu(h, start, end - start, ALL, correlation=n + 1))
                spans.append(host(h, start - 100 * US, US, "cudaLaunchKernel", "runtime", correlation=n + 1))
                records.append(record(h, start, end - start, "allreduce", members, correlation=n + 1))
        begins.append((n, began))
    if steps:
        for (n, began), (after, over) in zip(begins[:-5:5], begins[5::5], strict=False):
            spans.extend(step(h, n // 5, local(h, began, n), local(h, over, after) - local(h, began, n)) for h in range(world))
    return align(parsed(gpu_spans=rows, comm_records=records, host_spans=spans), {h: f"host{h}" for h in range(world)})


def _error_us(aligned: Aligned, offsets: list[int], ppm: list[float] | None = None, after: int = 0) -> float:
    """Largest error of the clocks at T0 + `after`, relative to their median, µs: added + true offset must be the same everywhere."""
    rest = []
    for h, offset in enumerate(offsets):
        c = aligned.clocks.filter(pl.col("host") == f"host{h}").row(0, named=True)
        own = T0 + after + offset
        added = c["offset_ns"] + c["drift_ppm"] * 1e-6 * (own - c["start_ns"])
        rest.append(added + offset + (ppm[h] if ppm else 0.0) * 1e-6 * after)
    return float(np.abs(np.array(rest) - np.median(rest)).max()) / US


def test_offsets_of_seconds_are_found_within_microseconds() -> None:
    offsets = [0, 3 * S, -2 * S + 123, 17 * MS]
    aligned = _job(offsets)
    assert _error_us(aligned, offsets) < 2
    assert set(aligned.clocks["method"]) == {"collective-ends"}
    assert set(aligned.clocks["grade"]) == {"A"}
    assert abs(sum(aligned.clocks["offset_ns"].to_list())) < 10 * US


def test_drift_is_found() -> None:
    offsets, ppm = [0, 5 * MS, -4 * MS], [12.0, -18.0, 3.0]
    aligned = _job(offsets, ppm)
    found = aligned.clocks.sort("host")["drift_ppm"].to_numpy()
    assert np.abs((found + ppm) - np.mean(found + ppm)).max() < 0.3
    for after in (0, 4 * S, 8 * S):
        assert _error_us(aligned, offsets, ppm, after) < 4


def test_drift_is_taken_from_the_common_clock_though_clocks_are_seconds_apart() -> None:
    offsets, ppm = [0, 30 * S, -20 * S, 5 * S], [20.0, -20.0, 5.0, 0.0]
    aligned = _job(offsets, ppm, groups=[[0, 1], [1, 2], [2, 3], [0, 1, 2, 3]], count=100)
    # True offset of host h at the common time T0 + after is offset + ppm * after.
    for after in (0, 2 * S, 4 * S):
        rest = []
        for h, (offset, p) in enumerate(zip(offsets, ppm, strict=True)):
            c = aligned.clocks.row(h, named=True)
            own = T0 + after + offset + round(p * 1e-6 * after)
            rest.append(own + c["offset_ns"] + round(c["drift_ppm"] * 1e-6 * (own - c["start_ns"])) - T0 - after)
        assert max(rest) - min(rest) < 8 * US


def test_one_collective_is_enough_for_offsets() -> None:
    offsets = [0, 2 * MS, -7 * S]
    assert _error_us(_job(offsets, count=1), offsets) < 10


def test_a_constant_straggler_does_not_move_its_clock() -> None:
    offsets = [0, 2 * MS, -3 * MS]
    assert _error_us(_job(offsets, straggler=3 * MS), offsets) < 2


def test_the_error_is_within_the_stated_uncertainty() -> None:
    offsets = [0, 2 * MS, -3 * MS, 900 * US]
    aligned = _job(offsets, jitter=150 * US)
    assert set(aligned.clocks["grade"]) == {"B"}
    assert _error_us(aligned, offsets) * US <= min(aligned.clocks["uncertainty_ns"].to_list())


def test_few_collectives_still_give_offsets() -> None:
    offsets = [0, 2 * MS]
    aligned = _job(offsets, count=3)
    assert _error_us(aligned, offsets) < 10
    assert aligned.clocks["drift_ppm"].to_list() == [0.0, 0.0]


@pytest.mark.parametrize("size", [-40 * MS, 300 * US])
def test_a_clock_that_is_set_gets_two_pieces(size: int) -> None:
    aligned = _job([0, 2 * MS, -3 * MS], jump=(1, 90, size))
    pieces = aligned.clocks.filter(pl.col("host") == "host1")
    assert aligned.clocks.group_by("host").len().sort("host")["len"].to_list() == [1, 2, 1]
    assert pieces["offset_ns"][0] - pieces["offset_ns"][1] == pytest.approx(size, abs=20 * US)
    assert aligned.notices[0].code == "clock-jump"
    assert aligned.derived["matches"].filter(pl.col("present") == 3).height >= 196  # a few overlap where the clock goes back
    spread = aligned.derived["matches"]["end_spread_ns"].quantile(0.95)
    assert spread is not None
    assert spread < 10 * US


def test_of_two_hosts_the_one_with_the_odd_step_was_set() -> None:
    for culprit in (0, 1):
        aligned = _job([0, 2 * MS], jump=(culprit, 90, 500 * MS), steps=True)
        assert aligned.clocks.group_by("host").len().filter(pl.col("len") == 2)["host"].to_list() == [f"host{culprit}"]


def test_no_jump_is_seen_where_there_is_none() -> None:
    assert _job([0, 2 * MS, 5 * MS], [5.0, -5.0, 1.0], jitter=80 * US).clocks.height == 3


def test_hosts_without_a_link_are_left_alone_and_named() -> None:
    aligned = _job([0, 2 * MS, 7 * MS, 9 * MS], groups=[[0, 1, 2], [3]])
    last = aligned.clocks.row(3, named=True)
    assert (last["host"], last["method"], last["grade"], last["uncertainty_ns"], last["offset_ns"]) == ("host3", "none", "D", None, 0)
    assert [n.code for n in aligned.notices] == ["unaligned-host"]
    assert _error_us(aligned, [0, 2 * MS, 7 * MS]) < 2


def test_sets_of_hosts_that_nothing_links_are_not_glued() -> None:
    aligned = _job([0, 2 * MS, 7 * MS, 9 * MS, 400 * MS], groups=[[0, 1, 2], [3, 4]])
    assert aligned.clocks["method"].to_list() == ["collective-ends"] * 3 + ["none"] * 2
    assert aligned.clocks["offset_ns"].to_list()[3:] == [0, 0]
    (notice,) = aligned.notices
    assert (notice.code, notice.count) == ("unaligned-host", 2)
    assert "2 hosts ('host3', 'host4')" in notice.text
    # Who of the two came last is not told either.
    apart = aligned.derived["matches"].filter(pl.col("present") == 2)
    assert (apart.height, apart["last_by_ns"].null_count(), set(apart["last_certain"])) == (200, 200, {False})


def test_a_contradiction_names_the_hosts() -> None:
    """Hosts 0 and 1 in turn leave 600 µs before the other enters, which no clocks explain; all beside them is as it should be."""
    rows, records = [], []
    for n in range(300):
        for h in range(4):
            first, last = T0 + n * 10 * MS, T0 + n * 10 * MS + MS
            start, end = (first, last) if h > 1 else (last - 100 * US, last) if h == n % 2 else (first, last - 700 * US)
            rows.append(gpu(h, start, end - start, ALL, correlation=n + 1))
            records.append(record(h, start, end - start, "allreduce", [0, 1, 2, 3], correlation=n + 1, comms_id=str(n)))
    aligned = align(parsed(gpu_spans=rows, comm_records=records), {h: f"host{h}" for h in range(4)})
    (notice,) = [n for n in aligned.notices if n.code == "contradicting-clocks"]
    assert "'host0', 'host1' contradict each other by" in notice.text
    assert aligned.clocks.sort("host")["uncertainty_ns"].to_list()[0] > 500 * US


def test_sends_do_not_set_clocks() -> None:
    rows = [gpu(r, T0 + n * MS + r * 300 * MS, 100, "ncclDevKernel_SendRecv(x)", correlation=n + 1) for r in (0, 1) for n in range(50)]
    told = [record(r["rank"], r["source_ts_ns"], 100, ("send", "recv")[r["rank"]], [0, 1], correlation=r["correlation"], src_rank=0, dst_rank=1) for r in rows]
    aligned = align(parsed(gpu_spans=rows, comm_records=told), {0: "a", 1: "b"})
    assert aligned.derived["matches"].height == 50
    assert aligned.clocks["method"].to_list() == ["none", "none"]


def test_ranks_of_one_host_share_its_clock() -> None:
    aligned = align(parsed(gpu_spans=[gpu(0, T0, 5), gpu(1, T0, 5)]), {0: "h", 1: "h"})
    assert aligned.clocks.row(0) == ("h", T0, 0, 0.0, 5000, "single-host", "A")


def test_aligned_times_are_exact_integers_and_rows_keep_their_order() -> None:
    aligned = _job([0, 3 * S + 1], [0.0, 20.0])
    c = aligned.clocks.row(1, named=True)
    times = [T0 + 3 * S, T0 + 3 * S + 7, T0]
    frame = parsed(gpu_spans=[gpu(1, t, 5) for t in times])["gpu_spans"]
    moved = aligned.to_aligned(frame).collect()
    expected = [t + c["offset_ns"] + round(c["drift_ppm"] * 1e-6 * (t - c["start_ns"])) for t in times]
    assert moved["ts_ns"].to_list() == expected
    assert moved["source_ts_ns"].to_list() == times
    assert moved.columns == frame.collect_schema().names()


def test_a_rank_without_a_known_host_keeps_its_times() -> None:
    frame = parsed(gpu_spans=[gpu(9, T0, 5)])["gpu_spans"]
    assert _job([0, MS]).to_aligned(frame).collect()["ts_ns"].to_list() == [T0]
