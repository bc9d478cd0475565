"""Clocks that are wrong: an offset, a drift that wanders, and steps where a time service set them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelab.simulate.noise import generator

__all__ = ["EPOCH_NS", "Clock", "Skew", "clock_of"]

EPOCH_NS = 1_785_000_000_000_000_000
"""Unix time of true time 0."""
_KNOT_NS = 1_000_000_000


@dataclass(frozen=True)
class Skew:
    """How wrong clocks are. `offset_ms`: half width of the uniform offsets; `drift_ppm`: likewise; `wander_ppm`: per root of a second.

    `steps`: (host, share of the run, ms) where a clock was set.
    """

    offset_ms: float = 5.0
    drift_ppm: float = 5.0
    wander_ppm: float = 0.05
    steps: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True)
class Clock:
    """Unix time that a machine shows: true time + `offset_ns` + drift + wander + steps (moment, ns)."""

    offset_ns: int = 0
    drift_ppm: float = 0.0
    wander: tuple[int, ...] = (0,)
    steps: tuple[tuple[int, int], ...] = ()

    def shows(self, moment: int) -> int:
        """What it shows at a moment of true time (ns)."""
        return EPOCH_NS + moment + self.error(moment)

    def error(self, moment: int) -> int:
        """How far it is ahead then, ns."""
        knot, rest = divmod(max(moment, 0), _KNOT_NS)
        a, b = self.wander[min(knot, len(self.wander) - 1)], self.wander[min(knot + 1, len(self.wander) - 1)]
        stepped = sum(size for at, size in self.steps if moment >= at)
        return self.offset_ns + round(self.drift_ppm * 1e-6 * moment) + a + (b - a) * rest // _KNOT_NS + stepped


def clock_of(seed: int, machine: str, skew: Skew, length_ns: int, host: int | None = None) -> Clock:
    """The clock of a machine for a run of `length_ns`; `host`: its index among the hosts, for the steps of `skew`."""
    rng = generator(seed, "clock", machine)
    offset, drift = rng.uniform(-1, 1, 2)
    knots = length_ns // _KNOT_NS + 2
    wander = np.cumsum(np.cumsum(rng.normal(0, skew.wander_ppm * 1e3, knots)))
    steps = tuple((round(share * length_ns), round(ms * 1e6)) for h, share, ms in skew.steps if h == host)
    return Clock(round(offset * skew.offset_ms * 1e6), float(drift * skew.drift_ppm), (0, *map(int, wander.round())), steps)
