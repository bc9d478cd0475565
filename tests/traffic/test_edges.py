"""EDGES from tables of logs: rungs, trees, transports and interfaces, unknown ranks, groups without a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from tests.builders import comm_frames as make
from tracelab.traffic.edges import Edges, build_edges, communicators_of
from tracelab.traffic.trees import tree_of, which_tree
from tracelab.traffic.volumes import traffic_volumes

Row = Mapping[str, object]
FIRST_HOST = ([0, 7, 6, 5, 4, 3, 2, 1], [0, 3, 10, 15, 14, 13, 12, 9], [0, 7, 6, 5, 12, 11, 10, 9], [0, 5, 4, 7, 14, 11, 10, 9])
"""Channels 0 to 3 of a real job of 4 × 8 GPUs; 4 to 7 repeat them, and every host the one before, 8 ranks higher."""


def edges_of(
    links: Sequence[Row] = (),
    orders: Sequence[Row] = (),
    devices: Sequence[Row] = (),
    *,
    speakers: Sequence[int] = (0,),
    hosts: Mapping[int, str] | None = None,
    ranks: Sequence[int | None] = (0, 1, 2, 3),
    channels: int = 1,
) -> Edges:
    comms = communicators_of(make.job_comms(make.job_comm(ranks, channels=channels)), make.groups(), hosts or {})
    return build_edges(make.tables(links, orders, devices), make.comm_map(speakers), comms)


def device(index: int, name: str, *, speaker: int = 0, plugin: str = "IB") -> Row:
    return {"source_id": speaker, "rank": speaker, "part": 0, "line": 1, "plugin": plugin, "device": index, "name": name}


def rungs(edges: Edges, channel: int, kind: str = "ring") -> Counter[str]:
    rows = edges.frame.filter((pl.col("channel") == channel) & (pl.col("kind").cast(pl.String) == kind))
    return Counter(rows["rung"].cast(pl.String).to_list())


def ring(edges: Edges, channel: int = 0) -> list[int]:
    rows = edges.frame.filter((pl.col("channel") == channel) & (pl.col("kind").cast(pl.String) == "ring")).sort("position")
    assert rows["position"].to_list() == list(range(rows.height))
    assert rows["dst_rank"].to_list() == [*rows["src_rank"].to_list()[1:], rows["src_rank"][0]]
    return rows["src_rank"].to_list()


def find(edges: Edges, src: int, dst: int, channel: int = 0, kind: str = "ring") -> dict[str, object]:
    rows = edges.frame.filter((pl.col("src_rank") == src) & (pl.col("dst_rank") == dst) & (pl.col("channel") == channel)).with_columns(
        pl.col("kind", "transport", "rung").cast(pl.String)
    )
    (row,) = rows.filter(pl.col("kind") == kind).iter_rows(named=True)
    return row


def codes(edges: Edges) -> set[str]:
    return {n.code for n in edges.notices}


@pytest.fixture(scope="module")
def one_speaks() -> Edges:
    """Rank 0 of 32 speaks, its lists are cut after 20 ranks."""
    orders = [make.order([(p + k) % 32 for k in range(0, 32, 8) for p in FIRST_HOST[c % 4]][:20], channel=c) for c in range(8)]
    net: dict[str, Any] = {"transport": "NET/IB", "net_device": 0, "gdr": True}
    links = [make.link(25, 0, channel=c, direction="receive", **net) for c in (0, 4)]
    links += [make.link(0, 16, channel=0, direction="send", **net), make.link(16, 0, channel=0, direction="receive", **net)]
    links += [make.link(0, 8, channel=4, direction="send", **net), make.link(8, 0, channel=4, direction="receive", **net)]
    links += [make.link(0, r, channel=c, transport="P2P/IPC") for c, r in enumerate([7, 3, 7, 5] * 2)]
    links += [make.link(0, 1, channel=c, transport="P2P/IPC") for c in range(8)]
    links += [make.link(1, 0, kind="tree", channel=c) for c in range(8)] + [make.link(16, 0, kind="tree", channel=0)]
    links += [make.link(0, 8 if c == 4 else 7, kind="tree", channel=c) for c in range(1, 8)]
    devices = [device(i, n) for i, n in enumerate(["mlx5_2", "mlx5_3", "mlx5_8", "mlx5_9"])]
    return edges_of(links, orders, devices, ranks=list(range(32)), channels=8, hosts=dict.fromkeys(range(8), "gpu-31"))


def test_19_edges_a_channel_are_stated_and_the_rest_completed(one_speaks: Edges) -> None:
    for channel in range(8):
        assert rungs(one_speaks, channel) == ({"stated": 20, "completed": 12} if channel in (0, 4) else {"stated": 19, "completed": 13})
        assert ring(one_speaks, channel) == [(p + k) % 32 for k in range(0, 32, 8) for p in FIRST_HOST[channel % 4]]


def test_the_closing_edge_is_stated_by_its_receiver_whose_interface_is_not_the_senders(one_speaks: Edges) -> None:
    row = find(one_speaks, 25, 0, channel=4)
    assert (row["rung"], row["transport"], row["gdr"], row["nic"], row["net_device"]) == ("stated", "NET/IB", True, None, None)


def test_a_device_number_is_the_interface_that_the_process_lists(one_speaks: Edges) -> None:
    row = find(one_speaks, 0, 8, channel=4, kind="tree")
    assert (row["transport"], row["net_device"], row["nic"], row["gdr"], row["position"]) == ("NET/IB", 0, "mlx5_2", True, 1)


def test_an_all_reduce_over_completed_rings_puts_the_same_on_every_edge(one_speaks: Edges) -> None:
    size = 32 * 8 * 1000
    comms = communicators_of(make.job_comms(make.job_comm(list(range(32)), channels=8)), make.groups(), {})
    volumes = traffic_volumes(make.operations({"operation": "all_reduce", "bytes": size}), one_speaks, comms, {})
    expected: Counter[tuple[int, int]] = Counter()
    for channel in range(8):
        order = ring(one_speaks, channel)
        for i in range(32):
            expected[order[i - 1], order[i]] += 2 * 31 * size // 32 // 8
    assert {(a, b): n for a, b, n in volumes.traffic.group_by("src_rank", "dst_rank").agg(pl.col("bytes").sum()).iter_rows()} == expected
    assert volumes.traffic["bytes"].sum() == 2 * 31 * size


def test_where_only_one_rank_speaks_trees_stay_incomplete_and_bytes_take_the_rings(one_speaks: Edges) -> None:
    (notice,) = [n for n in one_speaks.notices if n.code == "incomplete-tree"]
    assert notice.count == 8
    # 8 × 31 links; rank 0 names its child 1 on all channels, 16 on channel 0, its parent on 1 to 7.
    assert "(232 links" in notice.text
    comms = communicators_of(make.job_comms(make.job_comm(list(range(32)), channels=8)), make.groups(), {})
    volumes = traffic_volumes(make.operations({"operation": "all_reduce", "bytes": 10**9 + 7, "algorithm": "TREE"}), one_speaks, comms, {})
    assert volumes.traffic["bytes"].sum() == 62 * (10**9 + 7)
    assert volumes.traffic.select(pl.col("algorithm", "rung").cast(pl.String)).unique().rows() == [("RING", "assumed")]
    assert [n.code for n in volumes.notices] == ["algorithm-without-links"]


def test_ring_lines_of_all_ranks_are_stated() -> None:
    told = [0, 2, 3, 1]
    links = [make.link(told[i], told[(i + 1) % 4], kind="ring", speaker=told[i]) for i in range(4)]
    edges = edges_of(links, speakers=range(4))
    assert ring(edges) == told
    assert rungs(edges, 0) == {"stated": 4}
    assert not edges.notices


def test_two_ring_lines_close_nothing_by_themselves() -> None:
    edges = edges_of([make.link(0, 2, kind="ring"), make.link(2, 3, kind="ring")])
    assert rungs(edges, 0) == {"assumed": 4}
    assert {"assumed-ring", "dropped-connections"} <= codes(edges)


def test_a_ring_of_a_communicator_starts_at_its_own_first_rank() -> None:
    edges = edges_of(orders=[make.order([1, 0, 2])], ranks=[30, 10, 20])
    assert ring(edges) == [30, 20, 10]


def test_ranks_behind_one_channel_of_nvlink_and_network_keep_their_own_transport() -> None:
    links = [
        make.link(0, 1, transport="P2P/CUMEM"),
        make.link(1, 2, speaker=1, direction="send", transport="NET/IB", net_device=1, gdr=False, proxy_rank=0),
        make.link(1, 2, speaker=2, direction="receive", transport="NET/IB", net_device=0, gdr=True),
    ]
    edges = edges_of(
        links, [make.order([0, 1, 2, 3])], [device(1, "mlx5_1", speaker=1), device(0, "mlx5_0", speaker=2)], ranks=[10, 11, 12, 13], speakers=range(3)
    )
    row = find(edges, 11, 12)
    assert (row["nic"], row["net_device"], row["gdr"], row["proxy_rank"], row["rung"]) == ("mlx5_1", 1, False, 10, "stated")
    assert (find(edges, 10, 11)["transport"], find(edges, 12, 13)["transport"], find(edges, 12, 13)["rung"]) == ("P2P/CUMEM", None, "order")


def test_a_plugin_that_prints_its_devices_under_another_name_is_found_by_index() -> None:
    links = [make.link(0, 1, direction="send", transport="NET/AWS Libfabric", net_device=2, gdr=True)]
    rows = [device(2, "rdmap0s6", plugin="OFI"), device(2, "eth0", plugin="bootstrap")]
    assert find(edges_of(links, [make.order([0, 1, 2, 3])], rows), 0, 1)["nic"] == "rdmap0s6"


def test_the_index_alone_is_not_enough_where_two_plugins_list_devices() -> None:
    links = [make.link(0, 1, direction="send", transport="NET/Other", net_device=0)]
    assert find(edges_of(links, [make.order([0, 1, 2, 3])], [device(0, "mlx5_0"), device(0, "eth0", plugin="Socket")]), 0, 1)["nic"] is None


def test_point_to_point_connections_are_edges_of_their_own_and_no_ring_evidence() -> None:
    links = [make.link(0, 3, connection=1, direction="send", transport="NET/IB", net_device=0)]
    edges = edges_of(links, [make.order([0, 1, 2, 3])], [device(0, "mlx5_0")])
    assert find(edges, 0, 3, kind="p2p")["nic"] == "mlx5_0"
    assert rungs(edges, 0) == {"order": 4}


def test_messages_take_the_point_to_point_path_collectives_the_other() -> None:
    links = [
        make.link(0, 1, direction="send", transport="NET/IB", net_device=0),
        make.link(0, 1, connection=1, direction="send", transport="NET/IB", net_device=1),
    ]
    edges = edges_of(links, [make.order([0, 1])], [device(0, "mlx5_0"), device(1, "mlx5_1")], ranks=[0, 1])
    comms = communicators_of(make.job_comms(make.job_comm([0, 1])), make.groups(), {})
    rows = [{"operation": "broadcast", "bytes": 10, "root": 0}, {"operation": "send_recv", "bytes": 7, "src_rank": 0, "dst_rank": 1}]
    traffic = traffic_volumes(make.operations(*rows), edges, comms, {}).traffic
    assert sorted(traffic.select("nic", "bytes").rows()) == [("mlx5_0", 10), ("mlx5_1", 7)]


def test_a_tree_carries_bytes_down_over_the_parents_own_interface() -> None:
    links = [make.link(1, 0, kind="tree")]
    links += [
        make.link(0, 1, direction="send", transport="NET/IB", net_device=0),
        make.link(1, 0, speaker=1, direction="send", transport="NET/IB", net_device=1),
    ]
    devices = [device(0, "mlx5_0"), device(1, "mlx5_9", speaker=1)]
    edges = edges_of(links, devices=devices, ranks=[0, 1], speakers=range(2))
    comms = communicators_of(make.job_comms(make.job_comm([0, 1])), make.groups(), {})
    traffic = traffic_volumes(make.operations({"operation": "all_reduce", "bytes": 6, "algorithm": "TREE"}), edges, comms, {}).traffic
    assert traffic.select("src_rank", "dst_rank", "nic", "bytes").rows() == [(0, 1, "mlx5_0", 6), (1, 0, "mlx5_9", 6)]


def test_edges_of_unknown_ranks_and_communicators_are_counted() -> None:
    links = [make.link(0, 1), make.link(0, 1, comm=7), make.link(0, 9), make.link(0, 1, channel=100_000)]
    edges = edges_of(links, [make.order([0, 1, 2, 3])], ranks=[5, None, 7, 8])
    assert sorted(zip(edges.frame["src_rank"].to_list(), edges.frame["dst_rank"].to_list(), strict=True)) == [(7, 8), (8, 5)]
    assert {n.code: n.count for n in edges.notices} == {"edges-of-unknown-ranks": 2, "edges-without-communicator": 1, "impossible-edges": 2}


def test_a_group_that_a_communicator_serves_gets_no_second_ring() -> None:
    comms = communicators_of(make.job_comms(make.job_comm([0, 1], group_id=0)), make.groups([0, 1], [2, 3], [4]), {})
    edges = build_edges(make.tables(orders=[make.order([0, 1])]), make.comm_map(), comms)
    assert edges.frame.select("comm_key", "group_id", "src_rank", pl.col("rung").cast(pl.String)).rows() == [
        (0, 0, 0, "order"), (0, 0, 1, "order"), (None, 1, 2, "assumed"), (None, 1, 3, "assumed"),
    ]  # fmt: skip


def test_no_tables_at_all_give_an_empty_table() -> None:
    edges = build_edges({}, make.comm_map((), ()), [])
    assert edges.frame.height == 0
    assert not edges.notices


def test_a_tree_is_whole_only_with_one_parent_for_all_but_one() -> None:
    assert tree_of([(1, 0), (2, 0), (3, 1)], 4).whole
    assert tree_of([(1, 0), (2, 0)], 4).missing == 1
    assert tree_of([(1, 0), (1, 2), (2, 0), (3, 0)], 4).contradiction
    assert tree_of([(0, 1), (1, 2), (2, 0)], 4).contradiction
    assert tree_of([(0, 1), (1, 0)], 2).contradiction


def test_the_second_tree_is_on_the_upper_half_of_the_channels() -> None:
    assert [which_tree(c, 4) for c in range(4)] == [0, 0, 1, 1]
    assert which_tree(0, 1) == 0
