"""Names of the counters of Ethernet adapters as their drivers print them through `ethtool -S`.

mlx5: Linux, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst; mlx4, bnxt, ice, i40e, hns3: the
tables of names in their drivers. What a driver counts in software and what the port counts are told apart: only the port's include RDMA.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from tracelab_parsers.counters.meanings import Direction, Meaning, meaning_of_unknown
from tracelab_parsers.counters.names_infiniband import infiniband_meaning

__all__ = ["ethtool_meaning", "is_of_port", "netdev_meaning"]

_Make = Callable[[re.Match[str]], Meaning]

_W = r"(?P<way>[rt]x)"
_P = r"(?P<p>[0-7])"


def _way(m: re.Match[str]) -> Direction:
    return "tx" if m["way"] == "tx" else "rx"


def _prio(counter: str, unit: str | None = None) -> _Make:
    return lambda m: Meaning(counter, _way(m), priority=int(m["p"]), unit=unit)


def _plain(counter: str, unit: str | None = None) -> _Make:
    return lambda m: Meaning(counter, _way(m), unit=unit)


def _cos(counter: str) -> _Make:
    return lambda m: Meaning(counter, _way(m), queue=f"cos{m['q']}")


_MLX5: tuple[tuple[str, _Make], ...] = (
    (rf"{_W}_bytes_phy", _plain("bytes")),
    (rf"{_W}_packets_phy", _plain("packets")),
    (rf"{_W}_vport_rdma_unicast_bytes", _plain("rdma_bytes")),
    (rf"{_W}_vport_rdma_unicast_packets", _plain("rdma_packets")),
    (rf"{_W}_vport_\w*bytes", lambda m: Meaning(f"vendor.{m.group()}", _way(m), unit="byte")),
    (rf"{_W}_prio{_P}_bytes", _prio("priority_bytes")),
    (rf"{_W}_prio{_P}_packets", _prio("priority_packets")),
    (rf"{_W}_prio{_P}_pause", _prio("pfc_pause_frames")),
    (rf"{_W}_prio{_P}_pause_duration", _prio("pfc_pause_us")),
    (rf"{_W}_prio{_P}_pause_transition", _prio("pfc_transitions")),
    (rf"{_W}_prio{_P}_discards", _prio("pg_drop_packets")),
    (rf"{_W}_prio{_P}_(?:buf_discard|cong_discard|marked)", lambda m: Meaning(f"vendor.{m.group()}", _way(m), priority=int(m["p"]), unit="packet")),
    (rf"{_W}_global_pause", _plain("global_pause_frames")),
    (rf"{_W}_global_pause_duration", _plain("global_pause_us")),
    (rf"{_W}_global_pause_transition", lambda m: Meaning(f"vendor.{m.group()}", _way(m), unit="event")),
    (rf"{_W}_pause_storm_(?:warning|error)_events", _plain("pfc_storm_events")),
    (rf"{_W}_discards_phy", _plain("discards")),
    (rf"{_W}_errors_phy", _plain("errors")),
    (r"(?P<way>rx)_crc_errors_phy", _plain("crc_errors")),
    (r"(?P<way>rx)_symbol_err_phy", _plain("symbol_errors")),
    (r"(?P<way>rx)_pcs_symbol_err_phy", _plain("pcs_errors")),
    (r"(?P<way>rx)_(?:corrected_bits_phy|fec_corrected\w*|corrected_fec\w*)", _plain("fec_corrected")),
    (r"(?P<way>rx)_(?:fec_uncorrect\w*|uncorrect\w*_fec\w*)", _plain("fec_uncorrectable")),
    (r"(?P<way>rx)_out_of_buffer", _plain("rx_no_buffer")),
    (r"link_down_events(?:_phy)?", lambda _: Meaning("link_down_events")),
    (r"module_high_temp|module_bus_stuck|module_unplug|module_bad_shorted", lambda m: Meaning(f"vendor.{m.group()}", unit="event")),
    (rf"{_W}_pci_signal_integrity", lambda m: Meaning(f"vendor.{m.group()}", _way(m), unit="event")),
    (r"outbound_pci_(?:stalled|buffer)\w*", lambda m: Meaning(f"vendor.{m.group()}", "tx", kind="gauge" if m.group()[-3:] in ("_rd", "_wr") else None)),
)
"""Where `pause_ctrl_phy` is printed beside `global_pause`, both count the same frames, so that one alone has the canonical name."""
_MLX4: tuple[tuple[str, _Make], ...] = (
    (rf"{_W}_prio_{_P}_bytes", _prio("priority_bytes")),
    (rf"{_W}_prio_{_P}_packets", _prio("priority_packets")),
    (rf"{_W}_pause_prio_{_P}", _prio("pfc_pause_frames")),
    (rf"{_W}_pause_duration_prio_{_P}", _prio("pfc_pause_us")),
    (rf"{_W}_pause_transition_prio_{_P}", _prio("pfc_transitions")),
)
_BNXT: tuple[tuple[str, _Make], ...] = (
    (rf"{_W}_pfc_ena_frames_pri{_P}", _prio("pfc_pause_frames")),
    (rf"pfc_pri{_P}_{_W}_duration_us", _prio("pfc_pause_us")),
    (rf"pfc_pri{_P}_{_W}_transitions", _prio("pfc_transitions")),
    (rf"pfc_wd_storms_detected_p{_P}", lambda m: Meaning("pfc_storm_events", priority=int(m["p"]))),
    (rf"{_W}_bytes_pri{_P}", _prio("priority_bytes")),
    (rf"{_W}_packets_pri{_P}", _prio("priority_packets")),
    (rf"{_W}_bytes_cos(?P<q>\d)", _cos("queue_bytes")),
    (rf"{_W}_packets_cos(?P<q>\d)", _cos("queue_packets")),
    (rf"{_W}_discard_packets_cos(?P<q>\d)", _cos("queue_drop_packets")),
    (rf"{_W}_total_frames", _plain("packets")),
    (rf"{_W}_(?:stat_discard|total_discard_pkts)", _plain("discards")),
    (rf"{_W}_stat_err(?:or)?", _plain("errors")),
    (rf"{_W}_pause_frames", _plain("global_pause_frames")),
    (r"(?P<way>rx)_fcs_err_frames", _plain("crc_errors")),
    (r"(?P<way>rx)_pcs_symbol_err", _plain("pcs_errors")),
    (r"(?P<way>rx)_corrected_bits", _plain("fec_corrected")),
)
_INTEL: tuple[tuple[str, _Make], ...] = (
    (rf"(?:port\.)?{_W}_priority_{_P}_xoff(?:\.nic)?", _prio("pfc_pause_frames")),
    (rf"{_W}_bytes\.nic", _plain("bytes")),
    (rf"port\.{_W}_bytes", _plain("bytes")),
    (rf"(?:port\.)?link_xoff_{_W}(?:\.nic)?", _plain("global_pause_frames")),
    (rf"{_W}_dropped\.nic", _plain("discards")),
    (rf"port\.{_W}_dropped", _plain("discards")),
    (rf"{_W}_errors\.nic", _plain("errors")),
    (r"(?:port\.)?(?P<way>rx)_crc_errors(?:\.nic)?", _plain("crc_errors")),
)
_HNS3: tuple[tuple[str, _Make], ...] = (
    (rf"mac_{_W}_pfc_pri{_P}_pkt_num", _prio("pfc_pause_frames")),
    (rf"mac_{_W}_good_oct_num", _plain("bytes")),
    (rf"mac_{_W}_good_pkt_num", _plain("packets")),
    (r"mac_(?P<way>rx)_fcs_err_pkt_num", _plain("crc_errors")),
    (rf"mac_{_W}_mac_pause_num", _plain("global_pause_frames")),
)
_RULES = tuple((re.compile(pattern), make) for pattern, make in (*_MLX5, *_MLX4, *_BNXT, *_INTEL, *_HNS3))
_OF_PORT = {f"{way}_bytes": Meaning("bytes", "tx" if way == "tx" else "rx") for way in ("tx", "rx")}
_BNXT_ONLY = re.compile(r"[rt]x_(?:64b|good|total|pfc)_frames|[rt]x_pfc_ena_frames_pri[0-7]|rx_fcs_err_frames")
_NETDEV = {
    "bytes": "vendor.netdev_bytes",
    "packets": "vendor.netdev_packets",
    "errors": "errors",
    "dropped": "vendor.netdev_dropped",
}


@cache
def is_of_port(raw_name: str) -> bool:
    """Whether the name is of a driver that prints what its port counts, RDMA included, as plain `rx_bytes`: bnxt."""
    return _BNXT_ONLY.fullmatch(raw_name) is not None


@cache
def ethtool_meaning(raw_name: str, *, of_port: bool = False) -> Meaning:
    """The meaning of a line of `ethtool -S`. `of_port`: plain bytes are those of the port (see `is_of_port`), not the kernel's."""
    if of_port and raw_name in _OF_PORT:
        return _OF_PORT[raw_name]
    for pattern, make in _RULES:
        m = pattern.fullmatch(raw_name)
        if m is not None:
            return make(m)
    m = re.fullmatch(rf"{_W}_(bytes|packets|errors|dropped)", raw_name)
    if m is not None:
        return netdev_meaning(_way(m), m[2])
    known = infiniband_meaning(raw_name)
    return known if known.counter[:7] != "vendor." else meaning_of_unknown(raw_name)


def netdev_meaning(direction: Direction, name: str) -> Meaning:
    """The meaning of a counter that the kernel keeps for a network device: it misses what RDMA moves past the kernel."""
    counter = _NETDEV.get(name)
    if counter is None:
        return meaning_of_unknown(f"netdev_{name}", direction)
    return Meaning(counter, direction, unit="byte" if name == "bytes" else "packet")
