from __future__ import annotations

import re
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.result import empty_result, example_result
from tracelab.results import KINDS, SEVERITIES, Attribution, DataColumn, DataTable, Input, Link, RunResult, Section, StepTime
from tracelab_reports import words
from tracelab_reports.facts import cost_text, limits, share_text
from tracelab_reports.glossary import terms
from tracelab_reports.sections import body_of


def test_every_value_of_the_document_has_words() -> None:
    assert set(words.KINDS) == set(KINDS)
    assert set(words.SEVERITY) == set(SEVERITIES)
    assert set(words.CONFIDENCE) == {"proven", "likely", "possible"}
    assert set(words.STATUS) == {"ok", "not_applicable", "degraded", "error"}
    roles = re.search(r"`role`: (.*?)\.\n", Input.__doc__ or "", re.DOTALL)
    assert roles
    listed = {r.split()[0]: " ".join(r.split()[1:]).strip("()") for r in re.sub(r"\s+", " ", roles[1]).split(", ")}
    assert set(words.ROLES) == set(listed)
    assert (words.ROLES["no-events"], words.ROLES["unknown"]) == (listed["no-events"], listed["unknown"])


@pytest.mark.parametrize(
    ("ranks", "limit", "text"),
    [
        ([], 8, ""),
        ([3], 8, "rank 3"),
        ([2, 1, 0, 1], 8, "ranks 0–2"),
        ([0, 1, 2, 5, 7, 8], 8, "ranks 0–2, 5, 7–8"),
        ([0, 2, 4, 6, 8], 2, "ranks 0, 2 and 3 more"),
        (list(range(2048)), 4, "ranks 0–2047"),
        ([-1], 8, "rank ?1"),
        ([-3, -2, -1, 0, 1], 8, "ranks ?1–?3, 0–1"),
    ],
)
def test_ranks(ranks: list[int], limit: int, text: str) -> None:
    assert words.ranks_text(ranks, limit) == text


def test_subject() -> None:
    straggler, _, link = example_result(16).findings
    assert words.subject_text(straggler) == "rank 3 on node-0"
    assert words.subject_text(link) == "ranks 8–15 on node-1 mlx5_3 ↔ leaf-1 Ethernet12"
    assert words.subject_text(msgspec.structs.replace(straggler, ranks=[], hosts=[])) == "the whole job"
    many = msgspec.structs.replace(straggler, ranks=[], hosts=[f"h{i}" for i in range(9)])
    assert words.subject_text(many) == "h0, h1, h2, h3 and 5 more"


def test_links() -> None:
    assert words.link_text(Link("node-0", "mlx5_0", None, None)) == "node-0 mlx5_0"
    assert words.link_text(Link(None, None, "leaf-1", "Ethernet4")) == "leaf-1 Ethernet4"
    assert words.link_text(Link()) == "unnamed link"


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0.0, "0 GPU-seconds"),
        (0.0000001, "under 0.01 GPU-seconds"),
        (0.002, "7.2 GPU-seconds"),
        (0.25, "0.25 GPU-hours"),
        (12_345.6, "12,346 GPU-hours"),
        (float("inf"), "unknown GPU time"),
    ],
)
def test_gpu_time(hours: float, text: str) -> None:
    assert words.gpu_hours_text(hours) == text


def test_unknown_kinds_keep_their_words() -> None:
    assert words.kind_title("compute_straggler") == "Compute straggler"
    assert words.kind_title("exposed_wait") == "Exposed wait"
    assert words.kind_title("some_new_kind") == "Some new kind"


@given(st.text(st.characters(exclude_categories=[])))
def test_clean_text_hides_nothing_and_moves_nothing(text: str) -> None:
    cleaned = words.clean(text)
    cleaned.encode("utf-8")
    assert all(c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf", "Cs"} for c in cleaned)
    assert words.clean(cleaned) == cleaned
    assert "".join(c for c in text if c.isprintable()) == "".join(c for c in cleaned if c.isprintable() and c in text) or "\\" in cleaned


@given(st.text(), st.integers(1, 50))
def test_shortened_text_is_one_short_line(text: str, limit: int) -> None:
    line = words.shorten(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


def test_the_cost_is_that_of_the_costliest_cause_alone() -> None:
    result = example_result(16)
    assert cost_text(result).startswith("The costliest cause lost 539 ms")
    assert cost_text(empty_result()) == ""
    assert limits(msgspec.structs.replace(result, run=msgspec.structs.replace(result.run, coverage=[]), notices=[], analyses=[])) == []


def with_steps(lengths_s: list[float], left_out: int = 0, per_step: float | None = None) -> RunResult:
    """One finding of 2 s in steps of these lengths, in a run whose median step is 1 s."""
    result = example_result(4, 3)
    table = DataTable("step_times", "", [DataColumn("length_ns", "ns", "", [int(s * 1e9) for s in lengths_s])], left_out)
    return msgspec.structs.replace(
        result,
        run=msgspec.structs.replace(result.run, steps=5, step_time_s=StepTime(1.0, 1.0, 1.0)),
        findings=[msgspec.structs.replace(result.findings[0], lost_s=2.0)],
        sections=[Section("steps", "", "", "", [table])] if lengths_s else [],
        attribution=None if per_step is None else Attribution("s", per_step, [], 0.0, {}),
    )


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (with_steps([1, 1, 1, 1, 16]), "10.0 % of the run"),
        (with_steps([0.5, 0.5, 0.5, 0.5]), "100 % of the run"),
        (with_steps([0.5, 0.5]), ""),
        (with_steps([], per_step=8.0), "5.0 % of the run"),
        (with_steps([1, 1], left_out=3, per_step=8.0), "5.0 % of the run"),
        (with_steps([]), ""),
    ],
    ids=["one long step", "all of it", "more than all", "no table", "table cut", "nothing known"],
)
def test_the_share_is_of_the_sum_of_the_steps(result: RunResult, text: str) -> None:
    assert share_text(result, result.findings[0]) == text
    assert (text or "GPU-") in cost_text(result)


@pytest.mark.parametrize(
    ("given", "written"),
    [("rank 5: slow", "Rank 5: slow."), ("nvidia-smi -q", "nvidia-smi -q."), ("torch.compile it!", "torch.compile it!"), ("GPUs wait", "GPUs wait."), ("", "")],
)
def test_sentences(given: str, written: str) -> None:
    assert words.sentence(given) == written


def test_lateness_and_steps_are_explained_as_they_are_computed() -> None:
    meanings = dict(terms(example_result(4, 3)))
    assert meanings["late"] == "How much later than the first rank of an operation a rank arrived at it."
    assert "from the moment that the last rank left the step before to the moment that the last rank left this one" in meanings["step"]
    notes = {f.id: f.note for s in example_result(4, 3).sections for f in body_of(s).figures}
    assert "later than the first rank of each operation" in notes["arrivals-by-rank"]
    assert "from the moment that the last rank left the step before" in notes["step-times"]
