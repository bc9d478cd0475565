"""Moments as lines of their own, the way `date`, `show clock` and scripts print them."""

from __future__ import annotations

import re
from calendar import month_abbr
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

__all__ = ["Moment", "epoch_ns", "moment_in"]

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
_LATEST = Decimal(4 * 10**9)
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")


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
    return int(value * 10**9) if value.is_finite() and 31_536_000 <= value < _LATEST else None


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
    try:
        at = datetime(int(m["y"]), month, int(m["d"]), hour, int(m["m"]), int(m["s"]), tzinfo=UTC)
    except ValueError:
        return None
    ns = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) * 10**9 + int((m["f"] or "").ljust(9, "0") or 0)
    zone = m["zone"] or ""
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        ns -= (minutes if offset[1] == "+" else -minutes) * 60 * 10**9
    return Moment(ns, zoned=offset is not None or zone in {"Z", "UTC", "GMT"})
