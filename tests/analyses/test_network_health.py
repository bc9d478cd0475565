"""Health of links on networks made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders.network import Row, answer, asked, counts, level, link, star, uses
from tracelab.analyses.network.health import ANALYSIS
from tracelab.analysis import AnalysisResult

QUIET = [0.0] * 10


def _errors(at_host: Sequence[float] | None, at_switch: Sequence[float] | None, counter: str = "symbol_errors", **more: Any) -> list[Row]:
    out: list[Row] = []
    if at_host is not None:
        out += counts(1, "h0", "ens1", counter, at_host, "rx", **more)
    if at_switch is not None:
        out += counts(2, "leaf1", "E0", counter, at_switch, "rx", **more)
    return out


def _result(rates: list[Row], levels: list[Row] | None = None, hosts: int = 1) -> AnalysisResult:
    return answer(ANALYSIS, **star(hosts), counter_rates=rates, counters=levels or [level(99, "h0", "ens1", "link_speed", 400e9)])


def _suspect(result: AnalysisResult) -> list[str | None]:
    return result.frames["link_health"]["suspect"].to_list()


def test_errors_at_both_ends_are_the_cable() -> None:
    result = _result(_errors([5.0] * 10, [3.0] * 10))
    (row,) = result.frames["link_health"].to_dicts()
    assert (row["a_errors"], row["b_errors"], row["suspect"]) == (50.0, 30.0, "both ends receive errors: the cable, or a bad contact")
    assert result.answer == "h0 mlx5_0 – leaf1 E0: both ends receive errors: the cable, or a bad contact."


@pytest.mark.parametrize(
    ("host", "switch", "expected"),
    [
        (5.0, 0.0, "h0 mlx5_0 alone receives errors: the cable, its own transceiver, or the sending one at leaf1 E0"),
        (0.0, 5.0, "leaf1 E0 alone receives errors: the cable, its own transceiver, or the sending one at h0 mlx5_0"),
        (5.0, None, "h0 mlx5_0 receives errors; the other end is not collected: the cable or a transceiver"),
        (0.0, 0.0, None),
        (0.9, 0.9, None),
    ],
)
def test_which_end_receives_errors(host: float, switch: float | None, expected: str | None) -> None:
    """Of 9 errors at an end nothing is said; 10 are the least."""
    result = _result(_errors([host] * 10, None if switch is None else [switch] * 10))
    assert _suspect(result) == [expected]


def test_several_counters_of_one_event_are_not_added() -> None:
    rates = _errors([6.0] * 10, [0.0] * 10) + counts(3, "h0", "mlx5_0", "rcv_errors", [4.0] * 10, "rx")
    assert _result(rates).frames["link_health"]["a_errors"].to_list() == [60.0]


def test_packets_that_came_broken_point_further_up() -> None:
    rates = counts(1, "h0", "mlx5_0", "rcv_remote_physical_errors", [4.0] * 10, "rx") + _errors(QUIET, QUIET)
    assert _suspect(_result(rates)) == ["packets came already broken: the fault is further up their way"]


def test_packets_that_could_not_be_sent_are_no_receive_errors() -> None:
    sent = counts(1, "h0", "ens1", "errors", [9.0] * 10, "tx")
    heard = counts(2, "leaf1", "E0", "errors", [9.0] * 10, "rx")
    (row,) = _result(sent + heard).frames["link_health"].to_dicts()
    assert (row["a_errors"], row["b_errors"]) == (None, 90.0)


@pytest.mark.parametrize(
    ("counter", "rises", "flaps"), [("link_down_events", {4: 1, 7: 1}, 2.0), ("link_transitions", {4: 2, 7: 2}, 2.0), ("link_transitions", {4: 1}, 1.0)]
)
def test_flaps(counter: str, rises: dict[int, float], flaps: float) -> None:
    """Two changes of state are one flap; a single one is a link that went down and stayed, or came back."""
    result = _result(counts(1, "leaf1", "E0", counter, [rises.get(n, 0) for n in range(10)]))
    assert result.frames["link_health"]["flaps"].to_list() == [flaps]
    assert result.answer == f"h0 mlx5_0 – leaf1 E0: went down {flaps:.0f}×."


def test_a_reset_or_a_gap_is_no_error_and_no_flap() -> None:
    for flag in ("reset", "gap"):
        jump = [0, 0, 0, 1000, 0, 0]
        rates = _errors(jump, jump, odd={3: flag}) + counts(5, "h0", "ens1", "link_down_events", jump, odd={3: flag})
        result = _result(rates)
        assert _suspect(result) == [None]
        assert result.answer == "None of the 2 ports of the job with such counters received errors or went down or has levels unlike its peers."


def test_corrected_bits_are_listed_not_judged() -> None:
    result = _result(counts(1, "h0", "ens1", "fec_corrected", [1e9] * 10, "rx"))
    assert result.frames["link_errors"]["total"].to_list() == [1e10]
    assert _suspect(result) == [None]


def _levels(name: str, values: Sequence[float]) -> list[Row]:
    return [level(n, f"h{n}", "ens1", name, v) for n, v in enumerate(values)]


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("link_speed", [200e9, 400e9, 400e9, 400e9], "it runs at less speed"),
        ("link_width", [2, 4, 4, 4], "it runs with fewer lanes"),
        ("bit_error_rate", [1e-9, 1e-15, 1e-15, 1e-15], "its bit error rate is too high"),
        ("rx_power", [-6, -1, -1.5, -1], "little light arrives"),
        ("module_temperature", [75, 50, 52, 51], "its transceiver is hot"),
        ("link_up", [0, 1, 1, 1], "it is down"),
    ],
)
def test_levels_beside_peers(name: str, values: list[float], words: str) -> None:
    result = _result([], _levels(name, values), hosts=4)
    assert result.frames["link_levels"]["outside"].to_list() == [True, False, False, False]
    assert f"h0 mlx5_0 – leaf1 E0: beside its peers: {words}." == result.answer
    alike = _result([], _levels(name, [values[1]] * 4), hosts=4)
    assert not alike.frames["link_levels"]["outside"].any()
    assert alike.answer == "None of the 4 ports of the job with such counters has levels unlike its peers."


def test_two_links_are_too_few_for_peers() -> None:
    assert not _result([], _levels("link_speed", [200e9, 400e9]), hosts=2).frames["link_levels"]["outside"].any()


def test_the_level_of_the_captures_counts_and_else_the_nearest() -> None:
    levels = [
        level(1, "h0", "ens1", "module_temperature", 90, at=-50),
        level(1, "h0", "ens1", "module_temperature", 50, at=3),
        level(1, "h0", "ens1", "module_temperature", 52, at=7),
        level(2, "h1", "ens1", "module_temperature", 40, at=-50),
        level(2, "h1", "ens1", "module_temperature", 41, at=12),
    ]
    frame = _result([], levels, hosts=2).frames["link_levels"]
    assert frame.select("node", "lowest", "highest", "samples").rows() == [("h0", 50.0, 52.0, 2), ("h1", 41.0, 41.0, 1)]


def test_what_is_not_collected_is_asked_for() -> None:
    result = _result([], _levels("link_speed", [400e9] * 4), hosts=4)
    assert asked(result) == ["Did cables or transceivers fail?", "Did links go down?"]
    nothing = answer(ANALYSIS, **star(1), counters=[level(1, "h0", "ens1", "queue_depth_bytes", 5)])
    assert nothing.answer.startswith("Not collected")


def test_a_link_of_others_is_not_judged() -> None:
    rates = counts(1, "x1", "ens1", "symbol_errors", [500.0] * 10, "rx") + counts(2, "h0", "ens1", "symbol_errors", QUIET, "rx")
    links = [link(0, "h0", "E0"), link(1, "x1", "E1")]
    result = answer(ANALYSIS, links=links, endpoints=[uses(0, "h0", 0)], counter_rates=rates, counters=[])
    assert result.frames["link_health"].select("link", "used", "a_errors", "suspect").rows() == [(0, True, 0.0, None), (1, False, 5000.0, None)]
    assert result.answer == "None of the 1 port of the job with such counters received errors."


def test_two_ports_of_one_adapter_are_two_links() -> None:
    """A device with two ports: the second is mlx5_0/2, and its errors are not the first one's."""
    links = [link(0, "h0", "E0", a_port=None), link(1, "h0", "E1", a_port=None)]
    ends = [{**uses(0, "h0", 0), "netdev": None}, {**uses(1, "h0", 1, "mlx5_0/2"), "netdev": None}]
    rates = counts(1, "h0", "mlx5_0", "symbol_errors", QUIET, "rx") + counts(2, "h0", "mlx5_0", "symbol_errors", [9.0] * 10, "rx")
    rates = [{**r, "port": r["series"]} for r in rates]
    result = answer(ANALYSIS, links=links, endpoints=ends, counter_rates=rates, counters=[])
    assert result.frames["link_health"].select("a_port", "a_errors").rows() == [("mlx5_0", 0.0), ("mlx5_0/2", 90.0)]
