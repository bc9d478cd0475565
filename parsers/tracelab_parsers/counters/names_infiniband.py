"""Names of InfiniBand and RoCE counters: sysfs, `rdma statistic`, perfquery and its kin, exporters of them.

Names of ports are compared without case and underscores, so that `port_xmit_data`, `PortXmitData` and `XmtData` meet. Widths
are those of the management datagram (libibmad's fields.c): narrow ones stay at their highest value. The kernel serves data
and packets from the extended set, in 64 bits, where the adapter has it. Names of the transport are those of the drivers mlx5,
bnxt_re, irdma and efa (Linux, drivers/infiniband/hw); mlx5 keeps its queue counters in 32 bits (mlx5_ifc.h, query_q_counter).
"""

from __future__ import annotations

import re
from functools import cache

from tracelab_parsers.counters.meanings import Direction, Meaning, meaning_of_unknown

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


def _own(names: str, direction: Direction, unit: str, width: int = 64) -> dict[str, Meaning]:
    """Names that stand for nothing canonical, whose direction and unit are known all the same."""
    return {name: Meaning(f"vendor.{name}", direction, width=width, unit=unit) for name in names.split()}


_MLX5: dict[str, Meaning] = {
    "out_of_sequence": Meaning("out_of_sequence", "rx", width=32),
    "out_of_buffer": Meaning("rx_no_buffer", "rx", width=32),
    "packet_seq_err": Meaning("packet_seq_err", "tx", width=32),
    "local_ack_timeout_err": Meaning("ack_timeout", "tx", width=32),
    "rnr_nak_retry_err": Meaning("rnr_nak", "tx", width=32),
    "duplicate_request": Meaning("duplicate_request", "rx", width=32),
    "roce_adp_retrans": Meaning("adaptive_retransmits", "tx", width=32),
    "roce_adp_retrans_to": Meaning("retransmit_timeouts", "tx", width=32),
    "roce_slow_restart": Meaning("slow_restarts", "tx", width=32),
    "req_cqe_error": Meaning("cqe_error", "tx", width=32),
    "resp_cqe_error": Meaning("cqe_error", "rx", width=32),
    **_own("implied_nak_seq_err req_cqe_flush_error req_remote_access_errors req_remote_invalid_request roce_slow_restart_cnps", "tx", "event", 32),
    **_own("resp_cqe_flush_error resp_local_length_error resp_remote_access_errors roce_slow_restart_trans rx_dct_connect", "rx", "event", 32),
    **_own("rx_write_requests rx_read_requests rx_atomic_requests", "rx", "packet", 32),
    "np_cnp_sent": Meaning("cnp_sent", "tx"),
    "rp_cnp_handled": Meaning("cnp_handled", "rx"),
    "rp_cnp_ignored": Meaning("cnp_ignored", "rx"),
    "np_ecn_marked_roce_packets": Meaning("ecn_marked_packets", "rx"),
    **_own("rx_icrc_encapsulated cc_rx_ce_pkts cc_rx_cnp_pkts", "rx", "packet"),
    **_own("cc_tx_cnp_pkts", "tx", "packet"),
    "rdma_tx_bytes": Meaning("rdma_bytes", "tx"),
    "rdma_rx_bytes": Meaning("rdma_bytes", "rx"),
    "rdma_tx_packets": Meaning("rdma_packets", "tx"),
    "rdma_rx_packets": Meaning("rdma_packets", "rx"),
}
_BNXT_RE: dict[str, Meaning] = {
    "seq_err_naks_rcvd": Meaning("packet_seq_err", "tx"),
    "rnr_naks_rcvd": Meaning("rnr_nak", "tx"),
    "to_retransmits": Meaning("retransmit_timeouts", "tx"),
    "oos_drop_count": Meaning("out_of_sequence", "rx"),
    "rx_out_of_sequence": Meaning("out_of_sequence", "rx"),
    "dup_req": Meaning("duplicate_request", "rx"),
    "rx_out_of_buffer": Meaning("rx_no_buffer", "rx"),
    "tx_cnp_pkts": Meaning("cnp_sent", "tx"),
    "rx_cnp_pkts": Meaning("cnp_handled", "rx"),
    "rx_ecn_marked_pkts": Meaning("ecn_marked_packets", "rx"),
    "tx_roce_discards": Meaning("discards", "tx"),
    "rx_roce_discards": Meaning("discards", "rx"),
    "tx_roce_errors": Meaning("errors", "tx"),
    "rx_roce_errors": Meaning("errors", "rx"),
    "tx_roce_only_bytes": Meaning("rdma_bytes", "tx"),
    "rx_roce_only_bytes": Meaning("rdma_bytes", "rx"),
    "tx_roce_only_pkts": Meaning("rdma_packets", "tx"),
    "rx_roce_only_pkts": Meaning("rdma_packets", "rx"),
    **_own("tx_read_req tx_read_resp tx_write_req tx_send_req tx_atomic_req", "tx", "packet"),
    **_own("rx_read_req rx_read_resp rx_write_req rx_send_req rx_atomic_req rx_roce_good_pkts", "rx", "packet"),
    **_own("rx_roce_good_bytes", "rx", "byte"),
    **_own("max_retry_exceeded missing_resp bad_resp_err unrecoverable_err", "tx", "event"),
}
_EFA: dict[str, Meaning] = {
    "tx_bytes": Meaning("bytes", "tx"),
    "rx_bytes": Meaning("bytes", "rx"),
    "tx_pkts": Meaning("packets", "tx"),
    "rx_pkts": Meaning("packets", "rx"),
    "rx_drops": Meaning("discards", "rx"),
    "retrans_pkts": Meaning("retransmit_packets", "tx"),
    "retrans_bytes": Meaning("retransmit_bytes", "tx"),
    "retrans_timeout_events": Meaning("retransmit_timeouts", "tx"),
    **_own("send_bytes rdma_read_resp_bytes rdma_write_bytes", "tx", "byte"),
    **_own("recv_bytes rdma_read_bytes rdma_write_recv_bytes", "rx", "byte"),
    **_own("send_wrs rdma_read_wrs rdma_write_wrs rdma_read_wr_err rdma_write_wr_err", "tx", "event"),
    **_own("recv_wrs", "rx", "event"),
    **_own("unresponsive_remote_events impaired_remote_conn_events", "tx", "event"),
}
_IRDMA: dict[str, Meaning] = {
    "cnpSent": Meaning("cnp_sent", "tx"),
    "cnpHandled": Meaning("cnp_handled", "rx"),
    "cnpIgnored": Meaning("cnp_ignored", "rx"),
    "RxECNMrkd": Meaning("ecn_marked_packets", "rx"),
    **dict.fromkeys(("tcpRetransSegs", "RetransSegs", "retransSegs"), Meaning("retransmit_packets", "tx")),
    **_own("ip4InOctets ip6InOctets", "rx", "byte", 48),
    **_own("ip4OutOctets ip6OutOctets", "tx", "byte", 48),
    **_own("ip4InPkts ip6InPkts ip4InDiscards ip6InDiscards", "rx", "packet", 0),
    **_own("ip4OutPkts ip6OutPkts", "tx", "packet", 0),
}
_TRANSPORT = {**_IRDMA, **_BNXT_RE, **_EFA, **_MLX5}
_LEVELS = re.compile(r"(?:active|watermark)_(?:pds|ahs|qps|rc_qps|ud_qps|srqs|cqs|mrs|mws)|db_fifo_register")
"""What bnxt_re counts of its objects: how many there are, not how many there ever were."""


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
        return meaning_of_unknown(name, kind="gauge" if _LEVELS.fullmatch(name) else "counter")
    return found if not extended or not found.saturates else Meaning(found.counter, found.direction, found.scale, unit=found.unit)
