"""Which object of a SONiC switch an id in its counters database is."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from tracelab_parsers.counters.writing import Subject

__all__ = ["Named", "ObjectNames"]

_MAPS = (
    ("COUNTERS_PORT_NAME_MAP", "port"),
    ("COUNTERS_SYSTEM_PORT_NAME_MAP", "port"),
    ("COUNTERS_FABRIC_PORT_NAME_MAP", "port"),
    ("COUNTERS_QUEUE_NAME_MAP", "queue"),
    ("COUNTERS_VOQ_NAME_MAP", "queue"),
    ("COUNTERS_FABRIC_QUEUE_NAME_MAP", "queue"),
    ("COUNTERS_PG_NAME_MAP", "group"),
    ("COUNTERS_BUFFER_POOL_NAME_MAP", "pool"),
    ("COUNTERS_SWITCH_NAME_MAP", "switch"),
    ("COUNTERS_RIF_NAME_MAP", "router-interface"),
    ("COUNTERS_LAG_NAME_MAP", "lag"),
    ("COUNTERS_TUNNEL_NAME_MAP", "tunnel"),
    ("ACL_COUNTER_RULE_MAP", "rule"),
    ("COUNTERS_TRAP_NAME_MAP", "trap"),
    ("COUNTERS_ROUTE_NAME_MAP", "route"),
    ("COUNTERS_SRV6_NAME_MAP", "route"),
)
_HELP = frozenset({"COUNTERS_QUEUE_TYPE_MAP", "COUNTERS_QUEUE_INDEX_MAP"})
_PREFIX = {"UNICAST": "UC", "MULTICAST": "MC", "ALL": "ALL", "UNICAST_VOQ": "VOQ"}
_KINDS = {"PORT": "port", "QUEUE": "queue", "INGRESS": "group", "BUFFER": "pool", "SWITCH": "switch", "ROUTER": "router-interface", "TUNNEL": "tunnel"}
_SAI = re.compile(r"(?:SAI|EST)_([A-Z]+)_")


class Named(NamedTuple):
    """An object: its kind (port, queue, group, pool, switch or another word), who that is in the table, its queue."""

    kind: str
    subject: Subject
    queue: str | None
    known: bool


class ObjectNames:
    """The name maps of a dump. Of two names of one id, that of the first kind in the order port, queue, group, pool, … holds."""

    def __init__(self) -> None:
        self._maps: dict[str, dict[str, Any]] = {}
        self._objects: dict[str, tuple[str, str]] | None = None
        self._named: dict[str, Named] = {}

    @staticmethod
    def wanted(key: str) -> bool:
        """Whether the record `key` is one of the maps."""
        return key in _HELP or any(key == name for name, _ in _MAPS)

    def add(self, key: str, fields: dict[str, Any]) -> None:
        """Keeps a map."""
        self._maps.setdefault(key, {}).update(fields)

    def of(self, oid: str, node: str | None, field: str) -> Named:
        """The object `oid`, one of whose fields is called `field`."""
        found = self._named.get(oid)
        if found is None:
            found = self._named[oid] = self._find(oid, node, field)
        return found

    def _find(self, oid: str, node: str | None, field: str) -> Named:
        if self._objects is None:
            self._objects = {}
            for name, kind in _MAPS:
                for label, value in self._maps.get(name, {}).items():
                    self._objects.setdefault(str(value), (kind, f"VOQ|{label}" if name == "COUNTERS_VOQ_NAME_MAP" else label))
        known = self._objects.get(oid)
        if known is None:
            sai = _SAI.match(field)
            kind = _KINDS.get(sai[1], "other") if sai is not None else "queue" if field.startswith("PFC_WD") else "other"
            return Named(kind, Subject(_device(kind), oid, node=node, node_kind="switch"), None, known=False)
        kind, label = known
        if kind in ("queue", "group"):
            port, queue = self._part(oid, kind, label)
            return Named(kind, Subject("switch-port", port, node=node, node_kind="switch"), queue, known=True)
        if kind == "pool":
            return Named(kind, Subject("switch", None, node=node, node_kind="switch"), label, known=True)
        return Named(kind, Subject(_device(kind), label, node=node, node_kind="switch"), None, known=True)

    def _part(self, oid: str, kind: str, label: str) -> tuple[str, str]:
        """Port and queue of `Ethernet0:3`; the maps of types and indices tell that the queue is UC3."""
        voq = label.startswith("VOQ|")
        port, _, index = label.removeprefix("VOQ|").rpartition(":")
        if kind == "group":
            return port, f"PG{index}"
        stated = str(self._maps.get("COUNTERS_QUEUE_TYPE_MAP", {}).get(oid, "")).removeprefix("SAI_QUEUE_TYPE_")
        index = str(self._maps.get("COUNTERS_QUEUE_INDEX_MAP", {}).get(oid, index))
        return port, f"{'VOQ' if voq else _PREFIX.get(stated, '')}{index}"


def _device(kind: str) -> Literal["switch-port", "switch", "other"]:
    if kind in ("port", "queue", "group"):
        return "switch-port"
    return "switch" if kind in ("pool", "switch") else "other"
