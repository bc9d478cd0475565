"""Traffic classes on networks made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.network import G, Row, answer, asked, counts, link, star, uses
from tracelab.analyses.network.classes import ANALYSIS
from tracelab.analysis import AnalysisResult


def _bytes(series: int, priority: int, per_s: float, **more: Any) -> list[Row]:
    return counts(series, "h0", "ens1", "priority_bytes", [per_s] * 10, "tx", priority=priority, **more)


def _pauses(series: int, priority: int, frames: float = 0, port: str = "ens1") -> list[Row]:
    return counts(series, "h0", port, "pfc_pause_frames", [frames] * 10, "tx", priority=priority)


def _run(rates: list[Row]) -> AnalysisResult:
    return answer(ANALYSIS, **star(2), counter_rates=rates)


def test_bytes_in_the_lossless_class_are_well() -> None:
    """Priority 3 carries 9 of 10 GB/s and has pause counters; the adapter has none of priority 0."""
    result = _run(_bytes(1, 3, 9 * G) + _bytes(2, 0, G) + _pauses(3, 3, 2))
    frame = result.frames["traffic_classes"].sort("traffic_class")
    rows = frame.select("traffic_class", "bytes", "share", "lossless", "pause_frames", "mainly", "doubtful").rows()
    assert rows == [(0, 1e10, 0.1, False, None, False, False), (3, 9e10, 0.9, True, 20.0, True, False)]
    assert result.answer == "Most bytes of 1 port travel in priority 3 (90.0 GB), which has flow control."
    assert asked(result) == []


def test_bytes_outside_the_lossless_class_are_told() -> None:
    result = _run(_bytes(1, 0, 9 * G) + _bytes(2, 3, G) + _pauses(3, 3))
    assert result.frames["traffic_classes"].filter("doubtful")["traffic_class"].to_list() == [0]
    assert result.answer.startswith("h0 mlx5_0 carried 90.0 % of the bytes in priority 0, which has no flow control, while another priority has")


def test_a_little_traffic_outside_it_is_not() -> None:
    """Less than a gigabyte in all: management."""
    result = _run(_bytes(1, 0, 9e7) + _pauses(3, 3))
    assert not result.frames["traffic_classes"]["doubtful"].any()


def test_a_port_that_counts_pauses_of_all_priorities_says_nothing_of_them() -> None:
    """A switch lists eight zeros whatever is enabled; a frame that was sent does tell."""
    silent = _run(_bytes(1, 0, 9 * G) + [r for p in range(8) for r in _pauses(10 + p, p)])
    assert set(silent.frames["traffic_classes"]["lossless"]) == {None}
    assert silent.answer.endswith("of which flow control is not known.")
    assert asked(silent) == ["Is the class that carries the bytes lossless?"]
    told = _run(_bytes(1, 0, 9 * G) + [r for p in range(8) for r in _pauses(10 + p, p, frames=5 * (p == 3))])
    assert told.frames["traffic_classes"].filter(traffic_class=0)["lossless"].to_list() == [False]
    assert told.frames["traffic_classes"].filter("doubtful").height == 1


def test_without_counters_of_pauses_flow_control_is_not_known() -> None:
    result = _run(_bytes(1, 0, 9 * G))
    assert result.frames["traffic_classes"].select("lossless", "doubtful").rows() == [(None, False)]
    assert asked(result) == ["Is the class that carries the bytes lossless?"]


@pytest.mark.parametrize(("queue", "number", "way"), [("UC3", 3, "tx"), ("MC10", 10, "tx"), ("PG4", 4, "rx"), ("3", 3, "tx")])
def test_queues_by_name(queue: str, number: int, way: str) -> None:
    result = _run(counts(1, "leaf1", "E0", "queue_bytes", [G] * 10, queue=queue))
    assert result.frames["traffic_classes"].select("counted_as", "traffic_class", "direction", "bytes").rows() == [("queue", number, way, 1e10)]


def test_drops_in_a_lossless_class() -> None:
    rates = counts(1, "leaf1", "E0", "queue_bytes", [G] * 10, queue="UC3", direction="tx")
    rates += counts(2, "leaf1", "E0", "queue_drop_packets", [7] * 10, queue="UC3", direction="tx")
    rates += counts(3, "leaf1", "E0", "pfc_pause_frames", [1] * 10, "tx", priority=3)
    result = _run(rates)
    assert result.frames["traffic_classes"].select("drops", "lossless").rows() == [(70.0, True)]
    assert result.answer == "leaf1 E0 dropped 70 packets of queue 3, which should be lossless."


def test_a_reset_or_a_gap_makes_neither_bytes_nor_drops() -> None:
    for flag in ("reset", "gap"):
        rates = _bytes(1, 3, 9 * G, odd=dict.fromkeys(range(10), flag))
        rates += counts(2, "h0", "ens1", "queue_drop_packets", [0, 5000, 0], "tx", priority=3, odd={1: flag}) + _pauses(3, 3)
        result = _run(rates)
        assert result.frames["traffic_classes"].select("bytes", "drops", "doubtful").rows() == [(None, 0.0, False)]


def test_ports_of_others_are_listed_not_judged() -> None:
    links = [link(0, "h1", "E1"), link(1, "h0", "E0")]
    rates = _bytes(1, 0, 9 * G) + _pauses(3, 3)
    result = answer(ANALYSIS, links=links, endpoints=[uses(0, "h1", 0)], counter_rates=rates)
    assert not result.frames["traffic_classes"]["doubtful"].any()
    assert result.answer == "No port that counts by class is known to be of the job."


def test_where_nothing_counts_by_class_it_is_silent() -> None:
    result = _run(counts(1, "h0", "ens1", "bytes", [G] * 10, "tx"))
    assert result.answer == "Not collected: no source holds counters by priority or queue of the time of the captures."
    assert asked(result) == ["What do counters by priority or queue say?"]
    assert not result.frames
