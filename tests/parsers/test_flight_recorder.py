"""Dumps of the flight recorder, whole: every version, both forms, against values worked out by hand."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.flight_recorder import (
    BASE_NS,
    SAMPLES,
    TRAIN,
    VERSIONS,
    WORLD,
    as_json,
    cpp_pickle,
    dump,
    entry,
    frame,
    hang,
    parse,
    parse_bytes,
    python_pickle,
    status,
)
from tracelab_parsers.flight_recorder import PARSER
from tracelab_parsers.flight_recorder.names import element_type, ends, operation

FORMS: dict[str, Callable[[Any], bytes]] = {"cpp": cpp_pickle, "python 2": python_pickle, "json": as_json}
BY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def test_the_builder_writes_what_python_reads() -> None:
    top = hang(0)
    assert pickle.loads(cpp_pickle(top)) == top
    assert json.loads(as_json(top))["entries"][0]["process_group"] == list(WORLD)


@pytest.mark.parametrize("version", VERSIONS)
@BY_FORM
def test_an_operation_of_any_version_and_form(tmp_path: Path, form: Callable[[Any], bytes], version: str) -> None:
    entries = [entry(0, 1), entry(1, 2, title="nccl:_all_gather_base", sizes=[[10, 3]], out=[[40, 3]], dtype="BFloat16", duration_ms=1.5)]
    parsed = parse_bytes(tmp_path, form(dump(entries, version=version, progress={0: status(2, 2, 2)})))
    first, second = parsed["logged_collectives"]
    assert (first["operation"], first["seq"], first["line"], first["comm"], first["size"]) == ("all_reduce", 1, 1, 0, 4)
    assert (first["count"], first["dtype"], first["in_bytes"], first["out_bytes"]) == (1024 * 256, "float32", 1 << 20, 1 << 20)
    assert (first["source_ts_ns"], first["dur_ns"], first["state"], first["origin"]) == (BASE_NS, None, "completed", "flight-recorder")
    assert (second["operation"], second["count"], second["dtype"]) == ("all_gather", 30, "bfloat16")
    assert (second["in_bytes"], second["out_bytes"], second["dur_ns"], second["line"]) == (60, 240, 1_500_000, 2)
    (part,) = parsed.info.parts
    assert (part.rank, part.world_size, part.start_ns, part.end_ns) == (None, 4, BASE_NS, BASE_NS + 10_000_000)
    assert parsed.info.metadata["dump_version"] == version
    assert parsed.info.metadata.get("library_version") == (None if version < "2.6" and version != "2.10" else "2.27.7")
    assert parsed.notices == {}
    assert not parsed.info.truncated


def test_both_forms_give_the_same_rows_but_for_stacks(tmp_path: Path) -> None:
    parsed = {name: parse_bytes(tmp_path, form(hang(1)), f"{name}_rank_1") for name, form in FORMS.items()}
    assert parsed["cpp"].tables == parsed["python 2"].tables
    rows = parsed["cpp"]["logged_collectives"]
    assert [r["stack"] is None for r in rows] == [False] * len(rows)
    assert [{**r, "stack": None} for r in rows] == parsed["json"]["logged_collectives"]
    for table in ("communicators", "process_groups", "comm_progress"):
        assert parsed["json"][table] == parsed["cpp"][table]


def test_a_hang_shows_who_did_not_come(tmp_path: Path) -> None:
    last = {}
    for rank in range(4):
        parsed = parse_bytes(tmp_path, cpp_pickle(hang(rank)), f"nccl_trace_rank_{rank}")
        world = [r for r in parsed["logged_collectives"] if r["comm"] == 0]
        progress = parsed["comm_progress"][0]
        last[rank] = (world[-1]["seq"], world[-1]["state"], progress["last_enqueued"], progress["last_completed"], progress["status"])
    waiting = (5, "started", 5, 4, "running")
    assert last == {0: waiting, 1: waiting, 2: (4, "completed", 4, 4, "ok"), 3: waiting}


def test_progress_names_group_and_rank(tmp_path: Path) -> None:
    parsed = parse_bytes(tmp_path, cpp_pickle(hang(3)))
    world, pair = parsed["comm_progress"]
    assert (world["group_name"], world["group_desc"], world["subject_rank"], world["size"], world["comm"]) == ("0", "default_pg", 3, 4, 0)
    assert (pair["group_name"], pair["group_desc"], pair["subject_rank"], pair["size"], pair["comm"]) == ("1", "tensor_parallel", 3, 2, 1)
    assert world["text"] == "enqueued 5, started 5, completed 4"


def test_a_group_without_operations_is_no_guess(tmp_path: Path) -> None:
    parsed = parse_bytes(tmp_path, cpp_pickle(dump([entry(0, 1)], progress={0: status(1, 1, 1), 7: status(-1, -1, -1)})))
    (known, unknown) = parsed["comm_progress"]
    assert (known["comm"], known["group_name"]) == (0, "0")
    assert (unknown["comm"], unknown["group_name"], unknown["last_enqueued"], unknown["status"]) == (None, None, -1, "ok")


def test_an_operation_that_the_watchdog_gave_up(tmp_path: Path) -> None:
    entries = [entry(0, 8), entry(1, 9, state="started", retired=True), entry(2, 10, state="scheduled", retired=True)]
    (row,) = parse_bytes(tmp_path, cpp_pickle(dump(entries, progress={0: status(10, 9, 8)})))["comm_progress"]
    assert (row["status"], row["timed_out"], row["operation"], row["in_bytes"]) == ("timed-out", 9, "all_reduce", 1 << 20)


@BY_FORM
def test_operations_of_a_group_have_its_state(tmp_path: Path, form: Callable[[Any], bytes]) -> None:
    own: dict[str, Any] = {"p2p": True, "p2p_seq": 3, "sizes": [[8]]}
    stuck: dict[str, Any] = {"p2p": True, "p2p_seq": 4, "sizes": [[8]]}
    entries = [
        entry(0, 1, op_id=1, title="nccl:send 2->3", state="scheduled", **own),
        entry(1, 1, op_id=2, title="nccl:recv 2<-1", state="scheduled", **own),
        entry(2, 1, op_id=2, title="nccl:coalesced", state="completed", **{**own, "sizes": []}),
        entry(3, 1, op_id=3, title="nccl:send 2->0", state="scheduled", **stuck),
        entry(4, 1, op_id=3, title="nccl:coalesced", state="started", **{**stuck, "sizes": []}),
        entry(5, 1, op_id=4, title="nccl:send 2->0", state="scheduled", **{**own, "p2p_seq": 5}),
        entry(6, 3, state="scheduled"),
    ]
    rows = parse_bytes(tmp_path, form(dump(entries)))["logged_collectives"]
    assert [(r["operation"], r["peer"], r["seq"], r["state"], r["in_bytes"], r["out_bytes"]) for r in rows] == [
        ("send", 3, 3, "completed", 32, 0),
        ("recv", 1, 3, "completed", 0, 32),
        ("send_recv", None, 3, "completed", 0, 0),
        ("send", 0, 4, "started", 32, 0),
        ("send_recv", None, 4, "started", 0, 0),
        ("send", 0, 5, "scheduled", 32, 0),
        ("all_reduce", None, 3, "scheduled", 1 << 20, 1 << 20),
    ]


def test_a_group_of_collectives_has_one_number_and_all_its_rows(tmp_path: Path) -> None:
    entries = [
        *(entry(n, 6, op_id=n, title="nccl:all_reduce", state="completed") for n in range(3)),
        entry(3, 6, op_id=3, title="nccl:coalesced", state="scheduled", sizes=[]),
    ]
    rows = parse_bytes(tmp_path, cpp_pickle(dump(entries)))["logged_collectives"]
    assert [(r["seq"], r["operation"], r["state"]) for r in rows] == [(6, "all_reduce", "scheduled")] * 3 + [(6, "unknown", "scheduled")]
    (alone,) = parse_bytes(tmp_path, cpp_pickle(dump(entries[3:])))["logged_collectives"]
    assert (rows[3]["in_bytes"], alone["in_bytes"]) == (0, None)


def test_many_operations_between_a_group_and_its_launch(tmp_path: Path) -> None:
    """Rows are held until the launch of their group is known: a window of thousands, not one batch."""
    own: dict[str, Any] = {"p2p": True, "p2p_seq": 1, "sizes": [[8]], "pg_id": 1, "group": ("1", "pipe")}
    between = [entry(n, n, sizes=[[1]]) for n in range(2, 10_000)]
    sent, launch = entry(0, 0, title="nccl:send 0->1", state="scheduled", **own), entry(1, 0, title="nccl:coalesced", **own)
    top = dump([*between[:7_000], sent, *between[7_000:9_500], launch, *between[9_500:]])
    rows = parse_bytes(tmp_path, as_json(top))["logged_collectives"]
    assert [r["line"] for r in rows] == list(range(1, 10_001))
    assert [(r["state"], r["line"]) for r in rows if r["operation"] == "send"] == [("completed", 7_001)]


@pytest.mark.parametrize("rank", range(8))
def test_the_groups_tell_the_rank(tmp_path: Path, rank: int) -> None:
    """Rows and columns of a grid of 2 by 4: each rank is alone in both of its groups."""
    groups = {WORLD: range(8), ("1", "row"): range(rank // 4 * 4, rank // 4 * 4 + 4), ("2", "column"): (rank % 4, rank % 4 + 4)}
    parsed = parse_bytes(tmp_path, cpp_pickle(dump([entry(0, 1)], groups=groups)), "some_name")
    assert (parsed.info.parts[0].rank, parsed.info.parts[0].world_size) == (rank, 8)
    assert [(c["group_name"], c["comm_rank"], c["size"]) for c in parsed["communicators"]] == [("0", rank, 8), ("1", rank % 4, 4), ("2", rank // 4, 2)]
    assert [g["group_ranks"] for g in parsed["process_groups"]] == [list(r) for r in groups.values()]


def test_the_title_of_a_send_tells_the_rank(tmp_path: Path) -> None:
    groups = {WORLD: range(4), ("1", "pipe"): (3, 1)}
    sent = entry(0, 0, p2p_seq=1, p2p=True, title="nccl:send 1->0", group=("1", "pipe"), pg_id=1)
    assert parse_bytes(tmp_path, cpp_pickle(dump([sent], groups=groups))).info.parts[0].rank == 1


def test_titles_that_contradict_the_groups_tell_nothing(tmp_path: Path) -> None:
    sends = [entry(n, 0, p2p_seq=n, p2p=True, title=f"nccl:send {n}->3") for n in (0, 1)]
    parsed = parse_bytes(tmp_path, cpp_pickle(dump(sends)))
    assert parsed.info.parts[0].rank is None
    assert parsed.counts == {"contradictory-writer": 1}
    apart = {("1", "a"): (0, 1), ("2", "b"): (2, 3)}
    parsed = parse_bytes(tmp_path, cpp_pickle(dump([entry(0, 1)], groups=apart)))
    assert (parsed.info.parts[0].rank, parsed.info.parts[0].world_size) == (None, None)
    assert parsed.counts == {"contradictory-writer": 1}


def test_the_ring_buffer_says_what_it_lost(tmp_path: Path) -> None:
    parsed = parse_bytes(tmp_path, cpp_pickle(dump([entry(n, n) for n in range(1_000, 1_010)])))
    notice = parsed.notices["overwritten-operations"]
    assert (notice.severity, notice.count) == ("info", 1_000)
    assert [r["line"] for r in parsed["logged_collectives"]] == list(range(1, 11))


@BY_FORM
def test_a_dump_without_operations(tmp_path: Path, form: Callable[[Any], bytes]) -> None:
    parsed = parse_bytes(tmp_path, form(dump([], progress={0: status(3, 3, 3)})))
    assert parsed.counts == {"no-entries": 1}
    assert [r["last_completed"] for r in parsed["comm_progress"]] == [3]
    assert [r["group_ranks"] for r in parsed["process_groups"]] == [[0, 1, 2, 3]]
    assert (parsed.info.parts[0].start_ns, parsed.info.events) == (None, 1)


def test_stacks_are_innermost_first_and_bounded(tmp_path: Path) -> None:
    deep = [frame(f"f{n}", "a\nb.py", n) for n in range(100)]
    rows = parse_bytes(tmp_path, cpp_pickle(dump([entry(0, 1, frames=TRAIN), entry(1, 2, frames=deep), entry(2, 3, frames=[])])))["logged_collectives"]
    assert rows[0]["stack"] == "torch/distributed/distributed_c10d.py:2806 all_reduce\ntrain.py:88 step\ntrain.py:140 <module>"
    assert rows[1]["stack"].split("\n") == [f"a b.py:{n} f{n}" for n in range(16)]
    assert rows[2]["stack"] is None


def test_other_tables_of_the_dump_are_passed_over(tmp_path: Path) -> None:
    top = dump([entry(0, 1)], comm_state={"abc": {"rank": "0", "commHash": "123"}})
    for form in FORMS.values():
        assert len(parse_bytes(tmp_path, form(top))["logged_collectives"]) == 1


def test_what_other_versions_and_tools_write(tmp_path: Path) -> None:
    top = dump([entry(0, 1)])
    assert parse_bytes(tmp_path, cpp_pickle(top | {"version": "3.0"})).counts == {"unknown-version": 1}
    assert parse_bytes(tmp_path, cpp_pickle(top | {"rank": 3})).info.parts[0].rank == 3
    assert len(parse_bytes(tmp_path, cpp_pickle(top["entries"]))["logged_collectives"]) == 1
    assert len(parse_bytes(tmp_path, json.dumps(top["entries"]).encode())["logged_collectives"]) == 1
    assert len(parse_bytes(tmp_path, json.dumps(top, indent=2).encode())["logged_collectives"]) == 1
    listed = {"0": {"name": "0", "desc": "default_pg", "ranks": [0, 1]}}
    assert parse_bytes(tmp_path, cpp_pickle(top | {"pg_config": listed})).info.parts[0].world_size == 2
    for protocol in (3, 4, 5):
        assert len(parse_bytes(tmp_path, python_pickle(top, protocol))["logged_collectives"]) == 1
    old = [{k: v for k, v in entry(0, 1).items() if k not in ("is_p2p", "collective_seq_id")} | {"seq_id": 9}]
    assert parse_bytes(tmp_path, cpp_pickle(dump(old, version="2.3")))["logged_collectives"][0]["seq"] == 9


def test_compressed_dumps(tmp_path: Path) -> None:
    for form in (cpp_pickle, as_json):
        data = form(hang(0))
        assert parse_bytes(tmp_path, gzip.compress(data)).tables == parse_bytes(tmp_path, data).tables


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("nccl:all_reduce", "all_reduce"),
        ("nccl:all_reduce_barrier", "barrier"),
        ("nccl:allreduce_coalesced", "all_reduce"),
        ("nccl:_broadcast_oop", "broadcast"),
        ("nccl:_reduce_oop", "reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:all_gather_into_tensor_coalesced", "all_gather"),
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("nccl:reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("nccl:all_to_all", "all_to_all"),
        ("nccl:gather", "gather"),
        ("nccl:scatter", "scatter"),
        ("nccl:send 0->1", "send"),
        ("nccl:recv 0<-1", "recv"),
        ("gloo:all_reduce", "all_reduce"),
        ("something:else", "unknown"),
        ("", "unknown"),
    ],
)
def test_titles(title: str, name: str) -> None:
    assert operation(title, point_to_point=False) == name


def test_ends_and_element_types() -> None:
    assert ends("nccl:send 12->3") == (12, 3)
    assert ends("nccl:recv 12<-3") == (12, 3)
    assert ends("nccl:recv 12->3") is None
    assert ends("nccl:all_reduce") is None
    assert [element_type(n) for n in ("Half", "Double", "Bool", "Float8_e4m3fn", "QInt8")] == [
        ("float16", 2),
        ("float64", 8),
        ("bool", 1),
        ("float8_e4m3fn", 1),
        ("qint8", None),
    ]


@pytest.mark.parametrize("path", sorted(SAMPLES.iterdir()), ids=lambda p: p.name)
def test_samples_are_what_the_builder_writes(path: Path) -> None:
    rank = int(path.name.removeprefix("nccl_trace_rank_"))
    assert path.read_bytes() == (as_json if rank == 3 else cpp_pickle)(hang(rank))
    assert parse(path).info.parts[0].rank == rank


@BY_FORM
def test_dumps_are_claimed(tmp_path: Path, form: Callable[[Any], bytes]) -> None:
    top = dump([entry(0, 1)], progress={0: status(1, 1, 1)})
    for data in (form(top), form(dump([], progress={0: status(1, 1, 1)})), form(top)[:600]):
        match = PARSER.sniff(tmp_path / "nccl_trace_rank_0", data)
        assert match is not None
        assert match.confidence == 0.95


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        pickle.dumps({"version": 1, "state_dict": {}}),
        pickle.dumps([1, 2, 3]),
        b'{"version": "1", "entries": []}',
        b'{"schemaVersion": 1, "distributedInfo": {"pg_config": [], "pg_status": 1, "entries": 2, "version": 3}, "traceEvents": []}',
        b"host:1:2 [0] NCCL INFO entries pg_config pg_status version\n",
    ],
)
def test_other_files_are_not_claimed(tmp_path: Path, data: bytes) -> None:
    assert PARSER.sniff(tmp_path / "nccl_trace_rank_0", data) is None
