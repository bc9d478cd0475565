"""What one machine heard of a neighbour, and the rows that follow from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tracelab.plugins import Emitter
from tracelab.tables import CABLES, INTERFACES
from tracelab_parsers.counters.switch_values import address
from tracelab_parsers.nccl_json.rows import RowBuffer

__all__ = ["LldpRows", "Neighbour", "kind_by_capabilities"]

Kind = Literal["host", "switch"]
_LONGEST = 256
_SHORT = re.compile(r"(Eth|Et)(?=\d)")
_SWITCH_PORT = re.compile(r"(?:Ethernet|Eth|Et|swp)\d[\d/:.]*|Ethernet-BP\d+|[a-z]{2}-\d+/\d+/\d+(?::\d+)?")
_ABSENT = frozenset({"", "null", "none", "n/a", "not advertised", "not available", "-"})


@dataclass(slots=True)
class Neighbour:
    """One neighbour on one port, as printed. `port` may be a MAC or a number without meaning; `port_text` is its description."""

    line: int
    local: str | None = None
    node: str | None = None
    node_kind: Kind | None = None
    name: str | None = None
    chassis: str | None = None
    kind: Kind | None = None
    port: str | None = None
    port_text: str | None = None
    media: str | None = None


class LldpRows:
    """Writes cables and interfaces of neighbours."""

    def __init__(self, emit: Emitter, origin: str = "lldp") -> None:
        self._cables = RowBuffer(CABLES, emit)
        self._interfaces = RowBuffer(INTERFACES, emit)
        self._origin = origin
        self.cables = self.interfaces = 0

    def add(self, heard: Neighbour) -> None:
        """The rows of one neighbour; of the port alone where it has none."""
        local, name, chassis, port, text = (_stated(v) for v in (heard.local, heard.name, heard.chassis, heard.port, heard.port_text))
        uid, port_uid = address(chassis), address(port)
        if name is not None and address(name) is not None:  # a machine without a name is called by its address
            uid, name = uid or address(name), None
        port_name = port
        if (port_uid is not None or (port or "").isdigit()) and text is not None:
            port_name = text
        elif port_uid is not None:
            port_name = None
        a_kind = heard.node_kind or ("switch" if local is not None and _SWITCH_PORT.fullmatch(local) else None)
        b_kind = heard.kind or ("switch" if port_name is not None and _SWITCH_PORT.fullmatch(port_name) else None)
        if local is not None:
            full = _full(local)
            alias = local if full != local else None
            self._interface(heard.line, node=heard.node, node_kind=a_kind, netdev=full, alias=alias, cable=_stated(heard.media))
        if name is None and uid is None and port is None and text is None and chassis is None:
            return
        self.cables += 1
        self._cables.add(
            line=heard.line,
            a_node=heard.node,
            a_kind=a_kind,
            a_port=local,
            b_node=name or (chassis if uid is None else None),
            b_kind=b_kind,
            b_uid=uid,
            b_port=port_name,
            b_port_uid=port_uid,
            origin=self._origin,
        )
        if (port_name or port_uid) and (name or uid):
            other = next((t for t in (text, port) if t not in (None, port_name) and address(t) is None), None)
            netdev = _full(port_name) if port_name is not None else None
            other = other or (port_name if netdev != port_name else None)
            self._interface(heard.line, node=name, node_kind=b_kind, node_uid=uid, netdev=netdev, alias=other, uid=port_uid)

    def _interface(self, line: int, **values: object) -> None:
        self.interfaces += 1
        self._interfaces.add(line=line, origin=self._origin, **values)

    def flush(self) -> None:
        """Emits what is held."""
        self._cables.flush()
        self._interfaces.flush()


def kind_by_capabilities(enabled: set[str]) -> Kind | None:
    """What a machine is by the capabilities that it has enabled: Bridge or Router, Station."""
    low = {c.strip().lower() for c in enabled}
    if low & {"b", "bridge"}:
        return "switch"
    return "host" if low & {"s", "station", "stationonly"} and not low & {"r", "router"} else None


def _stated(value: str | None) -> str | None:
    text = (value or "").strip().strip('"').strip()
    return None if text.lower() in _ABSENT else text[:_LONGEST]


def _full(port: str) -> str:
    """Long form of a port's name: Eth1/1 is Ethernet1/1."""
    return _SHORT.sub("Ethernet", port, count=1) if _SHORT.match(port) else port
