"""The recipe nvtx_gpu_proj_trace: of simulated ranks against what they did, and of a real job."""

from __future__ import annotations

import csv
import gzip
import lzma
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.builders.collected import Read, read
from tests.builders.job import Job, Simulation
from tests.builders.nsys_forms import projected, write_projection, write_stats
from tests.builders.nsys_sqlite import Export, rank_export
from tracelab.errors import TracelabError
from tracelab.ingest.discovery import discover
from tracelab.ingest.heads import read_head
from tracelab_parsers.nsys_forms import RECIPE, STATS

JOB = Job(world=2, hosts=1, tp=2, steps=2, layers=2, seed=8)
RANKS = range(4)


@pytest.fixture(scope="module")
def exports() -> list[Export]:
    run = Simulation(JOB)
    return [rank_export(run, rank) for rank in range(2)]


def _gpu(found: Read) -> list[tuple[Any, ...]]:
    return [(r["part"], r["name"], r["source_ts_ns"], r["dur_ns"]) for r in found.rows("gpu_spans")]


def test_ranges_that_launched_one_operation_have_its_time(exports: list[Export], tmp_path: Path) -> None:
    found = read(RECIPE, write_projection(exports[1], tmp_path / "trace.parquet"))
    assert found.rows("gpu_spans")
    expected = [(0, e["name"].removeprefix(":"), e["start"], e["duration"]) for e in projected(exports[1])]
    assert Counter((p, n.split(" [")[0], s, d) for p, n, s, d in _gpu(found)) == Counter(expected)
    kernels = {(k["start"], k["end"] - k["start"]) for t in ("KERNEL", "MEMCPY") for k in exports[1].rows[f"CUPTI_ACTIVITY_KIND_{t}"]}
    single = [r for r in found.rows("gpu_spans") if r["kind"] == "kernel"]
    assert {(r["source_ts_ns"], r["dur_ns"]) for r in single} <= kernels
    # a range around others, and one that launched several operations, says nothing of when the GPU worked inside it
    assert Counter(r["kind"] for r in found.rows("gpu_spans")) == {
        "kernel": sum(e["operations"] == 1 and not e["children"] for e in projected(exports[1])),
        "annotation": sum(e["operations"] > 1 or e["children"] > 0 for e in projected(exports[1])),
    }


def test_collectives_are_named_after_what_called_them(exports: list[Export], tmp_path: Path) -> None:
    found = read(RECIPE, write_projection(exports[0], tmp_path / "trace.parquet"))
    nccl = [r["name"] for r in found.rows("gpu_spans") if r["name"].startswith("NCCL:")]
    assert Counter(nccl) == Counter(e["name"] for e in projected(exports[0]) if e["name"].startswith("NCCL:"))
    assert set(nccl) <= {"NCCL:ncclAllReduce", "NCCL:ncclReduceScatter", "NCCL:ncclAllGather"}
    assert nccl


def test_the_host_side_is_that_of_the_ranges(exports: list[Export], tmp_path: Path) -> None:
    found = read(RECIPE, write_projection(exports[0], tmp_path / "trace.parquet"))
    rows = [(r["name"], r["source_ts_ns"], r["dur_ns"], r["pid"], r["tid"]) for r in found.rows("host_spans")]
    expected = [
        (e["name"].removeprefix(":"), e["row"]["start"], e["row"]["end"] - e["row"]["start"], 4000, e["row"]["globalTid"] & 0xFFFFFF)
        for e in projected(exports[0])
    ]
    assert Counter(rows) == Counter(expected)
    assert found.counts()["unattributed-work"] == 1
    assert {c.kind: c.count for c in found.info.event_counts if not c.stored} == {"gpu work outside ranges": 1}


@pytest.mark.parametrize(
    ("files", "ranks", "warned"),
    [
        (["report_rank7", "report_rank3"], [7, 3], False),
        (["/tmp/x/prof.1.nsys-rep", "/tmp/x/prof.0.nsys-rep"], [1, 0], False),
        (["node24", "node25"], [0, 1], True),
        (["a", "b"], [0, 1], True),
        (["rank5", "rank5"], [0, 1], True),
        ([], [0, 1], True),
    ],
)
def test_ranks_of_several_reports(exports: list[Export], tmp_path: Path, files: list[str], ranks: list[int], *, warned: bool) -> None:
    found = read(RECIPE, write_projection(exports, tmp_path / "trace.parquet", files=files))
    assert [(p.rank, p.pid) for p in found.info.parts] == [(ranks[0], 4000), (ranks[1], 4001)]
    assert ("rank-is-order" in found.notices) == warned
    assert all(p.host is None and p.device is None and p.time_base_lost for p in found.info.parts)
    for part, export in enumerate(exports):
        mine = [r for r in _gpu(found) if r[0] == part]
        assert Counter(r[2:] for r in mine) == Counter((e["start"], e["duration"]) for e in projected(export))


def _metadata(folder: Path, *names: str) -> None:
    column = {
        "('TARGET_INFO_NVTX_CUDA_DEVICE', 'name')": list(names),
        "('TARGET_INFO_GPU', 'name')": ["NVIDIA H100"] * len(names),
        "cuDevice": [5] * len(names),
    }
    pl.DataFrame(column).write_parquet(folder / "device-metadata.parquet")


def test_names_that_xla_gives_devices_tell_the_rank(exports: list[Export], tmp_path: Path) -> None:
    path = write_projection(exports[1], tmp_path / "proc" / "nvtx_gpu_proj_trace" / "trace.parquet", files=["report"])
    _metadata(tmp_path / "proc", "Xla:#global=13,local=5,process=13,slice=0#")
    found = read(RECIPE, path)
    (part,) = found.info.parts
    assert (part.rank, part.gpu, part.pid) == (13, "NVIDIA H100", 4001)
    assert {r["device"] for r in found.rows("gpu_spans")} == {5}
    # a process of several devices has no rank of its own
    _metadata(tmp_path / "proc", "Xla:#global=2,local=0#", "Xla:#global=3,local=1#")
    assert read(RECIPE, path).info.parts[0].rank is None


def test_reports_beside_the_recipe_complete_the_host(exports: list[Export], tmp_path: Path) -> None:
    path = write_projection(exports[1], tmp_path / "proc1" / "nvtx_gpu_proj_trace" / "trace.parquet", files=["report"])
    _metadata(tmp_path / "proc1", "Xla:#global=1,local=1#")
    (report,) = write_stats(exports[1], tmp_path / "proc1", "report", ["nvtx_pushpop_trace"])
    packed = report.with_suffix(".csv.xz")
    packed.write_bytes(lzma.compress(report.read_bytes()))
    report.unlink()
    found = read(RECIPE, path)
    ranges = [r for r in exports[1].rows["NVTX_EVENTS"] if r["eventType"] == 59]
    assert Counter((r["source_ts_ns"], r["dur_ns"]) for r in found.rows("host_spans")) == Counter((r["start"], r["end"] - r["start"]) for r in ranges)
    assert STATS.sniff(packed, read_head(packed).data) is None
    sources = [c for c in discover(tmp_path) if c.companion_of is None]
    assert [(c.name, c.parser) for c in sources] == [("proc1/nvtx_gpu_proj_trace/trace.parquet", "nsys-recipe")]
    assert sources[0].companion_root == tmp_path / "proc1"


def _as_csv(path: Path, target: Path) -> Path:
    """The projection as `nsys stats` writes it."""
    rows = pq.read_table(path).to_pylist()
    titles = {"Projected Start": "Projected Start (ns)", "Projected Duration": "Projected Duration (ns)", "Orig Start": "Orig Start (ns)"}
    titles["Orig Duration"] = "Orig Duration (ns)"
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([titles.get(n, n) for n in rows[0] if n != "Rank"])
        for row in rows[1:]:
            writer.writerow(["" if v is None else int(v) if isinstance(v, float) else v for n, v in row.items() if n != "Rank"])
    return target


def test_the_report_of_nsys_stats_says_the_same(exports: list[Export], tmp_path: Path) -> None:
    parquet = write_projection(exports[0], tmp_path / "a" / "trace.parquet")
    path = _as_csv(parquet, tmp_path / "r_nvtx_gpu_proj_trace.csv")
    head = path.read_bytes()
    assert RECIPE.sniff(path, head) is not None
    assert STATS.sniff(path, head) is None
    found, expected = read(RECIPE, path), read(RECIPE, parquet)
    for table in ("gpu_spans", "host_spans"):
        assert found.rows(table) == expected.rows(table)
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(head))
    path.unlink()
    assert _gpu(read(RECIPE, packed)) == _gpu(expected)


def test_other_parquet_files_are_not_claimed(tmp_path: Path) -> None:
    for columns in ({"Name": ["a"], "Start": [1]}, {"Start": [1], "Duration": [1], "Name": ["a"]}, {"x": [1]}):
        path = tmp_path / "x.parquet"
        pl.DataFrame(columns).write_parquet(path)
        assert RECIPE.sniff(path, path.read_bytes()) is None


def test_hostile_values_are_counted(tmp_path: Path) -> None:
    huge = 1 << 62
    rows = {"Name": ["a", "b", "c", "d", None], "Projected Start": [1, huge, None, -5, 3], "Projected Duration": [-3, 1, 1, huge, 1]}
    rows |= {"NumGPUOps": [1, 1, 1, 1, 1], "Orig Start": [1.0, 2.0, 3.0, 4.0, None], "Orig Duration": [1.0] * 5, "PID": [1] * 5, "TID": [1, 1, None, 1, 1]}
    path = tmp_path / "trace.parquet"
    pl.DataFrame(rows, strict=False).write_parquet(path)
    found = read(RECIPE, path)
    assert [(r["name"], r["source_ts_ns"], r["dur_ns"], r["clamped"]) for r in found.rows("gpu_spans")] == [("d", -5, 0, True), ("a", 1, 0, True)]
    assert {k: found.counts()[k] for k in ("bad-time", "inverted-time", "unattributed-work")} == {"bad-time": 2, "inverted-time": 2, "unattributed-work": 1}
    assert sum(c.count for c in found.info.event_counts) == 2 * 2 + 3


def test_times_beyond_64_bits_are_no_times(tmp_path: Path) -> None:
    """-2**63 has no positive counterpart, and 2**62 * 1000 ns wrap to 0."""
    least = -(1 << 63)
    rows = {"Name": list("abc"), "Projected Start (us)": [least, 1 << 62, 5], "Projected Duration (us)": [1, 1, 1 << 62], "NumGPUOps": [1] * 3}
    rows |= {"Orig Start": [1, 2, 3], "Orig Duration": [1] * 3, "PID": [1] * 3, "TID": [1] * 3}
    path = tmp_path / "trace.parquet"
    pl.DataFrame(rows).write_parquet(path)
    found = read(RECIPE, path)
    assert [(r["name"], r["source_ts_ns"], r["dur_ns"], r["clamped"]) for r in found.rows("gpu_spans")] == [("c", 5_000, 0, True)]
    assert found.counts()["bad-time"] == 2
    rows |= {"Projected Start (us)": [1, 2, 3], "Orig Start": [least, 2, 3]}
    pl.DataFrame(rows).write_parquet(path)
    assert [r["name"] for r in read(RECIPE, path).rows("host_spans")] == ["b", "c"]


def test_a_cut_file_is_an_error(exports: list[Export], tmp_path: Path) -> None:
    path = write_projection(exports[0], tmp_path / "trace.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TracelabError, match="no whole report"):
        read(RECIPE, path)


@pytest.fixture(scope="module")
def real(test_data: Callable[[str], Path]) -> dict[int, Read]:
    folder = test_data("nsight/jax_4xA100_recipe")
    return {r: read(RECIPE, folder / f"proc{r}" / "nvtx_gpu_proj_trace" / "trace.parquet") for r in RANKS}


def test_a_real_job_is_read(real: dict[int, Read], test_data: Callable[[str], Path]) -> None:
    assert [real[r].info.parts[0].rank for r in RANKS] == [0, 1, 2, 3]
    assert {real[r].info.parts[0].gpu for r in RANKS} == {"NVIDIA A100-SXM4-40GB"}
    assert [real[r].info.parts[0].pid for r in RANKS] == [215733, 215749, 215766, 215670]
    for r in RANKS:
        frame = pl.read_parquet(test_data("nsight/jax_4xA100_recipe") / f"proc{r}" / "nvtx_gpu_proj_trace" / "trace.parquet")
        assert len(real[r].rows("gpu_spans")) == frame["Name"].count()
        report = test_data("nsight/jax_4xA100_recipe") / f"proc{r}" / "report_nvtx_pushpop_trace.csv.xz"
        ranges = lzma.decompress(report.read_bytes()).count(b"\n") - 1
        assert len(real[r].rows("host_spans")) == ranges
        assert {x["device"] for x in real[r].rows("gpu_spans")} == {r}


def test_collectives_of_a_real_job_end_together(real: dict[int, Read]) -> None:
    """After the offset of each rank's clock: half of all ends within 1 µs, the worst within 60 µs."""
    nccl = {r: [x for x in real[r].rows("gpu_spans") if x["kind"] == "kernel" and x["name"].startswith("NCCL:ncclGroupEnd")] for r in RANKS}
    assert [len(nccl[r]) for r in RANKS] == [120] * 4
    assert len({tuple(x["name"] for x in nccl[r]) for r in RANKS}) == 1
    assert all(" [all-" in x["name"] or " [collective-" in x["name"] or " [reduce-" in x["name"] for x in nccl[0])
    ends = np.array([[x["source_ts_ns"] + x["dur_ns"] for x in nccl[r]] for r in RANKS])
    late = ends - ends.mean(axis=0)
    offsets = np.median(late, axis=1)
    assert np.allclose(offsets / 1e6, [-25.6, -54.2, -200.0, 279.9], atol=0.1)
    residual = np.abs(late - offsets[:, None])
    assert np.median(residual) < 1_000
    assert residual.max() < 60_000


def test_a_real_folder_is_one_source_for_each_process(test_data: Callable[[str], Path]) -> None:
    found = [c for c in discover(test_data("nsight/jax_4xA100_recipe")) if c.companion_of is None]
    assert [(c.name, c.parser, len(c.companions)) for c in found] == [(f"proc{r}/nvtx_gpu_proj_trace/trace.parquet", "nsys-recipe", 6) for r in RANKS]
    reports = [c for c in discover(test_data("nsight/jax_4xA100_recipe")) if c.name.endswith(".csv.xz")]
    assert [STATS.sniff(c.path, read_head(c.path).data) for c in reports] == [None] * 4


def test_a_real_report_alone_has_ranges_and_no_gpu(test_data: Callable[[str], Path], tmp_path: Path) -> None:
    real_report = test_data("nsight/jax_4xA100_recipe") / "proc2" / "report_nvtx_pushpop_trace.csv.xz"
    path = tmp_path / real_report.name
    path.write_bytes(real_report.read_bytes())
    assert STATS.sniff(path, read_head(path).data) is not None
    found = read(STATS, path)
    with lzma.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = Counter((int(r["Start (ns)"]), int(r["Duration (ns)"]), r["Name"], int(r["PID"]), int(r["TID"])) for r in rows)
    assert Counter((r["source_ts_ns"], r["dur_ns"], r["name"], r["pid"], r["tid"]) for r in found.rows("host_spans")) == expected
    assert "no-gpu-report" in found.notices


def test_pipes_beside_a_report_are_not_opened(exports: list[Export], tmp_path: Path) -> None:
    home = tmp_path / "nvtx_gpu_proj_trace"
    home.mkdir()
    (tmp_path / "device-metadata.parquet").touch()
    write_stats(exports[1], tmp_path, "report", ["nvtx_pushpop_trace"])
    path = write_projection(exports[1], home / "trace.parquet")
    for pipe in (home / "a.parquet", home / "files.parquet", home / "x.nsys-analysis"):
        os.mkfifo(pipe)
    assert [c.companion_of for c in discover(tmp_path) if c.name.endswith(".csv")] == ["nvtx_gpu_proj_trace/trace.parquet"]
    assert read(RECIPE, path).rows("gpu_spans")
