"""Rows of separated values: where the table begins, what separates it, and what its cells hold."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

from tracelab_parsers.counters.values import read_number
from tracelab_parsers.topology.wiring_columns import Columns, columns_of

__all__ = ["Begin", "head_of", "is_rdma", "mac_or_guid", "pci_address", "speed_bps", "speed_of_name", "split", "stated"]

_SEPARATORS = (",", "\t", ";", "|")
_BEFORE = 20
_LONGEST_CELL = 256
_RDMA = re.compile(r"(?:mlx[45]|bnxt_re|irdma|hfi1|qedr|efa|hns|erdma|ionic|cxgb4|qib|usnic|mana)_?\w*|(?:rdmap|rocep|ibp|roceo|rocex|ibs)\d\w*", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:0x)?([0-9a-f]{16}|[0-9a-f]{12})", re.IGNORECASE)
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
_SPEED = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(?:b|bit|be|bps|bit/s|b/s|bits/s|bps/s)?|(?:x\s*)?(sdr|ddr|qdr|fdr|edr|hdr|ndr|xdr))?", re.IGNORECASE)
_PREFIX = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SLOWEST_BARE, _GIGABITS = 10**9, 1600
_NAMED = re.compile(r"(ten|twentyfive|forty|fifty|hundred|onehundred|twohundred|fourhundred|eighthundred)gig(?:e|abitethernet)\d.*", re.IGNORECASE)
_GIGABITS_BY_NAME = {"ten": 10, "twentyfive": 25, "forty": 40, "fifty": 50, "hundred": 100, "onehundred": 100}
_GIGABITS_BY_NAME |= {"twohundred": 200, "fourhundred": 400, "eighthundred": 800}
_ABSENT = frozenset({"", "-", "--", "n/a", "na", "none", "null", "?", "unknown"})


class Begin(NamedTuple):
    """The heading: number of its line from 1, its separator and its columns."""

    line: int
    separator: str
    columns: Columns


def split(line: str, separator: str) -> list[str]:
    """The cells of a line; a frame of bars around them is no cell. Raises nothing: what no reader of CSV takes is one cell."""
    text = line.strip("\r\n")
    if separator == "|":
        text = text.strip().removeprefix("|").removesuffix("|")
    try:
        row = next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return [text]
    return [cell.strip() for cell in row]


def head_of(lines: Sequence[str]) -> Begin | None:
    """The heading of a wiring table among the first lines, after comments and empty ones; None where the first text is none."""
    for number, line in enumerate(lines[:_BEFORE], 1):
        text = line.strip()
        bare = text.lstrip("#").strip()
        for separator in _SEPARATORS:
            if separator in bare:
                columns = columns_of(split(bare, separator))
                if columns is not None:
                    return Begin(number, separator, columns)
        if text and not text.startswith("#"):
            return None
    return None


def stated(cell: str) -> str | None:
    """A cell as bounded text; None where it stands for nothing."""
    text = cell.strip()
    return None if text.lower() in _ABSENT else text[:_LONGEST_CELL]


def is_rdma(name: str) -> bool:
    """Whether a name is that of an RDMA device instead of a network device."""
    return _RDMA.fullmatch(name) is not None


def mac_or_guid(text: str | None) -> str | None:
    """An address as lower-case digits without separators; None for all else."""
    m = _ADDRESS.fullmatch(re.sub(r"[:.\-]", "", text or ""))
    return None if m is None else m[1].lower()


def pci_address(text: str | None) -> str | None:
    """A PCI address as 0000:0f:00.0; None for all else."""
    m = _PCI.fullmatch(text or "")
    return None if m is None else f"{(m[1] or '0000')[-4:]}:{m[2]}:{m[3]}.{m[4]}".lower()


def speed_bps(text: str, unit: int | None) -> tuple[int | None, bool]:
    """A speed in bit/s, and whether its unit was taken from its size alone.

    `unit`: bits per second per unit, where the heading states it. Raises `ValueError` where the text is no speed.
    """
    if unit is not None:
        number = read_number(text)
        return None if number is None else round(number * unit), False
    m = _SPEED.fullmatch(text.strip())
    if m is None or m[3] is not None:
        raise ValueError("no speed")
    value = float(m[1])
    if m[2] is not None:
        return round(value * _PREFIX[m[2].lower()]), False
    if value >= _SLOWEST_BARE:
        return round(value), True
    return round(value * (10**9 if value <= _GIGABITS else 10**6)), True


def speed_of_name(port: str | None) -> int | None:
    """The speed in bit/s that the name of a port states (TwoHundredGigE1/0/16:1), as some switches call them; None for other names."""
    m = _NAMED.fullmatch(port or "")
    return None if m is None else _GIGABITS_BY_NAME[m[1].lower()] * 10**9
