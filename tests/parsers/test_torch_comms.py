"""Communication arguments and process groups, with lists that the profiler cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kineto_raw import Parsed, document, host, kernel, parse, parse_events, write

CUT = "[" + ", ".join(map(str, range(30))) + ", ...]"
FULL = {
    "Collective name": "allreduce",
    "dtype": "Float",
    "In msg nelems": 2048,
    "Out msg nelems": 4096,
    "In split size": "[1, 2]",
    "Out split size": [3, 4],
    "Process Group Name": "7",
    "Process Group Description": "tp",
    "Process Group Ranks": "[4, 5]",
    "Group size": 2,
    "Src Rank": 4,
    "Dst Rank": 5,
    "Seq": 12,
    "Comms Id": 2**63,
    "Is asynchronized op": True,
}


def _kernel(**args: object) -> dict[str, Any]:
    event = kernel("ncclDevKernel_AllReduce", 10, 5)
    event["args"] |= {"External id": 3, "Collective name": "allreduce", **args}
    return event


def _group(name: object, ranks: object, size: int | None = None, **more: object) -> dict[str, object]:
    return {"pg_name": name, "pg_desc": "d", "backend_config": "cuda:nccl", "pg_size": size, "ranks": ranks, **more}


def _ranks(parsed: Parsed) -> list[list[int] | None]:
    return [r["group_ranks"] for r in parsed["comm_records"]]


def test_a_kernel_states_all_of_its_collective(tmp_path: Path) -> None:
    (row,) = parse_events(tmp_path, _kernel(**FULL), kernel("gemm"))["comm_records"]
    assert {k: v for k, v in row.items() if k not in {"source_ts_ns", "part", "dur_ns"}} == {
        "recorded_on": "kernel",
        "correlation": 1,
        "external_id": 3,
        "tid": None,
        "operation": "allreduce",
        "dtype": "Float",
        "in_elements": 2048,
        "out_elements": 4096,
        "in_split": [1, 2],
        "out_split": [3, 4],
        "group_name": "7",
        "group_desc": "tp",
        "group_size": 2,
        "group_ranks": [4, 5],
        "src_rank": 4,
        "dst_rank": 5,
        "seq": 12,
        "comms_id": str(2**63),
        "is_async": True,
    }


def test_a_host_operator_states_its_collective(tmp_path: Path) -> None:
    event = host("record_param_comms", External_id=3)
    event["args"] |= {**FULL, "Collective name": "wait", "Is asynchronized op": "False", "Comms Id": "0xab"}
    (row,) = parse_events(tmp_path, event)["comm_records"]
    picked = {k: row[k] for k in ("recorded_on", "correlation", "external_id", "tid", "operation", "is_async", "comms_id")}
    assert picked == {"recorded_on": "cpu_op", "correlation": None, "external_id": 3, "tid": 12, "operation": "wait", "is_async": False, "comms_id": "0xab"}


def test_calls_without_arguments_are_no_records(tmp_path: Path) -> None:
    old = host("record_param_comms", External_id=3, Ev_Idx=1)
    other = host("aten::mm", dtype="float")
    parsed = parse_events(tmp_path, old, other, kernel("ncclKernel_AllReduce"))
    assert parsed["comm_records"] == []
    assert len(parsed["host_spans"]) == 2


def test_group_ids_of_early_2024_are_names(tmp_path: Path) -> None:
    event = host("record_param_comms")
    event["args"] |= {"Collective name": "allreduce", "Process Group ID": 0, "Process Group Ranks": "[0]", "Group size": 1}
    (row,) = parse_events(tmp_path, event)["comm_records"]
    assert (row["group_name"], row["group_ranks"]) == ("0", [0])


@pytest.mark.parametrize("ranks", ["[0, 1, 5]", "[0,1,5]", [0, 1, 5], ["0", "1", "5"], "0, 1, 5"])
def test_whole_lists_of_ranks_are_read_in_every_form(tmp_path: Path, ranks: object) -> None:
    assert _ranks(parse_events(tmp_path, _kernel(**{"Process Group Ranks": ranks}))) == [[0, 1, 5]]


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("ranks", [list(range(40)), str(list(range(40)))])
def test_a_cut_list_is_restored_from_the_groups(tmp_path: Path, ranks: object, where: str) -> None:
    record = _kernel(**{"Process Group Name": "9", "Process Group Ranks": CUT, "Group size": 40})
    info: dict[str, Any] = {"rank": 1, "pg_config": [_group("9", ranks, 40)]}
    data = document([record], indent=None)
    stated = b'"distributedInfo": ' + json.dumps(info).encode()
    data = b"{" + stated + b", " + data[1:] if where == "before" else data[:-1] + b", " + stated + b"}"
    parsed = parse(write(tmp_path, data))
    assert _ranks(parsed) == [list(range(40))]
    assert parsed["process_groups"][0]["group_ranks"] == list(range(40))
    assert parsed.info.parts[0].rank == 1
    assert "list-cut" not in parsed.notices


def test_a_cut_list_is_restored_from_start_and_stride(tmp_path: Path) -> None:
    cut = "[" + ", ".join(str(3 + 8 * i) for i in range(30)) + ", ...]"
    record = {"Process Group Name": "2", "Process Group Ranks": cut, "Group size": 64}
    parsed = parse_events(tmp_path, _kernel(**record, **{"Global rank start": 3, "Global rank stride": 8}), _kernel(**record))
    assert _ranks(parsed) == [[3 + 8 * i for i in range(64)]] * 2


def test_a_group_as_large_as_the_job_holds_all_ranks(tmp_path: Path) -> None:
    record = _kernel(**{"Process Group Name": "0", "Process Group Ranks": CUT, "Group size": 300})
    groups = [_group("0", CUT, 300), _group("1", CUT, 200)]
    parsed = parse_events(tmp_path, record, distributedInfo={"world_size": 300, "pg_config": groups})
    assert _ranks(parsed) == [list(range(300))]
    assert [g["group_ranks"] for g in parsed["process_groups"]] == [list(range(300)), None]
    assert parsed.counts["list-cut"] == 1


@pytest.mark.parametrize(
    ("args", "info"),
    [
        ({"Group size": 64}, {}),
        ({"Group size": 64, "Global rank start": 5, "Global rank stride": 1}, {}),
        ({"Group size": 64, "Global rank start": 0, "Global rank stride": 0}, {}),
        ({"Group size": 64}, {"pg_config": [_group("9", list(range(40)), 40)]}),
        ({"Group size": 40}, {"pg_config": [_group("9", list(range(1, 41)), 40)]}),
        ({"Group size": 2**60, "Global rank start": 0, "Global rank stride": 1}, {"world_size": 2**60}),
    ],
    ids=["nothing", "other start", "no stride", "other size", "other ranks", "absurd size"],
)
def test_a_cut_list_that_no_rule_restores_stays_unknown(tmp_path: Path, args: dict[str, object], info: dict[str, object]) -> None:
    record = _kernel(**{"Process Group Name": "9", "Process Group Ranks": CUT}, **args)
    parsed = parse_events(tmp_path, record, distributedInfo=info)
    assert _ranks(parsed) == [None]
    assert parsed.counts["list-cut"] == 1


def test_cut_splits_are_unknown_and_told(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, _kernel(**{"In split size": CUT, "Out split size": "[]"}))
    assert [(r["in_split"], r["out_split"]) for r in parsed["comm_records"]] == [(None, None)]
    assert parsed.counts["split-list-cut"] == 1


def test_ranks_that_stand_for_nobody_are_unknown(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, _kernel(**{"Src Rank": -1, "Dst Rank": 2**40}), _kernel(**{"Src Rank": 0, "Dst Rank": "3"}))
    assert [(r["src_rank"], r["dst_rank"]) for r in parsed["comm_records"]] == [(None, None), (0, 3)]


def test_process_groups(tmp_path: Path) -> None:
    config = [_group("0", [0, 1], 2), _group(1, "[0]", 1), {"pg_name": "2"}, "odd", {"uid": 5, "ranks": [[1]]}]
    rows = parse_events(tmp_path, host(), distributedInfo={"pg_config": config})["process_groups"]
    assert [(r["group_name"], r["group_desc"], r["backend"], r["size"], r["group_ranks"]) for r in rows] == [
        ("0", "d", "cuda:nccl", 2, [0, 1]),
        ("1", "d", "cuda:nccl", 1, [0]),
        ("2", None, None, None, None),
        ("", None, None, None, None),
    ]
