"""Analyses of simulated incidents against their truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.builders.incidents import WHOLE, incident
from tests.builders.run import findings
from tracelab.analyses import ANALYSES
from tracelab.analysis import run_analyses
from tracelab.results import Finding

EXPECTED: dict[str, tuple[str, list[int], list[str]]] = {
    "input_stall_one_ddp_2x4": ("input_stall", [4], ["node02"]),
    "launch_bound_ddp_2x4": ("launch_bound", list(range(8)), []),
    "no_overlap_ddp_4x4": ("exposed_communication", [], []),
    "pp_imbalance_4x4": ("pipeline_imbalance", [4, 5, 6, 7], ["node27"]),
    "slow_gpu_ddp_2x4": ("compute_straggler", [4], ["node36"]),
    "slow_gpu_victim_fsdp_4x4": ("compute_straggler", [2], ["node24"]),
    "periodic_jitter_ddp_4x4": ("periodic_jitter", [0, 1, 2, 3], ["node30"]),
    "clock_step_ddp_2x4": ("clock_step", [], ["node05"]),
    "two_slow_gpu_and_link_4x4": ("compute_straggler", [5], ["node19"]),
}
PARTS = ("compute", "memcpy", "exposed_transfer", "exposed_wait", "idle", "dataloader")


def _analysed(name: str) -> tuple[list[Finding], dict[str, Any], dict[str, Any]]:
    tables, truth = incident(name)
    results = {o.status.id: o for o in run_analyses(ANALYSES, tables, raise_errors=True)}
    return findings(results), truth, {k: o.result for k, o in results.items()}


@pytest.mark.parametrize("name", WHOLE)
def test_time_goes_where_it_went(name: str) -> None:
    _, truth, results = _analysed(name)
    per_rank = results["breakdown"].attribution.per_rank
    for part in PARTS:
        off = [abs(getattr(per_rank[r], f"{part}_s") - sum(t[f"{part}_s"])) / truth["run_s"] for r, t in truth["per_rank"].items()]
        assert np.mean(off) < 0.001, part
    lengths = results["steps"].frames["step_times"]["length_ns"].to_numpy() / 1e9
    assert lengths == pytest.approx([s["length_s"] for s in truth["steps"]], abs=5e-5)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_culprit_is_named_first(name: str) -> None:
    found, truth, _ = _analysed(name)
    kind, ranks, hosts = EXPECTED[name]
    assert (found[0].kind, found[0].ranks, found[0].hosts) == (kind, ranks, hosts)
    lost = truth["faults"][0]["lost_s"]
    assert found[0].lost_s == pytest.approx(lost, rel=0.25)


@pytest.mark.parametrize("name", WHOLE)
def test_nobody_else_is_named(name: str) -> None:
    found, truth, _ = _analysed(name)
    exposed = np.mean([sum(t["exposed_transfer_s"]) for t in truth["per_rank"].values()]) / truth["run_s"]
    others = [f for f in found if f.kind != EXPECTED.get(name, ("",))[0] and not (f.kind == "exposed_communication" and exposed >= 0.05)]
    assert others == []


@pytest.mark.parametrize("name", ["healthy_ddp_2x4", "healthy_pp_4x2"])
def test_healthy_runs_are_silent(name: str) -> None:
    assert _analysed(name)[0] == []
