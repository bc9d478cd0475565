"""Databases that are damaged, locked, or made to do harm."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.collected import Read, read
from tests.builders.nsys_sqlite import Export
from tracelab.errors import TracelabError
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.source import Field
from tracelab_parsers.nsys.sqlite import SqliteSource

KERNELS = 3_000


def _export(kernels: int = KERNELS) -> Export:
    export = Export()
    for n in range(kernels):
        export.call("cudaLaunchKernel_v7000", 10_000 * n, 10_000 * n + 500, n + 1)
    for n in range(kernels):
        export.kernel(f"gemm_{n % 7}", 10_000 * n + 1_000, 10_000 * n + 9_000, n + 1)
    return export


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _export().write(tmp_path_factory.mktemp("whole") / "report.sqlite")


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "report.sqlite"))


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def _kernels(found: Read) -> int:
    return sum(r["kind"] == "kernel" for r in found.rows("gpu_spans"))


def test_secrets_go_nowhere(tmp_path: Path) -> None:
    export = _export(10)
    export.environment(RANK="1", WORLD_SIZE="2", HF_TOKEN="hf_secret_one", AWS_SECRET_ACCESS_KEY="secret two", WANDB_API_KEY="secretthree")
    export.add("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_3", value="--token=secret-four")
    export.add("META_DATA_EXPORT", name="EXPORT_USER", value="secret-five")
    export.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION_", value="secret-six")
    found = read(PARSER, export.write(tmp_path / "r.sqlite"))
    assert found.info.parts[0].rank == 1
    said = [repr(found.info), repr(list(found.notices.values())), *(str(b.to_pylist()) for batches in found.batches.values() for b in batches)]
    # a dictionary may hold more than its rows show
    said += [str(c.dictionary) for batches in found.batches.values() for b in batches for c in b.columns if hasattr(c, "dictionary")]
    assert "secret" not in " ".join(said)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_cut_database_gives_the_rows_before_the_cut(copy: Path, share: float) -> None:
    data = copy.read_bytes()
    copy.write_bytes(data[: int(len(data) * share)])
    found = read(PARSER, copy)
    assert found.info.truncated
    assert {"truncated", "table-damaged"} <= set(found.notices)
    rows = found.rows("host_spans")
    assert 0 < len(rows) + _kernels(found) < 2 * KERNELS
    assert [r["correlation"] for r in rows] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize("size", [1, 15, 16, 99, 100, 512, 4095, 4096])
def test_a_stump_is_an_error_or_says_so(copy: Path, size: int) -> None:
    copy.write_bytes(copy.read_bytes()[:size])
    with contextlib.suppress(TracelabError):
        assert read(PARSER, copy).info.truncated


def test_a_damaged_page_costs_its_table(whole: Path, copy: Path) -> None:
    with _writing(whole) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchone()
    data = bytearray(copy.read_bytes())
    page = data[(root - 1) * 4096 : root * 4096]
    assert page[0] == 5  # an inner page: its cells start with the number of a child
    cells = int.from_bytes(page[3:5])
    middle = 12 + 2 * (cells // 2)
    child = int.from_bytes(page[(at := int.from_bytes(page[middle : middle + 2])) : at + 4])
    data[(child - 1) * 4096 : child * 4096] = os.urandom(4096)
    copy.write_bytes(data)
    found = read(PARSER, copy)
    assert len(found.rows("host_spans")) == KERNELS
    assert 0 < _kernels(found) < KERNELS
    assert found.notices["table-damaged"].text.endswith("(CUPTI_ACTIVITY_KIND_KERNEL)")
    assert not found.info.truncated


def test_random_damage_never_ends_in_a_traceback(copy: Path) -> None:
    data = copy.read_bytes()
    for seed in range(40):
        broken = bytearray(data)
        for n in range(60):
            at = (seed * 7919 + n * 104_729) * 2_654_435_761 % (len(data) - 100) + 100
            broken[at] = (seed * 31 + n * 17) % 256
        copy.write_bytes(broken)
        with contextlib.suppress(TracelabError):
            read(PARSER, copy)


def test_a_view_is_no_table(tmp_path: Path) -> None:
    path = _export(5).write(tmp_path / "r.sqlite")
    with _writing(path) as connection:
        connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO hidden")
        connection.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM hidden")
        connection.execute("CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM c) SELECT start FROM c")
    assert _kernels(read(PARSER, path)) == 0


def test_a_view_that_calls_itself_a_table_is_none(tmp_path: Path) -> None:
    path = _export(5).write(tmp_path / "r.sqlite")
    with _writing(path) as connection:
        connection.execute("CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM c) SELECT start FROM c")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET type = 'table', rootpage = 2 WHERE name = 'NVTX_EVENTS'")
    with contextlib.suppress(TracelabError):
        found = read(PARSER, path)
        assert found.rows("host_spans") == [] or {r["kind"] for r in found.rows("host_spans")} == {"runtime"}
        assert "table-refused" in found.notices


def test_virtual_tables_and_computed_columns_are_not_read(tmp_path: Path) -> None:
    path = _export(5).write(tmp_path / "r.sqlite")
    with _writing(path) as connection:
        connection.execute("CREATE VIRTUAL TABLE NVTX_EVENTS USING fts4(start, text)")
        connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME")
        computed = "nameId INT GENERATED ALWAYS AS (length(printf('%.*c', 3, 'x')))"
        connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, {computed})")
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, ?)", [(1 << 48) + (4000 << 24) + 4000])
    found = read(PARSER, path)
    assert found.notices["table-refused"].count >= 1
    assert [r["name"] for r in found.rows("host_spans")] == ["(unnamed)"]


def test_nothing_but_reading_is_allowed(copy: Path) -> None:
    before = copy.read_bytes()
    with SqliteSource(copy, Notices()) as source:
        for connection in (source._batches, source._lookup):
            for sql in (
                "DELETE FROM StringIds",
                "CREATE TABLE x (a)",
                "ATTACH DATABASE ':memory:' AS x",
                "PRAGMA writable_schema = ON",
                "SELECT load_extension('x')",
                "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c",
            ):
                with pytest.raises(sqlite3.Error):
                    connection.execute(sql)
    assert copy.read_bytes() == before
    assert list(copy.parent.iterdir()) == [copy]


def test_values_of_the_wrong_type(tmp_path: Path) -> None:
    export = _export(4)
    rows = export.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    rows[0] |= {"streamId": "seven", "correlationId": b"\x01"}
    rows[1] |= {"start": "1000,5\n6", "deviceId": 1.0}
    rows[2] |= {"gridX": 1 << 62, "gridY": 1 << 62, "deviceId": 2.5}
    export.range("text", 1, 2)
    export.rows["NVTX_EVENTS"][0]["text"] = b"not \xff utf-8"
    found = read(PARSER, export.write(tmp_path / "r.sqlite"))
    kernels = found.rows("gpu_spans")
    assert [(r["correlation"], r["stream"], r["device"], r["blocks"]) for r in kernels] == [(None, None, 0, 528), (3, 7, None, None), (4, 7, 0, 528)]
    assert found.notices["bad-time"].count == 1
    assert found.notices["bad-value"].count == 5
    assert "not \ufffd utf-8" in {r["name"] for r in found.rows("host_spans")}


def test_long_texts_are_cut(tmp_path: Path) -> None:
    export = _export(1)
    export.range("x" * 10_000_000, 1, 2)
    export.kernel("k" * 1_000_000, 1, 2)
    found = read(PARSER, export.write(tmp_path / "r.sqlite"))
    assert max(len(r["name"]) for r in (*found.rows("host_spans"), *found.rows("gpu_spans"))) == 4096


def test_a_table_without_row_numbers(tmp_path: Path) -> None:
    path = _export(5).write(tmp_path / "r.sqlite")
    with _writing(path) as connection:
        connection.execute(
            "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, rowid INT, PRIMARY KEY (start)) WITHOUT ROWID"
        )
        tid = (1 << 48) + (4000 << 24) + 4000
        connection.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, 7)", [(n, n + 5, f"r{n}", tid) for n in range(9)])
    found = read(PARSER, path)
    assert [r["name"] for r in found.rows("host_spans") if r["kind"] == "annotation"] == [f"r{n}" for n in range(9)]


def test_rows_that_are_only_in_the_log(tmp_path: Path) -> None:
    """A database in WAL mode whose writer still has it open: its newest rows are in the file beside it."""
    path = _export(3).write(tmp_path / "r.sqlite", journal="wal")
    with _writing(path) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL")
        copies = tmp_path / "copied"
        copies.mkdir()
        for file in tmp_path.glob("r.sqlite*"):
            shutil.copy(file, copies)
        assert _kernels(read(PARSER, path)) == 6
    (copies / "r.sqlite-shm").unlink()
    assert _kernels(read(PARSER, copies / "r.sqlite")) == 6
    assert sorted(f.name for f in copies.iterdir()) == ["r.sqlite", "r.sqlite-wal"]
    (copies / "r.sqlite-wal").write_bytes(b"\x00" * 40)
    assert _kernels(read(PARSER, copies / "r.sqlite")) == 3
    (copies / "r.sqlite-wal").unlink()
    (copies / "r.sqlite-wal").mkdir()
    assert read(PARSER, copies / "r.sqlite").notices["wal-beside"].count == 1


def test_a_locked_database_is_read(copy: Path) -> None:
    with _writing(copy) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("INSERT INTO StringIds VALUES (99999, 'x')")
        found = read(PARSER, copy)
    assert _kernels(found) == KERNELS


@pytest.mark.parametrize("quick", [False, True])
def test_batches_of_any_size_give_the_same(copy: Path, quick: bool) -> None:
    fields = (Field("start"), Field("streamId"), Field("nothing"), Field("blocks", product=("gridX", "gridY", "gridZ")))
    found = []
    for rows in (1_000, 7, KERNELS, 100_000):
        with SqliteSource(copy, Notices(), batch_rows=rows, quick=quick) as source:
            batches = list(source.batches("CUPTI_ACTIVITY_KIND_KERNEL", fields))
            assert max(b.num_rows for b in batches) <= rows
            found.append([row for b in batches for row in b.to_pylist()])
            some = list(source.batches("CUPTI_ACTIVITY_KIND_KERNEL", fields, ("correlationId", 5)))
            assert [r["start"] for b in some for r in b.to_pylist()] == [41_000]
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0][1] == {"start": 11_000, "streamId": 7, "nothing": None, "blocks": 528}


def test_no_string_is_read_that_no_row_names(copy: Path) -> None:
    with SqliteSource(copy, Notices()) as source:
        assert source.strings([1, 3, 10**9, -5]) == {i: source.strings([i])[i] for i in (1, 3)}
        assert source.strings([]) == {}


@pytest.mark.parametrize(
    "content", [b"", b"SQLite format 3\x00", b"SQLite format 3\x00" + b"\x00" * 5000, b"PK\x03\x04", b"SQLite format 3\x00" + b"\xff" * 90_000]
)
def test_what_is_no_database_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(content)
    assert PARSER.sniff(path, content[:65536]) is None
    with pytest.raises(TracelabError):
        read(PARSER, path)


def test_other_databases_are_not_claimed(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with _writing(path) as connection:
        connection.execute("CREATE TABLE urls (id INTEGER, url TEXT)")
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    assert PARSER.sniff(path, path.read_bytes()[:65536]) is None


def test_tables_named_late_in_the_file_are_found(tmp_path: Path) -> None:
    export = _export(3)
    path = export.write(tmp_path / "r.sqlite", page_size=512)
    assert PARSER.sniff(path, path.read_bytes()[:100]) is not None


@pytest.mark.parametrize("begin", [8_889, 10_000, 30_001, 62_000])
def test_a_file_whose_rest_is_zeros_ends(begin: int, tmp_path: Path) -> None:
    """What a full disk leaves: pages that lead back to themselves."""
    data = _export(300).write(tmp_path / "r.sqlite").read_bytes()
    (tmp_path / "r.sqlite").write_bytes(data[:begin] + bytes(len(data) - begin - 4096))
    found = read(PARSER, tmp_path / "r.sqlite")
    assert "table-damaged" in found.notices
    assert len({r["source_ts_ns"] for r in found.rows("gpu_spans")}) == _kernels(found) <= 300


def test_notices_of_loss_say_what_to_do() -> None:
    """Their hints begin with what to do."""
    notices = Notices()
    codes = ("bad-value", "bad-time", "unnamed", "no-rank", "too-many-processes", "no-kernels-but-launches")
    for code in codes:
        notices.add(code)
    assert {n.code: n.hint.split()[0] for n in notices.all()} == {
        "bad-value": "export",
        "bad-time": "export",
        "unnamed": "export",
        "no-rank": "name",
        "too-many-processes": "record",
        "no-kernels-but-launches": "do",
    }
