"""What stands before a message: the launcher's label, a time, and the library's own host:pid:tid [device].

Nothing is anchored at the start of a line: launchers, containers and terminals put their own text there.
"""

from __future__ import annotations

import re
from calendar import month_abbr
from dataclasses import dataclass
from datetime import UTC, datetime

__all__ = ["BARE", "Front", "Head", "Prefixes", "read_front", "read_head", "strip_label"]

_HEAD = re.compile(
    r"(?P<host>[\w.\-]*):(?P<pid>\d{1,10}):(?P<tid>\d{1,10})(?: \[(?P<device>-?\d{1,6})\])?(?: \d+\.\d+)?"
    r"(?: (?P<where>[\w./+\-]{1,200}:\d{1,7}))?(?: \([^()\s]{0,200}\))? ?$",
    re.ASCII,
)
_HEAD_CHARS = 640

_LABEL = re.compile(
    r"\s*(?:\[\d+,(?P<mpi>\d+)\](?:<\w+>)?:? ?"
    r"|\[rank(?P<rank>\d+)\]:? ?"
    r"|\[(?P<role>[A-Za-z_][\w.\-]*?\d+)\]: ?"
    r"|\((?P<ray>[A-Za-z_][\w.]*(?:\([^()]*\))? pid=\d+[^()]{0,120})\) ?"
    r"|\[(?P<pod>pod/[^\]\s]{1,253})\] ?"
    r"|(?P<task>\d{1,7}): "
    r"|\[(?P<bracket>\d{1,7})\](?: |:)"
    r"|(?P<service>[\w.\-/]{1,120}) +\| "
    r"|(?:[\w./\-]+\.(?:log|out|err|txt):)?\d{1,9}[:\t]"
    r"|\s*\d{1,9}\t)",
    re.ASCII,
)
_RAY_RANK = re.compile(r"rank=(\d+)")

_DAY = r"(?P<y>\d{4})[-/](?P<mo>\d\d)[-/](?P<d>\d\d)"
_CLOCK = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?: ?(?P<z>Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?(?: ?[A-Z]{3,4}\b)?"
_TIMES = (
    re.compile(rf"\[?{_DAY}[T _]{_CLOCK}{_ZONE}\]?:? ?", re.ASCII),
    re.compile(r"\[?(?P<epoch>1\d{9})(?:\.(?P<f>\d{1,9}))?\]?:? ", re.ASCII),
    re.compile(rf"\[?(?P<us>\d\d/\d\d/\d\d) {_CLOCK}{_ZONE}\]?:? ?", re.ASCII),
    re.compile(
        rf"\[?(?:[A-Z][a-z]{{2}} )(?P<month>[A-Z][a-z]{{2}}) +(?P<d>\d{{1,2}}) {_CLOCK}"
        r"(?: (?P<z>UTC|GMT|[+-]\d{4}))?(?: [A-Z]{3,4})? (?P<y>\d{4})\]?:? ?",
        re.ASCII,
    ),
    re.compile(rf"\[?{_CLOCK}\]?:? ", re.ASCII),
)
_MONTHS = {name: number for number, name in enumerate(month_abbr) if name}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS = (1971, 2261)
"""Others are of clocks that nobody set; 64 bits of nanoseconds end in 2262."""
_CACHE = 1 << 15


@dataclass(frozen=True, slots=True)
class Head:
    """The library's own prefix, so many characters long; `front` is what stands before it."""

    host: str
    pid: int
    tid: int
    device: int | None
    where: str | None
    front: str
    length: int


@dataclass(frozen=True, slots=True)
class Front:
    """What a launcher put before a message. `label` names the writer among those of this file; `rank` is its rank where the label says so.

    `sure`: the label is a rank of the job by its form. `clean`: nothing else stands there, so that what follows begins a line of its own.
    """

    label: str | None = None
    rank: int | None = None
    sure: bool = False
    source_ts_ns: int | None = None
    local_ts_ns: int | None = None
    clean: bool = True


BARE = Front()
_LISTED = re.compile(r"\s*(?:finished|started|joined|failed|Timeout at|FINISHED|[0-9, ]*\])")
"""What follows the list of ranks `[7]` of a desync report: no label of a launcher."""


def read_head(text: str) -> Head | None:
    """The prefix that ends at the end of `text`, or None."""
    m = _HEAD.search(text, max(0, len(text) - _HEAD_CHARS))
    if m is None:
        return None
    device = m["device"]
    return Head(m["host"], int(m["pid"]), int(m["tid"]), int(device) if device is not None else None, m["where"], text[: m.start()], len(text) - m.start())


def read_front(text: str) -> Front:
    """Labels and the time before a prefix. Foreign text that was glued to it makes it unclean."""
    at, label, rank, sure, time = 0, None, None, False, None
    end = len(text.rstrip())
    while at < end:
        found = _time_at(text, at)
        if found is not None:
            time, at = found
            continue
        m = _LABEL.match(text, at)
        if m is None or m.end() == at:
            return Front(label, rank, sure, *(_last_time(text) or (None, None)), clean=False)
        at = m.end()
        time = None
        name, number, certain = _label(m)
        label = name or label
        if number is not None and not sure:
            rank, sure = number, certain
    return Front(label, rank, sure, *(time or (None, None)))


def strip_label(text: str) -> tuple[str, Front]:
    """A bare line without the labels at its start, and what they say. Times stay where they are."""
    at, label, rank, sure = 0, None, None, False
    while at < 300 and (m := _LABEL.match(text, at)) is not None and m.end() > at:
        name, number, certain = _label(m)
        if name is None or m["service"] is not None or (m["bracket"] is not None and _LISTED.match(text, m.end())):
            break
        at = m.end()
        label = name
        if number is not None and not sure:
            rank, sure = number, certain
    return (text[at:], Front(label, rank, sure)) if at else (text, BARE)


def _label(m: re.Match[str]) -> tuple[str | None, int | None, bool]:
    """Name, rank and whether the form of the label makes the rank certain."""
    for group in ("rank", "mpi"):
        if m[group] is not None:
            return f"{group} {m[group]}", _number(m[group]), True
    for group in ("task", "bracket"):
        if m[group] is not None:
            return f"{group} {m[group]}", _number(m[group]), False
    if m["ray"] is not None:
        found = _RAY_RANK.search(m["ray"])
        return m["ray"], _number(found[1]) if found else None, False
    return m["role"] or m["pod"] or m["service"], None, False


def _number(text: str) -> int | None:
    return int(text) if len(text) < 8 else None


def _time_at(text: str, at: int) -> tuple[tuple[int | None, int | None], int] | None:
    """A time at `at` as (absolute, local) nanoseconds and where it ends."""
    for pattern in _TIMES:
        m = pattern.match(text, at)
        if m is not None:
            return _nanoseconds(m.groupdict()), m.end()
    return None


def _last_time(text: str) -> tuple[int | None, int | None] | None:
    """A time at the end of `text`."""
    tail = text[-64:]
    for pattern in _TIMES[:4]:
        for m in pattern.finditer(tail):
            if m.end() == len(tail):
                return _nanoseconds(m.groupdict())
    return None


def _nanoseconds(g: dict[str, str | None]) -> tuple[int | None, int | None]:
    """(absolute, local): one of them is set, none where the text has no date."""
    fraction = int((g.get("f") or "0").ljust(9, "0"))
    if g.get("epoch"):
        return int(g["epoch"] or 0) * 1_000_000_000 + fraction, None
    try:
        if g.get("us"):
            month, day, year = (int(v) for v in (g["us"] or "").split("/"))
            year += 2000
        elif g.get("y"):
            year, day = int(g["y"] or 0), int(g["d"] or 0)
            month = _MONTHS[g["month"] or ""] if g.get("month") else int(g["mo"] or 0)
        else:
            return None, None
        if not _YEARS[0] <= year <= _YEARS[1]:
            return None, None
        since = datetime(year, month, day, int(g["h"] or 0), int(g["mi"] or 0), min(int(g["s"] or 0), 59), tzinfo=UTC) - _EPOCH
    except (KeyError, ValueError):
        return None, None
    ns = (since.days * 86_400 + since.seconds) * 1_000_000_000 + fraction
    zone = g.get("z")
    return (ns - _zone_ns(zone), None) if zone else (None, ns)


def _zone_ns(zone: str) -> int:
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return (-seconds if zone[0] == "-" else seconds) * 1_000_000_000


class Prefixes:
    """Reads prefixes; those that come again cost a look-up."""

    def __init__(self) -> None:
        self._heads: dict[str, Head | None] = {}
        self._fronts: dict[str, Front] = {"": BARE}

    def head(self, text: str) -> Head | None:
        """As `read_head`."""
        text = text[-_HEAD_CHARS:]
        if text in self._heads:
            return self._heads[text]
        if len(self._heads) >= _CACHE:
            self._heads.clear()
        return self._heads.setdefault(text, read_head(text))

    def front(self, text: str) -> Front:
        """As `read_front`."""
        found = self._fronts.get(text)
        if found is None:
            if len(self._fronts) >= _CACHE:
                self._fronts = {"": BARE}
            found = self._fronts[text] = read_front(text)
        return found
