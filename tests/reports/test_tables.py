from __future__ import annotations

import base64
import csv
import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelab.results import DataColumn, DataTable
from tracelab_reports.tableview import csv_text, packed, table_view

ORIGIN = 1_785_000_000_000_000_000


def one(name: str, unit: str, value: object, origin: int | None = ORIGIN) -> tuple[str, str]:
    view = table_view(DataTable("t", "T", [DataColumn(name, unit, "", [value])]), origin_ns=origin)
    return view.columns[0].heading, view.rows[0][0]


@pytest.mark.parametrize(
    ("name", "unit", "value", "heading", "cell"),
    [
        ("exposed_wait_ns", "ns", 1_234_567, "exposed wait", "1.23 ms"),
        ("idle_ns", "ns", 0, "idle", "0 ns"),
        ("bytes", "B", 134_217_728, "bytes", "134 MB"),
        ("busbw_bytes_per_s", "B/s", 38_681_838_652.9, "busbw", "38.7 GB/s"),
        ("busbw_bytes_per_s", "", 38_681_838_652.9, "busbw", "38.7 GB/s"),
        ("overlap_ratio", "", 0.4197, "overlap ratio", "42.0 %"),
        ("last_share", "", 1, "last share", "100 %"),
        ("rank", "", -2, "rank", "?2"),
        ("last_rank", "", 17, "last rank", "17"),
        ("start_ns", "ns", ORIGIN + 2_500_000_000, "start after job start", "+2.50 s"),
        ("start_ns", "ns", ORIGIN, "start after job start", "0 s"),
        ("start_ns", "ns", ORIGIN - 1_000, "start after job start", "−1.00 µs"),
        ("match_id", "", 123_456, "match id", "123456"),
        ("step", "", 12_000, "step", "12000"),
        ("count", "", 12_000, "count", "12,000"),
        ("drift", "ppm", 0.123456, "drift [ppm]", "0.1235"),
        ("seconds", "s", 0.25, "seconds", "250 ms"),
        ("truncated", "", True, "truncated", "yes"),
        ("ranks", "", [1, 2, 3], "ranks", "1, 2, 3"),
        ("host", "", None, "host", "–"),
        ("wait_ns", "ns", float("nan"), "wait", "–"),
        ("name", "", "\x1b[31mred\u202e", "name", r"\x1b[31mred\u202e"),
        ("_ns", "ns", 5, "_ns", "5 ns"),
    ],
)
def test_headings_and_cells(name: str, unit: str, value: object, heading: str, cell: str) -> None:
    assert one(name, unit, value) == (heading, cell)


def test_without_a_start_of_the_job_points_in_time_are_dates() -> None:
    assert one("start_ns", "ns", ORIGIN + 1_000, origin=None) == ("start", "2026-07-25 17:20:00.000001 UTC")


def test_times_of_a_source_are_exact_so_that_they_can_be_searched_for() -> None:
    assert one("source_ts_ns", "ns", 83_565_048_675) == ("time in the source", "83565048675 ns")


def test_long_cells_are_cut_on_the_page_only() -> None:
    table = DataTable("t", "T", [DataColumn("name", "", "", ["k" * 5_000])])
    assert table_view(table).rows[0][0] == "k" * 239 + "…"
    assert csv_text(table) == "name\n" + "k" * 5_000 + "\n"


def test_numbers_stand_on_the_right_and_unknown_text_on_the_left() -> None:
    table = DataTable("t", "T", [DataColumn("a", "", "", [None, 1]), DataColumn("b", "", "", [None, None]), DataColumn("c", "", "", ["x" * 40, ""])])
    assert [c.style for c in table_view(table).columns] == ["n", "s", "l"]


def test_csv_cells_cannot_be_formulas() -> None:
    values = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "plain", 'quo"te', "a,b", "line\nbreak", -5, None]
    text = csv_text(DataTable("t", "T", [DataColumn("v", "", "", values)]))
    rows = [r[0] if r else "" for r in csv.reader(io.StringIO(text, newline=""))]
    assert rows == ["v", "'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "plain", 'quo"te', "a,b", "line\nbreak", "-5", ""]


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")))))
def test_csv_holds_every_value(rows: list[tuple[int, str]]) -> None:
    table = DataTable("t", "T", [DataColumn("n", "ns", "", [n for n, _ in rows]), DataColumn("s", "", "", [s for _, s in rows])])
    data = zlib.decompress(base64.b64decode(packed(csv_text(table)))).decode()
    back = list(csv.reader(io.StringIO(data, newline="")))
    assert back[0] == ["n", "s"]
    assert [(int(n), s.removeprefix("'")) for n, s in back[1:]] == [(n, s.removeprefix("'")) for n, s in rows]
