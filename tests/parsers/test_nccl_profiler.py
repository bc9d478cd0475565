"""Dumps of NCCL's example profiler, of all its generations, with expectations worked out by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.nccl_json import Read, read
from tests.builders.nccl_profiler import COMM, SAMPLES, Dump, sample
from tracelab_parsers.nccl_profiler import PARSER

GENERATIONS = ("2.23", "2.26", "2.28", "2.30")


def _read(folder: Path, dump: Dump) -> Read:
    return read(PARSER, dump.text(), folder)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_collective_and_its_transfers(tmp_path: Path, generation: str) -> None:
    dump = Dump(generation, rank=3)
    with dump.collective("AllReduce", seq=7, start="100.000001", end="900.5", count=1000):
        dump.transfer("Send", channel=5, peer=4, size=6000, start="200.25", end="300.3755")
        dump.transfer("Recv", channel=5, peer=2, size=2**40, start="210", end="310.000001")
    found = _read(tmp_path, dump)
    (row,) = found["logged_collectives"]
    assert {k: v for k, v in row.items() if v is not None} == {
        "part": 0,
        "line": 2,
        "dur_ns": 800_500,
        "origin": "profiler",
        "comm": 0,
        "seq": 7,
        "operation": "all_reduce",
        "count": 1000,
        "dtype": "float32",
        "in_bytes": 4000,
        "out_bytes": 4000,
        "algorithm": "RING",
        "protocol": "SIMPLE",
        "state": "completed",
    }
    names = "dur_ns", "comm", "channel", "peer", "direction", "bytes", "steps", "operation", "seq"
    assert found.column("net_transfers", *names) == [
        (100_126, 0, 5, 4, "send", 6000, 4, "all_reduce", 7),
        (100_000, 0, 5, 2, "receive", 2**40, 4, "all_reduce", 7),
    ]
    assert found.column("communicators", "comm_id", "comm_rank", "size", "state") == [("0xb0777fd29824eeb6", 3, None, "seen")]
    assert found.counted() == {"relative-times": 1}
    assert not found.info.truncated


def test_kernels_are_timed_by_the_clock_of_the_gpu(tmp_path: Path) -> None:
    dump = Dump()
    with dump.collective("AllReduce", seq=0, start="10", end="90", channels=2):
        dump.kernel(3, start_clock=2**60 + 100, stop_clock=2**60 + 900, start="20", end="80")
        dump.kernel(1, start_clock=2**60 + 50, stop_clock=2**60 + 801, start="30", end="70")
    assert _read(tmp_path, dump).column("logged_collectives", "dur_ns", "state", "channel_first", "channel_last") == [(850, "completed", 1, 3)]


def test_kernels_without_that_clock_are_timed_by_the_host(tmp_path: Path) -> None:
    dump = Dump()
    with dump.collective("AllReduce", seq=0, start="10", end="90", channels=2):
        dump.kernel(0, start_clock=5, start="20.5", end="80.25")
        dump.kernel(1, start_clock=5, start="30", end="70")
    assert _read(tmp_path, dump).column("logged_collectives", "dur_ns", "state") == [(59_750, "completed")]


def test_a_kernel_that_did_not_end_has_no_length(tmp_path: Path) -> None:
    dump = Dump()
    with dump.collective("AllReduce", seq=0, start="10", end="12", channels=2):
        dump.kernel(0, start_clock=5, stop_clock=9, start="20", end="80")
        dump.kernel(1, start_clock=5, start="30", end="0")
    with dump.collective("AllReduce", seq=1, start="10", end="12", channels=2):
        dump.kernel(0, start_clock=5, stop_clock=9, start="20", end="80")
    found = _read(tmp_path, dump)
    assert found.column("logged_collectives", "dur_ns", "state") == [(None, "started"), (None, "started")]
    assert found.counted() == {"relative-times": 1, "unfinished": 2}


def test_the_hand_over_is_not_the_length(tmp_path: Path) -> None:
    dump = Dump()
    with dump.collective("AllReduce", seq=0, start="10", end="12"):
        pass
    found = _read(tmp_path, dump)
    assert found.column("logged_collectives", "dur_ns", "state") == [(None, "enqueued")]
    assert found.counted() == {"relative-times": 1, "no-lengths": 1}


def test_channels_of_another_operation_give_no_length(tmp_path: Path) -> None:
    dump = Dump()
    with dump.collective("AllReduce", seq=0, start="10", end="12", channels=1):
        dump.kernel(0, start_clock=5, stop_clock=9)
        dump.kernel(1, start_clock=1, stop_clock=2)
    assert _read(tmp_path, dump).column("logged_collectives", "dur_ns", "state") == [(None, "completed")]


def test_a_transfer_that_did_not_end(tmp_path: Path) -> None:
    dump = Dump()
    with dump.collective("AllReduce", seq=0, start="10", end="12"):
        dump.transfer("Send", peer=1, size=0, start="0", end="0")
    found = _read(tmp_path, dump)
    assert found.column("net_transfers", "dur_ns", "bytes") == [(None, 0)]
    assert found.column("logged_collectives", "dur_ns", "state") == [(None, "started")]


def test_transfers_for_other_processes_belong_to_no_operation(tmp_path: Path) -> None:
    dump = Dump()
    dump.transfer("Send", peer=6, size=512, start="5", end="9")
    found = _read(tmp_path, dump)
    assert found.column("net_transfers", "comm", "peer", "bytes", "operation", "seq", "dur_ns") == [(None, 6, 512, None, None, 4000)]
    assert found.counted() == {"no-operations": 1, "relative-times": 1}


def test_point_to_point_is_numbered_in_order(tmp_path: Path) -> None:
    dump = Dump()
    for function, peer in (("Send", 1), ("Recv", 3), ("Send", 2)):
        with dump.point_to_point(function, peer=peer, start="1", end="2", count=10, dtype="ncclInt8"):
            dump.kernel(0, start_clock=1, stop_clock=11)
    names = "operation", "seq", "peer", "in_bytes", "out_bytes", "dur_ns"
    assert _read(tmp_path, dump).column("logged_collectives", *names) == [("send", 0, 1, 10, 0, 10), ("recv", 1, 3, 0, 10, 10), ("send", 2, 2, 10, 0, 10)]


@pytest.mark.parametrize("generation", ["2.28", "2.30"])
def test_the_call_tells_type_stream_and_root(tmp_path: Path, generation: str) -> None:
    dump = Dump(generation, rank=2)
    with (
        dump.call("Broadcast", count=500, dtype="ncclFloat32", root=2, stream="0xabc"),
        dump.collective("Broadcast", seq=0, start="1", end="2", count=2000, dtype="ncclInt8"),
    ):
        pass
    with dump.call("Reduce", count=500, dtype="ncclFloat32", root=1), dump.collective("Reduce", seq=0, start="1", end="2", count=499):
        pass
    with dump.collective("AllGather", seq=0, start="1", end="2", count=2000, dtype="ncclInt8"):
        pass
    found = _read(tmp_path, dump)
    names = "operation", "count", "dtype", "in_bytes", "out_bytes", "root", "stream"
    assert found.column("logged_collectives", *names) == [
        ("broadcast", 500, "float32", 2000, 2000, 2, "0xabc"),
        ("reduce", 499, "float32", 1996, 0, 1, "0x4142e90"),
        ("all_gather", 2000, "int8", 2000, None, None, None),
    ]
    assert found.counted().get("unquoted-values", 0) == (2 if generation == "2.28" else 0)


def test_copies_of_the_copy_engine(tmp_path: Path) -> None:
    dump = Dump()
    shared = '"eventId": 1, "count": 64, "datatype": "ncclFloat16", "strategy": "SYNC", "start_ts_cpu": 5.000000, "duration_cpu_us": 4.250000'
    for more in ("", ', "duration_gpu_us": 3'):
        with dump.span("AllGather", "CE_COLL", "5", "9", shared + more), dump.span("CeSync", "CE_SYNC", "6", "7", '"eventId": 2'):
            pass
    found = _read(tmp_path, dump)
    names = "operation", "algorithm", "dur_ns", "count", "dtype", "in_bytes", "comm", "state", "seq"
    assert found.column("logged_collectives", *names) == [
        ("all_gather", "COPY_ENGINE", 4250, 64, "float16", 128, None, "completed", 0),
        ("all_gather", "COPY_ENGINE", 3000, 64, "float16", 128, None, "completed", 1),
    ]


def test_every_event_is_counted(tmp_path: Path) -> None:
    dump = Dump()
    with dump.span("Group API", "GROUP_API", "1", "2"), dump.call("Send", count=1, dtype="ncclInt8"), dump.point_to_point("Send", peer=1, start="1", end="2"):
        dump.kernel(0, start_clock=1, stop_clock=2)
        dump.transfer("Send", peer=1, size=1, start="1", end="2")
    with dump.span("Sleep", "PROXY", "1", "2"):
        pass
    found = _read(tmp_path, dump)
    counts = {c.kind: (c.count, c.stored) for c in found.info.event_counts}
    assert counts == {
        "GROUP_API": (1, False),
        "P2P_API": (1, False),
        "P2P": (1, True),
        "GPU": (1, False),
        "NET": (1, False),
        "PROXY": (1, True),
        "PROXY ScheduleSend": (1, False),
        "PROXY Sleep": (1, False),
    }
    assert 2 * sum(n for n, _ in counts.values()) == len(dump.lines)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("generation", ["2.28", "2.30"])
def test_the_samples(tmp_path: Path, root: Path, generation: str, compress: bool) -> None:
    data = sample(generation)
    assert (root / f"sample_traces/formats/nccl-profiler/nccl-{generation}_{COMM}_{SAMPLES[generation]}.json").read_bytes() == data
    found = read(PARSER, data, tmp_path, compress=compress)
    assert found.column("logged_collectives", "dur_ns") == [388_000] * 6
    assert sum(found.column("net_transfers", "bytes")) == 24 * 1_572_864
    assert {(r["direction"], r["peer"]) for r in found["net_transfers"]} == {("send", SAMPLES[generation] + 1), ("receive", SAMPLES[generation] - 1)}


def test_generations_that_are_valid_json_agree_with_a_strict_reader(tmp_path: Path) -> None:
    data = sample("2.30")
    events = [e for e in json.loads(data) if e]
    expected = [e["args"]["transSize"] for e in events if e["cat"] == "PROXY" and e["ph"] == "b" and e["name"].startswith("Progress")]
    with pytest.raises(json.JSONDecodeError):
        json.loads(sample("2.28"))
    for generation in ("2.28", "2.30"):
        found = read(PARSER, sample(generation), tmp_path)
        assert found.column("net_transfers", "bytes") == expected
        assert sum(c.count for c in found.info.event_counts) == len(events) / 2


def test_a_real_dump_that_is_no_json(tmp_path: Path, test_data: Callable[[str], Path]) -> None:
    data = (test_data("nccl") / "excerpts/53_nccl-2.28_profiler-example_p2p_invalid-json.txt").read_bytes()
    found = read(PARSER, data, tmp_path)
    names = "operation", "seq", "peer", "count", "dtype", "in_bytes", "out_bytes", "channel_first", "channel_last", "state", "dur_ns", "stream"
    assert found.column("logged_collectives", *names) == [
        ("send", 0, 1, 268_435_456, "float32", 1 << 30, 0, 16, 31, "started", None, "0x4142e90"),
        ("recv", 1, 3, 268_435_456, "float32", 0, 1 << 30, 16, 31, "started", None, "0x4142e90"),
    ]
    assert found.column("communicators", "comm_id", "comm_rank") == [(f"0x{12_715_772_615_376_301_750:x}", 0)]
    assert [p.pid for p in found.info.parts] == [3_937_375]
    ends = re.findall(rb'"cat": "(\w+)", "ph": "e"', data)
    assert {c.kind: c.count for c in found.info.event_counts} == {kind.decode(): ends.count(kind) for kind in set(ends)}
    bare = sum(re.search(rb": (?:ncclFloat32|0x)", line) is not None for line in data.splitlines())
    assert found.counted() == {"relative-times": 1, "truncated": 1, "unfinished": 2, "unquoted-values": bare}
    assert PARSER.sniff(tmp_path, data[:65536]) is not None


@pytest.mark.parametrize("generation", GENERATIONS)
def test_it_is_known_by_its_content(tmp_path: Path, generation: str) -> None:
    for data in (sample(generation), sample(generation).removeprefix(b"[\n"), b"\xef\xbb\xbf" + sample(generation)):
        match = PARSER.sniff(tmp_path / "base_1_0.json", data)
        assert match is not None
        assert match.confidence == 0.95


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[",
        b"[]",
        b'[{"ph": "X", "cat": "kernel", "name": "gemm", "id": 1}]',
        b'[{"name": "x", "cat": "cpu_op", "ph": "b", "id": 0}]',
        b'{"traceEvents": [{"name": "x"}]}',
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, head: bytes) -> None:
    assert PARSER.sniff(tmp_path / "base_1_0.json", head) is None
