"""What the rows are made from: named tables of typed columns, whatever file they lie in.

Every export of Nsight Systems (SQLite, Parquet, Arrow, JSON lines) has the same tables and columns. The rest of this
package knows only this interface; a new form of export needs a `Source` and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_TEXT", "Field", "FieldKind", "Source", "arrow_type", "newest", "present"]

FieldKind = Literal["int", "real", "text", "blob"]
MAX_TEXT = 4096
"""Characters of a text, or bytes of a blob, that are read; what is beyond is cut."""


@dataclass(frozen=True)
class Field:
    """A column to read under the name `name`; with `product` it is the product of those columns instead."""

    name: str
    kind: FieldKind = "int"
    product: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that it needs."""
        return self.product or (self.name,)


class Source(Protocol):
    """Tables by name. `tables` maps the name of each to its columns, as they are spelled.

    Batches have one column per field, in their order: int64, float64, string or binary; columns that the table has not are
    null throughout. What cannot be read is reported by the source itself, and the rows before it are kept.
    """

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """All tables with their columns."""

    @property
    def cut_short(self) -> bool:
        """Whether the file ends before it should."""

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it does not exist or cannot be read."""

    def batches(self, table: str, fields: Sequence[Field], equals: tuple[str, int] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a table, only those whose column `equals[0]` is `equals[1]` where that is given."""

    def strings(self, ids: Collection[int]) -> dict[int, str]:
        """The texts of these ids of StringIds, as far as there are any. Never reads others: the table may hold a whole environment."""


def newest(tables: Mapping[str, tuple[str, ...]], name: str) -> str | None:
    """The table of that name in its newest version (`NVTX_EVENTS_V3` before `NVTX_EVENTS`)."""
    pattern = re.compile(re.escape(name) + r"(?:_V(\d{1,4}))?", re.IGNORECASE)
    found = [(int(m.group(1) or 1), table) for table in tables if (m := pattern.fullmatch(table))]
    return max(found)[1] if found else None


def present(columns: Sequence[str], fields: Sequence[Field]) -> tuple[Field, ...]:
    """The fields whose columns are all there."""
    known = set(columns)
    return tuple(f for f in fields if known.issuperset(f.columns))


def arrow_type(kind: FieldKind) -> pa.DataType:
    """The type of a field's column in a batch."""
    import pyarrow as pa

    return {"int": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}[kind]
