"""Dumps that are cut, damaged, rewritten or hostile, as JSON and as values of any type in any place."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.flight_recorder import BASE_NS, WORLD, as_json, cpp_pickle, dump, entry, hang, parse_bytes, status
from tracelab.errors import TracelabError

MEGABYTE = 1 << 20
WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    1e300,
    2**62,
    2**64,
    10**60,
    "",
    "1",
    "x" * 100_000,
    "\x00\x1b[31m",
    [],
    [[]],
    [[[[1]]]],
    [None] * 3,
    ["a", 1, None],
    {},
    {"a": {"b": 1}},
    {"0": "x"},
    [{"name": 1, "line": "x", "filename": []}],
]


def _two() -> dict[str, Any]:
    return dump([entry(0, 1, frames=[]), entry(1, 2)], progress={0: status(2, 2, 1)})


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in the dump, from the top level down to numbers in lists."""
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, child in children:
        yield (*path, key)
        yield from _places(child, (*path, key))


def _replaced(top: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(top))
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = copy.deepcopy(value)
    return changed


PLACES = list(_places(_two()))


@pytest.mark.parametrize("place", [p for p in PLACES if "entries" not in p or p[1:2] == (0,)], ids=lambda p: ".".join(map(str, p)))
def test_any_value_in_any_place(tmp_path: Path, place: tuple[Any, ...]) -> None:
    """The other entry is always read, and what the tables hold always fits them."""
    for number, wrong in enumerate(WRONG):
        changed = _replaced(_two(), place, wrong)
        data = json.dumps(changed).encode() if (number + len(place)) % 2 else pickle.dumps(changed, 2)
        parsed = parse_bytes(tmp_path, data)
        rows = parsed["logged_collectives"]
        if place != ("entries",):
            assert any((r["line"], r["seq"], r["source_ts_ns"]) == (2, 2, BASE_NS + 10_000_000) for r in rows)
            assert len(rows) + parsed.counts.get("bad-entry", 0) == 2
        assert {r["state"] for r in rows} <= {"scheduled", "started", "completed"}


def test_a_wrong_value_costs_its_own_column_alone(tmp_path: Path) -> None:
    (right,) = parse_bytes(tmp_path, as_json(dump([entry(0, 1, duration_ms=2.0)])))["logged_collectives"]
    for key, columns in {
        "duration_ms": {"dur_ns"},
        "time_created_ns": {"source_ts_ns"},
        "profiling_name": {"operation", "count"},
        "input_sizes": {"count", "in_bytes", "dtype"},
        "output_sizes": {"out_bytes"},
        "output_dtypes": {"out_bytes"},
    }.items():
        (row,) = parse_bytes(tmp_path, as_json(dump([entry(0, 1, duration_ms=2.0) | {key: {"wrong": 1}}])))["logged_collectives"]
        assert {c for c in row if row[c] != right[c]} <= columns, key


def test_entries_that_are_no_operation_are_counted(tmp_path: Path) -> None:
    entries: list[Any] = [entry(0, 1), 5, None, [], "x", {}, {"collective_seq_id": -1}, {"collective_seq_id": "one"}, entry(1, 2)]
    for data in (json.dumps({"version": "2.7", "entries": entries}).encode(), cpp_pickle({"version": "2.7", "entries": entries})):
        parsed = parse_bytes(tmp_path, data)
        assert [(r["line"], r["seq"]) for r in parsed["logged_collectives"]] == [(1, 1), (9, 2)]
        assert parsed.counts == {"bad-entry": 7}


def test_unknown_states_follow_the_times(tmp_path: Path) -> None:
    entries = [entry(n, n + 1, state=s) | {"state": "?"} for n, s in enumerate(("completed", "started", "scheduled"))]
    for data in (as_json(dump(entries)), cpp_pickle(dump(entries))):
        parsed = parse_bytes(tmp_path, data)
        assert [r["state"] for r in parsed["logged_collectives"]] == ["completed", "started", "scheduled"]
        assert parsed.counts == {"unknown-state": 3}


def test_every_cut_of_json_gives_its_beginning_and_says_so(tmp_path: Path) -> None:
    whole = as_json(dump([entry(0, 1), entry(1, 2)], version="2.4", progress={0: status(2, 2, 2)}))
    seen = []
    for cut in [*range(1, len(whole), 3), len(whole) - 2, len(whole) - 1]:
        parsed = parse_bytes(tmp_path, whole[:cut])
        assert parsed.info.truncated, cut
        assert "truncated" in parsed.notices, cut
        assert [r["seq"] for r in parsed["logged_collectives"]] == [1, 2][: len(parsed["logged_collectives"])]
        seen.append(len(parsed["logged_collectives"]))
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2}


@pytest.mark.parametrize("form", [as_json, cpp_pickle])
def test_torn_and_damaged_compression(tmp_path: Path, form: Any) -> None:
    whole = gzip.compress(form(dump([entry(n, n) for n in range(300)])), mtime=0)
    for data in (whole[: len(whole) // 2], whole[:-9]):
        parsed = parse_bytes(tmp_path, data)
        assert "gzip-torn" in parsed.notices
        assert parsed.info.truncated
        assert parsed["logged_collectives"]
    assert "gzip-trailing-garbage" in parse_bytes(tmp_path, whole + b"garbage").notices


def test_json_of_other_things_is_an_error(tmp_path: Path) -> None:
    for data in (b"{}", b'{"a": 1}', b'{"a": []}'):
        with pytest.raises(TracelabError, match="none of the keys"):
            parse_bytes(tmp_path, data)
    for data in (b"null", b"", b"text", b"\0" * 1000, b"12"):
        assert parse_bytes(tmp_path, data).notices["no-json"].severity == "error"


def test_deep_and_wide_json(tmp_path: Path) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for data in (b'{"entries": [%b]}' % deep, b'{"pg_config": %b, "entries": []}' % deep, b'{"entries": [{"collective_seq_id": 1, "frames": %b}]}' % deep):
        try:
            parsed = parse_bytes(tmp_path, data)
        except TracelabError:
            continue
        assert parsed.notices
    wide = json.dumps(dump([entry(0, 1, sizes=[[1]] * 50_000), entry(1, 2, sizes=[[1] * 50_000])])).encode()
    first, second = parse_bytes(tmp_path, wide)["logged_collectives"]
    assert (first["count"], first["in_bytes"]) == (50_000, 200_000)
    assert (second["count"], second["in_bytes"]) == (None, None)


def test_a_broken_entry_in_json_is_told(tmp_path: Path) -> None:
    data = as_json(dump([entry(n, n) for n in range(1, 6)])).replace(b'"op_id":3', b'"op_id":@')
    parsed = parse_bytes(tmp_path, data)
    assert {1, 2} <= {r["seq"] for r in parsed["logged_collectives"]}
    assert "bad-event" in parsed.notices


def test_claims_of_many_ranks_and_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelab_parsers.flight_recorder.contents._MOST_RANKS", 50_000)
    monkeypatch.setattr("tracelab_parsers.flight_recorder.contents._MOST_GROUPS", 100)
    ranks = ", ".join(map(str, range(20_000)))
    groups = {f"g{n}": {"name": f"g{n}", "desc": "x", "ranks": f"[{ranks}]"} for n in range(3)}
    parsed = parse_bytes(tmp_path, json.dumps(dump([entry(0, 1)]) | {"pg_config": groups}).encode())
    assert [g["size"] for g in parsed["process_groups"]] == [20_000, 20_000, None]
    many = {f"g{n}": {"name": f"g{n}", "desc": "x", "ranks": "[0, 1]"} for n in range(130)}
    parsed = parse_bytes(tmp_path, cpp_pickle(dump([entry(0, 1)]) | {"pg_config": many}))
    assert len(parsed["process_groups"]) == 100
    assert parsed.counts["bad-ranks"] == 30


@pytest.mark.parametrize("ranks", ["[0, 1, ..., 7]", "[0, 0]", "[-1]", "0 1", "[1.5]", "[99999999999]", 7, {"a": 1}, [0, None], ["x"]])
def test_lists_of_ranks_that_are_none(tmp_path: Path, ranks: object) -> None:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    parsed = parse_bytes(tmp_path, json.dumps(dump([entry(0, 1)]) | {"pg_config": config}).encode())
    assert parsed.counts == {"bad-ranks": 1}
    assert [(g["group_name"], g["group_ranks"], g["size"]) for g in parsed["process_groups"]] == [("0", None, None)]
    assert (parsed.info.parts[0].world_size, parsed.info.parts[0].rank) == (None, None)


def test_sizes_that_overflow_are_unknown(tmp_path: Path) -> None:
    huge = entry(0, 1, sizes=[[2**40, 2**40]])
    narrow = entry(1, 2, sizes=[[2**61]])
    empty = entry(2, 3, sizes=[[0, 5]])
    scalar = entry(3, 4, sizes=[[]])
    mixed = entry(4, 5, sizes=[[2], [3]]) | {"input_dtypes": ["Float", "Half"]}
    odd = entry(5, 6, dtype="QUInt4x2")
    rows = parse_bytes(tmp_path, cpp_pickle(dump([huge, narrow, empty, scalar, mixed, odd])))["logged_collectives"]
    assert [(r["count"], r["in_bytes"], r["dtype"]) for r in rows] == [
        (None, None, "float32"),
        (2**61, None, "float32"),
        (0, 0, "float32"),
        (1, 4, "float32"),
        (5, 14, None),
        (262_144, None, "quint4x2"),
    ]


def test_memory_follows_the_size_of_the_dump(tmp_path: Path) -> None:
    entries = [entry(n, n) for n in range(2_000)]
    data = as_json(dump(entries))
    parse_bytes(tmp_path, data)
    tracemalloc.start()
    try:
        parse_bytes(tmp_path, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * MEGABYTE


def test_escapes_and_controls_stay_text(tmp_path: Path) -> None:
    name = ("<script>\n\x1b[0m", "d\x00esc")
    for data in (as_json(dump([entry(0, 1, group=name)], groups={name: (0, 1)})), cpp_pickle(dump([entry(0, 1, group=name)], groups={name: (0, 1)}))):
        (row,) = parse_bytes(tmp_path, data)["communicators"]
        assert (row["group_name"], row["group_desc"], row["size"]) == (*name, 2)


def test_two_groups_of_one_name_are_one(tmp_path: Path) -> None:
    rows = parse_bytes(tmp_path, cpp_pickle(dump([entry(0, 1), entry(1, 1, group=("0", "other"), pg_id=4)])))
    assert [r["comm"] for r in rows["logged_collectives"]] == [0, 0]
    assert [(c["comm"], c["group_name"], c["group_desc"]) for c in rows["communicators"]] == [(0, *WORLD)]


def test_reading_twice_gives_the_same(tmp_path: Path) -> None:
    for data in (cpp_pickle(hang(0)), as_json(hang(0))):
        first, second = parse_bytes(tmp_path, data), parse_bytes(tmp_path, data)
        assert first.everything() == second.everything()
