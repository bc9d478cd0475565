"""Loose JSON values to what the tables hold, exactly or not at all: no number goes through a float."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from typing import Any

import msgspec

from tracelab_parsers.json_repair import repair

__all__ = ["LIST_DECODER", "MAX_NS", "MAX_TEXT", "decode", "identifier", "mapping", "nanoseconds", "natural", "number", "text", "unsigned", "whole"]

MAX_TEXT = 256
MAX_NS = 4 * 10**18
"""Times beyond this (126 years) are no times."""
_MOST_DIGITS = 40
_EXACT = Context(prec=2 * _MOST_DIGITS, rounding=ROUND_HALF_EVEN)
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_UNSIGNED = 1 << 64
_NO_NUMBER = Decimal("NaN")


def _decimal(text: str) -> Decimal:
    """The number that is printed as `text`; NaN for one too long, or too large for a `Decimal`."""
    try:
        return Decimal(text) if len(text) <= MAX_TEXT else _NO_NUMBER
    except DecimalException:
        return _NO_NUMBER


_DECODER = msgspec.json.Decoder(float_hook=_decimal)
LIST_DECODER: msgspec.json.Decoder[list[object]] = msgspec.json.Decoder(list[object], float_hook=_decimal)
"""Decodes an array, numbers with a fraction as `Decimal`."""


def decode(data: bytes, report: Callable[[str], None] | None = None) -> Any:
    """The JSON value in `data`, numbers with a fraction as `Decimal` (NaN where it holds none); None where it cannot be read.

    Where `report` is given, text that breaks the rules of JSON is repaired as far as that is certain; it gets the codes.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        repaired = repair(data) if report is not None else None
    if repaired is None or report is None:
        return None
    for code in repaired.codes:
        report(code)
    return repaired.value


def mapping(value: object) -> dict[str, Any]:
    """`value` where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def number(value: object) -> int | Decimal | None:
    """A number of at most 40 digits, also one that is written as text; None for all else."""
    if isinstance(value, str):
        value = _decimal(value.strip())
    if isinstance(value, Decimal):
        short = len(value.as_tuple().digits) <= _MOST_DIGITS and -_MOST_DIGITS < value.adjusted() < _MOST_DIGITS
        return value if short and value.is_finite() else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 10**_MOST_DIGITS else None
    return None


def whole(value: object, bits: int = 64) -> int | None:
    """`value` as a signed integer of that size, also one that is written as text or with zeros after a point; None where it is none."""
    if type(value) is not int:
        if isinstance(value, str):
            stripped = value.strip()
            value = int(stripped) if _INTEGER.fullmatch(stripped) else None
        elif isinstance(value, Decimal):
            n = number(value)
            value = int(n) if n is not None and n == int(n) else None
        if not isinstance(value, int) or isinstance(value, bool):
            return None
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def natural(value: object, bits: int = 64) -> int | None:
    """As `whole`, and None for negative numbers, which stand for nothing in ranks, peers and sizes."""
    n = whole(value, bits)
    return n if n is not None and n >= 0 else None


def nanoseconds(value: object) -> int | None:
    """`value` µs in ns, halves to even; None where it is no number or beyond `MAX_NS`."""
    us = number(value)
    if us is None:
        return None
    ns = us * 1000 if isinstance(us, int) else int(_EXACT.to_integral_value(_EXACT.multiply(us, Decimal(1000))))
    return ns if abs(ns) < MAX_NS else None


def text(value: object) -> str | None:
    """`value` as bounded text; None for what is neither text nor a number, and for none at all."""
    if isinstance(value, str):
        return value[:MAX_TEXT] or None
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        n = number(value)
        return None if n is None else str(n)
    return None


def unsigned(value: object) -> int | None:
    """An integer from 0 to 2^64 - 1: a number, or text of one, decimal or hexadecimal after 0x; None for all else."""
    if isinstance(value, str) and _ADDRESS.fullmatch(value.strip()):
        return int(value.strip(), 16)
    n = whole(value, 66)
    return n if n is not None and 0 <= n < _UNSIGNED else None


def identifier(value: object) -> str | None:
    """An id of 64 bits, as `unsigned` takes it, as 0x and lower-case digits without leading zeros."""
    n = unsigned(value)
    return None if n is None else f"0x{n:x}"
