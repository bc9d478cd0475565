"""Operations: what each line states, what was chosen for it, and that columns and single lines give the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.nccl_log import operation, parse_text

PREFIX = "h:1:2 [0] NCCL INFO "
RANK_0 = f"{PREFIX}comm 0x55aa0001 rank 0 nranks 4 cudaDev 0 busId f000 - Init COMPLETE\n"
RANK_1 = RANK_0.replace("rank 0", "rank 1")


def _one(line: str, folder: Path, before: str = "") -> dict[str, Any]:
    (row,) = parse_text(f"{before}{PREFIX}{line}\n", folder).rows("logged_collectives")
    return row


@pytest.mark.parametrize(
    ("name", "known", "sent", "received"),
    [
        ("AllReduce", "all_reduce", 20, 20),
        ("AllGather", "all_gather", 20, 80),
        ("ReduceScatter", "reduce_scatter", 80, 20),
        ("Send", "send", 20, 0),
        ("Recv", "recv", 0, 20),
        ("AlltoAll", "all_to_all", 80, 80),
        ("AllToAllPivot", "all_to_all", 80, 80),
        ("mscclpp_ncclAllReduce", "all_reduce", 20, 20),
        ("PutSignal", "unknown", None, None),
        ("WaitSignal", "unknown", None, None),
    ],
)
def test_bytes_follow_from_count_type_and_ranks(name: str, known: str, sent: int | None, received: int | None, tmp_path: Path) -> None:
    row = _one(operation(name, count=10, datatype=9), tmp_path, RANK_0)
    assert (row["operation"], row["dtype"], row["count"], row["size"]) == (known, "bfloat16", 10, 4)
    assert (row["in_bytes"], row["out_bytes"]) == (sent, received)


@pytest.mark.parametrize(
    ("name", "at_root", "elsewhere"),
    [("Broadcast", (20, 20), (0, 20)), ("Reduce", (20, 20), (20, 0)), ("Scatter", (80, 20), (0, 20)), ("Gather", (20, 80), (20, 0))],
)
def test_the_root_gives_or_takes_more(name: str, at_root: tuple[int, int], elsewhere: tuple[int, int], tmp_path: Path) -> None:
    line = operation(name, count=5, datatype=7, root=1)
    root, other, unknown = (_one(line, tmp_path, before) for before in (RANK_1, RANK_0, ""))
    assert (root["in_bytes"], root["out_bytes"], root["root"], root["peer"]) == (*at_root, 1, None)
    assert (other["in_bytes"], other["out_bytes"]) == elsewhere
    assert None in (unknown["in_bytes"], unknown["out_bytes"])


@pytest.mark.parametrize(
    ("number", "name", "size"),
    [
        (0, "int8", 1),
        (1, "uint8", 1),
        (2, "int32", 4),
        (5, "uint64", 8),
        (6, "float16", 2),
        (8, "float64", 8),
        (9, "bfloat16", 2),
        (10, "float8_e4m3fn", 1),
        (11, "float8_e5m2", 1),
    ],
)
def test_element_types(number: int, name: str, size: int, tmp_path: Path) -> None:
    row = _one(operation(count=3, datatype=number), tmp_path)
    assert (row["dtype"], row["in_bytes"]) == (name, 3 * size)


def test_an_unknown_element_type_gives_no_bytes(tmp_path: Path) -> None:
    found = parse_text(f"{PREFIX}{operation(datatype=77)}\n", tmp_path)
    (row,) = found.rows("logged_collectives")
    assert (row["dtype"], row["in_bytes"], row["count"]) == (None, None, 1000)
    assert "unknown-element-type" in found.codes


@pytest.mark.parametrize(("number", "name"), [(0, "sum"), (1, "prod"), (2, "max"), (3, "min"), (4, "avg"), (5, "user"), (31, "user")])
def test_reductions(number: int, name: str, tmp_path: Path) -> None:
    assert _one(operation(op=number), tmp_path)["reduction"] == name
    assert _one(operation("AllGather", op=number), tmp_path)["reduction"] is None


def test_the_peer_of_point_to_point_is_printed_as_root(tmp_path: Path) -> None:
    row = _one(operation("Send", root=3), tmp_path)
    assert (row["peer"], row["root"]) == (3, None)


def test_op_count_is_hexadecimal_and_no_key(tmp_path: Path) -> None:
    text = "".join(f"{PREFIX}{operation(n=n)}\n" for n in (0x139D, 0, 0))
    rows = parse_text(text, tmp_path).rows("logged_collectives")
    assert [(r["op_count"], r["seq"]) for r in rows] == [(0x139D, 0), (0, 1), (0, 2)]


def test_rccl_prints_the_rank_of_the_job(tmp_path: Path) -> None:
    for in_columns in (True, False):
        found = parse_text(f"{PREFIX}{operation()} task 2 globalrank 13\n{PREFIX}{operation()}\n", tmp_path, in_columns=in_columns)
        assert [r["stream"] for r in found.rows("logged_collectives")] == ["0x55bb0010"] * 2
        (part,) = found.info.parts
        assert (part.rank, part.backend) == (13, "rccl")


def test_masked_addresses_are_no_communicator(tmp_path: Path) -> None:
    text = "AllReduce: opCount 0 sendbuff 0x... recvbuff (nil) count 2 datatype 7 op 0 root 0 comm 0x... [nranks=2] stream 0x..."
    row = _one(text, tmp_path)
    assert (row["comm"], row["stream"], row["size"], row["in_bytes"], row["seq"]) == (None, None, 2, 8, 0)


def test_calls(tmp_path: Path) -> None:
    lines = ["ncclGroupStart()", "ncclAllReduce(7f00,0x7f80,12,6,0,0,0x55aa0001,0x99)", "ncclSend(0,7f80,8388608,7,0,2,0x55aa0001,0x99)", "ncclGroupEnd()"]
    text = "".join(f"h:1:2 NCCL CALL {line}\n" for line in lines)
    found = parse_text(RANK_0 + text + f"{PREFIX}{operation()}\n", tmp_path)
    rows = found.rows("logged_collectives")
    assert [(r["origin"], r["operation"], r["comm"], r["seq"], r["peer"], r["in_bytes"]) for r in rows] == [
        ("call-line", "all_reduce", 0, 0, None, 24),
        ("call-line", "send", 0, 1, 2, 4 * 8388608),
        ("coll-line", "all_reduce", 0, 0, None, 4000),
    ]
    assert [e["text"] for e in found.rows("log_events") if e["level"] == "CALL"] == ["ncclGroupStart()", "ncclGroupEnd()"]


@pytest.mark.parametrize(
    ("name", "choice", "expected"),
    [
        ("AllReduce", "4000 Bytes -> Algo 1 proto 2 time 12.5", ("RING", "SIMPLE", None, None)),
        ("AllGather", "16000 Bytes -> Algo 1 proto 0 time 12.5", ("RING", "LL", None, None)),
        ("AllGather", "AllGather: 16000 Bytes -> Algo 6 proto 2 time 12.5", ("PAT", "SIMPLE", None, None)),
        ("AllGather", "AllGather: 4000 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}", ("NVLS", "SIMPLE", 0, 15)),
        ("ReduceScatter", "ReduceScatter: 4000 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={2..3}", ("RING", "LL128", 2, 3)),
        ("AllReduce", "AllReduce [Symmetric]: 4000 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512 nWorks 1", ("SYMMETRIC", "LL", 0, 7)),
        ("AllGather", "AllGather [Copy Engine]: 4000 Bytes -> cudaMemcpyBatchAsync", ("COPY_ENGINE", None, None, None)),
        ("AllReduce", "AllReduce: 4001 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={2..3}", (None, None, None, None)),
        ("AllGather", "AllReduce: 4000 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={2..3}", (None, None, None, None)),
    ],
)
def test_choices(name: str, choice: str, expected: tuple[Any, ...], tmp_path: Path) -> None:
    for in_columns in (True, False):
        found = parse_text(f"{RANK_0}{PREFIX}{operation(name)}\n{PREFIX}{choice}\n", tmp_path, in_columns=in_columns)
        (row,) = found.rows("logged_collectives")
        assert tuple(row[k] for k in ("algorithm", "protocol", "channel_first", "channel_last")) == expected
        assert [e["kind"] for e in found.rows("log_events")] == ["init", "choice"]


def test_a_choice_belongs_to_the_first_that_waits_on_its_thread_and_never_to_another_rank(tmp_path: Path) -> None:
    other = f"{PREFIX}comm 0x55aa0002 rank 1 nranks 4 cudaDev 0 busId f000 - Init COMPLETE\n"
    choice = "AllReduce: 4000 Bytes -> Algo {} proto LL channel{{Lo..Hi}}={{0..1}}"
    text = RANK_0 + other + f"{PREFIX}{operation(comm='0x55aa0002')}\n" + f"h:1:9 [0] NCCL INFO {operation(n=1)}\n"
    text += f"{PREFIX}{operation(n=2)}\n{PREFIX}{operation(n=3)}\n{PREFIX}{choice.format('TREE')}\n{PREFIX}{choice.format('RING')}\n{PREFIX}{operation(n=4)}\n"
    rows = parse_text(text, tmp_path).rows("logged_collectives")
    assert [r["algorithm"] for r in rows] == [None, None, "TREE", "RING", None]


def test_choices_reach_back_into_the_block_before(tmp_path: Path) -> None:
    lines = [RANK_0]
    for n in range(400):
        lines.append(f"{PREFIX}{operation(n=n)}\n")
        lines.append(f"{PREFIX}AllReduce: 4000 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..1}}\n")
    found = parse_text("".join(lines), tmp_path, block_bytes=1500)
    rows = found.rows("logged_collectives")
    assert len(rows) == 400
    assert {r["algorithm"] for r in rows} == {"RING"}
    assert [r["seq"] for r in rows] == list(range(400))
