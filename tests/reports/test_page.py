"""What stands on the page, and what does not, where a result is thin, certain, priced or large."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.builders.result import empty_result, example_result, quiet_result
from tests.reports.markup import Page, parse
from tracelab.results import AnalysisStatus, Clock, DataColumn, DataTable, Price, RankInfo, RunResult, Section
from tracelab_reports.html import REPORTER
from tracelab_reports.markdown import REPORTER as MARKDOWN


@pytest.fixture(scope="module")
def result() -> RunResult:
    return example_result(16, 12, missing=2)


@pytest.fixture(scope="module")
def page(result: RunResult) -> Page:
    return parse(REPORTER.render(result))


def changed(**fields: Any) -> RunResult:
    return msgspec.structs.replace(empty_result(), **fields)


@pytest.mark.parametrize(
    ("fields", "said", "unchecked"),
    [
        ({"analyses": [AnalysisStatus("stragglers", "error", "boom"), AnalysisStatus("exposure", "ok")]}, "not all causes", "stragglers (failed: boom)"),
        ({"analyses": [AnalysisStatus("stragglers", "ok"), AnalysisStatus("exposure", "not_applicable")]}, "not all causes", "exposure (not applicable)"),
        ({"analyses": [AnalysisStatus("stragglers", "ok")]}, "not all causes", ""),
        ({"run": msgspec.structs.replace(quiet_result().run, steps=0)}, "show no step", ""),
    ],
)
def test_a_result_without_a_finding_says_what_was_not_checked(fields: dict[str, Any], said: str, unchecked: str) -> None:
    findings = parse(REPORTER.render(msgspec.structs.replace(quiet_result(), **fields))).one("section", id="findings")
    assert "stands out from noise" not in findings.words
    assert said in findings.one("strong").words
    assert [li.words for li in findings.all("li")] == ([unchecked] if unchecked else [])


def test_a_part_answer_still_counts_as_checked() -> None:
    analyses = [AnalysisStatus("stragglers", "degraded", "gaps"), AnalysisStatus("exposure", "ok")]
    findings = parse(REPORTER.render(msgspec.structs.replace(quiet_result(), analyses=analyses))).one("section", id="findings")
    assert "No cause of lost time stands out from noise." in findings.words
    assert findings.one("li").words == "stragglers (in part: gaps)"


def test_the_attribution_opens_the_time_of_each_rank(page: Page, result: RunResult) -> None:
    part = page.one("section", id="section-breakdown")
    assert part.all("figure")[0].attrs["id"] == "attribution-bar"
    assert "of a step could not be attributed to a cause" in part.words
    alone = parse(REPORTER.render(changed(attribution=result.attribution)))
    assert alone.one("section", id="section-attribution").all("figure")


def test_a_rest_of_rounding_is_no_time(result: RunResult) -> None:
    assert result.attribution is not None
    for rest in (-5e-17, 0.0, 4e-10):
        attribution = msgspec.structs.replace(result.attribution, unattributed=rest)
        part = parse(REPORTER.render(changed(attribution=attribution))).one("section", id="section-attribution")
        assert "attributed" not in part.words
        assert "0 ns" not in part.words


def test_the_answer_on_clocks_stands_beside_their_table(page: Page, result: RunResult) -> None:
    assert "The clocks of 2 hosts agree within 4.20 µs." in page.one("section", id="clocks").words
    assert page.all("section", id="section-clocks") == []
    assert [p.words for p in page.all("p", class_="answer")].count("The clocks of 2 hosts agree within 4.20 µs.") == 1
    bare = parse(REPORTER.render(changed(sections=result.sections)))
    assert "The clocks of 2 hosts" in bare.one("section", id="section-clocks").words


def test_the_top_says_how_far_to_trust_the_result_also_where_all_is_well() -> None:
    clocks = [Clock(h, 0, 5, 0.0, u, "collective-ends", "A") for h, u in (("a", 4_200), ("b", 5_350))]
    for known, said in ((clocks, "lost while reading, and the hosts' clocks are known to 5.35 µs."), (clocks[:1], "seen, and nothing was lost while reading.")):
        page = parse(REPORTER.render(msgspec.structs.replace(quiet_result(), clocks=known)))
        assert page.one("section", class_="verdict").one("p", class_="fine").words.endswith(said)


def test_price_and_range_stand_on_the_card(result: RunResult) -> None:
    first = msgspec.structs.replace(result.findings[0], lost_gpu_hours=4.0)
    exact = msgspec.structs.replace(result.findings[1], lost_gpu_hours=0.0001, lost_s=0.5, lost_s_low=0.5, lost_s_high=0.5)
    step = msgspec.structs.replace(result.findings[2], lost_gpu_hours=0.0)
    page = parse(REPORTER.render(msgspec.structs.replace(result, findings=[first, exact, step], price=Price(312.5, "<USD>"))))
    numbers = [[d.words for d in card.one("dl", class_="numbers").all("dd")] for card in page.all("article")]
    assert [row[1] for row in numbers] == ["4.00 GPU-hours 1,250.00 <USD>", "0.36 GPU-seconds 0.03 <USD>", "not measured"]
    assert "4.00 GPU-hours (1,250.00 <USD>)." in page.one("p", class_="cost").words
    assert numbers[1][0] == "500 ms 5.1 % of the run"
    assert "USD" not in parse(REPORTER.render(result)).words


def test_the_length_of_a_table_decides_whether_it_is_open() -> None:
    for rows, shown in ((16, True), (17, False)):
        table = DataTable("t", "T", [DataColumn("n", "", "", list(range(rows)))])
        (details,) = parse(REPORTER.render(changed(sections=[Section("s", "S", "?", "", [table])]))).one("section", id="section-s").all("details")
        assert ("open" in details.attrs) == shown


def test_hosts_without_a_name_are_explained_once() -> None:
    ranks = [RankInfo(r, f"unnamed-host-{r // 2}" if r else "node-0", r % 2, None, []) for r in range(4)]
    text = parse(REPORTER.render(changed(run=msgspec.structs.replace(empty_result().run, ranks=ranks)))).words
    assert text.count("No file names the host of ranks 1–3.") == 1
    assert "No file names the host" not in parse(REPORTER.render(empty_result())).words


def test_missing_ranks_are_ranges(result: RunResult) -> None:
    run = msgspec.structs.replace(result.run, world_size=128, missing_ranks=[3, *range(17, 128)])
    lost = msgspec.structs.replace(result, run=run)
    page = parse(REPORTER.render(lost))
    assert "112 of 128 ranks are missing: ranks 3, 17–127." in page.one("section", class_="verdict").words
    assert "112 missing. Missing: ranks 3, 17–127." in page.one("section", id="coverage").words
    assert "ranks 3, 17–127." in MARKDOWN.render(lost)


def test_a_summary_in_lower_case_becomes_a_sentence(result: RunResult) -> None:
    finding = msgspec.structs.replace(result.findings[0], summary="rank 5: slow", next_step="nvidia-smi -q")
    card = parse(REPORTER.render(changed(findings=[finding]))).one("article")
    assert card.one("p", class_="summary").words == "Rank 5: slow."
    assert card.one("p", class_="next").words == "Next step. nvidia-smi -q."
