"""The analysis of traffic on small jobs whose numbers were worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
import pytest

from tests.builders.frames import frame
from tracelab.analyses.traffic import ANALYSIS, Params
from tracelab.analyses.traffic_patterns import name_pattern, repeats_after
from tracelab.analysis import AnalysisResult
from tracelab.results import Evidence
from tracelab.tables import TABLES, TRAFFIC

Row = Mapping[str, Any]


class Given:
    """The protocol `tracelab.analysis.Tables` over rows."""

    def __init__(self, **rows: Iterable[Row]) -> None:
        self.memo: dict[str, object] = {}
        self._rows = {name: list(r) for name, r in rows.items()}

    def __getitem__(self, name: str) -> pl.LazyFrame:
        return frame(TABLES[name], self._rows.get(name, ())).lazy()

    def __contains__(self, name: object) -> bool:
        return bool(self._rows.get(str(name)))

    def evidence(self, source_id: int, rank: int | None, source_ts_ns: int | None, ts_ns: int | None, text: str) -> Evidence:
        raise AssertionError("traffic points at no file")


def sent(src: int, dst: int, amount: int, *, gpus: int = 2, operation: str = "all_reduce", algorithm: str = "RING", **more: Any) -> Row:
    hosts = {"src_host": f"h{src // gpus}", "dst_host": f"h{dst // gpus}"}
    base = {"src_rank": src, "dst_rank": dst, "bytes": amount, "operations": 1, "operation": operation, "algorithm": algorithm, "group_id": 0}
    return {**base, **hosts, "rung": "stated", "window": "capture", **more}


def ring(order: list[int], amount: int, **more: Any) -> list[Row]:
    return [sent(a, b, amount, **more) for a, b in zip(order, [*order[1:], order[0]], strict=True)]


def run(traffic: list[Row], **rows: Iterable[Row]) -> AnalysisResult:
    given = {"groups": [{"group_id": 0, "ranks": [0, 1, 2, 3], "size": 4, "name": "dp", "origin": "stated"}], **rows}
    return ANALYSIS.run(Given(traffic=traffic, **given), Params())


def test_one_all_reduce_on_two_hosts() -> None:
    """4 ranks, 2 hosts, S = 1000: a ring carries 2·3/4·1000 = 1500 on each edge, two of which cross; the least is 2·(2-1)·1000."""
    operations = [{"operation_id": 0, "group_id": 0, "operation": "all_reduce", "bytes": 1000, "origin": "trace"}]
    result = run(ring([0, 1, 2, 3], 1500), operations=operations)
    (group,) = result.frames["traffic_groups"].to_dicts()
    assert (group["bytes"], group["cross_host_bytes"], group["least_cross_host_bytes"], group["excess"]) == (6000, 3000, 2000, 1.5)
    assert result.frames["traffic_hosts"].select("src_host", "dst_host", "bytes", "share").rows() == [
        ("h0", "h0", 1500, 0.25),
        ("h0", "h1", 1500, 0.25),
        ("h1", "h0", 1500, 0.25),
        ("h1", "h1", 1500, 0.25),
    ]
    assert result.frames["traffic_places"].select("rank", "host", "local", "sent_bytes", "received_bytes").rows() == [
        (0, "h0", 0, 1500, 1500),
        (1, "h0", 1, 1500, 1500),
        (2, "h1", 0, 1500, 1500),
        (3, "h1", 1, 1500, 1500),
    ]
    assert "1.50 times the least" in result.answer
    assert result.degraded == ""


def test_ranks_scattered_over_hosts_cross_them_twice_as_often() -> None:
    """The ring 0-2-1-3 of ranks on hosts 0,0,1,1 crosses at every edge."""
    operations = [{"operation_id": 0, "group_id": 0, "operation": "all_reduce", "bytes": 1000, "origin": "trace"}]
    result = run(ring([0, 2, 1, 3], 1500), operations=operations)
    assert result.frames["traffic_groups"]["excess"].to_list() == [3.0]


def test_devices_give_the_order_inside_a_host() -> None:
    ranks = [{"rank": r, "host": f"h{r // 2}", "device": 1 - r % 2, "sources": "", "windows": 1} for r in range(4)]
    result = run(ring([0, 1, 2, 3], 8), ranks=ranks)
    assert result.frames["traffic_places"]["rank"].to_list() == [1, 0, 3, 2]


def test_a_pair_is_named_by_what_most_of_its_bytes_are() -> None:
    rows = [sent(0, 2, 10, transport="NET/Socket", nic="eth0"), sent(0, 2, 90, transport="NET/IB", nic="mlx5_0"), sent(0, 2, 0, transport="SHM")]
    (pair,) = run(rows).frames["traffic_pairs"].to_dicts()
    assert (pair["bytes"], pair["transport"], pair["nic"], pair["crosses_hosts"]) == (100, "NET/IB", "mlx5_0", True)


def test_bytes_that_leave_through_another_rank_count_for_its_host() -> None:
    rows = [sent(0, 2, 30, nic="mlx5_1", proxy_rank=1), sent(1, 3, 10, nic="mlx5_0"), sent(2, 0, 5, nic="mlx5_0")]
    result = run(rows)
    assert result.frames["traffic_nics"].rows() == [("h0", "mlx5_0", 10, 0.25, 1), ("h0", "mlx5_1", 30, 0.75, 1), ("h1", "mlx5_0", 5, 1.0, 1)]


def test_guessed_edges_are_said() -> None:
    result = run([sent(0, 1, 75, rung="assumed"), sent(1, 0, 25)])
    assert result.degraded.startswith("the edges of 75")
    assert [n.question for n in result.not_observable] == ["Which GPU pairs carry the collectives?"]


def test_a_thousand_ranks_are_told_apart_and_more_are_taken_together() -> None:
    few = run(ring(list(range(1024)), 4, gpus=8)).frames["traffic_pairs"]
    many = run(ring(list(range(2048)), 4, gpus=8)).frames["traffic_pairs"]
    assert (few.height, few["ranks"].unique().to_list(), few["bytes"].sum()) == (1024, [1], 4096)
    # Of two neighbours, one sends to the other and the other to the next pair.
    assert (many.height, many["ranks"].unique().to_list(), many["bytes"].sum()) == (2048, [2], 8192)


PATTERNS = {
    "ring": ring(list(range(8)), 7, gpus=1),
    "hierarchical": [
        *ring(list(range(8)), 7, gpus=8),
        *ring(list(range(8, 16)), 7, gpus=8, group_id=1),
        *(row for k in range(8) for row in ring([k, k + 8], 3, gpus=8, group_id=2 + k)),
    ],
    "all-to-all": [sent(a, b, 5, operation="all_to_all", algorithm="P2P") for a in range(6) for b in range(6) if a != b],
    "pipeline neighbours": [sent(a, a + 1, 5, operation="send", algorithm="P2P") for a in range(5)]
    + [sent(a + 1, a, 5, operation="send", algorithm="P2P") for a in range(5)],
    "hub": [sent(a, 0, 5, operation="send", algorithm="P2P") for a in range(1, 8)] + [sent(0, a, 5, operation="send", algorithm="P2P") for a in range(1, 8)],
    "tree": [sent(a, (a - 1) // 2, 5, algorithm="TREE") for a in range(1, 15)] + [sent((a - 1) // 2, a, 5, algorithm="TREE") for a in range(1, 15)],
    "pairs": [sent(0, 1, 5, operation="send", algorithm="P2P"), sent(2, 3, 5, operation="send", algorithm="P2P")],
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str) -> None:
    assert name_pattern(frame(TRAFFIC, PATTERNS[name])).name == name


def test_one_ring_over_hosts_is_a_ring() -> None:
    assert name_pattern(frame(TRAFFIC, ring(list(range(16)), 7, gpus=8))).name == "ring"


def test_concentration() -> None:
    even = name_pattern(frame(TRAFFIC, PATTERNS["ring"]))
    hub = name_pattern(frame(TRAFFIC, PATTERNS["hub"]))
    # Each rank of the ring passes 14 bytes; the busiest of 8 touches 2 of 8 edges.
    assert (even.gini, even.top_tenth) == (0.0, 0.25)
    # The hub passes 70, seven others 10 each: G = Σ(2i-n-1)x_i / (n Σx) = (7·70 + Σ_{i=1..7}(2i-9)·10) / (8·140).
    assert hub.top_tenth == 1.0
    assert hub.gini == pytest.approx((7 * 70 + 10 * sum(2 * i - 9 for i in range(1, 8))) / (8 * 140))


def test_expected_pairs_stand_beside_found_ones() -> None:
    """The ring 0-2-1-3 against the ring 0-1-2-3: edges 2-1 and 1-3 are not expected, 0-1 and 1-2 are not found."""
    rows = ring([0, 2, 1, 3], 9)
    plain = [{"src_rank": a, "dst_rank": b, "window": "capture", "bytes": 9} for a, b in ((0, 1), (1, 2), (2, 3), (3, 0))]
    pairs = run(rows, traffic_expected=plain).frames["traffic_pairs"]
    assert {(r["src_rank"], r["dst_rank"]): (r["bytes"], r["expected_bytes"]) for r in pairs.to_dicts()} == {
        (0, 2): (9, 0),
        (2, 1): (9, 0),
        (1, 3): (9, 0),
        (3, 0): (9, 9),
        (0, 1): (0, 9),
        (1, 2): (0, 9),
        (2, 3): (0, 9),
    }


def test_captures_are_shown_alone_and_the_rest_is_said() -> None:
    result = run([sent(0, 1, 10), sent(0, 1, 5_000_000, window="log")])
    assert result.frames["traffic_pairs"]["bytes"].to_list() == [10]
    assert result.answer.endswith("Logs hold 5.00 MB more, outside the captures.")
    assert run([sent(0, 1, 5, window="log")]).frames["traffic_pairs"]["bytes"].to_list() == [5]


def test_no_bytes_have_no_pattern() -> None:
    assert name_pattern(frame(TRAFFIC, [sent(0, 1, 0)])).pairs == 0


@pytest.mark.parametrize(
    ("volumes", "period"),
    [([5, 5, 5, 5], 1), ([1, 1, 9, 1, 1, 9], 3), ([1, 2, 3, 4], None), ([5], None), ([], None), ([0, 0], 1), ([1, 1, 9, 1, 1], None)],
)
def test_a_period_needs_two_turns(volumes: list[int], period: int | None) -> None:
    assert repeats_after(volumes) == period
