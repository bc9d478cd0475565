"""Errors of the library and of torch's watchdog: every shape of every version has its kind, numbers and ranks are right or absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.nccl_reader_rows import Row, bare, read, real_lines, said
from tracelab_parsers.nccl_log.c10d_text import C10D_KINDS, C10dReader
from tracelab_parsers.nccl_log.errors import ErrorReader
from tracelab_parsers.nccl_log.line import LogLine

Data = Callable[[str], Path]


@pytest.mark.parametrize(
    ("level", "text", "kind"),
    [
        ("WARN", "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129", "net-error"),
        ("WARN", "NET/IB : Got completion from peer 10.0.0.1<33445> with error 12, opcode 31245, len 0, vendor err 129", "net-error"),
        (
            "WARN",
            "NET/IB : Got completion from peer 10.0.0.1<1> with error 5, opcode 0, len 0, vendor err 249 (Recv) localGid fe80:: remoteGidsfe80::1",
            "net-error",
        ),
        ("WARN", "NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=129 len=65536 vendor err 129 (Recv)", "net-error"),
        (
            "WARN",
            "NET/IB: Got completion from peer 10.0.0.1<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_9",
            "net-error",
        ),
        ("WARN", "NET/OFI Request 0x7f completed with error. RC: 110. Error: connection timed out", "net-error"),
        ("WARN", "Call to ibv_modify_qp failed with error Connection timed out errno 110", "net-error"),
        ("WARN", "NET/IB : Got async event : port error", "link-event"),
        ("WARN", "NET/IB : mlx5_0:1 Got async event : port active", "link-event"),
        ("WARN", "NET/IB : mlx5_0:1 async fatal event on QP (0x55d0): local work queue catastrophic error", "link-event"),
        ("INFO", "NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)", "link-event"),
        ("WARN", "NET/IB : mlx5_0:1 Got async error event: GID table changed", "link-event"),
        ("WARN", "Net : Connection closed by remote peer node7<45678>", "socket-error"),
        ("WARN", "socketProgress: Connection closed by remote peer node7.example<45678>", "socket-error"),
        ("WARN", "Call to recv from 10.0.0.1<45678> failed : Connection reset by peer", "socket-error"),
        ("WARN", "Call to connect returned Connection refused, exceeded retries", "socket-error"),
        ("INFO", "Call to connect returned Connection timed out, retrying", "socket-error"),
        ("INFO", "socketPollConnect: connect returned Connection refused, retrying (3/34) after sleep for 300 msec", "socket-error"),
        ("WARN", "socketFinalizeAccept: wrong type 3 != 1", "socket-error"),
        ("INFO", "socketFinalizeAccept from 10.0.0.1<1>: wrong magic 16 != 6f", "socket-error"),
        ("WARN", "Cuda failure 2 'out of memory'", "cuda-error"),
        ("WARN", "Cuda failure 'an illegal memory access was encountered'", "cuda-error"),
        ("INFO", "Cuda failure 999 'unknown error'", "cuda-error"),
        ("WARN", "HIP failure 'invalid device pointer'", "cuda-error"),
        ("WARN", "Bootstrap Root : mismatch in rank count from procs 4 : 8", "mismatch"),
        ("WARN", "Mismatched NCCL version detected : rank 0 version 22005 rank 5 version 22107", "mismatch"),
        (
            "WARN",
            "NET/Socket : peer 10.0.0.1<1> message truncated : receiving 4096 bytes instead of 2048. there may be a mismatch in collective sizes",
            "mismatch",
        ),
        ("WARN", "[Service thread] Connection closed by localRank 3", "abort"),
        ("INFO", "[Service thread] Connection closed by localRank 3", "abort"),
        ("ABORT", "whatever it says", "abort"),
        ("WARN", "[Proxy Service 5] Failed to execute operation Connect from rank 5, retcode 3", "warning"),
        ("WARN", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 6000", "warning"),
        ("WARN", "Failed to initialize any NET plugin", "warning"),
        ("INFO", "transport/net.cc:1298 -> 6", "stack"),
        ("INFO", "proxy.cc:874 -> 6 [Progress Thread]", "stack"),
        ("INFO", "misc/socket.cc:752 -> 3 [Async thread]", "stack"),
        ("INFO", "HINT: check the cables", "hint"),
        ("INFO", "Ring 00 : 1 -> 0 -> 1", None),
        ("INFO", "Channel 00 : 0[0] -> 1[1] via P2P/IPC", None),
        ("INFO", "[Proxy Service UDS] exit: stop 1 abortFlag 0", None),
        ("INFO", "Tree 0 : -1 -> 0 -> 1/-1/-1", None),
        ("INFO", "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 17000 - Abort COMPLETE", None),
        ("TRACE", "transport/net.cc:1298 -> 6", None),
        ("", "Cuda failure 2 'out of memory'", None),
    ],
)
def test_kinds_of_errors(level: str, text: str, kind: str | None) -> None:
    kinds, rows = read(ErrorReader(), [said(text, level=level) if level else bare(text)])
    assert kinds == [kind]
    assert rows.rows == []


def test_real_files_without_errors_have_none(test_data: Data) -> None:
    full = test_data("nccl/full")
    files = sorted(full.glob("*.gz"))
    assert len(files) == 3
    for path in files:
        kinds, _ = read(ErrorReader(), real_lines(path))
        assert len(kinds) > 1000
        assert set(kinds) == {None}
    kinds, _ = read(
        ErrorReader(),
        [said(line.text, level=line.level) for line in real_lines(test_data("nccl/excerpts/02_nccl-2.7.8_megatron_64gpu_interleaved.log")) if line.level],
    )
    assert set(kinds) == {None}


# --- the watchdog

WATCHDOG = (
    "[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1580, OpType={op}, NumelIn=80, NumelOut=10, Timeout(ms)=600000) ran for 600060 milliseconds "
    "before timing out."
)


def progress(*lines: str, rank: int | None = None) -> list[Row]:
    _, rows = read(C10dReader(), [bare(t, i, rank=rank) for i, t in enumerate(lines, 1)])
    names = (
        "subject_rank",
        "status",
        "operation",
        "timed_out",
        "last_enqueued",
        "last_started",
        "last_completed",
        "in_elements",
        "out_elements",
        "waited_ns",
        "group_name",
        "group_desc",
    )
    return [{n: r[n] for n in names if r.get(n) is not None} for r in rows.of("comm_progress")]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("ALLREDUCE", "all_reduce"),
        ("_REDUCE_SCATTER_BASE", "reduce_scatter"),
        ("_ALLGATHER_BASE", "all_gather"),
        ("ALLGATHER_into_tensor_coalesced", "all_gather"),
        ("ALLTOALL_BASE", "all_to_all"),
        ("BROADCAST", "broadcast"),
        ("_BROADCAST_OOP", "broadcast"),
        ("SEND", "send"),
        ("RECV", "recv"),
        ("BARRIER", "barrier"),
        ("COALESCED", "unknown"),
    ],
)
def test_timeouts_with_their_operation(op: str, expected: str) -> None:
    # The label before the line is the rank of the job, [Rank 5] one of some group.
    (row,) = progress("[rank7]:" + WATCHDOG.format(r=5, op=op))
    assert row == {
        "subject_rank": 7, "status": "timed-out", "operation": expected, "timed_out": 1580,
        "in_elements": 80, "out_elements": 10, "waited_ns": 600_060_000_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("WorkNCCL(OpType=ALLREDUCE, TensorShape=[1, 2], Timeout(ms)=1800000)", {"operation": "all_reduce"}),
        ("WorkNCCL(SeqNum=96120, OpType=ALLREDUCE, Timeout(ms)=1800000)", {"operation": "all_reduce", "timed_out": 96120}),
        ("WorkNCCL(SeqNum=9, OpType=SEND, TensorShape=[4], Timeout(ms)=1800000)", {"operation": "send", "timed_out": 9}),
        ("WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=5, Timeout(ms)=1800000)", {"operation": "broadcast", "timed_out": 1, "in_elements": 5}),
    ],
)
def test_timeouts_of_older_versions(work: str, expected: Row) -> None:
    text = f"[E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught collective operation timeout: {work} ran for 1804406 milliseconds before timing out."
    # Without a label nobody says which rank of the job this is.
    assert progress(text) == [{"status": "timed-out", "waited_ns": 1_804_406_000_000} | expected]
    assert progress(text, rank=3) == [{"subject_rank": 3, "status": "timed-out", "waited_ns": 1_804_406_000_000} | expected]


@pytest.mark.parametrize(
    ("text", "group", "counts"),
    [
        (
            (
                "[PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 1580, last enqueued NCCL "
                "work: 1582, last completed NCCL work: 1579."
            ),
            ("1", None),
            (1582, None, 1579),
        ),
        (
            "[PG 0 (default_pg) Rank 0] Timeout at NCCL work: 1580, last enqueued NCCL work: 1582, last completed NCCL work: 1579.",
            ("0", "default_pg"),
            (1582, None, 1579),
        ),
        (
            (
                "[PG ID 2 PG GUID 5(mesh_tp) Rank 0] Exception (either an error or timeout) detected by watchdog at work: "
                "1580, last enqueued NCCL work: 1582, last completed NCCL work: 1579."
            ),
            ("5", "mesh_tp"),
            (1582, None, 1579),
        ),
        (
            (
                "[PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 1580 PG status: "
                "last enqueued work: 1582, last completed work: 1579"
            ),
            ("0", "default_pg"),
            (1582, None, 1579),
        ),
        (
            (
                "[PG ID 1 PG GUID 3 Rank 0]  failure detected by watchdog at work sequence id: 1580 PG status: last enqueued "
                "work: 1582, last started work: 1580 (_ALLGATHER_BASE), last completed work: 1579"
            ),
            ("3", None),
            (1582, 1580, 1579),
        ),
        (
            (
                "[PG ID 1 PG GUID 3(undefined) Rank 0]  failure detected by watchdog at work sequence id: 1580 PG status: last "
                "enqueued work: 1582, last started work: -1, last completed work: -1"
            ),
            ("3", None),
            (1582, None, -1),
        ),
    ],
)
def test_how_far_a_group_came_in_all_generations(text: str, group: tuple[str, str | None], counts: tuple[int, int | None, int]) -> None:
    first, second = progress("[rank4]:" + WATCHDOG.format(r=0, op="ALLREDUCE"), "[rank4]:[E321 02:07:08.465150152 ProcessGroupNCCL.cpp:1664] " + text)
    assert "group_name" not in first
    expected = {
        "subject_rank": 4, "status": "timed-out", "timed_out": 1580, "operation": "all_reduce", "in_elements": 80, "out_elements": 10,
        "waited_ns": 600_060_000_000, "group_name": group[0], "group_desc": group[1],
        "last_enqueued": counts[0], "last_started": counts[1], "last_completed": counts[2],
    }  # fmt: skip
    assert second == {k: v for k, v in expected.items() if v is not None}


def test_a_rank_is_the_same_before_and_after_its_part_is_known() -> None:
    status = (
        "[E ProcessGroupNCCL.cpp:1] [PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 1580, "
        "last enqueued NCCL work: 1582, last completed NCCL work: 1579."
    )
    lines = [LogLine(1, WATCHDOG.format(r=0, op="ALLREDUCE"), rank_label=4), LogLine(2, status, part=3, rank_label=4)]
    _, rows = read(C10dReader(), lines)
    assert [(r["subject_rank"], r["operation"], r["status"]) for r in rows.of("comm_progress")] == [(4, "all_reduce", "timed-out")] * 2


def test_an_exception_that_no_timeout_preceded_is_an_error() -> None:
    text = "[PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 7, last enqueued NCCL work: 9, last completed NCCL work: 6."
    assert progress("[rank4]:[E ProcessGroupNCCL.cpp:1664] " + text) == [
        {"subject_rank": 4, "status": "error", "timed_out": 7, "last_enqueued": 9, "last_completed": 6, "group_name": "1"}
    ]


def test_two_groups_with_one_number_do_not_lend_their_operations() -> None:
    lines = ["[rank4]:" + WATCHDOG.format(r=0, op="ALLREDUCE"), "[rank4]:" + WATCHDOG.format(r=0, op="_ALLGATHER_BASE")]
    status = (
        "[rank4]:[E ProcessGroupNCCL.cpp:1] [PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog "
        "at work: 1580, last enqueued NCCL work: 1582, last completed NCCL work: 1579."
    )
    last = progress(*lines, status)[-1]
    assert "operation" not in last
    assert last["status"] == "timed-out"


def test_the_group_of_all_ranks_tells_the_rank_where_no_label_does() -> None:
    text = (
        "[E321 02:07:08.4 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 11]  failure detected by "
        "watchdog at work sequence id: 5 PG status: last enqueued work: 7, last completed work: 4"
    )
    assert progress(text)[0]["subject_rank"] == 11
    assert "subject_rank" not in progress(text.replace("default_pg", "mesh_dp"))[0]
    # A launcher that labels nodes does not overrule it; torch's own label does.
    assert progress(text, rank=1)[0]["subject_rank"] == 11
    assert progress("[rank3]:" + text)[0]["subject_rank"] == 3


def test_ranks_that_hear_of_anothers_timeout_say_how_far_they_are() -> None:
    text = (
        "[rank{}]:[E1213 17:24:49.3 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank {}] Received a dump "
        "signal due to a collective timeout from {} "
        "and we will try our best to dump the debug info. Last enqueued NCCL work: {}, last completed NCCL work: "
        "{}.This is most likely caused by incorrect usages."
    )
    found = progress(text.format(0, 0, "this local rank", 747, 715), text.format(1, 1, " rank 0", 715, 715))
    assert [(r["subject_rank"], r["status"], r["last_enqueued"], r["last_completed"]) for r in found] == [(0, "timed-out", 747, 715), (1, "running", 715, 715)]


def test_repeats_of_a_sentence_are_one_row() -> None:
    line = "[rank7]:" + WATCHDOG.format(r=7, op="ALLREDUCE")
    again = "  what():  " + WATCHDOG.format(r=7, op="ALLREDUCE").split("] ", 1)[1]
    assert len(progress(line, line)) == 1
    _, rows = read(C10dReader(), [bare(line, 1, rank=7), bare(again, 2, rank=7), bare(again, 3, rank=7)])
    assert [r["line"] for r in rows.of("comm_progress")] == [1]


def test_an_abort_is_a_statement() -> None:
    (row,) = progress("[rank2]:[E ProcessGroupNCCL.cpp:523] NCCL communicator was aborted on rank 5.  Original reason for failure was: x")
    assert row == {"subject_rank": 2, "status": "aborted"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            (
                "[rank144]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 144] Heartbeat monitor timed out! Process will be "
                "terminated after dumping debug info. workMetaList_.size()=1"
            ),
            "watchdog",
        ),
        (
            (
                "[rank1]:[E626 16:48:25.4 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective not found, "
                "potentially because FlightRecorder is disabled."
            ),
            "watchdog",
        ),
        (
            "[rank3]:[E ProcessGroupNCCL.cpp:621] [Rank 3] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels",
            "watchdog",
        ),
        ("[rank3]:[E ProcessGroupNCCL.cpp:627] [Rank 3] To avoid data inconsistency, we are taking the entire process down.", "abort"),
        ("terminate called after throwing an instance of 'c10::DistBackendError'", "abort"),
        ("torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, unhandled cuda error, NCCL version 2.21.5", "nccl-error"),
        ("ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.", "nccl-error"),
        ("[rank0]:[W321 02:07:08.4 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed", "c10d"),
        ("W0115 10:00:00.0 140 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 100 closing signal SIGTERM", "ended"),
        ("slurmstepd: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-01-15T10:00:00 ***", "ended"),
        ("Epoch 3: loss 0.1", None),
        ("collective agreements are fine", None),
    ],
)
def test_kinds_of_what_stands_around(text: str, kind: str | None) -> None:
    kinds, rows = read(C10dReader(), [bare(text)])
    assert kinds == [kind]
    assert kind is None or kind in C10D_KINDS
    assert rows.rows == []


# --- the report of ranks that fell behind

REPORT = [
    "\t - [0] Timeout at collective: ALLREDUCE, #315",
    "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
    "\t   - [2] joined but didn't finish collective #182 (count from 1)",
    "\t     [7, 9] finished collective #182, but didn't join collective #183 (count from 1)",
    "\t - Snapshot of ranks' latest states:",
    "\t   #182 finished ranks:",
    "\t     [7] finished ALLREDUCE",
    "\t   #315 started ranks:",
    "\t     [0, 1] started _ALLGATHER_BASE",
]
STATUS = (
    "[rank0]:[E515 18:36:47.3 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID {}({}) Rank 0]  failure detected by "
    "watchdog at work sequence id: 241 PG status: last enqueued work: 315, last completed work: 183"
)
HEAD = "[rank0]:[E515 18:36:47.343377708 ProcessGroupNCCL.cpp:1937] Rank 0"


def test_the_report_of_the_group_of_all_ranks() -> None:
    reader = C10dReader()
    kinds, rows = read(reader, [bare(t, i) for i, t in enumerate([HEAD, *REPORT, STATUS.format(0, "default_pg")], 1)])
    assert kinds == ["c10d", *["desync"] * len(REPORT), "watchdog"]
    found = [
        (r["line"], r["subject_rank"], r["status"], r.get("timed_out"), r.get("last_started"), r.get("last_completed"), r.get("operation"))
        for r in rows.of("comm_progress", origin="desync-report")
    ]
    assert found == [
        (2, 0, "timed-out", 315, None, None, "all_reduce"),
        (4, 2, "running", None, 182, None, None),
        (5, 7, "missing", None, 182, 182, None),
        (5, 9, "missing", None, 182, 182, None),
        (8, 7, "running", None, None, 182, "all_reduce"),
        (10, 0, "running", None, 315, None, "all_gather"),
        (10, 1, "running", None, 315, None, "all_gather"),
    ]
    assert {r["group_name"] for r in rows.of("comm_progress", origin="desync-report")} == {"0"}


@pytest.mark.parametrize("after", [[STATUS.format(5, "mesh_tp")], []])
def test_ranks_of_other_groups_are_not_taken_for_ranks_of_the_job(after: list[str]) -> None:
    _, rows = read(C10dReader(), [bare(t, i) for i, t in enumerate([HEAD, *REPORT, *after], 1)])
    found = rows.of("comm_progress", origin="desync-report")
    assert len(found) == 5  # one for each list of ranks
    assert {r["subject_rank"] for r in found} == {None}


def test_ranks_that_never_joined() -> None:
    line = "\t - To our best knowledge, ranks [3, 11] are the lagging ranks that caused this timeout. They never joined any collectives"
    _, rows = read(C10dReader(), [bare(HEAD), bare(line), bare(STATUS.format(0, "default_pg"))])
    assert [(r["subject_rank"], r["status"]) for r in rows.of("comm_progress", origin="desync-report")] == [(3, "missing"), (11, "missing")]


def test_what_every_rank_reports_is_kept_once() -> None:
    lines = [t.replace("rank0", f"rank{r}").replace("Rank 0", f"Rank {r}") for r in range(4) for t in [HEAD, *REPORT, STATUS.format(0, "default_pg")]]
    _, rows = read(C10dReader(), [bare(t, i) for i, t in enumerate(lines, 1)])
    assert len(rows.of("comm_progress", origin="desync-report")) == 7


def test_a_report_ends() -> None:
    kinds, _ = read(C10dReader(), [bare(HEAD), bare(REPORT[0]), *[bare("loss 0.1")] * 100, bare("\t     [7] finished ALLREDUCE")])
    assert kinds[-1] is None


def test_reports_of_two_labelled_processes_do_not_mix() -> None:
    lines = [
        bare(HEAD.removeprefix("[rank0]:"), 1, rank=0), bare(HEAD.removeprefix("[rank0]:"), 2, rank=1),
        bare("\t   #182 finished ranks:", 3, rank=0), bare(REPORT[0], 4, rank=0), bare(REPORT[5], 5, rank=0), bare(REPORT[0], 6, rank=1),
        bare("\t   #99 finished ranks:", 7, rank=1), bare("\t     [7] finished ALLREDUCE", 8, rank=0), bare("\t     [7] finished ALLREDUCE", 9, rank=1),
    ]  # fmt: skip
    _, rows = read(C10dReader(), lines)
    assert {r["line"]: r["last_completed"] for r in rows.of("comm_progress") if r.get("last_completed")} == {8: 182, 9: 99}
