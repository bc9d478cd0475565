"""The pictures of traffic, from tables whose numbers are small enough to check by eye."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.builders.result import example_result
from tests.reports.markup import parse
from tracelab.results import DataColumn, DataTable, Section
from tracelab_reports import markdown
from tracelab_reports.figures import Bars, Figure, Line
from tracelab_reports.html import REPORTER
from tracelab_reports.matrices import Matrix, axis_names
from tracelab_reports.plots import draw
from tracelab_reports.sections import body_of
from tracelab_reports.sections.pairs import pair_matrix, top_pairs

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


def models(figure: Figure, kind: str) -> list[dict[str, Any]]:
    """Attributes of all Bokeh models of a kind in the drawn document."""
    out: list[dict[str, Any]] = []

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object" and node.get("name") == kind:
                out.append(node.get("attributes", {}))
            for child in node.values():
                visit(child)
        elif isinstance(node, list):
            for child in node:
                visit(child)

    visit(json.loads(draw([figure]).docs_json))
    return out


def plain(value: Any) -> list[Any]:
    """A column of a drawn document as a list."""
    if isinstance(value, dict) and value.get("type") == "ndarray":
        data = gzip.decompress(base64.b64decode(value["array"]["data"]))
        return np.frombuffer(data, dtype=value["dtype"]).reshape(value["shape"]).tolist()  # type: ignore[no-any-return]
    return list(value)


def sources(figure: Figure, column: str) -> list[dict[str, list[Any]]]:
    """The data of the drawn document that have a column."""
    data = [dict(s["data"]["entries"]) for s in models(figure, "ColumnDataSource")]
    return [{k: plain(v) for k, v in d.items()} for d in data if column in d]


def strokes(figure: Figure) -> list[list[tuple[float, ...]]]:
    """(x0, y0, x1, y1) of the lines of the drawn document, one list per layer; borders are the last."""
    return [list(zip(*(s[k] for k in ("x0", "y0", "x1", "y1")), strict=True)) for s in sources(figure, "x0") if "amount" not in s]


def test_the_drawn_document_holds_cells_and_what_the_pointer_shows() -> None:
    directed, both = sources(found(traffic(RING, 4)), "amount")
    # Receivers go along x, senders along y.
    at = zip(directed["left"], directed["bottom"], directed["right"], directed["top"], strict=True)
    assert list(at) == [(0.5, -0.5, 1.5, 0.5), (1.5, 0.5, 2.5, 1.5), (2.5, 1.5, 3.5, 2.5), (-0.5, 2.5, 0.5, 3.5)]
    assert directed["value"] == [3 * GB, 2 * GB, 3 * GB, GB]
    assert directed["amount"] == ["3.00 GB", "2.00 GB", "3.00 GB", "1.00 GB"]
    assert directed["share"] == ["33.3 %", "22.2 %", "33.3 %", "11.1 %"]
    assert directed["src"] == ["rank 0, h0 GPU 0", "rank 1, h0 GPU 1", "rank 2, h1 GPU 0", "rank 3, h1 GPU 1"]
    assert directed["fact0"] == ["P2P/IPC", "NET/IB", "P2P/IPC", "NET/IB"]
    assert directed["fact1"] == ["a line of a log"] * 4
    assert sorted(both["value"]) == sorted([3 * GB, 2 * GB, 3 * GB, GB] * 2)


def test_the_page_can_switch_the_layers_and_starts_with_directions() -> None:
    layers = [(r.get("name"), r.get("visible", True)) for r in models(found(traffic(RING, 4)), "GlyphRenderer")]
    assert layers == [("directed", True), ("both", False), (None, True)]


def test_colours_are_logarithmic_or_two_sided() -> None:
    logarithmic, _ = models(found(traffic(RING, 4)), "LogColorMapper")
    assert (logarithmic["low"], logarithmic["high"]) == (GB, 3 * GB)
    (linear,) = models(found(traffic(RING, 4), difference=True), "LinearColorMapper")
    assert (linear["low"], linear["high"]) == (-GB, GB)
    palette = linear["palette"]
    first, middle, last = (tuple(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in (palette[0], palette[len(palette) // 2], palette[-1]))
    assert first[2] > first[1]
    assert last[0] > last[2]
    assert max(middle) - min(middle) < 30


def _luminance(color: str) -> float:
    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))]
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2]


@pytest.mark.parametrize("kind", ["LogColorMapper", "LinearColorMapper"])
def test_no_colour_vanishes_before_the_page(kind: str) -> None:
    """Contrast of 1.3 to 1 at least, to the cards of the light and of the dark theme."""
    palette = models(found(traffic(RING, 4), difference=kind == "LinearColorMapper"), kind)[0]["palette"]
    for page in ("#ffffff", "#1a1f26"):
        for color in palette:
            a, b = sorted((_luminance(page), _luminance(color)))
            assert (b + 0.05) / (a + 0.05) > 1.3, (page, color)


def test_borders_stand_between_hosts_alone() -> None:
    assert strokes(found(traffic(RING, 4))) == [[(1.5, -0.5, 1.5, 3.5), (-0.5, 1.5, 3.5, 1.5)]]
    assert strokes(found(traffic(RING, 4, gpus=4))) == [[]]


def test_places_follow_the_hosts_and_not_the_ranks() -> None:
    section = traffic([(0, 1, 5, 5), (2, 3, 7, 7)], 4)
    places = section.tables[1]
    columns = {c.name: c for c in places.columns}
    swapped = msgspec.structs.replace(
        places, columns=[msgspec.structs.replace(columns["rank"], values=[0, 2, 1, -1]), *(columns[n] for n in columns if n != "rank")]
    )
    matrix = found(msgspec.structs.replace(section, tables=[section.tables[0], swapped]))
    assert list(matrix.ticks) == ["0", "2", "1", "?1"]
    assert matrix.alt.startswith("Matrix of 4 by 4 GPUs: bytes sent. The highest is 7 B, rank 1 to rank ?1.")


def test_what_no_file_states_is_hatched_and_said() -> None:
    section = traffic(RING, 4)
    pairs = section.tables[0]
    rungs = ["stated", "assumed", "order", "completed"]
    changed = msgspec.structs.replace(pairs, columns=[*(c for c in pairs.columns if c.name != "rung"), DataColumn("rung", "", "", rungs)])
    matrix = found(msgspec.structs.replace(section, tables=[changed, section.tables[1]]))
    # 2 GB and 1 GB of 9 GB.
    assert "No file states the pairs of 33.3 % of the bytes (hatched)" in matrix.note
    assert [c.stated for c in matrix.cells] == [1, 0, 1, 0]
    # From the lower left to the upper right corner of (1, 2) and (3, 0), and of the same pairs the other way round.
    drawn = {line for layer in strokes(matrix)[:-1] for line in layer}
    assert drawn == {(1.5, 1.5, 2.5, 0.5), (-0.5, 3.5, 0.5, 2.5), (0.5, 2.5, 1.5, 1.5), (2.5, 0.5, 3.5, -0.5)}
    assert "hatched" not in found(section).note


def test_a_dense_matrix_is_an_image_with_numbers() -> None:
    n = 96
    pairs = [(a, b, 1000 * (a + 1) + b, 0) for a in range(n) for b in range(n) if a != b]
    directed, both = sources(found(traffic(pairs, n, gpus=8)), "image")
    expected = np.array([[0 if a == b else 1000 * (a + 1) + b for b in range(n)] for a in range(n)])

    def grid(source: dict[str, list[Any]], column: str) -> Any:
        return np.array(plain(source[column][0])).reshape(n, n)

    # The first row lies at the start of the axis: it is that of the first sender.
    np.testing.assert_allclose(grid(directed, "image"), expected, rtol=1 / 2048)
    np.testing.assert_allclose(grid(both, "image"), expected + expected.T, rtol=1 / 2048)
    np.testing.assert_allclose(grid(directed, "share"), expected / expected.sum(), rtol=1 / 1024)
    assert grid(directed, "src")[:, 5].tolist() == grid(directed, "dst")[5].tolist() == list(range(n))
    assert grid(directed, "stated")[0, :2].tolist() == [0, 100]
    ways = {(a, b): "" if a == b else "P2P/IPC; a line of a log" if a // 8 == b // 8 else "NET/IB; a line of a log" for a in range(n) for b in range(n)}
    assert grid(directed, "text").ravel().tolist() == list(ways.values())


def test_hosts_are_named_without_their_common_domain() -> None:
    assert axis_names(["node-1.cluster.example.com", "node-2.cluster.example.com"]) == ["node-1", "node-2"]
    assert axis_names(["10.0.0.1", "10.0.0.2"]) == ["10.0.0.1", "10.0.0.2"]
    (name,) = axis_names(["a" * 150 + "b" * 150])
    assert name == "aaaaaaa…bbbbbbbb"


@pytest.mark.parametrize(("ranks", "gpus", "places", "hosts", "inner"), [(8, 8, 8, 0, 0), (16, 4, 16, 4, 16), (128, 8, 0, 16, 0), (2048, 2048, 64, 0, 0)])
def test_axes_name_what_there_is_room_for(ranks: int, gpus: int, places: int, hosts: int, inner: int) -> None:
    matrix = found(traffic([(r, (r + 1) % ranks, 5, 5) for r in range(ranks)], ranks, gpus=gpus))
    assert (len(matrix.place_ticks), len(matrix.host_ticks), len(matrix.inner_ticks)) == (places, hosts, inner)


def test_rounding_is_no_difference() -> None:
    section = traffic([(0, 1, 1_000_000, 1_000_001), (1, 0, 1_000_000, 1_000_000)], 2)
    assert pair_matrix(section, difference=True) is None
    assert "No pair carries more or less than over rings in rank order." in found(section).note
    most = found(traffic([(0, 1, 1_000_000, 0), (1, 0, 1_000_001, 1_000_000)], 2), difference=True)
    assert len(most.cells) == 1
    assert "1 cell that differs by less than 0.5 % of the highest: left empty." in most.note


def test_the_pairs_that_carry_most_are_named() -> None:
    assert top_pairs(traffic(RING, 4), 2) == "The most goes from rank 0 to 1 3.00 GB (33.3 %, P2P/IPC); rank 2 to 3 3.00 GB (33.3 %, P2P/IPC)."
    assert top_pairs(traffic([(0, 1, 5, 5), (1, 0, 5, 5)], 2)) == "All 2 pairs carry alike, 5 B each."
    alike = [*((r, r + 1, 9, 9) for r in range(6)), (6, 0, 1, 1)]
    assert top_pairs(traffic(alike, 7)) == "The most, 9 B each, goes over 6 pairs: ranks 0 to 1, 1 to 2, 2 to 3 and 3 more."
    assert top_pairs(traffic([(0, 1, 0, 0)], 2)) == ""


def test_hosts_devices_and_steps_have_pictures() -> None:
    section = Section(
        "traffic",
        "",
        "",
        "",
        [
            table("traffic_hosts", src_host=["b", "b", "a"], dst_host=["b", "a", "b"], bytes=[9, 4, 2], share=[0.6, 0.27, 0.13], pairs=[2, 1, 1]),
            table("traffic_places", position=[0, 1], rank=[0, 1], host=["b", "a"]),
            table("traffic_nics", host=["a", "b", "a"], nic=["x", "x", "y"], bytes=[1000, 3000, 2000]),
            table("traffic_steps_total", step=[4, 5], bytes=[2_000_000, 3_000_000]),
        ],
    )
    hosts, nics, steps = body_of(section).figures
    assert isinstance(hosts, Matrix)
    assert list(hosts.ticks) == ["b", "a"]
    assert {(c.src, c.dst): c.value for c in hosts.cells} == {(0, 0): 9, (0, 1): 4, (1, 0): 2}
    assert hosts.alt == "Matrix of 2 by 2 hosts. Between hosts the highest is 4 B, b to a."
    assert isinstance(nics, Bars)
    assert (nics.categories, nics.series[0].values, nics.unit) == (["a x", "a y", "b x"], [1.0, 2.0, 3.0], "kB")
    assert isinstance(steps, Line)
    assert (steps.x, steps.y, steps.unit) == ([4, 5], [2.0, 3.0], "MB")


def test_hundreds_of_hosts_share_cells() -> None:
    names = [f"n{i:03d}" for i in range(700)]
    section = Section(
        "traffic", "", "", "", [table("traffic_hosts", src_host=names, dst_host=[*names[1:], names[0]], bytes=[6] * 700, share=[0] * 700, pairs=[1] * 700)]
    )
    (hosts,) = body_of(section).figures
    assert isinstance(hosts, Matrix)
    assert hosts.together == 3
    assert sum(c.value for c in hosts.cells) == 4200
    assert "Each cell adds up 3 neighbouring hosts" in hosts.note


def test_every_picture_of_traffic_has_words_and_a_table() -> None:
    page = parse(REPORTER.render(example_result(8, 3, per_host=4)))
    figures = [f for f in page.all("figure") if f.attrs["id"].startswith("traffic-")]
    assert len(figures) == 5
    section = page.one("section", id="section-traffic")
    for figure in figures:
        assert re.search(r"\d", figure.one("div", class_="chart").attrs["aria-label"])
    titles = [t.one("caption").words for t in section.all("table")]
    assert [t for t in ("Bytes per directed pair of hosts", "Bytes per step") if t not in titles] == []
    pairs = figures[0]
    assert [b.attrs["aria-pressed"] for b in pairs.all("button")] == ["true", "false"]
    assert [legend.attrs["data-layer"] for legend in pairs.all("p", class_="legend")] == ["directed", "both"]
    assert [b for f in figures[1:] for b in f.all("button")] == []


def test_a_ticket_says_the_answer_and_the_top_pairs_on_one_line() -> None:
    result = msgspec.structs.replace(example_result(16), sections=[traffic(RING, 4, host=HOSTILE + "{}")])
    (line,) = [x for x in markdown.REPORTER.render(result).splitlines() if "Traffic between GPUs" in x]
    assert line.endswith("Traffic between GPUs: An answer. The most goes from rank 0 to 1 3.00 GB (33.3 %, P2P/IPC); rank 2 to 3 3.00 GB (33.3 %, P2P/IPC).")
    assert len(line) < 1_000
