"""Rows of text formats as Arrow files in a temporary folder, so that they can be read as the tables of any other export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["TableWriter"]

_ROWS = 16_384
_BYTES = 16 << 20
_MOST_TABLES = 500
_MOST_COLUMNS = 300


class TableWriter:
    """Takes rows by table and writes them in parts. Memory: at most 16,384 rows per table, and some 16 MB of text in all.

    A part has the columns of its rows; a column whose values are of several types is written as text.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        self._texts = 0
        self._parts = 0
        self.files: dict[str, list[Path]] = {}
        self.refused = 0

    def add(self, table: str, row: Mapping[str, Any], text_bytes: int = 0) -> None:
        """Adds a row; `text_bytes` is about what its texts take. Rows of more tables than any export has are refused."""
        rows = self._rows.get(table)
        if rows is None:
            if len(self._rows) >= _MOST_TABLES:
                self.refused += 1
                return
            rows = self._rows[table] = []
            self.files[table] = []
        rows.append(row)
        self._texts += text_bytes
        if len(rows) >= _ROWS:
            self._flush(table)
        elif self._texts >= _BYTES:
            self.close()

    def close(self) -> None:
        """Writes what is left."""
        for table in self._rows:
            self._flush(table)
        self._texts = 0

    def _flush(self, table: str) -> None:
        rows = self._rows[table]
        if not rows:
            return
        names = list(dict.fromkeys(name for row in rows for name in row))[:_MOST_COLUMNS]
        batch = pa.RecordBatch.from_arrays([_array([row.get(name) for row in rows]) for name in names], names=names)
        path = self._folder / f"{self._parts}.arrow"
        self._parts += 1
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        self.files[table].append(path)
        self._rows[table] = []


def _array(values: list[Any]) -> pa.Array:
    try:
        found = pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        found = None
    if found is not None and not pa.types.is_nested(found.type) and not pa.types.is_null(found.type):
        return found
    return pa.array([None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values], pa.string())
