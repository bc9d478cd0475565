"""Loose JSON values to Arrow columns: fast where they have the expected type, tolerant where not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["as_int", "as_text", "coded", "int_list", "integers", "positive", "texts"]

_INT64 = 1 << 63
_TRAILING = re.compile(r"(?:^|[ #:])(0[xX][0-9a-fA-F]{1,16}|-?\d{1,20})$")


def as_int(value: object, bits: int = 64) -> int | None:
    """`value` as a signed integer of that size; None where it is none.

    Text may be decimal, hexadecimal or end in a number (`stream 7`). Handles of 64 bits without sign wrap around.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        value = int(value) if value.is_integer() and abs(value) < _INT64 else None
    elif isinstance(value, str):
        m = _TRAILING.search(value[-64:])
        value = int(m.group(1), 0 if m.group(1)[:2] in ("0x", "0X") else 10) if m else None
    if not isinstance(value, int):
        return None
    if bits == 64 and _INT64 <= value < 2 * _INT64:
        value -= 2 * _INT64
    return int(value) if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def positive(value: object, bits: int = 64) -> int | None:
    """As `as_int`, with 0 and negative numbers, which stand for nothing in ids and ranks, as None."""
    n = as_int(value, bits)
    return n if n is not None and n > 0 else None


def as_text(value: object) -> str | None:
    """`value` as text; None stays None."""
    return value if isinstance(value, str) else None if value is None else str(value)


def integers(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column of integers; what is none becomes null."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([as_int(v, kind.bit_width) for v in values], kind)


def texts(values: Sequence[Any]) -> pa.DictionaryArray:
    """A dictionary column of text; numbers become text, None becomes null."""
    try:
        return pa.array(values, pa.string()).dictionary_encode()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([as_text(v) for v in values], pa.string()).dictionary_encode()


def coded(codes: npt.NDArray[np.int32], names: Sequence[str]) -> pa.DictionaryArray:
    """A dictionary column from codes into `names`."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names, pa.string()))


def int_list(value: object) -> list[int] | None:
    """A list of integers from a list or its text (`[0, 1]`); None where it is cut (`...`), empty or anything else."""
    if isinstance(value, str):
        inner = value.strip().removeprefix("[").removesuffix("]")
        value = [v.strip() for v in inner.split(",")] if inner.strip() else []
    if not isinstance(value, list) or not value:
        return None
    found = [int(v) if isinstance(v, str) and re.fullmatch(r"-?\d{1,18}", v) else v for v in value]
    whole = all(isinstance(v, int) and not isinstance(v, bool) and -_INT64 <= v < _INT64 for v in found)
    return found if whole else None
