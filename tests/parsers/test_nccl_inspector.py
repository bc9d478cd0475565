"""What NCCL Inspector records, worked out by hand: one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.nccl_inspector import DUMP_US, bare, collective, dump_stats, point_to_point, proxy, sample, text
from tests.builders.nccl_json import Read, read
from tracelab_parsers.nccl_inspector import PARSER

# The two records that NCCL's documentation of the plugin shows, with their bandwidths: 8 ranks, 17179869184 B in 61974 µs
# are 277.210914 GB/s, and a reduce_scatter of 2147483648 B in 41057 µs 418.439467 GB/s, which is eight times its size.
SHOWN_ALL_REDUCE = collective("AllReduce", 1407, 17_179_869_184, 61_974, dump_us=1_748_030_377_748_202, pid=1_639_453)
SHOWN_REDUCE_SCATTER = collective("ReduceScatter", 1231, 2_147_483_648, 41_057, comm="0xe62dedaa97644a", rank=4, start_us=1_752_867_229_235_059, pid=438_776)


def _read(folder: Path, *records: object) -> Read:
    return read(PARSER, text(records), folder)


def _one(folder: Path, record: object) -> dict[str, Any]:
    (row,) = _read(folder, record)["logged_collectives"]
    return row


def test_a_record_becomes_a_row(tmp_path: Path) -> None:
    found = _read(tmp_path, SHOWN_REDUCE_SCATTER)
    assert found["logged_collectives"] == [
        {
            "part": 0,
            "line": 1,
            "source_ts_ns": 1_752_867_229_235_059_000,
            "dur_ns": 41_057_000,
            "origin": "inspector",
            "comm": 0,
            "seq": 1231,
            "op_count": None,
            "operation": "reduce_scatter",
            "count": None,
            "dtype": None,
            "in_bytes": 8 * 2_147_483_648,
            "out_bytes": 2_147_483_648,
            "reduction": None,
            "root": None,
            "peer": None,
            "size": 8,
            "stream": None,
            "algorithm": None,
            "protocol": None,
            "channel_first": None,
            "channel_last": None,
            "state": "completed",
            "stack": None,
        }
    ]
    assert found.notices == {}
    in_bytes, dur_ns = found.column("logged_collectives", "in_bytes", "dur_ns")[0]
    assert in_bytes / dur_ns == pytest.approx(418.439467, abs=1e-6)


def test_a_brief_record_has_a_length_and_no_moment(tmp_path: Path) -> None:
    found = _read(tmp_path, SHOWN_ALL_REDUCE)
    ((moment, dur_ns, inward, outward),) = found.column("logged_collectives", "source_ts_ns", "dur_ns", "in_bytes", "out_bytes")
    assert (moment, dur_ns, inward, outward) == (None, 61_974_000, 17_179_869_184, 17_179_869_184)
    assert inward / dur_ns == pytest.approx(277.210914, abs=1e-6)
    assert found.counted() == {"no-starts": 1}


@pytest.mark.parametrize(
    ("function", "operation", "in_bytes", "out_bytes"),
    [
        ("AllReduce", "all_reduce", 1000, 1000),
        ("AllGather", "all_gather", 1000, 8000),
        ("ReduceScatter", "reduce_scatter", 8000, 1000),
        ("All2All", "all_to_all", 8000, 8000),
        ("AlltoAll", "all_to_all", 8000, 8000),
        ("Broadcast", "broadcast", None, 1000),
        ("Reduce", "reduce", 1000, None),
        ("Gather", "gather", 1000, None),
        ("Scatter", "scatter", None, 1000),
        ("AllGatherV", "all_gather", None, None),
    ],
)
def test_bytes_follow_the_operation(tmp_path: Path, function: str, operation: str, in_bytes: int | None, out_bytes: int | None) -> None:
    row = _one(tmp_path, collective(function, 0, 1000, 5))
    assert (row["operation"], row["in_bytes"], row["out_bytes"]) == (operation, in_bytes, out_bytes)


@pytest.mark.parametrize(("function", "operation", "in_bytes", "out_bytes"), [("Send", "send", 4096, 0), ("Recv", "recv", 0, 4096)])
def test_point_to_point(tmp_path: Path, function: str, operation: str, in_bytes: int, out_bytes: int) -> None:
    row = _one(tmp_path, point_to_point(function, 7, 4096, 12, peer=5, start_us=DUMP_US))
    assert (row["operation"], row["in_bytes"], row["out_bytes"], row["peer"], row["seq"]) == (operation, in_bytes, out_bytes, 5, 7)
    assert row["source_ts_ns"] == DUMP_US * 1000


def test_an_unknown_operation_keeps_its_length(tmp_path: Path) -> None:
    found = _read(tmp_path, collective("Invalid", 3, 1000, 5))
    assert found.column("logged_collectives", "operation", "dur_ns", "in_bytes", "out_bytes") == [("unknown", 5000, None, None)]
    assert found.counted() == {"unknown-operation": 1, "no-starts": 1}


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("61974", 61_974_000),
        ("0", 0),
        ("12.5", 12_500),
        ("0.0005", 0),
        ("0.0015", 2),
        ("1e3", 1_000_000),
        ("2199023255553.001", 2_199_023_255_553_001),
    ],
)
def test_lengths_are_exact(tmp_path: Path, written: str, ns: int) -> None:
    data = text([collective("AllReduce", 0, 8192, 77_777)]).replace(b"77777", written.encode())
    (row,) = read(PARSER, data, tmp_path)["logged_collectives"]
    assert row["dur_ns"] == ns


def test_starts_with_decimals_are_exact(tmp_path: Path) -> None:
    data = text([collective("AllReduce", 0, 8192, 1, start_us=1_752_867_229_235_059)]).replace(
        b'"coll_start_ts":1752867229235059', b'"coll_start_ts":1752867229235059.123'
    )
    (row,) = read(PARSER, data, tmp_path)["logged_collectives"]
    assert row["source_ts_ns"] == 1_752_867_229_235_059_123


def test_algorithm_and_protocol(tmp_path: Path) -> None:
    records = [
        collective("AllReduce", n, 8192, 1, coll_algo=a, coll_proto=p)
        for n, (a, p) in enumerate([("RING", "LL128"), ("NVLS_TREE", "SIMPLE"), ("unknown", "unknown")])
    ]
    assert _read(tmp_path, *records).column("logged_collectives", "algorithm", "protocol") == [("RING", "LL128"), ("NVLS_TREE", "SIMPLE"), (None, None)]


def test_communicators_have_one_name(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        collective("AllReduce", 0, 8192, 1, comm="0x00AB", rank=5, ranks=16, nodes=2, name="default_pg"),
        collective("AllReduce", 0, 8192, 1, comm="0xCD", rank=1, ranks=4, name="unknown"),
        collective("AllReduce", 1, 8192, 1, comm="0xab", rank=5, ranks=16, nodes=2),
    )
    names = "line", "comm", "comm_id", "comm_rank", "size", "nodes", "group_name", "state", "library"
    assert found.column("communicators", *names) == [(1, 0, "0xab", 5, 16, 2, "default_pg", "seen", "nccl"), (2, 1, "0xcd", 1, 4, 1, None, "seen", "nccl")]
    assert found.column("logged_collectives", "comm") == [0, 1, 0]


def test_the_process_is_that_of_the_largest_communicator(tmp_path: Path) -> None:
    found = _read(
        tmp_path, collective("AllReduce", 0, 8192, 1, comm="0x1", rank=1, ranks=2), collective("AllReduce", 0, 8192, 1, comm="0x2", rank=11, ranks=16)
    )
    (part,) = found.info.parts
    assert (part.rank, part.world_size, part.host, part.pid, part.job) == (11, 16, "node-0", 4002, None)
    assert (part.start_ns, part.end_ns) == (DUMP_US * 1000, DUMP_US * 1000)
    assert found.info.metadata == {"format": "v4.0", "recorded_by": "nccl_profiler_interface"}


def test_no_rank_is_guessed_among_several(tmp_path: Path) -> None:
    found = _read(tmp_path, *(collective("AllReduce", 0, 8192, 1, comm="0x1", rank=r, ranks=2) for r in (0, 1)))
    assert [(p.rank, p.world_size) for p in found.info.parts] == [(None, None)]
    assert found.counted() == {"ambiguous-rank": 1, "no-starts": 1}
    assert found.column("communicators", "comm", "comm_rank") == [(0, 0), (1, 1)]


def test_files_that_were_joined_hold_several_processes(tmp_path: Path) -> None:
    found = _read(tmp_path, *(collective("AllReduce", 0, 8192, 1, rank=r, pid=4000 + r, host=f"node-{r % 2}") for r in (0, 1, 0)))
    assert [(p.part, p.rank, p.host, p.pid) for p in found.info.parts] == [(0, 0, "node-0", 4000), (1, 1, "node-1", 4001)]
    assert found.column("logged_collectives", "part", "comm") == [(0, 0), (1, 0), (0, 0)]


def test_what_was_overwritten_is_told(tmp_path: Path) -> None:
    other = {k: v for k, v in dump_stats().items() if k != "dump_stats"} | {"something_new": {}}
    found = _read(tmp_path, dump_stats(3, 4), collective("AllReduce", 0, 8192, 1, start_us=DUMP_US), other)
    assert found.counted() == {"operations-overwritten": 7, "other-records": 1}
    assert [(c.kind, c.count, c.stored) for c in found.info.event_counts] == [("coll", 1, True), ("dump_stats", 1, False), ("other", 1, False)]


def test_records_take_what_they_lack_from_their_dump(tmp_path: Path) -> None:
    records = [
        dump_stats(comm="0x1", collectives=2),
        bare(collective("AllReduce", 0, 1000, 1, start_us=DUMP_US)),
        bare(collective("AllGather", 0, 1000, 1, start_us=DUMP_US)),
        dump_stats(comm="0x2", p2p=1),
        bare(point_to_point("Send", 1, 1000, 1, peer=4, start_us=DUMP_US)),
    ]
    found = _read(tmp_path, *records)
    assert found.notices == {}
    assert found.column("communicators", "comm", "comm_id", "comm_rank", "size", "group_name") == [(0, "0x1", 2, 8, None), (1, "0x2", 2, 8, None)]
    names = "line", "part", "comm", "operation", "in_bytes", "out_bytes", "size"
    assert found.column("logged_collectives", *names) == [
        (2, 0, 0, "all_reduce", 1000, 1000, 8),
        (3, 0, 0, "all_gather", 1000, 8000, 8),
        (5, 0, 1, "send", 1000, 0, 8),
    ]
    assert [(p.rank, p.world_size, p.host, p.pid) for p in found.info.parts] == [(2, 8, "node-0", 4002)]


def test_records_beyond_those_announced_belong_to_no_communicator(tmp_path: Path) -> None:
    record = bare(collective("AllReduce", 0, 1000, 1, start_us=DUMP_US))
    found = _read(tmp_path, dump_stats(collectives=1), record, record)
    assert found.column("logged_collectives", "comm") == [0, None]
    assert found.counted() == {"bad-header": 1}


def test_records_that_were_announced_and_are_missing(tmp_path: Path) -> None:
    record = bare(collective("AllReduce", 0, 1000, 1, start_us=DUMP_US))
    found = _read(tmp_path, dump_stats(collectives=3), record, dump_stats(collectives=1), record)
    assert found.counted() == {"records-missing": 2}
    assert not found.info.truncated
    cut = _read(tmp_path, dump_stats(collectives=2), record)
    assert cut.counted() == {"records-missing": 1}
    assert cut.info.truncated


def test_transfers_of_the_proxy(tmp_path: Path) -> None:
    announced = dump_stats(proxy_records=6, proxy_dropped_since_last_dump=2, proxy_ops_dropped_since_last_dump=3, proxy_pxn_skipped_process_total=5)
    records = [
        proxy("proxy_step"),
        proxy(),
        proxy(direction="recv", parent="p2p", size=100, stamps=(80, 0, 150), n_steps_dropped=1),
        proxy(stamps=(80, 90, 0)),
        proxy(stamps=(80, 90, 85)),
        proxy(direction="up"),
    ]
    found = _read(tmp_path, announced, *records, {**announced, "dump_stats": {"proxy_pxn_skipped_process_total": 7}})
    start = DUMP_US * 1000 + 90_000
    names = "line", "source_ts_ns", "dur_ns", "comm", "channel", "peer", "direction", "bytes", "steps", "operation", "seq"
    assert found.column("net_transfers", *names) == [
        (3, start, 60_000, 0, 5, 3, "send", 1 << 20, 4, None, 1407),
        (4, start - 10_000, 70_000, 0, 5, 3, "receive", 100, 4, "recv", 1407),
        (5, start, None, 0, 5, 3, "send", 1 << 20, 4, None, 1407),
        (6, start, None, 0, 5, 3, "send", 1 << 20, 4, None, 1407),
    ]
    assert found.counted() == {"bad-record": 1, "bad-time": 1, "bytes-incomplete": 1, "no-operations": 1, "transfers-for-others": 7, "transfers-lost": 5}
    counts = [(c.kind, c.count, c.stored) for c in found.info.event_counts]
    assert counts == [("dump_stats", 2, False), ("proxy_op", 4, True), ("proxy_part", 1, False)]


def test_gaps_are_counted_by_function(tmp_path: Path) -> None:
    series = [("AllReduce", 4), ("AllGather", 9), ("AllReduce", 5), ("AllReduce", 8), ("AllGather", 10), ("AllReduce", 2)]
    found = _read(tmp_path, *(collective(f, n, 8192, 1, start_us=DUMP_US) for f, n in series))
    assert found.counted() == {"numbers-skipped": 2}
    sent = _read(tmp_path, *(point_to_point(f, n, 8192, 1, peer=1, start_us=DUMP_US) for f, n in [("Send", 1), ("Recv", 2), ("Send", 3)]))
    assert sent.counted() == {}


def test_lengths_of_the_cpu_are_told_apart(tmp_path: Path) -> None:
    sources = ["kernel_gpu", "kernel_cpu", "collective_cpu"]
    found = _read(tmp_path, *(collective("AllReduce", n, 8192, 1, start_us=DUMP_US, coll_timing_source=s) for n, s in enumerate(sources)))
    assert found.counted() == {"cpu-timed": 2}


@pytest.mark.parametrize("compress", [False, True])
def test_the_sample(tmp_path: Path, root: Path, compress: bool) -> None:
    data = sample()
    assert (root / "sample_traces/formats/nccl-inspector/node-0-pid4002.log").read_bytes() == data
    found = read(PARSER, data, tmp_path, compress=compress)
    assert len(found["logged_collectives"]) == len(data.splitlines()) == 48
    assert found.notices == {}
    assert sum(found.column("logged_collectives", "in_bytes")) == 12 * (33_554_432 + 1_048_576 + 2_097_152)
    assert not found.info.truncated


def test_it_is_known_by_its_content(tmp_path: Path) -> None:
    verbose, old = text([SHOWN_REDUCE_SCATTER]), text([{k: v for k, v in SHOWN_ALL_REDUCE.items() if k != "metadata"}])
    spaced = json.dumps(SHOWN_ALL_REDUCE, indent=1).encode()
    confidence = [m.confidence if m else None for m in (PARSER.sniff(tmp_path / "x.log", d) for d in (verbose, old, spaced, b"\xef\xbb\xbf" + verbose))]
    assert confidence == [0.95, 0.9, 0.95, 0.95]


@pytest.mark.parametrize(
    "head", [b"", b"node-0:1:1 [0] NCCL INFO Bootstrap", b'{"traceEvents": []}', b"[" + text([SHOWN_ALL_REDUCE]), b'{"header": {"id": 1}}', b"\x00" * 100]
)
def test_other_files_are_left_alone(tmp_path: Path, head: bytes) -> None:
    assert PARSER.sniff(tmp_path / "node-0-pid4002.log", head) is None
