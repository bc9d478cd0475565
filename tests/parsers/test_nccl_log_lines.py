"""Hand-written lines of every version: what stands before a message, and what is read from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.nccl_log import Collected, operation, parse_text

PREFIX = "node-1:77:78 [3] NCCL INFO "
NS = 1_000_000_000
MOMENT = 1_769_832_245 * NS
"""2026-01-31 04:04:05 UTC."""


def _events(found: Collected) -> list[dict[str, Any]]:
    return found.rows("log_events")


# --- what stands before a message


@pytest.mark.parametrize(
    ("front", "rank"),
    [
        ("", None),
        ("[1,3]<stdout>:", 3),
        ("[1,3]<stderr>: ", 3),
        ("3: ", 3),
        (" 3: ", 3),
        ("[rank3]:", 3),
        ("[rank3]: ", 3),
        ("[default0]:", None),
        ("[2] ", 2),
        ("(RayTrainWorker pid=1234, ip=10.0.0.1) ", None),
        ("(TrainWorker(rank=5) pid=1234) ", 5),
        ("[pod/job-0/pytorch] ", None),
        ("worker-0  | ", None),
        ("2026-01-31T04:04:05.000000001Z ", None),
        ("2026-01-31T04:04:05Z [rank3]: ", 3),
        ("12:", None),
        ("train.log:12:[rank3]: ", 3),
        ("[rank3]: [2026-01-31 04:04:05] ", 3),
        ("\x1b[36m(RayTrainWorker pid=1, ip=10.0.0.1)\x1b[0m ", None),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_any_launcher_may_stand_before_a_message(front: str, rank: int | None, end: str, tmp_path: Path) -> None:
    text = f"{front}{PREFIX}Using network IB{end}{front}{PREFIX}{operation()}{end}"
    for in_columns in (True, False):
        found = parse_text(text, tmp_path, in_columns=in_columns)
        (part,) = found.info.parts
        assert (part.host, part.pid, part.rank) == ("node-1", 77, rank)
        (event,) = _events(found)
        assert (event["level"], event["tid"], event["device"], event["text"]) == ("INFO", 78, 3, "Using network IB")
        (done,) = found.rows("logged_collectives")
        assert (done["line"], done["operation"], done["in_bytes"], done["stream"]) == (2, "all_reduce", 4000, "0x55bb0010")
        assert "glued-message" not in found.codes


@pytest.mark.parametrize(
    ("stamp", "absolute", "local"),
    [
        ("[2026-01-31 04:04:05] ", None, MOMENT),
        ("[2026-01-31 04:04:05.25] ", None, MOMENT + NS // 4),
        ("2026-01-31 04:04:05.000001 ", None, MOMENT + 1000),
        ("[2026-01-31 05:04:05.25 +0100] ", MOMENT + NS // 4, None),
        ("[2026-01-30 22:34:05 -0530] ", MOMENT, None),
        ("[01/31/26 04:04:05] ", None, MOMENT),
        ("[Sat Jan 31 04:04:05 2026] ", None, MOMENT),
        ("[1769832245.5] ", MOMENT + NS // 2, None),
        ("2026-01-31T04:04:05Z ", MOMENT, None),
        ("[04:04:05] ", None, None),
        ("[2026-13-77 04:04:05] ", None, None),
    ],
)
def test_times(stamp: str, absolute: int | None, local: int | None, tmp_path: Path) -> None:
    found = parse_text(f"{stamp}{PREFIX}Using network IB\n{stamp}{PREFIX}{operation()}\n", tmp_path)
    (event,) = _events(found)
    assert (event["source_ts_ns"], event["local_ts_ns"]) == (absolute, local)
    (done,) = found.rows("logged_collectives")
    assert done["source_ts_ns"] == absolute
    (part,) = found.info.parts
    assert (part.start_ns, part.end_ns) == (absolute, absolute)


@pytest.mark.parametrize(
    ("line", "level", "where", "text"),
    [
        ("h:1:2 [0] net_ib.cc:88 NCCL WARN NET/IB : trouble", "WARN", "net_ib.cc:88", "NET/IB : trouble"),
        ("[2026-01-31 04:04:05] h:1:2 [0] plugin/net.cc:334 NCCL WARN Failed", "WARN", "plugin/net.cc:334", "Failed"),
        ("h:1:2 [0] transport/net.cc:334 (netInit) NCCL WARN Failed", "WARN", "transport/net.cc:334", "Failed"),
        ("h:1:2 [0] 1234.567890 ncclInit:12 NCCL TRACE hello", "TRACE", "ncclInit:12", "hello"),
        ("h:1:2 NCCL CALL ncclGroupStart()", "CALL", None, "ncclGroupStart()"),
        (":168:1228 [2] NCCL INFO Using network IB", "INFO", None, "Using network IB"),
    ],
)
def test_levels_and_places(line: str, level: str, where: str | None, text: str, tmp_path: Path) -> None:
    found = parse_text(f"{line}\n", tmp_path)
    (event,) = _events(found)
    assert (event["level"], event["where"], event["text"]) == (level, where, text)


def test_an_empty_host_is_null(tmp_path: Path) -> None:
    (part,) = parse_text(":168:1228 [2] NCCL INFO Using network IB\n", tmp_path).info.parts
    assert (part.host, part.pid) == (None, 168)


def test_text_of_two_writers_on_one_line_is_taken_apart(tmp_path: Path) -> None:
    lines = [
        f"{PREFIX}Using network IB",
        f"    8388608       2097152     float     sum      -1{PREFIX}{operation()}",
        f"{PREFIX}Connected all rings{PREFIX}Connected all trees",
        f" 12%|###   | 1/8{PREFIX}{operation(n=1)}",
    ]
    found = parse_text("\n".join(lines) + "\n", tmp_path)
    assert {(p.host, p.pid) for p in found.info.parts} == {("node-1", 77)}
    assert [e["text"] for e in _events(found) if e["tid"] == 78] == ["Using network IB", "Connected all rings", "Connected all trees"]
    assert [o["line"] for o in found.rows("logged_collectives")] == [2, 4]
    assert "glued-message" in found.codes


def test_carriage_returns_of_progress_bars_end_pieces_of_a_line(tmp_path: Path) -> None:
    found = parse_text(f"10%|#|\r20%|##|\r{PREFIX}Using network IB\n{PREFIX}{operation()}\n", tmp_path)
    assert [(e["line"], e["text"]) for e in _events(found)] == [(1, "Using network IB")]
    assert [o["line"] for o in found.rows("logged_collectives")] == [2]


def test_nul_holes_are_skipped_and_named(tmp_path: Path) -> None:
    data = b"\0" * 300_000 + f"{PREFIX}Using network IB\n".encode() + b"\0\0" + f"{PREFIX}{operation()}\n".encode()
    found = parse_text(data, tmp_path)
    assert len(_events(found)) == len(found.rows("logged_collectives")) == 1
    (notice,) = [n for n in found.notices if n.code == "null-bytes"]
    assert (notice.count, notice.offset) == (300_002, 0)


def test_a_line_without_end_is_bounded(tmp_path: Path) -> None:
    found = parse_text("x" * 3_000_000 + f" {PREFIX}Using network IB", tmp_path)
    assert [e["text"] for e in _events(found)] == ["Using network IB"]
    assert {"long-line", "last-line-cut"} <= found.codes


def test_a_text_without_any_message_gives_one_process_without_a_name(tmp_path: Path) -> None:
    found = parse_text("hello\nworld\n" * 100, tmp_path)
    (part,) = found.info.parts
    assert (part.rank, part.host, part.pid) == (None, None, None)
    assert found.codes == {"no-message"}
    assert not found.batches


# --- who they are


def _init(pointer: str, rank: int, size: int, what: str, *, extra: str = "", device: int = 3, function: str = "ncclCommInitRank ") -> str:
    return f"{PREFIX}{function}comm {pointer} rank {rank} nranks {size} cudaDev {device} nvmlDev {device + 1} busId f000{extra} - Init {what}\n"


def test_the_world_is_the_largest_communicator_that_came_first(tmp_path: Path) -> None:
    found = parse_text(
        _init("0x1a", 1, 2, "COMPLETE", extra=" commId 0xaa") + _init("0x1b", 5, 8, "COMPLETE", extra=" commId 0x00bb") + _init("0x1c", 6, 8, "COMPLETE"),
        tmp_path,
    )
    (part,) = found.info.parts
    assert (part.rank, part.world_size, part.device, part.job) == (5, 8, 4, "0xbb")
    assert [c["bus_id"] for c in found.rows("communicators")] == ["0000:0f:00.0"] * 3


def test_a_label_that_several_processes_share_is_no_rank(tmp_path: Path) -> None:
    text = "".join(f"0: node-1:{pid}:{pid} [{pid}] NCCL INFO Using network IB\n" for pid in (4, 5))
    assert [p.rank for p in parse_text(text, tmp_path).info.parts] == [None, None]


def test_the_label_of_torch_wins_over_a_group_that_is_not_the_world(tmp_path: Path) -> None:
    found = parse_text("[rank6]: " + _init("0x1b", 2, 4, "COMPLETE"), tmp_path)
    (part,) = found.info.parts
    assert (part.rank, part.world_size, part.job) == (6, None, None)
    assert "rank-conflict" in found.codes


def test_bare_lines_belong_to_the_process_of_their_label(tmp_path: Path) -> None:
    text = (
        "[rank1]: NCCL version 2.21.5+cuda12.4\n"
        + "".join(f"[rank{r}]: node-1:{70 + r}:{70 + r} [{r}] NCCL INFO Using network IB\n" for r in range(3))
        + "[rank9]: NCCL version 2.21.5+cuda12.4\n"
    )
    found = parse_text(text, tmp_path)
    assert [(p.rank, p.pid) for p in found.info.parts] == [(0, 70), (1, 71), (2, 72), (9, None)]
    assert [e["part"] for e in _events(found) if e["kind"] == "version"] == [1, 3]


# --- communicators


def test_an_address_that_is_used_again_is_another_communicator(tmp_path: Path) -> None:
    text = (
        _init("0x1a", 1, 4, "START")
        + _init("0x1a", 1, 4, "COMPLETE")
        + f"{PREFIX}{operation(comm='0x1a')}\n"
        + f"{PREFIX}comm 0x1a rank 1 nranks 4 cudaDev 3 busId f000 - Destroy COMPLETE\n"
        + _init("0x1a", 0, 2, "START")
        + f"{PREFIX}{operation(comm='0x1a', size=2)}\n"
        + _init("0x1a", 3, 4, "START")
        + f"{PREFIX}{operation(comm='0x1a')}\n"
        + f"{PREFIX}{operation(comm='0x2b', size=6)}\n"
    )
    for in_columns in (True, False):
        found = parse_text(text, tmp_path, in_columns=in_columns)
        comms = found.rows("communicators")
        assert [(c["comm"], c["state"], c["comm_rank"], c["size"]) for c in comms] == [
            (0, "destroyed", 1, 4),
            (1, "started", 0, 2),
            (2, "started", 3, 4),
            (3, "seen", None, 6),
        ]
        assert [(o["comm"], o["seq"]) for o in found.rows("logged_collectives")] == [(0, 0), (1, 0), (2, 0), (3, 0)]


SPLIT = "ncclCommSplit comm 0x2 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId f000 parent 0x1"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{SPLIT} color 7 key 3 commId 0xab - Init START", {"color": 7, "split_key": 3, "comm_id": "0xab"}),
        (f"{SPLIT} color 7 key 3- Init START", {"color": 7, "split_key": 3, "comm_id": None}),
        (f"{SPLIT} splitCount 2 color -1 key 3- Init START", {"split": 2, "color": -1}),
        (f"{SPLIT} childCount 4 color 1 key 0 - Init COMPLETE", {"split": 4, "state": "complete"}),
        ("[Rank 0] ncclCommInitRankConfig comm 0x2 rank 0 nranks 2 cudaDev 0 busId f000 - Init START", {"function": "ncclCommInitRankConfig"}),
        ("comm 0x2 rank 0 nranks 2 cudaDev 0 busId f000 localSize 56 used 4096 bytes on core 3 - Init COMPLETE", {"state": "complete", "function": None}),
        ("comm 0x2 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0", {"nodes": 1, "local_ranks": 2, "local_rank": 0}),
        ("comm 0x2 rank 0 nRanks 2 cudaDev 0 busId f000 - Abort START", {"state": "aborted"}),
        ("comm 0x2 rank 0 nranks 2 cudaDev 0 busId f000 - Abort COMPLETE", {"state": "aborted"}),
        ("comm 0x2 rank 0 nRanks 2 cudaDev 0 busId f000 - Revoke COMPLETE, result 0", {"state": "aborted"}),
    ],
)  # fmt: skip
def test_lines_of_the_life_of_communicators(line: str, expected: dict[str, Any], tmp_path: Path) -> None:
    found = parse_text(f"h:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 busId f000 - Init COMPLETE\nh:1:2 [0] NCCL INFO {line}\n", tmp_path)
    comm = found.rows("communicators")[1]
    assert (comm["pointer"], comm["size"]) == ("0x2", 2)
    assert {k: comm[k] for k in expected} == expected
    if "ncclCommSplit" in line:
        assert (comm["parent"], comm["parent_pointer"]) == (0, "0x1")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("8 coll channels, 8 p2p channels, 2 p2p channels per peer", (8, None, None, 8, 2)),
        ("2 coll channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer", (2, None, 0, 4, 2)),
        ("24 coll channels, 3 collnet channels, 16 nvls channels, 32 p2p channels, 1 p2p channels per peer", (24, 3, 16, 32, 1)),
    ],
)
def test_channel_counts(line: str, expected: tuple[int | None, ...], tmp_path: Path) -> None:
    text = f"{PREFIX}{line}\n{PREFIX}comm 0x1 rank 0 nranks 4 cudaDev 0 busId f000 - Init COMPLETE\n"
    (comm,) = parse_text(text, tmp_path).rows("communicators")
    assert tuple(comm[k] for k in ("channels", "collnet_channels", "nvls_channels", "p2p_channels", "p2p_channels_per_peer")) == expected


@pytest.mark.parametrize(
    "line", ["Init timings: rank 1 nranks 4 total 0.37 (kernels 0.28)", "Init timings - ncclCommInitRank: rank 1 nranks 4 total 0.37 (kernels 0.28)"]
)
def test_init_timings(line: str, tmp_path: Path) -> None:
    (comm,) = parse_text(_init("0x1a", 1, 4, "START") + _init("0x1a", 1, 4, "COMPLETE") + f"{PREFIX}{line}\n", tmp_path).rows("communicators")
    assert comm["init_s"] == 0.37


def test_lines_without_a_name_wait_for_the_end_of_the_initialisation_of_their_thread(tmp_path: Path) -> None:
    text = "".join(f"h:1:{tid} [{tid}] NCCL INFO Ring 00 : 3 -> {tid % 2} -> 2\n" for tid in (10, 11))
    text += "".join(f"h:1:{tid} [{tid}] NCCL INFO comm 0x{tid} rank {tid % 2} nranks 4 cudaDev {tid} busId f000 - Init COMPLETE\n" for tid in (11, 10))
    text += "h:1:99 [7] NCCL INFO Ring 00 : 3 -> 4 -> 5\n"
    found = parse_text(text, tmp_path)
    assert {c["comm"]: c["pointer"] for c in found.rows("communicators")} == {0: "0x11", 1: "0x10"}
    assert [(e["line"], e["comm"]) for e in found.rows("channel_edges")] == [(1, 1), (1, 1), (2, 0), (2, 0), (5, None), (5, None)]


def test_a_desync_report_that_lists_one_rank_keeps_it(tmp_path: Path) -> None:
    text = (
        "[rank0]:[E117 02:17:41.434235799 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank 0] "
        "Collective desync report:\n"
        "\t - [0] Timeout at collective: ALLREDUCE, #183\n"
        "\t     [7] finished collective #182, but didn't join collective #183 (count from 1)\n"
    )
    told = [(r["level"], r["text"].split()[0]) for r in parse_text(text, tmp_path).rows("log_events") if "finished" in r["text"]]
    assert told == [("ERROR", "[7]")]


def test_a_benchmarks_lines_are_no_errors(tmp_path: Path) -> None:
    text = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    assert {r["level"] for r in parse_text(text, tmp_path).rows("log_events")} <= {"INFO"}


@pytest.mark.parametrize("run", ["1", "1.", " ", " -", "1e1", "a-", "[1, "])
def test_a_long_run_of_one_thing_is_no_row_and_ends(run: str, tmp_path: Path) -> None:
    found = parse_text(f"{run * 30_000}\nh:1:2 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>\n", tmp_path)
    assert [p.host for p in found.info.parts] == ["h"]


@pytest.mark.parametrize("year", ["9999", "0001", "2262", "1969"])
def test_years_that_no_clock_shows_state_no_time(year: str, tmp_path: Path) -> None:
    found = parse_text(f"{year}-12-31T23:59:59Z h:1:2 [0] NCCL INFO {operation()}\n2026-01-31T04:04:05Z h:1:2 [0] NCCL INFO {operation(n=1)}\n", tmp_path)
    assert [r["source_ts_ns"] is None for r in found.rows("logged_collectives")] == [True, False]
