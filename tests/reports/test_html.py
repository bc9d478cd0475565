from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.result import HOSTILE, empty_result, example_result, quiet_result
from tests.reports.markup import Page, csv_of, parse
from tracelab.plugins import reporters
from tracelab.results import AnalysisStatus, Clock, Coverage, DataColumn, DataTable, Finding, RankInfo, ResultNotice, RunResult, Section
from tracelab_reports.html import REPORTER
from tracelab_reports.words import clean


@pytest.fixture(scope="module")
def result() -> RunResult:
    return example_result(16, 12, missing=2)


@pytest.fixture(scope="module")
def html(result: RunResult) -> str:
    return REPORTER.render(result)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return parse(html)


@pytest.fixture(scope="module")
def hostile() -> str:
    return REPORTER.render(example_result(8, 6, hostile=True))


def changed(**fields: Any) -> RunResult:
    return msgspec.structs.replace(empty_result(), **fields)


def test_is_registered_under_its_name() -> None:
    assert reporters()["html"] is REPORTER


def test_verdict_is_the_only_h1(page: Page, result: RunResult) -> None:
    assert page.one("h1").words == result.verdict


def test_headings_descend_one_by_one(page: Page) -> None:
    levels = [int(e.tag[1]) for e in page.all() if re.fullmatch(r"h[1-6]", e.tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_cost_and_job_follow_the_verdict(page: Page) -> None:
    top = page.one("section", class_="verdict")
    # 539 ms of 9.71 s; 0.539 s on 16 GPUs.
    assert top.one("p", class_="cost").words == "The costliest cause lost 539 ms, 5.6 % of the run, 8.63 GPU-seconds."
    assert top.one("p", class_="facts").words.startswith("16 ranks on 2 hosts, 12 steps, median step 780 ms, 9.71 s analysed, from 2026-02-25")
    assert "2 of 18 ranks are missing: ranks 16–17." in top.one("p", class_="warn").words


def test_each_finding_is_a_card_with_all_it_says(page: Page, result: RunResult) -> None:
    cards = page.all("article")
    assert [c.one("h3").words.split(" rank")[0] for c in cards] == ["Compute straggler", "Input stall", "Slow link"]
    for card, finding in zip(cards, result.findings, strict=True):
        assert card.attrs["id"] == f"finding-{finding.id}"
        assert card.one("span", class_="severity").words.lower() == finding.severity
        text = card.words
        for said in (
            finding.summary,
            finding.next_step,
            finding.confidence,
            finding.id,
            *(e.text for e in finding.evidence),
            *(e.source for e in finding.evidence),
        ):
            assert said in text
        assert card.one("button", data_anchor=card.attrs["id"]).attrs["aria-label"]
    link = cards[2].words
    assert "92.4 ms 18.5 ms to 166 ms; 1.0 % of the run" in link
    assert "node-1 mlx5_3 ↔ leaf-1 Ethernet12" in link


def test_a_long_subject_is_short_in_the_heading_and_whole_below(result: RunResult) -> None:
    hosts = [f"node-{i}" for i in range(9)]
    finding = msgspec.structs.replace(result.findings[0], ranks=list(range(0, 20, 2)), hosts=hosts, links=[])
    card = parse(REPORTER.render(changed(findings=[finding]))).one("article")
    assert card.one("span", class_="subject").words == "ranks 0, 2, 4 and 7 more on node-0, node-1, node-2 and 6 more"
    whole = card.one("dl", class_="subjects")
    assert [d.words for d in whole.all("dd")] == ["0, 2, 4, 6, 8, 10, 12, 14, 16, 18", ", ".join(hosts)]


def test_evidence_points_into_the_source(page: Page, result: RunResult) -> None:
    table = page.all("article")[0].one("table")
    assert table.rows()[0] == ["what", "source", "rank", "time in the source", "time after job start"]
    first = result.findings[0].evidence[0]
    assert table.rows()[1][:4] == [first.text, "traces/rank3.json.gz", "3", f"{first.source_ts_ns} ns"]


def test_links_within_the_page_have_a_target(page: Page) -> None:
    ids = [e.attrs["id"] for e in page.all() if "id" in e.attrs]
    assert len(ids) == len(set(ids))
    targets = {e.attrs["href"] for e in page.all("a")} | {"#" + e.attrs["data-anchor"] for e in page.all("button") if "data-anchor" in e.attrs}
    assert targets
    assert all(t.startswith("#") and t[1:] in ids for t in targets)
    labels = [e.attrs["aria-labelledby"] for e in page.all() if "aria-labelledby" in e.attrs]
    assert labels
    assert set(labels) <= set(ids)


def test_tables_have_captions_and_scoped_headings(page: Page) -> None:
    tables = page.all("table")
    assert len(tables) > 15
    for table in tables:
        assert table.one("caption").words
        assert {h.attrs.get("scope") for h in table.all("th")} <= {"col", "row"}
        width = {len(row) for row in table.rows()}
        assert len(width) == 1


def test_every_picture_has_words_and_a_table_beside_it(page: Page) -> None:
    figures = page.all("figure")
    assert [f.attrs["id"] for f in figures] == [
        "attribution-bar",
        "rank-times",
        "wait-heatmap",
        "compute-heatmap",
        "step-times",
        "arrivals-by-rank",
        "late-heatmap",
        "overlap-by-rank",
        "collective-classes",
        "traffic-pairs",
        "traffic-difference",
        "traffic-hosts",
        "traffic-nics",
        "traffic-steps",
    ]
    for figure in figures:
        chart = figure.one("div", class_="chart")
        assert chart.attrs["role"] == "img"
        assert re.search(r"\d", chart.attrs["aria-label"])
        assert figure.one("figcaption").words


def test_nothing_of_the_document_is_lost(page: Page, result: RunResult) -> None:
    titles = [t.one("caption").words for t in page.all("table")]
    for section in result.sections:
        for table in section.tables:
            assert titles.count(table.title.rstrip(".")) >= 1
    text = page.words
    for said in (
        *(n.question for n in result.not_observable),
        *(i.path for i in result.inputs),
        *(n.text for n in result.notices),
        *(a.id for a in result.analyses),
    ):
        assert said in text


def test_a_section_that_no_module_draws_is_shown_with_its_tables() -> None:
    table = DataTable("jitter", "Delays by period", [DataColumn("period_ns", "ns", "how often", [1_500_000, None]), DataColumn("host", "", "", ["a|b", "c"])])
    page = parse(REPORTER.render(changed(sections=[Section("new-analysis", "Jitter", "Does it come back?", "Every 1.50 ms.", [table])])))
    part = page.one("section", id="section-new-analysis")
    assert "Every 1.50 ms." in part.words
    assert part.one("table").rows() == [["period", "host"], ["1.50 ms", "a|b"], ["–", "c"]]
    assert csv_of(part.one("button", class_="csv")) == "period_ns,host\n1500000,a|b\n,c\n"
    assert part.all("details")[0].attrs.get("open") is not None


def test_sections_of_one_id_do_not_clash(result: RunResult) -> None:
    overlap = next(s for s in result.sections if s.id == "overlap")
    page = parse(REPORTER.render(changed(sections=[overlap, overlap])))
    ids = [e.attrs["id"] for e in page.all() if "id" in e.attrs]
    assert len(ids) == len(set(ids))
    assert len(page.all("figure")) == 1


def test_large_tables_show_their_first_rows_and_hold_all_in_the_csv(page: Page, result: RunResult) -> None:
    times = result.sections[1].table("rank_step_times")
    table = next(t for t in page.all("table") if t.one("caption").words == times.title.rstrip("."))
    assert len(table.rows()) == 1 + 20
    details = next(d for d in page.all("details") if table in d.all("table"))
    assert "The first 20 of 192 rows; 172 more are in the CSV." in details.words
    lines = csv_of(details.one("button", class_="csv")).splitlines()
    assert lines[0] == "rank,step,wall_ns,compute_ns,memcpy_ns,exposed_transfer_ns,exposed_wait_ns,idle_ns,dataloader_ns"
    assert len(lines) == 1 + 192
    assert lines[1 + 20] == ",".join(str(c.values[20]) for c in times.columns)


def test_rows_left_out_of_the_document_are_said() -> None:
    table = DataTable("t", "Many", [DataColumn("n", "", "", [1])], rows_left_out=1234)
    page = parse(REPORTER.render(changed(sections=[Section("s", "S", "?", "", [table])])))
    assert "1,234 rows were left out" in page.one("section", id="section-s").words


def test_trust_lists_what_is_missing_and_lost(page: Page) -> None:
    trust = page.one("section", id="trust")
    assert [li.words for li in trust.one("ul", class_="limits").all("li")] == [
        "2 of 18 ranks are missing: ranks 16–17.",
        "Data are cut off for rank 15.",
        "3 GPU events have no launch in the files: what caused them is unknown.",
        "The analysis links was answered in part: no file states which NIC a channel uses; hosts are compared instead.",
        "1 warning while reading: data were lost or are doubtful.",
    ]
    assert "16 ranks seen, 18 expected, 2 missing. Missing: ranks 16–17." in trust.words
    clocks = trust.one("section", id="clocks")
    assert clocks.one("table").rows()[1][:4] == ["node-0", "-731 µs", "4.20 µs", "0"]
    analyses = trust.one("section", id="analyses").one("table").rows()
    assert ["network", "not applicable", "no counters of network interfaces"] in analyses
    notices = trust.one("section", id="notices").one("table").rows()
    assert [row[0] for row in notices] == ["severity", "warning", "info"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Only one rank was seen: who waits for whom"),
        ({}, "No file states how many ranks the job had"),
        ({"analyses": [AnalysisStatus("x", "error", "boom")]}, "The analysis x failed: boom."),
        ({"clocks": [Clock("h", 0, 5, 0.0, None, "none", "D")]}, "The clocks of 1 host are known badly (grade D)"),
        ({"notices": [ResultNotice("f", "c", "error", 1, None, "t", "h")]}, "1 error while reading: a file or a rank was lost."),
    ],
)
def test_each_weakness_is_said(fields: dict[str, Any], said: str) -> None:
    assert said in parse(REPORTER.render(changed(**fields))).one("section", id="trust").words


def test_a_quiet_job_says_so_and_what_was_checked() -> None:
    page = parse(REPORTER.render(quiet_result()))
    findings = page.one("section", id="findings")
    assert "No cause of lost time stands out from noise." in findings.words
    assert "Checked: steps, stragglers, exposure." in findings.words
    assert "Not checked" not in findings.words
    assert page.all("figure") == []
    assert "bokeh" not in "".join(s.text.lower() for s in page.all("script") if "Bokeh.embed" not in s.text)


def test_a_result_of_no_analysis_claims_nothing() -> None:
    page = parse(REPORTER.render(changed(analyses=[AnalysisStatus("steps", "not_applicable", "no steps")])))
    assert "No analysis could be run on these files, so this says nothing about the job" in page.one("section", id="findings").words


def test_unknown_ranks_have_question_marks() -> None:
    page = parse(REPORTER.render(empty_result()))
    assert page.one("section", id="coverage").one("table").rows()[1][0] == "?1"


def test_the_page_loads_nothing(page: Page) -> None:
    loading = ("src", "srcset", "href", "action", "poster", "background", "ping", "formaction", "xlink:href")
    for element in page.all():
        assert element.tag not in {"link", "iframe", "object", "embed", "base", "form", "img", "video", "audio"}
        assert all(element.attrs[a].startswith("#") for a in loading if a in element.attrs)
        assert not any(a.startswith("on") for a in element.attrs)
    assert not re.search(r"url\(|@import", page.one("style").text)


def test_the_policy_allows_the_scripts_of_the_page_by_hash_and_nothing_else(page: Page) -> None:
    policy = page.one("meta", http_equiv="Content-Security-Policy").attrs["content"]
    rules = {r.split()[0]: r.split()[1:] for r in policy.split(";")}
    assert rules["default-src"] == ["'none'"]
    scripts = [s.text for s in page.all("script") if s.attrs.get("type") != "application/json"]
    assert len(scripts) == 3
    assert sorted(rules["script-src"]) == sorted(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    assert rules["style-src"] == ["'unsafe-inline'"]
    assert rules["img-src"] == ["data:"]
    head = page.one("head")
    assert [c.attrs.get("http-equiv", "") for c in head.all("meta")].index("Content-Security-Policy") == 1


def test_hostile_names_stay_text(hostile: str) -> None:
    page = parse(hostile)
    assert len(page.all("script")) == 4
    assert page.all("img") == []
    assert "</script><script>alert(1)" not in hostile
    text = page.words
    assert f"llama-8b-pretrain{HOSTILE}" in text
    assert f"traces/rank3{HOSTILE}.json.gz" in text
    assert "<img src=x onerror=alert(2)>" in text
    assert "{{7*7}}" in text
    assert r"void k<int>(T&&)\x1b[2J\u202egnp" in text
    assert "49" not in page.one("h1").words
    charts = page.one("script", id="charts").text
    assert "<" not in charts
    assert json.loads(charts)["charts"]["roots"]


def test_tex_is_never_asked_for() -> None:
    table = DataTable(
        "collective_classes",
        "t",
        [
            DataColumn("group", "", "", ["$$x$$", r"\(y\)", r"\[z\]"]),
            DataColumn("operation", "", "", ["$$a$$"] * 3),
            DataColumn("bytes", "B", "", [1, 2, 3]),
            DataColumn("transfer_total_ns", "ns", "", [10, 20, 30]),
            DataColumn("wait_total_ns", "ns", "", [10, 20, 30]),
        ],
    )
    page = parse(REPORTER.render(changed(sections=[Section("collectives", "C", "?", "", [table])])))
    charts = json.loads(page.one("script", id="charts").text)
    strings: list[str] = []

    def collect(node: Any) -> None:
        if isinstance(node, str):
            strings.append(node)
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            collect(child)

    collect(charts)
    assert any("x$" in s for s in strings)
    assert not [s for s in strings if re.search(r"\$\$|\\\(|\\\[", s)]


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=[]), min_size=1, max_size=60))
def test_any_text_is_shown_as_it_is(text: str) -> None:
    name = f"x{text}x"
    rank = RankInfo(0, name, None, name, [name])
    run = msgspec.structs.replace(empty_result().run, name=name, ranks=[rank], coverage=[Coverage(0, 0, truncated=False, notices=0)])
    html = REPORTER.render(changed(run=run, verdict=name))
    html.encode("utf-8")
    page = parse(html)
    assert page.one("h1").text == clean(name)
    assert len(page.all("script")) == 2


def test_findings_of_one_id_do_not_clash(result: RunResult) -> None:
    strange = msgspec.structs.replace(result.findings[0], id='"><script>')
    page = parse(REPORTER.render(changed(findings=[result.findings[0], result.findings[0], strange])))
    ids = [a.attrs["id"] for a in page.all("article")]
    assert len(set(ids)) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", i) for i in ids)


SPOILT: dict[str, Callable[[list[Any]], list[Any]]] = {
    "text": lambda v: ["x"] * len(v),
    "nothing": lambda v: [None] * len(v),
    "short": lambda v: v[:-1],
    "empty": lambda _: [],
    "huge": lambda v: [10**18] * len(v),
    "beyond int64": lambda v: [(-1) ** i * (2**63 + i) for i, _ in enumerate(v)],
    "far apart": lambda v: [(-1) ** i * 2**50 for i, _ in enumerate(v)],
    "infinite": lambda v: [float("inf")] * len(v),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_columns_of_the_wrong_type_or_length_do_no_harm(spoil: Callable[[list[Any]], list[Any]]) -> None:
    def spoilt(table: DataTable) -> DataTable:
        return DataTable(
            table.id, table.title, [DataColumn(c.name, c.unit, c.doc, spoil(c.values) if i % 2 else c.values) for i, c in enumerate(table.columns)]
        )

    result = example_result(4, 3)
    sections = [Section(s.id, s.title, s.question, s.answer, [spoilt(t) for t in s.tables]) for s in result.sections]
    page = parse(REPORTER.render(changed(sections=sections)))
    assert [s.attrs["id"] for s in page.all("section", class_="part") if s.attrs["id"].startswith("section-")] == [
        "section-breakdown",
        "section-steps",
        "section-waits",
        "section-overlap",
        "section-collectives",
        "section-traffic",
        "section-clocks",
    ]


def test_numbers_that_are_none_become_words(result: RunResult) -> None:
    nan = float("nan")
    finding: Finding = msgspec.structs.replace(result.findings[0], lost_s=nan, lost_s_low=nan, lost_s_high=float("inf"), lost_gpu_hours=nan)
    page = parse(REPORTER.render(changed(findings=[finding])))
    assert "unknown" in page.one("article").words
    assert "nan" not in page.one("article").words.lower()


def test_equal_results_give_equal_bytes(html: str, result: RunResult) -> None:
    assert REPORTER.render(result) == html


def test_other_processes_give_the_same_bytes(hostile: str) -> None:
    code = (
        "import sys, hashlib\n"
        "from tests.builders.result import example_result\n"
        "from tracelab_reports.html import REPORTER\n"
        "print(hashlib.sha256(REPORTER.render(example_result(8, 6, hostile=True)).encode()).hexdigest())\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env, cwd=root)
    assert done.stdout.strip() == hashlib.sha256(hostile.encode()).hexdigest()


def test_eight_ranks_fit_in_three_megabytes(hostile: str) -> None:
    assert len(hostile.encode()) < 3_000_000


def test_two_thousand_ranks_fit_in_five_megabytes() -> None:
    html = REPORTER.render(example_result(2048, 60))
    assert len(html.encode()) < 5_000_000
    page = parse(html)
    assert "Shown are the 40 of 2,048 ranks with the least exposed wait" in page.one("figure", id="rank-times").words
    assert "Each cell stands for 8 neighbouring ranks" in page.one("figure", id="wait-heatmap").words
    assert "leaves out 102,880 cells" in page.one("figure", id="wait-heatmap").words
