"""What a user says of the columns of a table that does not say it itself.

In `tracelab.toml`, for the file `counters/leaf1.csv`:

    [tables."counters/leaf1.csv"]
    time = {column = "SaveTime", format = "%Y/%m/%d %H:%M:%S.%f", zone = "+08:00"}
    node = "DeviceName"
    node_kind = "switch"
    device = "PortName"
    counters = {InOctets = {counter = "bytes:rx", kind = "delta"}, OutOctets = "bytes:tx", Words = {counter = "bytes:tx", scale = 4}}
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timezone, tzinfo
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from tracelab.errors import ManifestError
from tracelab.tables import CANONICAL, CounterKind
from tracelab_parsers.counters.meanings import Direction, Meaning
from tracelab_parsers.counters.switch_moments import offset_of
from tracelab_parsers.counters.writing import DeviceKind

__all__ = ["CounterColumn", "TableDescription", "TimeColumn", "described_meaning", "read_description", "zone_of"]

_FORMATS = ("auto", "s", "ms", "us", "ns")
_ANY = datetime(2026, 11, 28, 17, 5, 9, tzinfo=UTC)


class TimeColumn(msgspec.Struct, forbid_unknown_fields=True):
    """Where moments stand. `format`: auto, s, ms, us, ns (since 1970), or as `strptime` takes it. `zone`: +08:00, UTC, or a name of the zone database."""

    column: str
    format: str = "auto"
    zone: str | None = None


class CounterColumn(msgspec.Struct, forbid_unknown_fields=True):
    """What a column counts: a canonical counter, with :tx or :rx where it has a direction, or a name of one's own.

    `scale`: canonical units per printed one. `kind`: counter, gauge, delta (counts since the row before) or event. `node`,
    `device`, `port`: of what, where a table has a column for each device.
    """

    counter: str
    scale: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    kind: CounterKind | None = None
    unit: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=7)] | None = None
    queue: str | None = None
    node: str | None = None
    device: str | None = None
    port: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None = None


class TableDescription(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of one table, by their headings. What is not said is found out as for tables that nobody described.

    `counters`: what its columns count, or, where `name` and `value` say that each row holds one number, what its names mean;
    where it is empty, all columns whose names are known. `columns` are the headings of a file that has none.
    """

    time: TimeColumn | str | None = None
    node: str | None = None
    node_kind: Literal["host", "switch"] | None = None
    device: str | None = None
    device_kind: DeviceKind | None = None
    port: str | None = None
    uid: str | None = None
    priority: str | None = None
    queue: str | None = None
    direction: str | None = None
    name: str | None = None
    value: str | None = None
    counters: dict[str, CounterColumn | str] = {}
    delimiter: str | None = None
    columns: list[str] = []

    def headings(self) -> list[str]:
        """All headings that are named."""
        time = self.time.column if isinstance(self.time, TimeColumn) else self.time
        roles = [time, self.node, self.device, self.port, self.uid, self.priority, self.queue, self.direction, self.name, self.value]
        return [r for r in roles if r is not None] + ([] if self.name else list(self.counters))


def read_description(text: str) -> TableDescription:
    """The description in JSON. `ManifestError` says what is wrong with it."""
    try:
        found = msgspec.json.decode(text.encode(), type=TableDescription)
    except msgspec.DecodeError as e:
        raise ManifestError(f"the description of a table is wrong: {e}", hint="see the keys of [tables.…] in the documentation") from e
    if (found.name is None) != (found.value is None):
        raise ManifestError("the description of a table names one of `name` and `value`", hint="rows of one number each need both columns")
    if found.delimiter is not None and (len(found.delimiter) != 1 or found.delimiter in '"\r\n\0'):
        raise ManifestError(f"{found.delimiter!r} is no delimiter", hint='give one character: ",", ";", "\\t" or "|"')
    for counter in found.counters.values():
        described_meaning(counter)
    if isinstance(found.time, TimeColumn):
        zone_of(found.time.zone or "UTC")
        _check_format(found.time.format)
    return found


def zone_of(text: str) -> tzinfo:
    """The zone that a description names; `ManifestError` where there is none of that name."""
    offset = offset_of(text)
    if text in ("Z", "UTC") or offset is not None:
        return timezone(offset) if offset is not None else UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ManifestError(f"{text!r} is no time zone", hint="write +08:00, UTC, or a name like Asia/Shanghai") from None


def _check_format(form: str) -> None:
    """`ManifestError` where no moment can be read by `form`, or only the time of a day."""
    try:
        good = form in _FORMATS or datetime.strptime(_ANY.strftime(form), form).date() == _ANY.date()  # noqa: DTZ007 -- days alone
    except (ValueError, re.error):
        good = False
    if not good:
        hint = 'write auto, s, ms, us, ns, or directives of strptime that state a day and a time: "%Y-%m-%d %H:%M:%S"'
        raise ManifestError(f"{form!r} is no form of moments", hint=hint)


def described_meaning(column: CounterColumn | str) -> Meaning:
    """The meaning that a description gives. `ManifestError` where it contradicts itself."""
    told = CounterColumn(column) if isinstance(column, str) else column
    name, _, way = told.counter.partition(":")
    if way not in ("", "tx", "rx"):
        raise ManifestError(f"{told.counter!r}: a direction is tx or rx", hint='write "bytes:tx"')
    direction: Direction | None = "tx" if way == "tx" else "rx" if way == "rx" else None
    counter = name if name in CANONICAL or name.startswith("vendor.") else f"vendor.{name}"
    if counter == "vendor.":
        raise ManifestError("the description of a table holds a counter without a name")
    width = 64 if (told.kind or (CANONICAL[counter].kind if counter in CANONICAL else "counter")) == "counter" else 0
    return Meaning(counter, direction, told.scale, width, priority=told.priority, queue=told.queue, kind=told.kind, unit=told.unit)
