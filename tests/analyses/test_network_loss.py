"""Loss on networks whose numbers were worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import poisson

from tests.builders.network import G, Row, S, answer, asked, counts, star
from tracelab.analyses.network.loss import ANALYSIS, Params, goodput
from tracelab.analyses.network.scatter import dispersion
from tracelab.analysis import AnalysisResult

PACKETS = [1_000_000] * 10


def _lossy(drops: Sequence[float], **more: Any) -> list[Row]:
    return [*counts(1, "leaf1", "E0", "packets", PACKETS, "tx"), *counts(2, "leaf1", "E0", "discards", drops, "tx", **more)]


def _of(result: AnalysisResult, table: str, **where: Any) -> dict[str, Any]:
    (row,) = [r for r in result.frames[table].to_dicts() if all(r[k] == v for k, v in where.items())]
    return row


def test_a_hundredth_of_a_percent_by_hand() -> None:
    """100 of a million packets a second: 100 per million, 0.01 %. N = 50 GB/s × 20 µs / 4096 B = 244.14: 2.38 % is lost."""
    result = answer(ANALYSIS, **star(1), counter_rates=_lossy([100.0] * 10))
    row = _of(result, "loss", direction="tx")
    assert (row["lost"], row["lost_from"], row["share"], row["verdict"], row["pattern"]) == (1000.0, "discards", pytest.approx(1e-4), "loss", "steady")
    assert row["window_packets"] == pytest.approx(244.140625)
    assert row["goodput"] == pytest.approx(1 / 1.0244140625)
    assert "leaf1 E0 lost 1000 packets (tx, 100 per million, discards), at a steady rate" in result.answer
    assert "2.4 % of its bandwidth" in result.answer
    assert "What does the loss cost?" in asked(result)


@pytest.mark.parametrize(("share", "round_trip_us", "cost"), [(1e-4, 20, 0.024), (1e-4, 100, 0.109), (1e-3, 20, 0.196), (1e-2, 20, 0.709)])
def test_goodput_of_go_back_n(share: float, round_trip_us: float, cost: float) -> None:
    """400 Gbit/s and 4096 bytes, to three digits."""
    left = pl.select(goodput(pl.lit(share), pl.lit(400e9 / 8 * round_trip_us * 1e-6 / 4096))).item()
    assert 1 - left == pytest.approx(cost, abs=6e-4)


def test_a_rise_across_a_reset_or_a_gap_is_none() -> None:
    """A reset to 1000 after a driver was loaded again is what a naive difference takes for loss."""
    for flag in ("reset", "gap"):
        result = answer(ANALYSIS, **star(1), counter_rates=_lossy([0, 0, 0, 1000, 0, 0, 0, 0, 0, 0], odd={3: flag}))
        row = _of(result, "loss_counters", counter="discards")
        assert (row["total"], row["rose"], row["intervals"], row["left_out"], row["pattern"]) == (0.0, 0, 9, 1, "none")
        assert result.answer == "None of the 1 port of the job with such counters lost packets."


def test_a_counter_that_was_reset_all_along_is_unknown_not_zero() -> None:
    result = answer(ANALYSIS, **star(1), counter_rates=_lossy([5.0] * 10, odd=dict.fromkeys(range(10), "reset")))
    assert _of(result, "loss_counters", counter="discards")["total"] is None
    assert "what they lost is not known" in result.degraded
    assert "loss" not in result.frames


def test_out_of_order_alone_is_no_loss() -> None:
    """Adaptive routing reorders; without gaps or drops nothing is lost."""
    rates = counts(1, "h0", "mlx5_0", "out_of_sequence", [5000] * 10, "rx") + counts(2, "h0", "mlx5_0", "packet_seq_err", [0] * 10, "tx")
    result = answer(ANALYSIS, **star(1), counter_rates=rates)
    assert _of(result, "loss_counters", counter="out_of_sequence")["total"] == 50_000
    assert "lost packets." in result.answer and result.answer.startswith("None of")  # noqa: PT018


def test_a_receiver_that_is_late_is_no_loss_of_the_network() -> None:
    result = answer(ANALYSIS, **star(1), counter_rates=counts(1, "h0", "mlx5_0", "rx_no_buffer", [900] * 10, "rx"))
    assert result.answer.startswith("None of")


def test_retransmissions_do_not_count_as_lost_packets() -> None:
    """Go-back-N repeats many packets per lost one: 10 gaps a second are 10 losses, though 2,000 packets were sent again."""
    rates = [
        *counts(1, "h0", "ens1", "packets", PACKETS, "tx"),
        *counts(2, "h0", "mlx5_0", "packet_seq_err", [10] * 10, "tx"),
        *counts(3, "h0", "mlx5_0", "retransmit_packets", [2000] * 10, "tx"),
    ]
    row = _of(answer(ANALYSIS, **star(1), counter_rates=rates), "loss", direction="tx")
    assert (row["lost"], row["lost_from"], row["share"]) == (100.0, "packet_seq_err", pytest.approx(1e-5))


def test_a_few_strays_stay_below_the_line() -> None:
    result = answer(ANALYSIS, **star(1), counter_rates=_lossy([0, 0, 3, 0, 0, 0, 2, 0, 0, 0]))
    assert _of(result, "loss", direction="tx")["verdict"] == "below"
    assert result.answer == "None of the 1 port of the job with such counters lost packets beyond a stray few."


def test_packets_that_are_not_counted_come_from_bytes() -> None:
    rates = counts(1, "h0", "ens1", "bytes", [4096 * 1e6] * 10, "tx") + counts(2, "h0", "mlx5_0", "packet_seq_err", [100] * 10, "tx")
    row = _of(answer(ANALYSIS, **star(1), counter_rates=rates), "loss", direction="tx")
    assert (row["packets_per_s"], row["packets_origin"], row["share"]) == (1e6, "bytes", pytest.approx(1e-4))


def test_without_a_speed_the_fastest_interval_bounds_the_cost() -> None:
    rates = [*_lossy([100.0] * 10), *counts(3, "leaf1", "E0", "bytes", [4.096 * G] * 10, "tx")]
    result = answer(ANALYSIS, **star(1, speed=None), counter_rates=rates)
    row = _of(result, "loss", direction="tx")
    assert (row["window_origin"], row["window_packets"]) == ("rate", pytest.approx(20.0))
    assert "cost at least 0.2 %" in result.answer


def test_patterns() -> None:
    steady = [float(x) for x in poisson.rvs(50, size=10, random_state=7)]
    for drops, pattern in (
        (steady, "steady"),
        ([0, 0, 0, 400, 0, 0, 0, 300, 0, 0], "bursts"),
        ([10, 90, 20, 200, 30, 70, 5, 150, 40, 60], "varying"),
        ([0, 0, 0, 500, 0, 0, 0, 0, 0, 0], "once"),
        ([1, 0, 1, 0, 0, 0, 1, 0, 1, 0], "unknown"),
    ):
        row = _of(answer(ANALYSIS, **star(1), counter_rates=_lossy(drops)), "loss_counters", counter="discards")
        assert row["pattern"] == pattern, drops
        assert row["rose_share"] == sum(d > 0 for d in drops) / 10


def test_dispersion_by_hand_and_by_chance() -> None:
    """Counts 10 and 20 in 1 s each: rate 15, χ² = 25/15 + 25/15 = 10/3 with one degree of freedom: 0.068."""
    value, chance = dispersion([10, 20], [1, 1])
    assert value == pytest.approx(10 / 3)
    assert chance == pytest.approx(0.0679, abs=1e-4)
    assert dispersion([10, 20], [1, 2])[0] == 0
    random = np.random.default_rng(1)
    low = [dispersion(list(random.poisson(40, 20).astype(float)), [1.0] * 20)[1] < 0.01 for _ in range(2000)]
    assert 0.003 < np.mean(low) < 0.02, "of a true Poisson process, one in a hundred is below 0.01"


def test_ports_of_others_are_not_judged() -> None:
    rates = counts(1, "leaf1", "E7", "discards", [1000] * 10, "tx")
    result = answer(ANALYSIS, **star(1), counter_rates=rates)
    assert result.answer == "1 port counted losses, none of them known to be of the job."
    assert result.frames["loss"]["verdict"].to_list() == ["loss"]


def test_without_counters_of_drops_or_transport_it_says_so() -> None:
    rates = counts(1, "leaf1", "E0", "discards", [0] * 10, "tx")
    assert asked(answer(ANALYSIS, **star(1), counter_rates=rates)) == ["Did senders have to repeat packets?"]
    rates = counts(1, "h0", "mlx5_0", "packet_seq_err", [0] * 10, "tx")
    assert asked(answer(ANALYSIS, **star(1), counter_rates=rates)) == ["Where were packets dropped?"]
    nothing = answer(ANALYSIS, **star(1), counter_rates=counts(1, "h0", "mlx5_0", "bytes", [1] * 10, "tx"))
    assert nothing.answer.startswith("Not collected")


def test_one_interval_much_longer_than_the_captures_is_a_caveat() -> None:
    rates = [{**r, "start_ns": -1000 * S, "end_ns": 1000 * S} for r in counts(1, "leaf1", "E0", "discards", [50], "tx")]
    result = answer(ANALYSIS, **star(1), counter_rates=rates)
    assert "may lie outside" in result.degraded
    assert _of(result, "loss_counters", counter="discards")["pattern"] == "unknown"


def test_parameters_decide() -> None:
    result = answer(ANALYSIS, Params(least_share=1e-3), **star(1), counter_rates=_lossy([100.0] * 10))
    assert _of(result, "loss", direction="tx")["verdict"] == "below"
