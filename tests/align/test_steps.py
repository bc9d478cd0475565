from __future__ import annotations

import polars as pl

from tests.builders.frames import Parsed, gpu, host, parsed, step
from tracelab.align.steps import rank_steps, step_of


def _steps(tables: Parsed) -> list[tuple[int, int, int, int, str]]:
    return rank_steps(tables["gpu_spans"], tables["host_spans"])[0].rows()


def test_a_step_ends_where_the_next_one_starts_and_the_last_with_its_gpu_work() -> None:
    tables = parsed(
        host_spans=[
            step(0, 7, 1000, 90),
            step(0, 8, 1100, 100),
            host(0, 1110, 5, "cudaLaunchKernel", "runtime", correlation=1),
            host(0, 1205, 5, "cudaLaunchKernel", "runtime", correlation=2),
        ],
        gpu_spans=[gpu(0, 1190, 60, correlation=1), gpu(0, 1300, 60, correlation=2)],
    )
    # The second kernel was launched after the annotation: it belongs to no step.
    assert _steps(tables) == [(0, 7, 1000, 1100, "annotation"), (0, 8, 1100, 1250, "annotation")]


def test_windows_far_apart_do_not_touch() -> None:
    tables = parsed(host_spans=[step(0, 1, 0, 100), step(0, 2, 100, 100), step(0, 50, 5000, 100), step(0, 51, 5100, 100)])
    assert [(s, a, b) for _, s, a, b, _ in _steps(tables)] == [(1, 0, 100), (2, 100, 200), (50, 5000, 5100), (51, 5100, 5200)]


def test_only_host_annotations_mark_steps() -> None:
    other = [host(0, 100, 50, "ProfilerStep#3", "cpu_op"), host(0, 10, 400, "ProfilerStep#9x", "annotation")]
    assert _steps(parsed(gpu_spans=[gpu(0, 20, 30, "ProfilerStep#1", "annotation"), gpu(0, 40, 60)], host_spans=other)) == [(0, 0, 40, 100, "window")]


def test_without_gpu_work_the_host_work_is_the_window() -> None:
    assert _steps(parsed(host_spans=[host(3, 10, 5), host(3, 40, 10), host(3, 0, 500, "cudaMalloc", "runtime")])) == [(3, 0, 10, 50, "window")]


def _numbered(tables: Parsed) -> tuple[list[tuple[int, int, int]], list[str]]:
    steps, notices = rank_steps(tables["gpu_spans"], tables["host_spans"])
    return steps.select("rank", "step", "start_ns").rows(), [f"{n.code} {n.count}: {n.text}" for n in notices]


def test_step_numbers_that_return_get_the_next_free_ones_and_it_is_said() -> None:
    first = [step(r, n, n * 100, 100) for r in (0, 1) for n in (1, 2, 3)]
    again = [step(r, n, 90_000 + n * 100, 100) for r in (0, 1) for n in (2, 3, 4)]
    rows, said = _numbered(parsed(host_spans=first + again))
    expected = [(n, n * 100) for n in (1, 2, 3)] + [(n + 2, 90_000 + n * 100) for n in (2, 3, 4)]
    assert rows == [(r, n, t) for r in (0, 1) for n, t in expected]
    assert said == ["repeated-steps 3: steps 2 to 4 return after steps of the same numbers: the later ones are numbered 4 to 6"]


def test_a_rank_that_was_seen_in_the_second_run_only_is_not_put_into_the_first() -> None:
    spans = [step(0, 1, 0, 100), step(0, 2, 100, 100), step(0, 1, 90_000, 100), step(0, 2, 90_100, 100), step(1, 1, 90_050, 100), step(1, 2, 90_150, 100)]
    rows, _ = _numbered(parsed(host_spans=spans))
    assert rows == [(0, 1, 0), (0, 2, 100), (0, 3, 90_000), (0, 4, 90_100), (1, 3, 90_050), (1, 4, 90_150)]


def test_an_annotation_that_is_recorded_twice_is_one_step() -> None:
    rows, said = _numbered(parsed(host_spans=[step(0, 1, 0, 100), step(0, 1, 2, 90), step(0, 2, 100, 100)]))
    assert (rows, said) == ([(0, 1, 0), (0, 2, 100)], [])


def test_without_marks_each_capture_window_is_a_step() -> None:
    windows = [(0, 0, 100), (1, 5000, 5100), (0, 40, 60)]
    spans = [gpu(0, a, b - a, source=s) for s, a, b in windows] + [gpu(1, 5010, 80, source=7)]
    # Rank 1 was seen in the second window only.
    assert _steps(parsed(gpu_spans=spans)) == [(0, 0, 0, 100, "window"), (0, 1, 5000, 5100, "window"), (1, 1, 5010, 5090, "window")]


def test_nothing_gives_nothing() -> None:
    assert _steps(parsed()) == []


def test_moments_find_their_step_and_order_is_kept() -> None:
    steps = rank_steps(parsed()["gpu_spans"], parsed(host_spans=[step(0, 1, 0, 10), step(0, 2, 10, 10), step(1, 1, 100, 10)])["host_spans"])[0]
    rows = pl.DataFrame({"rank": [1, 0, 0, 0, 1], "t": [105, 25, 12, 0, 99]}, schema={"rank": pl.Int32, "t": pl.Int64})
    assert step_of(rows, steps, "t")["step"].to_list() == [1, None, 2, 1, None]


def test_a_programs_own_numbered_ranges_mark_steps() -> None:
    marks = [host(0, n * 100, 90, f"iteration {n + 5}", "annotation") for n in range(3)]
    inner = [host(0, n * 100 + 10, 5, f"Step: {n}", "annotation") for n in range(3)]
    assert _steps(parsed(host_spans=[*marks, *inner])) == [(0, 5, 0, 100, "annotation"), (0, 6, 100, 200, "annotation"), (0, 7, 200, 290, "annotation")]


def test_the_profilers_marks_come_before_others() -> None:
    marks = [step(0, n, n * 100, 90) for n in range(2)]
    others = [host(0, n * 50, 50, f"iter_{n}", "annotation") for n in range(4)]
    assert [s for _, s, *_ in _steps(parsed(host_spans=[*marks, *others]))] == [0, 1]


def test_ranges_that_nest_or_stand_alone_mark_no_steps() -> None:
    nested = [host(0, 0, 100, "step 1", "annotation"), host(0, 10, 20, "step 2", "annotation")]
    alone = [host(1, 0, 100, "step 1", "annotation")]
    assert [origin for *_, origin in _steps(parsed(host_spans=[*nested, *alone]))] == ["window", "window"]
