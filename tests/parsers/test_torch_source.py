"""What a trace says about its process, what it must never give away, and what the parser warns of."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kineto_raw import Parsed, document, end_mark, host, kernel, launch, parse, parse_events, write
from tracelab.plugins import Part
from tracelab_parsers.torch_profiler import PARSER

SECRET = "hf_AbCdEf0123456789"


def _good() -> list[dict[str, Any]]:
    return [host(ts=1), launch(1), kernel(ts=5), end_mark()]


def test_the_process_is_described(tmp_path: Path) -> None:
    info = {"backend": "nccl", "rank": 3, "world_size": 8, "pg_count": 5, "nccl_version": "2.27.5"}
    gpus = [{"id": i, "name": f"NVIDIA H100 {i}"} for i in range(8)]
    events = [
        launch(1),
        launch(2),
        launch(3),
        {**kernel(ts=5, correlation=1, device=2), "pid": 2},
        kernel(ts=7, dur=2, correlation=2, device=2),
        kernel(correlation=3),
    ]
    more: dict[str, Any] = {
        "host_name": "node-4",
        "PT_PROFILER_JOB_NAME": "llm",
        "cuda_driver_version": 13000,
        "with_stack": 1,
        "trace_id": "AB",
        "displayTimeUnit": "ms",
    }
    parsed = parse_events(tmp_path, *events, end_mark(), distributedInfo=info, deviceProperties=gpus, traceName="/tmp/rank7.json", **more)
    base = 1_727_743_122_000_000_000
    assert parsed.info.parts == [
        Part(0, 3, 8, "node-4", 11, 2, "NVIDIA H100 2", "nccl", "llm", base + 2_000, base + 15_000, base),
    ]
    assert parsed.info.metadata == {
        "baseTimeNanoseconds": str(base),
        "cuda_driver_version": "13000",
        "displayTimeUnit": "ms",
        "generation": "relative",
        "nccl_version": "2.27.5",
        "pg_count": "5",
        "schemaVersion": "1",
        "trace_id": "AB",
        "vendor": "nvidia",
        "with_stack": "1",
    }
    assert not parsed.info.truncated
    assert parsed.notices == {}


@pytest.mark.parametrize(
    ("metadata", "vendor"),
    [
        ({"hip_runtime_version": 6}, "amd"),
        ({"rocprofiler-sdk_version": "1.0"}, "amd"),
        ({"deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}]}, "amd"),
        ({"deviceProperties": [{"id": 0, "name": "Tesla V100"}]}, "nvidia"),
        ({"cupti_version": 22}, "nvidia"),
        ({"deviceProperties": [{"id": 0, "name": "Intel(R) Data Center GPU Max"}]}, "intel"),
        ({}, "cpu"),
    ],
)
def test_vendors(tmp_path: Path, metadata: dict[str, Any], vendor: str) -> None:
    assert parse_events(tmp_path, host(), **metadata).info.metadata["vendor"] == vendor


def test_gpu_work_without_a_name_is_of_an_unknown_vendor(tmp_path: Path) -> None:
    assert parse_events(tmp_path, kernel()).info.metadata["vendor"] == "unknown"


@pytest.mark.parametrize("info", [{"rank": "3", "world_size": "8"}, {"rank": 3.0, "world_size": 8}])
def test_ranks_may_be_text(tmp_path: Path, info: dict[str, Any]) -> None:
    part = parse_events(tmp_path, host(), distributedInfo=info).info.parts[0]
    assert (part.rank, part.world_size) == (3, 8)


@pytest.mark.parametrize("info", [None, {}, [], "x", {"rank": None}, {"rank": -1}, {"rank": "three"}, {"rank": 2**40}])
def test_a_missing_rank_is_told_and_never_guessed(tmp_path: Path, info: Any) -> None:
    parsed = parse_events(tmp_path, host(), distributedInfo=info, traceName="rank-3.json")
    assert parsed.info.parts[0].rank is None
    assert parsed.counts["no-rank"] == 1


@pytest.mark.parametrize("damage", [b"", b'"broken " here', b"inf", b"\xff"])
@pytest.mark.parametrize("cut", [1.0, 0.9, 0.4])
def test_no_secret_leaves_the_parser(tmp_path: Path, damage: bytes, cut: float) -> None:
    metadata: dict[str, Any] = {
        "metadata": {"env": {"HF_TOKEN": SECRET, "cmd": ["python", SECRET]}, "note": "X"},
        "username": SECRET,
        "INFO": [f"token {SECRET}"],
        "distributedInfo": {"rank": 0, "token": SECRET},
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "serial": SECRET}],
    }
    event = host("aten::mm")
    event["args"]["Concrete Inputs"] = [SECRET]
    data = document([event, *_good()], **metadata).replace(b'"X"', damage or b'"X"', 1) + b"\n" + json.dumps({"ph": SECRET}).encode()
    parsed = parse(write(tmp_path, data[: int(len(data) * cut)]))
    assert SECRET not in parsed.everything()
    assert "HF_TOKEN" not in parsed.everything()


def test_long_values_are_bounded(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, host(), trace_id="x" * 10_000, host_name="h" * 10_000, distributedInfo={"rank": 0, "backend": "b" * 10_000})
    assert len(parsed.info.metadata["trace_id"]) == len(parsed.info.parts[0].host or "") == len(parsed.info.parts[0].backend or "") == 200


def test_orphans_are_gpu_work_without_a_launch(tmp_path: Path) -> None:
    events = [
        launch(1),
        kernel("a", correlation=1),
        kernel("b", correlation=2),
        {**kernel("c", correlation=3), "cat": "gpu_memcpy"},
        {**kernel("d", correlation=4), "cat": "cuda_sync"},
    ]
    driver = {**launch(9), "cat": "cuda_driver"}
    assert parse_events(tmp_path, *events, driver, kernel("e", correlation=9)).counts["orphan-gpu-events"] == 2


def test_launches_may_stand_far_behind_their_kernels(tmp_path: Path) -> None:
    events = [*(kernel("k" * 100, correlation=i) for i in range(1, 5_000)), *(launch(i) for i in range(1, 4_990))]
    from tracelab_parsers.json_chunks import Limits

    assert parse(write(tmp_path, document(events)), limits=Limits(chunk=20_000)).counts["orphan-gpu-events"] == 10


def test_correlations_that_are_shared(tmp_path: Path) -> None:
    shared = [launch(1), kernel("a", correlation=1), kernel("b", correlation=1)]
    assert parse_events(tmp_path, *shared).counts["correlation-collision"] == 1
    graph = [launch(1, "cudaGraphLaunch"), *shared[1:]]
    assert "correlation-collision" not in parse_events(tmp_path, *graph).notices
    stated = [launch(1), kernel("a", correlation=1, graph_id=4), kernel("b", correlation=1, graph_id=4)]
    assert "correlation-collision" not in parse_events(tmp_path, *stated).notices


def test_correlation_nought_joins_nothing(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, launch(0), kernel("a", correlation=0), kernel("b", correlation=0))
    assert parsed.counts["shared-correlation-zero"] == 2
    assert "orphan-gpu-events" not in parsed.notices
    assert "correlation-collision" not in parsed.notices


def test_launches_without_any_gpu_event_are_told(tmp_path: Path) -> None:
    assert parse_events(tmp_path, host(), launch(1), launch(2, "hipLaunchKernel"), launch(3, "cudaMalloc")).counts["no-kernels-but-launches"] == 2
    assert "no-kernels-but-launches" not in parse_events(tmp_path, host()).notices


def test_a_missing_end_mark_is_told(tmp_path: Path) -> None:
    assert parse_events(tmp_path, *_good()[:-1]).notices["record-end-missing"].severity == "info"
    assert "record-end-missing" not in parse_events(tmp_path, *_good()).notices


def test_two_writers_of_one_file_are_told(tmp_path: Path) -> None:
    one, two = document(_good(), distributedInfo={"rank": 0}), document(_good() * 2, distributedInfo={"rank": 1})
    parsed = parse(write(tmp_path, one + two))
    assert parsed.notices["interleaved-writers"].severity == "error"
    assert (parsed.info.parts[0].rank, parsed.info.events) == (0, 4)
    torn = parse(write(tmp_path, one + two[len(one) :]))
    assert "interleaved-writers" in torn.notices
    inside = parse(write(tmp_path, two[:700] + one + two[700 + len(one) :]))
    assert "bad-event" in inside.notices or "interleaved-writers" in inside.notices
    assert "interleaved-writers" not in parse(write(tmp_path, one + b"\nnot a trace")).notices


@pytest.mark.parametrize(("name", "packed"), [("t.json", True), ("t.json.gz", False), ("t.json.gz", True), ("anything", False)])
def test_compression_is_told_from_the_content(tmp_path: Path, name: str, packed: bool) -> None:
    data = document(_good())
    parsed = parse(write(tmp_path, gzip.compress(data) if packed else data, name))
    assert parsed.info.events == 4
    assert set(parsed.notices) == {"no-rank"}


def test_a_torn_gzip_file_keeps_its_events(tmp_path: Path) -> None:
    r = random.Random(4)
    events = [kernel("".join(r.choices("abcdefgh", k=80)), correlation=i + 1) for i in range(2_000)]
    packed = gzip.compress(document([launch(i + 1) for i in range(2_000)] + events))
    parsed = parse(write(tmp_path, packed[: len(packed) * 3 // 4], "t.json"))
    kept = parsed.names("gpu_spans")
    assert len(kept) > 1_000
    assert kept == [e["name"] for e in events][: len(kept)]
    assert parsed.info.truncated
    assert {"truncated", "gzip-torn"} <= set(parsed.notices)
    assert (parsed.notices["truncated"].offset or 0) > 100_000


def test_garbage_after_gzip_data_is_told(tmp_path: Path) -> None:
    parsed = parse(write(tmp_path, gzip.compress(document(_good())) + b"garbage"))
    assert parsed.info.events == 4
    assert not parsed.info.truncated
    assert "gzip-trailing-garbage" in parsed.notices


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"hello", b"\x1f\x8b", b'{"traceEvents": 5}', b'{"traceEvents": null, "schemaVersion": 1}', b"[" * 10_000])
def test_files_without_events_are_told(tmp_path: Path, data: bytes) -> None:
    parsed = parse(write(tmp_path, data))
    assert parsed.info.events == 0
    assert {"no-events", "no-json", "truncated", "gzip-torn", "bad-event"} & set(parsed.notices)


def _sniff(data: bytes, name: str = "file.json") -> float:
    match = PARSER.sniff(Path(name), data[: 64 << 10])
    assert match is None or match.reason
    return match.confidence if match else 0


def test_traces_are_recognised_by_content() -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"External id": 4}}
    assert _sniff(document([event])) >= 0.9
    assert _sniff(document([event], indent=None), "x") >= 0.9
    assert _sniff(document([], deviceProperties=[], distributedInfo={"rank": 0})) >= 0.7
    assert _sniff(b"\xef\xbb\xbf \n" + document([event])) >= 0.9
    assert _sniff(json.dumps([{**event, "pid": "CPU functions"}]).encode()) >= 0.5


def test_long_metadata_before_the_events_is_still_a_trace() -> None:
    data = document([kernel()], deviceProperties=[{"id": i, "name": "NVIDIA"} for i in range(9)], with_stack=1, note="x" * 100_000, record_shapes=1)
    assert b"traceEvents" not in data[: 64 << 10]
    assert _sniff(data) >= 0.5
    assert _sniff(data, "rank0.pt.trace.json") > _sniff(data)


def test_other_chrome_traces_are_doubted() -> None:
    other = [{"ph": "X", "cat": "ninja", "name": "cc", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]
    assert 0 < _sniff(json.dumps({"traceEvents": other, "otherData": {"version": "x"}}).encode(), "a.pt.trace.json") < 0.5
    assert _sniff(json.dumps(other).encode(), "a.pt.trace.json") == 0


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"[1, 2]", b'{"name": "x"}', b"ts,dur\n1,2\n", b"NCCL INFO Bootstrap", b'{"schemaVersion": 1}'])
def test_other_files_are_not_claimed(data: bytes) -> None:
    assert _sniff(data, "rank0.pt.trace.json") == 0


def test_everything_that_is_returned_is_the_same_twice(tmp_path: Path) -> None:
    path = write(tmp_path, document(_good() * 20, distributedInfo={"rank": 0}))
    first: Parsed = parse(path)
    assert first.everything() == parse(path).everything()
