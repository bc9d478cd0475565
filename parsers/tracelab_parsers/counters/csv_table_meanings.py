"""Columns and names of a table to keys of rows, once for each device."""

from __future__ import annotations

from dataclasses import replace

from tracelab_parsers.counters.bulk import Ints, Key, Numbers
from tracelab_parsers.counters.csv_table_description import TableDescription
from tracelab_parsers.counters.csv_table_entities import Entity
from tracelab_parsers.counters.csv_table_names import Heading, heading_of
from tracelab_parsers.counters.csv_table_plan import Column, Plan
from tracelab_parsers.counters.device_kinds import device_kind_of
from tracelab_parsers.counters.meanings import Meaning, meaning_of_unknown
from tracelab_parsers.counters.prometheus_names import OPER_STATES, Metric
from tracelab_parsers.counters.prometheus_series import Known, adjusted
from tracelab_parsers.counters.writing import DeviceKind, Subject

__all__ = ["Meanings"]


class Meanings:
    """The keys of a table's rows. `set_intervals` says which columns, or names of a table of names, count since the row before."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._keys: dict[tuple[int, int], Key] = {}
        self._intervals: frozenset[str] = frozenset()

    @property
    def has_intervals(self) -> bool:
        """Whether any number counts since the row before."""
        told = (c.told or (c.heading.meaning if c.heading is not None else None) for c in self._plan.columns)
        stated = any(m is not None and m.stated_kind == "delta" for m in (*told, *self._plan.names.values()))
        return bool(self._intervals) or stated or self._plan.long

    def set_intervals(self, names: frozenset[str]) -> None:
        """States the columns or names that count since the row before."""
        self._intervals = names
        self._keys.clear()

    def forget(self) -> None:
        """Drops what is known of entities: they get new numbers."""
        self._keys.clear()

    def name(self, entity: Entity, column: Column) -> str:
        """The name of the counter as printed."""
        return entity.name or "unnamed" if self._plan.long else column.name

    def meaning(self, entity: Entity, column: Column) -> Meaning:
        """What a number of that column means on that device."""
        name = self.name(entity, column)
        found = self._of_name(name, entity) if self._plan.long else column.meaning(entity.subject.kind)
        if found.direction is None and entity.direction is not None:
            found = replace(found, direction=entity.direction)
        if name in self._intervals and found.stated_kind == "counter":
            found = replace(found, kind="delta", width=0, saturates=False)
        return found

    def _of_name(self, name: str, entity: Entity) -> Meaning:
        if name in self._plan.names:
            return self._plan.names[name]
        heading = named(name, entity)
        return heading.meaning if heading is not None else meaning_of_unknown(name, entity.direction, "gauge")

    def key(self, code: int, entity: Entity, column: Column) -> Key:
        """The key of the rows of an entity, whose number is `code`, in a column."""
        known = self._keys.get((code, column.place))
        if known is None:
            subject = of_column(column, entity.subject, self._plan.description)
            known = Key(subject, self.name(entity, column), self.meaning(entity, column), entity.priority, entity.queue)
            self._keys[code, column.place] = known
        return known

    def adjusted(self, column: Column, keys: list[Key], numbers: Numbers, of: Ints) -> Numbers:
        """`numbers`, whose codes stand for states where a heading says so."""
        special = [(i, k) for i, k in enumerate(keys) if k.meaning.counter == "link_speed" or self._codes(column, k)]
        if not special:
            return numbers
        series = [Known(k, Metric(k.meaning, "other", OPER_STATES if self._codes(column, k) else None)) for k in keys]
        return adjusted(numbers, series, of)

    def _codes(self, column: Column, key: Key) -> bool:
        heading = heading_of(key.raw_name) if self._plan.long else column.heading
        return heading is not None and heading.codes


def of_column(column: Column, subject: Subject, description: TableDescription) -> Subject:
    """Who a column speaks of, where it is of one device alone."""
    of = column.of
    if of is None or (of.node is None and of.device is None and of.port is None):
        return subject
    device = of.device or subject.device
    kind = description.device_kind or device_kind_of(device or "")
    node_kind = description.node_kind or (None if kind == "other" else "switch" if kind == "switch-port" else "host")
    return Subject(kind, device, node=of.node or subject.node, node_kind=node_kind, port=of.port if of.port is not None else subject.port, uid=subject.uid)


def named(name: str, entity: Entity, kind: DeviceKind | None = None) -> Heading | None:
    """What the name of a counter in a row means; the direction may stand in a column of its own."""
    device = kind or entity.subject.kind
    return heading_of(name, device) or (heading_of(f"{entity.direction}_{name}", device) if entity.direction is not None else None)
