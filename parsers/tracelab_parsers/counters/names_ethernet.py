"""Names of the counters of Ethernet adapters as their drivers print them through `ethtool -S`.

mlx5: Linux, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst; bnxt, ice, i40e, ena, EFA: their
drivers. What a driver counts in software and what the port counts are told apart: only the port's include RDMA.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from tracelab_parsers.counters.meanings import Direction, Meaning, meaning_of_unknown
from tracelab_parsers.counters.names_infiniband import infiniband_meaning

__all__ = ["ethtool_meaning", "netdev_meaning"]

_Make = Callable[[re.Match[str]], Meaning]


def _way(m: re.Match[str]) -> Direction:
    return "tx" if m["way"] == "tx" else "rx"


def _prio(counter: str, unit: str | None = None) -> _Make:
    return lambda m: Meaning(counter, _way(m), priority=int(m["p"]), unit=unit)


def _plain(counter: str, unit: str | None = None) -> _Make:
    return lambda m: Meaning(counter, _way(m), unit=unit)


_W = r"(?P<way>[rt]x)"
_RULES: tuple[tuple[re.Pattern[str], _Make], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (rf"{_W}_bytes_phy", _plain("bytes")),
        (rf"{_W}_packets_phy", _plain("packets")),
        (rf"{_W}_vport_rdma_unicast_bytes", _plain("rdma_bytes")),
        (rf"{_W}_vport_rdma_unicast_packets", _plain("rdma_packets")),
        (rf"{_W}_prio(?P<p>[0-7])_bytes", _prio("priority_bytes")),
        (rf"{_W}_prio(?P<p>[0-7])_packets", _prio("priority_packets")),
        (rf"{_W}_prio(?P<p>[0-7])_pause", _prio("pfc_pause_frames")),
        (rf"{_W}_prio(?P<p>[0-7])_pause_duration", _prio("pfc_pause_us")),
        (rf"{_W}_prio(?P<p>[0-7])_pause_transition", _prio("pfc_transitions")),
        (rf"{_W}_prio(?P<p>[0-7])_(?:buf_)?discards?", _prio("pg_drop_packets")),
        (
            rf"{_W}_(?:global_)?pause_ctrl_phy|{_W.replace('way', 'w2')}_global_pause",
            lambda m: Meaning("global_pause_frames", "tx" if "tx" in m.group() else "rx"),
        ),
        (rf"{_W}_global_pause_duration", _plain("global_pause_us")),
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
        (rf"{_W}_pfc_ena_frames_pri(?P<p>[0-7])", _prio("pfc_pause_frames")),
        (rf"pfc_pri(?P<p>[0-7])_{_W}_duration_us", _prio("pfc_pause_us")),
        (rf"pfc_pri(?P<p>[0-7])_{_W}_transitions", _prio("pfc_transitions")),
        (rf"{_W}_priority_(?P<p>[0-7])_xoff(?:\.nic)?", _prio("pfc_pause_frames")),
        (rf"port\.{_W}_priority_(?P<p>[0-7])_xoff", _prio("pfc_pause_frames")),
        (rf"{_W}_bytes\.nic|port\.{_W.replace('way', 'w2')}_bytes", lambda m: Meaning("bytes", "tx" if "tx_" in m.group() else "rx")),
        (rf"link_xoff_{_W}(?:\.nic)?|port\.link_xoff_{_W.replace('way', 'w2')}", lambda m: Meaning("global_pause_frames", "tx" if "tx" in m.group() else "rx")),
        (rf"{_W}_dropped\.nic|port\.{_W.replace('way', 'w2')}_dropped", lambda m: Meaning("discards", "tx" if "tx_" in m.group() else "rx")),
        (r"(?P<way>rx)_crc_errors(?:\.nic)?|port\.rx_crc_errors", lambda _: Meaning("crc_errors", "rx")),
        (rf"{_W}_total_discard_pkts", _plain("discards")),
    )
)
_NETDEV = {
    "bytes": "vendor.netdev_bytes",
    "packets": "vendor.netdev_packets",
    "errors": "errors",
    "dropped": "vendor.netdev_dropped",
}


@cache
def ethtool_meaning(raw_name: str) -> Meaning:
    """The meaning of a line of `ethtool -S`."""
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
