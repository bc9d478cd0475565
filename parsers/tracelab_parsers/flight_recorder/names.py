"""What c10d calls operations and element types, and what they are called here."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tracelab_parsers.nccl_log.ops import UNKNOWN, c10d_operation

__all__ = ["COALESCED", "GROUPED", "UNKNOWN", "ElementType", "Ends", "element_type", "ends", "operation"]

COALESCED = "coalesced"
"""Title of the entry that stands for the launch of a whole group of operations."""
GROUPED = "send_recv"

_ENDS = re.compile(r"(?:^|:)(send|recv)\s+(\d{1,7})\s*(->|<-)\s*(\d{1,7})")
_LAYOUT = re.compile(r"_(?:oop|single)$")
_SIZES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}
# c10::toString(ScalarType)
_SPELLINGS = {
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "complexhalf": "complex32",
    "complexfloat": "complex64",
    "complexdouble": "complex128",
}


class ElementType(NamedTuple):
    """An element type: its name as in the table `logged_collectives`, and the bytes of one element where they are known."""

    name: str
    size: int | None


class Ends(NamedTuple):
    """The two ranks of a send or recv in its group."""

    mine: int
    peer: int


@lru_cache(maxsize=256)
def element_type(name: str) -> ElementType:
    """The element type that c10d calls so (`Float`, `BFloat16`, `Float8_e4m3fn`)."""
    word = name.strip().lower()
    plain = _SPELLINGS.get(word, word)
    return ElementType(plain, _SIZES.get(plain))


@lru_cache(maxsize=1024)
def operation(title: str, *, point_to_point: bool) -> str:
    """The operation of an entry's title (`nccl:_all_gather_base`, `nccl:send 0->1`); a group of point-to-point ones is `send_recv`."""
    word = title.rpartition(":")[2].strip().lower()
    if word == COALESCED:
        return GROUPED if point_to_point else UNKNOWN
    return "barrier" if "barrier" in word else c10d_operation(_LAYOUT.sub("", word))


@lru_cache(maxsize=1024)
def ends(title: str) -> Ends | None:
    """The ranks in a title (`nccl:send 0->1`, `nccl:recv 0<-1`): the writer's own stands first. None where it names none."""
    m = _ENDS.search(title[-64:])
    return Ends(int(m[2]), int(m[4])) if m and (m[1] == "send") == (m[3] == "->") else None
