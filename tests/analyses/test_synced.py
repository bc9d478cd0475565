"""Where the steps are cut for comparing ranks: hand-made steps and meetings."""

from __future__ import annotations

import polars as pl

from tracelab.analyses.synced import synced_steps

JOB = {"step": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64, "slowest_rank": pl.Int32, "spread_ns": pl.Int64}


def job(*steps: tuple[int, int, int]) -> pl.DataFrame:
    return pl.DataFrame([(*s, 0, 0) for s in steps], schema=JOB, orient="row")


def matches(*rows: tuple[int, int, int, str]) -> pl.LazyFrame:
    """step, end, ranks present, operation."""
    frame = pl.LazyFrame(rows, schema={"step": pl.Int32, "end_ns": pl.Int64, "present": pl.Int32, "operation": pl.String}, orient="row")
    return frame.with_columns(pl.col("operation").cast(pl.Categorical))


def cut(steps: pl.DataFrame, meetings: pl.LazyFrame, ranks: int = 4) -> list[tuple[int, int, int]]:
    return synced_steps(steps, meetings, ranks).select("step", "start_ns", "end_ns").rows()


def test_steps_are_cut_at_the_last_meeting_of_all() -> None:
    steps = job((5, 0, 100), (6, 100, 200), (7, 200, 300))
    meetings = matches(
        (5, 40, 4, "all_reduce"),
        (5, 90, 4, "all_reduce"),
        (6, 185, 4, "all_reduce"),
        (6, 195, 2, "all_reduce"),
        (7, 280, 4, "barrier"),
        (7, 290, 4, "broadcast"),
    )
    assert cut(steps, meetings) == [(5, 0, 90), (6, 90, 185), (7, 185, 300)]


def test_a_step_without_meeting_is_part_of_the_next() -> None:
    steps = job((0, 0, 10), (1, 10, 20), (2, 20, 30), (3, 30, 40))
    assert cut(steps, matches((1, 18, 4, "all_reduce"), (3, 38, 4, "all_reduce"))) == [(1, 0, 18), (3, 18, 40)]


def test_a_pause_between_captures_is_never_inside_a_step() -> None:
    steps = job((0, 0, 10), (1, 10, 20), (9, 500, 510), (10, 510, 520))
    meetings = matches(*((s, e, 4, "all_reduce") for s, e in ((0, 8), (1, 18), (9, 508), (10, 518))))
    assert cut(steps, meetings) == [(0, 0, 8), (1, 8, 20), (9, 500, 508), (10, 508, 520)]


def test_ranks_that_never_meet_keep_the_steps_of_the_job() -> None:
    steps = job((0, 0, 10), (1, 10, 20))
    assert cut(steps, matches((0, 8, 2, "all_reduce"), (1, 18, 2, "all_reduce"))) == [(0, 0, 10), (1, 10, 20)]
    assert cut(steps, matches((0, 8, 1, "all_reduce"), (1, 18, 1, "all_reduce")), ranks=1) == [(0, 0, 10), (1, 10, 20)]
