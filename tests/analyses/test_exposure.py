from __future__ import annotations

from typing import Any

import pytest

from tests.builders.ddp import MS, US, Job
from tests.builders.frames import Row, gpu, host, parsed, record, step
from tests.builders.run import findings, outcomes
from tracelab.results import Finding

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"


def _found(rows: dict[str, list[Row]], ranks: int = 4) -> list[Finding]:
    return findings(outcomes(parsed(**rows), dict.fromkeys(range(ranks), "a")))


def _rows() -> dict[str, list[Row]]:
    return {"gpu_spans": [], "host_spans": [], "comm_records": []}


def _kernel(rows: dict[str, list[Row]], rank: int, start: int, end: int, name: str = "gemm", launch: int | None = None, **more: Any) -> int:
    c = len(rows["gpu_spans"]) + 1
    rows["gpu_spans"].append(gpu(rank, start, end - start, name, correlation=c, **more))
    rows["host_spans"].append(host(rank, start - 5 * US if launch is None else launch, 4 * US, "cudaLaunchKernel", "runtime", correlation=c))
    return c


def _reduce(
    rows: dict[str, list[Row]], rank: int, start: int, end: int, operation: str = "allreduce", members: tuple[int, ...] = (0, 1, 2, 3), name: str = REDUCE
) -> None:
    c = _kernel(rows, rank, start, end, name, stream=20)
    rows["comm_records"].append(record(rank, start, end - start, operation, list(members), correlation=c, in_elements=1000))


def test_gradients_summed_after_all_compute_could_have_been_hidden() -> None:
    rows = _rows()
    for rank in range(4):
        for n in range(5):
            at = n * 100 * MS
            rows["host_spans"].append(step(rank, n, at, 100 * MS))
            _kernel(rows, rank, at + 10 * US, at + 70 * MS)
            _reduce(rows, rank, at + 70 * MS, at + 95 * MS)
            _kernel(rows, rank, at + 95 * MS, at + 100 * MS)
    (f,) = _found(rows)
    assert (f.kind, f.severity, f.ranks, f.confidence) == ("exposed_communication", "major", [], "possible")
    # 25 ms in one operation, of which the last piece (a quarter) cannot be hidden, and the rest slows compute by a tenth.
    assert f.lost_s == pytest.approx(5 * 0.025 * 0.75 * 0.9)
    assert f.lost_s_low == pytest.approx(5 * 0.025 * 0.75 * 0.5)
    assert f.lost_s_high == pytest.approx(0.125)
    assert "all_reduce" in f.summary
    assert "16.9 ms per step" in f.summary


def test_the_last_bucket_cannot_be_hidden() -> None:
    rows = _rows()
    for rank in range(4):
        for n in range(5):
            at = n * 100 * MS
            rows["host_spans"].append(step(rank, n, at, 100 * MS))
            _kernel(rows, rank, at + 10 * US, at + 70 * MS)
            for k, (start, end) in enumerate(((70, 75), (75, 80), (80, 85), (85, 95))):
                _reduce(rows, rank, at + start * MS, at + end * MS, "allreduce" if k else "reduce_scatter")
            _reduce(rows, rank, at + 95 * MS, at + 95 * MS + 20 * US)  # a norm: nobody would call it the last bucket
            _kernel(rows, rank, at + 96 * MS, at + 100 * MS)
    (f,) = _found(rows)
    assert f.kind == "exposed_communication"
    # 25 ms stand in the open; the last of the large ones has 10, the norm 0.02.
    assert f.lost_s == pytest.approx(5 * 0.01502 * 0.9)
    assert f.lost_s_low == pytest.approx(5 * 0.01502 * 0.5)
    assert f.lost_s_high == pytest.approx(5 * 0.02502)


def test_compute_can_hide_no_more_than_it_lasts() -> None:
    rows = _rows()
    for rank in range(4):
        for n in range(5):
            at = n * 100 * MS
            rows["host_spans"].append(step(rank, n, at, 100 * MS))
            _kernel(rows, rank, at + 10 * US, at + 20 * MS + 10 * US)
            for k in range(4):
                _reduce(rows, rank, at + (20 + 20 * k) * MS + 10 * US, at + (40 + 20 * k) * MS, "reduce_scatter")
    (f,) = _found(rows)
    # The last of four transfers of 20 ms is left out, and of the other 60 ms the 20 ms of compute could hide 20.
    assert f.lost_s == pytest.approx(5 * 0.02 * 0.9)


def test_results_that_are_needed_at_once_cannot_be_hidden() -> None:
    for operation, name in (("all_to_all", "ncclDevKernel_SendRecv(x)"), ("allreduce", REDUCE)):
        rows = _rows()
        for rank in range(4):
            for n in range(3):
                at = n * 100 * MS
                rows["host_spans"].append(step(rank, n, at, 100 * MS))
                for k in range(10):  # compute and communication in turns, as tensor and expert parallelism have them
                    _kernel(rows, rank, at + k * 10 * MS + 10 * US, at + k * 10 * MS + 7 * MS)
                    _reduce(rows, rank, at + k * 10 * MS + 7 * MS, at + k * 10 * MS + 10 * MS, operation, name=name)
        assert _found(rows) == []


def test_what_may_be_wait_is_no_finding_but_a_question() -> None:
    rows = _rows()
    for n in range(5):
        at = n * 100 * MS
        rows["host_spans"].append(step(0, n, at, 100 * MS))
        _kernel(rows, 0, at + 10 * US, at + 70 * MS)
        _reduce(rows, 0, at + 70 * MS, at + 100 * MS)
    results = outcomes(parsed(**rows), {0: "a"})
    assert findings(results) == []
    result = results["exposure"].result
    assert result is not None
    assert [q.question for q in result.not_observable] == ["Are exposed collectives slow, or do they wait for a rank?"]


@pytest.mark.parametrize(("late", "starved"), [(5 * US, True), (600 * US, False)])
def test_gaps_before_work_that_was_just_launched_are_the_launches(late: int, starved: bool) -> None:
    rows = _rows()
    for rank in range(4):
        for n in range(3):
            at = n * 10 * MS
            rows["host_spans"].append(step(rank, n, at, 10 * MS))
            for k in range(10):  # 0.5 ms of work, 0.5 ms of nothing
                start = at + k * MS + 500 * US
                _kernel(rows, rank, start, start + 500 * US, launch=start - late)
    found = _found(rows)
    assert [f.kind for f in found] == (["launch_bound"] if starved else [])
    if starved:
        assert found[0].ranks == [0, 1, 2, 3]
        # Idle is 5 ms in each of three steps; the first gap of the run has nothing before it.
        assert found[0].lost_s == pytest.approx(15e-3, abs=0.6e-3)
        assert "stood still for 500 µs" in found[0].evidence[0].text


def test_a_loader_that_is_too_slow_everywhere() -> None:
    job = Job(loader=lambda rank, step: 15 * MS)
    (f,) = findings(outcomes(job.build(), job.hosts()))
    assert (f.kind, f.ranks) == ("input_stall", list(range(8)))
    assert f.lost_s == pytest.approx(0.15, rel=0.02)
    assert f.confidence == "likely"


def test_one_slow_loader_is_not_everybodys() -> None:
    job = Job(loader=lambda rank, step: 15 * MS if rank == 2 else 500 * US)
    assert [(f.kind, f.ranks) for f in findings(outcomes(job.build(), job.hosts()))] == [("input_stall", [2])]


def test_the_steps_of_a_loss_are_those_that_hold_it() -> None:
    job = Job(loader=lambda rank, step: 50 * MS if step in (3, 6) else 500 * US)
    (f,) = findings(outcomes(job.build(), job.hosts()))
    assert (f.kind, f.ranks, f.steps) == ("input_stall", list(range(8)), [4, 7])
    assert f.lost_s == pytest.approx(0.1, rel=0.02)
    assert "in each of 2 steps: 100 ms lost" in f.summary


def _paced(rows: dict[str, list[Row]], rank: int, start: int, count: int) -> int:
    """Kernels of 15 µs, each launched 5 µs before it starts, one every 20 µs; returns the end of the last one."""
    for k in range(count):
        _kernel(rows, rank, start + k * 20 * US, start + k * 20 * US + 15 * US)
    return start + count * 20 * US - 5 * US


def test_a_host_that_launches_nothing_is_no_slow_launcher() -> None:
    rows = _rows()
    for rank in range(4):
        for n in range(5):
            at = n * 10 * MS
            rows["host_spans"].append(step(rank, n, at, 10 * MS))
            _kernel(rows, rank, at + 10 * US, at + 4 * MS)
            _kernel(rows, rank, at + 4 * MS, at + 5 * MS, launch=at + 20 * US)
            _paced(rows, rank, at + 9 * MS, 49)
    found = _found(rows)
    assert [(f.kind, f.ranks, f.steps) for f in found] == [("host_stall", [0, 1, 2, 3], [0, 1, 2, 3, 4])]
    # From 5 ms, when the GPU has done all, to 9 ms nothing is launched.
    assert found[0].lost_s == pytest.approx(5 * 4e-3, rel=0.02)
    assert "launch nothing" in found[0].summary


def test_launches_that_are_too_slow_are_no_pause() -> None:
    rows = _rows()
    for rank in range(4):
        for n in range(5):
            rows["host_spans"].append(step(rank, n, n * 10 * MS, 10 * MS))
            _paced(rows, rank, n * 10 * MS + 5 * US, 499)
    (f,) = _found(rows)
    assert f.kind == "launch_bound"
    assert f.lost_s == pytest.approx(5 * 498 * 5e-6, rel=0.02)


def test_a_waiting_collective_hides_no_starvation() -> None:
    rows = _rows()
    for rank in range(4):
        for n in range(4):
            at = n * 10 * MS
            rows["host_spans"].append(step(rank, n, at, 10 * MS))
            for k in range(9):
                start = at + k * MS + 500 * US
                _kernel(rows, rank, start, start + 500 * US)
            # Three ranks are in the collective from the start and wait for the last one; then it moves data for 0.5 ms.
            _reduce(rows, rank, at + (9 * MS + 200 * US if rank == n % 4 else 10 * US), at + 9 * MS + 700 * US)
    (f,) = [f for f in _found(rows) if f.kind == "launch_bound"]
    # Eight gaps of 0.5 ms within each step; the one between steps holds 0.5 ms of transfer, which is no starvation.
    assert f.lost_s == pytest.approx(4 * 8 * 0.5e-3, rel=0.2)


def test_slow_copies_on_all_ranks() -> None:
    job = Job(copy=lambda rank, step: 12 * MS)
    (f,) = findings(outcomes(job.build(), job.hosts()))
    assert (f.kind, f.ranks, f.confidence) == ("memory_copy", list(range(8)), "likely")
    assert f.lost_s == pytest.approx(0.12)
    assert "Memcpy HtoD" in f.evidence[0].text


@pytest.mark.parametrize(("size", "lost_ms"), [(24_000_000, 8.0), (120_000_000, None)])
def test_a_copy_at_the_speed_of_its_link_is_no_loss(size: int, lost_ms: float | None) -> None:
    rows = _rows()
    for rank in range(4):
        for n in range(4):
            at = n * 100 * MS
            rows["host_spans"].append(step(rank, n, at, 100 * MS))
            _kernel(rows, rank, at + 20 * US, at + 10 * MS + 20 * US, "Memcpy HtoD (Pageable -> Device)", kind="memcpy", bytes=size)
            _kernel(rows, rank, at + 10 * MS + 20 * US, at + 100 * MS, launch=at + 30 * US)
    found = _found(rows)
    assert [f.kind for f in found] == ([] if lost_ms is None else ["memory_copy"])
    if lost_ms is not None:  # 24 MB at 12 GB/s need 2 of 10 ms
        assert found[0].lost_s == pytest.approx(4 * lost_ms * 1e-3)
