"""Rings, trees and connections of every version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.nccl_log import parse_text

PREFIX = "h:1:2 [0] NCCL INFO "


def _edges(line: str, folder: Path) -> list[dict[str, Any]]:
    return parse_text(f"{PREFIX}{line}\n", folder).rows("channel_edges")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Channel 00 : 7[cb000] -> 8[7000] [send] via NET/IB/3", (0, None, 7, 8, "cb000", "7000", "send", "NET/IB", 3, False, None)),
        ("Channel 01 : 25[b000] -> 26[48000] via P2P/IPC/read", (1, None, 25, 26, "b000", "48000", None, "P2P/IPC", None, None, None)),
        (
            "Channel 01 : 5[901d0] -> 4[901c0] [receive] via NET/AWS Libfabric/0/GDRDMA",
            (1, None, 5, 4, "901d0", "901c0", "receive", "NET/AWS Libfabric", 0, True, None),
        ),
        ("Channel 02 : 1[1000] -> 0[2000] via P2P/direct pointer", (2, None, 1, 0, "1000", "2000", None, "P2P/direct pointer", None, None, None)),
        ("Channel 02 : 1[1000] -> 0[2000] via P2P/indirect/3[4000]", (2, None, 1, 0, "1000", "2000", None, "P2P/indirect", None, None, None)),
        ("Channel 02 : 1[1000] -> 0[2000] via direct shared memory", (2, None, 1, 0, "1000", "2000", None, "SHM", None, None, None)),
        ("Channel 02 : 1[1] -> 0[0] via SHM/direct/direct", (2, None, 1, 0, "1", "0", None, "SHM", None, None, None)),
        ("Channel 05/1 : 1[1] -> 0[0] via P2P/CUMEM/read", (5, 1, 1, 0, "1", "0", None, "P2P/CUMEM", None, None, None)),
        ("Channel 05/0 : 1[1] -> 0[0] via P2P/CUMEM/CE", (5, 0, 1, 0, "1", "0", None, "P2P/CUMEM", None, None, None)),
        ("Channel 05/0 : 1[1] -> 0[0] via P2P/MNNVL", (5, 0, 1, 0, "1", "0", None, "P2P/MNNVL", None, None, None)),
        ("Channel 05/0 : 1[1] -> 9[1] [send] via NET/IB/2(6)/GDRDMA/Shared", (5, 0, 1, 9, "1", "1", "send", "NET/IB", 2, True, 6)),
        ("Channel 05/0 : 1[1] -> 9[1] [send] via NET/IBext_v8/2(6)/GDRDMA(PCI)/Shared", (5, 0, 1, 9, "1", "1", "send", "NET/IBext_v8", 2, True, 6)),
        ("Channel 05/0 : 1[1] -> 9[1] [receive] via NET/Socket/0/Shared", (5, 0, 1, 9, "1", "1", "receive", "NET/Socket", 0, False, None)),
        (
            "Channel 05/0 : 1[c1000] -> 9[c1000] [send] via NET/IB/0/GDRDMA comm 0x7f nRanks 16 busId c1000",
            (5, 0, 1, 9, "c1000", "c1000", "send", "NET/IB", 0, True, None),
        ),
        ("Ring 00 : 3[0] -> 0[1] via P2P/IPC", (0, None, 3, 0, "0", "1", None, "P2P/IPC", None, None, None)),
        ("Ring 00 : 3 -> 0 [receive] via NET/IB/0", (0, None, 3, 0, None, None, "receive", "NET/IB", 0, False, None)),
    ],
)
def test_connections(line: str, expected: tuple[Any, ...], tmp_path: Path) -> None:
    (edge,) = _edges(line, tmp_path)
    names = ("channel", "connection", "src_rank", "dst_rank", "src_device", "dst_device", "direction", "transport", "net_device", "gdr", "proxy_rank")
    assert edge["kind"] == "connection"
    assert tuple(edge[n] for n in names) == expected


@pytest.mark.parametrize(
    ("line", "kind", "expected"),
    [
        ("Ring 03 : 7 -> 0 -> 4", "ring", {(3, 7, 0), (3, 0, 4)}),
        ("Ring 03 : 7 -> 0 -> 4 comm 0x7f nRanks 08 busId c1000", "ring", {(3, 7, 0), (3, 0, 4)}),
        ("Trees [0] 1/16/-1->0->-1 [1] 1/-1/-1->0->7", "tree", {(0, 1, 0), (0, 16, 0), (1, 1, 0), (1, 0, 7)}),
        ("Trees [0] 1/16/-1->0->-1 [1] 1/-1/-1->0->7 comm 0x7f nRanks 08 busId c1000", "tree", {(0, 1, 0), (0, 16, 0), (1, 1, 0), (1, 0, 7)}),
        ("Trees [0] 2->3->4/-1/-1 [1] -1->3->1/2/-1", "tree", {(0, 4, 3), (0, 3, 2), (1, 1, 3), (1, 2, 3)}),
        ("Trees [0] 15/-1/-1->14->13|13->14->15/-1/-1", "tree", {(0, 15, 14), (0, 14, 13)}),
        ("Tree 1 : 5 -> 4 -> 6/7/-1", "tree", {(1, 6, 4), (1, 7, 4), (1, 4, 5)}),
        ("Tree 1 : -1 -> 4 -> 6/-1/-1 comm 0x7f nRanks 08 busId c1000", "tree", {(1, 6, 4)}),
        ("NVLS Trees : 8/-1->0->-1 -1/-1->0->8", "nvls_tree", {(0, 8, 0), (1, 0, 8)}),
        ("NVLS Trees : 8/16/-1->0->-1", "nvls_tree", {(0, 8, 0), (0, 16, 0)}),
    ],
)
def test_rings_and_trees(line: str, kind: str, expected: set[tuple[int, int, int]], tmp_path: Path) -> None:
    edges = _edges(line, tmp_path)
    assert {e["kind"] for e in edges} == {kind}
    assert {(e["channel"], e["src_rank"], e["dst_rank"]) for e in edges} == expected
    assert len(edges) == len(expected)


@pytest.mark.parametrize(
    ("line", "connection"),
    [
        ("Coll 02 : 3 [send] via COLLNET/SHARP/1", None),
        ("CollNet 02 : 3 [send] via COLLNET/SHARP/1", None),
        ("CollNet 02/1 : 3 [send] via COLLNET/SHARP/1/GDRDMA", 1),
    ],
)
def test_in_network_reduction(line: str, connection: int | None, tmp_path: Path) -> None:
    (edge,) = _edges(line, tmp_path)
    assert (edge["kind"], edge["channel"], edge["src_rank"], edge["direction"], edge["transport"], edge["net_device"], edge["connection"]) == (
        "collnet",
        2,
        3,
        "send",
        "COLLNET/SHARP",
        1,
        connection,
    )


@pytest.mark.parametrize(
    ("line", "size", "order", "cut"),
    [
        ("Channel 00/02 :    0   1   2   3", 4, [0, 1, 2, 3], False),
        ("Channel 00 :    0   3   2   1", 4, [0, 3, 2, 1], False),
        (f"Channel 00/02 : {' '.join(map(str, range(20)))}", 32, list(range(20)), True),
        (f"Channel 00/02 : {' '.join(map(str, range(20)))}", 20, list(range(20)), False),
        ("Channel 00/02 :    0   1  ...", 64, [0, 1], True),
        ("Channel 00/02 :    0   1   2   3 comm 0x7f nRanks 04 busId c1000", 4, [0, 1, 2, 3], False),
    ],
)
def test_lists_of_a_ring(line: str, size: int, order: list[int], cut: bool, tmp_path: Path) -> None:
    text = f"{PREFIX}{line}\n{PREFIX}comm 0x1 rank 0 nranks {size} cudaDev 0 busId f000 - Init COMPLETE\n"
    (ring,) = parse_text(text, tmp_path).rows("ring_orders")
    assert (ring["comm"], ring["channel"], ring["order"], ring["cut"]) == (0, 0, order, cut)


def test_connections_made_at_run_time_belong_to_what_their_thread_did_last(tmp_path: Path) -> None:
    start = "".join(
        f"{PREFIX}ncclCommInitRank comm 0x{n} rank {n} nranks 4 cudaDev 0 nvmlDev 0 busId f000 commId 0xab - Init {what}\n"
        for n in (1, 2)
        for what in ("START", "COMPLETE")
    )
    call = "AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 8 datatype 7 op 0 root 0 comm 0x1 [nranks=4] stream 0x1"
    edge = "Channel 00/0 : 1[0] -> 2[0] via P2P/CUMEM"
    for in_columns in (True, False):
        text = f"{start}{PREFIX}{edge}\n{PREFIX}{call}\n{PREFIX}{edge}\nh:1:77 [0] NCCL INFO {edge}\n"
        found = parse_text(text, tmp_path, in_columns=in_columns)
        assert [e["comm"] for e in found.rows("channel_edges")] == [1, 0, None]
