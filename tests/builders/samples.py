"""Writes `sample_traces/` again: `python -m tests.builders.samples`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builders.kineto_writer import Job, write_job

SAMPLES = {
    "slow_gpu": Job(generation="2026", world=8, hosts=2, steps=6, layers=3, seed=11, slow={5: 1.3}, clock_offsets_ns=[0, 4_210_337]),
    "healthy": Job(generation="2025", world=8, hosts=2, steps=6, layers=3, seed=12, clock_offsets_ns=[0, -1_870_021]),
}
ROOT = Path(__file__).resolve().parents[2] / "sample_traces"


def write_sample(name: str, directory: Path) -> dict[str, Any]:
    """Writes the traces of one sample and its `truth.json`; returns the truth."""
    truth = write_job(directory, SAMPLES[name])
    (directory / "truth.json").write_text(json.dumps(truth, sort_keys=True, separators=(",", ":")).replace('},{"bytes"', '},\n{"bytes"') + "\n")
    return truth


def main() -> None:
    """Replaces traces and truth; the README of each sample stays."""
    for name in SAMPLES:
        directory = ROOT / name
        for old in directory.glob("*.json*"):
            old.unlink()
        write_sample(name, directory)
        print(f"wrote {directory}: {sum(f.stat().st_size for f in directory.iterdir()) // 1000} kB")


if __name__ == "__main__":
    main()
