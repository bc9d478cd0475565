"""Names of UFM's telemetry and what they mean. Units that stand in them are not to be trusted."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.perfquery_names import error_rate_meaning, port_meaning

__all__ = ["is_label", "ufm_meaning"]

_LABELS = frozenset(
    {
        *("timestamp", "source_id", "tag", "node_guid", "port_guid", "port_num", "port_number", "aport", "sys_image_guid", "plane", "lid"),
        *("node_description", "node_desc", "node_name", "device_name", "port_label", "port_id", "device_id", "link_partner", "fw_version"),
        *("serial_number", "cable_sn", "cable_pn", "vendor_name", "part_number", "type", "hostname", "peer_node_guid", "peer_port_guid", "peer_port_num"),
    }
)
"""What a record says of whose numbers it holds, in lower case."""
_DRESSED = re.compile(r"(?:Infiniband_)?(?P<core>\w+?)_(?P<level>f_)?u_(?P<unit>[A-Za-z]+)")
_LIKE = {
    "MBOut": "PortXmitDataExtended",
    "MBIn": "PortRcvDataExtended",
    "PckOut": "PortXmitPktsExtended",
    "PckIn": "PortRcvPktsExtended",
    "SymbolErrors": "SymbolErrorCounter",
    "Symbol_Errors": "SymbolErrorCounter",
    "LinkRecovers": "LinkErrorRecoveryCounter",
    "Link_Down": "LinkDownedCounter",
    "XmitWait": "PortXmitWait",
    "ExcBufOverrunErrors": "ExcessiveBufferOverrunErrors",
}
_LEVELS = re.compile(
    r"ber|temperature|temp|voltage|power|bias|percent|normalized|bw|bandwidth|state|status|speed|width|fec_mode|id|version|coef|magnitude", re.IGNORECASE
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+")
_UNITS = {"percent": "percent", "gbps": None, "ticks": "tick", "packets": "packet"}


@cache
def is_label(name: str) -> bool:
    """Whether a name is no counter's."""
    return name.lower() in _LABELS


@cache
def ufm_meaning(name: str) -> Meaning:
    """The meaning of a counter. Data counters are given in words; whether they are is for the packets beside them to say."""
    dressed = _DRESSED.fullmatch(name)
    core = dressed["core"] if dressed is not None else name
    if core in _LIKE or not (dressed is not None and dressed["level"]):
        known = port_meaning(_LIKE.get(core, core), extended=True)
        if not known.counter.startswith("vendor."):
            return known
        if known.unit is not None:
            return replace(known, counter=f"vendor.{name}")
    low = core.lower()
    if (rate := re.search(r"(?:^|_)(raw|effective|symbol)_?ber(?:_|$)", low)) is not None:
        return error_rate_meaning(name, corrected=rate[1] != "raw")
    if low in ("module_temperature", "cable_temperature"):
        return Meaning("module_temperature", width=0)
    words = {w.lower() for w in _WORDS.findall(core)}
    level = (dressed is not None and dressed["level"] is not None) or any(_LEVELS.fullmatch(w) for w in words)
    unit = _UNITS.get(dressed["unit"].lower()) if dressed is not None else None
    return Meaning(f"vendor.{name}", width=0, kind="gauge" if level else "counter", unit=unit)
