"""What SONiC's counters mean: names of the switch abstraction interface (SAI) in its databases, and headings of its commands.

Names and headings: sonic-utilities (portstat, pfcstat, queuestat, watermarkstat), opencomputeproject/SAI (saiport.h, saiqueue.h).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from tracelab.tables import CounterKind
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.switch_values import vendor

__all__ = ["CLI_COLUMNS", "CLI_DETAILS", "CLI_TITLES", "cli_meaning", "db_meaning", "direction_in"]

_NAMED = {
    "IF_IN_OCTETS": Meaning("bytes", "rx"),
    "IF_OUT_OCTETS": Meaning("bytes", "tx"),
    "IF_IN_ERRORS": Meaning("errors", "rx"),
    "IF_OUT_ERRORS": Meaning("errors", "tx"),
    "IF_IN_DISCARDS": Meaning("discards", "rx"),
    "IF_OUT_DISCARDS": Meaning("discards", "tx"),
    "PAUSE_RX_PKTS": Meaning("global_pause_frames", "rx"),
    "PAUSE_TX_PKTS": Meaning("global_pause_frames", "tx"),
    "ECN_MARKED_PACKETS": Meaning("ecn_marked_packets", "tx"),
    "WRED_DROPPED_PACKETS": Meaning("wred_drop_packets", "tx"),
    "ETHER_STATS_CRC_ALIGN_ERRORS": Meaning("crc_errors", "rx"),
    "IF_IN_FEC_CORRECTABLE_FRAMES": Meaning("fec_corrected", "rx"),
    "IF_IN_FEC_NOT_CORRECTABLE_FRAMES": Meaning("fec_uncorrectable", "rx"),
}
_PORT = {f"SAI_PORT_STAT_{name}": meaning for name, meaning in _NAMED.items()}
_PORT_RATES = {
    "RX_BPS": Meaning("bytes_per_s", "rx", width=0),
    "TX_BPS": Meaning("bytes_per_s", "tx", width=0),
    "RX_PPS": Meaning("packets_per_s", "rx", width=0),
    "TX_PPS": Meaning("packets_per_s", "tx", width=0),
    "RX_UTIL": Meaning("utilisation", "rx", width=0),
    "TX_UTIL": Meaning("utilisation", "tx", width=0),
    "FEC_PRE_BER": Meaning("bit_error_rate", "rx", width=0),
}
_QUEUE = {
    "SAI_QUEUE_STAT_PACKETS": Meaning("queue_packets", "tx"),
    "SAI_QUEUE_STAT_BYTES": Meaning("queue_bytes", "tx"),
    "SAI_QUEUE_STAT_DROPPED_PACKETS": Meaning("queue_drop_packets", "tx"),
    "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": Meaning("ecn_marked_packets", "tx"),
    "SAI_QUEUE_STAT_WRED_DROPPED_PACKETS": Meaning("wred_drop_packets", "tx"),
    "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": Meaning("queue_watermark_bytes", "tx", width=0),
    "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES": Meaning("queue_depth_bytes", "tx", width=0),
    "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED": Meaning("pfc_storm_events", "rx"),
}
_GROUP = {
    "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS": Meaning("pg_drop_packets", "rx"),
    "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES": Meaning("pg_shared_watermark_bytes", "rx", width=0),
    "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES": Meaning("pg_headroom_watermark_bytes", "rx", width=0),
}
_POOL = {"SAI_BUFFER_POOL_STAT_WATERMARK_BYTES": Meaning("pool_watermark_bytes", width=0)}
_OF_KIND = {"port": _PORT, "queue": _QUEUE, "group": _GROUP, "pool": _POOL}
_PFC = re.compile(r"(?:SAI|EST)_PORT_STAT_PFC_([0-7])_(?:(ON2OFF)_)?(RX|TX)_(PKTS|PAUSE_DURATION_US)")
_GAUGE = re.compile(r"WATERMARK|OCCUPANCY|_LEVEL$|RECENT_PAUSE|^crm_|^PFC_WD_(?:STATUS|\w*_TIME)|_last$")
_RX = re.compile(r"(?:^|_)(?:IN|RX|INGRESS)(?:_|$)", re.IGNORECASE)
_TX = re.compile(r"(?:^|_)(?:OUT|TX|EGRESS|QUEUE)(?:_|$)", re.IGNORECASE)
_WATERMARKS = ("USER_WATERMARKS", "PERSISTENT_WATERMARKS", "PERIODIC_WATERMARKS")


def direction_in(name: str) -> Literal["tx", "rx"] | None:
    """The direction that the words of a name state."""
    if _RX.search(name):
        return "rx"
    return "tx" if _TX.search(name) else None


def _unit_in(name: str) -> str | None:
    upper = name.upper()
    if "PKTS" in upper or "PACKETS" in upper or upper.endswith("_PPS"):
        return "packet/s" if upper.endswith("_PPS") else "packet"
    if "OCTETS" in upper or "BYTES" in upper:
        return "byte"
    if upper.endswith("_BPS"):
        return "byte/s"
    if upper.endswith("_US"):
        return "us"
    return "ratio" if "BER" in upper or "_FLR" in upper else None


@lru_cache(maxsize=65_536)
def db_meaning(table: str, kind: str, name: str) -> Meaning:
    """Meaning of field `name` of an object of `kind` (port, queue, group, pool or another word) in `table` of a database.

    Watermarks outside COUNTERS have other moments of clearing (a user's, none, the telemetry's), so that they keep names of their own.
    """
    if table in _WATERMARKS:
        return vendor(f"{table}.{name}", direction_in(name), "byte" if name.endswith("_BYTES") else None, "gauge")
    if table == "RATES":
        known = _PORT_RATES.get(name) if kind == "port" else None
        return known or vendor(name, direction_in(name), _unit_in(name), "gauge")
    if table == "COUNTERS":
        known = _OF_KIND.get(kind, {}).get(name)
        pfc = _PFC.fullmatch(name) if kind == "port" else None
        if pfc is not None:
            known = _pfc_meaning(pfc)
        if known is not None:
            return known
    gauge: CounterKind = "gauge" if _GAUGE.search(name) or table not in ("COUNTERS", "CRM") else "counter"
    return vendor(name, direction_in(name), _unit_in(name), gauge)


def _pfc_meaning(m: re.Match[str]) -> Meaning | None:
    direction: Literal["tx", "rx"] = "rx" if m[3] == "RX" else "tx"
    if m[4] == "PAUSE_DURATION_US":
        return None if m[2] else Meaning("pfc_pause_us", direction, priority=int(m[1]))
    return Meaning("pfc_transitions" if m[2] else "pfc_pause_frames", direction, priority=int(m[1]))


CLI_COLUMNS: dict[str, Meaning] = {
    "RX_OK": Meaning("packets", "rx"),
    "TX_OK": Meaning("packets", "tx"),
    "RX_ERR": Meaning("errors", "rx"),
    "TX_ERR": Meaning("errors", "tx"),
    "RX_DRP": Meaning("discards", "rx"),
    "TX_DRP": Meaning("discards", "tx"),
    "RX_OVR": vendor("RX_OVR", "rx", "packet"),
    "TX_OVR": vendor("TX_OVR", "tx", "packet"),
    **_PORT_RATES,
    "TRIM": vendor("TRIM", None, "packet"),
    "TRIM_TX": vendor("TRIM_TX", None, "packet"),
    "TRIM_DRP": vendor("TRIM_DRP", None, "packet"),
    "TRIM_PKTS": vendor("TRIM_PKTS", None, "packet"),
    "TRIM_TX_PKTS": vendor("TRIM_TX_PKTS", None, "packet"),
    "TRIM_DRP_PKTS": vendor("TRIM_DRP_PKTS", None, "packet"),
    "FEC_CORR": Meaning("fec_corrected", "rx"),
    "FEC_UNCORR": Meaning("fec_uncorrectable", "rx"),
    "FEC_SYMBOL_ERR": vendor("FEC_SYMBOL_ERR", "rx", "event"),
    "FEC_POST_BER": vendor("FEC_POST_BER", "rx", "ratio", "gauge"),
    "FEC_PRE_BER_MAX": vendor("FEC_PRE_BER_MAX", "rx", "ratio", "gauge"),
    "FLR(O)": vendor("FLR(O)", "rx", "ratio", "gauge"),
    "FLR(P) (Accuracy)": vendor("FLR(P) (Accuracy)", "rx", "ratio", "gauge"),
    "FEC_MAX_T": vendor("FEC_MAX_T", "rx", None, "gauge"),
    "Counter/pkts": Meaning("queue_packets", "tx"),
    "Counter/bytes": Meaning("queue_bytes", "tx"),
    "Drop/pkts": Meaning("queue_drop_packets", "tx"),
    "Drop/bytes": vendor("Drop/bytes", "tx", "byte"),
    "Credit-WD-Del/pkts": vendor("Credit-WD-Del/pkts", "tx", "packet"),
    "Trim/pkts": vendor("Trim/pkts", "tx", "packet"),
    "TrimSent/pkts": vendor("TrimSent/pkts", "tx", "packet"),
    "TrimDrop/pkts": vendor("TrimDrop/pkts", "tx", "packet"),
    "WredDrp/pkts": Meaning("wred_drop_packets", "tx"),
    "WredDrp/bytes": vendor("WredDrp/bytes", "tx", "byte"),
    "EcnMarked/pkts": Meaning("ecn_marked_packets", "tx"),
    "EcnMarked/bytes": vendor("EcnMarked/bytes", "tx", "byte"),
    "RX Pause Transitions": Meaning("pfc_transitions", "rx"),
    "Total RX Pause Time US": Meaning("pfc_pause_us", "rx"),
    "Total RX Pause Time MS": Meaning("pfc_pause_us", "rx", scale=1000),
    "Recent RX Pause Time US": vendor("Recent RX Pause Time US", "rx", "us", "gauge"),
    "Recent RX Pause Time MS": vendor("Recent RX Pause Time MS", "rx", None, "gauge"),
    "STORM DETECTED": Meaning("pfc_storm_events", "rx"),
    "totalpacket": Meaning("queue_packets", "tx"),
    "totalbytes": Meaning("queue_bytes", "tx"),
    "droppacket": Meaning("queue_drop_packets", "tx"),
    "dropbytes": vendor("dropbytes", "tx", "byte"),
    "creditWDPkts": vendor("creditWDPkts", "tx", "packet"),
    "trimpacket": vendor("trimpacket", "tx", "packet"),
    "trimsentpacket": vendor("trimsentpacket", "tx", "packet"),
    "trimdroppacket": vendor("trimdroppacket", "tx", "packet"),
    "wreddroppacket": Meaning("wred_drop_packets", "tx"),
    "wreddropbytes": vendor("wreddropbytes", "tx", "byte"),
    "ecnmarkedpacket": Meaning("ecn_marked_packets", "tx"),
    "ecnmarkedbytes": vendor("ecnmarkedbytes", "tx", "byte"),
    "wredDrppacket": Meaning("wred_drop_packets", "tx"),
    "wredDrpbytes": vendor("wredDrpbytes", "tx", "byte"),
    "ecnpacket": Meaning("ecn_marked_packets", "tx"),
    "ecnbytes": vendor("ecnbytes", "tx", "byte"),
}
"""Headings of tables and keys of JSON forms. RX_OVR and TX_OVR are oversized packets, no overruns."""

CLI_DETAILS: dict[str, Meaning] = {
    "Total Packets Received Without Errors": Meaning("packets", "rx"),
    "Total Packets Transmitted Successfully": Meaning("packets", "tx"),
    "WRED Total Dropped Packets": Meaning("wred_drop_packets", "tx"),
}
"""Labels of `show interfaces counters detailed`; the others are vendor counters."""

CLI_TITLES: dict[str, Meaning] = {
    "Ingress PG dropped packets": Meaning("pg_drop_packets", "rx"),
    "Ingress headroom per PG": Meaning("pg_headroom_watermark_bytes", "rx", width=0),
    "Ingress shared pool occupancy per PG": Meaning("pg_shared_watermark_bytes", "rx", width=0),
    "Egress shared pool occupancy per unicast queue": Meaning("queue_watermark_bytes", "tx", width=0),
    "Egress shared pool occupancy per multicast queue": Meaning("queue_watermark_bytes", "tx", width=0),
    "Egress shared pool occupancy per all queues": Meaning("queue_watermark_bytes", "tx", width=0),
    "Shared pool maximum occupancy": Meaning("pool_watermark_bytes", width=0),
    "Headroom pool maximum occupancy": vendor("Headroom pool maximum occupancy", None, "byte", "gauge"),
}
"""Titles of tables whose columns are queues, priority groups or pools."""


def cli_meaning(heading: str) -> Meaning:
    """Meaning of a heading of a table or a key of a JSON form."""
    return CLI_COLUMNS.get(heading) or vendor(heading, direction_in(heading.replace(" ", "_")), _unit_in(heading))
