"""Calls of NCCL on one thread, and columns at the edges of their types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.builders.job import START_NS
from tests.builders.nsys_sqlite import Export
from tests.parsers.test_nsys_tables import _read
from tracelab_parsers.nsys.columns import timed
from tracelab_parsers.nsys.generic import _values
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.ranges import Call, units
from tracelab_parsers.nsys_forms.values import _ints


def calls(*rows: tuple[str, int, int]) -> list[Call]:
    return [Call(f"nccl{name}", start, end) for name, start, end in rows]


def told(found: tuple[list, int]) -> tuple[list[list[str]], int]:  # type: ignore[type-arg]
    return [[c.name.removeprefix("nccl") for c in u.calls] for u in found[0]], found[1]


def test_a_group_is_one_unit() -> None:
    rows = calls(("GroupStart", 0, 1), ("Send", 2, 3), ("Recv", 4, 5), ("GroupEnd", 6, 9), ("AllReduce", 20, 30))
    assert told(units(rows, [8, 25])) == ([["Send", "Recv"], ["AllReduce"]], 0)


def test_a_lost_end_ends_with_the_next_call_that_launches_itself() -> None:
    rows = calls(("GroupStart", 0, 1), ("Send", 2, 3), ("Recv", 4, 5), ("AllReduce", 20, 30), ("GroupStart", 40, 41), ("Send", 42, 43), ("GroupEnd", 44, 49))
    assert told(units(rows, [25, 47])) == ([["Send"], ["Recv"], ["AllReduce"], ["Send"]], 2)


def test_a_group_at_the_end_of_the_capture_is_told() -> None:
    assert told(units(calls(("GroupStart", 0, 1), ("Send", 2, 3)))) == ([["Send"]], 1)


@pytest.mark.parametrize("normalized", [False, True])
def test_open_ranges_last_to_the_end_of_the_capture(tmp_path: Path, normalized: bool) -> None:
    """Times of the session, and times since 1970 (--ts-normalize)."""
    export = Export(normalized=normalized)
    epoch = START_NS if normalized else 0
    export.kernel("gemm", epoch + 1_000, epoch + 2_000)
    export.range("open", epoch + 6_000, None)
    export.add("ANALYSIS_DETAILS", duration=100_000)
    (row,) = [r for r in _read(export, tmp_path).rows("host_spans") if r["name"] == "open"]
    assert (row["dur_ns"], row["clamped"]) == (94_000, True)


def test_the_smallest_number_is_no_time() -> None:
    batch = pa.record_batch({"start": pa.array([-(2**63), 5]), "end": pa.array([10, -(2**63)])})
    rows = timed(batch, Notices(), "T")
    assert (rows.ts.tolist(), rows.dur.tolist()) == ([5], [0])


def test_whole_numbers_stay_exact_beside_signed_ones() -> None:
    batch = pa.record_batch(
        {
            "uintVal": pa.array([2**60 + 1, None, None, None], pa.int64()),
            "intVal": pa.array([None, -3, 2**60 + 1, None], pa.int64()),
            "floatVal": pa.array([None, None, None, 0.5]),
            "doubleVal": pa.array([None, None, None, None], pa.float64()),
        }
    )
    found = _values(batch)
    assert found.raw[[0, 2]].tolist() == [2**60 + 1] * 2
    assert found.whole.tolist() == [True, False, True, False]
    assert found.value[[1, 3]].tolist() == [-3.0, 0.5]
    assert found.stated.all()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit_are_nanoseconds(unit: str) -> None:
    per = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    column = pa.array(np.array([3 * per]), pa.timestamp(unit))
    assert _ints(column).to_pylist() == [3_000_000_000]
    assert _ints(pa.array(np.array([3 * per]), pa.duration(unit))).to_pylist() == [3_000_000_000]
