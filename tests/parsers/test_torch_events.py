"""What becomes of each kind of event, by hand-made traces of every version and vendor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kineto_raw import BASE_NS, Parsed, document, end_mark, host, kernel, launch, parse, parse_events, write


def _gpu(cat: str, name: str, **args: object) -> dict[str, Any]:
    return {**kernel(name, **args), "cat": cat}


def _rows(parsed: Parsed, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in parsed[table]]


def test_a_kernel_row_has_all_that_the_trace_says(tmp_path: Path) -> None:
    event = kernel("gemm<float, 4>", 10.5, 2.25, context=1, External_id=77, grid=[8, 2, 3], block=[128, 2, 1], graph_id=5, graph_node_id=9, bytes=64)
    (row,) = parse_events(tmp_path, launch(), event)["gpu_spans"]
    assert row == {
        "part": 0,
        "source_ts_ns": BASE_NS + 10_500,
        "dur_ns": 2_250,
        "kind": "kernel",
        "name": "gemm<float, 4>",
        "device": 0,
        "stream": 7,
        "context": 1,
        "correlation": 1,
        "external_id": 77,
        "bytes": 64,
        "copy_kind": None,
        "src_device": None,
        "dst_device": None,
        "blocks": 48,
        "threads_per_block": 256,
        "graph_id": 5,
        "graph_node_id": 9,
        "clamped": False,
    }


def test_a_host_row_has_all_that_the_trace_says(tmp_path: Path) -> None:
    event = host("aten::mm", ts=3.001, dur=0.5, External_id=4, Sequence_number=19)
    (row,) = parse_events(tmp_path, event)["host_spans"]
    assert row == {
        "part": 0,
        "source_ts_ns": BASE_NS + 3_001,
        "dur_ns": 500,
        "kind": "cpu_op",
        "name": "aten::mm",
        "pid": 11,
        "tid": 12,
        "thread": None,
        "correlation": None,
        "external_id": 4,
        "sequence_number": 19,
        "clamped": False,
    }


@pytest.mark.parametrize(
    ("cat", "kind"),
    [
        ("kernel", "kernel"),
        ("Kernel", "kernel"),
        ("mtia_ccp_events", "kernel"),
        ("hpu_op", "kernel"),
        ("privateuse1_kernel", "kernel"),
        ("gpu_memcpy", "memcpy"),
        ("Memcpy", "memcpy"),
        ("gpu_memset", "memset"),
        ("Memset", "memset"),
        ("cuda_sync", "sync"),
        ("xpu_sync", "sync"),
        ("gpu_user_annotation", "annotation"),
    ],
)
def test_gpu_categories(tmp_path: Path, cat: str, kind: str) -> None:
    parsed = parse_events(tmp_path, launch(), _gpu(cat, "x"), end_mark())
    assert _rows(parsed, "gpu_spans", "kind") == [(kind,)]
    assert {c.kind: (c.count, c.stored) for c in parsed.info.event_counts} == {"X cuda_runtime": (1, True), f"X {cat}": (1, True), "i": (1, False)}


@pytest.mark.parametrize("name", ["Event Sync", "Stream Sync", "Context Sync", "Stream Wait Event"])
def test_waits_on_a_stream_are_no_compute_even_as_kernels(tmp_path: Path, name: str) -> None:
    assert _rows(parse_events(tmp_path, kernel(name), kernel("gemm")), "gpu_spans", "name", "kind") == [(name, "sync"), ("gemm", "kernel")]


@pytest.mark.parametrize(
    ("cat", "kind"),
    [
        ("cpu_op", "cpu_op"),
        ("Operator", "cpu_op"),
        ("user_annotation", "annotation"),
        ("cuda_runtime", "runtime"),
        ("Runtime", "runtime"),
        ("xpu_runtime", "runtime"),
        ("mtia_runtime", "runtime"),
        ("privateuse1_runtime", "runtime"),
        ("cuda_driver", "driver"),
        ("privateuse1_driver", "driver"),
        ("overhead", "overhead"),
        ("something_new", "other"),
    ],
)
def test_host_categories(tmp_path: Path, cat: str, kind: str) -> None:
    parsed = parse_events(tmp_path, host("x", cat))
    assert _rows(parsed, "host_spans", "kind") == [(kind,)]
    assert ("unknown-category" in parsed.notices) == (kind == "other")


def test_a_step_is_an_annotation_whatever_its_category(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, host("ProfilerStep#3", "Operator"), host("aten::mm", "Operator"), host("ProfilerStep#4", "user_annotation"))
    assert _rows(parsed, "host_spans", "name", "kind") == [("ProfilerStep#3", "annotation"), ("aten::mm", "cpu_op"), ("ProfilerStep#4", "annotation")]


def test_python_functions_are_counted_and_stored_on_demand(tmp_path: Path) -> None:
    path = write(tmp_path, document([host(), host("train.py(3): step", "python_function"), host("x.py(1): y", "python_function")]))
    without, stored = parse(path), parse(path, python_functions=True)
    assert without.names("host_spans") == ["aten::mm"]
    assert [(c.count, c.stored) for c in without.info.event_counts if c.kind == "X python_function"] == [(2, False)]
    assert _rows(stored, "host_spans", "name", "kind")[1:] == [("train.py(3): step", "python"), ("x.py(1): y", "python")]
    assert [(c.count, c.stored) for c in stored.info.event_counts if c.kind == "X python_function"] == [(2, True)]


def test_the_layout_of_2021(tmp_path: Path) -> None:
    events = [
        {**host("aten::mm", "Operator", 1623212388426902, 35, External_id=2), "tid": "5555"},
        {**host("cudaLaunchKernel", "Runtime", 1623212388426910, 3, correlation=34, external_id=2), "args": {"correlation": 34, "external id": 2}},
        {
            "ph": "X",
            "cat": "Kernel",
            "name": "k",
            "pid": 0,
            "tid": "stream 7",
            "ts": 1623212388426950,
            "dur": 2,
            "args": {"device": 0, "correlation": 34, "external id": 2},
        },
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 5555, "tid": 5555, "ts": 1623212388426919, "args": {"Device Type": 0, "Device Id": -1, "Bytes": 4}},
        {"ph": "f", "id": 34, "pid": 0, "tid": "stream 7", "ts": 1623212388426950, "cat": "async", "name": "launch", "bp": "e"},
    ]
    parsed = parse_events(tmp_path, *events, base=None)
    assert _rows(parsed, "host_spans", "source_ts_ns", "kind", "tid", "thread", "external_id", "correlation") == [
        (1623212388426902000, "cpu_op", 5555, None, 2, None),
        (1623212388426910000, "runtime", 12, None, 2, 34),
    ]
    assert _rows(parsed, "gpu_spans", "source_ts_ns", "stream", "external_id", "correlation") == [(1623212388426950000, 7, 2, 34)]
    assert _rows(parsed, "memory_events", "source_ts_ns", "device_type", "device", "bytes", "address") == [(1623212388426919000, 0, -1, 4, None)]
    assert "orphan-gpu-events" not in parsed.notices


def test_copies_of_all_vendors(tmp_path: Path) -> None:
    copies = [
        _gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", bytes=832),
        _gpu("gpu_memcpy", "Memcpy DtoH (Device -> Host)"),
        _gpu("gpu_memcpy", "CopyHostToDevice", kind="HtoD"),
        _gpu("gpu_memcpy", "CopyDeviceToDevice"),
        _gpu("gpu_memcpy", "copy", kind="DtoD"),
        _gpu("gpu_memcpy", "copy"),
        _gpu("gpu_memcpy", "Memcpy PtoP (Device -> Device)", fromDevice=0, toDevice=3, inDevice=9),
        _gpu("gpu_memcpy", "Memcpy PtoP (Device -> Device)", inDevice=1, outDevice="2"),
        kernel("void HtoD_kernel()"),
    ]
    assert sorted(_rows(parse_events(tmp_path, *copies), "gpu_spans", "name", "copy_kind", "src_device", "dst_device"), key=str) == [
        ("CopyDeviceToDevice", "DtoD", None, None),
        ("CopyHostToDevice", "HtoD", None, None),
        ("Memcpy DtoH (Device -> Host)", "DtoH", None, None),
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", None, None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", 0, 3),
        ("Memcpy PtoP (Device -> Device)", "PtoP", 1, 2),
        ("copy", "DtoD", None, None),
        ("copy", None, None, None),
        ("void HtoD_kernel()", None, None, None),
    ]


def test_streams_and_queues(tmp_path: Path) -> None:
    def row(tid: object, **args: object) -> dict[str, Any]:
        return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": tid, "ts": 1, "dur": 1, "args": args}

    events = [
        row(1, stream=7),
        row(1, stream="7"),
        row("stream 9"),
        row(5),
        row(1, **{"sycl queue": 3, "l0 queue": 4}),
        row(1, **{"l0 queue": "0x7f00"}),
        row(1, stream=2**63 + 5),
        row(1, stream=-1),
        row("Compute"),
    ]
    assert [r["stream"] for r in parse_events(tmp_path, *events)["gpu_spans"]] == [7, 7, 9, 5, 3, 0x7F00, 5 - 2**63, -1, None]


def test_rocm_arguments(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic", "pid": 2, "tid": 4, "ts": 1, "dur": 1}
    event["args"] = {"device": 2, "stream": 4, "correlation": 0, "kind": "Dispatch Kernel", "grid": "[1, 2, 1]", "block": [256, 1, 1]}
    parsed = parse_events(tmp_path, event)
    columns = ("kind", "device", "context", "correlation", "external_id", "copy_kind", "blocks", "threads_per_block")
    assert _rows(parsed, "gpu_spans", *columns) == [("kernel", 2, None, None, None, None, 2, 256)]
    assert parsed.counts["shared-correlation-zero"] == 1


def test_memory_events(tmp_path: Path) -> None:
    args = {"Total Reserved": 20, "Total Allocated": -8, "Bytes": -512, "Addr": 2**62, "Device Id": 1, "Device Type": 1}
    event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 2.5, "args": args}
    assert parse_events(tmp_path, event, {**event, "name": "[other]"})["memory_events"] == [
        {
            "part": 0,
            "source_ts_ns": BASE_NS + 2_500,
            "device_type": 1,
            "device": 1,
            "address": 2**62,
            "bytes": -512,
            "total_allocated_bytes": -8,
            "total_reserved_bytes": 20,
        }
    ]


def test_counters(tmp_path: Path) -> None:
    events = [
        {"ph": "C", "name": "sm__cycles", "pid": "GPU 3 Counters", "tid": 0, "ts": 1.5, "args": {"": 12.5}},
        {"ph": "C", "cat": "hardware_counters", "name": "q", "pid": 1, "tid": 0, "ts": 2, "args": {"length": 3, "text": "x", "flag": True}},
        {"ph": "C", "name": "sm__cycles", "pid": "GPU 3 Counters", "tid": 0, "ts": 3, "args": {}},
    ]
    expected = [(BASE_NS + 1_500, 3, "sm__cycles", 12.5), (BASE_NS + 2_000, 1, "q length", 3.0)]
    parsed = parse_events(tmp_path, *events)
    assert _rows(parsed, "gpu_counters", "source_ts_ns", "device", "counter", "value") == expected
    broken = document([*events, {"ph": "C", "name": "bad", "ts": 4, "args": {"": 1}}]).replace(b'"": 1}', b'"": inf}').replace(b'"": 1\n', b'"": inf\n')
    again = parse(write(tmp_path, broken))
    assert _rows(again, "gpu_counters", "source_ts_ns", "device", "counter", "value") == expected
    assert again.counts["non-finite-number"] == 1


def test_wrong_types_anywhere_cost_at_most_a_value(tmp_path: Path) -> None:
    events = [
        {**kernel(), "pid": "Spans", "tid": "PyTorch Profiler", "args": {"stream": [1], "device": None, "correlation": {}, "grid": 5, "block": ["a"]}},
        {**kernel(), "args": "text"},
        {**kernel(), "args": None},
        {**kernel(), "name": None},
        {**kernel(), "name": 17},
        {**kernel(), "name": [1]},
        {**kernel(), "ts": "10.25", "dur": "1"},
        {**host(), "pid": "p", "tid": "main thread"},
        {**host(External_id="9", Sequence_number=2**70)},
    ]
    parsed = parse_events(tmp_path, *events)
    assert _rows(parsed, "gpu_spans", "name", "device", "stream", "correlation", "blocks") == [
        ("gemm", None, None, None, None),
        ("gemm", 0, 7, None, None),
        ("gemm", 0, 7, None, None),
        ("(unnamed)", 0, 7, 1, None),
        ("17", 0, 7, 1, None),
        ("(unnamed)", 0, 7, 1, None),
        ("gemm", 0, 7, 1, None),
    ]
    assert parsed["gpu_spans"][-1]["source_ts_ns"] == BASE_NS + 10_250
    assert _rows(parsed, "host_spans", "pid", "tid", "thread", "external_id", "sequence_number") == [
        (None, None, "main thread", None, None),
        (11, 12, None, 9, None),
    ]
    assert parsed.info.events == len(events)


def test_what_is_no_event_is_counted(tmp_path: Path) -> None:
    parsed = parse_events(
        tmp_path,
        host(),
        5,
        "x",
        None,
        [1],
        {},
        {"ph": 7},
        {"ph": "M", "name": "process_name"},
        {"ph": "B", "ts": 1},
        {"ph": "s", "cat": "ac2g", "id": 1, "ts": 1},
    )
    assert parsed.info.events == 10
    assert {c.kind: c.count for c in parsed.info.event_counts} == {"X cpu_op": 1, "not an object": 4, "?": 2, "M": 1, "B": 1, "s ac2g": 1}
    assert parsed.counts["not-an-object"] == 4


def test_spans_outside_threads_are_not_stored(tmp_path: Path) -> None:
    trace = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0.5, "dur": 9_000}
    parsed = parse_events(tmp_path, trace, host(), {**trace, "cat": "odd"}, {**trace, "cat": None})
    assert parsed.names("host_spans") == ["aten::mm"]
    assert (parsed.info.parts[0].start_ns, parsed.info.parts[0].end_ns) == (BASE_NS + 1_000, BASE_NS + 6_000)
    assert parsed.counts["unknown-category"] == 2


def test_many_categories_do_not_grow_the_counts(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path, *({"ph": "s", "cat": f"c{i}", "ts": 1} for i in range(5_000)))
    assert parsed.info.events == 5_000
    assert len(parsed.info.event_counts) <= 257
    assert parsed.counts["too-many-kinds"] == 1


def test_an_empty_trace_is_told(tmp_path: Path) -> None:
    parsed = parse_events(tmp_path)
    assert parsed.counts == {"no-events": 1, "no-rank": 1}
    assert parse(write(tmp_path, json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 2}}).encode())).info.parts[0].rank == 2
