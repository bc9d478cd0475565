"""The pictures of traffic, from tables whose numbers are small enough to check by eye."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.builders.result import example_result
from tracelab.results import DataColumn, DataTable, Section
from tracelab_reports.html import REPORTER
from tracelab_reports.matrices import Matrix
from tracelab_reports.plots import draw
from tracelab_reports.sections import body_of
from tracelab_reports.sections.pairs import pair_matrix

GB = 10**9
HOSTILE = "</script><script>alert(1)</script>{{7*7}} $(x) \\(y\\)" + "n" * 300


def table(table_id: str, **columns: list[Any]) -> DataTable:
    return DataTable(table_id, table_id, [DataColumn(name, "", "", values) for name, values in columns.items()])


def traffic(pairs: list[tuple[int, int, int, int]], ranks: int, *, gpus: int = 2, host: str = "h{}", together: int = 1) -> Section:
    """A section of `ranks` on hosts of `gpus`; pairs are sender, receiver, bytes, expected bytes."""
    total = sum(b for *_, b, _ in pairs) or 1
    n = len(pairs)
    cells = table(
        "traffic_pairs",
        src_position=[p[0] for p in pairs],
        dst_position=[p[1] for p in pairs],
        src_rank=[p[0] for p in pairs],
        dst_rank=[p[1] for p in pairs],
        ranks=[together] * n,
        bytes=[p[2] for p in pairs],
        expected_bytes=[p[3] for p in pairs],
        share=[p[2] / total for p in pairs],
        transport=["P2P/IPC" if p[0] // gpus == p[1] // gpus else "NET/IB" for p in pairs],
        rung=["stated"] * n,
    )
    hosts = [host.format(r // gpus) for r in range(ranks)]
    places = table("traffic_places", position=list(range(ranks)), rank=list(range(ranks)), host=hosts, local=[r % gpus for r in range(ranks)])
    return Section("traffic", "Traffic between GPUs", "Who?", "An answer.", [cells, places])


RING = [(0, 1, 3 * GB, 3 * GB), (1, 2, 2 * GB, 2 * GB), (2, 3, 3 * GB, 3 * GB), (3, 0, GB, 2 * GB)]


def found(section: Section, **kind: bool) -> Matrix:
    matrix = pair_matrix(section, **kind)
    assert matrix is not None
    return matrix


def test_cells_hosts_and_scale() -> None:
    matrix = found(traffic(RING, 4))
    assert {(c.src, c.dst): c.value for c in matrix.cells} == {(0, 1): 3 * GB, (1, 2): 2 * GB, (2, 3): 3 * GB, (3, 0): GB}
    assert list(matrix.blocks) == [(0, "h0"), (2, "h1")]
    assert matrix.table == "traffic_pairs"
    assert "4" in matrix.alt


def test_both_directions_are_added() -> None:
    both = {(c.src, c.dst): c.value for c in found(traffic([(0, 1, 3, 3), (1, 0, 4, 4), (2, 0, 5, 5)], 4)).both}
    assert both == {(0, 1): 7, (1, 0): 7, (2, 0): 5, (0, 2): 5}


def test_the_difference_is_signed_and_absent_where_there_is_none() -> None:
    matrix = found(traffic(RING, 4), difference=True)
    assert matrix.signed
    assert {(c.src, c.dst): c.value for c in matrix.cells} == {(3, 0): -GB}
    assert pair_matrix(traffic([(0, 1, 5, 5)], 4), difference=True) is None


def test_many_ranks_share_cells_and_keep_their_bytes() -> None:
    ring = [(r, (r + 1) % 1024, 4, 4) for r in range(1024)]
    matrix = found(traffic(ring, 1024, gpus=8))
    assert matrix.together == 4
    assert sum(c.value for c in matrix.cells) == 4096
    # Of four neighbours, three send to each other and the last to the next four.
    assert sorted({c.value for c in matrix.cells}) == [4, 12]


def test_tables_without_expected_bytes_still_have_a_picture() -> None:
    whole = traffic(RING, 4)
    pairs = msgspec.structs.replace(whole.tables[0], columns=[c for c in whole.tables[0].columns if c.name != "expected_bytes"])
    section = msgspec.structs.replace(whole, tables=[pairs, whole.tables[1]])
    assert len(found(section).cells) == 4
    assert pair_matrix(section, difference=True) is None


@pytest.mark.parametrize("ranks", [2, 8, 64, 2048])
def test_every_size_is_drawn(ranks: int) -> None:
    ring = [(r, (r + 1) % ranks, 4 + r % 3, 4) for r in range(ranks)]
    drawn = draw([found(traffic(ring, ranks, gpus=min(8, ranks)))])
    assert set(drawn.roots) == {"traffic-pairs"}
    assert len(drawn.docs_json) < 3_000_000


def test_nonsense_gives_no_picture() -> None:
    assert pair_matrix(Section("traffic", "", "", "", [])) is None
    assert list(body_of(Section("traffic", "", "", "", [table("traffic_pairs", src_position=["x"])])).figures) == []


def test_hostile_hosts_are_text() -> None:
    section = traffic(RING, 4, host=HOSTILE + "{}")
    page = REPORTER.render(msgspec.structs.replace(example_result(), sections=[section]))
    assert "<script>alert(1)" not in page
    assert "7*7" in page
    assert "49}}" not in page
    for matrix in (found(section), found(section, difference=True)):
        assert max(len(name) for name in matrix.names) < 120
        assert "$(" not in json.dumps(json.loads(draw([matrix]).docs_json), ensure_ascii=False)
