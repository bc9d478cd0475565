"""Which changes between the pieces of a clock are a step that is claimed."""

from __future__ import annotations

import pytest

from tests.builders.network import answer
from tracelab.analyses.clocks import ANALYSIS

US, S = 1_000, 1_000_000_000


def _pieces(*rows: tuple[int, int, float], uncertainty: int = 5 * US) -> dict[str, list[dict[str, object]]]:
    """Pieces of host b as start, offset, drift; host a beside it."""
    pieces = [("a", (0, 0, 0.0)), *(("b", r) for r in rows)]
    clocks = [
        {"host": h, "start_ns": at, "offset_ns": offset, "drift_ppm": ppm, "uncertainty_ns": uncertainty, "method": "collective-ends", "grade": "A"}
        for h, (at, offset, ppm) in pieces
    ]
    return {"clocks": clocks, "steps": [{"rank": 0, "step": 1, "start_ns": 0, "end_ns": 20 * S, "origin": "annotation"}]}


@pytest.mark.parametrize(
    ("pieces", "uncertainty", "claimed"),
    [
        ([(0, 0, 0.0), (10 * S, -3_400 * US, 0.0)], 5 * US, ["forward by 3.40 ms"]),
        ([(0, 0, 0.0), (10 * S, 60 * US, 0.0)], 5 * US, ["back by 60.0 µs"]),
        # Smaller than what is known of the clock.
        ([(0, 0, 0.0), (10 * S, 19 * US, 0.0)], 22 * US, []),
        # Another drift from there on: 10 s at 2 ppm are 20 µs, which the next piece takes up to the nanosecond.
        ([(0, 0, 2.0), (10 * S, 20 * US + 1, -3.0)], 5 * US, []),
    ],
)
def test_a_step_is_claimed_only_beyond_the_uncertainty(pieces: list[tuple[int, int, float]], uncertainty: int, claimed: list[str]) -> None:
    found = answer(ANALYSIS, **_pieces(*pieces, uncertainty=uncertainty)).findings
    assert [f.kind for f in found] == ["clock_step"] * len(claimed)
    assert all(f.hosts == ["b"] and words in f.summary for f, words in zip(found, claimed, strict=True))
