"""Communicators that NCCL's ranges state, and the ranks of XLA's devices."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from tests.builders.collected import Read, read
from tests.builders.job import Job, Simulation
from tests.builders.nsys_sqlite import NCCL_DOMAIN, Export, comm_hash, payload, rank_export, write_ranks
from tracelab.tables import COMMUNICATORS
from tracelab.traffic.communicators import job_communicators
from tracelab_parsers.nsys import PARSER

COMM, CHILD = 0xF1F2F3F4F5F6F7F8, 0x12
SPLIT = 16_777_229


def _rows(export: Export, tmp_path: Path) -> list[dict[str, Any]]:
    found = read(PARSER, export.write(tmp_path / "r.sqlite"))
    return [row for batch in found.batches["communicators"] for row in batch.to_pylist()]


def _split(export: Export) -> bytes:
    """A payload as NCCL 2.27 has it: new and parent communicator, ranks, rank, device, colour, key."""
    labels = ("NCCL communicator ID", "Parent NCCL communicator ID", "No. of ranks", "Rank", "CUDA device", "Color", "Key")
    for index, (label, kind, offset) in enumerate(zip(labels, (18, 18, 5, 5, 5, 5, 5), (None, 8, 16, 20, 24, 28, 32), strict=True)):
        export.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=NCCL_DOMAIN, schemaId=SPLIT, idx=index, type=kind, name=label, offset=offset)
    return struct.pack("<4Q2Q5i", NCCL_DOMAIN, SPLIT, 36, 32, CHILD, COMM, 2, 1, 3, 7, 5)


def test_communicators_of_payloads(tmp_path: Path) -> None:
    export = Export()
    export.nccl_domain()
    export.kernel("gemm", 0, 10)
    export.nccl("ncclCommInitRankConfig", 100, 900, binaryData=payload("init", COMM, 4, 1, 3))
    export.nccl("ncclCommSplit", 1_000, 1_100, binaryData=_split(export))
    export.nccl("ncclAllReduce", 2_000, 3_000, binaryData=payload("reduction", COMM, 4096, 0))
    export.nccl("ncclAllReduce", 4_000, 5_000, binaryData=payload("reduction", 77, 4096, 0))
    export.nccl("ncclCommDestroy", 8_000, 9_000, binaryData=payload("init", CHILD, 2, 1, 3))
    first, second = _rows(export, tmp_path)
    stated = ("part", "line", "comm", "comm_id", "comm_rank", "size", "cuda_device", "function", "parent", "color", "split_key", "state", "library")
    assert [first[c] for c in stated] == [0, 1, 0, "0xf1f2f3f4f5f6f7f8", 1, 4, 3, "ncclCommInitRankConfig", None, None, None, "complete", "nccl"]
    assert [second[c] for c in stated] == [0, 2, 1, "0x12", 1, 2, 3, "ncclCommSplit", 0, 7, 5, "destroyed", "nccl"]


def test_communicators_of_json(tmp_path: Path) -> None:
    export = Export("3.28.1")
    export.kernel("gemm", 0, 10)
    export.nccl_domain()
    export.nccl("AllReduce", 50, 60, jsonText=json.dumps({"commHash": 5, "rank": 6, "nRanks": 8, "count": 1, "dataType": 7}))
    export.nccl("CommInit", 100, 900, jsonText=json.dumps({"commHash": "0xf1f2f3f4f5f6f7f8", "commRank": 2, "nRanks": 4}))
    export.nccl("CommInit", 950, 990, jsonText=json.dumps({"commHash": 0, "commRank": 2, "nRanks": 4}))
    found = [(r["comm_id"], r["comm_rank"], r["size"], r["function"], r["state"]) for r in _rows(export, tmp_path)]
    assert found == [("0x5", 6, 8, None, "seen"), ("0xf1f2f3f4f5f6f7f8", 2, 4, "CommInit", "complete")]


@pytest.mark.parametrize("payloads", ["blob", "json"])
def test_groups_of_a_job_without_a_log(tmp_path: Path, payloads: str) -> None:
    """Four ranks, pairs of them and all: the communicators of the job are those of the simulation, by their ranks."""
    run = Simulation(Job(world=4, hosts=2, tp=2, steps=1, layers=1, seed=8))
    frames = []
    for rank in range(4):
        found = read(PARSER, rank_export(run, rank, payloads=payloads).write(tmp_path / f"{rank}.sqlite"))
        frames.append(_with_source(found, rank))
    groups = pl.DataFrame(schema={"group_id": pl.Int32, "name": pl.String, "ranks": pl.List(pl.Int32), "origin": pl.String})
    listed = pl.LazyFrame(schema={"source_id": pl.Int32, "part": pl.Int16, "group_name": pl.String, "group_ranks": pl.List(pl.Int32)})
    table, mapped, notices = job_communicators(pl.concat(frames).lazy(), listed, groups, {r: f"node-{r // 2}" for r in range(4)}, 4)
    expected = {f"{comm_hash(g, kind):#x}": list(g) for kind in ("world", "tp", "dp") for g in run.job.groups(kind) if len(g) > 1}
    assert dict(table.select("comm_id", "ranks").iter_rows()) == expected
    assert mapped.height == sum(map(len, expected.values()))
    assert notices == []


def _with_source(found: Read, rank: int) -> pl.DataFrame:
    frame = pl.DataFrame(pl.from_arrow(pa.Table.from_batches(found.batches["communicators"], COMMUNICATORS.arrow)))
    return frame.with_columns(source_id=pl.lit(rank, pl.Int32), rank=pl.lit(rank, pl.Int32))


def test_every_process_of_a_file_has_its_own(tmp_path: Path) -> None:
    run = Simulation(Job(world=4, hosts=2, tp=2, steps=1, layers=1, seed=8))
    found = read(PARSER, write_ranks(tmp_path / "r.sqlite", run, [0, 1]))
    rows = [row for batch in found.batches["communicators"] for row in batch.to_pylist()]
    assert [(r["part"], r["comm"]) for r in rows] == [(p, n) for p in (0, 1) for n in range(len(rows) // 2)]
    world = f"{comm_hash((0, 1, 2, 3), 'world'):#x}"
    assert [(r["part"], r["comm_rank"], r["size"]) for r in rows if r["comm_id"] == world] == [(0, 0, 4), (1, 1, 4)]


@pytest.mark.parametrize(
    ("names", "variables", "expected"),
    [
        (["Xla:#global=3,local=1,process=1,slice=0#"], {}, 3),
        (["Xla:#global=3,local=1,process=1,slice=0#"], {"SLURM_PROCID": "5", "SLURM_NTASKS": "8"}, 5),
        (["Xla:#global=2,local=0#", "Xla:#global=3,local=1#"], {}, None),
        (["my GPU", "#global=1"], {}, None),
    ],
)
def test_the_device_that_xla_names_tells_the_rank(tmp_path: Path, names: list[str], variables: dict[str, str], expected: int | None) -> None:
    export = Export()
    export.kernel("gemm", 0, 10)
    if variables:
        export.environment(**variables)
    for device, name in enumerate(names):
        export.add("TARGET_INFO_NVTX_CUDA_DEVICE", name=name, hwId=0, vmId=1, deviceId=device)
    assert [p.rank for p in read(PARSER, export.write(tmp_path / "r.sqlite")).info.parts] == [expected]
