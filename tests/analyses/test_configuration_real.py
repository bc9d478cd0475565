"""The review of the setup on logs of real jobs, as they are and with one host made worse."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tracelab.analyses.configuration import ANALYSIS
from tracelab.analysis import AnalysisResult, run_analyses
from tracelab.plugins import parsers
from tracelab.run import open_run
from tracelab_parsers.nccl_log.parser import PARSER

MEGATRON = "full/bigscience_gpt2_64proc_nccl2.7.log.gz"
HOST, ITS_RANKS = "r7i2n0", [12, 13, 14, 15]


@pytest.fixture
def review(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Path], AnalysisResult]:
    """Runs the analysis on a file or directory."""
    monkeypatch.setitem(parsers(), PARSER.name, PARSER)

    def run(path: Path) -> AnalysisResult:
        (outcome,) = run_analyses([ANALYSIS], open_run(path, jobs=1, cache_dir=tmp_path / "cache").tables, raise_errors=True)
        assert outcome.result is not None, outcome.status
        return outcome.result

    return run


@pytest.mark.parametrize(
    "name",
    [
        "full/bigscience_allreduce_bench_32rank_nccl2.10.log.gz",  # Omni-Path without GPUDirect, two of four adapters used on all hosts alike
        MEGATRON,
        "full/nccl_tests_subsys_all_nccl2.27.log.gz",  # two GPUs of one host: that its adapters cannot reach them does not matter
        "excerpts/05_nccl-2.9.9_efa_mpirun-tag_16gpu_init.log",
        "excerpts/09_nccl-2.29.7_tuning-table-and-choices.log",
        "excerpts/10_nccl-2.29.7_init_single-rank_socket_plugins.log",  # one rank: sockets carry nothing
        "excerpts/11_nccl-2.26.2_srun-label_efa_fsdp.txt",
    ],
)
def test_sound_jobs_have_no_serious_finding(name: str, review: Callable[[Path], AnalysisResult], test_data: Callable[[str], Path]) -> None:
    result = review(test_data("nccl") / name)
    assert [f.summary for f in result.findings if f.severity != "info"] == []


def test_one_log_of_32_ranks(review: Callable[[Path], AnalysisResult], test_data: Callable[[str], Path]) -> None:
    result = review(test_data("jobs/llama2_7b_32xA100") / "logs")
    assert result.findings == ()
    transports = {(r["scope"], r["transport"], r["gdr"]) for r in result.frames["transports"].iter_rows(named=True)}
    assert transports == {("host", "P2P/IPC", None), ("network", "NET/IB", True)}


def _worse(line: str, kind: str) -> str:
    here = line.startswith(HOST)
    if kind == "gdr":
        return line if here else re.sub(r"(via NET/IB/\d)", r"\1/GDRDMA", line)
    if not here:
        return line
    if kind == "sockets":
        return re.sub(r"NET/IB/\d", "NET/Socket/0", line).replace("Using network IB", "Using network Socket")
    if kind == "shm":
        return line.replace("via P2P/IPC", "via direct shared memory")
    if kind == "adapter":
        return line.replace(" [3]hfi1_1:1/IB", "")
    return line.replace("NET/IB/2", "NET/IB/3")


@pytest.mark.parametrize(
    ("kind", "confidence", "says"),
    [
        ("sockets", "proven", "TCP sockets"),
        ("shm", "likely", "6 pairs of GPUs"),
        ("gdr", "likely", "no GPUDirect RDMA"),
        ("adapter", "likely", "hfi1_1 missing"),
        ("rail", "likely", "here 1 (hfi1_1)"),
    ],
)
def test_one_host_of_sixteen_made_worse(
    kind: str, confidence: str, says: str, review: Callable[[Path], AnalysisResult], test_data: Callable[[str], Path], tmp_path: Path
) -> None:
    with gzip.open(test_data("nccl") / MEGATRON, "rt", errors="replace") as lines:
        (tmp_path / "job.log").write_text("".join(_worse(line, kind) for line in lines))
    (f,) = [f for f in review(tmp_path / "job.log").findings if f.severity != "info"]
    assert (f.kind, f.severity, f.confidence) == ("transport_fallback", "major", confidence)
    assert (f.hosts, f.ranks) == ([HOST], ITS_RANKS)
    assert says in f.summary
    assert any(HOST not in e.text and e.text.startswith("line ") for e in f.evidence)
    assert {e.source for e in f.evidence} == {"job.log"}
