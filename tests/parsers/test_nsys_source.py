"""Rows are made from tables, not from SQLite: any other form of export gives the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.builders.collected import Read, read
from tests.builders.job import Job, Simulation
from tests.builders.nsys_sqlite import Export, rank_export
from tracelab_parsers.nsys import PARSER
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.reading import read_export
from tracelab_parsers.nsys.source import Field, arrow_type, newest, present


class InMemory:
    """The tables of an export as lists of rows."""

    cut_short = False

    def __init__(self, export: Export) -> None:
        self.rows = export.rows
        self.tables = {name: tuple(export.columns(name)) for name in export.rows}
        self.asked: set[int] = set()

    def count(self, table: str) -> int:
        return len(self.rows.get(table, ()))

    def batches(self, table: str, fields: Sequence[Field], equals: tuple[str, int] | None = None) -> Iterator[pa.RecordBatch]:
        rows = [r for r in self.rows.get(table, ()) if equals is None or r.get(equals[0]) == equals[1]]
        known = present(self.tables[table], fields)
        for begin in range(0, len(rows), 50):
            some = rows[begin : begin + 50]
            arrays = [pa.array([self._value(r, f) if f in known else None for r in some], arrow_type(f.kind)) for f in fields]
            yield pa.RecordBatch.from_arrays(arrays, names=[f.name for f in fields])

    @staticmethod
    def _value(row: dict[str, Any], f: Field) -> Any:
        if not f.product:
            return row.get(f.name)
        first, *rest = (row.get(c) for c in f.product)
        for value in rest:
            first = None if first is None or value is None else first * value
        return first

    def strings(self, ids: Collection[int]) -> dict[int, str]:
        self.asked.update(ids)
        return {r["id"]: r["value"] for r in self.rows["StringIds"] if r["id"] in set(ids)}


@pytest.mark.parametrize("payloads", ["blob", "json", "none"])
def test_another_source_gives_the_same_rows(tmp_path: Path, payloads: str) -> None:
    export = rank_export(Simulation(Job(world=2, hosts=1, steps=2, layers=2, seed=3)), 1, payloads=payloads)
    expected = read(PARSER, export.write(tmp_path / "r.sqlite"))
    found, notices, source = Read(), Notices(), InMemory(export)
    found.info = read_export(source, found, notices)
    assert found.info == expected.info
    assert found.notices == expected.notices
    assert found.batches.keys() == expected.batches.keys()
    for table in expected.batches:
        assert found.rows(table) == expected.rows(table)
    secrets = {r["id"] for r in export.rows["StringIds"] if "HF_TOKEN" in r["value"]}
    assert len(secrets) == 1
    assert not secrets & source.asked


def test_the_newest_of_suffixed_tables() -> None:
    tables = {"NVTX_EVENTS": ("a",), "NVTX_EVENTS_V2": ("a",), "NVTX_EVENTS_V10": ("a",), "NVTX_EVENTS_OLD": ("a",)}
    assert newest(tables, "NVTX_EVENTS") == "NVTX_EVENTS_V10"
    assert newest(tables, "NVTX") is None
    assert newest({"nvtx_events": ("a",)}, "NVTX_EVENTS") == "nvtx_events"
