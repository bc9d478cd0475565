"""CSV reports of `nsys stats`: of a simulated rank against its database, and written by hand."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tests.builders.job import Job, Simulation
from tests.builders.nsys_forms import told, write_stats
from tests.builders.nsys_sqlite import Export, rank_export
from tracelab.errors import TracelabError
from tracelab.ingest.discovery import discover
from tracelab.ingest.heads import read_head
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.nsys_forms import STATS

_SIZES = "GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd"
GPU = f"""Start (ns),Duration (ns),CorrId,{_SIZES},Device,Ctx,GreenCtx,Strm,Name
1000000,5000,11,8,2,1,256,1,1,32,0.000,0.000,,,,,NVIDIA A100-SXM4-40GB (3),1,,7,"void gemm<float, 4>(int)"
1006000,9000,12,2,1,1,512,1,1,96,0.000,0.000,,,,,NVIDIA A100-SXM4-40GB (3),1,,20,ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)
1016000,2000,13,,,,,,,,,,0.524,262144.000,Pinned,Device,NVIDIA A100-SXM4-40GB (3),1,,7,[CUDA memcpy Host-to-Device]
1019000,700,14,,,,,,,,,,0.004,5714.286,Device,,NVIDIA A100-SXM4-40GB (3),1,,7,[CUDA memset]
1020000,800,15,,,,,,,,,,2.000,2500.000,Device,Device,NVIDIA A100-SXM4-40GB (3),1,,8,[CUDA memcpy Peer-to-Peer]
1021000,800,16,,,,,,,,,,2.000,2500.000,Managed,Device,NVIDIA A100-SXM4-40GB (3),1,,8,[CUDA Unified Memory memcpy HtoD]
"""
API = """Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name
990000,4000,cudaLaunchKernel_v7000,0,11,4242,4243,20,python3
995000,4000,cudaLaunchKernelExC_v11060,0,12,4242,4243,20,python3
"""
SHAPE = ("kind", "name", "source_ts_ns", "dur_ns", "device", "stream", "context", "correlation", "blocks", "threads_per_block")


@pytest.fixture(scope="module")
def export() -> Export:
    return rank_export(Simulation(Job(world=4, hosts=2, tp=2, steps=2, layers=2, seed=8)), 3)


def _write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def _work(found: Read, base: int = 0) -> list[tuple[Any, ...]]:
    return [tuple(r[c] - base if c == "source_ts_ns" else r[c] for c in SHAPE) for r in found.rows("gpu_spans")]


def test_a_trace_by_hand(tmp_path: Path) -> None:
    found = read(STATS, _write(tmp_path / "r_cuda_gpu_trace.csv", GPU))
    assert _work(found) == [
        ("kernel", "void gemm<float, 4>(int)", 1_000_000, 5_000, 3, 7, 1, 11, 16, 256),
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 1_006_000, 9_000, 3, 20, 1, 12, 2, 512),
        ("memcpy", "Memcpy HtoD (Pinned -> Device)", 1_016_000, 2_000, 3, 7, 1, 13, None, None),
        ("memset", "Memset (Device)", 1_019_000, 700, 3, 7, 1, 14, None, None),
        ("memcpy", "Memcpy PtoP (Device -> Device)", 1_020_000, 800, 3, 8, 1, 15, None, None),
        ("memcpy", "Unified Memory Memcpy HtoD", 1_021_000, 800, 3, 8, 1, 16, None, None),
    ]
    assert [r["bytes"] for r in found.rows("gpu_spans")] == [None, None, 524_000, 4_000, 2_000_000, 2_000_000]
    (part,) = found.info.parts
    assert (part.rank, part.pid, part.host, part.device, part.time_base_lost) == (None, None, None, None, True)
    assert found.counts() == {"no-rank": 1, "no-time-base": 1, "report-only": 1}
    assert {c.kind: c.count for c in found.info.event_counts} == {"kernel": 2, "memcpy": 3, "memset": 1}


def test_reports_of_a_rank_say_what_its_database_says(export: Export, tmp_path: Path) -> None:
    (session,) = export.rows["TARGET_INFO_SESSION_START_TIME"]
    expected = read(PARSER, export.write(tmp_path / "r.sqlite"))
    first, *_ = write_stats(export, tmp_path, "r")
    found = read(STATS, first)
    assert _work(found) == _work(expected, session["utcEpochNs"])
    columns = ("kind", "name", "dur_ns", "pid", "tid", "correlation")

    def host(of: Read, base: int, kinds: set[str]) -> list[tuple[Any, ...]]:
        rows = [r for r in of.rows("host_spans") if r["kind"] in kinds]
        return sorted((r["source_ts_ns"] - base, *((r[c] or 0) if c == "correlation" else r[c] for c in columns)) for r in rows)

    kinds = {"runtime", "driver", "annotation"}
    assert host(found, 0, kinds) == host(expected, session["utcEpochNs"], kinds)
    assert [p.pid for p in found.info.parts] == [4003]
    assert sorted(r["name"] for r in found.rows("host_spans") if r["name"].startswith("NCCL:")) == sorted(
        r["name"] for r in expected.rows("host_spans") if r["name"].startswith("NCCL:")
    )


def test_one_report_joins_launches_itself(export: Export, tmp_path: Path) -> None:
    (path,) = write_stats(export, tmp_path, "r", ["cuda_kern_exec_trace"])
    found = read(STATS, path)
    kernels = export.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    calls = {r["correlationId"]: r["start"] for r in export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]}
    launched = {r["correlation"]: r["source_ts_ns"] for r in found.rows("host_spans")}
    assert sorted((r["source_ts_ns"], r["dur_ns"], launched[r["correlation"]]) for r in found.rows("gpu_spans")) == sorted(
        (k["start"], k["end"] - k["start"], calls[k["correlationId"]]) for k in kernels
    )
    assert {(r["device"], r["stream"]) for r in found.rows("gpu_spans")} == {(1, None)}
    assert {r["blocks"] for r in found.rows("gpu_spans")} == {24, 132 * 4}
    assert [p.pid for p in found.info.parts] == [4003]


def test_two_reports_of_the_same_kernels_count_once(export: Export, tmp_path: Path) -> None:
    first, *_ = write_stats(export, tmp_path, "r", ["cuda_gpu_trace", "cuda_api_trace", "cuda_kern_exec_trace"])
    found = read(STATS, first)
    kernels = len(export.rows["CUPTI_ACTIVITY_KIND_KERNEL"])
    assert sum(r["kind"] == "kernel" for r in found.rows("gpu_spans")) == kernels
    assert found.counts()["redundant-report"] == kernels


def test_work_of_one_process_is_its_own_and_of_several_is_nobodys(tmp_path: Path) -> None:
    first = _write(tmp_path / "r_cuda_gpu_trace.csv", GPU)
    _write(tmp_path / "r_cuda_api_trace.csv", API)
    assert [p.pid for p in read(STATS, first).info.parts] == [4242]
    _write(tmp_path / "r_cuda_api_trace.csv", API + "999000,100,cudaFree_v3020,0,20,5555,5555,20,python3\n")
    found = read(STATS, first)
    assert found.counts()["no-process-stated"] == 6
    assert found.notices["no-process-stated"].hint.startswith("export the capture itself")
    assert len(found.rows("gpu_spans")) == 6


@pytest.mark.parametrize(
    ("header", "row", "start", "length"),
    [
        ("Start (us),Duration (us),Device,Name", "1000.5,2.25,A100 (0),k", 1_000_500, 2_250),
        ("Start (ms),Duration (ns),Device,Name", "1.000001,7,A100 (0),k", 1_000_001, 7),
        ("Start(sec);Duration(nsec);Device;Name", "0,001;1 000;A100 (0);k", 1_000_000, 1_000),
        ("Start [ns]\tDuration [ns]\tDevice\tName", "1,234,567\t9\tA100 (0)\tk", 1_234_567, 9),
        ("Start (ns),Duration (ns),Device,Name", '"1,234,567",9,A100 (0),k', 1_234_567, 9),
        ("Start (s),End (s),Device,Name", "1e-3,2e-3,A100 (0),k", 1_000_000, 1_000_000),
        ("Start (ns),Duration (ns),Device,Name", "-500,9,A100 (0),k", -500, 9),
    ],
)
def test_units_and_numbers(tmp_path: Path, header: str, row: str, start: int, length: int) -> None:
    found = read(STATS, _write(tmp_path / "x.csv", f"{header}\n{row}\n"))
    (kernel,) = found.rows("gpu_spans")
    assert (kernel["source_ts_ns"], kernel["dur_ns"], kernel["name"]) == (start, length, "k")


@pytest.mark.parametrize("packed", [gzip.compress, lzma.compress, lambda b: lzma.compress(b[:300]) + bytes(8) + lzma.compress(b[300:])])
def test_compressed_reports(tmp_path: Path, packed: Any) -> None:
    expected = told(read(STATS, _write(tmp_path / "a.csv", GPU)))
    path = _write(tmp_path / "b.csv.xz", packed(GPU.encode()))
    assert STATS.sniff(path, read_head(path).data) is not None
    assert told(read(STATS, path)) == expected


def test_what_a_windows_shell_wrote(tmp_path: Path) -> None:
    path = _write(tmp_path / "r.csv", GPU.replace("\n", "\r\n").encode("utf-16"))
    assert STATS.sniff(path, path.read_bytes()) is not None
    assert _work(read(STATS, path)) == _work(read(STATS, _write(tmp_path / "plain.csv", GPU)))


def test_what_nsys_stats_prints_around_reports(tmp_path: Path) -> None:
    text = f"Generating SQLite file r.sqlite\nProcessing [r.sqlite] with [cuda_gpu_trace.py]...\n\n{GPU}\n"
    text += f"Processing [r.sqlite] with [cuda_api_trace.py]...\n{API}\n"
    path = _write(tmp_path / "printed.txt", text)
    assert STATS.sniff(path, text.encode()) is not None
    found = read(STATS, path)
    assert len(found.rows("gpu_spans")) == 6
    assert [r["name"] for r in found.rows("host_spans")] == ["cudaLaunchKernel", "cudaLaunchKernelExC"]


def test_reports_of_one_capture_are_one_source(tmp_path: Path) -> None:
    for stem in ("rank0", "rank1"):
        _write(tmp_path / f"{stem}_cuda_gpu_trace.csv", GPU if stem == "rank0" else "")
        _write(tmp_path / f"{stem}_cuda_api_trace.csv", API)
        _write(tmp_path / f"{stem}_nvtx_pushpop_trace.csv", "Start (ns),End (ns),Duration (ns),Name,PID,TID\n1,2,1,:step,4242,4243\n")
    _write(tmp_path / "notes.csv", "a,b,c,d\n1,2,3,4\n")
    found = discover(tmp_path)
    assert {c.name: [p.name for p in c.companions] for c in found if c.parser} == {
        "rank0_cuda_gpu_trace.csv": ["rank0_cuda_api_trace.csv", "rank0_nvtx_pushpop_trace.csv"],
        # an empty report stands for nothing
        "rank1_cuda_api_trace.csv": ["rank1_cuda_gpu_trace.csv", "rank1_nvtx_pushpop_trace.csv"],
    }
    assert read(STATS, tmp_path / "rank1_cuda_api_trace.csv").notices["no-gpu-report"].severity == "warning"
    assert [r["name"] for r in read(STATS, tmp_path / "rank0_cuda_gpu_trace.csv").rows("host_spans")].count("step") == 1


@pytest.mark.parametrize("name", ["r_gputrace.csv", "r_cuda_gpu_trace.csv"])
def test_older_names_of_reports(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name, GPU)
    _write(tmp_path / "r_cudaapitrace.csv", API)
    assert len(STATS.companions(path).files) == 1  # type: ignore[union-attr]
    assert [p.pid for p in read(STATS, path).info.parts] == [4242]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n100,1,1,1,1,1,1,0,k\n",
        "Start,Duration,Name\n1,2,3\n",
        "host,start,duration,device\n",
        "name,projected growth\n",
        "\0\0\0\0",
    ],
)
def test_other_tables_are_not_claimed(tmp_path: Path, text: str) -> None:
    path = _write(tmp_path / "x.csv", text)
    assert STATS.sniff(path, text.encode()) is None


def test_damage_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    first = GPU.splitlines()[0]
    good = "5,6,1,1,1,1,1,1,1,1,0,0,,,,,A100 (0),1,,7,k"
    rows = [good, "x,6" + good[3:], good + ",more", "1,2,3", good.replace(",7,k", ",seven,k"), "9" * 40 + good[1:], f'{good[:-1]}"{"y" * (2 << 20)}"', good]
    found = read(STATS, _write(tmp_path / "x.csv", "\n".join([first, *rows]) + "\n" + good[:20]))
    counts = found.counts()
    assert {k: counts[k] for k in ("bad-number", "ragged-row", "bad-line", "cut-text", "bad-time")} == {
        "bad-number": 3, "ragged-row": 2, "bad-line": 1, "cut-text": 1, "bad-time": 2,
    }  # fmt: skip
    assert [r["name"] for r in found.rows("gpu_spans")] == ["k"] * 4
    assert found.info.truncated


def test_a_torn_archive_gives_what_it_held(tmp_path: Path) -> None:
    text = GPU + "".join(f"{2_000_000 + n},1,1,1,1,1,1,1,1,1,0,0,,,,,A100 (0),1,,7,k{n * n}\n" for n in range(4_000))
    for name, data in (("a.csv.gz", gzip.compress(text.encode())), ("a.csv.xz", lzma.compress(text.encode()))):
        found = read(STATS, _write(tmp_path / name, data[: len(data) // 2]))
        assert 6 < len(found.rows("gpu_spans")) < 4_006
        assert found.info.truncated


def test_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelab_parsers.nsys_forms.text._FREE_BYTES", 1 << 18)
    monkeypatch.setattr("tracelab_parsers.nsys_forms.text._MAX_RATIO", 10)
    found = read(STATS, _write(tmp_path / "a.csv.xz", lzma.compress(GPU.encode() + b"\n" * (8 << 20))))
    assert len(found.rows("gpu_spans")) == 6


def test_no_report_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TracelabError, match="none of the reports"):
        read(STATS, _write(tmp_path / "x.csv", "Start (ns),"))
