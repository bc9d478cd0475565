"""Interfaces of a host as iproute2 lists them in JSON: statistics of the kernel, addresses, counters of RDMA devices."""

from __future__ import annotations

from typing import Any, Literal

from tracelab_parsers.counters.names_ethernet import netdev_meaning
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.switch_reading import JsonReading
from tracelab_parsers.counters.switch_values import address
from tracelab_parsers.counters.writing import Subject
from tracelab_parsers.nccl_json.values import mapping, text, whole

__all__ = ["Reading"]

_FACTS = frozenset({"ifindex", "ifname", "port", "link", "dev", "flags", "qdisc", "group", "txqlen", "mode"})
_MOST_ADDRESSES = 32
_WAYS: tuple[tuple[str, Literal["rx", "tx"]], ...] = (("rx", "rx"), ("tx", "tx"))


class Reading(JsonReading):
    """Reads outputs of `ip` and `rdma`."""

    _device: tuple[str, int | None] = ("netdev", None)

    def body(self, value: dict[str, Any]) -> bool:
        """See `JsonReading.body`."""
        name = text(value.get("ifname"))
        if name is None:
            return False
        self.records += 1
        if "stats64" in value or "stats" in value or "operstate" in value or "addr_info" in value:
            self._link(name, value)
            return True
        port = whole(value.get("port"))
        if port is None:
            return False
        self._device = ("rdma", port)
        for counter, number in value.items():
            if counter not in _FACTS:
                self.number(name, counter, infiniband_meaning(counter), number)
        return True

    def _link(self, name: str, value: dict[str, Any]) -> None:
        self._device = ("netdev", None)
        stats = mapping(value.get("stats64")) or mapping(value.get("stats"))
        for key, way in _WAYS:
            for counter, number in mapping(stats.get(key)).items():
                self.number(name, f"{key}_{counter}", netdev_meaning(way, counter), number)
        state = text(value.get("operstate"))
        found = [text(mapping(a).get("local")) for a in value.get("addr_info") or [] if isinstance(a, dict)]
        names = [a for a in value.get("altnames") or [] if isinstance(a, str)]
        self.interface(
            netdev=name,
            alias=names[0] if names else None,
            uid=address(value.get("address")) if value.get("link_type") == "ether" else None,
            address=" ".join(a for a in found[:_MOST_ADDRESSES] if a) or None,
            mtu=whole(value.get("mtu"), 31),
            bond=text(value.get("master")),
            up={"UP": True, "DOWN": False}.get(state or ""),
        )

    def _subject(self, device: str) -> Subject:
        kind, port = self._device
        return Subject("rdma" if kind == "rdma" else "netdev", device, node=self.node, node_kind="host", port=port)

    def interface(self, **values: object) -> None:
        """A row of interfaces."""
        self._counts["interfaces"] += 1
        self._interfaces.add(line=self.records, node=self.node, node_kind="host", origin="ip", **values)
