"""Utilisation, balance and agreement of links on networks whose numbers were worked out by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
from polars.testing import assert_frame_equal

from tests.builders.network import G, Row, S, answer, asked, counts, level, link, star, uplink, uses
from tracelab.analyses.network import bursts, classes, health, links, loss, pause
from tracelab.analyses.network.balance import jain
from tracelab.analyses.network.links import ANALYSIS
from tracelab.analysis import Analysis

HALF = 25 * G
"""Bytes per second of a half full link of 400 Gbit/s."""


def test_utilisation_of_a_link_by_hand() -> None:
    """Ten intervals of 1 s: nine of 10 GB (20 %), one of 45 GB (90 %): mean 27 %; p95 lies at 0.55 between the last two: 58.5 %."""
    result = answer(ANALYSIS, **star(1), counter_rates=counts(1, "h0", "mlx5_0", "bytes", [10 * G] * 9 + [45 * G], "tx"))
    (row,) = result.frames["link_utilisation"].to_dicts()
    assert (row["link"], row["side"], row["direction"], row["samples"], row["seconds"], row["used"]) == (0, "a", "tx", 10, 10.0, True)
    assert row["bytes_per_s"] == pytest.approx(13.5 * G)
    assert (row["mean"], row["p95"], row["peak"], row["headroom"]) == pytest.approx((0.27, 0.585, 0.9, 0.1))
    assert row["lines"] == "mean-below"
    assert not row["lower_bound"]


def test_only_the_part_inside_the_captures_counts() -> None:
    """Intervals of 4 s against captures of 10 s: the third counts by its half."""
    rates = counts(1, "h0", "mlx5_0", "bytes", [4 * G, 4 * G, 40 * G, 400 * G], "tx", every=4)
    (row,) = answer(ANALYSIS, **star(1), counter_rates=rates).frames["link_utilisation"].to_dicts()
    assert (row["samples"], row["seconds"]) == (3, 10.0)
    assert row["bytes_per_s"] == pytest.approx((4 + 4 + 20) * G / 10)


def test_a_reset_never_lowers_the_mean_nor_makes_a_peak() -> None:
    rates = counts(1, "h0", "mlx5_0", "bytes", [HALF, 0, HALF, 400 * G], "tx", odd={1: "reset", 3: "reset"})
    (row,) = answer(ANALYSIS, **star(1), counter_rates=rates).frames["link_utilisation"].to_dicts()
    assert (row["mean"], row["peak"], row["samples"], row["lower_bound"]) == pytest.approx((0.5, 0.5, 2, False))


def test_a_counter_that_only_bounds_is_marked() -> None:
    rates = counts(1, "h0", "mlx5_0", "bytes", [G] * 3, "tx", odd=dict.fromkeys(range(3), "reset"))
    result = answer(ANALYSIS, **star(1), counter_rates=rates)
    assert result.frames["link_utilisation"]["lower_bound"].to_list() == [True]
    assert "bounded from below" in result.degraded


def test_of_two_counters_of_one_adapter_the_whole_one_is_taken() -> None:
    """The RDMA device counts 1 GB/s, its network device 25: not 26."""
    rates = counts(1, "h0", "mlx5_0", "bytes", [G] * 4, "tx") + counts(2, "h0", "ens1", "bytes", [HALF] * 4, "tx")
    (row,) = answer(ANALYSIS, **star(1), counter_rates=rates).frames["link_utilisation"].to_dicts()
    assert (row["port"], row["mean"]) == ("mlx5_0", pytest.approx(0.5))


def test_during_transfers_a_link_is_fuller_than_overall() -> None:
    """Samples of 100 ms; transfers fill the first half of each step of 1 s: 40 GB/s in it, nothing else: active 80 %, mean 40 %."""
    rates = counts(1, "h0", "mlx5_0", "bytes", ([4 * G] * 5 + [0] * 5) * 10, "tx", every=0.1)
    matches = [
        {"match_id": n, "group_id": 0, "operation": "all_reduce", "last_start_ns": n * S, "end_ns": n * S + S // 2, "transfer_ns": S // 2} for n in range(10)
    ]
    (row,) = answer(ANALYSIS, **star(1), counter_rates=rates, matches=matches).frames["link_utilisation"].to_dicts()
    assert (row["active"], row["mean"]) == pytest.approx((0.8, 0.4))


def test_transfers_within_a_host_are_no_activity_of_links() -> None:
    rates = counts(1, "h0", "mlx5_0", "bytes", [4 * G] * 100, "tx", every=0.1)
    matches = [{"match_id": 0, "group_id": 0, "operation": "all_reduce", "last_start_ns": 0, "end_ns": S, "transfer_ns": S}]
    local: dict[str, list[Row]] = {"groups": [{"group_id": 0, "ranks": [0, 1], "size": 2}], "ranks": [{"rank": r, "host": "h0"} for r in (0, 1)]}
    result = answer(ANALYSIS, **star(1), counter_rates=rates, matches=matches, **local)
    assert result.frames["link_utilisation"]["active"].to_list() == [None]


def test_coarse_samples_say_that_they_are() -> None:
    result = answer(ANALYSIS, **star(1), counter_rates=counts(1, "h0", "mlx5_0", "bytes", [HALF] * 5, "tx", every=2))
    assert result.frames["link_utilisation"]["active"].to_list() == [None]
    assert "How full are the links while the job transfers?" in asked(result)


def _leaves(shares: list[int]) -> dict[str, list[Row]]:
    """Two leaves with a host each; leaf1 has as many uplinks as shares, which send that many GB/s."""
    links = [link(0, "h0", "E0"), link(1, "h1", "E0", switch="leaf2"), *(uplink(2 + n, "leaf1", f"U{n}", "spine1") for n in range(len(shares)))]
    rates = [r for n, share in enumerate(shares) for r in counts(10 + n, "leaf1", f"U{n}", "bytes", [share * G] * 10, "tx")]
    return {"links": links, "endpoints": [uses(0, "h0", 0), uses(1, "h1", 1)], "counter_rates": rates}


def test_uneven_uplinks_are_named() -> None:
    """Shares 30, 10, 10, 10: mean 15, fullest 2.0 times it, Jain 60² / (4 · 1200) = 0.75."""
    result = answer(ANALYSIS, **_leaves([30, 10, 10, 10]))
    (row,) = result.frames["link_balance"].to_dicts()
    assert (row["kind"], row["name"], row["direction"], row["links"]) == ("uplinks", "the uplinks of leaf1", "tx", 4)
    assert (row["max_over_mean"], row["jain"], row["fullest_port"], row["uneven"]) == (2.0, pytest.approx(0.75), "U0", True)
    assert "The uplinks of leaf1 carried unequal shares (tx): leaf1 U0 2.00 times the mean of 4 links" in result.answer


def test_ports_that_lead_nobody_knows_where_are_no_suspects() -> None:
    given = _leaves([30, 10, 10, 10])
    given["links"] = [{**x, "b_node": None, "b_port": None} if x["tier"] else x for x in given["links"]]
    result = answer(ANALYSIS, **given)
    (row,) = result.frames["link_balance"].to_dicts()
    assert (row["kind"], row["max_over_mean"], row["uneven"]) == ("open", 2.0, False)
    assert "unequal" not in result.answer
    assert "leaf1 U0 has 2.00 times the mean of 4 (tx)" in next(n.reason for n in result.not_observable if n.question == "Were the uplinks used evenly?")


def test_even_uplinks_are_not() -> None:
    result = answer(ANALYSIS, **_leaves([11, 10, 10, 9]))
    assert not result.frames["link_balance"]["uneven"].any()
    assert "unequal" not in result.answer


def test_rails_are_only_uneven_beyond_what_the_operations_send() -> None:
    """h0 sends 3 times what h1 does: so do the operations, or not."""
    rates = counts(1, "h0", "mlx5_0", "bytes", [30 * G] * 10, "tx") + counts(2, "h1", "mlx5_0", "bytes", [10 * G] * 10, "tx")
    for first, uneven in ((3000, False), (1000, True)):
        sent = [
            {"src_rank": a, "dst_rank": 1 - a, "src_host": f"h{a}", "dst_host": f"h{1 - a}", "bytes": n, "window": "capture"}
            for a, n in ((0, first), (1, 1000))
        ]
        frame = answer(ANALYSIS, **star(2), counter_rates=rates, traffic=sent).frames["link_balance"]
        assert frame.select("name", "max_over_mean", "expected", "uneven").rows() == [("rail 0", 1.5, first * 2 / (first + 1000), uneven)]
    frame = answer(ANALYSIS, **star(2), counter_rates=rates).frames["link_balance"]
    assert frame.select("expected", "uneven").rows() == [(None, False)], "without traffic nothing is expected"


def test_both_ends_that_count_alike_and_that_do_not() -> None:
    """A sends 25 GB/s, B receives 25 or 15 of them: 40 % less, beyond 5 % and half an interval of each end over 10 s (10 %)."""
    for heard, apart in ((25, False), (15, True)):
        rates = counts(1, "h0", "mlx5_0", "bytes", [25 * G] * 10, "tx") + counts(2, "leaf1", "E0", "bytes", [heard * G] * 10, "rx")
        result = answer(ANALYSIS, **star(1), counter_rates=rates)
        (row,) = result.frames["link_disagreements"].to_dicts()
        assert (row["direction"], row["seconds"], row["contradicts"]) == ("tx", 10.0, apart)
        assert (row["difference"], row["tolerance"]) == pytest.approx((1 - heard / 25, 0.15))
        assert ("count different bytes" in result.answer) is apart


def test_an_adapter_that_the_job_does_not_use_is_listed_not_judged() -> None:
    rates = counts(1, "h9", "mlx5_0", "bytes", [49 * G] * 4, "tx") + counts(2, "leaf1", "E9", "bytes", [G] * 4, "rx")
    result = answer(ANALYSIS, links=[link(0, "h0", "E0"), link(9, "h9", "E9")], endpoints=[uses(0, "h0", 0)], counter_rates=rates)
    assert result.frames["link_utilisation"]["used"].to_list() == [False, False]
    assert result.answer == "2 ports counted bytes, none of them known to be of the job."


def test_without_speed_there_is_a_rate_and_an_open_question() -> None:
    result = answer(ANALYSIS, **star(1, speed=None), counter_rates=counts(1, "h0", "mlx5_0", "bytes", [G] * 10, "tx"))
    assert result.frames["link_utilisation"]["mean"].to_list() == [None]
    assert "1.00 GB/s" in result.answer
    assert "How full are the links?" in asked(result)


def test_counters_of_another_time_or_of_something_else_are_not_zero() -> None:
    late = [{**r, "start_ns": r["start_ns"] + 100 * S, "end_ns": r["end_ns"] + 100 * S} for r in counts(1, "h0", "mlx5_0", "bytes", [G], "tx")]
    for rates, why in ((late, "no sample lies beside the captures"), (counts(1, "h0", "mlx5_0", "packets", [5], "tx"), "no source holds")):
        result = answer(ANALYSIS, **star(1), counter_rates=rates)
        assert result.answer.startswith("Not collected") and why in result.answer  # noqa: PT018
        assert not result.frames


def test_jain_of_one_busy_link_is_one_over_n() -> None:
    assert jain(np.array([5.0, 0, 0, 0])) == 0.25
    assert jain(np.array([3.0, 3, 3])) == pytest.approx(1)
    assert jain(np.zeros(3)) == 1


@pytest.mark.parametrize("analysis", [m.ANALYSIS for m in (links, loss, pause, health, bursts, classes)], ids=lambda a: a.id)
def test_the_order_of_rows_does_not_matter(analysis: Analysis) -> None:
    rates: list[Row] = []
    for n in range(4):
        for k, (counter, way, value) in enumerate(
            (("bytes", "tx", 9 * G), ("discards", "tx", 50 * n), ("symbol_errors", "rx", 9 * n), ("xmit_wait_ticks", "tx", 9e7 * n))
        ):
            rates += counts(10 * n + k, f"h{n}", "mlx5_0", counter, [value] * 10, way)
        rates += counts(100 + n, f"h{n}", "ens1", "pfc_pause_us", [2e5 * n] * 10, "rx", priority=3)
        rates += counts(200 + n, f"h{n}", "ens1", "priority_bytes", [G] * 10, "tx", priority=n)
    marks = [level(300 + n, f"h{n}", "ens1", "queue_watermark_bytes", n * 1e6, queue="3") for n in range(4)]
    given: dict[str, list[Row]] = {**star(4), "counter_rates": rates, "counters": [*marks, *(level(400 + n, f"h{n}", "ens1", "link_up", n) for n in range(4))]}
    shuffled = {name: random.Random(5).sample(rows, len(rows)) for name, rows in given.items()}
    one, other = answer(analysis, **given), answer(analysis, **shuffled)
    assert (one.answer, one.not_observable, one.degraded) == (other.answer, other.not_observable, other.degraded)
    assert one.frames.keys() == other.frames.keys()
    for name, frame in one.frames.items():
        assert_frame_equal(frame, other.frames[name], categorical_as_str=True)
