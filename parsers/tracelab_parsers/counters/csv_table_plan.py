"""Which column of a table holds what: moments, machines, devices, counters. Found out from headings and the first rows, or described."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tracelab_parsers.counters.csv_table_description import CounterColumn, TableDescription, TimeColumn, described_meaning
from tracelab_parsers.counters.csv_table_names import Heading, heading_of, words_of
from tracelab_parsers.counters.csv_table_times import Clock, clock_of, described_clock
from tracelab_parsers.counters.meanings import Meaning, meaning_of_unknown
from tracelab_parsers.counters.values import read_number
from tracelab_parsers.counters.writing import DeviceKind

__all__ = ["DELIMITERS", "Column", "Plan", "Role", "delimiter_of", "plan_of", "read_cell", "split_lines"]

Role = Literal["switch", "node", "device", "interface", "port", "gpu", "uid", "priority", "queue", "direction", "name", "value"]
DELIMITERS = (",", ";", "\t", "|")
_ROLES: dict[str, Role] = {
    **dict.fromkeys(("switch", "switch_name", "switchname", "leaf", "router", "sw", "switch_host"), "switch"),
    **dict.fromkeys(
        (
            "host",
            "hostname",
            "host_name",
            "node",
            "node_name",
            "nodename",
            "sysname",
            "server",
            "machine",
            "instance",
            "source",
            "agent",
            "agent_host",
            "sys_name",
        ),
        "node",
    ),
    **dict.fromkeys(("device", "dev", "device_name", "devicename", "hca", "nic", "adapter", "ib_device", "rdma_device", "ca", "ibdev"), "device"),
    **dict.fromkeys(("interface", "interface_name", "iface", "if_name", "ifname", "intf", "netdev", "if_descr", "port_name", "portname"), "interface"),
    **dict.fromkeys(("port", "port_num", "port_number", "portnum", "port_id", "physical_port", "ib_port"), "port"),
    **dict.fromkeys(("gpu", "gpu_index", "gpu_id"), "gpu"),
    **dict.fromkeys(("guid", "port_guid", "mac", "mac_address", "uuid", "gpu_uuid"), "uid"),
    **dict.fromkeys(("priority", "prio", "pri", "tc", "traffic_class"), "priority"),
    **dict.fromkeys(("queue", "queue_name", "queue_id", "pg"), "queue"),
    **dict.fromkeys(("direction", "dir"), "direction"),
    **dict.fromkeys(("counter", "counter_name", "metric", "metric_name", "name", "field", "stat", "key"), "name"),
    **dict.fromkeys(("value", "val", "counter_value", "metric_value"), "value"),
}
_ENTITY: tuple[Role, ...] = ("switch", "node", "device", "interface", "port", "gpu", "uid")
_TIME = frozenset({"time", "timestamp", "ts", "datetime", "date", "epoch", "clock", "savetime", "unixtime", "utc"})
_NO_TIME = frozenset({"last", "change", "boot", "start", "end", "uptime", "clear", "cleared", "begin", "created", "duration", "elapsed", "up", "flap"})
_UTC = frozenset({"utc", "epoch", "unixtime", "gmt"})
_OWN_UNIT = re.compile(r"([+-]?[\d.,]+(?:[eE][+-]?\d+)?) ?([%A-Za-zµ/]+)")
_COMMA = re.compile(r"[+-]?\d+,(?:\d{1,2}|\d{4,})")
_OF_GPUS = frozenset({"gpu_temperature", "gpu_utilisation", "sm_clock", "memory_clock", "power", "throttle_reasons", "xid_last", "sm_active"})
_PERCENT = 1.5
_SAMPLE = 500


@dataclass(frozen=True)
class Column:
    """A column of numbers. `heading`: what its name says, None where nothing; `told`: what a user says it counts, and `of` what."""

    place: int
    name: str
    heading: Heading | None = None
    told: Meaning | None = None
    percent: bool = False
    of: CounterColumn | None = None

    def meaning(self, kind: DeviceKind) -> Meaning:
        """What its numbers mean on a device of that kind."""
        if self.told is not None:
            return self.told
        if self.percent and self.heading is not None:
            return Meaning("utilisation", self.heading.meaning.direction, width=0)
        by_kind = heading_of(self.name, kind) if self.heading is not None else None
        return by_kind.meaning if by_kind is not None else meaning_of_unknown(self.name, None, "gauge")


@dataclass
class Plan:
    """What the columns of a table hold. `time`: places that are joined by a space; `long`: each row names its counter."""

    delimiter: str
    headings: list[str]
    time: tuple[int, ...]
    clock: Clock | None
    roles: dict[Role, int]
    columns: list[Column]
    description: TableDescription
    proofs: int = 0
    names: Mapping[str, Meaning] = field(default_factory=dict)

    @property
    def long(self) -> bool:
        """Whether each row names its counter."""
        return "name" in self.roles and "value" in self.roles

    @property
    def gpu(self) -> bool:
        """Whether the table counts GPUs."""
        return "gpu" in self.roles or any(c.heading is not None and c.heading.meaning.counter in _OF_GPUS for c in self.columns)

    @property
    def entities(self) -> int:
        """How many columns say who is counted."""
        return sum(r in self.roles for r in _ENTITY)


class _Rows(NamedTuple):
    headings: list[str]
    rows: list[list[str]]

    def column(self, place: int) -> list[str]:
        return [r[place].strip() for r in self.rows]


def split_lines(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Lines as cells; a quoted cell that goes on over lines ends with its line. A line that cannot be split is one cell."""
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        rows = []
    return rows if len(rows) == len(lines) else [_split(line, delimiter) for line in lines]


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(iter(csv.reader([line], delimiter=delimiter, skipinitialspace=True)), [])
    except csv.Error:
        return [line]


def delimiter_of(heading: str) -> str | None:
    """What parts the cells of a line of headings; None where nothing does."""
    counts = {d: len(split_lines([heading], d)[0]) for d in DELIMITERS}
    best = max(DELIMITERS, key=lambda d: counts[d])
    return best if counts[best] > 1 else None


def read_cell(text: str, unit: str | None = None) -> float | None:
    """The number of a cell, which may repeat the unit of its heading, or write its fraction behind a comma. Raises `ValueError`."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    if text.lower() in ("not supported", "unknown error", "err!", "inf", "-inf", "+inf"):
        return None
    own = _OWN_UNIT.fullmatch(text)
    if own is not None and own[2] == (unit or "%" * (own[2] == "%")):
        text = own[1]
    if _COMMA.fullmatch(text):
        text = text.replace(",", ".")
    return read_number(text)


def plan_of(headings: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str, description: TableDescription | None = None) -> Plan | None:
    """What the columns hold; None where nothing says when, or what is counted. `rows` are the first ones, as wide as the headings."""
    names = [h.strip().lstrip("\ufeff") for h in headings]
    table = _Rows(names, [list(r) for r in rows if len(r) == len(names) and [c.strip() for c in r] != names][:_SAMPLE])
    told = description or TableDescription()
    if not table.rows:
        return None
    time, clock = _time(table, told)
    if clock is None and (description is None or description.time is not None):
        return None
    roles = _roles(table, told)
    plan = Plan(delimiter, names, time, clock, roles, [], told)
    if plan.long:
        plan.names = {name: described_meaning(c) for name, c in told.counters.items()}
        ways = ("", "rx_") if "direction" in roles else ("",)
        plan.proofs = sum(n in plan.names or any(_is_proof(heading_of(w + n)) for w in ways) for n in set(table.column(roles["name"])))
        plan.columns = [Column(roles["value"], names[roles["value"]])]
        return plan
    taken = {*time, *roles.values()}
    plan.columns = _columns(table, told, taken)
    plan.proofs = sum(c.told is not None or _is_proof(c.heading) or c.percent for c in plan.columns)
    if "gpu" not in roles and "index" in names and any(c.heading is not None and "." in c.name for c in plan.columns):
        roles["gpu"] = names.index("index")
        plan.columns = [c for c in plan.columns if c.place != roles["gpu"]]
    return plan


def _is_proof(heading: Heading | None) -> bool:
    return heading is not None and heading.proof


def _time(table: _Rows, told: TableDescription) -> tuple[tuple[int, ...], Clock | None]:
    """Places and clock of the moments: those that a user names, else the best of the columns that look like it, those in UTC first."""
    if told.time is not None:
        column = told.time if isinstance(told.time, TimeColumn) else TimeColumn(told.time)
        if column.column not in table.headings:
            return (), None
        place = table.headings.index(column.column)
        return (place,), described_clock(column, table.column(place))
    found: list[tuple[int, tuple[int, ...], Clock]] = []
    likely = [i for i, h in enumerate(table.headings) if _TIME & set(words_of(h)) and not _NO_TIME & set(words_of(h))]
    for i in likely:
        clock = clock_of(table.column(i))
        if clock is not None:
            found.append((0 if clock.zoned else 2 - bool(_UTC & set(words_of(table.headings[i]))), (i,), clock))
    if not found and len(likely) > 1:
        date, time = likely[:2]
        clock = clock_of([f"{d} {t}" for d, t in zip(table.column(date), table.column(time), strict=True)])
        found += [(2, (date, time), clock)] if clock is not None else []
    if not found:
        return (), None
    best = min(found, key=lambda f: f[0])
    return best[1], best[2]


def _roles(table: _Rows, told: TableDescription) -> dict[Role, int]:
    """Which column says who is counted, and what."""
    given: dict[Role, str | None] = {
        "switch": told.node if told.node_kind == "switch" else None,
        "node": told.node if told.node_kind != "switch" else None,
        "interface": told.device,
        "port": told.port,
        "uid": told.uid,
        "priority": told.priority,
        "queue": told.queue,
        "direction": told.direction,
        "name": told.name,
        "value": told.value,
    }
    out: dict[Role, int] = {role: table.headings.index(h) for role, h in given.items() if h is not None and h in table.headings}
    if any(h is not None for h in given.values()):
        return out
    for place, heading in enumerate(table.headings):
        role = _ROLES.get("_".join(words_of(heading))) or _ROLES.get(heading.lower())
        if role is not None and role not in out:
            out[role] = place
    if ("name" in out) != ("value" in out) or told.counters:
        out.pop("name", None)
        out.pop("value", None)
    return out


def _columns(table: _Rows, told: TableDescription, taken: set[int]) -> list[Column]:
    """The columns of numbers. Of a described table, those that the user names; else all that hold numbers."""
    out = []
    repeated = {h for h, n in Counter(table.headings).items() if n > 1}
    for place, name in enumerate(table.headings):
        if place in taken or not name or name in repeated:
            continue
        if told.counters:
            if name in told.counters:
                column = told.counters[name]
                out.append(Column(place, name, told=described_meaning(column), of=column if isinstance(column, CounterColumn) else None))
            continue
        heading = heading_of(name)
        numbers = _numbers(table.column(place), heading)
        if numbers is None or (heading is None and _TIME & set(words_of(name))):
            continue
        percent = heading is not None and heading.percent and (heading.unit == "%" or max(numbers, default=0.0) > _PERCENT)
        out.append(Column(place, name, heading, percent=percent))
    return out


def _numbers(texts: Sequence[str], heading: Heading | None) -> list[float] | None:
    """The numbers of a column; None where it is one of texts: where more than a tenth, or half where its heading is `known`, is anything else."""
    found, bad = [], 0
    for text in texts:
        try:
            number = read_cell(text, heading.unit if heading is not None else None)
        except ValueError:
            bad += 1
            continue
        if number is not None:
            found.append(float(number))
    if _is_proof(heading):
        return found if bad * 2 <= len(texts) else None
    return found if found and bad * 10 <= len(texts) else None
