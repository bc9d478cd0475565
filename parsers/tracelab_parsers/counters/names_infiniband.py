"""Names of InfiniBand and RoCE counters: sysfs, `rdma statistic`, perfquery and its kin, exporters of them.

A name is compared without case, underscores and what an exporter puts around it, so that `port_xmit_data`, `PortXmitData`
and `node_infiniband_port_data_transmitted_bytes_total` meet. Widths are those of the management datagram (libibmad's
fields.c): narrow ones stay at their highest value. The kernel serves most of them from the extended set, in 64 bits.
"""

from __future__ import annotations

import re
from functools import cache

from tracelab_parsers.counters.meanings import Meaning, meaning_of_unknown

__all__ = ["infiniband_meaning"]

_WORDS = 4.0
"""Data counters count words of four octets (Linux, Documentation/ABI/stable/sysfs-class-infiniband)."""


def _legacy(counter: str, width: int, direction: str | None = None, unit: str | None = None) -> Meaning:
    return Meaning(counter, "tx" if direction == "tx" else "rx" if direction == "rx" else None, width=width, saturates=True, unit=unit)


_PORT: dict[str, Meaning] = {
    "portxmitdata": Meaning("bytes", "tx", _WORDS),
    "portrcvdata": Meaning("bytes", "rx", _WORDS),
    "portxmitpkts": Meaning("packets", "tx"),
    "portrcvpkts": Meaning("packets", "rx"),
    "portunicastxmitpkts": Meaning("vendor.unicast_packets", "tx", unit="packet"),
    "portunicastrcvpkts": Meaning("vendor.unicast_packets", "rx", unit="packet"),
    "portmulticastxmitpkts": Meaning("vendor.multicast_packets", "tx", unit="packet"),
    "portmulticastrcvpkts": Meaning("vendor.multicast_packets", "rx", unit="packet"),
    "portxmitwait": Meaning("xmit_wait_ticks", "tx"),
    "portxmitdiscards": _legacy("discards", 16, "tx"),
    "portrcverrors": _legacy("rcv_errors", 16, "rx"),
    "portrcvremotephysicalerrors": _legacy("rcv_remote_physical_errors", 16, "rx"),
    "portrcvswitchrelayerrors": _legacy("vendor.rcv_switch_relay_errors", 16, "rx", "packet"),
    "portxmitconstrainterrors": _legacy("vendor.xmit_constraint_errors", 8, "tx", "packet"),
    "portrcvconstrainterrors": _legacy("vendor.rcv_constraint_errors", 8, "rx", "packet"),
    "symbolerror": _legacy("symbol_errors", 16, "rx"),
    "linkerrorrecovery": _legacy("link_recovery", 8),
    "linkdowned": _legacy("link_down_events", 8),
    "locallinkintegrityerrors": _legacy("local_link_integrity", 4, "rx"),
    "excessivebufferoverrunerrors": _legacy("buffer_overrun", 4, "rx"),
    "vl15dropped": _legacy("vendor.vl15_dropped", 16, None, "packet"),
    "qp1dropped": _legacy("vendor.qp1_dropped", 16, None, "packet"),
}
_SAME = {
    "excessivebufferoverruns": "excessivebufferoverrunerrors",
    "excbufferoverrunerrors": "excessivebufferoverrunerrors",
    "portbufferoverrunerrors": "excessivebufferoverrunerrors",
    "linkintegrityerrors": "locallinkintegrityerrors",
    "locallinkintegrity": "locallinkintegrityerrors",
    "rcverrors": "portrcverrors",
    "rcvremotephyserrors": "portrcvremotephysicalerrors",
    "rcvswrelayerrors": "portrcvswitchrelayerrors",
    "xmtdiscards": "portxmitdiscards",
    "xmtconstrainterrors": "portxmitconstrainterrors",
    "rcvconstrainterrors": "portrcvconstrainterrors",
    "xmtdata": "portxmitdata",
    "rcvdata": "portrcvdata",
    "xmtpkts": "portxmitpkts",
    "rcvpkts": "portrcvpkts",
    "xmtwait": "portxmitwait",
    "linkrecovers": "linkerrorrecovery",
    "linkdown": "linkdowned",
    "portxmitpackets": "portxmitpkts",
    "portrcvpackets": "portrcvpkts",
    "unicastxmitpackets": "portunicastxmitpkts",
    "unicastrcvpackets": "portunicastrcvpkts",
    "multicastxmitpackets": "portmulticastxmitpkts",
    "multicastrcvpackets": "portmulticastrcvpkts",
}
_TRANSPORT: dict[str, Meaning] = {
    "out_of_sequence": Meaning("out_of_sequence", "rx"),
    "out_of_buffer": Meaning("rx_no_buffer", "rx"),
    "packet_seq_err": Meaning("packet_seq_err", "tx"),
    "seq_err_naks_rcvd": Meaning("packet_seq_err", "tx"),
    "implied_nak_seq_err": Meaning("vendor.implied_nak_seq_err", "tx", unit="event"),
    "local_ack_timeout_err": Meaning("ack_timeout", "tx"),
    "rnr_nak_retry_err": Meaning("rnr_nak", "tx"),
    "rnr_naks_rcvd": Meaning("rnr_nak", "tx"),
    "duplicate_request": Meaning("duplicate_request", "rx"),
    "roce_adp_retrans": Meaning("adaptive_retransmits", "tx"),
    "roce_adp_retrans_to": Meaning("retransmit_timeouts", "tx"),
    "to_retransmits": Meaning("retransmit_timeouts", "tx"),
    "roce_slow_restart": Meaning("slow_restarts", "tx"),
    "np_cnp_sent": Meaning("cnp_sent", "tx"),
    "rp_cnp_handled": Meaning("cnp_handled", "rx"),
    "rp_cnp_ignored": Meaning("cnp_ignored", "rx"),
    "np_ecn_marked_roce_packets": Meaning("ecn_marked_packets", "rx"),
    "req_cqe_error": Meaning("cqe_error", "tx"),
    "resp_cqe_error": Meaning("cqe_error", "rx"),
    "tx_bytes": Meaning("bytes", "tx"),
    "rx_bytes": Meaning("bytes", "rx"),
    "tx_pkts": Meaning("packets", "tx"),
    "rx_pkts": Meaning("packets", "rx"),
    "retrans_pkts": Meaning("retransmit_packets", "tx"),
    "retrans_bytes": Meaning("retransmit_bytes", "tx"),
    "retrans_timeout_events": Meaning("retransmit_timeouts", "tx"),
    "rx_drops": Meaning("discards", "rx"),
    "retransSegs": Meaning("retransmit_packets", "tx"),
}


@cache
def infiniband_meaning(raw_name: str) -> Meaning:
    """The meaning of a name as sysfs, `rdma statistic`, perfquery or UFM print it."""
    name = raw_name.strip()
    if name in _TRANSPORT:
        return _TRANSPORT[name]
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    extended = plain.endswith(("extended", "ext"))
    plain = plain.removesuffix("extended").removesuffix("ext").removesuffix("counter")
    found = _PORT.get(_SAME.get(plain, plain))
    if found is None:
        return meaning_of_unknown(name)
    return found if not extended or not found.saturates else Meaning(found.counter, found.direction, found.scale, unit=found.unit)
