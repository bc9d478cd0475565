"""Writes `sample_traces/` again: `python -m tests.builders.samples`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builders.kineto_writer import Job, write_job
from tracelab import simulate
from tracelab.simulate.clocks import Skew
from tracelab.simulate.directory import clocks_of, write_incident
from tracelab.simulate.truth import truth_of

SAMPLES = {
    "slow_gpu": Job(generation="2026", world=8, hosts=2, steps=6, layers=3, seed=11, slow={5: 1.3}, clock_offsets_ns=[0, 4_210_337]),
    "healthy": Job(generation="2025", world=8, hosts=2, steps=6, layers=3, seed=12, clock_offsets_ns=[0, -1_870_021]),
}
_JOB = simulate.Job(layout="fsdp", steps=6, layers=4, layer_mbytes=150)
SIMULATED = {
    "bad_cable": simulate.Scenario(simulate.Cluster(), _JOB, (simulate.Fault("slow_link", 0.3, hosts=(1,), nic=1),), seed=21),
    "loader_stall": simulate.Scenario(simulate.Cluster(), _JOB, (simulate.Fault("input_stall", 0.04, ranks=(6,), every=2),), seed=22),
}
ROOT = Path(__file__).resolve().parents[2] / "sample_traces"


def write_sample(name: str, directory: Path) -> dict[str, Any]:
    """Writes the traces of one sample and its `truth.json`; returns the truth."""
    truth = write_job(directory, SAMPLES[name])
    (directory / "truth.json").write_text(json.dumps(truth, sort_keys=True, separators=(",", ":")).replace('},{"bytes"', '},\n{"bytes"') + "\n")
    return truth


def write_simulated(name: str, directory: Path) -> dict[str, Any]:
    """Writes one of `SIMULATED` with its `truth.json`; returns the truth."""
    outcome = simulate.run(SIMULATED[name])
    clocks = clocks_of(outcome, Skew())
    truth = truth_of(outcome, clocks, simulate.lost_ns(SIMULATED[name], outcome))
    write_incident(directory, outcome, clocks, truth)
    return truth


def main() -> None:
    """Replaces traces and truth; the README of each sample stays."""
    for name in SAMPLES:
        directory = ROOT / name
        for old in directory.glob("*.json*"):
            old.unlink()
        write_sample(name, directory)
        print(f"wrote {directory}")
    for name in SIMULATED:
        write_simulated(name, ROOT / name)
        print(f"wrote {ROOT / name}")


if __name__ == "__main__":
    main()
