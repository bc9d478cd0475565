"""The builders are the measure of other tests, so they are measured first: their files against their truth."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders.job import Job, Simulation
from tests.builders.kineto_writer import GENERATIONS, trace_texts, write_job
from tests.builders.samples import ROOT, SAMPLES, SIMULATED, write_sample, write_simulated
from tests.builders.truth import truth_of


def _document(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw, parse_float=Decimal)
    return document


def _nccl(document: dict[str, Any]) -> list[tuple[int, int]]:
    base = document.get("baseTimeNanoseconds", 0)
    kernels = [e for e in document["traceEvents"] if e.get("cat") == "kernel" and e["name"].startswith("nccl")]
    return sorted((base + int(e["ts"] * 1000), base + int((e["ts"] + e["dur"]) * 1000)) for e in kernels)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_files_hold_the_collectives_of_the_truth(tmp_path: Path, generation: str) -> None:
    truth = write_job(tmp_path, Job(generation=generation, slow={5: 1.4}, clock_offsets_ns=[0, 3_000_000]))
    assert len(truth["files"]) == 8
    for rank, name in truth["files"].items():
        shift = truth["clock_correction_ns"][truth["hosts"][rank]]
        expected = sorted((c["start_ns"][rank] - shift, c["end_ns"][rank] - shift) for c in truth["collectives"] if rank in c["start_ns"])
        assert _nccl(_document(tmp_path / name)) == expected


def test_corrections_put_clocks_back_on_their_mean() -> None:
    truth = truth_of(Simulation(Job(clock_offsets_ns=[0, 3_000_000])))
    assert truth["clock_correction_ns"] == {"node-0": 1_500_000, "node-1": -1_500_000}


@pytest.mark.parametrize("seed", range(5))
def test_times_of_a_rank_add_up_to_its_steps(seed: int) -> None:
    truth = truth_of(Simulation(Job(seed=seed, slow={2: 1.2}, loader_stalls={(1, 11): 4_000_000})))
    for rank, times in truth["per_rank"].items():
        window = truth["steps"][-1]["end_ns"][rank] - truth["steps"][0]["start_ns"][rank]
        assert sum(ns for kind, ns in times.items() if kind != "dataloader_ns") == window
        assert min(times.values()) >= 0


def test_collectives_end_together_after_the_last_arrival() -> None:
    for c in truth_of(Simulation(Job(slow={5: 1.4})))["collectives"]:
        ends, starts = c["end_ns"].values(), c["start_ns"].values()
        assert max(ends) - min(ends) <= 2_000
        assert c["transfer_ns"] > 0
        assert min(ends) > max(starts)
        assert c["wait_ns"][str(c["last_rank"])] == 0


def test_a_slow_gpu_makes_the_others_wait_and_costs_what_its_kernels_take_longer() -> None:
    slow, sound = (truth_of(Simulation(Job(slow=factor))) for factor in ({5: 1.4}, {}))
    extra = slow["per_rank"]["5"]["compute_ns"] - sound["per_rank"]["5"]["compute_ns"]
    (culprit,) = slow["culprits"]
    assert (culprit["kind"], culprit["ranks"]) == ("compute_straggler", [5])
    assert 0.9 * extra < culprit["saved_ns"] <= extra
    waits = {rank: times["exposed_wait_ns"] for rank, times in slow["per_rank"].items()}
    assert min(waits, key=lambda r: waits[r]) == "5"
    assert sound["culprits"] == []


def test_a_loader_stall_costs_its_length() -> None:
    truth = truth_of(Simulation(Job(loader_stalls={(2, 11): 5_000_000})))
    (culprit,) = truth["culprits"]
    assert (culprit["kind"], culprit["ranks"], culprit["steps"]) == ("input_stall", [2], [11])
    assert 4_900_000 <= culprit["saved_ns"] <= 5_000_000


def test_dropped_kernels_and_missing_ranks_are_absent_from_files_and_presence(tmp_path: Path) -> None:
    truth = write_job(tmp_path, Job(world=4, hosts=1, dropped={1: 5}, missing=[3], compress=False))
    assert sorted(truth["files"]) == ["0", "1", "2"]
    assert truth["missing_ranks"] == [3]
    for rank, name in truth["files"].items():
        seen = sum(int(rank) in c["present"] for c in truth["collectives"])
        assert len(_nccl(_document(tmp_path / name))) == seen
    issued = sum("1" in c["start_ns"] for c in truth["collectives"])
    assert sum(1 in c["present"] for c in truth["collectives"]) < issued
    assert all(3 not in c["present"] for c in truth["collectives"])


def test_the_same_job_gives_the_same_text() -> None:
    job = Job(world=4, steps=2, seed=3)
    assert list(trace_texts(Simulation(job))) == list(trace_texts(Simulation(job)))


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_what_the_builder_writes(tmp_path: Path, name: str) -> None:
    write_sample(name, tmp_path)
    made, kept = ({f.name: f for f in d.iterdir() if ".json" in f.name} for d in (tmp_path, ROOT / name))
    assert made.keys() == kept.keys()
    for file, path in made.items():
        if file.endswith(".gz"):  # the packed bytes depend on the version of zlib
            assert gzip.decompress(path.read_bytes()) == gzip.decompress(kept[file].read_bytes())
        else:
            assert path.read_bytes() == kept[file].read_bytes()
    assert sum(f.stat().st_size for f in kept.values()) < 1_000_000
    assert (ROOT / name / "README.md").is_file()


@pytest.mark.parametrize("name", SIMULATED)
def test_samples_are_what_the_simulator_writes(tmp_path: Path, name: str) -> None:
    write_simulated(name, tmp_path)
    made, kept = ({f.relative_to(d): f for f in d.rglob("*") if f.is_file() and f.name != "README.md"} for d in (tmp_path, ROOT / name))
    assert made.keys() == kept.keys()
    for file, path in made.items():
        unpack = gzip.decompress if file.suffix == ".gz" else bytes  # the packed bytes depend on the version of zlib
        assert unpack(path.read_bytes()) == unpack(kept[file].read_bytes())
    assert sum(f.stat().st_size for f in kept.values()) < 1_000_000
