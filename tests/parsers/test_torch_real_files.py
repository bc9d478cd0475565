"""Real traces of every generation and vendor against Python's own JSON reader and the known truths of these files."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kineto_raw import Parsed, parse
from tracelab.plugins import SourceFile
from tracelab_parsers.torch_profiler import PARSER, decoded_chunks

DATA = Path(os.environ.get("TRACELAB_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "torch"
FILES = sorted(f for f in DATA.glob("*/*.json*") if f.parent.name != "oracles")
HOST_KINDS = {
    "cpu_op": "cpu_op",
    "operator": "cpu_op",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "runtime": "runtime",
    "cuda_driver": "driver",
    "overhead": "overhead",
}
GPU_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset", "memset": "memset", "gpu_user_annotation": "annotation"}


@dataclass(frozen=True)
class Trace:
    """A file, what a strict reader finds in it and what the parser does."""

    path: Path
    head: bytes
    document: dict[str, Any]
    parsed: Parsed

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [e for e in self.document["traceEvents"] if e["ph"] == "X"]


def _load(path: Path) -> Trace:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    return Trace(path, text[: 64 << 10], json.loads(text, parse_float=Decimal), parse(path))


@pytest.fixture(scope="module", autouse=True)
def _present(test_data: Callable[[str], Path]) -> None:
    test_data("torch")


# One file at a time: all tests of a file run before the next is loaded.
@pytest.fixture(scope="module", params=FILES, ids=lambda p: f"{p.parent.name}-{p.name[:20]}")
def trace(request: pytest.FixtureRequest) -> Trace:
    return _load(request.param)


def _category(event: dict[str, Any]) -> str:
    return str(event.get("cat", "")).lower()


def test_every_event_is_counted_by_phase_and_category(trace: Trace) -> None:
    expected = Counter(f"{e['ph']} {e.get('cat', '')}".strip() for e in trace.document["traceEvents"])
    counted: Counter[str] = Counter()
    for c in trace.parsed.info.event_counts:
        counted[c.kind.removesuffix(" (not stored)")] += c.count
    assert counted == expected


def test_every_span_has_the_strict_readers_time(trace: Trace) -> None:
    document = trace.document
    base = document.get("baseTimeNanoseconds", 0)
    for table, kinds in (("gpu_spans", GPU_KINDS), ("host_spans", HOST_KINDS)):
        events = [e for e in document["traceEvents"] if e["ph"] == "X" and _category(e) in kinds]
        expected = Counter((base + int(e["ts"] * 1000), int(e["dur"] * 1000), e["name"]) for e in events)
        assert all(e["ts"] * 1000 == int(e["ts"] * 1000) for e in events)
        assert Counter((r["source_ts_ns"], r["dur_ns"], r["name"]) for r in trace.parsed[table]) == expected
        kind = Counter("annotation" if e["name"].startswith("ProfilerStep#") else kinds[e["cat"].lower()] for e in events)
        assert Counter(r["kind"] for r in trace.parsed[table]) == kind


def test_ids_join_as_in_the_strict_reader(trace: Trace) -> None:
    events = [e for e in trace.document["traceEvents"] if e["ph"] == "X"]
    launches = {e["args"].get("correlation") for e in events if _category(e) in {"cuda_runtime", "cuda_driver", "runtime"}}
    work = [e["args"].get("correlation") for e in events if _category(e) in GPU_KINDS and e["cat"] != "gpu_user_annotation"]
    assert trace.parsed.counts.get("orphan-gpu-events", 0) == sum(c not in launches for c in work)
    ids = Counter(e["args"].get("External id") or e["args"].get("external id") for e in events if _category(e) in GPU_KINDS)
    assert Counter(r["external_id"] for r in trace.parsed["gpu_spans"]) == ids


def test_devices_streams_and_memory_agree(trace: Trace) -> None:
    events = trace.document["traceEvents"]
    kernels = [e for e in events if _category(e) == "kernel"]
    grids = [e["args"].get("grid") for e in kernels]
    blocks = [None if g is None else g[0] * g[1] * g[2] for g in grids]
    expected = Counter((e["args"]["device"], e["args"]["stream"], b) for e, b in zip(kernels, blocks, strict=True))
    assert Counter((r["device"], r["stream"], r["blocks"]) for r in trace.parsed["gpu_spans"] if r["kind"] == "kernel") == expected
    memory = [e["args"] for e in events if e["name"] == "[memory]"]
    assert Counter((r["bytes"], r["device"]) for r in trace.parsed["memory_events"]) == Counter((m["Bytes"], m["Device Id"]) for m in memory)


def test_the_source_is_described_by_its_own_words(trace: Trace) -> None:
    document, part = trace.document, trace.parsed.info.parts[0]
    stated = document.get("distributedInfo") or {}
    assert (part.rank, part.world_size, part.backend) == (stated.get("rank"), stated.get("world_size"), stated.get("backend"))
    assert not trace.parsed.info.truncated
    assert not {n.severity for n in trace.parsed.notices.values()} & {"error", "warning"}
    groups = [(g["pg_name"], g["ranks"]) for g in stated.get("pg_config", []) if g["ranks"] and "..." not in g["ranks"]]
    assert [(g["group_name"], g["group_ranks"]) for g in trace.parsed["process_groups"] if g["group_ranks"]][: len(groups)] == groups


def test_nothing_outside_the_allowed_metadata_is_given_away(trace: Trace) -> None:
    document = trace.document
    text = trace.parsed.everything()
    for key in ("username", "tw_user", "INFO", "traceName"):
        value = str(document.get(key, ""))
        assert not value or value not in text
    env = (document.get("metadata") or {}).get("env") or {}
    assert not [k for k, v in env.items() if len(str(v)) > 20 and str(v) in text]


def test_traces_are_recognised(trace: Trace) -> None:
    match = PARSER.sniff(trace.path, trace.head)
    assert match is not None
    assert match.confidence >= 0.9


def _collective(args: dict[str, Any], groups: dict[str, list[int]]) -> tuple[Any, ...]:
    number = args.get("Process Group Name", args.get("Process Group ID"))
    name = None if number is None else str(number)
    ranks = json.loads(args["Process Group Ranks"]) if "Process Group Ranks" in args else groups.get(name or "", [])
    return args["Collective name"], args.get("In msg nelems"), name, tuple(ranks)


def test_collectives_agree(trace: Trace) -> None:
    events = [e for e in trace.spans if "Collective name" in e.get("args", {})]
    stated = (trace.document.get("distributedInfo") or {}).get("pg_config", [])
    groups = {g["pg_name"]: g["ranks"] for g in stated}
    rows = trace.parsed["comm_records"]
    found = Counter((r["operation"], r["in_elements"], r["group_name"], tuple(r["group_ranks"] or ())) for r in rows)
    assert found == Counter(_collective(e["args"], groups) for e in events)


GENERATIONS = {
    "absolute-us": {"a100_rank3of8", "dlrm_8xV100", "rank_unavailable", "resnet50_2021", "sampled_2of128"},
    "absolute-ns": {"ns_resolution_v100"},
}


def test_the_generation_is_told_by_the_times(trace: Trace) -> None:
    folder = trace.path.parent.name
    expected = next((g for g, folders in GENERATIONS.items() if folder in folders), "relative")
    assert trace.parsed.info.metadata["generation"] == expected


def test_arrivals_of_the_collectives_of_eight_ranks() -> None:
    kernels = []
    for rank in range(8):
        (path,) = [f for f in FILES if f.name.startswith(f"worker{rank}_step_12")]
        spans = [r for r in parse(path)["gpu_spans"] if r["name"].startswith("nccl")]
        kernels.append(sorted((r["source_ts_ns"], r["source_ts_ns"] + r["dur_ns"]) for r in spans))
    by_operation = list(zip(*kernels, strict=True))
    assert [max(range(8), key=lambda r: starts[r][0]) for starts in by_operation] == [7, 7, 7, 7, 7, 5, 5, 4]
    assert [(max(s)[0] - min(s)[0]) // 1_000 for s in by_operation] == [7624, 1101, 168, 125, 223, 534, 584, 885]
    ends = [[end for _, end in s] for s in by_operation]
    assert [(max(e) - min(e)) // 1_000 for e in ends] == [2, 2, 1, 2, 5, 3, 5, 7]


def test_decoding_alone_finds_the_same_number_of_events() -> None:
    (path,) = [f for f in FILES if f.parent.name == "h100_single"]
    assert sum(len(c.elements) for c in decoded_chunks(SourceFile(path, path.name))) == parse(path).info.events
