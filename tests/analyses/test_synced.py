"""Where the steps are cut for comparing ranks: hand-made steps and meetings."""

from __future__ import annotations

import polars as pl

from tracelab.analyses.synced import synced_steps

JOB = {"step": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64, "slowest_rank": pl.Int32, "spread_ns": pl.Int64}


def job(*steps: tuple[int, int, int]) -> pl.DataFrame:
    return pl.DataFrame([(*s, 0, 0) for s in steps], schema=JOB, orient="row")


Meetings = tuple[pl.LazyFrame, pl.LazyFrame]


def matches(*rows: tuple[int, int, list[int], str]) -> Meetings:
    """Matches and arrivals from: step, end, ranks, operation. Rank 0 leaves 4 ns before the last one, the others with it."""
    schema = {"match_id": pl.Int64, "step": pl.Int32, "operation": pl.String}
    frame = pl.LazyFrame([(n, r[0], r[3]) for n, r in enumerate(rows)], schema=schema, orient="row").with_columns(pl.col("operation").cast(pl.Categorical))
    parts = [(n, rank, end if rank else end - 4) for n, (_, end, ranks, _) in enumerate(rows) for rank in ranks]
    return frame, pl.LazyFrame(parts, schema={"match_id": pl.Int64, "rank": pl.Int32, "end_ns": pl.Int64}, orient="row")


ALL = [0, 1, 2, 3]


def cut(steps: pl.DataFrame, meetings: Meetings, ranks: list[int] = ALL) -> list[tuple[int, int, int]]:
    return synced_steps(steps, *meetings, ranks).select("step", "start_ns", "end_ns").rows()


def test_steps_are_cut_at_the_last_meeting_of_all() -> None:
    steps = job((5, 0, 100), (6, 100, 200), (7, 200, 300))
    meetings = matches(
        (5, 40, ALL, "all_reduce"),
        (5, 90, ALL, "all_reduce"),
        (6, 185, ALL, "all_reduce"),
        (6, 195, [0, 1], "all_reduce"),
        (7, 280, ALL, "barrier"),
        (7, 290, ALL, "broadcast"),
    )
    assert cut(steps, meetings) == [(5, 0, 90), (6, 90, 185), (7, 185, 300)]


def test_a_step_without_meeting_is_part_of_the_next() -> None:
    steps = job((0, 0, 10), (1, 10, 20), (2, 20, 30), (3, 30, 40))
    assert cut(steps, matches((1, 18, ALL, "all_reduce"), (3, 38, ALL, "all_reduce"))) == [(1, 0, 18), (3, 18, 40)]


def test_a_pause_between_captures_is_never_inside_a_step() -> None:
    steps = job((0, 0, 10), (1, 10, 20), (9, 500, 510), (10, 510, 520))
    meetings = matches(*((s, e, ALL, "all_reduce") for s, e in ((0, 8), (1, 18), (9, 508), (10, 518))))
    assert cut(steps, meetings) == [(0, 0, 8), (1, 8, 20), (9, 500, 508), (10, 508, 520)]


def test_ranks_that_never_meet_keep_the_steps_of_the_job() -> None:
    steps = job((0, 0, 10), (1, 10, 20))
    assert cut(steps, matches((0, 8, [0, 1], "all_reduce"), (1, 18, [0, 1], "all_reduce"))) == [(0, 0, 10), (1, 10, 20)]
    assert cut(steps, matches((0, 8, [0], "all_reduce"), (1, 18, [0], "all_reduce")), ranks=[0]) == [(0, 0, 10), (1, 10, 20)]


def test_ranks_on_another_clock_do_not_count() -> None:
    steps = job((0, 0, 10), (1, 10, 20))
    elsewhere = matches((0, 1_000_008, [4, 5, 6, 7], "all_reduce"), (1, 1_000_018, [4, 5, 6, 7], "all_reduce"))
    assert cut(steps, elsewhere) == [(0, 0, 10), (1, 10, 20)]
