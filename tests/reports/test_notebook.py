"""Pictures for notebooks, by the code that the how-to page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import holoviews as hv
import polars as pl
import pytest

import tracelab
from tests.builders.result import example_result, quiet_result
from tracelab.errors import NoUsableInputError
from tracelab_reports.notebook import pair_heatmap

ROWS = pl.DataFrame(
    {
        "src_rank": [0, 1, 2, 3, 0, 3],
        "dst_rank": [1, 2, 3, 0, 1, 0],
        # Rank 2 sits on the first host: its place is the one behind rank 0.
        "src_host": ["a", "b", "a", "b", "a", "b"],
        "dst_host": ["b", "a", "b", "a", "b", "a"],
        "operation": ["all_reduce"] * 4 + ["broadcast"] * 2,
        "transport": ["NET/IB"] * 5 + ["NET/Socket"],
        "rung": ["stated"] * 4 + ["assumed"] * 2,
        "bytes": [10, 20, 30, 40, 5, 50],
    }
)
EXPECTED = pl.DataFrame({"src_rank": [0, 2, 3, 1], "dst_rank": [1, 3, 0, 0], "bytes": [15, 30, 90, 7]})


def cells(element: hv.Overlay) -> dict[tuple[int, int], float]:
    """(place of sender, place of receiver) to bytes, of the rectangles of a picture."""
    (marks,) = [e for e in element if isinstance(e, hv.Rectangles)]
    return {(round(y), round(x)): v for x, y, v in zip((marks["x0"] + marks["x1"]) / 2, (marks["y0"] + marks["y1"]) / 2, marks["value"], strict=True)}


def test_the_page_shows_code_that_runs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").symlink_to(root / "sample_traces" / "slow_gpu")
    tracelab.open("traces/").tables["traffic"].collect().write_parquet("traffic.parquet")
    blocks = re.findall(r"```python\n(.*?)```", (root / "docs" / "who_talks_to_whom.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    for code in blocks:
        *lines, last = code.strip().splitlines()
        names: dict[str, Any] = {}
        exec("\n".join(lines), names)
        element = eval(last, names)
        assert isinstance(element, hv.Overlay)
        assert cells(element)


def test_rows_are_added_up_in_the_order_of_hosts() -> None:
    assert cells(pair_heatmap(ROWS)) == {(0, 2): 15, (2, 1): 20, (1, 3): 30, (3, 0): 90}
    # Ranks 0, 1 and 3 remain.
    assert cells(pair_heatmap(ROWS.filter(pl.col("operation") == "broadcast"))) == {(0, 1): 5, (2, 0): 50}


def test_the_title_says_what_colours_mean() -> None:
    titles = [hv.render(e).title.text for e in (pair_heatmap(ROWS), pair_heatmap(ROWS, difference=True, expected=EXPECTED))]
    assert titles == ["bytes, from 15 B to 90 B, logarithmic scale", "difference, from −20 B to 20 B"]


def test_both_directions() -> None:
    both = {(0, 2): 15, (2, 0): 15, (2, 1): 20, (1, 2): 20, (1, 3): 30, (3, 1): 30, (3, 0): 90, (0, 3): 90}
    assert cells(pair_heatmap(ROWS, symmetric=True)) == both


def test_differences_need_something_to_compare_with() -> None:
    assert cells(pair_heatmap(ROWS, difference=True, expected=EXPECTED)) == {(2, 1): 20, (2, 0): -7}
    with pytest.raises(NoUsableInputError, match="no difference"):
        pair_heatmap(ROWS, difference=True)
    with pytest.raises(NoUsableInputError, match="no difference"):
        pair_heatmap(ROWS, difference=True, expected=ROWS)


def test_transports_and_hosts_need_not_be_there() -> None:
    assert cells(pair_heatmap(ROWS.select("src_rank", "dst_rank", "bytes"))) == {(0, 1): 15, (1, 2): 20, (2, 3): 30, (3, 0): 90}


def test_thousands_of_ranks_share_cells() -> None:
    n = 1000
    ring = pl.DataFrame({"src_rank": range(n), "dst_rank": [(r + 1) % n for r in range(n)], "bytes": [8] * n})
    found = cells(pair_heatmap(ring))
    assert sum(found.values()) == 8 * n
    # Of four neighbours, three send to each other and the last to the next four.
    assert sorted(set(found.values())) == [8, 24]


def test_a_document_and_its_section_give_the_same() -> None:
    result = example_result(8, 2, per_host=4)
    assert cells(pair_heatmap(result)) == cells(pair_heatmap(next(s for s in result.sections if s.id == "traffic")))


def test_no_traffic_is_an_error_that_says_where_to_look() -> None:
    for source in (quiet_result(), ROWS.clear()):
        with pytest.raises(NoUsableInputError, match="no traffic"):
            pair_heatmap(source)
