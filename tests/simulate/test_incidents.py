"""Simulated incidents as directories: read back, and judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracelab
from tracelab.results import Finding
from tracelab.simulate import Cluster, Fault, Job, Scenario, lost_ns, run
from tracelab.simulate.clocks import Skew
from tracelab.simulate.directory import Collection, clocks_of, write_incident
from tracelab.simulate.model import Layout, Outcome
from tracelab.simulate.truth import truth_of
from tracelab.simulate.writers.counters import Meters
from tracelab.simulate.writers.kineto import GENERATIONS, Generation

C = Cluster(hosts=2, gpus=2, nics=2)


def written(tmp_path: Path, *faults: Fault, layout: Layout = "fsdp", what: Collection | None = None) -> tuple[Path, Outcome, dict[str, Any]]:
    return written_of(tmp_path, Scenario(C, Job(layout=layout, steps=6, layers=4, layer_mbytes=150), faults, seed=7), what)


def written_of(tmp_path: Path, scenario: Scenario, what: Collection | None = None) -> tuple[Path, Outcome, dict[str, Any]]:
    outcome = run(scenario)
    clocks = clocks_of(outcome, Skew())
    truth = truth_of(outcome, clocks, lost_ns(scenario, outcome))
    write_incident(tmp_path / "job", outcome, clocks, truth, what or Collection())
    return tmp_path / "job", outcome, truth


def opened(directory: Path) -> tracelab.Run:
    return tracelab.open(directory, cache_dir=directory.parent / "cache")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_traces_say_what_happened(tmp_path: Path, generation: Generation) -> None:
    directory, outcome, truth = written(tmp_path, what=Collection(generation, counters="none", switches=False, wiring=False, logs=False))
    tables = opened(directory).tables
    spans = tables["gpu_spans"].collect()
    assert spans.group_by("rank").len().sort("rank")["len"].to_list() == [len(s) for s in outcome.gpu]
    precision = 1_000 if generation == "2022" else 1
    for rank in range(C.world):
        mine = spans.filter(pl.col("rank") == rank).sort("correlation")["dur_ns"].to_list()
        # a clock that drifts by 5 ppm stretches them
        assert mine == pytest.approx([s.end - s.start for s in sorted(outcome.gpu[rank], key=lambda s: s.correlation)], rel=1e-5, abs=precision + 100)
    assert tables["steps"].filter(pl.col("rank") == 0).collect()["step"].to_list() == [s["step"] for s in truth["steps"]]
    matches = tables["matches"].collect()
    assert (matches.height, set(matches["present"])) == (len(outcome.collectives), {C.world})


def test_clocks_are_found(tmp_path: Path) -> None:
    directory, _, truth = written(tmp_path)
    clocks = opened(directory).tables["clocks"].collect()
    stated = dict(clocks.select("host", "offset_ns").iter_rows())
    true = {c["machine"]: -c["offset_ns_mid"] for c in truth["clocks"]}
    apart = (stated["node02"] - stated["node01"]) - (true["node02"] - true["node01"])
    assert abs(apart) < 30_000, "ends are biased by up to 20 µs"


def test_counters_count_what_links_carried(tmp_path: Path) -> None:
    directory, outcome, _ = written(tmp_path)
    rates = opened(directory).tables["counter_rates"].filter((pl.col("counter").cast(pl.String) == "bytes") & (pl.col("node") == "node01"))
    rates = rates.filter((pl.col("device").cast(pl.String) == "ens1f0np0") & (pl.col("direction").cast(pl.String) == "tx"))
    carried = sum(x.bytes_per_s * (x.end - x.start) / 1e9 for x in outcome.loads if x.link == "nic:0:0:tx")
    assert rates.select(pl.col("delta").sum()).collect().item() == pytest.approx(carried, abs=100)


def test_equal_scenarios_give_equal_files(tmp_path: Path) -> None:
    one, _, _ = written(tmp_path / "one")
    two, _, _ = written(tmp_path / "two")
    files = sorted(p.relative_to(one) for p in one.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(two) for p in two.rglob("*") if p.is_file())
    assert all((one / p).read_bytes() == (two / p).read_bytes() for p in files)


def test_missing_ranks_and_lost_events(tmp_path: Path) -> None:
    directory, outcome, _ = written(tmp_path, what=Collection(missing=(1,), dropped=0.1))
    spans = opened(directory).tables["gpu_spans"].collect()
    assert 1 not in spans["rank"].to_list()
    kept = spans.filter(pl.col("rank") == 0).height / len(outcome.gpu[0])
    assert 0.8 < kept < 0.97


def found(directory: Path) -> list[Finding]:
    return [f for f in opened(directory).analyze().findings if f.kind != "exposed_communication"]


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_a_healthy_job_blames_nobody(tmp_path: Path, layout: Layout) -> None:
    assert found(written(tmp_path, layout=layout)[0]) == []


FAULTS = [
    (Fault("slow_gpu", 1.3, ranks=(1,)), "compute_straggler"),
    (Fault("slow_link", 0.2, hosts=(1,)), "slow_link"),
    (Fault("packet_loss", 0.005, hosts=(1,), nic=1), "packet_loss"),
    (Fault("link_flap", 0.3, hosts=(0,), onset=0.4), "link_flap"),
    (Fault("congestion", 0.25, hosts=(1,), onset=0.3), "congestion"),
    (Fault("input_stall", 0.04, ranks=(3,), every=2), "input_stall"),
]


@pytest.mark.parametrize(("fault", "kind"), FAULTS, ids=[kind for _, kind in FAULTS])
def test_a_fault_is_found_with_what_it_cost(tmp_path: Path, fault: Fault, kind: str) -> None:
    directory, _, truth = written(tmp_path, fault)
    (finding,) = found(directory)
    (true,) = truth["faults"]
    assert finding.kind == kind
    if fault.ranks:
        assert finding.ranks == list(fault.ranks)
    else:
        assert [f"{x.host} {x.nic}" for x in finding.links] == true["links"]
    assert finding.lost_s == pytest.approx(true["lost_s"], abs=max(0.15 * true["lost_s"], 0.01))


def test_ranks_that_compute_slower_beside_slow_transfers_are_not_to_blame(tmp_path: Path) -> None:
    """Compute takes 8 % longer while communication runs beside it: longest on the odd ranks, whose rings use the adapter that loses packets."""
    job = Job(layout="tp_dp", steps=6, layers=4, layer_mbytes=50)
    loss = Fault("packet_loss", 0.005, hosts=(1,), nic=1)
    directory, outcome, truth = written_of(tmp_path, Scenario(Cluster(hosts=4, gpus=2), job, (loss,), seed=3))
    compute = [sum(s.end - s.start for s in spans if s.kind == "kernel") for spans in outcome.gpu]
    assert min(compute[1::2]) > 1.015 * max(compute[::2])
    (finding,) = found(directory)
    assert finding.kind == "packet_loss"
    assert finding.lost_s == pytest.approx(truth["faults"][0]["lost_s"], rel=0.25)


def test_the_truth_names_what_was_done(tmp_path: Path) -> None:
    directory, outcome, truth = written(tmp_path, Fault("slow_link", 0.2, hosts=(1,)))
    assert json.loads((directory / "truth.json").read_text()) == json.loads(json.dumps(truth))
    (fault,) = truth["faults"]
    assert (fault["finding"], fault["links"]) == ("slow_link", ["node02 mlx5_0"])
    assert truth["run_s"] == outcome.step_ends[-1] / 1e9


def test_a_port_that_was_down_counts_it_once() -> None:
    outcome = run(Scenario(C, Job(steps=4, layers=3), (Fault("link_flap", 0.1, hosts=(0,), onset=0.5),), seed=1))
    meters = Meters(outcome)
    end = outcome.step_ends[-1]
    assert [meters.read("nic:0:0:rx", t)["down"] for t in (0, end // 4, end)] == [0, 0, 1]
    assert meters.read("nic:1:0:rx", end)["down"] == 0
