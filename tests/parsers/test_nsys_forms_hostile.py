"""Damaged, hostile and nearly empty exports in other forms than SQLite: counted, bounded, never a traceback."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.collected import Read, read
from tests.builders.job import Job, Simulation
from tests.builders.nsys_forms import told, write_arrow, write_events, write_lines, write_parquet
from tests.builders.nsys_sqlite import Export, rank_export
from tracelab.errors import TracelabError
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.nsys.source import Field
from tracelab_parsers.nsys_forms import FOLDER, LINES
from tracelab_parsers.nsys_forms.columnar import ColumnarSource
from tracelab_parsers.nsys_forms.notices import FormNotices
from tracelab_parsers.nsys_forms.values import converted, multiplied


@pytest.fixture(scope="module")
def export() -> Export:
    return rank_export(Simulation(Job(world=2, hosts=1, steps=2, layers=1, seed=4)), 0)


def _converted(path: Path, folder: Path) -> Path:
    """A real database as a folder of Parquet files, column by column as SQLite has them."""
    folder.mkdir()
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = database.execute(f'SELECT * FROM "{name}"')
            columns = [d[0] for d in cursor.description]
            rows = cursor.fetchall()
            pq.write_table(pa.table({c: pa.array([r[n] for r in rows]) for n, c in enumerate(columns)}), folder / f"{name}.parquet")
    return folder / "StringIds.parquet"


def _as_lines(path: Path, target: Path) -> Path:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database, target.open("w") as file:
        database.row_factory = sqlite3.Row
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{name}"'):
                file.write(json.dumps({name: {k: v for k, v in dict(row).items() if v is not None}}) + "\n")
    return target


@pytest.mark.parametrize("name", ["mock.sqlite", "no_kernel_table.sqlite"])
def test_nearly_empty_real_captures_say_why(test_data: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    real = test_data("nsight/minimal") / name
    expected = read(PARSER, real)
    for found in (read(FOLDER, _converted(real, tmp_path / "p")), read(LINES, _as_lines(real, tmp_path / "r.jsonl"))):
        assert told(found) == told(expected)
        assert found.info == expected.info
        assert found.notices == expected.notices
    assert "no-ranges" in expected.notices


@pytest.mark.parametrize("form", ["folder", "lines"])
def test_an_export_without_events_has_reasons_instead_of_rows(tmp_path: Path, form: str) -> None:
    export = Export(empty=["NVTX_EVENTS", "StringIds"])
    found = (
        read(FOLDER, write_parquet(export, tmp_path / "x") / "StringIds.parquet")
        if form == "folder"
        else read(LINES, write_lines(export, tmp_path / "x.jsonl"))
    )
    assert told(found) == {}
    assert {"no-kernels", "no-runtime-calls", "no-ranges", "no-rank"} == set(found.notices)
    assert [p.host for p in found.info.parts] == ["node-0"]


def test_a_lost_footer_costs_a_parquet_file_and_not_an_arrow_file(export: Export, tmp_path: Path) -> None:
    expected = read(PARSER, export.write(tmp_path / "r.sqlite"))
    for write, lost in ((write_parquet, True), (write_arrow, False)):
        folder = write(export, tmp_path / write.__name__)
        path = next(folder.glob("CUPTI_ACTIVITY_KIND_KERNEL.*"))
        path.write_bytes(path.read_bytes()[:-60])
        found = read(FOLDER, next(folder.glob("StringIds.*")))
        kernels = [r for r in found.rows("gpu_spans") if r["kind"] == "kernel"]
        assert kernels == ([] if lost else [r for r in expected.rows("gpu_spans") if r["kind"] == "kernel"])
        assert found.info.truncated
        assert "CUPTI_ACTIVITY_KIND_KERNEL" in found.notices["table-damaged"].text
        assert found.rows("host_spans") == expected.rows("host_spans")


def test_a_half_of_an_arrow_stream_is_kept(export: Export, tmp_path: Path) -> None:
    folder = write_arrow(export, tmp_path / "x", footer=False, batch=2)
    path = folder / "CUPTI_ACTIVITY_KIND_KERNEL.arrow"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    found = read(FOLDER, folder / "StringIds.arrow")
    kernels = sum(r["kind"] == "kernel" for r in found.rows("gpu_spans"))
    assert 0 < kernels < len(export.rows["CUPTI_ACTIVITY_KIND_KERNEL"])
    assert kernels % 2 == 0
    assert found.info.truncated


def test_one_damaged_file_alone_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "StringIds.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(TracelabError, match="no Parquet or Arrow file"):
        read(FOLDER, path)


@pytest.mark.parametrize("write", [write_parquet, write_arrow])
def test_flipped_bytes_never_crash(export: Export, tmp_path: Path, write: Callable[[Export, Path], Path]) -> None:
    folder = write(export, tmp_path / "x")
    dice = random.Random(5)
    paths = sorted(p for p in folder.iterdir() if p.stem in {"CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds", "META_DATA_EXPORT"})
    whole = {p: p.read_bytes() for p in paths}
    for _ in range(40):
        path = dice.choice(paths)
        data = bytearray(whole[path])
        for _ in range(dice.choice((1, 4, 30))):
            data[dice.randrange(4, len(data))] = dice.randrange(256)
        path.write_bytes(data)
        found = read(FOLDER, next(folder.glob("StringIds.*")))
        assert len(found.info.parts) >= 1
        path.write_bytes(whole[path])


def test_columns_of_strange_types_are_missing_values(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    columns = {"start": pa.array([1.0, 2.5, float("nan"), 1e300]), "end": pa.array(["9", "x", "-7", None]), "deviceId": pa.array([b"1", b"2", b"3", b"4"])}
    columns |= {"streamId": pa.array([[1], [2], [3], [4]]), "contextId": pa.array([True, False, None, True]), "globalPid": pa.array([1 << 63] * 4, pa.uint64())}
    columns |= {"demangledName": pa.array([1, 2, 3, 4]).dictionary_encode(), "gridX": pa.array([1 << 62] * 4), "gridY": pa.array([1 << 62] * 4)}
    pq.write_table(pa.table(columns), folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    texts = {"id": pa.array([1, 2], pa.uint8()), "value": pa.array(["k", "x" * 10_000]).dictionary_encode()}
    pq.write_table(pa.table(texts), folder / "StringIds.parquet")
    found = read(FOLDER, folder / "StringIds.parquet")
    (row,) = found.rows("gpu_spans")
    assert (row["source_ts_ns"], row["dur_ns"], row["name"], row["stream"], row["device"], row["context"], row["blocks"]) == (1, 8, "k", None, 1, 1, None)
    assert found.counts()["bad-time"] == 3
    assert found.counts()["bad-value"] >= 3
    assert found.info.parts[0].pid == (1 << 63 >> 24) & 0xFFFFFF


@pytest.mark.parametrize(
    ("column", "kind", "expected", "bad"),
    [
        (pa.array([1, (1 << 64) - 1], pa.uint64()), "int", [1, -1], 0),
        (pa.array(["7", "18446744073709551615", "1e3", "36893488147419103232"]), "int", [7, -1, None, None], 2),
        (pa.array([3.0, 3.5, 9.3e18]), "int", [3, None, None], 2),
        (pa.array([1, 2]), "real", [1.0, 2.0], 0),
        (pa.array(["a"]), "real", [None], 1),
        (pa.array([5]), "text", ["5"], 0),
        (pa.array([b"\xff\xfea"]).view(pa.string()), "text", ["\ufffd\ufffda"], 0),
        (pa.array([b"\xff"]).view(pa.string()), "blob", [b"\xff"], 0),
        (pa.array(["é" * 5000], pa.large_string()), "text", ["é" * 4096], 0),
        (pa.array(["a", None, "b"]).dictionary_encode(), "text", ["a", None, "b"], 0),
        (pa.array(["1", None, "b"]).dictionary_encode(), "int", [1, None, None], 1),
        (pa.array([1_000], pa.timestamp("ns")), "int", [1_000], 0),
        (pa.array(["a"]).cast(pa.string_view()), "text", ["a"], 0),
        (pa.array([None, None], pa.null()), "text", [None, None], 0),
        (pa.array([[1]]), "int", [None], 1),
    ],
)
def test_values_of_any_type(column: pa.Array, kind: str, expected: list[object], bad: int) -> None:
    found, missed = converted(column, kind)  # type: ignore[arg-type]
    assert (found.to_pylist(), missed) == (expected, bad)


def test_a_product_that_does_not_fit_is_missing() -> None:
    found, missed = multiplied([pa.array([3, 1 << 40, None]), pa.array([5, 1 << 40, 2])])
    assert (found.to_pylist(), missed) == ([15, None, None], 1)


def test_texts_of_others_are_never_read(export: Export, tmp_path: Path) -> None:
    folder = write_parquet(export, tmp_path / "x", group=3)
    source = ColumnarSource({p.stem: [p] for p in folder.iterdir()}, FormNotices())
    texts = {r["id"]: r["value"] for r in export.rows["StringIds"]}
    asked = sorted(texts)[1:7:2]
    assert source.strings(asked) == {n: texts[n] for n in asked}
    assert source.strings([]) == source.strings([10**12]) == {}
    assert source.count("StringIds") == len(texts)
    assert source.count("NO_SUCH_TABLE") == 0
    assert list(source.batches("NO_SUCH_TABLE", [Field("x")])) == []
    only = list(source.batches("NVTX_EVENTS", [Field("eventType"), Field("nothing", "text")], ("domainId", 1)))
    expected = [r["eventType"] for r in export.rows["NVTX_EVENTS"] if r["domainId"] == 1]
    assert [v for b in only for v in b.column(0).to_pylist()] == expected
    assert {v for b in only for v in b.column(1).to_pylist()} == {None}


def _lines(path: Path, *lines: bytes | str) -> Read:
    path.write_bytes(b"\n".join(x.encode() if isinstance(x, str) else x for x in lines))
    return read(LINES, path)


def test_bad_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    kernel = '{"CUPTI_ACTIVITY_KIND_KERNEL":{"start":%d,"end":9,"deviceId":0,"demangledName":1,"correlationId":1,"globalPid":281474976710656}}'
    found = _lines(
        tmp_path / "x.jsonl",
        kernel % 1,
        '{"StringIds":{"id":1,"value":"k"}}',
        "no json",
        b"\xff\xfe\x00",
        "[" * 100_000,
        '{"Type":49,"DiagnosticEvent":{"text":"x"}}',
        "",
        f'{{"CUPTI_ACTIVITY_KIND_KERNEL":[{(kernel % 2)[30:-1]}]}}',
        '{"CUPTI_ACTIVITY_KIND_KERNEL":"no row"}',
        '{"CUPTI_ACTIVITY_KIND_KERNEL":{"start":{"a":[1]},"end":true}}',
        f'{{"NVTX_EVENTS":{{"start":1,"end":2,"eventType":59,"text":"{"x" * 3_000_000}"}}}}',
        '{"StringIds":{"id":2,"value":"\\ud800"}}',
        (kernel % 3)[:50],
    )
    assert [(r["source_ts_ns"], r["name"]) for r in found.rows("gpu_spans")] == [(1, "k"), (2, "k")]
    counts = found.counts()
    assert (counts["bad-line"], counts["cut-text"], counts["unknown-lines"], counts["bad-time"]) == (5, 1, 2, 1)
    assert found.info.truncated


def test_no_line_of_an_export_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TracelabError, match="no line of an export"):
        _lines(tmp_path / "x.jsonl", '{"a": 1}', "x")


def test_more_tables_and_columns_than_any_export_has(tmp_path: Path) -> None:
    rows = [f'{{"TABLE_{n}":{{"a":1}}}}' for n in range(700)]
    wide = {f"c{n}": n for n in range(1000)} | {"start": 1}
    found = _lines(tmp_path / "x.jsonl", *rows, json.dumps({"META_DATA_EXPORT": {"name": "a", "value": "b"}}), json.dumps({"TABLE_1": wide}))
    assert found.counts()["unknown-lines"] == 201
    assert told(found) == {}


@pytest.mark.parametrize(
    ("line", "texts", "code"),
    [
        ('{"data":["%s"],"files":[{"a":"b"}]}\n', 0, None),
        ('{"data":["%s", "b", 3, "c"]}\n', 0, "bad-line"),
        ('{"data":["%s", "b', 0, "cut-text"),
        ('{"other":["%s"]}\n', None, "bad-line"),
        ('{"data":["%s"', 0, "cut-text"),
    ],
)
def test_a_long_line_of_texts(tmp_path: Path, line: str, texts: int | None, code: str | None) -> None:
    name = "k" * (2 << 20)
    kernel = '{"Type":79,"CudaEvent":{"startNs":"5","endNs":"6","globalPid":"16777216","kernel":{"demangledName":"0"}}}\n'
    path = tmp_path / "x.json"
    path.write_text(kernel + line % ('a","' + name[: 1 << 19] + '","' + name[: 1 << 19]))
    found = read(LINES, path)
    assert [r["name"] for r in found.rows("gpu_spans")] == ["(unnamed)" if texts is None else "a"]
    assert [c for c in ("bad-line", "cut-text") if c in found.notices] == ([code] if code else [])


def test_quotes_without_end_take_linear_time(tmp_path: Path) -> None:
    export = Export()
    export.kernel("k", 1, 2)
    path = write_events(export, tmp_path / "x.json")
    with path.open("a") as file:
        file.write('{"data":["' + '\\"' * (4 << 20) + "\n")
    assert read(LINES, path).counts()["bad-line"] == 1


def test_temporary_files_are_removed(export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    read(LINES, write_lines(export, tmp_path / "x.jsonl"))
    with pytest.raises(TracelabError):
        _lines(tmp_path / "y.jsonl", "{}")
    assert list(folder.iterdir()) == []
