"""Thresholds of a finding about a link."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Params"]


@dataclass(frozen=True)
class Params:
    """Thresholds of a finding.

    `least_share`: saving as a share of the run (1 %: less cannot be told from what else varies). `slow`: transfers must take
    this much longer than they took at other times of the run (1.1), or, where they were never faster, than links that work
    need (`slow_always`, 1.2: networks reach 80 % and more of their speed without anything being wrong). `imbalance`: a port
    that marks packets carries this many times what its equals carry on average (1.5), is `paused` for this share of the time (5 %), or
    like transfers differ by this factor between quick and slow ones (`scatter`, 1.5): else its marks are how congestion control
    works. `efficiency`: share of a link's speed that large transfers reach (0.90;
    0.85 to 0.95 are usual for NCCL over InfiniBand and RoCE), `efficiency_range`: from and to of the interval that is given.
    `round_trip_s`, `packet_bytes`: a lost packet costs go-back-N what is in flight then (100 µs under load, 4,096).
    """

    least_share: float = 0.01
    slow: float = 1.1
    slow_always: float = 1.2
    imbalance: float = 1.5
    scatter: float = 1.5
    paused: float = 0.05
    efficiency: float = 0.90
    efficiency_range: tuple[float, float] = (0.82, 0.98)
    round_trip_s: float = 100e-6
    packet_bytes: int = 4096
