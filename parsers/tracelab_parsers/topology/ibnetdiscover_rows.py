"""Interfaces and cables of InfiniBand, from whatever tool states them."""

from __future__ import annotations

from typing import NamedTuple

from tracelab.plugins import Emitter, EventCount
from tracelab.tables import CABLES, INTERFACES
from tracelab_parsers.nccl_json.notices import Notices, NoticeText
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.topology.ibnetdiscover_names import Machine

__all__ = ["FABRIC_TEXTS", "End", "FabricRows"]

FABRIC_TEXTS: dict[str, NoticeText] = {
    "unnamed-machine": NoticeText(
        "info", "machines have no name of their own, or share it with others; they are called by their GUID", "give a node-name map to the tool"
    ),
    "unsplit-name": NoticeText("info", "names of adapters do not tell host and device apart; they were kept whole"),
    "no-links": NoticeText("warning", "the file states no link", "see that the tool could ask the subnet"),
}


class End(NamedTuple):
    """One end of a link. `guid` is the node's, `port_guid` the port's; all ports of a switch share one."""

    machine: Machine
    port: int | None
    guid: str | None = None
    port_guid: str | None = None
    lid: int | None = None

    @property
    def uid(self) -> str | None:
        """The address of the port, where it is the port's alone."""
        return None if self.machine.kind == "switch" else self.port_guid

    @property
    def node_uid(self) -> str | None:
        """The address of the machine, or of the adapter in a host."""
        return self.guid or (self.port_guid if self.machine.kind == "switch" else None)


class FabricRows:
    """Writes interfaces and cables, and counts machines without a name."""

    def __init__(self, emit: Emitter, notices: Notices, origin: str) -> None:
        self._cables = RowBuffer(CABLES, emit)
        self._interfaces = RowBuffer(INTERFACES, emit)
        self._notices = notices
        self._origin = origin
        self._told: set[str | None] = set()
        self.cables = self.interfaces = 0

    def interface(self, line: int, end: End, **values: object) -> None:
        """A port, with what is known of its link."""
        machine = end.machine
        if not machine.named and machine.node not in self._told:
            self._told.add(machine.node)
            self._notices.add("unnamed-machine")
        if machine.kind == "host" and machine.device is None and machine.named and machine.node not in self._told:
            self._told.add(machine.node)
            self._notices.add("unsplit-name")
        self.interfaces += 1
        self._interfaces.add(
            line=line,
            node=machine.node,
            node_kind=machine.kind,
            node_uid=end.node_uid,
            device=machine.device,
            port=end.port,
            uid=end.uid,
            lid=end.lid,
            link_layer="InfiniBand",
            origin=self._origin,
            **values,
        )

    def cable(self, line: int, a: End, b: End, speed_bps: int | None = None, lanes: int | None = None, *, up: bool | None = None) -> None:
        """A link from `a`, which the statement is about, to `b`."""
        self.cables += 1
        self._cables.add(line=line, speed_bps=speed_bps, lanes=lanes, up=up, origin=self._origin, **_side("a", a), **_side("b", b))

    def flush(self) -> list[EventCount]:
        """Emits what is held; the counts of rows."""
        self._cables.flush()
        self._interfaces.flush()
        return [EventCount(kind, n, stored=True) for kind, n in (("cables", self.cables), ("interfaces", self.interfaces)) if n]


def _side(side: str, end: End) -> dict[str, object]:
    return {
        f"{side}_node": end.machine.node,
        f"{side}_kind": end.machine.kind,
        f"{side}_uid": end.node_uid,
        f"{side}_device": end.machine.device,
        f"{side}_port": None if end.port is None else str(end.port),
        f"{side}_port_uid": end.uid,
    }
