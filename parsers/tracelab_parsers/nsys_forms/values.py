"""Columns of any Arrow type as the types that rows are made of, as SQLite would have stored them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tracelab_parsers.nsys.source import MAX_TEXT, FieldKind, arrow_type

__all__ = ["as_bytes", "converted", "multiplied"]

_LIMIT = float(1 << 63)
_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "day": 86_400 * 10**9}


def converted(column: pa.Array, kind: FieldKind) -> tuple[pa.Array, int]:
    """The values as `arrow_type(kind)`, and how many are of another type: those are null."""
    if pa.types.is_dictionary(column.type):
        # long texts are cut before they are repeated for every row
        entries, bad = converted(column.dictionary, kind)
        found = entries.take(column.indices)
        return found, int(found.null_count - column.null_count) if bad else 0
    found = {"int": _ints, "real": _reals, "text": _texts, "blob": _blobs}[kind](column)
    return found, int(found.null_count - column.null_count)


def _nothing(column: pa.Array, kind: FieldKind) -> pa.Array:
    return pa.nulls(len(column), arrow_type(kind))


def _ints(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_uint64(kind):
        # ids of hardware use all 64 bits; SQLite has no unsigned numbers
        return column.view(pa.int64())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.int64())
    if pa.types.is_temporal(kind):
        return _nanoseconds(column)
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64())
        fits = pc.and_(pc.equal(pc.floor(values), values), pc.and_(pc.greater_equal(values, -_LIMIT), pc.less(values, _LIMIT)))
        return pc.if_else(pc.fill_null(fits, False), values, None).cast(pa.int64())
    raw = _bytes(column)
    return _nothing(column, "int") if raw is None else _written_ints(raw)


def _nanoseconds(column: pa.Array) -> pa.Array:
    """Moments and lengths of time in any unit; null where 64 bits do not hold the nanoseconds."""
    unit = {"date32[day]": "day", "date64[ms]": "ms"}.get(str(column.type)) or getattr(column.type, "unit", None)
    if unit not in _NANOSECONDS:
        return _nothing(column, "int")
    per = _NANOSECONDS[unit]
    numbers = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()).cast(pa.int64())
    most = ((1 << 63) - 1) // per
    fits = pc.and_(pc.greater_equal(numbers, -most), pc.less_equal(numbers, most))
    return pc.multiply(pc.if_else(fits, numbers, None), per)


def _written_ints(raw: pa.Array) -> pa.Array:
    """Numbers that are written as text: JSON has no whole numbers of 64 bits."""
    texts = _texts(raw)
    numeric = pc.match_substring_regex(texts, r"^-?[0-9]{1,20}$")
    plain = pc.if_else(pc.fill_null(numeric, False), texts, None)
    try:
        return plain.cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array([_wrapped(v) for v in plain.to_pylist()], pa.int64())


def _wrapped(text: str | None) -> int | None:
    """A number of 64 bits, signed or not, as a signed one."""
    value = None if text is None else int(text)
    if value is None or not -(1 << 63) <= value < 1 << 64:
        return None
    return value - (1 << 64) if value >= 1 << 63 else value


def _reals(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.float64())
    return pc.cast(column, pa.float64(), safe=False) if pa.types.is_integer(column.type) else _nothing(column, "real")


def _bytes(column: pa.Array) -> pa.Array | None:
    """The bytes of texts and blobs; texts need not be valid."""
    if pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.large_binary())
    if isinstance(column.type, pa.DataType) and str(column.type) in {"string_view", "binary_view"}:
        column = column.cast(pa.large_binary() if str(column.type) == "binary_view" else pa.large_string())
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column.view(pa.binary()).cast(pa.large_binary())
    return column.view(pa.large_binary()) if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type) else None


def as_bytes(column: pa.Array) -> pa.Array:
    """A text as its bytes, which need not be valid text; other columns as they are."""
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    return column.view(pa.large_binary()) if pa.types.is_large_string(column.type) else column


def _blobs(column: pa.Array) -> pa.Array:
    found = _bytes(column)
    return _nothing(column, "blob") if found is None else pc.binary_slice(found, 0, MAX_TEXT).cast(pa.binary())


def _texts(column: pa.Array) -> pa.Array:
    raw = _bytes(column)
    if raw is None:
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
            return column.cast(pa.string())
        return _nothing(column, "text")
    # no character takes more than four bytes
    raw = pc.binary_slice(raw, 0, 4 * MAX_TEXT)
    try:
        texts = raw.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([None if v is None else v.decode("utf-8", "replace") for v in raw.to_pylist()], pa.string())
    return pc.utf8_slice_codeunits(texts, 0, MAX_TEXT)


def multiplied(columns: Sequence[pa.Array]) -> tuple[pa.Array, int]:
    """The product of whole numbers; null where it does not fit, and how often that is."""
    product, size = columns[0], columns[0].cast(pa.float64(), safe=False)
    for column in columns[1:]:
        product = pc.multiply(product, column)
        size = pc.multiply(size, pc.cast(column, pa.float64(), safe=False))
    fits = pc.fill_null(pc.less(pc.abs(size), _LIMIT), True)
    return pc.if_else(fits, product, None), len(product) - int(pc.sum(fits).as_py() or 0)
