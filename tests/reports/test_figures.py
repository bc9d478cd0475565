from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import pytest

from tests.builders.result import example_result
from tracelab.results import Attribution, Cause, DataColumn, DataTable, RankTimes, Section
from tracelab_reports.figures import COLORS, Bars, Figure, Heatmap, Line
from tracelab_reports.plots import draw, plain_label
from tracelab_reports.sections import SECTIONS, body_of, in_order
from tracelab_reports.sections.attribution import attribution_bars

MS = 1_000_000


def section(section_id: str, table_id: str, _left_out: int = 0, /, **columns: list[Any]) -> Section:
    table = DataTable(table_id, "", [DataColumn(n, "", "", v) for n, v in columns.items()], _left_out)
    return Section(section_id, "", "", "", [table])


def heatmap(x: list[int], y: list[int], values: list[float | None], *, keep_low: bool = False, from_zero: bool = True) -> Heatmap:
    return Heatmap("h", "t", "a", None, "", x, y, values, "step", "rank", "wait", "ms", from_zero, keep_low)


def models(figure: Figure, kind: str) -> list[dict[str, Any]]:
    """Attributes of all Bokeh models of a kind in the drawn document."""
    found: list[dict[str, Any]] = []

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object" and node.get("name") == kind:
                found.append(node.get("attributes", {}))
            for child in node.values():
                visit(child)
        elif isinstance(node, list):
            for child in node:
                visit(child)

    visit(json.loads(draw([figure]).docs_json))
    return found


def image_of(figure: Heatmap) -> np.ndarray[Any, Any]:
    (source,) = models(figure, "ColumnDataSource")
    (image,) = dict(source["data"]["entries"])["image"]
    data = gzip.decompress(base64.b64decode(image["array"]["data"]))
    return np.frombuffer(data, dtype=image["dtype"]).reshape(image["shape"])


def test_steps_are_a_line_in_the_unit_that_fits() -> None:
    (line,) = body_of(section("steps", "step_times", step=[7, 8, 9, 10], length_ns=[800 * MS, 801 * MS, None, 960 * MS])).figures
    assert isinstance(line, Line)
    assert (line.x, line.y, line.unit) == ([7, 8, 9, 10], [800.0, 801.0, None, 960.0], "ms")
    assert line.alt == "Line: time of 4 steps, from 800 ms to 960 ms, median 801 ms."


def test_one_step_is_no_line() -> None:
    assert body_of(section("steps", "step_times", step=[7], length_ns=[800 * MS])).figures == ()


def test_rank_bars_stack_the_five_parts() -> None:
    parts: dict[str, list[int | None]] = {"compute": [3, 4], "memcpy": [1, 1], "exposed_transfer": [2, 2], "exposed_wait": [5, 4], "idle": [0, None]}
    columns: dict[str, list[Any]] = {f"{k}_ns": [None if n is None else n * MS for n in v] for k, v in parts.items()}
    (bars,) = body_of(section("breakdown", "rank_times", rank=[1, -1], **columns)).figures
    assert isinstance(bars, Bars)
    assert bars.categories == ["rank ?1", "rank 1"]
    assert [(s.name, s.values) for s in bars.series] == [
        ("compute", [4.0, 3.0]),
        ("memory copies", [1.0, 1.0]),
        ("exposed transfer", [2.0, 2.0]),
        ("exposed wait", [4.0, 5.0]),
        ("idle", [None, 0.0]),
    ]
    assert bars.unit == "ms"
    assert bars.alt.endswith("Rank ?1 has the least exposed wait: 4.00 ms.")
    assert len({s.color for s in bars.series}) == 5


def test_of_many_ranks_those_are_shown_that_the_others_wait_for() -> None:
    n = 100
    columns: dict[str, list[Any]] = {f"{p}_ns": [MS] * n for p in ("compute", "memcpy", "exposed_transfer", "idle")}
    (bars,) = body_of(section("breakdown", "rank_times", rank=list(range(n)), exposed_wait_ns=[(n - r) * MS for r in range(n)], **columns)).figures
    assert isinstance(bars, Bars)
    assert bars.categories[:2] == ["rank 99", "rank 98"]
    assert len(bars.categories) == 40
    assert "the 40 of 100 ranks with the least exposed wait" in bars.note


def test_of_many_ranks_the_latest_are_shown() -> None:
    (bars,) = body_of(section("waits", "arrivals_by_rank", rank=list(range(60)), late_ns=[r * MS for r in range(60)])).figures
    assert isinstance(bars, Bars)
    assert bars.categories[0] == "rank 59"
    assert bars.alt.endswith("Rank 59 has the most lateness: 59.0 ms.")


def test_rank_and_step_make_a_heatmap_with_its_gaps() -> None:
    body = body_of(section("waits", "rank_step_waits", rank=[0, 0, 2], step=[5, 6, 5], late_ns=[MS, 2 * MS, 3 * MS], wait_ns=[0, 0, 0]))
    (figure,) = body.figures
    assert isinstance(figure, Heatmap)
    assert figure.alt == "Heatmap of rank by step: time late. The highest is 3.00 ms, rank 2 in step 5."
    assert figure.note.endswith("Empty cells: no data.")
    image = image_of(figure)
    assert image.dtype == np.float32
    np.testing.assert_array_equal(image, np.array([[1, 2], [np.nan, np.nan], [3, np.nan]], dtype="float32"))


def test_one_rank_is_no_heatmap() -> None:
    assert body_of(section("waits", "rank_step_waits", rank=[0, 0], step=[5, 6], late_ns=[MS, MS])).figures == []


def test_cells_left_out_of_the_document_are_said() -> None:
    body = body_of(section("waits", "rank_step_waits", 1_000, rank=[0, 0, 1, 1], step=[5, 6, 5, 6], late_ns=[1, 2, 3, 4]))
    assert body.figures[0].note.endswith("The result document leaves out 1,000 cells for its size; they are empty here.")


@pytest.mark.parametrize("keep_low", [False, True])
def test_a_single_rank_of_thousands_stays_visible(keep_low: bool) -> None:
    ranks = 2048
    odd, usual = (0.0, 5.0) if keep_low else (9.0, 5.0)
    values: list[float | None] = [odd if r == 1001 else usual for r in range(ranks)]
    figure = heatmap([0] * ranks + [1] * ranks, [*range(ranks)] * 2, values * 2, keep_low=keep_low)
    assert figure.bins == (1, 8)
    image = image_of(figure)
    assert image.shape == (256, 2)
    assert sorted(set(np.argwhere(image == odd)[:, 0])) == [1001 // 8]
    assert figure.height >= 2 * 256


def test_large_heatmaps_hold_levels_instead_of_values() -> None:
    side = 300
    cells = [(x, y) for y in range(256) for x in range(side)]
    values: list[float | None] = [None if x == y else float(x) for x, y in cells]
    image = image_of(heatmap([x for x, _ in cells], [y for _, y in cells], values))
    assert image.dtype == np.uint8
    expected = np.array([[0 if x == y else int(1 + x / (side - 1) * 254) for x in range(side)] for y in range(256)])
    assert np.abs(image.astype(int) - expected).max() <= 1
    assert np.array_equal(image == 0, expected == 0)


def test_noise_is_not_blown_up() -> None:
    assert heatmap([0, 1], [0, 1], [99.0, 100.0], from_zero=False).span == (90.0, 100.0)
    assert heatmap([0, 1], [0, 1], [50.0, 100.0], from_zero=False).span == (50.0, 100.0)
    assert heatmap([0, 1], [0, 1], [50.0, 100.0]).span == (0.0, 100.0)
    assert heatmap([0, 1], [0, 1], [0.0, None]).span == (0.0, 1.0)


def test_collectives_are_ordered_by_cost() -> None:
    (bars,) = body_of(
        section(
            "collectives",
            "collective_classes",
            group=["dp", None, 3],
            operation=["all_reduce", "barrier", "all_gather"],
            bytes=[8_000_000, None, 5],
            transfer_total_ns=[MS, MS, 5 * MS],
            wait_total_ns=[10 * MS, MS, None],
        )
    ).figures
    assert isinstance(bars, Bars)
    assert bars.categories == ["all_reduce 8.00 MB, dp", "all_gather 5 B, group 3", "barrier size unknown, group unknown"]
    assert [s.values for s in bars.series] == [[1.0, 5.0, 1.0], [10.0, None, 1.0]]


def test_attribution_is_one_bar_that_adds_up() -> None:
    causes = [Cause("compute", 0.6, 0.6, 0.5, 0.7), Cause("slow_link", 0.3, 0.3, 0.2, 0.4), Cause("idle", 0.0, 0.0, 0.0, 0.1)]
    bars = attribution_bars(Attribution("s", 1.0, causes, 0.1, {"0": RankTimes(1, 0, 0, 0, 0, 0)}))
    assert bars is not None
    assert [(s.name, s.detail) for s in bars.series] == [("Compute", "600 ms, 60.0 %"), ("Slow link", "300 ms, 30.0 %"), ("Unattributed", "100 ms, 10.0 %")]
    assert len({s.color for s in bars.series}) == 3


def test_many_causes_never_share_a_colour() -> None:
    causes = [Cause(f"cause_{i}", float(i + 1), 0.0, 0.0, 0.0) for i in range(20)] + [Cause("idle", 50.0, 0.0, 0.0, 0.0)]
    bars = attribution_bars(Attribution("s", 260.0, causes, 0.0, {}))
    assert bars is not None
    assert len(bars.series) == len({s.color for s in bars.series}) == 8
    assert bars.series[-1].name == "Others"
    # 1 + 2 + … + 14: all but the six longest of the twenty, and idle.
    assert bars.series[-1].values == [105.0]


def test_no_time_is_no_bar() -> None:
    assert attribution_bars(Attribution("s", 0.0, [], 0.0, {})) is None


def test_drawn_bars_hold_their_values_and_plain_names() -> None:
    (bars,) = body_of(section("waits", "arrivals_by_rank", rank=[0, 1], late_ns=[5 * MS, 7 * MS])).figures
    (source,) = models(bars, "ColumnDataSource")
    columns = dict(source["data"]["entries"])
    assert list(columns["category"]) == ["rank 0", "rank 1"]


@pytest.mark.parametrize("text", ["$$x$$", r"\(x\)", r"\[x\]", "$$$", "a $$"])
def test_labels_are_never_tex(text: str) -> None:
    label = plain_label(text)
    assert not any(mark in label for mark in ("$$", r"\(", r"\["))
    assert label.replace("\u2060", "") == text


def test_pictures_run_no_code_of_their_own() -> None:
    figures = [f for s in example_result(8, 6, hostile=True).sections for f in body_of(s).figures]
    assert len(figures) == 10
    assert "CustomJS" not in draw(figures).docs_json


def test_sections_come_in_the_order_of_the_registry() -> None:
    given = [Section(i, "", "", "", []) for i in ("new", "waits", "steps", "other")]
    assert [s.id for s in in_order(given)] == ["steps", "waits", "new", "other"]
    assert len({v.id for v in SECTIONS}) == len(SECTIONS)
    assert set(COLORS) >= {"#0072b2"}
