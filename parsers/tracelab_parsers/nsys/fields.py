"""Names and types of the fields of generic events, of which metrics of GPUs are one kind.

The integer column of GPU_METRICS holds the bits of each value: of a fraction its floating-point form, of an unsigned number
of 32 bits possibly a negative one. The description of the fields tells, where the export has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tracelab_parsers.nsys.columns import Ints
from tracelab_parsers.nsys.names import Names
from tracelab_parsers.nsys.session import small_rows
from tracelab_parsers.nsys.source import Field, Source

__all__ = ["FieldTypes"]


@dataclass
class FieldTypes:
    """Fields by type of event and position: their kind and bytes (`bits`, of those stated), and the ids of their names."""

    bits: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    names: dict[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def read(cls, source: Source) -> FieldTypes:
        """The fields that an export describes; none where it has no such table."""
        enum = small_rows(source, "ENUM_NSYS_GENERIC_EVENT_FIELD_TYPE", Field("id"), Field("name", "text"), Field("label", "text"))
        kinds = {r["id"]: _kind(f"{r['name']} {r['label']}") for r in enum}
        out = cls()
        for row in small_rows(source, "GENERIC_EVENT_TYPE_FIELDS", *map(Field, ("typeId", "fieldIdx", "fieldNameId", "size", "type"))):
            if row["typeId"] is None or row["fieldIdx"] is None:
                continue
            key = (row["typeId"], row["fieldIdx"])
            if row["fieldNameId"] is not None:
                out.names.setdefault(key, row["fieldNameId"])
            kind = kinds.get(row["type"])
            if kind is not None and row["size"] in (1, 2, 4, 8):
                out.bits.setdefault(key, (kind, row["size"]))
        return out

    def name(self, key: tuple[int, int], names: Names) -> str | None:
        """The name of a field."""
        of = self.names.get(key)
        return names.one(of) if of is not None else None

    def decoded(self, key: tuple[int, int], values: Ints) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The numbers that the integers of a field stand for."""
        kind, size = self.bits.get(key, ("signed", 8))
        if kind == "unsigned":
            return values.astype(np.uint64).astype(np.float64) if size == 8 else (values & (1 << 8 * size) - 1).astype(np.float64)
        if kind == "float" and size == 4:
            return (values & 0xFFFFFFFF).astype(np.uint32).view(np.float32).astype(np.float64)
        if kind in ("float", "double") and size == 8:
            return values.astype(np.int64).view(np.float64)
        return values.astype(np.float64)


def _kind(text: str) -> str | None:
    lower = text.lower()
    return next((k for k in ("unsigned", "signed", "double", "float") if k in lower), None)
