"""Sections of ibdiagnet's tables: rows by the names of their columns, however these are spelled."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices

__all__ = ["Row", "plain", "rows_of", "small"]

_LINE_BYTES = 1 << 20
_EDGE = re.compile(r"(START|END)_([A-Z][A-Z0-9_]{0,80})")
_SMALL = re.compile(r"0x[0-9a-fA-F]{1,7}|\d{1,9}")
_SAME = {"portnumber": "portnum", "portnumber1": "portnum1", "portnumber2": "portnum2", "portno": "portnum", "nodedescription": "nodedesc"}
"""Spellings that differ between sections and versions in more than case."""


class Row(NamedTuple):
    """A row of `section`. `columns` are as printed; `values` is keyed by their plain spelling."""

    line: int
    offset: int
    section: str
    columns: tuple[str, ...]
    values: Mapping[str, str]


def plain(column: str) -> str:
    """The one spelling of a column that all versions meet in."""
    low = re.sub(r"[^a-z0-9]", "", column.lower())
    return _SAME.get(low, low)


def small(text: str | None) -> int | None:
    """A small number, decimal or hexadecimal; None for all else."""
    return int(text, 0) if text is not None and _SMALL.fullmatch(text) and not re.fullmatch(r"0\d+", text) else None


def rows_of(stream: ByteStream, notices: Notices) -> Iterator[Row]:
    """The rows of all sections in order. Counted: rows with a wrong number of values, a section that does not end."""
    section: str | None = None
    columns: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()
    for line in lines(stream, lambda offset: notices.add("line-too-long", offset), _LINE_BYTES):
        text = line.text.decode("utf-8", "replace").strip()
        edge = _EDGE.fullmatch(text)
        if edge is not None:
            if section is not None and (edge[1] == "START" or edge[2] != section):
                notices.add("truncated", line.offset)
            section, columns = (edge[2] if edge[1] == "START" else None), None
            continue
        if not text or section is None:
            if text and not text.startswith(("#", "-")):
                notices.add("unread-lines", line.offset)
            continue
        try:
            cells = [c.strip() for c in next(csv.reader([text], skipinitialspace=True))]
        except (csv.Error, StopIteration):
            notices.add("bad-row", line.offset)
            continue
        if columns is None:
            columns = tuple(cells)
            names = tuple(plain(c) for c in columns)
        elif not line.whole:
            pass  # the end of the section is missing too, which is counted
        elif len(cells) != len(columns) and not (len(cells) == len(columns) + 1 and not cells[-1]):
            notices.add("bad-row", line.offset)
        else:
            yield Row(line.number, line.offset, section, columns, dict(zip(names, cells, strict=False)))
    if section is not None:
        notices.add("truncated")
