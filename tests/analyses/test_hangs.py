"""Who did not enter an operation that never ended: cases decided by reading them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from tests.builders.frames import frame
from tracelab.analyses.hangs import ANALYSIS, Params
from tracelab.analysis import AnalysisResult
from tracelab.results import Evidence, Finding
from tracelab.tables import TABLES

Row = Mapping[str, Any]
MINUTES = 600 * 10**9


class Given:
    """The protocol `tracelab.analysis.Tables` over rows."""

    def __init__(self, world: int, **rows: Iterable[Row]) -> None:
        self.memo: dict[str, object] = {}
        ranks = [{"rank": r, "host": f"h{r // 4}", "sources": "", "windows": 1, "truncated": False, "end_ns": 2000} for r in range(world)]
        sources = [{"source_id": r, "part": 0, "role": "analysed", "rank": r, "world_size": world} for r in range(world)]
        self._rows: dict[str, list[Row]] = {"ranks": list(ranks), "sources": list(sources), **{name: list(r) for name, r in rows.items()}}

    def __getitem__(self, name: str) -> pl.LazyFrame:
        return frame(TABLES[name], self._rows.get(name, ())).lazy()

    def __contains__(self, name: object) -> bool:
        return bool(self._rows.get(str(name)))

    def evidence(self, source_id: int, rank: int | None, source_ts_ns: int | None, ts_ns: int | None, text: str) -> Evidence:
        return Evidence(f"file {source_id}", rank, source_ts_ns, ts_ns, text)


def gave_up(rank: int, seq: int, *, group: str = "0", desc: str = "default_pg", elements: int = 64, **more: Any) -> list[Row]:
    """What the watchdog of one rank prints: the operation, then the group and how far the rank came."""
    base = {"origin": "watchdog", "subject_rank": rank, "timed_out": seq, "line": rank, "source_id": 99, "part": 0, "status": "timed-out", "text": ""}
    work = {**base, "operation": "all_reduce", "in_elements": elements, "out_elements": elements, "waited_ns": MINUTES}
    return [work, {**base, "group_name": group, "group_desc": desc, "last_enqueued": seq + 7, "last_completed": seq - 1, **more}]


def run(world: int, *progress: Iterable[Row], **rows: Iterable[Row]) -> AnalysisResult:
    return ANALYSIS.run(Given(world, comm_progress=[r for p in progress for r in p], **rows), Params())


def only(result: AnalysisResult) -> Finding:
    (finding,) = result.findings
    assert finding.kind == "collective_hang"
    return finding


def test_the_one_that_does_not_report_is_the_culprit() -> None:
    found = only(run(8, *(gave_up(r, 83) for r in range(8) if r != 4)))
    assert (found.ranks, found.hosts, found.confidence, found.lost_s) == ([4], ["h1"], "likely", 600.0)


def test_a_log_that_ends_before_proves_it() -> None:
    comms = [{"source_id": r, "part": 0, "rank": r, "comm": 0, "comm_rank": r, "size": 4, "state": "complete", "line": 1} for r in range(4)]
    key = [{"comm_key": 0, "size": 4, "ranks": [0, 1, 2, 3], "seen": 4, "origin": "comm-id", "name": "4"}]
    counts = {0: 90, 1: 90, 2: 82, 3: 90}
    lines = [
        {"source_id": r, "part": 0, "rank": r, "comm": 0, "seq": n, "line": n + 2, "origin": "coll-line", "operation": "all_reduce", "state": "enqueued"}
        for r, count in counts.items()
        for n in range(count)
    ]
    progress = [gave_up(r, 83) for r in (0, 1, 3)]
    found = only(run(4, *progress, communicators=comms, job_communicators=key, logged_collectives=lines))
    assert (found.ranks, found.confidence) == ([2], "proven")
    assert found.evidence[0].source == "file 2"
    assert "line 83" in found.evidence[0].text


def test_a_trace_that_launches_less_proves_it() -> None:
    records = [
        {"source_id": r, "part": 0, "rank": r, "recorded_on": "cpu_op", "group_name": "0", "group_desc": "default_pg", "group_size": 4, "ts_ns": 10 * n}
        for r, count in {0: 75, 1: 75, 2: 75, 3: 67}.items()
        for n in range(count)
    ]
    found = only(run(4, *(gave_up(r, 83) for r in (0, 1, 2)), comm_records=records))
    assert (found.ranks, found.confidence) == ([3], "proven")


def test_a_victim_in_the_middle_of_a_chain_is_not_blamed() -> None:
    """Rank 1 is missing in the group of 0 and 1 because it waits for rank 2 in the group of 1 and 2."""
    groups = [
        {"source_id": 0, "part": 0, "rank": 0, "group_name": "5", "group_desc": "a", "group_ranks": [0, 1], "size": 2},
        {"source_id": 1, "part": 0, "rank": 1, "group_name": "6", "group_desc": "b", "group_ranks": [1, 2], "size": 2},
    ]
    dump = {"origin": "flight-recorder", "status": "running", "line": 0, "part": 0, "source_id": 7, "text": ""}
    recorded = [
        {**dump, "subject_rank": 1, "group_name": "5", "group_desc": "a", "last_enqueued": 9, "last_completed": 9},
        {**dump, "subject_rank": 2, "group_name": "6", "group_desc": "b", "last_enqueued": 3, "last_completed": 3},
    ]
    result = run(4, gave_up(0, 10, group="5", desc="a"), gave_up(1, 4, group="6", desc="b"), recorded, process_groups=groups)
    assert (only(result).ranks, only(result).confidence) == ([2], "proven")


def test_an_order_that_differs_between_ranks_is_a_circle() -> None:
    groups = [{"source_id": 0, "part": 0, "rank": 0, "group_name": n, "group_desc": d, "group_ranks": [0, 1], "size": 2} for n, d in (("5", "a"), ("6", "b"))]
    dump = {"origin": "flight-recorder", "status": "running", "line": 0, "part": 0, "source_id": 7, "text": ""}
    recorded = [
        {**dump, "subject_rank": 1, "group_name": "5", "group_desc": "a", "last_enqueued": 9, "last_completed": 9},
        {**dump, "subject_rank": 0, "group_name": "6", "group_desc": "b", "last_enqueued": 3, "last_completed": 3},
    ]
    found = only(run(2, gave_up(0, 10, group="5", desc="a"), gave_up(1, 4, group="6", desc="b"), recorded, process_groups=groups))
    assert (found.ranks, found.confidence) == ([0, 1], "possible")
    assert "order" in found.summary


def test_a_size_that_differs_is_named() -> None:
    found = only(run(4, *(gave_up(r, 10, elements=64 if r != 2 else 65) for r in range(4))))
    assert (found.ranks, found.confidence) == ([2], "likely")


def test_nobody_is_blamed_where_all_entered_or_most_are_silent() -> None:
    assert only(run(4, *(gave_up(r, 10) for r in range(4)))).ranks == []
    assert only(run(8, gave_up(0, 10))).ranks == []
    assert only(run(8, gave_up(0, 10), gave_up(1, 10))).ranks == []


def dump(rank: int, enqueued: int, completed: int) -> list[Row]:
    base = {"origin": "flight-recorder", "status": "running", "line": 0, "part": 0, "source_id": rank, "text": "", "rank": rank}
    return [{**base, "group_name": "0", "group_desc": "default_pg", "last_enqueued": enqueued, "last_completed": completed}]


def test_dumps_alone_show_a_standstill() -> None:
    found = only(run(4, *(dump(r, 90 if r != 2 else 82, 82) for r in range(4))))
    assert (found.ranks, found.confidence, found.lost_s) == ([2], "possible", 0.0)


def test_groups_of_one_description_are_told_apart_by_name() -> None:
    """All four ranks are in two groups called dp: rank 2 does not enter operation 83 of the one, and the other one is healthy."""
    rows = [
        {**row, "group_name": name, "group_desc": "dp"} for r in range(4) for name in ("1", "2") for row in dump(r, 82 if (name, r) == ("1", 2) else 90, 82)
    ]
    rows = [{**row, "last_enqueued": 90, "last_completed": 90} if row["group_name"] == "2" else row for row in rows]
    groups = [
        {"source_id": r, "part": 0, "rank": r, "group_name": n, "group_desc": "dp", "group_ranks": [0, 1, 2, 3], "size": 4} for r in range(4) for n in "12"
    ]
    found = only(run(4, rows, process_groups=groups))
    assert found.ranks == [2]
    assert "dp (group 1)" in found.summary


def test_dumps_of_a_job_that_runs_show_none() -> None:
    assert run(4, *(dump(r, 90 - r, 82 - r) for r in range(4))).findings == (), "each ended another one last"
    assert run(4, *(dump(r, 90, 82) for r in range(4))).findings == (), "all entered"
    assert run(8, *(dump(r, 90 if r else 82, 82) for r in range(4))).findings == (), "half of the dumps are missing"


def captured(launched: dict[int, int], ran: dict[int, int]) -> dict[str, list[dict[str, Any]]]:
    """Records of launches, number n at 10·n ns, and the kernels that ran, joined by external id; captures end at 2,000 ns."""
    base = {"part": 0, "kind": "kernel", "clamped": False}
    group = {"recorded_on": "cpu_op", "group_name": "0", "group_desc": "default_pg", "group_size": len(launched), "operation": "allreduce"}
    records: list[dict[str, Any]] = [
        {**group, "source_id": r, "rank": r, "part": 0, "external_id": n, "ts_ns": 10 * n} for r, count in launched.items() for n in range(count)
    ]
    kernels: list[dict[str, Any]] = [
        {**base, "source_id": r, "rank": r, "external_id": n, "ts_ns": 10 * n, "name": "nccl"} for r, count in ran.items() for n in range(count)
    ]
    return {"comm_records": records, "gpu_spans": kernels}


def test_captures_that_end_with_work_that_never_ran() -> None:
    found = only(run(4, **captured({0: 75, 1: 75, 2: 67, 3: 75}, dict.fromkeys(range(4), 67))))
    assert (found.ranks, found.hosts, found.confidence) == ([2], ["h0"], "likely")
    assert "all_reduce number 68 of the capture" in found.summary


def test_captures_that_end_in_step_or_early_hold_no_hang() -> None:
    everywhere = dict.fromkeys(range(4), 67)
    assert run(4, **captured(dict.fromkeys(range(4), 75), everywhere)).findings == (), "work on its way on all ranks"
    assert run(4, **captured({0: 75, 1: 75, 2: 60, 3: 75}, {**everywhere, 2: 60})).findings == (), "one capture ends early"
    assert run(4, **captured(everywhere, everywhere)).findings == ()
    assert run(4, **captured({0: 67, 1: 75, 2: 67, 3: 67}, everywhere)).findings == (), "a single rank with lost kernels"


def test_captures_that_end_at_different_moments_hold_no_hang() -> None:
    """Rank 2 launches each operation 5 ns after the others; its capture ends before it could be missed, or long after."""
    late = captured({0: 75, 1: 75, 2: 67, 3: 75}, dict.fromkeys(range(4), 67))
    late["comm_records"] = [r | {"ts_ns": r["ts_ns"] + 5} if r["rank"] == 2 else r for r in late["comm_records"]]

    def found(end: int) -> tuple[Finding, ...]:
        ends = [{**row, "end_ns": end if row["rank"] == 2 else 2000} for row in Given(4)["ranks"].collect().iter_rows(named=True)]
        return run(4, **late, ranks=ends).findings

    assert found(600) == (), "before the others launched number 68 at 670 ns"
    assert found(670 + 15) == (), "three times as late as ever before"
    assert [f.ranks for f in found(670 + 16)] == [[2]]


def test_a_capture_that_began_later_tells_nothing() -> None:
    """Rank 3 launches as the others do, but its capture begins with the fourth operation: it holds fewer, and misses none."""
    records = [
        {"source_id": r, "part": 0, "rank": r, "recorded_on": "cpu_op", "group_name": "0", "group_desc": "default_pg", "group_size": 4, "ts_ns": 10 * n}
        for r in range(4)
        for n in range(3 if r == 3 else 0, 75)
    ]
    found = only(run(4, *(gave_up(r, 83) for r in (0, 1, 2)), comm_records=records))
    assert (found.ranks, found.confidence) == ([3], "likely"), "it alone does not report"
    assert not any("launches" in e.text for e in found.evidence)


def logged(counts: Mapping[int, int], **source: object) -> dict[str, list[dict[str, Any]]]:
    """Logs of the operations of one communicator of all ranks; `source`: columns of the sources of those with fewer operations."""
    world, most = len(counts), max(counts.values())
    comms = [{"source_id": r, "part": 0, "rank": r, "comm": 0, "comm_rank": r, "size": world, "state": "complete", "line": 1} for r in counts]
    line = {"part": 0, "comm": 0, "origin": "coll-line", "operation": "all_reduce", "state": "enqueued"}
    lines = [{**line, "source_id": r, "rank": r, "seq": n, "line": n + 2} for r, count in counts.items() for n in range(count)]
    sources = [{"source_id": r, "part": 0, "role": "log", "rank": r, "world_size": world, "truncated": False} for r in counts]
    sources = [{**row, **(source if counts[r] < most else {})} for r, row in enumerate(sources)]
    keys = [{"comm_key": 0, "size": world, "ranks": list(counts), "seen": world, "origin": "comm-id", "name": str(world)}]
    return {"communicators": comms, "job_communicators": keys, "logged_collectives": lines, "sources": sources}


def blamed(result: AnalysisResult) -> tuple[list[int], str, bool]:
    found = only(result)
    return found.ranks, found.confidence, any("never follows" in e.text for e in found.evidence)


def test_a_log_that_was_cut_or_holds_no_operation_tells_nothing() -> None:
    three = [gave_up(r, 83) for r in (0, 1, 3)]
    counts = {0: 90, 1: 90, 2: 82, 3: 90}
    assert blamed(run(4, *three, **logged(counts))) == ([2], "proven", True)
    assert blamed(run(4, *three, **logged(counts, truncated=True))) == ([2], "likely", False), "it alone keeps silent"
    assert blamed(run(4, *three, **logged({**counts, 2: 0}))) == ([2], "likely", False)
    two = [gave_up(r, 83) for r in (0, 1)]
    assert blamed(run(4, *two, **logged(counts)))[:2] == ([2], "likely"), "rank 3 is silent too: the log alone shows it"
    assert blamed(run(4, *two, **logged({**counts, 2: 0})))[:2] == ([2], "possible"), "the only one that nothing tells of"


def test_operations_that_the_library_counts_otherwise_are_not_compared() -> None:
    """Each all-to-all is many sends: logs hold 60 operations where the framework counts 90, and 58 of a rank that is elsewhere."""
    two = [gave_up(r, 83) for r in (0, 1)]
    assert blamed(run(4, *two, **logged({0: 60, 1: 60, 2: 58, 3: 60})))[0] == []
    assert blamed(run(4, *two, **logged({0: 120, 1: 120, 2: 82, 3: 120})))[0] == []


def test_lines_that_name_no_rank_are_of_the_process_whose_file_it_is() -> None:
    """`[Rank r]` counts in a group that the line does not name: it is the file that tells the rank, where it holds one process alone."""
    unnamed = [{**row, "subject_rank": None, "rank": r, "source_id": r} for r in (0, 1, 3) for row in gave_up(r, 83)]
    assert only(run(4, unnamed)).ranks == [2]
    shared = [{**row, "source_id": 0, "part": row["rank"]} for row in unnamed]
    sources = [{"source_id": 0, "part": r, "role": "analysed", "rank": r, "world_size": 4} for r in range(4)]
    assert run(4, shared, sources=sources).findings == ()


def work(rank: int, operation: str, elements: int = 64) -> list[Row]:
    first, second = gave_up(rank, 10, elements=elements)
    return [{**first, "operation": operation}, second]


def test_uneven_sizes_of_operations_that_may_be_uneven_are_no_fault() -> None:
    for operation in ("all_to_all", "gather", "scatter"):
        assert only(run(4, *(work(r, operation, 64 + (r == 2)) for r in range(4)))).ranks == []


def test_another_operation_under_the_same_number_is_named() -> None:
    found = only(run(4, *(work(r, "all_gather" if r == 1 else "all_reduce") for r in range(4))))
    assert (found.ranks, found.confidence) == ([1], "likely")
    assert "rank 1 entered all_gather where the others entered all_reduce" in found.summary
    split = only(run(4, *(work(r, "all_gather" if r < 2 else "all_reduce") for r in range(4))))
    assert (split.ranks, split.confidence) == ([], "possible")
    assert "different operations under this number: all_gather and all_reduce" in split.summary


def test_no_watchdog_no_hang() -> None:
    progress = [{"origin": "flight-recorder", "status": "ok", "subject_rank": 0, "last_enqueued": 3, "line": 0, "part": 0, "source_id": 0, "text": ""}]
    assert run(2, progress).findings == ()
