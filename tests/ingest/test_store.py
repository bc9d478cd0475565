"""The cache: one entry per content, whole or absent, whoever races, dies or damages it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tracelab.errors import SchemaError, TracelabError
from tracelab.ingest import pipeline
from tracelab.ingest.discovery import Candidate
from tracelab.ingest.pipeline import Ingested, ProgressState, ingest
from tracelab.ingest.store import Store, StoreError, content_key, entry_name
from tracelab.plugins import Emitter, EventCount, Match, Notice, Part, SourceFile, SourceInfo, SourceKind
from tracelab.tables import PROCESS_GROUPS, TableSpec


def groups(names: list[str]) -> pa.RecordBatch:
    n = len(names)
    rows = {"part": [0] * n, "group_name": names, "group_desc": [None] * n, "backend": [None] * n, "size": [2] * n, "group_ranks": [[0, 1]] * n}
    return pa.RecordBatch.from_pydict(rows, schema=PROCESS_GROUPS.arrow)


class LineParser:
    """A parser whose rows are the lines of the file; some words make it misbehave."""

    name = "lines"
    version = 1
    title = "lines"
    kind: SourceKind = "timeline"
    tables: tuple[TableSpec, ...] = (PROCESS_GROUPS,)
    option_names: tuple[str, ...] = ("upper",)

    def __init__(self) -> None:
        self.parsed: list[str] = []

    def sniff(self, path: Path, head: bytes) -> Match | None:
        return Match(1.0, "lines")

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        self.parsed.append(source.name)
        lines = source.path.read_text().splitlines()
        for line in lines:
            if line == "crash":
                raise ZeroDivisionError("on purpose")
            if line == "refuse":
                raise TracelabError("not for me", hint="take another")
            if line == "wrong":
                emit.batch(PROCESS_GROUPS, pa.RecordBatch.from_pydict({"part": [0]}))
            if line == "odd":
                emit.notice(Notice("odd-line", "warning", "an odd line", offset=len(line)))
            emit.batch(PROCESS_GROUPS, groups([line.upper() if source.options.get("upper") else line]))
        return SourceInfo([Part(rank=0)], event_counts=[EventCount("line", len(lines), stored=True)])


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> LineParser:
    fake = LineParser()
    monkeypatch.setattr(pipeline, "parsers", lambda: {"lines": fake})
    return fake


Files = Callable[..., list[Candidate]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    def make(**texts: str) -> list[Candidate]:
        out = []
        for name, text in texts.items():
            path = tmp_path / name
            path.write_text(text)
            out.append(Candidate(path, name, path.stat().st_size, gzipped=False, parser="lines", looks_like="lines"))
        return out

    return make


def names(item: Ingested) -> list[str]:
    assert item.source is not None
    return pl.read_parquet(item.source.path("process_groups"))["group_name"].to_list()


def test_unchanged_files_are_parsed_once(parser: LineParser, files: Files, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert [names(i) for i in ingest(files(a="x\ny", b="z"), store)] == [["x", "y"], ["z"]]
    assert [names(i) for i in ingest(files(a="x\ny", b="changed"), store)] == [["x", "y"], ["changed"]]
    assert parser.parsed == ["a", "b", "b"]


def test_equal_content_is_parsed_once_whatever_its_name(parser: LineParser, files: Files, tmp_path: Path) -> None:
    items = ingest(files(a="x", b="x"), tmp_path / "store")
    assert [names(i) for i in items] == [["x"], ["x"]]
    assert parser.parsed == ["a"]
    assert items[0].content == items[1].content


def test_an_option_of_the_parser_is_part_of_the_key_and_no_other_is(parser: LineParser, files: Files, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert names(ingest(files(a="x"), store)[0]) == ["x"]
    assert names(ingest(files(a="x"), store, options={"upper": True})[0]) == ["X"]
    assert names(ingest(files(a="x"), store, options={"other": True})[0]) == ["x"]
    assert parser.parsed == ["a", "a"]


def test_a_file_that_fails_costs_only_itself(parser: LineParser, files: Files, tmp_path: Path) -> None:
    items = ingest(files(a="crash", b="fine", c="refuse", d="wrong"), tmp_path / "store")
    notices = {i.candidate.name: i.notice for i in items if i.notice is not None}
    assert {n: x.code for n, x in notices.items()} == {"a": "parser-fault", "c": "unreadable-file", "d": "unreadable-file"}
    assert notices["c"].hint == "take another"
    assert "ZeroDivisionError" in notices["a"].text
    assert names(items[1]) == ["fine"]
    assert not list((tmp_path / "store").rglob(".tmp-*")), "a failed parse leaves nothing behind"


def test_notices_of_one_code_are_counted(parser: LineParser, files: Files, tmp_path: Path) -> None:
    source = ingest(files(a="odd\nx\nodd\nodd"), tmp_path / "store")[0].source
    assert source is not None
    assert [(n.code, n.count, n.offset) for n in source.notices] == [("odd-line", 3, 3)]


def test_a_damaged_entry_is_written_again(parser: LineParser, files: Files, tmp_path: Path) -> None:
    store = tmp_path / "store"
    source = ingest(files(a="x"), store)[0].source
    assert source is not None
    damaged = bytearray(source.path("process_groups").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    source.path("process_groups").write_bytes(damaged)
    assert names(ingest(files(a="x"), store)[0]) == ["x"], "of the same size, but not the same"
    (Path(source.folder) / "source.json").write_text("{")
    assert names(ingest(files(a="x"), store)[0]) == ["x"]
    assert parser.parsed == ["a", "a", "a"]


def test_of_two_runs_that_race_both_end_with_a_whole_entry(files: Files, tmp_path: Path) -> None:
    (candidate,) = files(a="x")
    store, parser = Store(tmp_path / "store"), LineParser()
    entry = entry_name(content_key(candidate.path), parser, {})
    with store.writer(entry) as slow:
        slow.batch(PROCESS_GROUPS, groups(["x"]))
        with store.writer(entry) as fast:
            fast.batch(PROCESS_GROUPS, groups(["x"]))
            first = fast.publish(SourceInfo([Part()]))
        second = slow.publish(SourceInfo([Part()]))
    assert first.folder == second.folder
    assert store.lookup(entry) == first
    assert [p.name for p in store.folder(entry).parent.iterdir()] == [store.folder(entry).name]


def test_a_race_over_a_damaged_entry_ends_well(files: Files, tmp_path: Path) -> None:
    (candidate,) = files(a="x")
    store, parser = Store(tmp_path / "store"), LineParser()
    entry = entry_name(content_key(candidate.path), parser, {})
    store.folder(entry).mkdir(parents=True)
    (store.folder(entry) / "source.json").write_text("{")
    with store.writer(entry) as slow, store.writer(entry) as fast:
        first = fast.publish(SourceInfo([Part()]))
        assert slow.publish(SourceInfo([Part()])).folder == first.folder
    assert store.lookup(entry) == first


def test_what_killed_runs_left_is_cleared_away_in_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name, age in (("old", 100_000), ("new", 10)):
        left = store.root / "aa" / f".tmp-{name}"
        left.mkdir(parents=True)
        os.utime(left, (time.time() - age,) * 2)
    store.prepare()
    assert [p.name for p in (store.root / "aa").iterdir()] == [".tmp-new"]


def test_a_cache_that_breaks_midway_is_not_blamed_on_the_file(parser: LineParser, files: Files, tmp_path: Path) -> None:
    candidates = files(a="x", b="y")
    store = Store(tmp_path / "store")
    entry = entry_name(content_key(candidates[1].path), parser, {})
    store.root.mkdir(parents=True)
    (store.root / entry[:2]).write_text("a file where a folder belongs")
    with pytest.raises(StoreError, match="cannot be written"):
        ingest(candidates, tmp_path / "store")


def test_a_killed_run_leaves_nothing_that_counts(files: Files, tmp_path: Path) -> None:
    (candidate,) = files(a="x")
    store, parser = Store(tmp_path / "store"), LineParser()
    entry = entry_name(content_key(candidate.path), parser, {})
    store.writer(entry).__enter__().batch(PROCESS_GROUPS, groups(["x"]))
    assert store.lookup(entry) is None


def test_a_batch_of_another_schema_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path).writer("aa") as writer, pytest.raises(SchemaError, match="process_groups"):
        writer.batch(PROCESS_GROUPS, pa.RecordBatch.from_pydict({"part": [0]}))


def test_many_small_batches_become_one_table(tmp_path: Path) -> None:
    with Store(tmp_path).writer("aa") as writer:
        for i in range(1000):
            writer.batch(PROCESS_GROUPS, groups([f"{i}", "again"]))
        source = writer.publish(SourceInfo([Part()]))
    frame = pl.read_parquet(source.path("process_groups"))
    assert frame.height == source.tables["process_groups"].rows == 2000
    assert frame["group_name"].to_list()[::2] == [str(i) for i in range(1000)]


def test_progress_ends_at_the_total(parser: LineParser, files: Files, tmp_path: Path) -> None:
    seen: list[ProgressState] = []
    ingest(files(a="x", b="x", c="crash"), tmp_path / "store", on_progress=seen.append)
    assert (seen[-1].files_done, seen[-1].files_total) == (3, 3)
    assert seen[-1].bytes_done == seen[-1].bytes_total == 7
    assert seen[-1].cached == 1


def test_a_store_that_cannot_be_written_is_said(parser: LineParser, files: Files, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(TracelabError, match=r"cannot be written[\s\S]*TRACELAB_CACHE_DIR"):
        ingest(files(a="x"), blocked)
