"""Differences of counters: what was put in comes out, whatever happens to the counter in between."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

from tracelab.fabric.rates import Ports, counter_rates
from tracelab.tables import COUNTERS

S = 1_000_000_000
NO_PORTS = Ports({}, {})


def sample(ts_ns: int | None, raw: int | None, **other: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COUNTERS.names)
    row |= {"source_id": 0, "line": 1, "series": 0, "ts_ns": ts_ns, "source_ts_ns": ts_ns, "node": "a", "node_kind": "host", "node_origin": "content"}
    row |= {"device": "mlx5_0", "device_kind": "rdma", "counter": "bytes", "raw_name": "tx", "raw": raw, "scale": 1.0, "value": None, "unit": "byte"}
    row |= {"kind": "counter", "width": 64, "saturates": False, "direction": "tx"}
    return row | other


def table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return COUNTERS.conform(pl.DataFrame(rows, schema=COUNTERS.polars))


def deltas(rows: list[dict[str, Any]], ports: Ports = NO_PORTS) -> list[tuple[float, bool, str | None]]:
    found = counter_rates(table(rows), ports)
    return [(r["delta"], r["at_least"], r["flags"]) for r in found.iter_rows(named=True)]


def test_differences_are_exact_beyond_two_to_the_53() -> None:
    big = 2**63 + 1
    assert deltas([sample(0, big), sample(S, big + 3)]) == [(3.0, False, None)]


def test_words_are_bytes_after_scaling() -> None:
    found = counter_rates(table([sample(0, 10, scale=4.0), sample(2 * S, 30, scale=4.0)]), NO_PORTS)
    assert found.select("delta", "per_s").row(0) == (80.0, 40.0)


def test_a_narrow_counter_starts_again_from_zero() -> None:
    rows = [sample(0, 2**32 - 10, width=32, counter="errors", unit="packet"), sample(S, 5, width=32, counter="errors", unit="packet")]
    assert deltas(rows) == [(15.0, False, "wrapped")]


def test_a_narrow_byte_counter_on_a_fast_link_says_little() -> None:
    """At 200 Gb/s a counter of 32 bits starts again six times a second: how often is not known."""
    values = [int(6.5e9 * t) % 2**32 for t in range(14)]
    ports = Ports({("a", "mlx5_0"): "mlx5_0"}, {("a", "mlx5_0"): 200_000_000_000})
    found = deltas([sample(t * S, v) for t, v in enumerate(values)], ports)
    assert all(at_least for _, at_least, _ in found)
    assert all(0 <= delta < 2**32 for delta, _, _ in found)


def test_a_reset_leaves_a_lower_bound() -> None:
    rows = [sample(0, 5_000_000), sample(S, 6_000_000), sample(2 * S, 400_000), sample(3 * S, 1_400_000)]
    assert deltas(rows) == [(1e6, False, None), (4e5, True, "reset"), (1e6, False, None)]


def test_a_reset_of_the_adapter_counts_for_counters_that_rose() -> None:
    """Traffic falls to a number that cannot have passed since: the base is unknown, so nothing is claimed of the errors either."""
    bytes_ = [sample(t * S, v) for t, v in enumerate([10**15, 10**15 + 10**9, 10**14, 10**14 + 10**9])]
    errors = [sample(t * S, v, series=1, counter="crc_errors", unit="packet", raw_name="crc") for t, v in enumerate([3, 3, 975, 975])]
    found = counter_rates(table(bytes_ + errors), NO_PORTS).filter(pl.col("series") == 1)
    assert found["delta"].to_list() == [0.0, 0.0, 0.0]
    assert found["at_least"].to_list() == [False, True, False]


def test_the_two_names_of_an_adapter_are_reset_together() -> None:
    bytes_ = [sample(t * S, v, device="eth0") for t, v in enumerate([10**15, 10**14])]
    shifted = [sample(t * S + 3_000_000, v, series=1, counter="packet_seq_err", unit="event") for t, v in enumerate([3, 975])]
    ports = Ports({("a", "mlx5_0"): "nic", ("a", "eth0"): "nic"}, {})
    found = counter_rates(table(bytes_ + shifted), ports)
    assert found["at_least"].to_list() == [True, True]
    assert found.filter(pl.col("series") == 1)["delta"].to_list() == [0.0]


def test_a_jump_beyond_the_speed_of_the_link_is_a_reset() -> None:
    ports = Ports({("a", "mlx5_0"): "mlx5_0"}, {("a", "mlx5_0"): 8_000_000_000})
    found = deltas([sample(0, 0), sample(S, 10**9), sample(2 * S, 10**14), sample(3 * S, 10**14 + 10**9)], ports)
    assert [d for d, _, _ in found] == [1e9, 0.0, 1e9]
    assert found[1][1:] == (True, "reset")


def test_a_counter_at_its_highest_value_tells_no_more() -> None:
    rows = [sample(t * S, v, width=16, saturates=True, counter="symbol_errors", unit="event") for t, v in enumerate([65_530, 65_535, 65_535])]
    assert deltas(rows) == [(5.0, True, "saturated"), (0.0, True, "saturated")]


def test_a_missing_number_is_no_zero() -> None:
    assert deltas([sample(0, 100), sample(S, None), sample(2 * S, 300)]) == [(200.0, False, None)]


def test_a_gap_is_marked_and_not_filled() -> None:
    times = [0, 1, 2, 3, 60, 61]
    found = counter_rates(table([sample(t * S, t * 100) for t in times]), NO_PORTS)
    assert found["gap"].to_list() == [False, False, False, True, False]
    assert found["per_s"].to_list() == [100.0] * 5


def test_a_level_has_no_rate() -> None:
    assert deltas([sample(0, 1, kind="gauge"), sample(S, 2, kind="gauge")]) == []


def test_counts_of_intervals_are_taken_as_they_are() -> None:
    rows = [sample(10 * S, 50, kind="delta", value=50.0, interval_ns=5 * S), sample(15 * S, 60, kind="delta", value=60.0)]
    found = counter_rates(table(rows), NO_PORTS)
    assert found.select("start_ns", "end_ns", "delta", "per_s").rows() == [(5 * S, 10 * S, 50.0, 10.0), (10 * S, 15 * S, 60.0, 12.0)]


def test_a_counter_that_refreshes_every_second_and_is_read_twice_is_read_once() -> None:
    """Half-second samples alternate between a repeat and twice the rate: neither is what the link did."""
    rows = [sample(n * S // 2, (n // 2) * 1_000) for n in range(40)]
    found = counter_rates(table(rows), NO_PORTS)
    assert set(found["per_s"].to_list()) == {1_000.0}
    assert found["delta"].sum() == 19_000.0


def test_counts_that_come_every_second_and_are_read_twice() -> None:
    """Every second count is zero; a gap of four minutes is one long interval, and its count no burst."""
    times = [n * S // 2 for n in range(20)] + [260 * S + n * S // 2 for n in range(20)]
    rows = [sample(t, None, kind="delta", value=0.0 if n % 2 else 1_000.0) for n, t in enumerate(times)]
    rows[20] = sample(times[20], None, kind="delta", value=251_000.0)
    found = counter_rates(table(rows), NO_PORTS)
    assert found["per_s"].to_list() == pytest.approx([1_000.0] * found.height)
    assert found["gap"].sum() == 1


@pytest.mark.parametrize("seed", range(20))
def test_order_and_repetitions_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    total, rows = rng.randrange(2**60), []
    for t in range(50):
        total += rng.randrange(10**9)
        rows.append(sample(t * S + rng.randrange(10**8), total))
    mixed = rows + rng.sample(rows, 20)
    rng.shuffle(mixed)
    assert counter_rates(table(mixed), NO_PORTS).equals(counter_rates(table(rows), NO_PORTS))


@pytest.mark.parametrize("seed", range(20))
def test_what_was_put_in_comes_out(seed: int) -> None:
    """A counter of 64 bits with resets to zero loses exactly what it counted between the last sample and the reset."""
    rng = random.Random(seed)
    value, put_in, unseen, rows = rng.randrange(10**12), 0, 0, []
    for t in range(100):
        rows.append(sample(t * S, value))
        before, after = rng.randrange(10**8, 10**9), rng.randrange(10**8)
        put_in += before + after
        if rng.random() < 0.05 and value > after:  # else nobody could see it
            unseen += before
            value = after
        else:
            value += before + after
    rows.append(sample(100 * S, value))
    found = counter_rates(table(rows), NO_PORTS)
    assert found["delta"].sum() == put_in - unseen


@pytest.mark.parametrize("seed", range(10))
def test_wraps_of_known_width_lose_nothing(seed: int) -> None:
    rng = random.Random(seed)
    value, put_in, rows = rng.randrange(2**32), 0, []
    for t in range(200):
        rows.append(sample(t * S, value % 2**32, width=32, counter="packets", unit="packet"))
        more = rng.randrange(2**30)
        put_in, value = put_in + more, value + more
    rows.append(sample(200 * S, value % 2**32, width=32, counter="packets", unit="packet"))
    assert counter_rates(table(rows), NO_PORTS)["delta"].sum() == put_in


def test_a_wrap_of_64_bits_is_exact() -> None:
    rows = [sample(0, 2**64 - 1000, counter="packets", unit="packet"), sample(S, 234, counter="packets", unit="packet")]
    found = counter_rates(table(rows), NO_PORTS)
    assert found.select("delta", "at_least", "flags").rows() == [(1234.0, False, "wrapped")]
