"""What the columns of a hand-made wiring table mean, by their headings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

__all__ = ["Columns", "End", "columns_of"]

Side = Literal["a", "b", ""]


class End(NamedTuple):
    """What a column says: of end a, end b or the row itself, and which attribute."""

    side: Side
    role: str


_NAMES: dict[tuple[Side, str], str] = {
    ("a", "node"): "host hostname server servername node nodename computenode computehost machine sysname systemname gpuserver gpunode gpuhost gpuhostname",
    ("a", "address"): "ip ipaddr ipaddress address hostip serverip nodeip gpuip nicip hostaddress",
    ("a", "nic"): "nic nicname hca hcaname device devicename adapter adaptername rdmadevice rdmadev rdma ibdevice ibdev hostnic servernic nicdevice nodenic",
    ("a", "netdev"): "netdev netdevice netdevname interface interfacename iface ifname ethernet hostinterface hostif hostport serverport nicport nodeport"
    " serverinterface nodeinterface localinterface",
    ("a", "mac"): "mac macaddress nicmac hostmac servermac",
    ("a", "guid"): "guid portguid hcaguid nicguid hostguid",
    ("a", "pci"): "pci pciaddress pciaddr busid pcibusid bdf pcibdf",
    ("a", "numa"): "numa numanode",
    ("b", "node"): "switch switchname sw swname leaf leafname leafswitch tor torname torswitch switchhostname switchhost accessswitch leafhostname",
    ("b", "address"): "switchip leafip torip switchaddress swip",
    ("b", "port"): "port portname switchport switchportname swport leafport torport accessport switchinterface switchif portid switchportid leafinterface",
    ("", "speed"): "speed linkspeed portspeed rate linkrate bandwidth",
    ("", "speed-g"): "speedgbps gbps speedg bandwidthgbps speedgbit",
    ("", "speed-m"): "speedmbps mbps speedmbit speedmbs",
    ("", "speed-bit"): "speedbps speedbits",
    ("", "mtu"): "mtu",
    ("", "cable"): "cable cabletype cableid cablelabel optic optics transceiver",
}
_BY_NAME = {name: End(side, role) for (side, role), names in _NAMES.items() for name in names.split()}
_OF_A = frozenset({"a", "local", "source", "src", "from", "1", "near"})
_OF_B = frozenset({"b", "remote", "destination", "dest", "dst", "to", "peer", "neighbor", "neighbour", "2", "far"})
_NODES = frozenset({"", "switch", "node", "device", "host", "hostname", "name", "system", "systemname", "leaf", "spine", "core", "router", "server"})
_MORE_NODES = frozenset({"nodename", "switchname", "devicename", "sw", "end"})
_PORTS = frozenset({"port", "interface", "if", "iface", "intf", "ifname", "portname", "portid", "nic", "switchport", "interfacename"})
_TIERS = {"leaf": 1, "tor": 1, "spine": 2, "core": 3, "superspine": 3}
_TIMES = frozenset({"time", "timestamp", "date", "datetime", "savetime", "savetimeutc", "ts", "epoch", "clock"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass
class Columns:
    """Meanings by position. `form`: host (an adapter and its switch), adapters (what hosts have) or links (two equal ends)."""

    form: Literal["host", "adapters", "links"]
    ends: list[End | None]
    kinds: dict[Side, Literal["host", "switch"]] = field(default_factory=dict)
    tiers: dict[Side, int] = field(default_factory=dict)

    @property
    def unread(self) -> int:
        """Columns that mean nothing to us."""
        return sum(e is None for e in self.ends)


def columns_of(headings: Sequence[str]) -> Columns | None:
    """The columns of a wiring table; None where the headings are those of anything else, such as counters over time."""
    words = [[w.lower() for w in _WORD.findall(h)] for h in headings]
    if len(headings) < 3 or len(headings) > 64 or any(_TIMES & {*w, "".join(w)} for w in words):
        return None
    return _tiers(words) or _links(words) or _hosts(words)


def _links(words: list[list[str]]) -> Columns | None:
    ends: list[End | None] = []
    kinds: dict[Side, Literal["host", "switch"]] = {}
    for parts in words:
        side: Side = "a" if _OF_A & set(parts) else "b" if _OF_B & set(parts) else ""
        rest = "".join(w for w in parts if w not in _OF_A | _OF_B)
        role = "node" if rest in _NODES | _MORE_NODES else "port" if rest in _PORTS else "address" if rest in ("ip", "address", "ipaddress") else None
        row = _BY_NAME.get("".join(parts))
        if side and role is not None and End(side, role) not in ends:
            ends.append(End(side, role))
            if role == "node" and rest in ("switch", "switchname", "leaf", "spine", "sw"):
                kinds[side] = "switch"
        else:
            ends.append(row if row is not None and not row.side else None)
    whole = {End("a", "node"), End("b", "node")} <= set(ends) and {End("a", "port"), End("b", "port")} & set(ends)
    return Columns("links", ends, kinds) if whole else None


def _tiers(words: list[list[str]]) -> Columns | None:
    """Headings such as leaf, leaf_port, spine, spine_port: the lower tier is a."""
    stated = sorted({_TIERS[w] for parts in words for w in parts if w in _TIERS})
    if len(stated) != 2:
        return None
    ends: list[End | None] = []
    for parts in words:
        tier = next((_TIERS[w] for w in parts if w in _TIERS), None)
        rest = "".join(w for w in parts if w not in _TIERS)
        row = _BY_NAME.get("".join(parts))
        role = "node" if rest in ("", "name", "switch", "hostname") else "port" if rest in _PORTS else "address" if rest in ("ip", "address") else None
        if tier is not None and role is not None:
            ends.append(End("a" if tier == stated[0] else "b", role))
        else:
            ends.append(row if row is not None and not row.side else None)
    whole = {End("a", "node"), End("b", "node"), End("a", "port"), End("b", "port")} <= set(ends) and len(set(ends)) - (None in ends) == len(ends) - ends.count(
        None
    )
    return Columns("links", ends, {"a": "switch", "b": "switch"}, {"a": stated[0], "b": stated[1]}) if whole else None


def _hosts(words: list[list[str]]) -> Columns | None:
    ends = [_BY_NAME.get("".join(parts)) or _BY_NAME.get("".join(w for w in parts if not w.isdigit())) for parts in words]
    found = set(ends)
    host = bool({End("a", "node"), End("a", "address")} & found)
    adapter = sum(e in (End("a", "nic"), End("a", "netdev")) for e in ends)
    switch = End("b", "node") in found or End("b", "address") in found
    if host and switch and End("b", "port") in found:
        return Columns("host", ends, {"a": "host", "b": "switch"})
    if host and adapter > 1 and not switch and ends.count(None) == 0 and End("b", "port") not in found:
        return Columns("adapters", ends, {"a": "host"})
    return None
