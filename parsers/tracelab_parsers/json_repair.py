"""What can still be read of one JSON value that breaks the rules of JSON, and where the next one begins.

Profilers write `inf`, raw backslashes, control characters and broken UTF-8 now and then. One bad value must not cost
the file; what cannot be read for certain is given up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, DecimalException
from typing import Any

import msgspec

__all__ = ["Repaired", "balanced_end", "next_starts", "repair"]

MAX_DIGITS = 400
_DIGITS_64 = 20
_ROUNDING = Context(prec=MAX_DIGITS)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["\[\]{}]', re.DOTALL)
_BARE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))|-?\b(?:nan|inf|infinity)\b', re.DOTALL | re.IGNORECASE)
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])|\\')
_SURROGATE = re.compile("[\ud800-\udfff]")
_NEXT = re.compile(rb'\}\s*(?:,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|s|bp|args)"\s*:)|(?=\]\s*(?:,\s*"|\}\s*$)))')


@dataclass(frozen=True)
class Repaired:
    """A value read from broken text, and what was done for it: notice codes, that of missing numbers once for each.

    Numbers with a fraction, and whole ones of more than 64 bits, are `Decimal`.
    """

    value: Any
    codes: tuple[str, ...]

    def text(self) -> bytes:
        """The value as valid JSON, its numbers exact to the last digit."""
        return _ENCODER.encode(self.value)


def balanced_end(data: bytes, start: int, stop: int) -> int:
    """Position after the brackets that open at `start` close again, counting no bracket inside strings; -1 if they do not before `stop`."""
    depth = 0
    for m in _TOKEN.finditer(data, start, stop):
        c = m.group()
        if c == b'"':
            return -1
        if c in (b"{", b"["):
            depth += 1
        elif c in (b"}", b"]"):
            depth -= 1
        if depth <= 0:
            return m.end()
    return -1


def next_starts(data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Where an object of a trace seems to end and what follows begins, up to 64 times: (end of the one, start of the next or of `]`)."""
    found = []
    for m in _NEXT.finditer(data, start, stop):
        found.append((m.start() + 1, m.end()))
        if len(found) == 64:
            break
    return found


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text) if len(text) <= MAX_DIGITS else _ROUNDING.create_decimal(text)
    except DecimalException:
        return None


def _integer(text: str) -> int | Decimal | None:
    number = int(text) if len(text) <= _DIGITS_64 else None
    return number if number is not None and -(1 << 63) <= number < 1 << 64 else _number(text)


def _load(text: str, constants: list[str]) -> Any:
    """JSON with control characters and NaN allowed, which is null and noted in `constants`."""
    return json.loads(text, strict=False, parse_constant=constants.append, parse_int=_integer, parse_float=_number)


def _is_strict(text: str) -> bool:
    """Whether text that reads with control characters allowed reads without."""
    try:
        json.loads(text, parse_int=str)
    except ValueError:
        return False
    return True


def _quiet(m: re.Match[str]) -> str:
    return m.group(1) or "null"


def _double_stray(m: re.Match[str]) -> str:
    return m.group() if m.group(1) else "\\\\"


def _scrub(value: Any) -> Any:
    """`value` with half surrogate pairs, which no UTF-8 can hold, replaced."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_scrub(k): _scrub(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_scrub(v) for v in value]
    return value


def _attempts(text: str) -> Iterator[tuple[str, list[str]]]:
    """Texts to try in turn, and the codes of what was changed."""
    yield text, []
    missing = ["non-finite-number"] * sum(m.group(1) is None for m in _BARE.finditer(text))
    yield _BARE.sub(_quiet, text), missing
    escaped = _ESCAPE.sub(_double_stray, text)
    yield escaped, ["bad-escape"]
    yield _BARE.sub(_quiet, escaped), ["bad-escape", *missing]


def repair(data: bytes) -> Repaired | None:
    """The value that `data` holds, read with tolerance; None where it cannot be told for certain.

    Codes: invalid-utf8 (bytes replaced), control-character, non-finite-number (NaN and infinities became null),
    bad-escape (stray backslashes doubled).
    """
    codes = []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        codes.append("invalid-utf8")
    for candidate, changed in _attempts(text):
        constants: list[str] = []
        try:
            value = _scrub(_load(candidate, constants))
        except (ValueError, RecursionError):
            continue
        codes += changed + ["non-finite-number"] * len(constants)
        if not changed and not _is_strict(text):
            codes.append("control-character")
        return Repaired(value, tuple(codes))
    return None
