"""What the fields of Telegraf's plugins count: infiniband, net, ethtool, snmp and nvidia_smi.

Names of adapters' counters are those of the kernel and its drivers; names of snmp are those of IF-MIB (RFC 2863).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from tracelab.tables import CounterKind
from tracelab_parsers.counters.meanings import Direction, Meaning
from tracelab_parsers.counters.names_ethernet import ethtool_meaning, netdev_meaning
from tracelab_parsers.counters.names_infiniband import infiniband_meaning

__all__ = ["Plugin", "field_meaning"]

Plugin = Literal["infiniband", "net", "ethtool", "snmp", "nvidia_smi"]
_MEBI = float(1 << 20)
_LINK_UP = Meaning("link_up", width=0)
_MEGABITS = Meaning("link_speed", scale=1e6, width=0)

_NET: dict[str, tuple[Direction, str]] = {
    "bytes_recv": ("rx", "bytes"),
    "bytes_sent": ("tx", "bytes"),
    "packets_recv": ("rx", "packets"),
    "packets_sent": ("tx", "packets"),
    "err_in": ("rx", "errors"),
    "err_out": ("tx", "errors"),
    "drop_in": ("rx", "dropped"),
    "drop_out": ("tx", "dropped"),
}
_SNMP = {
    "ifHCInOctets": Meaning("bytes", "rx"),
    "ifHCOutOctets": Meaning("bytes", "tx"),
    "ifInOctets": Meaning("vendor.ifInOctets", "rx", width=32, unit="byte"),
    "ifOutOctets": Meaning("vendor.ifOutOctets", "tx", width=32, unit="byte"),
    "ifInErrors": Meaning("errors", "rx", width=32),
    "ifOutErrors": Meaning("errors", "tx", width=32),
    "ifInDiscards": Meaning("discards", "rx", width=32),
    "ifOutDiscards": Meaning("discards", "tx", width=32),
    "ifHighSpeed": _MEGABITS,
    "ifOperStatus": _LINK_UP,
}
"""Octets of 32 bits start again within seconds on fast ports, so that they stand for no bytes."""
_NVIDIA = {
    "temperature_gpu": Meaning("gpu_temperature", width=0),
    "power_draw": Meaning("power", width=0),
    "utilization_gpu": Meaning("gpu_utilisation", width=0),
    "clocks_current_sm": Meaning("sm_clock", scale=1e6, width=0),
    "clocks_current_memory": Meaning("memory_clock", scale=1e6, width=0),
}
_MEMORY = re.compile(r"(?:fb_|bar1_)?memory_(?:free|total|used|reserved)")
_GAUGES = re.compile(r"speed|status|mtu|duplex|autoneg|lifespan|^ifIndex$|^ifLastChange$", re.IGNORECASE)


@lru_cache(maxsize=65_536)
def field_meaning(plugin: Plugin, name: str) -> Meaning:
    """Meaning of field `name` of a plugin."""
    if plugin == "snmp":
        return _SNMP.get(name) or _of_mib(name)
    if plugin == "nvidia_smi":
        return _NVIDIA.get(name) or _of_gpu(name)
    if _GAUGES.search(name):
        return _MEGABITS if name == "speed" else Meaning(f"vendor.{name}", width=0, kind="gauge")
    if plugin == "infiniband":
        return infiniband_meaning(name)
    if plugin == "ethtool":
        return _LINK_UP if name == "interface_up" else ethtool_meaning(name)
    known = _NET.get(name)
    return netdev_meaning(*known) if known is not None else Meaning(f"vendor.{name}")


def _of_mib(name: str) -> Meaning:
    if _GAUGES.search(name) or not name.startswith("if"):
        return Meaning(f"vendor.{name}", width=0, kind="gauge")
    kind: CounterKind = "counter"
    direction: Direction | None = "rx" if name.startswith(("ifIn", "ifHCIn")) else "tx" if name.startswith(("ifOut", "ifHCOut")) else None
    return Meaning(f"vendor.{name}", direction, width=64 if name.startswith("ifHC") else 32, kind=kind, unit="packet" if name.endswith("Pkts") else None)


def _of_gpu(name: str) -> Meaning:
    scale, unit = (_MEBI, "byte") if _MEMORY.fullmatch(name) else (1e6, "hertz") if name.startswith("clocks_current_") else (1.0, None)
    return Meaning(f"vendor.{name}", scale=scale, width=0, kind="gauge", unit=unit)
