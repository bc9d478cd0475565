"""Whole directories of every generation of traces, from files to aligned tables, against the truth of the job that wrote them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import tracelab
from tests.builders.kineto_writer import GENERATIONS, Job, write_job

JOB = Job(world=8, hosts=2, steps=5, seed=5, slow={5: 1.3}, loader_stalls={(2, 12): 3_000_000}, clock_offsets_ns=[0, 4_200_000])
NEAR_NS = 10_000
"""Clocks must be found again within this."""
NEAR = {"compute": 2_000, "memcpy": 2_000, "exposed_transfer": 20_000, "exposed_wait": 20_000, "idle": 150_000, "dataloader": 150_000}
"""The steps of the job begin with its last rank, those of the truth with each rank: that moves idle and loader time."""


class Case(NamedTuple):
    truth: dict[str, Any]
    run: tracelab.Run


@pytest.fixture(scope="module", params=GENERATIONS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The job in every generation. That of 2022 states no groups, and those that act in step cannot be told apart: it has the world alone."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    truth = write_job(folder, replace(JOB, generation=request.param, tp=1 if request.param == "2022" else 2))
    return Case(truth, tracelab.open(folder))


def _matches(run: tracelab.Run) -> pl.DataFrame:
    groups = run.tables["groups"].select("group_id", "ranks")
    return run.tables["matches"].join(groups, on="group_id").collect().with_columns(pl.col("operation").cast(pl.String))


def _by_operation(case: Case) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The truth of each collective beside what was found: the n-th of a group and kind in time is the n-th in truth."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in _matches(case.run).sort("end_ns").iter_rows(named=True):
        found.setdefault((*row["ranks"], row["operation"]), []).append(row)
    seen: Counter[tuple[Any, ...]] = Counter()
    pairs = []
    for c in case.truth["collectives"]:
        key = (*c["group"], c["operation"])
        pairs.append((c, found[key][seen[key]]))
        seen[key] += 1
    assert {k: len(v) for k, v in found.items()} == dict(seen)
    return pairs


def test_every_rank_stands_on_its_host(case: Case) -> None:
    ranks = case.run.tables["ranks"].collect()
    assert dict(zip(ranks["rank"].cast(pl.String), ranks["host"], strict=True)) == case.truth["hosts"]


def test_clocks_are_found_again(case: Case) -> None:
    clocks = case.run.tables["clocks"].collect()
    assert clocks["method"].to_list() == ["collective-ends"] * 2
    for row in clocks.iter_rows(named=True):
        assert row["offset_ns"] == pytest.approx(case.truth["clock_correction_ns"][row["host"]], abs=NEAR_NS)


def test_all_collectives_are_matched_on_all_ranks(case: Case) -> None:
    for truth, found in _by_operation(case):
        assert found["present"] == len(truth["group"])


def test_arrivals_waits_and_transfers_are_those_of_the_job(case: Case) -> None:
    arrivals = {(r["match_id"], r["rank"]): r for r in case.run.tables["arrivals"].collect().iter_rows(named=True)}
    for truth, found in _by_operation(case):
        assert found["transfer_ns"] == pytest.approx(truth["transfer_ns"], abs=NEAR_NS)
        for rank, wait in truth["wait_ns"].items():
            row = arrivals[found["match_id"], int(rank)]
            assert row["wait_ns"] == pytest.approx(wait, abs=2 * NEAR_NS)
            assert row["start_ns"] == pytest.approx(truth["start_ns"][rank], abs=NEAR_NS)


def test_a_last_rank_that_is_called_certain_is_the_last(case: Case) -> None:
    certain = [(truth, found) for truth, found in _by_operation(case) if found["last_certain"]]
    assert len(certain) > len(case.truth["collectives"]) / 5
    assert [(t["group"], t["step"]) for t, f in certain if t["last_rank"] != f["last_rank"]] == []


def test_sizes_are_exact_where_the_trace_states_them(case: Case) -> None:
    sizes = [(truth["bytes"], found["bytes"]) for truth, found in _by_operation(case)]
    if case.truth["generation"] == "2022":
        assert {found for _, found in sizes} == {None}
    else:
        assert all(truth == found for truth, found in sizes)


def test_time_of_each_rank_goes_where_it_went(case: Case) -> None:
    result = case.run.analyze(raise_errors=True)
    assert result.attribution is not None
    for rank, truth in case.truth["per_rank"].items():
        found = result.attribution.per_rank[rank]
        for kind, near_ns in NEAR.items():
            assert getattr(found, f"{kind}_s") * 1e9 == pytest.approx(truth[f"{kind}_ns"], abs=near_ns), (rank, kind)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_slow_gpu_is_named_with_what_it_cost(tmp_path: Path, generation: str) -> None:
    (culprit,) = write_job(tmp_path, replace(JOB, generation=generation, loader_stalls={}))["culprits"]
    (finding,) = tracelab.open(tmp_path).analyze(raise_errors=True).findings
    assert (finding.kind, finding.ranks, finding.hosts) == ("compute_straggler", [5], ["node-1"])
    assert finding.lost_s * 1e9 == pytest.approx(culprit["saved_ns"], rel=0.03)
    assert finding.lost_s_low <= finding.lost_s <= finding.lost_s_high


@pytest.mark.parametrize("generation", GENERATIONS)
def test_nobody_is_named_in_a_healthy_job(tmp_path: Path, generation: str) -> None:
    write_job(tmp_path, replace(JOB, generation=generation, slow={}, loader_stalls={}))
    result = tracelab.open(tmp_path).analyze(raise_errors=True)
    assert result.findings == []
    assert "No cause" in result.verdict


def test_a_stalled_loader_is_named_with_its_step(tmp_path: Path) -> None:
    (culprit,) = write_job(tmp_path, replace(JOB, slow={}))["culprits"]
    (finding,) = tracelab.open(tmp_path).analyze(raise_errors=True).findings
    assert (finding.kind, finding.ranks, finding.steps) == ("input_stall", culprit["ranks"], culprit["steps"])
    assert finding.lost_s * 1e9 == pytest.approx(culprit["saved_ns"], rel=0.05)


def test_a_rank_without_a_file_is_neither_blamed_nor_forgotten(tmp_path: Path) -> None:
    write_job(tmp_path, replace(JOB, missing=(5,), loader_stalls={}))
    result = tracelab.open(tmp_path).analyze(raise_errors=True)
    assert result.run.missing_ranks == [5]
    assert [f.ranks for f in result.findings if f.kind == "compute_straggler"] == []
    assert any("missing" in n.question for n in result.not_observable)


def test_lost_kernels_do_not_shift_the_matches(tmp_path: Path) -> None:
    truth = write_job(tmp_path, replace(JOB, generation="2025", dropped={1: 7}))
    run = tracelab.open(tmp_path)
    presence = Counter((tuple(m["ranks"]), m["operation"], m["present"]) for m in _matches(run).iter_rows(named=True))
    expected = Counter((tuple(c["group"]), c["operation"], len(c["present"])) for c in truth["collectives"] if len(c["present"]) > 1)
    assert {k: v for k, v in presence.items() if k[2] > 1} == expected
    clocks = run.tables["clocks"].collect()
    assert dict(zip(clocks["host"], clocks["offset_ns"], strict=True)) == pytest.approx(truth["clock_correction_ns"], abs=NEAR_NS)
