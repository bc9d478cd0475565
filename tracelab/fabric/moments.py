"""When a file was taken, from its path: a moment in the name of the file or of a folder."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import PurePosixPath

__all__ = ["moment_of_path"]

_COMPACT = re.compile(r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})[T_ -](\d{2})[:.-]?(\d{2})[:.-]?(\d{2})(?:[.,](\d{1,9}))?(Z|[+-]\d{2}:?\d{2})?(?!\d)")
_EPOCH = re.compile(r"(?<![\d.])(1[0-9]{9})(?:[._](\d{1,9})|(\d{3}|\d{6}|\d{9}))?(?![\d])")
_NS = 1_000_000_000
_FIRST_YEAR, _LAST_YEAR = 1990, 2200
"""Other years are numbers that only look like a moment, and 64 bits of nanoseconds end in 2262."""


def moment_of_path(path: str) -> tuple[int, bool] | None:
    """The moment (ns since 1970) that the innermost telling part of a relative path states, and whether it states a zone.

    Seconds of the epoch and moments that end in Z or an offset have a zone; others are read as UTC.
    """
    for part in reversed(PurePosixPath(path).parts):
        if found := _COMPACT.search(part):
            year, month, day, hour, minute, second = (int(found[n]) for n in range(1, 7))
            if not _FIRST_YEAR <= year <= _LAST_YEAR:
                continue
            try:
                whole = int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())
            except ValueError:
                continue
            return (whole - _offset_s(found[8])) * _NS + _fraction(found[7]), found[8] is not None
        if found := _EPOCH.search(part):
            return int(found[1]) * _NS + _fraction(found[2] or found[3]), True
    return None


def _fraction(digits: str | None) -> int:
    return int(digits.ljust(9, "0")) if digits else 0


def _offset_s(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    return (1 if zone[0] == "+" else -1) * (hours * 3600 + minutes * 60)
