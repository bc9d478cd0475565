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
    assert (f.kind, f.severity, f.ranks, f.confidence) == ("exposed_communication", "critical", [], "possible")
    assert f.lost_s == pytest.approx(0.125)
    assert "all_reduce" in f.summary


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
