"""What starts guarantee, on operations small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tracelab.align.bounds import Bounds, hard_bounds
from tracelab.align.observations import Parts


def _parts(*operations: dict[int, tuple[float, float]]) -> Parts:
    """Operations as start and end by host, one rank each."""
    rows = [(k, h, *times) for k, operation in enumerate(operations) for h, times in sorted(operation.items())]
    row, host, start, end = (np.array(c) for c in zip(*rows, strict=True))
    width = int(host.max()) + 1
    return Parts(
        [f"h{n}" for n in range(width)], [0] * width, row, host, host, start.astype(float), end.astype(float), np.zeros(len(operations), dtype=np.int64)
    )


def _bounds(parts: Parts, offset: tuple[float, ...] = (0.0, 0.0, 0.0), slack: float = 0.0) -> Bounds:
    return hard_bounds(parts, np.ones(len(parts.row), dtype=bool), np.array(offset)[parts.host], np.full(len(parts.hosts), slack))


def test_each_is_bounded_by_who_entered_last() -> None:
    """Host 0 enters last at 10 and host 1 leaves at 16; then 1 enters last at 40 and 0 leaves at 44: x1 − x0 is from −4 to 6."""
    parts = _parts({0: (10, 15), 1: (2, 16)}, {0: (30, 44), 1: (40, 45)})
    bounds = _bounds(parts)
    assert bounds.shift.tolist() == [0.0, 0.0]
    # Beside the mean of both, half of that.
    assert bounds.width.tolist() == [3.0, 3.0]
    assert _bounds(parts, slack=1.0).width.tolist() == [4.0, 4.0]


def test_intervals_add_up_along_a_chain() -> None:
    """0 with 1 and 1 with 2, each way 6: between 0 and 2 it is 12."""
    parts = _parts({0: (10, 16), 1: (0, 16)}, {0: (0, 16), 1: (10, 16)}, {1: (10, 16), 2: (0, 16)}, {1: (0, 16), 2: (10, 16)})
    # Host 0 is at most 6 from host 1 and 12 from host 2, which makes 18 / 3 from the mean of all.
    assert _bounds(parts).width.tolist() == [6.0, 4.0, 6.0]


def test_clocks_that_contradict_a_start_are_moved_as_little_as_will_do() -> None:
    """As above, x1 − x0 is from −4 to 6; given clocks in which it is 10, both move by 2."""
    parts = _parts({0: (10, 15), 1: (2, 16)}, {0: (30, 44), 1: (40, 45)})
    shift = _bounds(parts, (0.0, 10.0, 0.0)).shift
    assert shift[1] - shift[0] == pytest.approx(-4.0)


def test_hosts_that_no_order_of_clocks_can_reconcile_are_named() -> None:
    """Host 1 left 5 before 0 had entered, and 0 left 3 before 1 had: no clocks explain both."""
    parts = _parts({0: (20, 22), 1: (2, 15)}, {0: (30, 37), 1: (40, 45)}, {0: (50, 60), 2: (51, 60)})
    bounds = _bounds(parts)
    assert (bounds.cycle, bounds.excess) == ([0, 1], 8.0)
    assert np.isinf(bounds.width).all()


def test_nothing_is_guaranteed_to_who_never_entered_last() -> None:
    assert np.isinf(_bounds(_parts({0: (10, 15), 1: (2, 16)})).width).all()
