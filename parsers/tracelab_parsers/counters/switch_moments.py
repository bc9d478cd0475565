"""Moments as lines of their own, the way `date`, `show clock` and scripts print them."""

from __future__ import annotations

import re
from calendar import month_abbr
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

__all__ = ["EARLIEST_NS", "LATEST_NS", "Moment", "epoch_ns", "moment_in", "moment_of", "offset_of"]

_MONTHS = {name: number for number, name in enumerate(month_abbr) if name}
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?"
_CLOCK = r"(?P<h>\d\d?):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?(?: (?P<half>[AP]M))?"
_ZONE = r"(?P<zone>Z|[A-Z]{2,5}|[+-]\d\d:?\d\d)"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"{_DAY} (?P<mon>[A-Z][a-z]{{2}}) +(?P<d>\d\d?),? {_CLOCK}(?: {_ZONE})? (?P<y>\d{{4}})",
        rf"{_DAY} (?P<d>\d\d?) (?P<mon>[A-Z][a-z]{{2}}) (?P<y>\d{{4}}) {_CLOCK}(?: {_ZONE})?",
        rf"(?P<y>\d{{4}})-(?P<mon>\d\d)-(?P<d>\d\d)[T ]{_CLOCK} ?{_ZONE}?",
        rf"\.?{_CLOCK} {_ZONE} {_DAY} (?P<mon>[A-Z][a-z]{{2}}) +(?P<d>\d\d?) (?P<y>\d{{4}})",
    )
)
_EPOCH = re.compile(r"\d{10}(?:\.\d{1,9})?")
_LABEL = re.compile(r"(?:[#!=*+-]+ ?)?(?:(?:Time|Date|Timestamp|date|time|timestamp) ?[:=] ?)?")
_TAIL = re.compile(r" ?[=*#-]+$")
EARLIEST_NS, LATEST_NS = 31_536_000 * 10**9, 4 * 10**18
"""Numbers before 1971 and after 2096 are no counts of seconds since 1970."""
_LAST_NS = (1 << 63) - 1
_START = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"([+-])([01]\d|2[0-3]):?([0-5]\d)?", re.ASCII)


class Moment(NamedTuple):
    """`ns` of the Unix epoch, as if it were UTC where `zoned` is false."""

    ns: int
    zoned: bool


def epoch_ns(seconds: object) -> int | None:
    """Seconds since 1970, exact, as ns; None for what is no such number or lies before 1971 or after 2096."""
    if isinstance(seconds, str):
        seconds = Decimal(seconds) if re.fullmatch(r"\d{1,10}(?:\.\d{1,12})?", seconds.strip(), re.ASCII) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | Decimal):
        return None
    value = Decimal(seconds)
    return int(value * 10**9) if value.is_finite() and EARLIEST_NS // 10**9 <= value < LATEST_NS // 10**9 else None


def moment_in(text: str) -> Moment | None:
    """The moment that the line `text` is, with or without a label before it; None where it is anything else."""
    if not any(c.isdigit() for c in text) or len(text) > 80:
        return None
    label = _LABEL.match(text)
    body = _TAIL.sub("", text[label.end() if label is not None else 0 :].strip())
    if _EPOCH.fullmatch(body):
        ns = epoch_ns(body)
        return None if ns is None else Moment(ns, zoned=True)
    for form in _FORMS:
        m = form.fullmatch(body)
        if m is not None:
            return _moment(m)
    return None


def _moment(m: re.Match[str]) -> Moment | None:
    month = _MONTHS.get(m["mon"], 0) if m["mon"].isalpha() else int(m["mon"])
    hour = int(m["h"])
    if m["half"]:
        hour = hour % 12 + 12 * (m["half"] == "PM")
    return moment_of((int(m["y"]), month, int(m["d"]), hour, int(m["m"]), int(m["s"])), m["f"], m["zone"])


def moment_of(parts: tuple[int, int, int, int, int, int], fraction: str | None, zone: str | None) -> Moment | None:
    """The moment of year, month, day, hour, minute and second, digits of a fraction, and Z, UTC, GMT or an offset; other names of zones say nothing.

    None for no moment from 1971 to 2262, where 64 bits of nanoseconds end, and for an offset of a day or more.
    """
    offset = offset_of(zone or "")
    if zone is not None and zone[0] in "+-" and offset is None:
        return None
    try:
        at = datetime(*parts, tzinfo=UTC)
    except ValueError:
        return None
    ns = (at - _START - (offset or timedelta())) // timedelta(seconds=1) * 10**9 + int((fraction or "").ljust(9, "0") or 0)
    return Moment(ns, zoned=offset is not None or zone in {"Z", "UTC", "GMT"}) if EARLIEST_NS <= ns <= _LAST_NS else None


def offset_of(text: str) -> timedelta | None:
    """What a clock of the zone `+08:00`, `+0800` or `+08` is ahead of UTC; None where `text` is no offset below a day."""
    m = _OFFSET.fullmatch(text)
    if m is None:
        return None
    ahead = timedelta(hours=int(m[2]), minutes=int(m[3] or 0))
    return ahead if m[1] == "+" else -ahead
