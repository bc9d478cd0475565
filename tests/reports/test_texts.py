from __future__ import annotations

import io
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.builders.result import HOSTILE, empty_result, example_result, quiet_result
from tracelab.plugins import reporters
from tracelab.results import AnalysisStatus, NotObservable, Price, RunResult
from tracelab_reports import markdown, text
from tracelab_reports.terminal import print_result

NOISY = msgspec.structs.replace(
    example_result(64, 12, missing=5),
    findings=[msgspec.structs.replace(f, id=f"f{i}-{f.id}", evidence=f.evidence * 5) for i in range(40) for f in example_result(64).findings],
    not_observable=[NotObservable("q" * 500, "r", "c" * 500)] * 30,
    analyses=[AnalysisStatus("a" * 300, "error", "e")] * 30,
)

RESULTS = {"noisy": NOISY, "large": example_result(2048, 2), "hostile": example_result(8, 6, hostile=True), "empty": empty_result()}


def shown(result: RunResult, width: int, **options: object) -> list[str]:
    out = io.StringIO()
    print_result(result, Console(file=out, width=width, _environ={}, **options))  # type: ignore[arg-type]
    return out.getvalue().splitlines()


def test_are_registered_under_their_names() -> None:
    assert reporters()["markdown"] is markdown.REPORTER
    assert reporters()["text"] is text.REPORTER


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_a_ticket_has_at_most_forty_lines(result: RunResult) -> None:
    lines = markdown.REPORTER.render(result).splitlines()
    assert len(lines) <= 40
    assert all(len(line) < 1_500 for line in lines)


def test_a_ticket_stands_alone() -> None:
    result = example_result(16, missing=2)
    ticket = markdown.REPORTER.render(result)
    lines = ticket.splitlines()
    assert lines[0] == f"**{result.verdict}**"
    assert "16 ranks on 2 hosts, 12 steps" in lines[2]
    assert "| Critical | Compute straggler | rank 3 on node-0 | 539 ms (502 ms to 561 ms) | likely |" in lines
    assert "| Minor | Slow link | ranks 8–15 on node-1 mlx5\\_3 ↔ leaf-1 Ethernet12 | 92.4 ms (18.5 ms to 166 ms) | possible |" in lines
    for finding in result.findings:
        assert markdown.escape(finding.next_step) in ticket
        assert markdown.escape(finding.evidence[0].source) in ticket
    assert "- 2 of 18 ranks are missing: ranks 16–17." in lines
    assert any(line.startswith("- Does a switch drop packets? Collect: ethtool -S") for line in lines)
    assert lines[-1] == "tracelab 0.1.0, tracelab.findings/1"


def test_what_does_not_fit_a_ticket_is_counted() -> None:
    ticket = markdown.REPORTER.render(NOISY)
    assert "and 115 findings more" in ticket
    assert "- and 28 more, see the full report" in ticket


def test_a_quiet_job_says_so_in_a_ticket() -> None:
    ticket = markdown.REPORTER.render(quiet_result())
    assert "No cause of lost time stands out from noise. Checked: steps, stragglers, exposure." in ticket.splitlines()
    assert "Not checked" not in ticket


def test_a_ticket_says_what_was_not_checked() -> None:
    lines = markdown.REPORTER.render(empty_result()).splitlines()
    assert "The files show no step, so lost time could not be looked for. Checked: overlap." in lines
    assert "Not checked, or in part: stragglers (not applicable: one rank alone has no peers)." in lines


def test_a_ticket_states_the_price() -> None:
    result = example_result(16)
    first = msgspec.structs.replace(result.findings[0], lost_gpu_hours=4.0)
    lines = markdown.REPORTER.render(msgspec.structs.replace(result, findings=[first], price=Price(312.5, "<b>$")))
    assert "| rank 3 on node-0 | 539 ms (502 ms to 561 ms), 1,250.00 &lt;b&gt;\\$ | likely |" in lines
    assert "4.00 GPU-hours (1,250.00 &lt;b&gt;\\$)." in lines


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("a|b", r"a\|b"),
        ("`rm`", r"\`rm\`"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("one\n# two\r\n- three", r"one # two\\x0d - three"),
        ("@team #12 !3", "@\u2060team #\u206012 !\u20603"),
        ("[x](https://y.z) www.a.b", "\\[x\\](https:\u2060//y.z) www\u2060.a.b"),
        ("__init__ *x* ~~y~~ $z$ \\", r"\_\_init\_\_ \*x\* \~\~y\~\~ \$z\$ " + "\\\\"),
        ("\x1b[2J\u202e", r"\\x1b\[2J\\u202e"),
    ],
)
def test_hostile_text_is_no_markup(given: str, written: str) -> None:
    assert markdown.escape(given) == written


@given(st.text(st.characters(exclude_categories=[])))
def test_escaped_text_holds_no_live_markup(given: str) -> None:
    line = markdown.escape(given)
    assert "\n" not in line
    assert not re.search(r"[<>]", line)
    bare = re.sub(r"\\.", "", line)
    assert not re.search(r"[`*_|~$\[\]]", bare)
    assert not re.search(r"[@#!]\w", line)


def test_hostile_names_are_no_markup_in_a_ticket() -> None:
    ticket = markdown.REPORTER.render(example_result(8, 6, hostile=True))
    assert "<script" not in ticket
    assert "rank3&lt;/script&gt;&lt;script&gt;alert(1)" in ticket


def test_the_text_is_verdict_and_table() -> None:
    result = example_result(16)
    lines = text.REPORTER.render(result).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("severity"))
    assert " ".join(lines[:head]) == result.verdict
    assert lines[head].split() == ["severity", "cause", "where", "lost", "confidence"]
    assert lines[head + 1].split() == ["Critical", "Compute", "straggler", "rank", "3", "on", "node-0", "539", "ms", "likely"]
    assert all(len(line) <= 80 for line in lines)
    after = " ".join(lines[head + 5 :])
    for finding in result.findings[:3]:
        assert f"next, for {finding.kind.replace('_', ' ')}: {finding.next_step}" in after
    assert after.endswith("the files cannot answer: see the report")


@pytest.mark.parametrize("result", [NOISY, example_result(8, 6, hostile=True)], ids=["noisy", "hostile"])
@pytest.mark.parametrize("width", [80, 132])
def test_a_terminal_is_never_wider_than_it_is(result: RunResult, width: int) -> None:
    lines = shown(result, width)
    assert all(len(line) <= width for line in lines)
    assert any("Critical" in line for line in lines)


def test_more_findings_than_a_screen_holds_are_counted() -> None:
    assert "and 100 findings more" in shown(NOISY, 80)


def test_colour_is_the_console_s_affair() -> None:
    plain = shown(example_result(16), 80, force_terminal=True, no_color=True)
    coloured = shown(example_result(16), 80, force_terminal=True, color_system="standard")
    assert not any(re.search(r"\x1b\[[0-9;]*3[0-9]", line) for line in plain)
    assert any("\x1b[1;31mCritical" in line for line in coloured)


def test_hostile_names_move_no_cursor_and_style_nothing() -> None:
    result = example_result(8, 6)
    evil = msgspec.structs.replace(result.findings[0], hosts=["\x1b[2J[bold red]x[/]"], ranks=[])
    lines = shown(msgspec.structs.replace(result, findings=[evil], verdict="\x1b]0;title\x07[link=http://x]y[/link]"), 80)
    assert "\x1b" not in "".join(lines)
    assert lines[0] == r"\x1b]0;title\x07[link=http://x]y[/link]"
    assert "[bold red]" in "".join(lines)


def test_hostile_literal_text_is_all_there() -> None:
    joined = "".join(shown(example_result(8, 6, hostile=True), 200))
    assert HOSTILE in joined


def test_nothing_found() -> None:
    assert shown(quiet_result(), 80) == [quiet_result().verdict]
    odd = msgspec.structs.replace(quiet_result(), verdict="3 of 8 ranks seen")
    assert shown(odd, 80) == ["3 of 8 ranks seen", "No cause of lost time stands out from noise."]


@pytest.mark.parametrize("analysis", ["stragglers", "exposure"])
@pytest.mark.parametrize("status", ["error", "not_applicable"])
def test_nothing_found_is_not_said_where_it_was_not_looked_for(analysis: str, status: str) -> None:
    quiet = msgspec.structs.replace(quiet_result(), verdict="Unsaid")
    ended = [msgspec.structs.replace(a, status=status) if a.id == analysis else a for a in quiet.analyses]
    assert shown(msgspec.structs.replace(quiet, analyses=ended), 80) == ["Unsaid"]
    assert shown(msgspec.structs.replace(quiet, run=msgspec.structs.replace(quiet.run, steps=0)), 80) == ["Unsaid"]


@settings(max_examples=25)
@given(st.integers(2, 40), st.integers(1, 4))
def test_equal_results_give_equal_texts(ranks: int, steps: int) -> None:
    for reporter in (markdown.REPORTER, text.REPORTER):
        assert reporter.render(example_result(ranks, steps)) == reporter.render(example_result(ranks, steps))
