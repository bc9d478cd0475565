"""Damage and wrong values in dumps of NCCL's example profiler cost themselves alone, and are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.nccl_json import cuts, read
from tests.builders.nccl_profiler import Dump
from tracelab_parsers.nccl_json.lines import LINE_BYTES
from tracelab_parsers.nccl_profiler import PARSER, reading

WRONG = [
    "null",
    "true",
    "-1",
    "1.5",
    "1" * 30,
    '""',
    '"text"',
    "[]",
    "{}",
    "nan",
    "-inf",
    "NaN",
    "0x",
    "ncclFloat32",
    "1e999",
    '"\\ud800"',
    "18446744073709551616",
]


def _small(generation: str = "2.28") -> Dump:
    dump = Dump(generation)
    with dump.call("AllReduce", count=10, dtype="ncclFloat32", root=0), dump.collective("AllReduce", seq=0, start="1", end="9", count=10):
        dump.kernel(0, start_clock=100, stop_clock=900, start="2", end="8")
        dump.transfer("Send", peer=1, size=64, start="3", end="5")
    return dump


def test_a_file_cut_anywhere_keeps_what_is_whole(tmp_path: Path) -> None:
    dump = Dump("2.23")
    with dump.collective("AllReduce", seq=0, start="1", end="9"):
        dump.transfer("Send", peer=1, size=64, start="3", end="5")
    data = dump.text()
    whole = read(PARSER, data, tmp_path)
    beginnings = [data.index(mark) for mark in (b'"COLL", "ph": "b"', b'"Send", "cat": "PROXY", "ph": "b"')]
    # From the last brace of its line on, an event is whole.
    begun = [data.index(b"}},", at) + 2 for at in beginnings]
    for piece in cuts(data):
        found = read(PARSER, piece, tmp_path)
        assert [len(found["logged_collectives"]), len(found["net_transfers"])] == [int(len(piece) >= at) for at in begun], len(piece)
        assert found.info.truncated == ("truncated" in found.notices) == (len(piece) < len(data) - 1)
    assert len(whole["logged_collectives"]) == len(whole["net_transfers"]) == 1


@pytest.mark.parametrize("end", ["", "{}", '{"name": "Send", "cat": "P2P", "ph'])
def test_a_killed_process_leaves_no_end(tmp_path: Path, end: str) -> None:
    found = read(PARSER, _small().text(end), tmp_path)
    assert found.column("logged_collectives", "dur_ns") == [800]
    assert found.info.truncated
    assert found.notices["truncated"].severity == "warning"
    assert "bad-line" not in found.notices


@pytest.mark.parametrize(
    "key", ["name", "cat", "ph", "id", "pid", "ts", "args", "SeqNum", "CommHash", "Rank", "Count", "Datatype", "Algorithm", "Protocol", "nChannels"]
)
def test_a_wrong_value_costs_its_operation_at_most(tmp_path: Path, key: str) -> None:
    dump = _small("2.30")
    at = next(n for n, line in enumerate(dump.lines) if '"cat": "COLL", "ph": "b"' in line)
    line = dump.lines[at]
    start = line.index(f'"{key}": ') + len(key) + 4
    stop = len(line) - 2 if key == "args" else min(n for n in (line.find(",", start), line.find("}", start)) if n >= 0)
    for value in WRONG:
        dump.lines[at] = line[:start] + value + line[stop:]
        with dump.collective("AllGather", seq=3, start="1", end="2", count=10):
            pass
        found = read(PARSER, dump.text(), tmp_path)
        assert ("all_gather", 3, 40) in found.column("logged_collectives", "operation", "seq", "in_bytes")
        assert len(found["net_transfers"]) == 1
        del dump.lines[-2:]


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ('"ts": 1.000000, "args": {"SeqNum"', '"ts": nan, "args": {"SeqNum"', {"bad-time", "non-finite-number"}),
        ('"CommHash": 12715772615376301750', '"CommHash": null', {"no-communicator"}),
        ('{"name": "AllReduce", "cat": "COLL", "ph": "b"', '{"name": "Sum", "cat": "COLL", "ph": "b"', {"unknown-operation", "unmatched-end"}),
        ('"cat": "COLL", "ph": "b"', '"cat": "COLL", "ph": "X"', {"bad-event", "unmatched-end"}),
        ('"cat": "COLL", "ph": "b"', '"cat": "COLL", "ph" "b"', {"bad-line", "unmatched-end"}),
    ],
)
def test_wrong_values_are_told(tmp_path: Path, old: str, new: str, codes: set[str]) -> None:
    data = _small("2.30").text()
    assert old.encode() in data
    found = read(PARSER, data.replace(old.encode(), new.encode(), 1), tmp_path)
    assert codes <= found.notices.keys()


def test_times_that_run_backwards_give_no_length(tmp_path: Path) -> None:
    dump = Dump("2.23")
    with dump.collective("AllReduce", seq=0, start="9", end="1"):
        dump.transfer("Send", peer=1, size=64, start="7", end="3")
    found = read(PARSER, dump.text(), tmp_path)
    assert found.column("logged_collectives", "dur_ns", "state") == [(None, "completed")]
    assert found.column("net_transfers", "dur_ns") == [None]
    assert found.notices["bad-time"].count == 2


def test_a_huge_line_is_passed_over(tmp_path: Path) -> None:
    dump = _small()
    dump.lines.insert(0, '{"name": "' + "x" * (2 * LINE_BYTES) + '"},')
    found = read(PARSER, dump.text(), tmp_path)
    assert found.notices["oversized-line"].offset == 2
    assert found.column("logged_collectives", "line") == [4]


def test_events_without_end_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_OPEN", 100)
    dump = Dump()
    for n in range(150):
        dump.event("AllReduce", "COLL", "b", n, "1", f'"SeqNum": {n}')
        dump.event("ProgressSend", "PROXY", "b", n, "1", f'"transSize": {n}')
    found = read(PARSER, dump.text(), tmp_path)
    assert sorted(found.column("logged_collectives", "seq")) == sorted(found.column("net_transfers", "bytes")) == list(range(150))
    assert found.notices["too-many-open"].count == 100


def test_an_event_that_begins_twice_is_kept_twice(tmp_path: Path) -> None:
    dump = Dump()
    for seq in (1, 2):
        dump.event("AllReduce", "COLL", "b", 0, "1", f'"SeqNum": {seq}')
    dump.event("AllReduce", "COLL", "e", 0, "2")
    assert read(PARSER, dump.text(), tmp_path).column("logged_collectives", "seq") == [1, 2]


def test_several_events_on_a_line(tmp_path: Path) -> None:
    joined = read(PARSER, _small().text().replace(b"\n", b""), tmp_path)
    assert joined.column("logged_collectives", "dur_ns") == [800]
    assert joined.column("net_transfers", "bytes") == [64]
    assert not joined.info.truncated


def test_words_in_names_stay_as_they_are(tmp_path: Path) -> None:
    dump = Dump("2.28")
    with dump.call("Send", count=1, dtype="ncclInt8", stream="(nil)"), dump.point_to_point("Send", peer=1, start="1", end="2"):
        pass
    data = dump.text().replace(b'"cat": "P2P_API"', b'"cat": "P2P_API", "x": "a: ncclFloat32, b: 0x12}"')
    (row,) = read(PARSER, data, tmp_path)["logged_collectives"]
    assert row["stream"] == "(nil)"


@settings(max_examples=80)
@given(at=st.integers(0, 5000), drop=st.integers(0, 40), put=st.binary(max_size=12))
def test_no_damage_raises(tmp_path_factory: pytest.TempPathFactory, at: int, drop: int, put: bytes) -> None:
    data = _small().text()
    at %= len(data)
    read(PARSER, data[:at] + put + data[at + drop :], tmp_path_factory.getbasetemp())


@settings(max_examples=60)
@given(lines=st.lists(st.sampled_from([*_small().lines, "{}]", "[", "]]", '{"name": nccl', "null,", '"x": 0x1,', "{" * 2000]), max_size=12))
def test_no_order_of_lines_raises(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    found = read(PARSER, "\n".join(lines).encode(), tmp_path_factory.getbasetemp())
    assert found.notices
