"""Bytes that a network proxy counted take the place of what is computed between hosts."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tests.builders import comm_frames as make
from tracelab.tables import NET_TRANSFERS
from tracelab.traffic.edges import build_edges, communicators_of
from tracelab.traffic.transfers import counted_transfers
from tracelab.traffic.volumes import traffic_volumes

HOSTS = {0: "a", 1: "a", 2: "b", 3: "b"}
OPERATION = {"operation": "all_reduce", "bytes": 4000, "step": 1}


def transfer(speaker: int, peer: int | None, size: int, direction: str = "send", **more: object) -> dict[str, object]:
    base = {"source_id": speaker, "rank": speaker, "part": 0, "line": 1, "comm": 0, "channel": 0, "peer": peer, "direction": direction, "bytes": size}
    return base | {"operation": "all_reduce", "seq": 0} | more


def traffic(transfers: Sequence[dict[str, object]], hosts: dict[int, str] = HOSTS) -> list[tuple[object, ...]]:
    comms = communicators_of(make.job_comms(make.job_comm([0, 1, 2, 3])), make.groups([0, 1, 2, 3]), hosts)
    edges = build_edges(make.tables(orders=[make.order([0, 1, 2, 3])]), make.comm_map(range(4)), comms)
    counted = counted_transfers(make.frame(NET_TRANSFERS, transfers).lazy(), make.comm_map(range(4)), comms)
    out = traffic_volumes(make.operations(OPERATION), edges, comms, hosts, counted).traffic
    return out.select("src_rank", "dst_rank", "bytes", "operations", pl.col("rung", "algorithm").cast(pl.String)).rows()


COMPUTED = [(r, (r + 1) % 4, 6000, 1, "order", "RING") for r in range(4)]


def test_counted_pairs_between_hosts_replace_computed_ones() -> None:
    rows = [transfer(1, 2, 6100), transfer(1, 2, 50, seq=1), transfer(3, 0, 6200), transfer(2, 1, 6150, "receive")]
    assert traffic(rows) == [COMPUTED[0], (1, 2, 6150, 2, "transfers", "PROXY"), COMPUTED[2], (3, 0, 6200, 1, "transfers", "PROXY")]


def test_a_rank_that_does_not_count_is_told_by_its_receiver() -> None:
    assert traffic([transfer(2, 1, 77, "receive")]) == [COMPUTED[0], (1, 2, 77, 1, "transfers", "PROXY"), COMPUTED[2], COMPUTED[3]]


def test_pairs_that_a_counting_rank_never_used_are_no_traffic() -> None:
    # The bytes of rank 1 went to rank 3; that a ring was assumed to lead to rank 2 is refuted.
    assert traffic([transfer(1, 3, 500)]) == [COMPUTED[0], (1, 3, 500, 1, "transfers", "PROXY"), COMPUTED[2], COMPUTED[3]]


def test_inside_a_host_nothing_is_replaced() -> None:
    assert traffic([transfer(0, 1, 5)]) == [COMPUTED[0], COMPUTED[1], COMPUTED[2]]


def test_without_hosts_all_stays_as_computed() -> None:
    assert traffic([transfer(1, 2, 5)], {}) == COMPUTED


def test_transfers_of_unknown_communicators_or_peers_change_nothing() -> None:
    assert traffic([transfer(1, 2, 5, comm=9), transfer(1, 40, 5), transfer(1, 2, 5, comm=None), transfer(1, None, 5)]) == COMPUTED
