"""Simulated incidents with their truth, made by a simulator that shares no code with the product; skips where they are absent."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kineto import read_ranks
from tests.builders.run import AlignedTables

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = Path(os.environ.get("TRACELAB_TEST_INCIDENTS", ROOT.parent / "shared" / "incidents"))
WHOLE = (
    "clock_step_ddp_2x4",
    "ecmp_fsdp_8x2",
    "healthy_ddp_2x4",
    "healthy_pp_4x2",
    "input_stall_one_ddp_2x4",
    "launch_bound_ddp_2x4",
    "no_overlap_ddp_4x4",
    "packet_loss_moe_4x4",
    "periodic_jitter_ddp_4x4",
    "pp_imbalance_4x4",
    "slow_gpu_ddp_2x4",
    "slow_gpu_victim_fsdp_4x4",
    "slow_link_fsdp_4x4",
    "two_slow_gpu_and_link_4x4",
)
"""Those of which every rank wrote a whole trace of the framework's profiler."""


@cache
def _load(name: str) -> tuple[AlignedTables, dict[str, Any]]:
    truth: dict[str, Any] = json.loads((DIRECTORY / f"{name}.truth.json").read_text())
    files = [f for f in (DIRECTORY / name).rglob("*") if f.name.endswith((".json", ".json.gz")) and ("trace" in f.name or f.name.startswith("rank"))]
    parsed, _, _ = read_ranks(files)
    hosts = {r["rank"]: r["host"] for r in truth["ranks"] if r["traced"]}
    return AlignedTables(parsed, hosts, truth["world"]["size"]), truth


def incident(name: str) -> tuple[AlignedTables, dict[str, Any]]:
    """Tables and truth of an incident."""
    if not (DIRECTORY / name).is_dir():
        pytest.skip(f"incidents are absent: {name} is not in TRACELAB_TEST_INCIDENTS ({DIRECTORY})")
    return _load(name)
