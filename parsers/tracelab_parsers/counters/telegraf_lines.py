"""InfluxDB's line protocol: `measurement,tag=value field=1i,other="text" 1700000000000000000`, with its escapes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from tracelab_parsers.counters.values import plain_number, read_number

__all__ = ["NO_NUMBER", "Point", "UnendedError", "held", "point"]

NO_NUMBER = Decimal("NaN")
"""Stands in a field for NaN, an infinity, and what is too large for a float."""

# A backslash escapes what would part names, and is itself anywhere else.
_MEASUREMENT = re.compile(r"(?:[^, \t\r\n\\]|\\[, =]|\\)++")
_PAIR = re.compile(r"((?:[^,= \t\r\n\\]|\\[, =]|\\)++)=((?:[^,= \t\r\n\\]|\\[, =]|\\)++)")
_FIELD = re.compile(r'((?:[^,= \t\r\n\\]|\\[, =]|\\)++)=(?:"((?:[^"\\]|\\.)*+)"|([^", \t\r\n]++))', re.DOTALL)
_UNENDED = re.compile(r'(?:[^,= \t\r\n\\]|\\[, =]|\\)++="(?:[^"\\]|\\.)*+\\?\Z', re.DOTALL)
_STAMP = re.compile(r"-?\d{1,19}")
_ESCAPE = re.compile(r"\\([, =])")
_IN_TEXT = re.compile(r'\\(["\\])')
_INTEGER = re.compile(r"[+-]?\d{1,40}[iu]", re.ASCII)
_HUGE = re.compile(r"[+-]?(?:nan|inf(?:inity)?|\d[\d.]*(?:e[+-]?\d+)?[iu]?)", re.ASCII | re.IGNORECASE)
_TRUE, _FALSE = frozenset({"t", "T", "true", "True", "TRUE"}), frozenset({"f", "F", "false", "False", "FALSE"})


class UnendedError(ValueError):
    """The line ends inside a quoted text, which may go on in the next one."""


@dataclass(frozen=True, slots=True)
class Point:
    """One line or JSON object of Telegraf. `fields`: numbers, texts, states, `NO_NUMBER`. `stamp`: the moment as printed, in an unstated unit."""

    measurement: str
    tags: dict[str, str]
    fields: dict[str, object]
    stamp: int | None = None


def point(text: str) -> Point:
    """The point that a line holds. Raises `ValueError` where it is no line protocol."""
    m = _MEASUREMENT.match(text)
    if m is None:
        raise ValueError("no measurement")
    name, at = _plain(m[0]), m.end()
    tags: dict[str, str] = {}
    while text[at : at + 1] == ",":
        m = _PAIR.match(text, at + 1)
        if m is None:
            raise ValueError("no tag")
        tags[_plain(m[1])] = _plain(m[2])
        at = m.end()
    fields, at = _fields(text, at)
    rest = text[at:].strip(" \t\r\n")
    if rest and _STAMP.fullmatch(rest) is None:
        raise ValueError("no moment")
    return Point(name, tags, fields, int(rest) if rest else None)


def _fields(text: str, at: int) -> tuple[dict[str, object], int]:
    fields: dict[str, object] = {}
    if text[at : at + 1] != " ":
        raise ValueError("no fields")
    while text[at : at + 1] == ("," if fields else " "):
        m = _FIELD.match(text, at + 1)
        if m is None:
            raise UnendedError("text goes on") if _UNENDED.match(text, at + 1) else ValueError("no field")
        fields[_plain(m[1])] = _IN_TEXT.sub(r"\1", m[2]) if m[2] is not None else _value(m[3])
        at = m.end()
    return fields, at


def _plain(text: str) -> str:
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text


def _value(text: str) -> object:
    if _INTEGER.fullmatch(text):
        return int(text[:-1])
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    try:
        number = read_number(text)
    except ValueError:
        number = None
    if number is None and _HUGE.fullmatch(text) is None:
        raise ValueError("no value")
    return NO_NUMBER if number is None else number


def held(value: object) -> object:
    """A value of a JSON document as a field holds it: numbers as `plain_number` makes them."""
    try:
        return plain_number(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value
    except ValueError:
        return NO_NUMBER
