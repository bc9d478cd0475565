from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.result import empty_result, example_result
from tracelab.results import KINDS, SEVERITIES, AnalysisStatus, Link
from tracelab_reports import words
from tracelab_reports.facts import cost_text, limits


def test_every_value_of_the_document_has_words() -> None:
    assert set(words.KINDS) == set(KINDS)
    assert set(words.SEVERITY) == set(SEVERITIES)
    assert set(words.CONFIDENCE) == {"proven", "likely", "possible"}
    assert set(words.STATUS) == {"ok", "not_applicable", "degraded", "error"}
    assert msgspec.convert(["x", "error"], list[str])
    assert {AnalysisStatus("a", s).status for s in ("ok", "not_applicable", "degraded", "error")} <= set(words.STATUS)


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
