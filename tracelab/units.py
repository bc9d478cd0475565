"""Numbers with units, as text: one way to print a time, a size, a rate and a share.

Times are integer nanoseconds everywhere else; this module is the only place that turns them into text.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

__all__ = ["NS_PER_S", "NS_PER_US", "format_bytes", "format_duration", "format_ranges", "format_rate", "format_share", "format_time"]

NS_PER_US = 1_000
NS_PER_S = 1_000_000_000

_DURATIONS = ((86_400 * NS_PER_S, "d"), (3_600 * NS_PER_S, "h"), (60 * NS_PER_S, "min"), (NS_PER_S, "s"), (1_000_000, "ms"), (NS_PER_US, "µs"))
_SIZES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def _three_digits(value: float) -> str:
    """`value` with three significant digits and no exponent."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def format_duration(ns: float) -> str:
    """`ns` nanoseconds as text with three digits and the largest unit that keeps it above one: `12.3 ms`."""
    for size, unit in _DURATIONS:
        if abs(ns) >= size:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def format_bytes(n: float) -> str:
    """`n` bytes as text in decimal units (1 kB = 1,000 bytes): `1.50 GB`."""
    for size, unit in _SIZES:
        if abs(n) >= size:
            return f"{_three_digits(n / size)} {unit}"
    return f"{n:.0f} B"


def format_rate(bytes_per_s: float) -> str:
    """Bytes per second as text: `23.5 GB/s`."""
    return f"{format_bytes(bytes_per_s)}/s"


def format_share(share: float) -> str:
    """A share (0 to 1) as a percentage: `12.3 %`."""
    percent = 100 * share
    return f"{percent:.0f} %" if abs(percent) >= 99.95 or percent == 0 else f"{percent:.1f} %"


def format_ranges(numbers: Iterable[int], most: int = 8) -> str:
    """Whole numbers as text, runs of neighbours as ranges: `3, 17–127`; after `most` of them the rest is counted."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    shown = ", ".join(str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}–{b}" for a, b in runs[:most])
    more = sum(b - a + 1 for a, b in runs[most:])
    return f"{shown} and {more} more" if more else shown


def format_time(ns: int) -> str:
    """Nanoseconds of the Unix epoch as UTC text to the microsecond: `2026-01-31 04:05:06.000007 UTC`."""
    seconds, rest = divmod(ns, NS_PER_S)
    try:
        moment = datetime.fromtimestamp(seconds, tz=UTC)
    except (OverflowError, OSError, ValueError):
        return f"{ns} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // NS_PER_US:06d} UTC"
