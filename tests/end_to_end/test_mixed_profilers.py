"""A job of which one host was captured by the PyTorch profiler and the other by Nsight Systems is one job with the same culprit."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracelab
from tests.builders.job import Job, Simulation
from tests.builders.kineto_writer import trace_texts
from tests.builders.nsys_sqlite import write_rank

WORLD = 8
TORCH = range(4)


def _write(folder: Path, job: Job) -> None:
    run = Simulation(job)
    for rank, text in trace_texts(run):
        if rank in TORCH:
            (folder / f"rank{rank}.pt.trace.json").write_text(text)
    for rank in set(range(WORLD)) - set(TORCH):
        write_rank(folder / f"rank{rank}.sqlite", run, rank)


def _open(folder: Path, slow: dict[int, float], tp: int) -> tracelab.Run:
    _write(folder, Job(generation="2025", world=WORLD, hosts=2, tp=tp, steps=6, layers=3, seed=7, slow=slow, clock_offsets_ns=[0, 3_300_000], compress=False))
    return tracelab.open(folder)


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("slow", [2, 5])
def test_the_slow_rank_is_found_on_either_side(tmp_path: Path, slow: int, tp: int) -> None:
    run = _open(tmp_path, {slow: 1.3}, tp)
    findings = [f for f in run.analyze(raise_errors=True).findings if f.severity != "info"]
    assert [(f.kind, f.ranks) for f in findings] == [("compute_straggler", [slow])]
    clocks = run.tables["clocks"].collect()
    assert set(clocks["grade"]) == {"A"}
    # What is added to both hosts differs by the offset that was put between their clocks.
    assert abs(abs(int(clocks["offset_ns"][0]) - int(clocks["offset_ns"][1])) - 3_300_000) < 10_000


def test_a_healthy_mixed_job_names_nobody_and_every_operation_is_seen_by_all(tmp_path: Path) -> None:
    run = _open(tmp_path, {}, 2)
    assert [f for f in run.analyze(raise_errors=True).findings if f.severity != "info"] == []
    matches = run.tables["matches"].filter(pl.col("present") != pl.col("members")).collect()
    assert matches.height == 0
