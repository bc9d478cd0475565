"""Reports of nccl-tests: bandwidths to the last digit, and nothing of the environment."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.nccl_json import Read, cuts, read
from tests.builders.nccl_tests_json import SECRET, half, members, report, result, sample
from tracelab_parsers.nccl_tests import PARSER
from tracelab_parsers.nccl_tests.reading import version_text

ROW = result(1024, half("12.345678"), half("13.0005", "9.25", "16.1875", nwrong="3"))


def _read(folder: Path, *results: str, **more: object) -> Read:
    return read(PARSER, report(results, **more), folder)


def test_a_result_becomes_two_rows(tmp_path: Path) -> None:
    found = _read(tmp_path, ROW)
    shared = {"part": 0, "line": 1, "operation": "all_reduce", "ranks": 8, "bytes": 1024, "count": 256, "dtype": "float32", "reduction": "sum", "root": None}
    assert found["bandwidth_baselines"] == [
        shared | {"in_place": False, "time_ns": 12_346, "algbw_bytes_per_s": 10.5e9, "busbw_bytes_per_s": 18.375e9, "errors": 0},
        shared | {"in_place": True, "time_ns": 13_000, "algbw_bytes_per_s": 9.25e9, "busbw_bytes_per_s": 16.1875e9, "errors": 3},
    ]
    assert found["log_settings"] == [{"part": 0, "line": 1, "name": "version", "value": "2.28.7", "origin": "stated"}]
    assert found.counted() == {"wrong-elements": 1}
    (part,) = found.info.parts
    assert (part.host, part.pid, part.rank, part.world_size, part.job) == ("node-0", 900, None, None, None)
    assert found.info.metadata == {"nccl_version": "2.28.7", "iterations": "20", "warmup_iters": "5", "aggregated_iterations": "1", "graph": "0"}
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("measurement", 2, True)]


def test_the_environment_and_the_arguments_go_nowhere(tmp_path: Path) -> None:
    found = _read(tmp_path, ROW)
    shown = repr((found.rows, found.info, found.notices))
    assert SECRET.encode() in report([ROW])
    assert SECRET not in shown
    assert "someone" not in shown


@pytest.mark.parametrize(
    ("program", "operation"),
    [
        ("./build/all_reduce_perf", "all_reduce"),
        ("/opt/nccl-tests/reduce_scatter_perf_mpi", "reduce_scatter"),
        ("alltoall_perf", "all_to_all"),
        ("sendrecv_perf", "send_recv"),
        ("broadcast_perf", "broadcast"),
        ("hypercube_perf", "unknown"),
        ("python", "unknown"),
    ],
)
def test_the_program_tells_the_operation(tmp_path: Path, program: str, operation: str) -> None:
    found = _read(tmp_path, ROW, program=program)
    assert found.column("bandwidth_baselines", "operation") == [operation] * 2
    assert ("unknown-operation" in found.notices) == (operation == "unknown")


@pytest.mark.parametrize(("processes", "gpus", "groups", "ranks"), [(1, 8, 1, 8), (16, 1, 1, 16), (4, 2, 2, 4), (0, 1, 1, None)])
def test_ranks_are_those_of_a_group(tmp_path: Path, processes: int, gpus: int, groups: int, ranks: int | None) -> None:
    assert _read(tmp_path, ROW, processes=processes, gpus=gpus, groups=groups).column("bandwidth_baselines", "ranks") == [ranks] * 2


@pytest.mark.parametrize(
    ("dtype", "name"), [("int8", "int8"), ("half", "float16"), ("bfloat16", "bfloat16"), ("f8e4m3", "float8_e4m3fn"), ("double", "float64"), ("quad", None)]
)
def test_element_types(tmp_path: Path, dtype: str, name: str | None) -> None:
    assert _read(tmp_path, result(64, half("1"), "null", dtype=dtype)).column("bandwidth_baselines", "dtype") == [name]


def test_roots_and_reductions(tmp_path: Path) -> None:
    rows = [result(64, half("1"), "null", redop=redop, root=root) for redop, root in (("sum", 0), ("none", 3), ("mulsum", -1), ("avg", 11))]
    found = _read(tmp_path, *rows)
    assert found.column("bandwidth_baselines", "line", "reduction", "root") == [(1, "sum", 0), (2, None, 3), (3, "user", None), (4, "avg", 11)]


def test_what_was_not_checked_has_no_errors(tmp_path: Path) -> None:
    assert _read(tmp_path, result(64, half("1", nwrong=None), "null")).column("bandwidth_baselines", "in_place", "errors") == [(False, None)]


def test_cpu_times_are_no_bandwidth(tmp_path: Path) -> None:
    found = _read(tmp_path, result(64, half("1", key="cpu_time"), half("1", key="cpu_time")))
    assert found["bandwidth_baselines"] == []
    assert found.counted() == {"cpu-times": 2}


@pytest.mark.parametrize(
    ("written", "ns"), [("0.000000", 0), ("0.000500", 0), ("0.001500", 2), ("123456789.000001", 123_456_789_000), ("2199023255553.001", 2_199_023_255_553_001)]
)
def test_times_are_exact(tmp_path: Path, written: str, ns: int) -> None:
    assert _read(tmp_path, result(64, half(written), "null")).column("bandwidth_baselines", "time_ns") == [ns]


@pytest.mark.parametrize(
    ("code", "text"),
    [(2804, "2.8.4"), (21005, "2.10.5"), (22807, "2.28.7"), (20903, "2.9.3"), (30000, "3.0.0"), (0, None), ("x", None), (-5, None), (True, None)],
)
def test_versions(code: object, text: str | None) -> None:
    assert version_text(code) == text


@pytest.mark.parametrize("compress", [False, True])
def test_the_sample(tmp_path: Path, root: Path, compress: bool) -> None:
    data = sample()
    assert (root / "sample_traces/formats/nccl-tests/all_reduce_2x4.json").read_bytes() == data
    found = read(PARSER, data, tmp_path, compress=compress)
    expected = json.loads(data, parse_float=Decimal)["results"]
    assert found.column("bandwidth_baselines", "time_ns") == [int(r[h]["time"] * 1000) for r in expected for h in ("out_of_place", "in_place")]
    assert found.column("bandwidth_baselines", "bytes") == [r["size"] for r in expected for _ in range(2)]
    assert found.notices == {}
    for row in found["bandwidth_baselines"]:
        if not row["in_place"]:
            assert row["bytes"] / row["time_ns"] * 1e9 == pytest.approx(row["algbw_bytes_per_s"], rel=1e-6)


def test_a_file_cut_anywhere_keeps_what_is_whole(tmp_path: Path) -> None:
    row = result(8, half("1"), "null")
    data = report([row, row], processes=1)
    first = data.index(row.encode()) + len(row)
    for piece in cuts(data):
        found = read(PARSER, piece, tmp_path)
        rows = len(found["bandwidth_baselines"])
        # The last whole result may stand alone or be followed by a part of the next.
        assert rows == (len(piece) >= first) + (len(piece) >= first + 1 + len(row)), len(piece)
        assert found.info.truncated or "no-json" in found.notices


@pytest.mark.parametrize("key", ["version", "nccl_version", "config", "args", "env", "results", "errors"])
@pytest.mark.parametrize("value", ["null", "true", "-1", "[]", "{}", '"x"', '[1,{"size":[]}]', '{"devices":[5,null]}', "1e400"])
def test_a_wrong_member_costs_itself_alone(tmp_path: Path, key: str, value: str) -> None:
    parts = members([ROW]) | {key: value}
    found = read(PARSER, ("{" + ",".join(f'"{k}":{v}' for k, v in parts.items()) + "}").encode(), tmp_path)
    assert len(found["bandwidth_baselines"]) == (0 if key == "results" else 2)
    assert bool(found["log_settings"]) == (key != "nccl_version")


@pytest.mark.parametrize("key", ["size", "count", "type", "redop", "root", "out_of_place", "time", "alg_bw", "bus_bw", "nwrong"])
@pytest.mark.parametrize("value", ["null", "true", "-1.5", "[]", "{}", '"nan"', "inf", "-nan", "1e400", "9" * 60])
def test_a_wrong_value_costs_its_result_at_most(tmp_path: Path, key: str, value: str) -> None:
    start = ROW.index(f'"{key}":') + len(key) + 3
    stop = ROW.index("}", start) + 1 if key == "out_of_place" else min(n for n in (ROW.find(",", start), ROW.find("}", start)) if n >= 0)
    found = _read(tmp_path, ROW[:start] + value + ROW[stop:], result(2048, half("1"), half("1")))
    assert [r["in_place"] for r in found["bandwidth_baselines"] if r["bytes"] == 2048] == [False, True]
    assert len(found["bandwidth_baselines"]) == 4 - 2 * (key == "size") - (key == "out_of_place" and value != "{}")
    if key in {"time", "size"}:
        assert {"bad-time", "bad-result"} & found.notices.keys()


def test_a_report_of_nothing(tmp_path: Path) -> None:
    assert _read(tmp_path).counted() == {"no-results": 1}
    assert read(PARSER, b"hello", tmp_path).counted() == {"no-json": 1}


def test_it_is_known_by_its_content(tmp_path: Path) -> None:
    whole, other = report([ROW]), report([ROW], program="./mine")
    assert [m.confidence if m else None for m in (PARSER.sniff(tmp_path / "x", d) for d in (whole, b"\xef\xbb\xbf" + whole, whole[:120], other))] == [
        0.95,
        0.95,
        0.95,
        0.8,
    ]
    for data in (b"", b"{}", b'{"version": 2, "results": []}', b'{"schemaVersion": 1, "traceEvents": []}', b"#  size  count"):
        assert PARSER.sniff(tmp_path / "x", data) is None


@settings(max_examples=80)
@given(at=st.integers(0, 5000), drop=st.integers(0, 40), put=st.binary(max_size=12))
def test_no_damage_raises(tmp_path_factory: pytest.TempPathFactory, at: int, drop: int, put: bytes) -> None:
    data = report([ROW, ROW])
    at %= len(data)
    read(PARSER, data[:at] + put + data[at + drop :], tmp_path_factory.getbasetemp())
