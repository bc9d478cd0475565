"""Real exports of Nsight Systems, against what plain SQL says of them."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.builders.collected import Read, read
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.source import Field
from tracelab_parsers.nsys.sqlite import SqliteSource

DATA = Path(os.environ.get("TRACELAB_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
TORCHRUN = DATA / "nsight" / "h100_2gpu_torchrun" / "mfu_2gpu_before.sqlite"
MINIMAL = DATA / "nsight" / "minimal"
MIXED = DATA.parent / "incidents" / "mixed_nsys_thermal_2x4"


def _present(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"real files are absent: {path.name} is not in TRACELAB_TEST_DATA ({DATA})")
    return path


def _sql(path: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def torchrun() -> Read:
    return read(PARSER, _present(TORCHRUN))


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"])
def test_pages_hold_what_sql_says(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns of the largest tables, and without SQLite's help."""
    path = _present(TORCHRUN)
    listed = [(str(name), "text" if kind == "TEXT" else "int") for _, name, kind, *_ in _sql(path, f"PRAGMA table_info({table})")]
    expected = _sql(path, f"SELECT {','.join(name for name, _ in listed)} FROM {table} ORDER BY rowid")
    monkeypatch.setattr(SqliteSource, "_rows_from", None)
    with SqliteSource(path, Notices()) as source:
        batches = list(source.batches(table, [Field(name, "text" if kind == "text" else "int") for name, kind in listed]))
    assert [tuple(row.values()) for b in batches for row in b.to_pylist()] == expected
    assert len(expected) > 1_000


def test_two_ranks_in_one_file(torchrun: Read) -> None:
    assert [(p.part, p.pid, p.device, p.host) for p in torchrun.info.parts] == [(0, 144, 0, "modal"), (1, 145, 1, "modal")]
    assert all(p.rank is None for p in torchrun.info.parts)
    rows = torchrun.rows("gpu_spans")
    assert Counter(r["kind"] for r in rows) == {"kernel": 4010, "memcpy": 1020, "memset": 269, "sync": 366}
    assert Counter(r["part"] for r in rows if r["kind"] == "kernel") == {0: 1993, 1: 2017}
    assert sum(r["name"].startswith("ncclDevKernel_SendRecv") for r in rows) == 66
    assert torchrun.notices["orphan-gpu-events"].count == 31


def test_times_are_those_of_the_day(torchrun: Read) -> None:
    (epoch,) = _sql(TORCHRUN, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0]
    expected = _sql(TORCHRUN, f"SELECT start + {epoch}, end - start FROM CUPTI_ACTIVITY_KIND_KERNEL")
    assert sorted((r["source_ts_ns"], r["dur_ns"]) for r in torchrun.rows("gpu_spans") if r["kind"] == "kernel") == sorted(expected)


def test_every_kernel_has_its_own_launch(torchrun: Read) -> None:
    """78 correlations occur in both processes: joined without the process they would mix the ranks."""
    calls = Counter((r["part"], r["correlation"]) for r in torchrun.rows("host_spans") if r["kind"] in ("runtime", "driver") and r["correlation"])
    kernels = [(r["part"], r["correlation"]) for r in torchrun.rows("gpu_spans") if r["kind"] == "kernel"]
    assert len({c for _, c in kernels}) == 3932
    assert len(set(kernels)) == 4010
    joined = _sql(
        TORCHRUN,
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
        "WHERE r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24)",
    )
    assert sum(k in calls for k in kernels) == joined[0][0] == 3986


def test_every_nccl_kernel_is_tied_to_its_ranges(torchrun: Read) -> None:
    ranges = [r for r in torchrun.rows("host_spans") if r["name"].startswith("NCCL:")]
    names = {"NCCL:ncclSend": 132, "NCCL:ncclRecv": 132, "NCCL:ncclGroupStart": 66, "NCCL:ncclGroupEnd": 66, "NCCL:ncclCommCount": 66}
    assert Counter(r["name"] for r in ranges) == names
    assert {r["kind"] for r in ranges} == {"annotation"}
    kernels = {(r["part"], r["correlation"]) for r in torchrun.rows("gpu_spans") if r["name"].startswith("nccl")}
    calls = {(r["part"], r["correlation"]): r for r in torchrun.rows("host_spans") if r["kind"] in ("runtime", "driver") and r["correlation"]}
    records = Counter((r["part"], r["correlation"]) for r in torchrun.rows("comm_records") if r["correlation"])
    # two kernels were launched before the capture began, and the last two groups were launched for kernels after its end
    assert len(kernels & calls.keys()) == 64
    assert records == dict.fromkeys(kernels & calls.keys(), 4)
    for key in kernels & calls.keys():
        call = calls[key]
        around = [
            r["name"]
            for r in ranges
            if r["part"] == call["part"] and r["tid"] == call["tid"] and r["source_ts_ns"] <= call["source_ts_ns"] <= r["source_ts_ns"] + r["dur_ns"]
        ]
        assert around == ["NCCL:ncclGroupEnd"]
    assert Counter(r["operation"] for r in torchrun.rows("comm_records")) == {"ncclSend": 132, "ncclRecv": 132}
    assert torchrun.notices["no-payloads"].count == 264


def test_operators_lose_their_numbers(torchrun: Read) -> None:
    operators = [r for r in torchrun.rows("host_spans") if r["kind"] == "cpu_op"]
    assert len(operators) == _sql(TORCHRUN, "SELECT count(*) FROM NVTX_EVENTS WHERE text LIKE '%, op_id = %'")[0][0] > 10_000
    assert not any("op_id" in r["name"] for r in operators)
    assert "aten::copy_" in {r["name"] for r in operators}


def test_an_almost_empty_capture_says_why() -> None:
    found = read(PARSER, _present(MINIMAL / "mock.sqlite"))
    assert Counter(r["kind"] for r in found.rows("gpu_spans")) == {"kernel": 2, "memcpy": 1, "sync": 1}
    (copy,) = [r for r in found.rows("gpu_spans") if r["kind"] == "memcpy"]
    assert (copy["name"], copy["copy_kind"]) == ("Memcpy DtoH (Device -> Pinned)", "DtoH")
    assert found.info.parts[0].gpu == "NVIDIA GeForce RTX 3080"
    assert {"no-ranges", "no-rank"} == set(found.notices)


def test_a_capture_without_kernels_says_so() -> None:
    found = read(PARSER, _present(MINIMAL / "no_kernel_table.sqlite"))
    assert [r["kind"] for r in found.rows("gpu_spans")] == ["memset"]
    assert found.rows("comm_records") == []
    assert {"no-kernels", "no-ranges"} <= set(found.notices)
    assert {c.kind: c.count for c in found.info.event_counts if not c.stored} == {"composite_events": 99, "osrt_api": 698, "sched_events": 320}


@pytest.mark.parametrize("rank", [4, 5, 6, 7])
def test_half_of_a_job_in_exports(rank: int) -> None:
    folder = _present(MIXED)
    truth = {r["rank"]: r for r in json.loads(folder.with_suffix(".truth.json").read_text())["ranks"]}
    path = folder / "node24" / f"profile_rank{rank}.sqlite"
    found = read(PARSER, path)
    (part,) = found.info.parts
    assert (part.pid, part.host) == (truth[rank]["pid"], "node24")
    kernels = [r for r in found.rows("gpu_spans") if r["kind"] == "kernel"]
    assert len(kernels) == _sql(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")[0][0] == 856
    tied = {r["correlation"] for r in found.rows("comm_records") if r["correlation"]}
    assert tied == {r["correlation"] for r in kernels if r["name"].startswith("nccl")}
    assert len(tied) == 48
