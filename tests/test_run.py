"""The whole way from files to the result document, against the truth of simulated jobs and of real files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

import tracelab as tl
from tests.builders.kineto_writer import GENERATIONS, Job, write_job
from tracelab.errors import NoUsableInputError, UnknownNameError
from tracelab.plugins import reporter
from tracelab.results import RunResult, json_schema

OFFSETS = [0, 3_400_000, -7_100_000, 900_000]


@pytest.fixture(scope="module", params=GENERATIONS)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[tl.Run, dict[str, Any], Job]:
    job = Job(generation=request.param, world=8, hosts=4, steps=5, seed=9, slow={5: 1.4}, clock_offsets_ns=OFFSETS)
    folder = tmp_path_factory.mktemp("traces")
    truth = write_job(folder, job)
    return tl.open(folder), truth, job


def test_every_generation_gives_the_same_verdict(opened: tuple[tl.Run, dict[str, Any], Job]) -> None:
    run, truth, _ = opened
    result = run.analyze(raise_errors=True)
    culprit = truth["culprits"][0]
    top = result.findings[0]
    assert (top.kind, top.ranks) == (culprit["kind"], culprit["ranks"])
    assert top.lost_s == pytest.approx(culprit["saved_ns"] / 1e9, rel=0.15)
    assert "rank 5" in result.verdict.lower()
    assert result.run.world_size == 8
    assert result.run.missing_ranks == []
    assert [s for s in result.analyses if s.status == "error"] == []


def test_the_document_fits_its_schema_and_survives_json(opened: tuple[tl.Run, dict[str, Any], Job]) -> None:
    result = opened[0].analyze()
    text = result.to_json()
    jsonschema.Draft202012Validator(json_schema()).validate(json.loads(text))
    assert RunResult.from_json(text) == result
    assert RunResult.from_json(text).to_json() == text


def test_clocks_are_what_was_put_in(opened: tuple[tl.Run, dict[str, Any], Job]) -> None:
    run, _, job = opened
    if job.generation == "2022":
        return  # without host names, hosts are inferred: see the test below
    clocks = {c["host"]: c for c in run.tables["clocks"].collect().iter_rows(named=True)}
    mean = sum(OFFSETS) / len(OFFSETS)
    for number, ahead in enumerate(OFFSETS):
        c = clocks[f"node-{number}"]
        assert c["offset_ns"] == pytest.approx(mean - ahead, abs=20_000), "added to a clock that runs ahead: a negative number"
        assert c["grade"] in ("A", "B")
    assert sum(c["offset_ns"] for c in clocks.values()) == pytest.approx(0, abs=20_000)


def test_time_of_each_rank_is_that_of_the_simulation(opened: tuple[tl.Run, dict[str, Any], Job]) -> None:
    run, truth, job = opened
    attribution = run.analyze().attribution
    assert attribution is not None
    # without metadata, a few operations of inferred groups stay unmatched: their waiting counts as transfer
    within = 0.02 if job.generation == "2022" else 0.01
    for rank, times in truth["per_rank"].items():
        got = attribution.per_rank[rank]
        window = sum(times[k] for k in ("compute_ns", "memcpy_ns", "exposed_transfer_ns", "exposed_wait_ns", "idle_ns"))
        for name, expected in times.items():
            assert abs(getattr(got, name.replace("_ns", "_s")) * 1e9 - expected) <= within * window, (rank, name)


def test_causes_and_rest_add_up(opened: tuple[tl.Run, dict[str, Any], Job]) -> None:
    attribution = opened[0].analyze().attribution
    assert attribution is not None
    assert sum(c.seconds for c in attribution.causes) + attribution.unattributed == pytest.approx(attribution.per_step_total, abs=1e-9)


def test_a_host_without_a_name_is_made_up_and_said(tmp_path: Path) -> None:
    write_job(tmp_path / "a", Job(generation="2022", world=4, hosts=2, steps=3))
    for i, path in enumerate(sorted((tmp_path / "a").iterdir())):
        path.rename(tmp_path / "a" / f"rank{i}.json.gz")
    hosts = tl.open(tmp_path / "a").sources["host"].to_list()
    assert hosts == ["unnamed-host-0", "unnamed-host-0", "unnamed-host-1", "unnamed-host-1"]


def test_evidence_points_into_the_file(tmp_path: Path) -> None:
    write_job(tmp_path, Job(world=4, hosts=2, steps=6, slow={2: 1.6}, compress=False))
    finding = tl.open(tmp_path).analyze().findings[0]
    evidence = finding.evidence[0]
    assert evidence.rank == 2
    document = json.loads((tmp_path / evidence.source).read_text())
    base = document["baseTimeNanoseconds"]
    assert any(base + round(e["ts"] * 1000) == evidence.source_ts_ns for e in document["traceEvents"] if "ts" in e)


def test_ids_survive_a_rerun_elsewhere(tmp_path: Path) -> None:
    write_job(tmp_path / "a", Job(world=4, hosts=2, steps=6, slow={2: 1.6}))
    shutil.copytree(tmp_path / "a", tmp_path / "other" / "a")
    first, again = tl.open(tmp_path / "a").analyze(), tl.open(tmp_path / "other" / "a", cache_dir=tmp_path / "cache").analyze()
    assert first.to_json() == again.to_json()


def test_a_missing_rank_is_said_and_the_rest_analysed(tmp_path: Path) -> None:
    write_job(tmp_path, Job(world=8, hosts=2, steps=5, missing=[3]))
    result = tl.open(tmp_path).analyze()
    assert result.run.missing_ranks == [3]
    assert len(result.run.ranks) == 7
    assert "7 of 8 ranks" in result.verdict
    assert any("missing rank" in n.question for n in result.not_observable)


def test_damage_costs_one_rank_and_is_said(tmp_path: Path) -> None:
    truth = write_job(tmp_path, Job(world=4, hosts=2, steps=5))
    torn = tmp_path / truth["files"]["1"]
    torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
    (tmp_path / truth["files"]["2"]).write_bytes(b"")
    result = tl.open(tmp_path).analyze()
    by_code = {(n.path, n.code) for n in result.notices}
    assert (truth["files"]["1"], "truncated") in by_code
    assert (truth["files"]["2"], "empty-file") in by_code
    assert [c.truncated for c in result.run.coverage if c.rank == 1] == [True]
    assert result.run.missing_ranks == [2]


def test_a_torn_file_that_lost_its_time_base_stays_in_its_job(tmp_path: Path) -> None:
    job = Job(generation="2024", world=4, hosts=2, steps=5, clock_offsets_ns=[0, 2_000_000], compress=False)  # the base stands at the end
    truth = write_job(tmp_path, job)
    torn = tmp_path / truth["files"]["2"]
    torn.write_bytes(torn.read_bytes()[: int(torn.stat().st_size * 0.7)])
    run = tl.open(tmp_path)
    assert run.rank_map.ranks == (0, 1, 2, 3)
    assert run.rank_map.missing == ()
    assert (truth["files"]["2"], "borrowed-time-base") in {(n.path, n.notice.code) for n in run.notices}
    spans = run.tables["gpu_spans"].group_by("rank").agg(pl.col("ts_ns").min()).sort("rank").collect()["ts_ns"]
    assert spans.max() - spans.min() < 5_000_000, "on one axis with the others"  # type: ignore[operator]
    matched = run.tables["matches"].filter(pl.col("present") == pl.col("members")).collect().height
    assert matched > 20


def test_tables_by_name(tmp_path: Path) -> None:
    write_job(tmp_path, Job(world=2, hosts=1, steps=2))
    run = tl.open(tmp_path)
    assert set(run.tables["gpu_spans"].select(pl.col("rank").unique()).collect()["rank"]) == {0, 1}
    with pytest.raises(UnknownNameError, match="did you mean 'collectives'"):
        run.tables["colectives"]
    assert "memory_events" not in run.tables
    assert repr(run).endswith("2 of 2 ranks, 2 of 2 files>")


def test_nothing_usable_raises_and_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(NoUsableInputError, match="Markdown text"):
        tl.open(tmp_path).analyze()


def test_steps_that_the_manifest_skips_do_not_count(tmp_path: Path) -> None:
    write_job(tmp_path, Job(world=2, hosts=1, steps=4, first_step=10))
    (tmp_path / "tracelab.toml").write_text("[steps]\nskip = [10, 13]\n")
    assert tl.open(tmp_path).analyze().run.steps == 2


def test_a_stated_price_turns_lost_time_into_money(tmp_path: Path) -> None:
    write_job(tmp_path / "d", Job(world=4, hosts=2, steps=6, slow={2: 1.6}))
    (tmp_path / "d" / "tracelab.toml").write_text('[cost]\nper_gpu_hour = 90000\ncurrency = "EUR"\n')
    result = tl.open(tmp_path / "d").analyze()
    assert result.price is not None
    hours = result.findings[0].lost_s * 4 / 3600
    assert f"({hours * 90000:,.2f} EUR)" in reporter("html").render(result)
    assert result.findings[0].lost_gpu_hours == pytest.approx(hours)


def test_dlrm_last_arrivers_and_spreads(test_data: Callable[[str], Path]) -> None:
    """Known truth of eight real ranks on one clock."""
    matches = tl.open(test_data("torch/dlrm_8xV100")).tables["matches"].sort("first_start_ns").collect()
    assert matches["last_rank"].to_list() == [7, 7, 7, 7, 7, 5, 5, 4]
    spread = (matches["last_start_ns"] - matches["first_start_ns"]).to_list()
    assert [s // 1000 for s in spread] == [7624, 1101, 168, 125, 223, 534, 584, 885]
    assert [s // 1000 for s in matches["end_spread_ns"].to_list()] == [2, 2, 1, 2, 5, 3, 5, 7]


def test_all_real_files_at_once(test_data: Callable[[str], Path]) -> None:
    """Many jobs and formats in one directory: each file is named with what it is and whom it belongs to."""
    found = tl.open(test_data("torch")).inspect()
    jobs = {tuple(sorted({f.split("/")[0] for f in j.files})): (j.ranks, j.world_size) for j in found.jobs}
    assert jobs["dlrm_8xV100",] == (8, 8)
    assert jobs["gloo_4rank_cpu",] == (4, 4)
    assert jobs["sampled_2of128",] == (2, 128)
    assert all(len(folders) == 1 for folders in jobs), "no two sets are one job"
    assert [r.rank for r in found.ranks] == list(range(8))
    roles = {i.role for i in found.inputs if "oracles" not in i.path}
    assert roles == {"analysed", "other-job"}
    assert all(i.note for i in found.inputs if i.role == "unknown")
