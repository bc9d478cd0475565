"""Damage and hostile values in a trace cost themselves alone: never the rank, the memory or the truth of a notice."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.builders.kineto_raw import BASE_NS, Parsed, document, end_mark, host, kernel, launch, parse, parse_events, write
from tracelab_parsers.json_chunks import Limits
from tracelab_parsers.torch_profiler.notices import Notices

MEGABYTE = 1 << 20


def _good(rank: int, count: int = 300) -> bytes:
    events = [e for i in range(1, count) for e in (launch(i, ts=i), kernel(f"of rank {rank}", ts=i, correlation=i))]
    return document([*events, end_mark()], indent=None, distributedInfo={"rank": rank, "world_size": 2}, base=BASE_NS + rank)


@pytest.mark.parametrize("at", [1, 17, 299])
def test_a_byte_that_is_no_text_costs_neither_the_rank_nor_the_name(tmp_path: Path, at: int) -> None:
    data = document([kernel(f"op {i}", ts=i + 1) for i in range(300)], indent=None).replace(b'"op %d"' % at, b'"op \xff"')
    parsed = parse(write(tmp_path, data))
    assert parsed.names("gpu_spans") == [f"op {i}" if i != at else "op \ufffd" for i in range(300)]
    notice = parsed.notices["invalid-utf8"]
    assert notice.count == 1
    assert msgspec.json.decode(msgspec.json.encode(notice))["offset"] == data.rindex(b'{"ph"', 0, data.index(b"\xff")) - 1


def test_offsets_of_any_integer_type_can_be_written_down() -> None:
    notices = Notices()
    notices.report("bad-event", np.int64(7))  # type: ignore[arg-type]
    assert msgspec.json.decode(msgspec.json.encode(notices.all()))[0]["offset"] == 7


def _claims(sizes: list[int], **more: object) -> list[dict[str, Any]]:
    found = []
    for i, size in enumerate(sizes):
        event = kernel("ncclDevKernel_AllReduce", i + 1)
        event["args"] |= {
            "Collective name": "allreduce",
            "Process Group Name": f"g{i}",
            "Group size": size,
            "Global rank start": 0,
            "Global rank stride": 1,
            **more,
        }
        found.append(event)
    return found


def _lengths(parsed: Parsed) -> list[int | None]:
    return [None if r["group_ranks"] is None else len(r["group_ranks"]) for r in parsed["comm_records"]]


def test_stated_sizes_of_groups_do_not_fill_the_memory(tmp_path: Path) -> None:
    path = write(tmp_path, document(_claims([4_000_000 + i for i in range(40)])))
    tracemalloc.start()
    try:
        parsed = parse(path)
        assert tracemalloc.get_traced_memory()[1] < 32 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert _lengths(parsed) == [None] * 40
    assert (parsed.notices["group-too-large"].severity, parsed.counts["group-too-large"]) == ("warning", 40)


def test_a_group_is_no_larger_than_the_job(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, *_claims([8, 9, 9]), distributedInfo={"world_size": 8})
    assert _lengths(parsed) == [8, None, None]
    assert parsed.counts["group-too-large"] == 1
    assert _lengths(parse_events(tmp_path, *_claims([1_000]))) == [1_000]


def test_all_groups_of_a_file_have_a_bound_together_and_equal_ones_count_once(tmp_path: Path) -> None:
    from tracelab_parsers.torch_profiler.comms import Ranges

    ranges = Ranges()
    world = 1_500_000
    found = [ranges.members(range(start, start + world), world) for start in (0, 0, 1, 0, 2, 1, 2)]
    assert [r is not None for r in found] == [True, True, True, True, False, True, False]
    assert found[0] is found[1] is found[3]
    assert ranges.refused == 1
    same = parse_events(tmp_path, *_claims([60_000] * 100, **{"Process Group Name": "one"}))
    assert _lengths(same) == [60_000] * 100
    assert "group-too-large" not in same.notices


@pytest.mark.parametrize(
    "sizes", [[10**18, "a"], ["a" * 1_000, 3_000_000], [2**62] * 20_000, [[1] * 1_000, 3_000_000], [1, -1, 1], [1, 1, 1, 1], [1.5, 2], [True, 2], [2**31]]
)
def test_grids_that_are_none_are_missing_and_counted(tmp_path: Path, sizes: list[Any]) -> None:
    events = [
        kernel("a", 1, grid=[2, 3, 4], block=[8, 8, 1]),
        kernel("b", 2, grid=sizes, block=sizes),
        kernel("c", 3, grid="[5, 2, 1]"),
        kernel("d", 4, grid=[]),
    ]
    path = write(tmp_path, document(events))
    tracemalloc.start()
    try:
        parsed = parse(path)
        assert tracemalloc.get_traced_memory()[1] < 32 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert [(r["blocks"], r["threads_per_block"]) for r in parsed["gpu_spans"]] == [(24, 64), (None, None), (10, None), (None, None)]
    assert parsed.counts["bad-launch-size"] == 2
    assert "bad-launch-size" not in parse_events(tmp_path, events[0], *events[2:]).notices


@pytest.mark.parametrize("piece", [700, 1_024, 4_096, 16_384])
def test_two_writers_that_take_turns_are_told_and_not_mixed(tmp_path: Path, piece: int) -> None:
    one, two = _good(0), _good(1)
    mixed = b"".join(one[i : i + piece] + two[i : i + piece] for i in range(0, len(one), piece))
    parsed = parse(write(tmp_path, mixed))
    notice = parsed.notices["interleaved-writers"]
    assert notice.severity == "error"
    assert "mixed" in notice.text
    assert "do not trust" in notice.hint
    assert set(parsed.names("gpu_spans")) == {"of rank 0"}
    assert parsed.info.truncated
    assert parsed.info.parts[0].rank == 0
    assert notice.offset is not None
    assert piece <= notice.offset < 2 * piece


def test_a_damaged_file_of_one_writer_is_not_taken_for_two(tmp_path: Path) -> None:
    data = _good(0).replace(b'"name": "of rank 0", "pid": 0, "tid": 7, "ts": 50,', b'"name": "a "schemaVersion" b\\"traceEvents\\": ", "ts": 50,')
    parsed = parse(write(tmp_path, data))
    assert parsed.counts["bad-event"] == 1
    assert "interleaved-writers" not in parsed.notices
    assert len(parsed["gpu_spans"]) == 298


def test_keys_that_stand_twice_in_a_damaged_file_are_of_two_writers(tmp_path: Path) -> None:
    head = b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, '
    data = head + _good(0).replace(b'"traceEvents"', b'"schemaVersion": 1, "traceEvents"')
    assert parse(write(tmp_path, data)).notices["interleaved-writers"].severity == "error"
    whole = _good(0).replace(b'"traceEvents"', b'"schemaVersion": 1, "traceEvents"')
    assert {"duplicate-key", "interleaved-writers"} & set(parse(write(tmp_path, whole)).notices) == {"duplicate-key"}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("stated", "base"),
    [("1.782967788e18", 1782967788 * 10**9), ("1782967788000000001.0", 1782967788 * 10**9 + 1), ("17829677880000000.01e2", 1782967788 * 10**9 + 1), ("0", 0)],
)
def test_a_base_with_a_fraction_or_an_exponent_is_exact(tmp_path: Path, stated: str, base: int, first: bool) -> None:
    data = document([kernel(ts=2)], base=424242, base_first=first, indent=None).replace(b"424242", stated.encode())
    parsed = parse(write(tmp_path, data))
    assert [r["source_ts_ns"] for r in parsed["gpu_spans"]] == [base + 2_000]
    assert not {"fractional-time-base", "no-time-base", "time-base-conflict"} & set(parsed.notices)


@pytest.mark.parametrize(("stated", "base"), [("1782967788000000000.75", 1782967788 * 10**9 + 1), ("1.5", 2), ("1782967788.25e9", 1782967788_250_000_000)])
def test_a_base_that_is_no_whole_number_is_told(tmp_path: Path, stated: str, base: int) -> None:
    parsed = parse(write(tmp_path, document([kernel(ts=2)], base=424242, indent=None).replace(b"424242", stated.encode())))
    assert [r["source_ts_ns"] for r in parsed["gpu_spans"]] == [base + 2_000]
    assert parsed.counts.get("fractional-time-base", 0) == (base < 1782967788_250_000_000)


@pytest.mark.parametrize("stated", ["1e400", "-5", "1e18x", "1e", "1.", '"1782967788000000000"', "1_000", "9" * 70, "null"])
def test_a_base_that_is_none_is_never_cut_to_its_first_digits(tmp_path: Path, stated: str) -> None:
    parsed = parse(write(tmp_path, document([kernel(ts=2)], base=424242, indent=None).replace(b"424242", stated.encode())))
    assert [r["source_ts_ns"] for r in parsed["gpu_spans"]] == [2_000]
    assert parsed.counts["no-time-base"] == 1


@pytest.mark.parametrize("chunk", [90, 1_000, 8 << 20])
@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (b'}, {"ph": "X", "cat": "cpu_op", "name": "op 3"', b'} {"ph": "X", "cat": "cpu_op", "name": "op 3"', 1),
        (b'}, {"ph"', b'} {"ph"', 19),
        (b'}, {"ph": "X", "cat": "cpu_op", "name": "op 3"', b'},, {"ph": "X", "cat": "cpu_op", "name": "op 3"', 1),
        (b'}], "last"', b'},], "last"', 1),
        (b'"traceEvents": [', b'"traceEvents": [,', 1),
    ],
    ids=["one missing", "all missing", "double", "trailing", "leading"],
)
def test_commas_that_are_missing_or_too_many_are_told(tmp_path: Path, old: bytes, new: bytes, count: int, chunk: int) -> None:
    data = document([host(f"op {i}", ts=i + 1) for i in range(20)], indent=None)
    data = (data[:-1] + b', "last": 1}').replace(old, new)
    with pytest.raises(ValueError, match=r"."):
        json.loads(data)
    parsed = parse(write(tmp_path, data), limits=Limits(chunk=chunk))
    assert parsed.names("host_spans") == [f"op {i}" for i in range(20)]
    assert (parsed.counts.get("bad-comma"), "bad-event" in parsed.notices) == (count, False)


@pytest.mark.parametrize("length", ["1e400", "9" * 10_000, '"soon"', "[1]", "true"])
@pytest.mark.parametrize("since", [0, 1_712_195_495_000_000], ids=["from a base", "since the epoch"])
def test_a_length_that_is_no_number_was_not_cut_by_the_profiler(tmp_path: Path, length: str, since: int) -> None:
    events = [kernel("a", since + 1.25, 5), kernel("b", since + 2.25, 424242), kernel("c", since + 3.25, 5)]
    parsed = parse(write(tmp_path, document(events, indent=None).replace(b"424242", length.encode())))
    assert parsed.names("gpu_spans") == ["a", "c"]
    assert parsed.counts["bad-time"] == 1
    assert "clamped-time" not in parsed.notices


@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_no_number(tmp_path: Path, value: bool) -> None:
    info = {"rank": value, "world_size": value, "pg_count": value, "pg_config": [{"pg_name": "0", "pg_size": value, "ranks": [value]}]}
    parsed = parse_events(tmp_path, host(), distributedInfo=info, deviceProperties=[{"id": value, "name": "NVIDIA"}])
    assert (parsed.info.parts[0].rank, parsed.info.parts[0].world_size) == (None, None)
    assert "pg_count" not in parsed.info.metadata
    assert parsed.counts["no-rank"] == 1
    assert [(g["size"], g["group_ranks"]) for g in parsed["process_groups"]] == [(None, None)]


@pytest.mark.parametrize("size", [10, 70_000, 2_000_000])
@pytest.mark.parametrize("filler", [b" ", b"x", b'"', b"\n:"], ids=["spaces", "letters", "quotes", "colons"])
@pytest.mark.parametrize(
    "place", [b'{"schemaVersion"', b'"traceEvents"', b': [{"ph"'], ids=["before all keys", "before the events' key", "after the events' key"]
)
def test_long_junk_among_the_keys_is_passed_over_and_told(tmp_path: Path, place: bytes, filler: bytes, size: int) -> None:
    data = document([host(f"op {i}", ts=i + 1) for i in range(20)], indent=None)
    at = data.index(place) + (1 if place.startswith(b"{") else 0)
    junk = filler * (size // len(filler))
    parsed = parse(write(tmp_path, data[:at] + junk + data[at:]))
    lost = {"broken-metadata", "no-events", "truncated"} & set(parsed.notices)
    assert parsed.names("host_spans") == [f"op {i}" for i in range(20)] or lost
    assert bool(lost) == bool(filler.strip())
    if place != b': [{"ph"' and filler == b"x":
        assert len(parsed["host_spans"]) == 20


@pytest.mark.parametrize("digits", [100, 400, 1_000, 10_000])
@pytest.mark.parametrize("since", [0, 1_712_195_495_000_000], ids=["from a base", "since the epoch"])
def test_a_start_of_many_digits_is_no_time(tmp_path: Path, digits: int, since: int) -> None:
    events = [kernel("a", since + 1.25, 5), kernel("b", 424242, 5), kernel("c", since + 3.25, 5)]
    parsed = parse(write(tmp_path, document(events, indent=None).replace(b"424242", b"9" * digits)))
    assert parsed.names("gpu_spans") == ["a", "c"]
    assert parsed.counts["bad-time"] == 1
