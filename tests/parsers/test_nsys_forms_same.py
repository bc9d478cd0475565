"""One simulated rank in every form of export: the rows are those of the SQLite export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from tests.builders.collected import Read, read
from tests.builders.job import Job, Simulation
from tests.builders.nsys_forms import told, write_arrow, write_events, write_lines, write_parquet
from tests.builders.nsys_sqlite import VERSIONS, Export, rank_export
from tests.builders.run import AlignedTables
from tracelab.ingest.discovery import discover
from tracelab.ingest.heads import read_head
from tracelab.plugins import SourceFile
from tracelab.tables import PARSED_TABLES
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.nsys_forms import FOLDER, LINES

JOB = Job(generation="2026", world=4, hosts=2, tp=2, steps=3, layers=2, seed=5, clock_offsets_ns=[0, 2_000_123], compress=False)
SECRET = "hf_not_to_be_shown"

Write = Callable[[Export, Path], Read]


@pytest.fixture(scope="module")
def run() -> Simulation:
    return Simulation(JOB)


def _parquet(export: Export, folder: Path) -> Read:
    return read(FOLDER, write_parquet(export, folder / "rank_pqtdir", group=100) / "StringIds.parquet")


def _arrow(export: Export, folder: Path) -> Read:
    return read(FOLDER, write_arrow(export, folder / "rank_arwdir", batch=100) / "StringIds.arrow")


def _stream(export: Export, folder: Path) -> Read:
    return read(FOLDER, write_arrow(export, folder / "rank_arwdir", footer=False) / "StringIds.arrow")


def _lines(export: Export, folder: Path) -> Read:
    return read(LINES, write_lines(export, folder / "rank.jsonl"))


def _fields(export: Export, folder: Path) -> Read:
    return read(LINES, write_lines(export, folder / "rank.jsonl", form="field"))


TABLES = pytest.mark.parametrize("write", [_parquet, _arrow, _stream, _lines, _fields])


@TABLES
@pytest.mark.parametrize("schema", [VERSIONS[0], VERSIONS[2], VERSIONS[-1]])
def test_every_form_gives_the_rows_of_the_database(run: Simulation, tmp_path: Path, write: Write, schema: str) -> None:
    export = rank_export(run, 3, schema, payloads="json")
    expected, found = read(PARSER, export.write(tmp_path / "r.sqlite")), write(export, tmp_path)
    assert found.info == expected.info
    assert found.notices == expected.notices
    assert told(found) == told(expected)
    assert {"gpu_spans", "host_spans", "comm_records"} <= found.batches.keys()


@pytest.mark.parametrize("write", [_parquet, _arrow, _stream])
def test_binary_payloads_survive_as_broken_text(run: Simulation, tmp_path: Path, write: Write) -> None:
    export = rank_export(run, 1, payloads="blob")
    expected, found = read(PARSER, export.write(tmp_path / "r.sqlite")), write(export, tmp_path)
    assert found.rows("comm_records") == expected.rows("comm_records")
    assert found.info == expected.info
    sizes = Counter(len(op.group) for op in run.operations if 1 in op.group)
    assert Counter(r["group_size"] for r in found.rows("comm_records") if r["recorded_on"] == "kernel") == sizes


@TABLES
def test_what_a_table_lacks_costs_the_same_in_every_form(tmp_path: Path, write: Write) -> None:
    export = Export("3.25.0", epoch_ns=None, suffixes={} if write in (_lines, _fields) else {"NVTX_EVENTS": "_V2"}, empty=["CUPTI_ACTIVITY_KIND_MEMSET"])
    export.kernel("k(int)", 5_000, 4_000, 1)
    export.kernel(None, 6_000, 7_000, 0)
    export.gpu("SYNCHRONIZATION", -5, 10, 2, stream=4_294_967_295, syncType=3)
    export.gpu("MEMCPY", 8_000, 9_000, 3, bytes=1 << 40, copyKind=10, srcDeviceId=0, dstDeviceId=5)
    export.range("open", 100, None)
    export.call("cudaLaunchKernel_v7000", 100, 200, 1)
    expected, found = read(PARSER, export.write(tmp_path / "r.sqlite")), write(export, tmp_path)
    assert found.counts() == expected.counts()
    assert told(found) == told(expected)
    copy = next(r for r in found.rows("gpu_spans") if r["kind"] == "memcpy")
    assert (copy["copy_kind"], copy["bytes"], copy["src_device"], copy["dst_device"]) == ("PtoP", 1 << 40, 0, 5)


@TABLES
def test_the_environment_reaches_no_row(run: Simulation, tmp_path: Path, write: Write) -> None:
    export = rank_export(run, 0)
    assert any(SECRET in str(r["value"]) for r in export.rows["StringIds"])
    found = write(export, tmp_path)
    (part,) = found.info.parts
    assert (part.rank, part.world_size, part.host, part.pid) == (0, 4, "node-0", 4000)
    shown = repr((found.info, found.notices, told(found)))
    assert SECRET not in shown
    assert "/usr/bin" not in shown


@pytest.mark.parametrize("together", [True, False])
def test_events_of_older_versions(run: Simulation, tmp_path: Path, *, together: bool) -> None:
    export = rank_export(run, 2, payloads="none")
    export.gpu("SYNCHRONIZATION", 2_000_000_000, 2_000_000_500, 99, syncType=3)
    expected = read(PARSER, export.write(tmp_path / "r.sqlite"))
    found = read(LINES, write_events(export, tmp_path / "r.json", together=together))
    base = _base(export)

    def rows(of: Read, table: str, since: int) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k != "source_ts_ns"} | {"ts": r["source_ts_ns"] - since} for r in of.rows(table)]

    work = [r | {"device": None} if r["kind"] == "sync" else r for r in rows(expected, "gpu_spans", base)]
    assert rows(found, "gpu_spans", 0) == work
    assert {r["name"] for r in work if r["kind"] == "sync"} == {"Stream Sync"}
    assert rows(found, "host_spans", 0) == rows(expected, "host_spans", base)
    # events say neither who ran them nor when the session began
    assert found.info.parts[0].rank is None
    assert found.info.parts[0].time_base_lost
    assert "no-time-base" in found.notices


def _base(export: Export) -> int:
    (start,) = export.rows["TARGET_INFO_SESSION_START_TIME"]
    return int(start["utcEpochNs"])


def test_texts_that_fill_a_line_of_many_megabytes(tmp_path: Path) -> None:
    export = Export(pid=7)
    names = [f'kernel_{n}<"\\é{"x" * 90}>(int)' for n in range(20_000)]
    for n, name in enumerate(names):
        export.kernel(name, 1_000 * n, 1_000 * n + 500, n + 1)
    path = write_events(export, tmp_path / "r.json")
    assert max(map(len, path.read_text().splitlines())) > 3 << 20
    found = read(LINES, path)
    assert [r["name"] for r in found.rows("gpu_spans")] == names
    assert not {"bad-line", "cut-text", "unnamed"} & set(found.notices)


def test_one_file_of_a_folder_is_claimed(run: Simulation, tmp_path: Path) -> None:
    write_parquet(rank_export(run, 0), tmp_path / "a" / "rank0_pqtdir")
    write_arrow(rank_export(run, 1), tmp_path / "b" / "rank1_arwdir")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a" / "rank0_pqtdir" / "notes.parquet")
    found = [c for c in discover(tmp_path) if c.companion_of is None]
    assert [(c.name, c.parser) for c in found] == [
        ("a/rank0_pqtdir/StringIds.parquet", "nsys-parquet"),
        ("a/rank0_pqtdir/notes.parquet", None),
        ("b/rank1_arwdir/StringIds.arrow", "nsys-parquet"),
    ]
    assert {len(c.companions) for c in found if c.parser} == {len(rank_export(run, 0).rows) - 1}
    for c in found:
        if c.parser:
            claims = [p for p in (c.path, *c.companions) if FOLDER.sniff(p, read_head(p).data)]
            assert claims == [c.path]


def test_another_table_stands_for_a_folder_whose_texts_are_lost(run: Simulation, tmp_path: Path) -> None:
    folder = write_parquet(rank_export(run, 0), tmp_path / "rank0")
    (folder / "StringIds.parquet").write_bytes(b"")
    (found,) = [c for c in discover(tmp_path) if c.parser is not None]
    assert found.name == "rank0/CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    rows = read(FOLDER, found.path)
    assert {r["name"] for r in rows.rows("gpu_spans") if r["kind"] == "kernel"} == {"(unnamed)"}
    assert {"table-damaged", "unnamed"} <= set(rows.notices)
    assert "StringIds" in rows.notices["unnamed"].hint
    assert rows.info.truncated


def test_a_single_table_is_no_export(tmp_path: Path) -> None:
    export = Export()
    export.kernel("k", 1, 2)
    folder = write_parquet(export, tmp_path / "x")
    for path in folder.iterdir():
        if path.stem != "CUPTI_ACTIVITY_KIND_KERNEL":
            path.unlink()
    (kernels,) = folder.iterdir()
    assert FOLDER.sniff(kernels, kernels.read_bytes()) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": [{"name": "NvtxEvent"}]}\n',
        '{"Type": 59}\n{"NvtxEvent": 3}\n',
        '{"data": ["a", "b"]}\n{"more": 1}\n',
        'NvtxEvent {"NvtxEvent": {}}\n',
        '{"table": "users", "row": {}}\n',
        '{"id": "17", "value": "x"}\n',
        "",
    ],
)
def test_other_lines_are_not_claimed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert LINES.sniff(path, text.encode()) is None


def test_texts_before_the_events_do_not_hide_them(tmp_path: Path) -> None:
    export = Export()
    for n in range(3000):
        export.kernel(f"kernel number {n} with a name of some length", n, n + 1)
    lines = write_events(export, tmp_path / "r.json").read_text().splitlines()
    turned = tmp_path / "turned.json"
    turned.write_text("\n".join([lines[-1], *lines[:-1]]) + "\n")
    head = turned.read_bytes()[: 64 << 10]
    assert b"CudaEvent" not in head
    assert LINES.sniff(turned, head) is not None
    assert read(LINES, turned).rows("gpu_spans") == read(LINES, tmp_path / "r.json").rows("gpu_spans")


def _tables(files: dict[int, Read]) -> dict[str, pl.LazyFrame]:
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


def test_ranks_in_four_forms_are_one_job(run: Simulation, tmp_path: Path) -> None:
    """Each rank in another form: all collectives of the job match, with the sizes that it gave them."""
    files = {}
    for rank, write in enumerate((_parquet, _arrow, _stream, _lines)):
        (tmp_path / f"{rank}").mkdir()
        files[rank] = write(rank_export(run, rank, payloads="json"), tmp_path / f"{rank}")
    tables = AlignedTables(_tables(files), {r: JOB.host(r) for r in range(JOB.world)}, JOB.world)
    rows = tables["collectives"].collect().to_dicts()
    groups = {g["group_id"]: tuple(g["ranks"]) for g in tables["groups"].collect().to_dicts()}
    by_match: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_match.setdefault(row["match_id"], []).append(row)
    found = sorted((groups[m[0]["group_id"]], m[0]["operation"], tuple(sorted((x["rank"], x["source_ts_ns"]) for x in m))) for m in by_match.values())
    expected = sorted((op.group, op.operation, tuple((r, op.starts[r] + JOB.clock_error(JOB.host(r))) for r in sorted(op.group))) for op in run.operations)
    assert found == expected


def test_progress_ends_with_all_bytes(run: Simulation, tmp_path: Path) -> None:
    folder = write_parquet(rank_export(run, 0), tmp_path / "rank0")

    class Told(Read):
        def progress(self, bytes_read: int) -> None:
            steps.append(bytes_read)

    steps: list[int] = []
    FOLDER.parse(SourceFile(folder / "StringIds.parquet", "x"), Told())
    assert steps == sorted(steps)
    assert steps[-1] == sum(p.stat().st_size for p in folder.iterdir())
