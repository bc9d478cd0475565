"""Damage and wrong values in records of NCCL Inspector cost themselves alone, and are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.nccl_inspector import DUMP_US, bare, collective, dump_stats, point_to_point, proxy, text
from tests.builders.nccl_json import cuts, read
from tracelab_parsers.nccl_inspector import PARSER
from tracelab_parsers.nccl_json.lines import LINE_BYTES

SMALL = [collective("AllReduce", 0, 8192, 61, start_us=DUMP_US), dump_stats(0, 1), point_to_point("Send", 1, 8192, 40, peer=3, start_us=DUMP_US)]
NEWER = [dump_stats(collectives=1, proxy_records=1), bare(collective("AllReduce", 0, 8192, 61)), proxy()]
WRONG: list[Any] = [None, True, -1, 1.5, 10**30, "", "text", [], {}, "\ud83d\ude00" * 200, 2**63, 2**64]


def _places(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += _places(inner, (*path, key))
    return found


def _with(record: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    copy = json.loads(json.dumps(record))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return dict(copy)


def test_a_file_cut_anywhere_keeps_what_is_whole(tmp_path: Path) -> None:
    data = text([collective("AllReduce", 0, 8192, 61), point_to_point("Send", 1, 8192, 40, peer=3)])
    ends = [i + 1 for i, b in enumerate(data) if b == ord("\n")]
    whole = read(PARSER, data, tmp_path)["logged_collectives"]
    for piece in cuts(data):
        found = read(PARSER, piece, tmp_path)
        rows = found["logged_collectives"]
        complete = sum(len(piece) >= end - 1 for end in ends)
        assert rows == whole[:complete], len(piece)
        assert found.info.truncated == (len(piece) not in {0, *ends})
        assert found.info.truncated == ("truncated" in found.notices)


def test_a_torn_gzip_file_gives_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "file"
    records = [collective("AllReduce", n, 8192 + n, 61, start_us=DUMP_US + n) for n in range(2000)]
    read(PARSER, text(records), tmp_path, compress=True)
    data = path.read_bytes()
    torn = read(PARSER, data[: len(data) // 2], tmp_path)
    rows = torn["logged_collectives"]
    assert 500 < len(rows) < 1500
    assert [r["seq"] for r in rows] == list(range(len(rows)))
    assert torn.info.truncated
    assert "gzip-torn" in torn.notices


@pytest.mark.parametrize("path", _places(SMALL[0]) + _places(SMALL[2]), ids=".".join)
def test_a_wrong_value_costs_its_record_at_most(tmp_path: Path, path: tuple[str, ...]) -> None:
    record = SMALL[0] if path in _places(SMALL[0]) else SMALL[2]
    for value in WRONG:
        good = collective("AllGather", 0, 8192, 61, start_us=DUMP_US)
        found = read(PARSER, text([_with(record, path, value), good]), tmp_path)
        assert found["logged_collectives"][-1]["operation"] == "all_gather"
        assert len(found["logged_collectives"]) == 2 or {"bad-record", "bad-line", "other-records"} & found.notices.keys()


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("coll_exec_time_us", -1, "bad-time"),
        ("coll_exec_time_us", "nan", "bad-time"),
        ("coll_exec_time_us", None, "bad-time"),
        ("coll_exec_time_us", 10**19, "bad-time"),
        ("coll_sn", None, "bad-record"),
        ("coll_sn", -1, "bad-record"),
        ("coll", 7, "bad-record"),
    ],
)
def test_wrong_values_are_told(tmp_path: Path, field: str, value: object, code: str) -> None:
    found = read(PARSER, text([_with(SMALL[0], ("coll_perf", field), value)]), tmp_path)
    assert found.notices[code].count == 1
    assert found.column("logged_collectives", "dur_ns") == ([None] if code == "bad-time" else [])


def test_lines_of_other_things_are_counted(tmp_path: Path) -> None:
    data = b"NCCL INFO hello\n\n[1, 2]\n" + text(SMALL[:1]) + b'{"header": {}}\n{"a": \n' + text(SMALL[2:]) + b"\0\0\0\n"
    found = read(PARSER, data, tmp_path)
    assert found.column("logged_collectives", "line") == [4, 7]
    assert found.notices["bad-line"].count == 4
    assert found.notices["bad-line"].offset == 0


def test_a_huge_line_is_passed_over(tmp_path: Path) -> None:
    huge = b'{"coll_perf": "' + b"x" * (3 * LINE_BYTES) + b'"}\n'
    found = read(PARSER, text(SMALL[:1]) + huge + text(SMALL[2:]), tmp_path)
    assert found.column("logged_collectives", "line") == [1, 3]
    assert found.notices["oversized-line"].offset == len(text(SMALL[:1]))


def test_bad_bytes_in_names_are_replaced(tmp_path: Path) -> None:
    data = text([collective("AllReduce", 0, 8192, 1, name="group X", start_us=DUMP_US)]).replace(b"group X", b"group \xff")
    found = read(PARSER, data, tmp_path)
    assert found.column("communicators", "group_name") == ["group \ufffd"]
    assert found.counted() == {"invalid-utf8": 1}


def test_numbers_too_large_to_count_stay_writable(tmp_path: Path) -> None:
    found = read(PARSER, text([dump_stats(2**63 - 1, 2**63 - 1)] * 3), tmp_path)
    assert found.notices["operations-overwritten"].count == 2**53 - 1


def test_names_are_bounded(tmp_path: Path) -> None:
    found = read(PARSER, text([collective("AllReduce", 0, 8192, 1, host="h" * 10_000, name="n" * 10_000)]), tmp_path)
    assert len(found.info.parts[0].host or "") == 256
    assert len(found.column("communicators", "group_name")[0]) == 256


@pytest.mark.parametrize("path", _places(NEWER[0]), ids=".".join)
def test_a_wrong_beginning_of_a_dump_costs_no_operation(tmp_path: Path, path: tuple[str, ...]) -> None:
    for value in WRONG:
        found = read(PARSER, text([_with(NEWER[0], path, value), *NEWER[1:]]), tmp_path)
        assert found.column("logged_collectives", "operation") == ["all_reduce"]
        assert found.column("net_transfers", "bytes") == [1 << 20]


@settings(max_examples=80)
@given(at=st.integers(0, 5000), drop=st.integers(0, 40), put=st.binary(max_size=12))
def test_no_damage_raises(tmp_path_factory: pytest.TempPathFactory, at: int, drop: int, put: bytes) -> None:
    data = text(SMALL + NEWER)
    at %= len(data)
    read(PARSER, data[:at] + put + data[at + drop :], tmp_path_factory.getbasetemp())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["coll", "coll_sn", "id", "rank", "x"]), v, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(record=st.dictionaries(st.sampled_from(["header", "metadata", "coll_perf", "p2p_perf", "dump_stats", "proxy_trace"]), JSON))
def test_no_record_raises(tmp_path_factory: pytest.TempPathFactory, record: object) -> None:
    read(PARSER, text([record]), tmp_path_factory.getbasetemp())
