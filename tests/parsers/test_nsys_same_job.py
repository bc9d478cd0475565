"""One simulated rank as a PyTorch trace and as an export of Nsight Systems: the same rows, up to what each format can say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from tests.builders.collected import Read, read
from tests.builders.job import Job, Simulation
from tests.builders.kineto_writer import trace_texts
from tests.builders.nsys_sqlite import VERSIONS, comm_hash, rank_export, write_rank, write_ranks
from tests.builders.run import AlignedTables
from tracelab.tables import PARSED_TABLES, TABLES
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.torch_profiler import PARSER as TORCH

SPAN = ("kind", "name", "source_ts_ns", "dur_ns", "device", "stream", "context", "correlation", "bytes", "copy_kind", "blocks", "threads_per_block")
JOB = Job(generation="2026", world=4, hosts=2, tp=2, steps=3, layers=2, seed=5, clock_offsets_ns=[0, 2_000_123], compress=False)


@pytest.fixture(scope="module")
def run() -> Simulation:
    return Simulation(JOB)


@pytest.fixture(scope="module")
def traces(run: Simulation, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Read]:
    folder = tmp_path_factory.mktemp("torch")
    found = {}
    for rank, text in trace_texts(run):
        (folder / f"{rank}.pt.trace.json").write_text(text)
        found[rank] = read(TORCH, folder / f"{rank}.pt.trace.json")
    return found


def _spans(found: Read) -> list[tuple[Any, ...]]:
    return sorted(tuple(r[c] for c in SPAN) for r in found.rows("gpu_spans") if r["kind"] != "annotation")


@pytest.mark.parametrize("schema", VERSIONS)
@pytest.mark.parametrize("rank", [0, 3])
def test_the_gpu_did_the_same(run: Simulation, traces: dict[int, Read], tmp_path: Path, schema: str, rank: int) -> None:
    found = read(PARSER, write_rank(tmp_path / "r.sqlite", run, rank, schema))
    assert _spans(found) == _spans(traces[rank])
    part, other = found.info.parts[0], traces[rank].info.parts[0]
    assert (part.rank, part.world_size, part.host, part.pid, part.device) == (other.rank, other.world_size, other.host, other.pid, other.device)


def test_the_host_did_the_same(run: Simulation, traces: dict[int, Read], tmp_path: Path) -> None:
    def calls(found: Read, kinds: set[str]) -> list[tuple[Any, ...]]:
        keep = [r for r in found.rows("host_spans") if r["kind"] in kinds and r["name"] != "record_param_comms" and not r["name"].startswith("NCCL:")]
        return sorted((r["kind"], r["name"], r["source_ts_ns"], r["dur_ns"], r["pid"], r["tid"], r["correlation"] or 0) for r in keep)

    found = read(PARSER, write_rank(tmp_path / "r.sqlite", run, 1))
    kinds = {"runtime", "driver", "cpu_op", "annotation"}
    assert calls(found, kinds) == calls(traces[1], kinds)


def _tables(files: dict[int, Read]) -> dict[str, pl.LazyFrame]:
    """Parsed tables of several files as the core scans them."""
    out = {}
    for spec in PARSED_TABLES:
        frames = [spec.empty()]
        for rank, found in files.items():
            if spec.name in found.batches:
                rows = pl.from_arrow(pa.Table.from_batches(found.batches[spec.name]))
                assert isinstance(rows, pl.DataFrame)
                added = {"source_id": pl.lit(rank), "rank": pl.lit(rank)} | ({"ts_ns": pl.col("source_ts_ns")} if "source_ts_ns" in rows.columns else {})
                frames.append(rows.with_columns(e.alias(c) for c, e in added.items()).select(pl.col(c).cast(t) for c, t in spec.polars.items()))
        out[spec.name] = pl.concat(frames).lazy()
    return out


def _matches(files: dict[int, Read]) -> set[tuple[Any, ...]]:
    """Operations as the core matches them: group, operation, bytes, and the kernels (rank, start, end) that take part."""
    tables = AlignedTables(_tables(files), {r: JOB.host(r) for r in range(JOB.world)}, JOB.world)
    groups = {g["group_id"]: tuple(g["ranks"]) for g in tables["groups"].collect().to_dicts()}
    rows = tables["collectives"].collect().to_dicts()
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["match_id"], []).append(row)
    assert None not in found
    return {
        (
            groups[members[0]["group_id"]],
            members[0]["operation"],
            members[0]["in_bytes"],
            members[0]["out_bytes"],
            tuple(sorted((m["rank"], m["source_ts_ns"]) for m in members)),
        )
        for members in found.values()
    }


@pytest.mark.parametrize("payloads", ["blob", "json"])
def test_the_same_collectives_match(run: Simulation, traces: dict[int, Read], tmp_path: Path, payloads: str) -> None:
    exports = {r: read(PARSER, write_rank(tmp_path / f"{r}.sqlite", run, r, payloads=payloads)) for r in range(JOB.world)}
    expected = _matches(traces)
    assert len(expected) == len(run.operations)
    assert _matches(exports) == expected


def test_two_ranks_of_one_host_in_one_file(run: Simulation, tmp_path: Path) -> None:
    both = read(PARSER, write_ranks(tmp_path / "both.sqlite", run, [2, 3]))
    alone = {r: read(PARSER, write_rank(tmp_path / f"{r}.sqlite", run, r)) for r in (2, 3)}
    assert [p.pid for p in both.info.parts] == [4002, 4003]
    # the environment is that of the first: it would call both of them rank 2, but their communicators of all ranks tell
    assert [(p.rank, p.world_size) for p in both.info.parts] == [(2, 4), (3, 4)]
    for part, rank in enumerate((2, 3)):
        for table in ("gpu_spans", "host_spans", "comm_records"):
            mine = [{k: v for k, v in r.items() if k != "part"} for r in both.rows(table) if r["part"] == part]
            assert mine == [{k: v for k, v in r.items() if k != "part"} for r in alone[rank].rows(table)]


def test_records_name_the_communicator(run: Simulation, tmp_path: Path) -> None:
    found = read(PARSER, rank_export(run, 0).write(tmp_path / "r.sqlite"))
    kernels = [r for r in found.rows("comm_records") if r["recorded_on"] == "kernel"]
    expected = sorted(
        (op.starts[0] + JOB.clock_error("node-0"), f"{comm_hash(op.group, op.kind):#x}", len(op.group), op.elements_in, op.elements_out)
        for op in run.operations
        if 0 in op.group
    )
    told = sorted((r["source_ts_ns"], r["group_name"], r["group_size"], r["in_elements"], r["out_elements"]) for r in kernels if r["dtype"] != "Byte")
    # an all-gather's kernel does not name its type: its sizes are in bytes
    gathers = [r for r in kernels if r["dtype"] == "Byte"]
    assert {r["operation"] for r in gathers} == {"ncclAllGather"}
    assert sorted([*told, *((r["source_ts_ns"], r["group_name"], r["group_size"], r["in_elements"] // 2, r["out_elements"] // 2) for r in gathers)]) == expected
    whole = [r for r in kernels if r["group_size"] == JOB.world]
    assert {tuple(r["group_ranks"]) for r in whole} == {(0, 1, 2, 3)}
    assert TABLES["comm_records"].arrow.names == list(kernels[0])
