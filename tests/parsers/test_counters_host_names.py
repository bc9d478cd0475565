"""What the names of adapters' counters mean, by the drivers' own documentation, and what no two names of one output may share."""

from __future__ import annotations

import pytest

from tracelab_parsers.counters.names_ethernet import ethtool_meaning, is_of_port
from tracelab_parsers.counters.names_infiniband import infiniband_meaning


@pytest.mark.parametrize(
    ("name", "counter", "direction", "priority", "queue"),
    [
        ("tx_packets_phy", "packets", "tx", None, None),
        ("rx_discards_phy", "discards", "rx", None, None),
        ("rx_prio0_discards", "pg_drop_packets", "rx", 0, None),
        ("rx_prio0_cong_discard", "vendor.rx_prio0_cong_discard", "rx", 0, None),
        ("tx_global_pause_duration", "global_pause_us", "tx", None, None),
        ("tx_pause_storm_error_events", "pfc_storm_events", "tx", None, None),
        ("rx_corrected_bits_phy", "fec_corrected", "rx", None, None),
        ("rx_vport_unicast_bytes", "vendor.rx_vport_unicast_bytes", "rx", None, None),
        ("rx_pause_prio_3", "pfc_pause_frames", "rx", 3, None),
        ("tx_pause_duration_prio_3", "pfc_pause_us", "tx", 3, None),
        ("rx_prio_5_bytes", "priority_bytes", "rx", 5, None),
        ("tx_bytes_pri3", "priority_bytes", "tx", 3, None),
        ("rx_discard_packets_cos3", "queue_drop_packets", "rx", None, "cos3"),
        ("pfc_pri3_tx_transitions", "pfc_transitions", "tx", 3, None),
        ("rx_fcs_err_frames", "crc_errors", "rx", None, None),
        ("port.rx_bytes", "bytes", "rx", None, None),
        ("tx_bytes.nic", "bytes", "tx", None, None),
        ("port.link_xoff_tx", "global_pause_frames", "tx", None, None),
        ("port.tx_priority_3_xoff", "pfc_pause_frames", "tx", 3, None),
        ("mac_rx_pfc_pri2_pkt_num", "pfc_pause_frames", "rx", 2, None),
        ("rx12_packets", "vendor.rx12_packets", None, None, None),
    ],
)
def test_ethtool(name: str, counter: str, direction: str | None, priority: int | None, queue: str | None) -> None:
    m = ethtool_meaning(name)
    assert (m.counter, m.direction, m.priority, m.queue) == (counter, direction, priority, queue)


@pytest.mark.parametrize(
    ("name", "counter", "direction", "width"),
    [
        ("out_of_sequence", "out_of_sequence", "rx", 32),
        ("local_ack_timeout_err", "ack_timeout", "tx", 32),
        ("rp_cnp_handled", "cnp_handled", "rx", 64),
        ("np_ecn_marked_roce_packets", "ecn_marked_packets", "rx", 64),
        ("rx_write_requests", "vendor.rx_write_requests", "rx", 32),
        ("seq_err_naks_rcvd", "packet_seq_err", "tx", 64),
        ("rx_ecn_marked_pkts", "ecn_marked_packets", "rx", 64),
        ("tx_roce_only_bytes", "rdma_bytes", "tx", 64),
        ("retrans_timeout_events", "retransmit_timeouts", "tx", 64),
        ("rdma_write_recv_bytes", "vendor.rdma_write_recv_bytes", "rx", 64),
        ("rx_drops", "discards", "rx", 64),
        ("cnpSent", "cnp_sent", "tx", 64),
        ("tcpRetransSegs", "retransmit_packets", "tx", 64),
        ("nobody_knows", "vendor.nobody_knows", None, 0),
    ],
)
def test_transport(name: str, counter: str, direction: str | None, width: int) -> None:
    m = infiniband_meaning(name)
    assert (m.counter, m.direction, m.width, m.saturates) == (counter, direction, width, False)


def test_objects_of_bnxt_are_levels() -> None:
    assert infiniband_meaning("active_qps").stated_kind == "gauge"
    assert infiniband_meaning("watermark_mrs").stated_kind == "gauge"
    assert infiniband_meaning("resize_cq_cnt").stated_kind == "counter"


@pytest.mark.parametrize(
    ("sysfs", "datagram", "bits"),
    [
        ("symbol_error", "SymbolErrorCounter", 16),
        ("link_error_recovery", "LinkErrorRecoveryCounter", 8),
        ("link_downed", "LinkDownedCounter", 8),
        ("port_rcv_errors", "PortRcvErrors", 16),
        ("port_rcv_remote_physical_errors", "PortRcvRemotePhysicalErrors", 16),
        ("port_rcv_switch_relay_errors", "PortRcvSwitchRelayErrors", 16),
        ("port_xmit_discards", "PortXmitDiscards", 16),
        ("port_xmit_constraint_errors", "PortXmitConstraintErrors", 8),
        ("port_rcv_constraint_errors", "PortRcvConstraintErrors", 8),
        ("local_link_integrity_errors", "LocalLinkIntegrityErrors", 4),
        ("excessive_buffer_overrun_errors", "ExcessiveBufferOverrunErrors", 4),
        ("VL15_dropped", "VL15Dropped", 16),
    ],
)
def test_narrow_counters_stay_at_their_highest_value(sysfs: str, datagram: str, bits: int) -> None:
    """Widths of PortCounters in the InfiniBand specification, table 247; the extended set has 64 bits."""
    m = infiniband_meaning(sysfs)
    assert (m.width, m.saturates) == (bits, True)
    assert infiniband_meaning(datagram) == m
    wide = infiniband_meaning(f"{datagram}Extended")
    assert (wide.counter, wide.width, wide.saturates) == (m.counter, 64, False)


MLX5 = """rx_packets rx_bytes tx_packets tx_bytes rx_out_of_buffer rx_vport_rdma_unicast_bytes tx_vport_rdma_unicast_bytes rx_vport_unicast_bytes tx_packets_phy
rx_packets_phy rx_crc_errors_phy tx_bytes_phy rx_bytes_phy rx_discards_phy tx_discards_phy tx_errors_phy rx_symbol_err_phy link_down_events_phy
rx_pcs_symbol_err_phy rx_corrected_bits_phy tx_pause_ctrl_phy rx_pause_ctrl_phy tx_global_pause rx_global_pause rx_prio3_discards rx_prio3_buf_discard
rx_prio3_cong_discard rx_prio3_pause rx_prio3_pause_duration rx_prio3_pause_transition tx_prio3_pause rx_prio3_bytes rx_prio0_bytes"""
BNXT = """rx_total_frames rx_bytes tx_bytes rx_pause_frames rx_pfc_ena_frames_pri3 pfc_pri3_rx_duration_us rx_fcs_err_frames rx_bytes_pri3 rx_bytes_cos3
rx_packets_cos3"""
ICE = "rx_bytes rx_bytes.nic rx_priority_3_xoff.nic tx_priority_3_xoff.nic link_xoff_rx.nic rx_dropped.nic rx_dropped rx_crc_errors.nic rx_errors.nic"


@pytest.mark.parametrize("names", [MLX5, BNXT, ICE], ids=["mlx5", "bnxt", "ice"])
def test_no_event_is_counted_twice(names: str) -> None:
    """Two names of one output with one meaning would add up to twice what happened."""
    of_port = any(is_of_port(n) for n in names.split())
    meanings = [ethtool_meaning(n, of_port=of_port) for n in names.split()]
    places = [(m.counter, m.direction, m.priority, m.queue) for m in meanings]
    assert len(set(places)) == len(places)
