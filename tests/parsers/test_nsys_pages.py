"""Rows read from the pages of a file are those that SQLite reads."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.pages import Pages
from tracelab_parsers.nsys.source import Field
from tracelab_parsers.nsys.sqlite import SqliteSource, _Query

FIELDS = (Field("a"), Field("t", "text"), Field("b", "blob"), Field("r", "real"), Field("p", product=("a", "c")), Field("none"), Field("c"))
EDGES: tuple[int, ...] = (
    0,
    1,
    -1,
    2,
    127,
    128,
    -128,
    -129,
    32_767,
    32_768,
    -32_769,
    1 << 23,
    -(1 << 23) - 1,
    1 << 31,
    -(1 << 31) - 1,
    1 << 47,
    -(1 << 47) - 1,
    1 << 48,
    (1 << 63) - 1,
    -(1 << 63),
    281_477_392_629_760,
)


@contextlib.contextmanager
def _database(path: Path, page_size: int = 4096, declared: str = "a INTEGER, t TEXT, b TEXT, r REAL, c INTEGER") -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute(f"CREATE TABLE T ({declared})")
        connection.execute("CREATE TABLE Other (x)")
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT")


def _row(random_: random.Random, longest: int) -> tuple[Any, ...]:
    size = random_.choice((0, 1, 5, 57, 58, 59, 200, longest))
    text = random_.choice((None, "ü" * size, "x" * size, "aten::mm, seq = 7, op_id = 12"))
    blob = random_.choice((None, None, random_.randbytes(size)))
    real = random_.choice((None, 0.0, 1.5, -2.0, 1e300, 3, 1 << 40))
    a = random_.choice((*EDGES, None, random_.randrange(-(1 << 62), 1 << 62)))
    return a, text, blob, real, random_.choice((0, 1, 2, None))


def _read(path: Path, *, quick: bool, fields: tuple[Field, ...] = FIELDS) -> tuple[list[dict[str, Any]], dict[str, int]]:
    notices = Notices()
    with SqliteSource(path, notices, batch_rows=500, quick=quick) as source:
        assert (source._pages is not None) == quick
        found = [row for batch in source.batches("T", fields) for row in batch.to_pylist()]
    for row in found:
        row["b"] = row["b"] or None  # an empty one says nothing
    return found, {n.code: n.count for n in notices.all()}


@pytest.mark.parametrize("page_size", [512, 1024, 4096, 65_536])
@pytest.mark.parametrize("longest", [300, 3_000, 20_000])
def test_any_values_in_pages_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_size: int, longest: int) -> None:
    """Long rows go on in other pages. SQLite is not asked."""
    path = tmp_path / "r.sqlite"
    random_ = random.Random(page_size + longest)
    with _database(path, page_size) as connection:
        for number in range(1_500):
            connection.execute("INSERT INTO T VALUES (?, ?, ?, ?, ?)", _row(random_, longest))
            if number % 9 == 0:
                connection.execute("INSERT INTO Other VALUES (?)", ["y" * 900])
        connection.execute("DELETE FROM T WHERE rowid % 11 = 3")
        for rowid in (1 << 20, 1 << 40, (1 << 63) - 1, -5, 1 - (1 << 63)):
            connection.execute("INSERT INTO T (rowid, a, t) VALUES (?, ?, ?)", [rowid, rowid, str(rowid)])
    fields = tuple(f for f in FIELDS if not f.product)
    slow = _read(path, quick=False, fields=fields)
    monkeypatch.setattr(SqliteSource, "_rows_from", None)
    monkeypatch.setattr(_Query, "columnar", None)
    quick = _read(path, quick=True, fields=fields)
    assert len(quick[0]) == 1_500 - 137 + 5
    assert quick == slow
    assert [r["a"] for r in quick[0]][:2] == [1 - (1 << 63), -5]


def test_ordinary_rows_come_from_the_pages(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with _database(path) as connection:
        rows = [(n * 1_000 - 7, f"range {n}" + "x" * (n % 80), None if n % 3 else struct.pack("<q", n), n / 4, 3) for n in range(5_000)]
        connection.executemany("INSERT INTO T VALUES (?, ?, ?, ?, ?)", rows)
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'T'").fetchone()
    with Pages(path) as pages:
        places = {"a": 0, "t": 1, "b": 2, "r": 3, "c": 4}
        found = [pa.Table.from_arrays(r.columns(FIELDS[:5], places), names=list("atbrp")).to_pylist() for r in pages.rows(root, 7)]
        last = [r.last for r in pages.rows(root, 7)]
    assert [(r["a"], r["t"], r["b"], r["r"], r["p"]) for block in found for r in block] == [(a, t, b, r, 3 * a) for a, t, b, r, _ in rows]
    assert last[-1] == 5_000
    assert len(last) > 10


@pytest.mark.parametrize(
    "oddity",
    [
        "UPDATE T SET a = 'seven' WHERE rowid = 100",
        "UPDATE T SET a = 2.5 WHERE rowid = 100",
        "UPDATE T SET a = 3.0 WHERE rowid = 100",
        "UPDATE T SET t = x'6e6f7420ff207574662d38' WHERE rowid = 100",
        "UPDATE T SET t = CAST(x'610062' AS TEXT) WHERE rowid = 100",
        "UPDATE T SET r = 'x' WHERE rowid = 100",
        "UPDATE T SET b = 'text' WHERE rowid = 100",
        "UPDATE T SET b = 12 WHERE rowid = 100",
        "UPDATE T SET a = 4611686018427387904, c = 3 WHERE rowid = 100",
        "ALTER TABLE T ADD COLUMN none INTEGER DEFAULT 42",
        "ALTER TABLE T DROP COLUMN t",
    ],
)
def test_what_is_not_as_usual_is_left_to_sqlite(tmp_path: Path, oddity: str) -> None:
    path = tmp_path / "r.sqlite"
    with _database(path) as connection:
        connection.executemany("INSERT INTO T VALUES (?, ?, ?, ?, ?)", [(n, f"t{n}", None, 0.5, n) for n in range(400)])
        connection.execute(oddity)
    assert _read(path, quick=True) == _read(path, quick=False)


@pytest.mark.parametrize(
    "declared",
    [
        "a INTEGER PRIMARY KEY, t TEXT, b TEXT, r REAL, c INTEGER",
        "a INTEGER, t TEXT, b TEXT, r REAL, c INTEGER, PRIMARY KEY (t)",
        "a INTEGER, g INTEGER GENERATED ALWAYS AS (a + 1) STORED, t TEXT, b TEXT, r REAL, c INTEGER",
        "a INTEGER, g INTEGER GENERATED ALWAYS AS (a + 1), t TEXT, b TEXT, r REAL, c INTEGER",
        "c ANY, r REAL, t TEXT, b BLOB, a INT",
    ],
)
def test_tables_of_every_kind(tmp_path: Path, declared: str) -> None:
    path = tmp_path / "r.sqlite"
    with _database(path, declared=declared) as connection:
        connection.executemany("INSERT INTO T (a, t, b, r, c) VALUES (?, ?, ?, ?, ?)", [(3 * n, f"t{n}", None, 0.5, n) for n in range(400)])
    found = _read(path, quick=True)
    assert found == _read(path, quick=False)
    assert [(r["a"], r["t"], r["c"]) for r in found[0]] == [(3 * n, f"t{n}", n) for n in range(400)]


def test_another_encoding_is_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16le'")
        connection.execute("CREATE TABLE T (a, t)")
        connection.execute("INSERT INTO T VALUES (1, 'zwölf')")
    with SqliteSource(path, Notices()) as source:
        assert [r for b in source.batches("T", (Field("t", "text"),)) for r in b.to_pylist()] == [{"t": "zwölf"}]


def test_trees_that_lead_in_circles_end(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with _database(path) as connection:
        connection.executemany("INSERT INTO T VALUES (?, ?, ?, ?, ?)", [(n, "x" * 100, None, 0.5, n) for n in range(3_000)])
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'T'").fetchone()
    data = bytearray(path.read_bytes())
    page = (root - 1) * 4096
    assert data[page] == 5
    for cell in range(int.from_bytes(data[page + 3 : page + 5])):
        at = page + int.from_bytes(data[page + 12 + 2 * cell : page + 14 + 2 * cell])
        data[at : at + 4] = root.to_bytes(4)
    path.write_bytes(data)
    with Pages(path) as pages, pytest.raises(ValueError, match="pages"):
        list(pages.rows(root, 10))
    notices = Notices()
    with SqliteSource(path, notices) as source:
        list(source.batches("T", FIELDS))
    assert "table-damaged" in notices


@pytest.mark.parametrize("seed", range(60))
def test_damaged_pages_end_in_a_value_error(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "r.sqlite"
    random_ = random.Random(seed)
    with _database(path, 1024) as connection:
        connection.executemany("INSERT INTO T VALUES (?, ?, ?, ?, ?)", [_row(random_, 2_000) for _ in range(200)])
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'T'").fetchone()
    data = bytearray(path.read_bytes())
    for _ in range(200):
        data[random_.randrange(1024, len(data))] = random_.randrange(256)
    path.write_bytes(data)
    with Pages(path) as pages, contextlib.suppress(ValueError, IndexError):
        for rows in pages.rows(root, 4):
            with contextlib.suppress(ValueError, IndexError):
                for column in rows.columns(FIELDS[:5], {"a": 0, "t": 1, "b": 2, "r": 3, "c": 4}):
                    column.validate(full=True)
                    assert len(column) == len(rows)
