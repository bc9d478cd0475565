"""Links and transfers, by hand."""

from __future__ import annotations

import pytest

from tracelab.simulate.model import Cluster
from tracelab.simulate.network import Network, Transfer, edges_of, path_of, rings_of

S = 1_000_000_000
C = Cluster(hosts=4, gpus=2, nics=2, nic_gbps=8.0, hosts_per_leaf=2, uplinks=2)  # 1 GB/s per adapter


def test_paths() -> None:
    assert path_of(C, 0, 1, 0, 0) == ("nvlink:0:tx", "nvlink:1:rx")
    assert path_of(C, 0, 2, 1, 0) == ("nic:0:1:tx", "nic:1:1:rx")
    assert path_of(C, 0, 7, 1, 1) == ("nic:0:1:tx", "uplink:0:1:tx", "uplink:1:1:rx", "nic:3:1:rx")


def test_each_ring_enters_hosts_at_the_gpu_near_its_adapter() -> None:
    assert rings_of(C, range(4)) == [(0, [0, 1, 2, 3]), (1, [1, 0, 3, 2])]


@pytest.mark.parametrize(("operation", "factor"), [("all_reduce", 2 * 7 / 8), ("all_gather", 7 / 8), ("reduce_scatter", 7 / 8)])
def test_a_ring_sends_the_same_over_every_edge(operation: str, factor: float) -> None:
    edges = edges_of(C, operation, range(8), 1_000_000)
    sent = [sum(size for a, _, _, size in edges if a == r) for r in range(8)]
    assert sent == pytest.approx([1_000_000 * factor] * 8)


def test_all_to_all_sends_a_part_to_each() -> None:
    edges = edges_of(C, "all_to_all", range(8), 800)
    assert len(edges) == 56
    assert {size for *_, size in edges} == {100.0}


def _network(*transfers: Transfer, **changes: tuple[list[int], list[float]]) -> Network:
    out = Network(C, {name.replace("_", ":"): at for name, at in changes.items()})
    out.active += transfers
    out.share()
    return out


def test_two_on_one_link_get_half_each() -> None:
    one, other = Transfer({"nic:0:0:tx": 1e9}), Transfer({"nic:0:0:tx": 5e8})
    _network(one, other)
    assert (one.rate, other.rate) == (0.5, 1.0)


def test_what_one_cannot_use_the_other_gets() -> None:
    """Two share nic 0; the second also shares nic 1 with two more and gets a third there; the first takes the other two thirds of nic 0."""
    a = Transfer({"nic:0:0:tx": 1e9})
    b = Transfer({"nic:0:0:tx": 1e9, "nic:1:0:rx": 1e9})
    c, d = Transfer({"nic:1:0:rx": 1e9}), Transfer({"nic:1:0:rx": 1e9})
    _network(a, b, c, d)
    assert [t.rate for t in (a, b, c, d)] == pytest.approx([2 / 3, 1 / 3, 1 / 3, 1 / 3])


def test_a_transfer_ends_when_its_bytes_are_over() -> None:
    """1.5 GB at 1 GB/s, from 1 s on at half of that: 1 s + 1 s."""
    t = Transfer({"nic:0:0:tx": 1.5e9})
    network = _network(t, nic_0_0_tx=([0, S], [1.0, 0.5]))
    assert network.next_change() == S
    network.advance(S)
    assert network.ended() == []
    network.share()
    assert network.next_change() == pytest.approx(2 * S, abs=2)
    network.advance(2 * S)
    assert network.ended() == [t]
    assert sum(x.bytes_per_s * (x.end - x.start) / S for x in network.loads) == pytest.approx(1.5e9)
