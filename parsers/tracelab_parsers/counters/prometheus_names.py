"""What metrics of Prometheus count, by the names that their exporters give them.

node_exporter: collector/infiniband_linux.go, netclass_linux.go, netdev_common.go, ethtool_linux.go; infiniband_exporter (two
projects of that name): collectors/switch.go and hca.go, infiniband-exporter.py; snmp_exporter: IF-MIB (RFC 2863) and
EtherLike-MIB (RFC 3635); sonic-exporter: internal/collector; gnmic and Telegraf: their Prometheus outputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Literal, NamedTuple

from tracelab.tables import CounterKind
from tracelab_parsers.counters.dcgm_names import dcgm_meaning, is_dcgm
from tracelab_parsers.counters.gnmic_meanings import leaf_of
from tracelab_parsers.counters.meanings import Direction, Meaning
from tracelab_parsers.counters.names_ethernet import ethtool_meaning, netdev_meaning
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.telegraf_meanings import Plugin, field_meaning

__all__ = ["OPER_STATES", "Family", "Metric", "is_unrelated", "known_metric", "metric_of"]

Family = Literal["infiniband", "netdev", "dcgm", "fabric", "component", "snmp", "sonic", "gnmic", "telegraf", "other"]
"""Whose labels a metric has: that decides how machine and device are read from them."""


class Metric(NamedTuple):
    """One metric. `states`: what its values stand for where they are codes; `words`: it may count words of four octets under the name of bytes."""

    meaning: Meaning
    family: Family
    states: Mapping[float, float] | None = None
    words: bool = False
    labelled: bool = False


_UNRELATED = re.compile(
    r"(?:go|process|promhttp|python|prometheus|scrape|net_conntrack|apiserver|container|kube|kubelet|machine|cadvisor)_|up$|ALERTS|"
    r"node_(?!infiniband_|network_|ethtool_|net_ethtool$)"
)
_LINK_UP = Meaning("link_up", width=0)
_BYTES_PER_S = Meaning("link_speed", scale=8.0, width=0)
_PORT_STATES = {1.0: 0.0, 2.0: 0.0, 3.0: 0.0, 4.0: 1.0, 5.0: 1.0}
"""States of an InfiniBand port; 4 is active, 5 active with an error pending."""
OPER_STATES = {1.0: 1.0, 2.0: 0.0, 6.0: 0.0, 7.0: 0.0}
"""ifOperStatus of IF-MIB."""
_NODE_INFINIBAND = {
    "port_transmit_wait": "port_xmit_wait",
    "port_packets_received": "port_rcv_packets",
    "port_packets_transmitted": "port_xmit_packets",
    "port_discards_transmitted": "port_xmit_discards",
    "port_errors_received": "port_rcv_errors",
    "port_receive_remote_physical_errors": "port_rcv_remote_physical_errors",
    "port_receive_switch_relay_errors": "port_rcv_switch_relay_errors",
    "port_constraint_errors_received": "port_rcv_constraint_errors",
    "port_constraint_errors_transmitted": "port_xmit_constraint_errors",
    "unicast_packets_received": "unicast_rcv_packets",
    "unicast_packets_transmitted": "unicast_xmit_packets",
    "multicast_packets_received": "multicast_rcv_packets",
    "multicast_packets_transmitted": "multicast_xmit_packets",
    "duplicate_request_packets": "duplicate_request",
    "implied_nak_seq_errors": "implied_nak_seq_err",
    "local_ack_timeout_errors": "local_ack_timeout_err",
    "np_cnp_packets_sent": "np_cnp_sent",
    "np_ecn_marked_roce_packets_received": "np_ecn_marked_roce_packets",
    "out_of_buffer_drops": "out_of_buffer",
    "out_of_sequence_packets_received": "out_of_sequence",
    "packet_sequence_errors": "packet_seq_err",
    "req_cqes_errors": "req_cqe_error",
    "resp_cqes_errors": "resp_cqe_error",
    "rnr_nak_retry_packets_received": "rnr_nak_retry_err",
    "roce_adp_retransmits": "roce_adp_retrans",
    "roce_adp_retransmits_timeout": "roce_adp_retrans_to",
    "roce_slow_restart_used": "roce_slow_restart",
    "rp_cnp_packets_handled": "rp_cnp_handled",
    "rp_cnp_ignored_packets_received": "rp_cnp_ignored",
}
_NODE_NETWORK = {
    "carrier": _LINK_UP,
    "carrier_changes": Meaning("link_transitions"),
    "carrier_down_changes": Meaning("link_down_events"),
    "speed_bytes": _BYTES_PER_S,
}
_NETDEV = {"bytes": "bytes", "packets": "packets", "errs": "errors", "drop": "dropped"}
_SONIC = {
    "interface_transmit_bytes": Meaning("bytes", "tx"),
    "interface_receive_bytes": Meaning("bytes", "rx"),
    "interface_speed_bytes": _BYTES_PER_S,
    "queue_packets": Meaning("queue_packets", "tx"),
    "queue_bytes": Meaning("queue_bytes", "tx"),
    "queue_dropped_packets": Meaning("queue_drop_packets", "tx"),
    "queue_shared_watermark_bytes": Meaning("queue_watermark_bytes", "tx", width=0),
}
_SONIC_ERRORS = {"error": "errors", "discard": "discards", "pause": "global_pause_frames"}
_MIB = {
    "dot3StatsFCSErrors": Meaning("crc_errors", "rx", width=32),
    "dot3HCStatsFCSErrors": Meaning("crc_errors", "rx"),
    "dot3StatsSymbolErrors": Meaning("symbol_errors", "rx", width=32),
    "dot3InPauseFrames": Meaning("global_pause_frames", "rx", width=32),
    "dot3OutPauseFrames": Meaning("global_pause_frames", "tx", width=32),
    "dot3HCInPauseFrames": Meaning("global_pause_frames", "rx"),
    "dot3HCOutPauseFrames": Meaning("global_pause_frames", "tx"),
    "ifSpeed": Meaning("link_speed", width=0),
}
_MIB_LABELS = ("ifIndex", "ifName", "ifDescr", "ifAlias")
_GNMIC = re.compile(r"(?:.*_)?(interfaces_interface_(?:.*_)?state_(?:counters_)?|qos_.*_state_)(\w+)")
_TELEGRAF = re.compile(r"(infiniband|ethtool|net|nvidia_smi)_(\w+)")
_RULE = re.compile(r"(?:[^:]*:)?([^:]+):(?:i?rate|deriv)(?:\d+[smhd])*(?::.*)?")
_RATE_OF = {"bytes": "bytes_per_s", "packets": "packets_per_s"}
_RX = re.compile(r"(?:^|[_:])(?:rx|in|receive[d]?|rcv|ingress|input)(?:[_:]|$)|portrcv", re.IGNORECASE)
_TX = re.compile(r"(?:^|[_:])(?:tx|out|transmit(?:ted)?|xmit|sent|egress|output)(?:[_:]|$)|portxmit", re.IGNORECASE)
_RECEIVED, _TRANSMITTED = re.compile(r"(?<![a-z])received(?![a-z])"), re.compile(r"(?<![a-z])transmitted(?![a-z])")
_INFO = re.compile(r"_info$")


def is_unrelated(name: str) -> bool:
    """Whether a metric speaks of processors, disks, containers or the exporter itself."""
    return _UNRELATED.match(name) is not None


def metric_of(name: str, labels: Mapping[str, str], kind: CounterKind | None = None) -> Metric | None:
    """The metric `name`; None where it counts nothing of a network or GPU. `kind` is what its source states, where it does."""
    if is_unrelated(name) or _INFO.search(name):
        return None
    known = known_metric(name, labels)
    if known is not None:
        return known
    return _rule(name, labels) or Metric(_unknown(name, kind), "other", labelled=True)


def known_metric(name: str, labels: Mapping[str, str]) -> Metric | None:
    """The metric where its exporter is known."""
    if name.startswith("node_"):
        return _of_node(name, labels.get("type"))
    if is_dcgm(name):
        return Metric(dcgm_meaning(name), "dcgm")
    if name.startswith("infiniband_"):
        if name.startswith(("infiniband_switch_", "infiniband_hca_")):
            return _of_fabric(name)
        if "component" in labels and "local_port" in labels:
            return _of_component(name)
    if name.startswith("sonic_"):
        return _of_sonic(name, labels.get("type"))
    if any(label in labels for label in _MIB_LABELS) and name.startswith(("if", "dot3")):
        meaning = _MIB.get(name) or field_meaning("snmp", name)
        return Metric(meaning, "snmp", OPER_STATES if name == "ifOperStatus" else None)
    if "interface_name" in labels and (tree := _GNMIC.fullmatch(name)) is not None:
        return _of_tree(tree[1], tree[2], name)
    if "host" in labels and (plugin := _TELEGRAF.fullmatch(name)) is not None and {"device", "interface", "index"} & set(labels):
        return Metric(field_meaning(_plugin(plugin[1]), plugin[2]), "telegraf")
    return None


def _plugin(name: str) -> Plugin:
    return "infiniband" if name == "infiniband" else "ethtool" if name == "ethtool" else "net" if name == "net" else "nvidia_smi"


@cache
def _of_node(name: str, kind_of_statistic: str | None) -> Metric | None:
    plain = name.removesuffix("_total")
    if name == "node_net_ethtool" and kind_of_statistic:
        return Metric(ethtool_meaning(kind_of_statistic), "netdev", labelled=True)
    if plain.startswith("node_infiniband_"):
        return _of_adapter(name, plain.removeprefix("node_infiniband_"))
    if plain.startswith("node_ethtool_"):
        return Metric(_of_driver(plain.removeprefix("node_ethtool_")), "netdev")
    if not plain.startswith("node_network_"):
        return None
    field = plain.removeprefix("node_network_")
    if field in _NODE_NETWORK:
        return Metric(_NODE_NETWORK[field], "netdev")
    way, _, what = field.partition("_")
    if way in ("receive", "transmit") and name.endswith("_total"):
        return Metric(netdev_meaning("rx" if way == "receive" else "tx", _NETDEV.get(what, what)), "netdev")
    return Metric(_unknown(name, None), "netdev")


def _of_adapter(name: str, field: str) -> Metric:
    """node_exporter multiplies the words of the kernel's data counters by 4 itself."""
    if field in ("port_data_received_bytes", "port_data_transmitted_bytes"):
        return Metric(Meaning("bytes", "rx" if "received" in field else "tx"), "infiniband")
    if field == "port_discards_received":
        return Metric(Meaning("discards", "rx"), "infiniband")
    if field == "rate_bytes_per_second":
        return Metric(_BYTES_PER_S, "infiniband")
    if field == "state_id":
        return Metric(_LINK_UP, "infiniband", _PORT_STATES)
    if field.startswith("legacy_"):
        return Metric(_unknown(name, "counter"), "infiniband")
    found = infiniband_meaning(_NODE_INFINIBAND.get(field, field))
    return Metric(found if not found.counter.startswith("vendor.") or field in _NODE_INFINIBAND else _unknown(name, None), "infiniband")


def _of_driver(field: str) -> Meaning:
    """A statistic of `ethtool -S` that node_exporter renamed: dots became underscores, rx and tx words."""
    plain = _TRANSMITTED.sub("tx", _RECEIVED.sub("rx", field))
    spelled = [plain]
    if plain.startswith("port_"):
        spelled.append(f"port.{plain.removeprefix('port_')}")
    if plain.endswith("_nic"):
        spelled.append(f"{plain.removesuffix('_nic')}.nic")
    meanings = [ethtool_meaning(s) for s in spelled]
    return next((m for m in meanings if not m.counter.startswith("vendor.")), meanings[0])


@cache
def _of_fabric(name: str) -> Metric:
    field = re.sub(r"^infiniband_(?:switch|hca)_", "", name.removesuffix("_total"))
    if field in ("port_transmit_data_bytes", "port_receive_data_bytes"):
        return Metric(Meaning("bytes", "tx" if "transmit" in field else "rx"), "fabric", words=True)
    if field in ("rate_bytes_per_second", "port_rate_bytes_per_second"):
        return Metric(_BYTES_PER_S, "fabric")
    spelled = field.replace("transmit", "xmit").replace("receive", "rcv")
    for candidate in (spelled, spelled.removeprefix("port_")):
        found = infiniband_meaning(candidate)
        if found.counter != f"vendor.{candidate}":
            return Metric(found, "fabric")
    return Metric(_unknown(name, None), "fabric")


@cache
def _of_component(name: str) -> Metric:
    field = name.removeprefix("infiniband_").removesuffix("_total")
    if field == "width":
        return Metric(Meaning("link_width", width=0), "component")
    found = infiniband_meaning(field)
    unknown = found.counter == f"vendor.{field}"
    return Metric(_unknown(name, None) if unknown else found, "component", words=found.counter == "bytes")


@cache
def _of_sonic(name: str, kind_of_error: str | None) -> Metric:
    field = name.removeprefix("sonic_").removesuffix("_total")
    if field in _SONIC:
        return Metric(_SONIC[field], "sonic")
    way = _direction(name)
    if field in ("interface_transmit_errs", "interface_receive_errs") and kind_of_error in _SONIC_ERRORS:
        return Metric(Meaning(_SONIC_ERRORS[kind_of_error], way), "sonic")
    kind: CounterKind = "counter" if field.startswith(("interface_transmit", "interface_receiv")) or field == "queue_dropped_bytes" else "gauge"
    return Metric(_unknown(name, kind), "sonic", labelled=True)


def _of_tree(path: str, leaf: str, name: str) -> Metric:
    """A path of OpenConfig, whose separators gnmic made underscores."""
    branch = "/qos/queues/queue/state/" if path.startswith("qos") else f"/interfaces/interface/state/{'counters/' if 'counters' in path else ''}"
    found = leaf_of(f"{branch}{leaf.replace('_', '-')}")
    if not found.known or found.form != "number":
        return Metric(_unknown(name, "counter" if "counters" in path else None), "gnmic")
    return Metric(found.meaning, "gnmic")


def _rule(name: str, labels: Mapping[str, str]) -> Metric | None:
    """A recording rule, by its conventional name level:metric:operation."""
    rule = _RULE.fullmatch(name)
    base = known_metric(rule[1], labels) if rule is not None else None
    if base is None:
        return None
    counter = _RATE_OF.get(base.meaning.counter)
    if counter is None:
        return Metric(Meaning(f"vendor.{name}", base.meaning.direction, width=0, kind="gauge"), base.family)
    return Metric(replace(base.meaning, counter=counter, width=0, kind="gauge", unit=None), base.family, words=base.words)


def _unknown(name: str, kind: CounterKind | None) -> Meaning:
    counts = kind == "counter" if kind is not None else name.endswith("_total") and ":" not in name
    unit = "byte" if "_bytes" in name or "_octets" in name else "packet" if "_packets" in name else None
    return Meaning(f"vendor.{name}", _direction(name), width=0, kind="counter" if counts else "gauge", unit=unit if counts else None)


def _direction(name: str) -> Direction | None:
    if _RX.search(name):
        return "rx"
    return "tx" if _TX.search(name) else None
