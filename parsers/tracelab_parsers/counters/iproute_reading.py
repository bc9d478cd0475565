"""Interfaces of a host as iproute2 lists them in JSON: statistics of the kernel, addresses, counters of RDMA devices."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal

from tracelab.plugins import Emitter, SourceFile, SourceInfo
from tracelab_parsers.counters.headings import Heading, heading_of
from tracelab_parsers.counters.names_ethernet import netdev_meaning
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.switch_reading import JsonReading
from tracelab_parsers.counters.switch_transcript import Context
from tracelab_parsers.counters.switch_values import address
from tracelab_parsers.counters.writing import Subject
from tracelab_parsers.nccl_json.values import mapping, text, whole

__all__ = ["Reading"]

_FACTS = frozenset({"ifindex", "ifname", "port", "link", "dev", "flags", "qdisc", "group", "txqlen", "mode"})
_MOST_ADDRESSES = 32
_WAYS: tuple[tuple[str, Literal["rx", "tx"]], ...] = (("rx", "rx"), ("tx", "tx"))
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_OF_PAIRS = frozenset({"lqpn", "cntn"})
"""Counters of single queue pairs, which those of the port hold already."""
_MOST_INTERFACES = 100_000


class Reading(JsonReading):
    """Reads outputs of `ip` and `rdma`."""

    _device: tuple[str, int | None] = ("netdev", None)
    _heading: tuple[Heading, Context] | None = None

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        super().__init__(source, emit)
        self._listed: dict[tuple[tuple[str, object], ...], int] = {}

    def heading(self, text: str) -> bool:
        """See `JsonReading.heading`."""
        found = heading_of(text)
        if found is not None:
            self._heading = found, self.context
        return found is not None

    def body(self, value: dict[str, Any]) -> bool:
        """See `JsonReading.body`."""
        name = text(value.get("ifname"))
        if name is None:
            return not value  # `ip -j addr` leaves an empty object for each interface that it was not asked for
        self._take_heading()
        self.records += 1
        if "stats64" in value or "stats" in value or "operstate" in value or "addr_info" in value:
            self._link(name, value)
            return True
        port = whole(value.get("port"), 32)
        if port is None or _OF_PAIRS & value.keys():
            return False
        self._device = ("rdma", port)
        if "state" in value:
            self._rdma_link(name, port, value)
            return True
        for counter, number in value.items():
            if counter not in _FACTS:
                self.number(name, counter, infiniband_meaning(counter), number)
        return True

    def _take_heading(self) -> None:
        """What the last heading says holds until a prompt or a date says something else."""
        if self._heading is None:
            return
        heading, before = self._heading
        if self.context != before and self.context.ts_ns != heading.ts_ns:
            self._heading = None
            return
        self.node = heading.node or self.node
        if heading.ts_ns is not None:
            self.context = Context(self.node, self.context.command, heading.ts_ns, heading.quality)

    def _link(self, name: str, value: dict[str, Any]) -> None:
        self._device = ("netdev", None)
        stats = mapping(value.get("stats64")) or mapping(value.get("stats"))
        for key, way in _WAYS:
            for counter, number in mapping(stats.get(key)).items():
                self.number(name, f"{key}_{counter}", netdev_meaning(way, counter), number)
        state = text(value.get("operstate"))
        found = [text(mapping(a).get("local")) for a in _items(value, "addr_info")]
        names = [a for a in _items(value, "altnames") if isinstance(a, str)]
        pci = text(value.get("parentdev")) or ""
        own = value.get("permaddr") or value.get("address")
        self.interface(
            netdev=name,
            alias=names[0] if names else None,
            uid=address(own) if value.get("link_type") == "ether" else None,
            pci=pci if _PCI.fullmatch(pci) else None,
            address=" ".join(a for a in found[:_MOST_ADDRESSES] if a) or None,
            mtu=whole(value.get("mtu"), 31),
            bond=text(value.get("master")),
            up={"UP": True, "DOWN": False}.get(state or ""),
            origin="ip",
        )

    def _rdma_link(self, name: str, port: int, value: dict[str, Any]) -> None:
        lid = whole(value.get("lid"), 31)
        up = {"ACTIVE": True, "DOWN": False}.get(text(value.get("state")) or "")
        self.interface(device=name, port=port, netdev=text(value.get("netdev")), lid=lid or None, up=up, origin="rdma")

    def _subject(self, device: str) -> Subject:
        kind, port = self._device
        return Subject("rdma" if kind == "rdma" else "netdev", device, node=self.node, node_kind="host", port=port)

    def interface(self, **values: object) -> None:
        """A row of interfaces, once however often it is listed."""
        row = (("node", self.node), *values.items())
        if len(self._listed) < _MOST_INTERFACES:
            self._listed.setdefault(row, self.records)

    def _finish(self, *, torn: bool) -> SourceInfo:
        """Bonds, bridges and virtual networks repeat the address of what lies below them, which alone keeps it."""
        rows = [(dict(row), line) for row, line in self._listed.items()]
        owners = Counter((node, uid) for node, uid, _ in {(r["node"], r.get("uid"), r.get("netdev")) for r, _ in rows})
        for row, line in rows:
            if owners[row["node"], row.get("uid")] > 1 and row.get("pci") is None:
                row["uid"] = None
            self._counts["interfaces"] += 1
            self._interfaces.add(line=line, node_kind="host", **row)
        return super()._finish(torn=torn)


def _items(value: dict[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []
