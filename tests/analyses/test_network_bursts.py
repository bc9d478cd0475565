"""Queues and sampling on networks made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.network import G, Row, S, answer, asked, level, link, star, uses
from tracelab.analyses.network.bursts import ANALYSIS
from tracelab.analysis import AnalysisResult

MEGABYTE = 10**6


def _mark(series: int, port: str, amount: float, **more: Any) -> Row:
    return level(series, "leaf1", port, "queue_watermark_bytes", amount, **{"queue": "UC3", "direction": "tx", "unit": "byte", "node_kind": "switch", **more})


def _reads(every: float, until: float = 10, counter: str = "bytes", series: int = 50) -> list[Row]:
    """Samples of a byte counter, `every` seconds."""
    times = [n * every for n in range(int(until / every) + 1)]
    return [level(series, "h0", "ens1", counter, n * G, at=t, kind="counter", direction="tx") for n, t in enumerate(times)]


def _transfers(ms: float) -> list[Row]:
    length = int(ms * 1e6)
    return [
        {"match_id": n, "group_id": 0, "operation": "all_reduce", "last_start_ns": n * S, "end_ns": n * S + length, "transfer_ns": length} for n in range(10)
    ]


def _run(counters: list[Row], **rows: Any) -> AnalysisResult:
    return answer(ANALYSIS, **{**star(4), **rows}, counters=counters)


def test_a_watermark_in_bytes_and_in_time_of_its_link() -> None:
    """5 MB at 400 Gbit/s are 100 µs; the peers' median over 5, 1, 1 and 1 MB is 1."""
    result = _run([_mark(1, "E0", 3 * MEGABYTE), _mark(1, "E0", 5 * MEGABYTE, ts_ns=7 * S), *(_mark(n + 1, f"E{n}", MEGABYTE) for n in (1, 2, 3))])
    row = result.frames["queue_fill"].filter(link=0).row(0, named=True)
    assert (row["bytes"], row["us"], row["times_peers"], row["samples"], row["in_captures"]) == (5e6, pytest.approx(100), pytest.approx(5), 2, True)
    assert result.answer.startswith("The fullest queue reached 5.00 MB (leaf1 E0 UC3), 100 µs of its link.")
    assert asked(result) == [], "a watermark holds bursts of any length"


@pytest.mark.parametrize(("at", "within", "words"), [(-3.0, False, "before or after the captures"), (None, None, "at a moment that is not known")])
def test_a_watermark_of_another_time_is_marked(at: float | None, within: bool | None, words: str) -> None:
    result = _run([_mark(1, "E0", MEGABYTE, ts_ns=None if at is None else int(at * S))])
    assert result.frames["queue_fill"]["in_captures"].to_list() == [within]
    assert words in result.answer
    assert asked(result) == ["Did bursts fill the queues?"]


def test_without_a_speed_there_are_bytes_alone() -> None:
    result = _run([_mark(1, "E0", MEGABYTE)], **star(4, speed=None))
    assert result.frames["queue_fill"].select("bytes", "us").rows() == [(1e6, None)]
    assert result.answer.startswith("The fullest queue reached 1.00 MB (leaf1 E0 UC3).")


@pytest.mark.parametrize(
    ("every", "steps", "transfers", "words"),
    [
        (1.0, False, False, "neither single steps nor bursts can be seen"),
        (0.5, True, False, "what differs between steps can be seen, bursts inside a collective cannot"),
        (0.01, True, True, "bursts longer than that can be seen"),
    ],
)
def test_what_the_sampling_can_show(every: float, steps: bool, transfers: bool, words: str) -> None:
    """Steps of 1 s, transfers of 20 ms: two samples in each are needed to see it."""
    result = _run(_reads(every), matches=_transfers(20))
    row = result.frames["sampling"].row(0, named=True)
    assert row["period_ns"] == pytest.approx(every * S)
    assert (row["step_ns"], row["transfer_ns"], row["shows_steps"], row["shows_transfers"], row["keeps_peaks"]) == (S, 2e7, steps, transfers, False)
    assert words in result.answer
    assert asked(result) == ["Did bursts fill the queues?"]


def test_streams_below_a_burst_leave_no_question() -> None:
    assert asked(_run(_reads(5e-5, until=0.01), matches=_transfers(20))) == []


def test_two_snapshots_around_the_captures_have_a_period() -> None:
    rows = [level(1, "h0", "ens1", "bytes", 1, at=t, kind="counter") for t in (-5, 15)]
    assert _run(rows).frames["sampling"]["period_ns"].to_list() == [20 * S]


def test_one_snapshot_has_none() -> None:
    result = _run([level(1, "h0", "ens1", "bytes", 1, kind="counter")])
    assert result.frames["sampling"]["period_ns"].to_list() == [None]
    assert "is not known" in result.answer


def test_a_queue_of_others_is_listed_not_named() -> None:
    links = [link(0, "h0", "E0"), link(1, "x1", "E1")]
    result = _run([_mark(1, "E1", 90 * MEGABYTE)], links=links, endpoints=[uses(0, "h0", 0)])
    assert result.frames["queue_fill"]["used"].to_list() == [False]
    assert result.answer.startswith("No fill of a queue of the job's ports was collected.")


def test_counters_of_something_else_alone_are_not_collected() -> None:
    assert _run([level(1, "h0", "0", "vendor.fan", 5, at=None)]).answer.startswith("Not collected")
