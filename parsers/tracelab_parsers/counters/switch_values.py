"""What the parsers of switches' outputs share: numbers of JSON, meanings of names outside the tables, addresses, notices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from tracelab.tables import CounterKind
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.values import plain_number, read_number
from tracelab_parsers.nccl_json.notices import NoticeText

__all__ = ["SWITCH_TEXTS", "address", "adjusted", "bodies", "json_number", "vendor"]

_MAC = re.compile(r"[0-9a-f]{12}|[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}|[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}")
_WRAPPERS = ("result", "ins_api", "outputs", "output", "body")
_DEEPEST = 8
_AGAIN = "copy or collect the file again"

SWITCH_TEXTS: dict[str, NoticeText] = {
    "truncated": NoticeText("warning", "the file ends in the middle of an output; what was complete before was kept", _AGAIN),
    "bad-json": NoticeText("warning", "JSON that cannot be read was left out", _AGAIN),
    "bad-number": NoticeText("warning", "values that should be numbers are none; they were kept as missing"),
    "bad-row": NoticeText("warning", "rows do not fit the columns of their table and were left out", "paste outputs with their spaces, as they were printed"),
    "unknown-output": NoticeText("info", "outputs of other kinds were left out"),
    "unread-lines": NoticeText("info", "lines that belong to no known output were left out"),
    "line-too-long": NoticeText("warning", "lines or documents larger than 64 MiB, or lines of text larger than 64 KiB, were left out"),
    "unnamed-object": NoticeText("info", "objects have numbers but no name; they are called by their id", "dump the name maps (COUNTERS_*_NAME_MAP) too"),
    "no-counters": NoticeText("warning", "the file holds no numbers and no interfaces", "see that the command gave an output"),
    "no-neighbours": NoticeText("warning", "the file names no neighbour", "see that LLDP runs on the machine and its neighbours"),
}


def json_number(value: object) -> int | float | None:
    """The number that a value of a JSON document prints, exact where it is whole; None where it stands for an absent one.

    Raises `ValueError` where it is neither.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return read_number(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return plain_number(value)
    raise ValueError("no number")


@lru_cache(maxsize=65_536)
def vendor(name: str, direction: Literal["tx", "rx"] | None = None, unit: str | None = None, kind: CounterKind = "counter") -> Meaning:
    """The meaning of a name that no canonical counter stands for. Counters of switches have 64 bits."""
    return Meaning(f"vendor.{name}", direction, width=64 if kind == "counter" else 0, kind=kind, unit=unit)


@lru_cache(maxsize=65_536)
def adjusted(meaning: Meaning, scale: float = 1.0, *, delta: bool = False) -> Meaning:
    """`meaning` of a number printed in another unit, or, where it is a counter, of one interval alone."""
    delta = delta and meaning.stated_kind == "counter"
    return replace(meaning, scale=meaning.scale * scale, kind="delta" if delta else meaning.kind, width=0 if delta else meaning.width)


def address(text: object) -> str | None:
    """A MAC in any of its spellings as lower-case digits without separators; None for all else."""
    if not isinstance(text, str):
        return None
    low = text.strip().lower()
    return re.sub(r"[:.-]", "", low) if _MAC.fullmatch(low) else None


def bodies(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The outputs in a document: bare, as a list of them, or in the answer of an interface for programs (`result`, `ins_api`)."""
    if isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from bodies(item, depth + 1)
    elif isinstance(value, dict):
        inner = next((value[k] for k in _WRAPPERS if isinstance(value.get(k), dict | list)), None)
        if inner is not None and depth < _DEEPEST:
            yield from bodies(inner, depth + 1)
        else:
            yield value
