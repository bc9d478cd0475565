"""What a table is: named, documented, typed columns, from which every other form is derived.

A `TableSpec` is the single source for the Arrow schema that parsers emit, the Polars schema that analyses read,
the check of either, `tracelab schema` and the documentation page.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from tracelab.errors import SchemaError, UnknownNameError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

__all__ = ["Column", "DType", "TableSpec"]

DType = Literal["bool", "int16", "int32", "int64", "uint64", "float64", "string", "dict", "list<int32>", "list<int64>"]


@dataclass(frozen=True)
class Column:
    """One column.

    `unit` is empty where the name says all; `key` columns identify a row; an `added` column is not in the file that a
    parser writes: the reader adds it when the table is scanned (identity of the source, aligned time).
    """

    name: str
    dtype: DType
    doc: str
    unit: str = ""
    nullable: bool = True
    key: bool = False
    added: bool = False


@dataclass(frozen=True)
class TableSpec:
    """A table: its name, what one row is, its columns and the order of its rows."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    sort: tuple[str, ...] = ()
    version: int = 1

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        if len(set(names)) != len(names):
            raise SchemaError(f"table {self.name!r} defines a column twice: {sorted(names)}")
        for name in self.sort:
            self.column(name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(c.name for c in self.columns)

    @cached_property
    def emitted(self) -> tuple[Column, ...]:
        """The columns that a parser writes (all but the `added` ones)."""
        return tuple(c for c in self.columns if not c.added)

    def column(self, name: str) -> Column:
        """The column of that name; `UnknownNameError` lists the existing ones."""
        for c in self.columns:
            if c.name == name:
                return c
        raise UnknownNameError(f"column of table {self.name!r} called", name, (c.name for c in self.columns))

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the emitted columns."""
        import pyarrow as pa

        types = _arrow_types()
        return pa.schema([pa.field(c.name, types[c.dtype], c.nullable) for c in self.emitted])

    @cached_property
    def polars(self) -> dict[str, pl.DataType]:
        """The Polars schema of all columns."""
        types = _polars_types()
        return {c.name: types[c.dtype] for c in self.columns}

    def empty(self) -> pl.DataFrame:
        """A frame of this table without rows."""
        import polars as pl

        return pl.DataFrame(schema=self.polars)

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`frame` with exactly this table's columns, in order and type, sorted.

        Raises `SchemaError` where a column is missing, unknown, of another kind, or null against its definition.
        """
        import polars as pl

        missing, unknown = set(self.names) - set(frame.columns), set(frame.columns) - set(self.names)
        if missing or unknown:
            raise SchemaError(f"table {self.name!r}: missing columns {sorted(missing)}, unknown columns {sorted(unknown)}")
        try:
            out = frame.select([pl.col(n).cast(t) for n, t in self.polars.items()])
        except pl.exceptions.PolarsError as e:
            raise SchemaError(f"table {self.name!r}: {e}") from e
        for c in self.columns:
            if not c.nullable and out[c.name].null_count():
                raise SchemaError(f"table {self.name!r}: column {c.name!r} holds nulls but is defined without")
        return out.sort(self.sort, maintain_order=True, nulls_last=True) if self.sort else out


def _arrow_types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {
        "bool": pa.bool_(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "uint64": pa.uint64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "dict": pa.dictionary(pa.int32(), pa.string()),
        "list<int32>": pa.list_(pa.int32()),
        "list<int64>": pa.list_(pa.int64()),
    }


def _polars_types() -> dict[str, pl.DataType]:
    import polars as pl

    return {
        "bool": pl.Boolean(),
        "int16": pl.Int16(),
        "int32": pl.Int32(),
        "int64": pl.Int64(),
        "uint64": pl.UInt64(),
        "float64": pl.Float64(),
        "string": pl.String(),
        "dict": pl.Categorical(),
        "list<int32>": pl.List(pl.Int32()),
        "list<int64>": pl.List(pl.Int64()),
    }
