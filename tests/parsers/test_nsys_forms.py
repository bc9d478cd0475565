"""The other forms of an Nsight Systems capture: folders of tables, JSON lines, reports, and what nsys itself must export first."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracelab
from tests.builders.job import Job, Simulation
from tests.builders.nsys_forms import STATS_KERNELS, write_arrow, write_json_lines, write_parquet, write_projection
from tests.builders.nsys_sqlite import write_rank
from tracelab.errors import TracelabError
from tracelab.ingest.discovery import discover
from tracelab.ingest.heads import read_head
from tracelab.plugins import Notice, Parser, SourceFile, SourceInfo
from tracelab.tables import TableSpec
from tracelab_parsers.nsys import PARSER as SQLITE
from tracelab_parsers.nsys_forms import FOLDER, LINES, RECIPE, REPORT, STATS

SECRET = "hunter2"


class Kept:
    """An emitter that keeps everything."""

    def __init__(self) -> None:
        self.batches: dict[str, list[pl.DataFrame]] = {}
        self.notices: list[Notice] = []

    def batch(self, table: TableSpec, batch: Any) -> None:
        frame = pl.DataFrame(pl.from_arrow(batch))
        self.batches.setdefault(table.name, []).append(frame.with_columns(pl.col(pl.Categorical).cast(pl.String)))

    def notice(self, notice: Notice) -> None:
        self.notices.append(notice)

    def progress(self, bytes_read: int) -> None:
        assert bytes_read >= 0


def read(parser: Parser, path: Path) -> tuple[dict[str, pl.DataFrame], SourceInfo, Kept]:
    emit = Kept()
    info = parser.parse(SourceFile(path, path.name), emit)
    return {n: pl.concat(b) for n, b in emit.batches.items()}, info, emit


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rank 0 of a simulated job, exported to SQLite; newer exports state NCCL's metadata as JSON."""
    return write_rank(tmp_path_factory.mktemp("export") / "rank0.sqlite", Simulation(Job(world=4, hosts=2, steps=2)), 0, payloads="json")


def _rows(frame: pl.DataFrame) -> pl.DataFrame:
    plain = frame.drop("part")
    return plain.sort(["source_ts_ns", "dur_ns", "name"] if "name" in plain.columns else ["source_ts_ns", "dur_ns", "correlation"])


@pytest.mark.parametrize("form", ["parquet", "arrow", "lines"])
def test_all_forms_of_an_export_say_the_same(form: str, export: Path, tmp_path: Path) -> None:
    if form == "lines":
        path, parser = write_json_lines(export, tmp_path / "rank0.jsonl"), LINES
    else:
        folder = write_parquet(export, tmp_path / "d") if form == "parquet" else write_arrow(export, tmp_path / "d")
        (path,) = (c.path for c in discover(folder) if c.companion_of is None)
        parser = FOLDER  # type: ignore[assignment]
    assert parser.sniff(path, read_head(path).data) is not None
    mine, info, _ = read(parser, path)
    theirs, whole, _ = read(SQLITE, export)
    assert [(p.rank, p.pid, p.start_ns, p.end_ns) for p in info.parts] == [(p.rank, p.pid, p.start_ns, p.end_ns) for p in whole.parts]
    assert theirs["gpu_spans"].height > 0
    assert theirs["comm_records"].height > 0
    for table in ("gpu_spans", "host_spans", "comm_records"):
        assert _rows(mine[table]).equals(_rows(theirs[table])), table


def test_one_table_stands_for_its_folder(export: Path, tmp_path: Path) -> None:
    folder = write_parquet(export, tmp_path / "rank0")
    candidates = discover(tmp_path)
    assert [c.parser for c in candidates if c.companion_of is None] == ["nsys-parquet"]
    assert len(candidates) == len(list(folder.iterdir()))


def test_a_report_of_nsys_stats(tmp_path: Path) -> None:
    """Three rows by hand: a kernel, a collective, a copy of 0.524 MB."""
    path = tmp_path / "r_cuda_gpu_trace.csv"
    path.write_text(STATS_KERNELS, encoding="utf-8")
    assert STATS.sniff(path, read_head(path).data) is not None
    tables, info, emit = read(STATS, path)
    found = tables["gpu_spans"].sort("source_ts_ns").select("kind", "source_ts_ns", "dur_ns", "stream", "correlation").rows()
    assert found == [("kernel", 1_000_000, 5_000, 7, 11), ("kernel", 1_006_000, 9_000, 20, 12), ("memcpy", 1_016_000, 2_000, 7, 13)]
    assert tables["gpu_spans"].filter(pl.col("kind") == "memcpy")["bytes"].to_list() == pytest.approx([524_000], rel=0.01)
    assert info.parts[0].time_base_lost
    assert "report-only" in {n.code for n in emit.notices}


def test_the_projection_of_a_recipe(tmp_path: Path) -> None:
    path = write_projection(tmp_path / "trace.parquet")
    assert RECIPE.sniff(path, read_head(path).data) is not None
    tables, _, _ = read(RECIPE, path)
    assert tables["gpu_spans"].sort("source_ts_ns").select("source_ts_ns", "dur_ns").rows() == [(1_000_000, 40_000), (1_050_000, 90_000), (1_150_000, 30_000)]


def test_four_processes_with_four_clocks(test_data: Callable[[str], Path]) -> None:
    """Known truth of the set: 120 collective ends per rank; with offsets from them the residual is below 1 µs in the median and 60 µs at most."""
    run = tracelab.open(test_data("nsight/jax_4xA100_recipe"))
    assert sorted(run.rank_map.ranks) == [0, 1, 2, 3]
    ops = run.tables["collectives"].collect()
    assert dict(ops.group_by("rank").len().iter_rows()) == dict.fromkeys(range(4), 120)
    whole = run.tables["matches"].filter(pl.col("present") == 4).select("match_id", pl.col("end_ns").alias("common")).collect()
    assert whole.height == 120
    ends = run.tables["arrivals"].collect().join(whole, on="match_id").select((pl.col("end_ns") - pl.col("common")).abs().alias("away"))["away"]
    assert float(ends.median()) <= 1_000  # type: ignore[arg-type]
    assert float(ends.max()) <= 60_000  # type: ignore[arg-type]


def _program(folder: Path, text: str) -> None:
    path = folder / "nsys"
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_report_is_exported_by_nsys(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of nsys copies the export to where it is told to; the copy is gone afterwards."""
    tools = tmp_path / "bin"
    tools.mkdir()
    told = tmp_path / "told"
    script = f'#!/bin/sh\necho "$@" > {told}\nwhile [ $# -gt 0 ]; do case "$1" in -o|--output) out="$2"; shift;; '
    script += '--output=*) out="${1#--output=}";; esac; shift; done\n'
    _program(tools, script + f'cp {export} "$out"\n')
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    report = tmp_path / "rank0.nsys-rep"
    report.write_bytes(b"some report")
    assert REPORT.sniff(report, b"some report") is not None
    mine, _, _ = read(REPORT, report)
    theirs, _, _ = read(SQLITE, export)
    assert _rows(mine["gpu_spans"]).equals(_rows(theirs["gpu_spans"]))
    assert "export" in told.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bin", "rank0.nsys-rep", "told"]


def test_without_nsys_the_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    report = tmp_path / "rank0.nsys-rep"
    report.write_bytes(b"some report")
    with pytest.raises(TracelabError) as raised:
        read(REPORT, report)
    assert "nsys export" in raised.value.hint
    assert "sqlite" in raised.value.hint


def test_an_nsys_that_fails_costs_that_report_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    _program(tools, "#!/bin/sh\necho no licence >&2\nexit 3\n")
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    report = tmp_path / "rank0.nsys-rep"
    report.write_bytes(b"some report")
    with pytest.raises(TracelabError):
        read(REPORT, report)


@pytest.mark.parametrize("content", [b"", b"\x00" * 5_000, b'{"data": [', b"Start (ns),Duration (ns)\n", b"PAR1", b"ARROW1\x00\x00"])
@pytest.mark.parametrize("parser", [FOLDER, LINES, RECIPE, STATS], ids=lambda p: p.name)
def test_what_is_no_export_is_an_error_or_a_notice(parser: Parser, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    try:
        _, info, emit = read(parser, path)
    except (TracelabError, OSError):
        return
    assert info.truncated or emit.notices
