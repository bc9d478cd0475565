"""Moments in the columns of a table: counts since 1970 in any unit, ISO 8601 and its kin, and what a user describes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracelab_parsers.counters.bulk import NO_TIME, Ints
from tracelab_parsers.counters.csv_table_description import TimeColumn, zone_of
from tracelab_parsers.counters.prometheus_values import moments_of
from tracelab_parsers.counters.switch_moments import EARLIEST_NS, LATEST_NS, Moment, moment_in, moment_of
from tracelab_parsers.counters.writing import TimeQuality

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Clock", "clock_of", "described_clock"]

_EPOCH = re.compile(r"(\d{9,19})(\.\d{1,12})?")
_DATE = re.compile(
    r"(?P<y>\d{4})[-/.](?P<mon>\d\d?)[-/.](?P<d>\d\d?)(?:[T ]+|[ ]+[^\d\s]{1,12}[ ]+)"
    r"(?P<h>\d\d?):(?P<m>\d\d)(?::(?P<s>\d\d)(?:[.,:](?P<f>\d{1,9}))?)? ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d|[+-]\d\d)?"
)
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_EXPONENTS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
_BY_DIGITS = ((11, 9), (14, 6), (17, 3), (20, 0))
"""Digits below which a count since 1970 is of 10**exponent ns: those of 1971 to 2096 do not overlap."""
_LONGEST = 80


class Clock(NamedTuple):
    """How moments are printed. `exponent`: counts since 1970 of 10**exponent ns; else text, by `form` of `strptime` where a user gives it."""

    exponent: int | None
    zoned: bool
    form: str | None = None
    zone: tzinfo | None = None

    @property
    def quality(self) -> TimeQuality:
        """Whose moments they are: a table's rows are stamped by who collects them."""
        return "collector" if self.zoned or self.zone is not None else "local"

    def read(self, column: pa.StringArray) -> Ints:
        """The moments in ns, `NO_TIME` for what is none."""
        if self.exponent is not None:
            return moments_of(column, self.exponent)
        encoded = column.dictionary_encode()
        found = np.array([self._moment(t) for t in encoded.dictionary.to_pylist()], np.int64)
        return found[encoded.indices.to_numpy(zero_copy_only=False)] if len(found) else found

    def _moment(self, text: str) -> int:
        if self.form is not None:
            return _by_form(text.strip(), self.form, self.zone)
        told = _text_moment(text.strip())
        if told is None or told.ns >= LATEST_NS or (self.zoned and not told.zoned):
            return NO_TIME
        return told.ns if told.zoned or self.zone is None else _in_zone(told.ns, self.zone)


def clock_of(texts: Sequence[str]) -> Clock | None:
    """The clock of a column whose values are `texts`; None where more than one in ten, and more than one at all, are no moments. Empty ones do not count."""
    stated = [t.strip() for t in texts if t.strip()]
    needed = max(1, min(len(stated) - 1, -(-len(stated) * 9 // 10)))
    epochs = [t for t in stated if _EPOCH.fullmatch(t)]
    if len(epochs) >= needed:
        exponents = {next(e for digits, e in _BY_DIGITS if len(t.partition(".")[0]) < digits) for t in epochs}
        exponent = exponents.pop() if len(exponents) == 1 else None
        good = exponent is not None and np.count_nonzero(moments_of(epochs, exponent) != NO_TIME) >= needed
        return Clock(exponent, zoned=True) if good else None
    told = [moment for t in stated if (moment := _text_moment(t)) is not None]
    return Clock(None, zoned=all(moment.zoned for moment in told)) if len(told) >= needed else None


def described_clock(column: TimeColumn, texts: Sequence[str]) -> Clock | None:
    """The clock that a user describes; `ManifestError` where its zone is none."""
    zone = zone_of(column.zone) if column.zone is not None else None
    if column.format in _EXPONENTS:
        return Clock(_EXPONENTS[column.format], zoned=True)
    if column.format != "auto":
        return Clock(None, zoned="%z" in column.format, form=column.format, zone=zone)
    found = clock_of(texts)
    return found._replace(zone=zone) if found is not None else None


def _by_form(text: str, form: str, zone: tzinfo | None) -> int:
    try:
        at = datetime.strptime(text, form)  # noqa: DTZ007 -- the zone follows
    except ValueError:
        return NO_TIME
    if at.tzinfo is None:
        at = at.replace(tzinfo=zone or UTC)
    ns = (at - _EPOCH_START) // timedelta(microseconds=1) * 1000
    return ns if EARLIEST_NS <= ns < LATEST_NS else NO_TIME


def _in_zone(ns: int, zone: tzinfo) -> int:
    """A moment that was read as if it were UTC, in its zone."""
    seconds, rest = divmod(ns, 10**9)
    at = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone)
    return (at - _EPOCH_START) // timedelta(seconds=1) * 10**9 + rest


@lru_cache(maxsize=65_536)
def _text_moment(text: str) -> Moment | None:
    """A moment that is written as a date and a time of day, the year first, with or without the day of the week in any language."""
    if len(text) > _LONGEST:
        return None
    m = _DATE.fullmatch(text)
    if m is None:
        return moment_in(text) if not text[:1].isdigit() else None
    return moment_of((int(m["y"]), int(m["mon"]), int(m["d"]), int(m["h"]), int(m["m"]), int(m["s"] or 0)), m["f"], m["zone"])
