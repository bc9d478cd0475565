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
from tracelab_parsers.nsys_forms.values import _ints, converted


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


def test_balanced_groups_after_a_lost_end_are_groups() -> None:
    """NCCL launches in the outermost ncclGroupEnd alone: one that launches shows that what is open around it lost its end."""
    lost = calls(("GroupStart", 0, 1), ("AllReduce", 2, 3))
    groups = [calls(("GroupStart", t, t + 1), ("Send", t + 2, t + 3), ("Recv", t + 4, t + 5), ("GroupEnd", t + 6, t + 9)) for t in (10, 20, 30)]
    assert told(units(sum(groups, lost), [18, 28, 38])) == ([["AllReduce"], ["Send", "Recv"], ["Send", "Recv"], ["Send", "Recv"]], 1)


def test_a_group_in_a_group_is_launched_with_it() -> None:
    rows = calls(("GroupStart", 0, 1), ("Send", 2, 3), ("GroupStart", 4, 5), ("Recv", 6, 7), ("GroupEnd", 8, 9), ("Send", 10, 11), ("GroupEnd", 12, 19))
    assert told(units(rows, [15, 16])) == ([["Send", "Recv", "Send"]], 0)
    assert [(u.start, u.end) for u in units(rows, [15, 16])[0]] == [(0, 19)]


def test_no_call_is_lost_where_no_launch_is_known() -> None:
    rows = calls(("GroupStart", 0, 1), ("Send", 2, 3), ("GroupStart", 4, 5), ("Recv", 6, 7), ("GroupEnd", 8, 9), ("AllReduce", 10, 11))
    assert told(units(rows)) == ([["Send"], ["Recv"], ["AllReduce"]], 3)


def test_a_group_of_the_profiler_plugin_ends_one_that_was_lost() -> None:
    rows = calls(("GroupStart", 0, 1), ("Send", 2, 3), ("GroupApi", 10, 20), ("Send", 11, 12), ("Recv", 13, 14))
    assert told(units(rows, [18])) == ([["Send"], ["Send", "Recv"]], 1)


def test_groups_inside_a_call_are_a_part_of_it() -> None:
    rows = calls(("AlltoAll", 0, 20), ("GroupStart", 1, 2), ("Send", 3, 4), ("GroupEnd", 5, 19), ("AllReduce", 30, 40))
    assert told(units(rows, [15, 35])) == ([["AlltoAll"], ["AllReduce"]], 0)


def test_a_call_without_end_hides_no_later_one() -> None:
    """Its range is said to last to the end of the capture."""
    rows = [Call("ncclAllReduce", 0, 100, open=True), *calls(("AllReduce", 30, 40), ("AllReduce", 50, 60))]
    found, lost = units(rows, [5, 35, 55])
    assert [(u.start, u.end) for u in found] == [(0, 30), (30, 40), (50, 60)]
    assert lost == 0


def test_collectives_after_a_lost_end_keep_their_kernels(tmp_path: Path) -> None:
    """Calls of one ncclGroupStart whose end is not in the capture, then groups that are whole."""
    export = Export()
    export.nccl_domain()
    export.nccl("ncclGroupStart", 0, 10)
    export.nccl("ncclAllReduce", 20, 30)
    for n in range(3):
        at = 1_000 * (n + 1)
        export.nccl("ncclGroupStart", at, at + 10)
        export.nccl("ncclSend", at + 20, at + 30)
        export.nccl("ncclRecv", at + 40, at + 50)
        export.nccl("ncclGroupEnd", at + 60, at + 200)
        export.call("cudaLaunchKernel", at + 100, at + 110, n + 1)
        export.kernel("ncclDevKernel_SendRecv()", at + 300, at + 400, n + 1)
    found = _read(export, tmp_path)
    records = [(r["operation"], r["correlation"]) for r in found.rows("comm_records")]
    assert records == [("ncclAllReduce", None), *((f"nccl{name}", n) for n in (1, 2, 3) for name in ("Send", "Recv"))]
    assert found.notices["group-without-end"].count == 1


def test_launches_of_another_process_are_not_joined(tmp_path: Path) -> None:
    """Correlations have 32 bits: 2**32 + 5 of the first process is none, and not 5 of the second."""
    export = Export(pid=4000)
    export.nccl_domain()
    export.nccl("ncclAllReduce", 0, 1_000, thread=77)
    export.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 2_000, 3_000, correlation=(1 << 32) + 5)
    export.process(4001)
    export.nccl_domain()
    export.nccl("ncclAllReduce", 0, 1_000, thread=77)
    export.call("cudaLaunchKernel", 100, 200, 5, thread=77)
    export.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 4_000, 5_000, correlation=5)
    found = _read(export, tmp_path)
    assert [(r["part"], r["correlation"]) for r in found.rows("comm_records")] == [(0, None), (1, 5)]


_BOOT_NS = 28_254_349_605
_OF_SESSION = {"startTime": 0, "stopTime": 100_000}
_OF_BOOT = {"startTime": _BOOT_NS, "stopTime": _BOOT_NS + 100_000}
_OF_DAY = {"startTime": START_NS, "stopTime": START_NS + 100_000}


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize(
    ("base", "stated", "normalized"),
    [
        (0, {}, False),
        (0, _OF_SESSION, False),
        (0, _OF_BOOT, False),  # as Nsight Systems writes it
        (_BOOT_NS, _OF_BOOT, False),
        (_BOOT_NS, {"startTime": _BOOT_NS}, False),
        (START_NS, {}, True),
        (START_NS, {}, False),  # since 1970, though the export does not say so
        (START_NS, _OF_BOOT, True),
        (START_NS, _OF_DAY, True),
        (START_NS, _OF_DAY, False),
    ],
)
def test_open_ranges_last_to_the_end_of_the_capture(tmp_path: Path, base: int, stated: dict[str, int], normalized: bool, kernels: bool) -> None:
    """Whatever times count from: the session's start, the host's boot, 1970."""
    export = Export(normalized=normalized)
    if kernels:
        export.kernel("gemm", base + 1_000, base + 2_000)
    export.range("open", base + 6_000, None)
    export.add("MPI_COLLECTIVES_EVENTS", start=base + 7_000, globalTid=export.tid(), textId=export.string("MPI_Barrier"))
    export.add("ANALYSIS_DETAILS", **({"duration": 100_000} | stated))
    rows = {r["name"]: (r["dur_ns"], r["clamped"]) for r in _read(export, tmp_path).rows("host_spans")}
    assert rows == {"open": (94_000, True), "MPI_Barrier": (93_000, True)}


def test_open_ranges_of_an_export_that_shifted_its_times(tmp_path: Path) -> None:
    export = Export()
    export.add("META_DATA_EXPORT", name="EXPORT_PARAM_TIME_SHIFT", value="5000000")
    export.range("open", 5_006_000, None)
    export.add("ANALYSIS_DETAILS", duration=100_000, **_OF_BOOT)
    (row,) = _read(export, tmp_path).rows("host_spans")
    assert row["dur_ns"] == 94_000


def test_a_stop_without_a_duration_ends_the_capture(tmp_path: Path) -> None:
    export = Export()
    export.range("open", 6_000, None)
    export.add("ANALYSIS_DETAILS", **_OF_BOOT)
    (row,) = _read(export, tmp_path).rows("host_spans")
    assert row["dur_ns"] == 94_000


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
    assert _ints(pa.array(np.array([3 * per]), pa.timestamp(unit, "Asia/Tokyo"))).to_pylist() == [3_000_000_000]


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.time32("s"), 7_200), (pa.time32("ms"), 7_200_000), (pa.time64("us"), 7_200_000_000), (pa.time64("ns"), 7_200 * 10**9)]
)
def test_times_of_day_are_nanoseconds(kind: pa.DataType, value: int) -> None:
    assert converted(pa.array([value], kind), "int")[0].to_pylist() == [7_200 * 10**9]


def test_dates_are_nanoseconds() -> None:
    assert _ints(pa.array([2], pa.date32())).to_pylist() == _ints(pa.array([2 * 86_400_000], pa.date64())).to_pylist() == [172_800 * 10**9]


def test_times_beyond_64_bits_are_missing() -> None:
    """2**60 s are 2**60 * 10**9 ns, of which the lowest 64 bits are 0; 2**63 ns are 9,223,372,036.8 s."""
    found, bad = converted(pa.array([1 << 60, 9_223_372_037, None, 9_223_372_036, -9_223_372_037], pa.timestamp("s")), "int")
    assert (found.to_pylist(), bad) == ([None, None, None, 9_223_372_036 * 10**9, None], 3)
