"""Pauses walked to their root, and marks beside peers, on networks made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.network import G, Row, S, answer, asked, counts, link, star, uplink, uses
from tracelab.analyses.network.pause import ANALYSIS
from tracelab.analysis import AnalysisResult


def _paused(series: int, node: str, port: str, direction: str, us: float, **more: Any) -> list[Row]:
    """A port with priority 3 paused for `us` microseconds of each of ten seconds."""
    return counts(series, node, port, "pfc_pause_us", [us] * 10, direction, priority=3, **more)


def _two_leaves() -> dict[str, list[Row]]:
    """h0 and h1 on leaf1, h2 on leaf2; leaf1 U0 – spine1 U0, leaf2 V0 – spine1 V0."""
    links = [
        link(0, "h0", "E0"),
        link(1, "h1", "E1"),
        link(2, "h2", "E0", switch="leaf2"),
        uplink(3, "leaf1", "U0", "spine1"),
        uplink(4, "leaf2", "V0", "spine1"),
    ]
    return {"links": links, "endpoints": [uses(n, f"h{n}", n) for n in range(3)]}


def _chain(result: AnalysisResult) -> list[tuple[object, ...]]:
    return result.frames["pause_chains"].select("root", "pattern", "held_node", "held_port", "hops").rows()


def test_a_slow_receiver_is_the_root_of_all_it_stops() -> None:
    """h2 stops leaf2, which stops the spine, which stops leaf1, which stops h0 and h1."""
    rates = [
        *_paused(1, "h2", "mlx5_0", "tx", 400_000),
        *_paused(2, "leaf2", "E0", "rx", 400_000),
        *_paused(3, "spine1", "V0", "rx", 300_000),
        *_paused(4, "leaf1", "U0", "rx", 200_000),
        *_paused(5, "h0", "mlx5_0", "rx", 150_000),
        *_paused(6, "h1", "mlx5_0", "rx", 100_000),
    ]
    result = answer(ANALYSIS, **_two_leaves(), counter_rates=rates)
    assert _chain(result) == [
        ("h2 mlx5_0", "slow receiver", "leaf2", "E0", 1),
        ("h2 mlx5_0", "slow receiver", "spine1", "V0", 2),
        ("h2 mlx5_0", "slow receiver", "leaf1", "U0", 3),
        ("h2 mlx5_0", "slow receiver", "h0", "mlx5_0", 4),
        ("h2 mlx5_0", "slow receiver", "h1", "mlx5_0", 4),
    ]
    roles = dict(result.frames["pause_ports"].select("node", "role").rows())
    assert roles == {"h2": "root", "leaf2": "spreads", "spine1": "spreads", "leaf1": "spreads", "h0": "victim", "h1": "victim"}
    assert result.answer.startswith("h2 mlx5_0 stops leaf2 E0, spine1 V0, leaf1 U0 and 2 more (40.0 % of the time, priority 3): a host that cannot take")
    shares = dict(result.frames["pause_ports"].select("node", "paused_share").rows())
    assert shares["spine1"] == pytest.approx(0.3)


def test_one_end_is_enough() -> None:
    """Only the receiver counts what it sends: the switch's port is the one that is stopped."""
    result = answer(ANALYSIS, **star(2), counter_rates=_paused(1, "h1", "mlx5_0", "tx", 200_000))
    assert _chain(result) == [("h1 mlx5_0", "slow receiver", "leaf1", "E1", 1)]


def test_incast_is_named_by_the_port_that_all_send_to() -> None:
    """leaf1 stops h0 and h1 while its port to h2 sends 48 of 50 GB/s and nobody stops it."""
    rates = [
        *_paused(1, "h0", "mlx5_0", "rx", 300_000),
        *_paused(2, "h1", "mlx5_0", "rx", 300_000),
        *counts(3, "leaf1", "E2", "bytes", [48 * G] * 10, "tx"),
        *counts(4, "leaf1", "E0", "bytes", [G] * 10, "tx"),
    ]
    result = answer(ANALYSIS, **star(3), counter_rates=rates)
    assert _chain(result) == [("leaf1", "incast", "h0", "mlx5_0", 1), ("leaf1", "incast", "h1", "mlx5_0", 1)]
    assert "several senders meet at leaf1 E2" in result.answer
    alone = answer(ANALYSIS, **star(3), counter_rates=rates[:10])
    assert _chain(alone) == [("leaf1", "congested switch", "h0", "mlx5_0", 1)]


def test_a_cycle_has_no_root() -> None:
    """leaf1 is stopped by the spine and the spine by leaf1."""
    rates = _paused(1, "leaf1", "U0", "rx", 900_000) + _paused(2, "spine1", "U0", "rx", 900_000)
    result = answer(ANALYSIS, **_two_leaves(), counter_rates=rates)
    assert {row[1] for row in _chain(result)} == {"cycle"}
    assert "deadlock" in result.answer


def test_healthy_pauses_are_silent() -> None:
    """Half a percent of the time, and frames below 1000 a second where no duration is counted."""
    rates = _paused(1, "h0", "mlx5_0", "rx", 5_000) + counts(2, "leaf1", "E1", "pfc_pause_frames", [900] * 10, "rx", priority=3)
    result = answer(ANALYSIS, **star(2), counter_rates=rates)
    assert "pause_chains" not in result.frames
    assert result.answer == "None of the 2 ports of the job with such counters was held up."


def test_frames_count_where_no_duration_is_collected() -> None:
    rates = counts(2, "leaf1", "E1", "pfc_pause_frames", [5000] * 10, "rx", priority=3)
    assert "h1 mlx5_0 stops leaf1 E1 (5000 pause frames a second, priority 3)" in answer(ANALYSIS, **star(2), counter_rates=rates).answer


def test_a_reset_or_a_gap_makes_no_pause() -> None:
    for flag in ("reset", "gap"):
        rates = counts(1, "h0", "mlx5_0", "pfc_pause_us", [0, 0, 9e6, 0], "rx", priority=3, odd={2: flag})
        result = answer(ANALYSIS, **star(2), counter_rates=rates)
        assert result.answer.startswith("None of the 1 port")
        assert result.frames["pause_ports"].select("paused_us", "left_out").rows() == [(0.0, 1)]


def test_a_port_of_another_job_is_not_judged() -> None:
    links = [link(0, "h0", "E0"), link(1, "x1", "E1")]
    result = answer(ANALYSIS, links=links, endpoints=[uses(0, "h0", 0)], counter_rates=_paused(1, "x1", "mlx5_0", "tx", 900_000))
    assert result.frames["pause_ports"].select("used", "heavy", "role").rows() == [(False, False, None)]
    assert result.answer == "No port with such counters is known to be of the job."


def _waiting(ticks: list[float], moved: float = 10 * G, **more: Any) -> list[Row]:
    out = []
    for n, count in enumerate(ticks):
        out += counts(10 + n, f"h{n}", "mlx5_0", "xmit_wait_ticks", [count] * 10, "tx", **more)
        out += counts(30 + n, f"h{n}", "mlx5_0", "bytes", [moved] * 10, "tx")
    return out


def test_waiting_is_judged_beside_peers_and_by_what_it_costs() -> None:
    """200e6 ticks of 8 bytes a second are 1.6 of 50 GB/s (3.2 %), twenty times the peers' 10e6."""
    result = answer(ANALYSIS, **star(4), counter_rates=_waiting([200e6, 10e6, 10e6, 10e6]))
    row = result.frames["congestion_marks"].row(0, named=True)
    assert (row["per_gb"], row["peers_per_gb"], row["peers"], row["times"], row["lost_share"]) == pytest.approx((20e6, 1e6, 4, 20, 0.032))
    assert result.answer.startswith("h0 mlx5_0 waited for credit to send 20 times as much per byte as its peers: about 3.2 % of its speed")
    for harmless in ([200e6] * 4, [20e6, 1e6, 1e6, 1e6]):
        assert answer(ANALYSIS, **star(4), counter_rates=_waiting(harmless)).answer.startswith("None of the 4 ports"), harmless


def test_marks_per_gigabyte_against_peers() -> None:
    """h0 gets 20,000 marks in 10 GB a second, its peers 100: 2,000 and 10 per GB. The least that counts is 500 / 5."""
    rates: list[Row] = []
    for n, count in enumerate([20_000, 100, 100, 100]):
        rates += counts(10 + n, f"h{n}", "mlx5_0", "ecn_marked_packets", [count] * 10, "rx")
        rates += counts(30 + n, f"h{n}", "mlx5_0", "bytes", [10 * G] * 10, "rx")
    result = answer(ANALYSIS, **star(4), counter_rates=rates)
    marks = result.frames["congestion_marks"]
    assert marks.select("per_gb", "times", "stands_out").rows() == [(2000.0, 20.0, True), *[(10.0, 0.1, False)] * 3]
    assert "h0 mlx5_0 saw packets marked for congestion 20 times as much per byte as its peers" in result.answer


def test_what_was_not_collected_is_said() -> None:
    assert asked(answer(ANALYSIS, **star(1), counter_rates=_paused(1, "h0", "mlx5_0", "rx", 0))) == ["Were packets marked for congestion?"]
    marked = counts(1, "h0", "mlx5_0", "ecn_marked_packets", [0] * 10, "rx")
    assert asked(answer(ANALYSIS, **star(1), counter_rates=marked)) == ["Did ports stop each other?"]
    assert asked(answer(ANALYSIS, **star(4), counter_rates=_waiting([1.0] * 4))) == [], "credits do the work of both on InfiniBand"
    assert answer(ANALYSIS, **star(1), counter_rates=counts(1, "h0", "mlx5_0", "bytes", [1] * 3, "tx")).answer.startswith("Not collected")


def test_samples_far_beyond_the_captures_leave_a_doubt() -> None:
    rates = [{**r, "start_ns": -1000 * S, "end_ns": 1000 * S} for r in counts(2, "leaf1", "E1", "pfc_pause_frames", [10_000_000], "rx", priority=3)]
    rates = [{**r, "per_s": 5000.0} for r in rates]
    assert "may have been before or after" in answer(ANALYSIS, **star(2), counter_rates=rates).answer
