"""Numbers as text, against texts written by hand."""

from __future__ import annotations

import pytest

from tracelab.units import format_bytes, format_duration, format_ranges, format_rate, format_share, format_time


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (12_345, "12.3 µs"),
        (999_600, "1000 µs"),
        (2_500_000_000, "2.50 s"),
        (90_000_000_000, "1.50 min"),
        (-1_500_000, "-1.50 ms"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    assert format_duration(ns) == text


def test_sizes_rates_shares_and_times() -> None:
    assert (format_bytes(999), format_bytes(1_500_000_000), format_rate(23_456_000_000)) == ("999 B", "1.50 GB", "23.5 GB/s")
    assert (format_share(0), format_share(0.1234), format_share(1)) == ("0 %", "12.3 %", "100 %")
    assert format_time(1_769_832_306_000_007_999) == "2026-01-31 04:05:06.000007 UTC"
    assert format_time(10**40) == f"{10**40} ns"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([4, 3], "3, 4"), ([1, 2, 3], "1–3"), ([3, *range(17, 128)], "3, 17–127"), ([1, 3, 5, 7], "1, 3 and 2 more")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert format_ranges(numbers, most=2) == text
