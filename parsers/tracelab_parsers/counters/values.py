"""Printed numbers: thousands separators, hexadecimal, what stands for nothing."""

from __future__ import annotations

import math
import re
from decimal import Decimal

__all__ = ["MAX_RAW", "is_digits", "plain_number", "read_number"]

MAX_RAW = 2**64 - 1
_ABSENT = frozenset({"", "n/a", "na", "none", "null", "-", "--", "not available", "unavailable", "nan", "n/a (no pma)"})
_WHOLE = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+|[+-]?\d+", re.ASCII)
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_FLOAT = re.compile(r"[+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LONGEST = 40
_FLOAT_EXACT = 2**53


def is_digits(text: str, most: int) -> bool:
    """Whether `text` is at least one and at most `most` decimal digits of ASCII: the others of Unicode are part of no output."""
    return len(text) <= most and text.isascii() and text.isdigit()


def plain_number(value: float | Decimal) -> int | float:
    """`value` as a whole number where that is exact, else the nearest float. Raises `ValueError` for NaN, and for what is too large for a float."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("no number that a float holds")
    if isinstance(value, int):
        return value
    return int(number) if abs(number) < _FLOAT_EXACT and value == int(number) else number


def read_number(text: str) -> int | float | None:
    """The number that `text` prints, exact where it is whole; None where it stands for an absent one.

    Raises `ValueError` where it is neither.
    """
    text = text.strip()
    if text.lower() in _ABSENT:
        return None
    if len(text) > _LONGEST:
        raise ValueError("too long for a number")
    if _WHOLE.fullmatch(text):
        return int(text.replace(",", ""))
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text):
        return plain_number(float(text.replace(",", "")))
    raise ValueError(f"{text!r} is no number")
