"""JSON outputs of NX-OS: tables of rows, every value a text, a single row without its list."""

from __future__ import annotations

import re
from typing import Any

from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.switch_reading import JsonReading
from tracelab_parsers.counters.switch_values import address, json_number, vendor
from tracelab_parsers.nccl_json.values import mapping, text, whole

__all__ = ["Reading"]

_NAMES = ("interface", "interface_rx", "interface_tx", "if_name", "if_name_str", "if-name-str", "intf_name", "name")
_KNOWN = {
    "eth_inbytes": Meaning("bytes", "rx"),
    "eth_outbytes": Meaning("bytes", "tx"),
    "eth_inpkts": Meaning("packets", "rx"),
    "eth_outpkts": Meaning("packets", "tx"),
    "eth_inerr": Meaning("errors", "rx"),
    "eth_outerr": Meaning("errors", "tx"),
    "eth_rcv_err": Meaning("errors", "rx"),
    "eth_xmit_err": Meaning("errors", "tx"),
    "eth_indiscard": Meaning("discards", "rx"),
    "eth_outdiscard": Meaning("discards", "tx"),
    "eth_outdisc": Meaning("discards", "tx"),
    "eth_indisc": Meaning("discards", "rx"),
    "eth_crc": Meaning("crc_errors", "rx"),
    "eth_fcs_err": Meaning("crc_errors", "rx"),
    "eth_symbol_err": Meaning("symbol_errors", "rx"),
    "eth_nobuf": Meaning("rx_no_buffer", "rx"),
    "eth_overrun": Meaning("buffer_overrun", "rx"),
    "eth_inpause": Meaning("global_pause_frames", "rx"),
    "eth_outpause": Meaning("global_pause_frames", "tx"),
    "rxppp": Meaning("pfc_pause_frames", "rx"),
    "txppp": Meaning("pfc_pause_frames", "tx"),
    "eth_inrate1_bits": Meaning("bits_per_s", "rx", width=0),
    "eth_outrate1_bits": Meaning("bits_per_s", "tx", width=0),
    "eth_inrate1_pkts": Meaning("packets_per_s", "rx", width=0),
    "eth_outrate1_pkts": Meaning("packets_per_s", "tx", width=0),
    "vdc_lvl_in_bytes": Meaning("bytes", "rx"),
    "vdc_lvl_out_bytes": Meaning("bytes", "tx"),
    "vdc_lvl_in_pkts": Meaning("packets", "rx"),
    "vdc_lvl_out_pkts": Meaning("packets", "tx"),
    "vdc_lvl_in_avg_bits": Meaning("bits_per_s", "rx", width=0),
    "vdc_lvl_out_avg_bits": Meaning("bits_per_s", "tx", width=0),
    "vdc_lvl_in_avg_pkts": Meaning("packets_per_s", "rx", width=0),
    "vdc_lvl_out_avg_pkts": Meaning("packets_per_s", "tx", width=0),
}
_COUNTED = re.compile(r"(?:eth|vdc_lvl|svi|tunnel|nve)_\w+|[rt]x\w+|que[-_]\w+|\w*(?:drop|pause|pkts|bytes)\w*", re.IGNORECASE)
_SETTING = re.compile(
    r"(?:eth|svi)_(?:mtu|bw|dly|delay|reliability|[rt]xload|[rt]x_load|ip_mask|ip_prefix|load_interval\w*|ethertype|mode|speed|bia_addr|hw_addr|rel)|eth_link_flapped|state|desc|eth_(?:media|ip_addr|bundle)|\w+_state"
)
_RX = re.compile(r"(?:^|_)(?:in|rx|rcv|input)|_in(?:_|$)")
_TX = re.compile(r"(?:^|_)(?:out|tx|xmit|output)|_out(?:_|$)")
_RECEIVED = frozenset(
    {"eth_runts", "eth_giants", "eth_storm_supp", "eth_frame", "eth_ignored", "eth_watchdog", "eth_bad_eth", "eth_bad_proto", "eth_dribble", "eth_jumbo_inpkts"}
)
_SPEED = re.compile(r"(\d{1,7}(?:\.\d{1,3})?) ?([MG])b/s", re.ASCII)
_STEPS = {"M": 10**6, "G": 10**9}
_UP = {"up": True, "connected": True, "down": False, "notconnect": False, "sfpabsent": False, "xcvrabsen": False, "disabled": False}
_CLASS = re.compile(r"(?:qos[_-]?g\w*|queue[_-]?\w*|que[_-]?name)", re.IGNORECASE)


class Reading(JsonReading):
    """Reads outputs of NX-OS."""

    def body(self, value: dict[str, Any]) -> bool:
        """See `JsonReading.body`."""
        if (name := text(value.get("hostname"))) is not None:
            self.node = name
            return True
        return self._tables(value, None, None)

    def _tables(self, value: dict[str, Any], device: str | None, queue: str | None) -> bool:
        """Reads all rows of all tables in `value`; whether there are any with an interface."""
        known = False
        for key, table in value.items():
            if not key.startswith("TABLE_"):
                continue
            for part in table if isinstance(table, list) else [table]:
                for name, rows in mapping(part).items():
                    if name.startswith("ROW_"):
                        for row in rows if isinstance(rows, list) else [rows]:
                            known = self._row(mapping(row), device, queue) or known
        return known

    def _row(self, row: dict[str, Any], device: str | None, queue: str | None) -> bool:
        named = next((n for k in _NAMES if (n := text(row.get(k))) is not None), None)
        device = (named or device or "").strip() or None
        queue = next((t for k, v in row.items() if _CLASS.fullmatch(k) and (t := text(v)) is not None), queue)
        if device is None:
            return self._tables(row, None, queue)
        self.records += 1
        self._describe(device, row)
        cleared = text(row.get("eth_clear_counters"))
        flags = "since-clear" if cleared not in (None, "never") else None
        for name, value in row.items():
            if name in _NAMES or isinstance(value, dict | list) or _SETTING.fullmatch(name):
                continue
            meaning = _KNOWN.get(name) or _KNOWN.get(name.lower().replace("_", "").replace("-", ""))
            if meaning is None and (_COUNTED.fullmatch(name) is None or not _is_number(value)):
                self.text()
                continue
            meaning = meaning or _unknown(name)
            self.number(device, name, meaning, value, queue=queue, flags=flags if meaning.stated_kind == "counter" else None)
        self._tables(row, device, queue)
        return True

    def _describe(self, device: str, row: dict[str, Any]) -> None:
        """The interface itself. `eth_bw` is in kbit/s, and a setting where the link has no speed of its own."""
        state = text(row.get("state"))
        if state is None and "eth_hw_addr" not in row:
            return
        printed = _SPEED.match(text(row.get("eth_speed")) or "")
        bandwidth = whole(row.get("eth_bw"), 48)
        speed = round(float(printed[1]) * _STEPS[printed[2]]) if printed is not None else bandwidth * 1000 if bandwidth else None
        up = _UP.get(state.lower()) if state is not None else None
        if state is not None:
            self.state(device, "state", up=up)
        if bandwidth and up is not False:
            self.number(device, "eth_bw", Meaning("link_speed", scale=1000, width=0), bandwidth)
        bond = text(row.get("eth_bundle"))
        self.interface(
            netdev=device,
            alias=text(row.get("desc")),
            uid=address(row.get("eth_bia_addr")) or address(row.get("eth_hw_addr")),
            address=text(row.get("eth_ip_addr")),
            speed_bps=speed,
            mtu=whole(row.get("eth_mtu"), 32),
            up=up,
            bond=bond,
            cable=text(row.get("eth_media")),
        )


def _is_number(value: object) -> bool:
    try:
        json_number(value)
    except ValueError:
        return False
    return value is not None


def _unknown(name: str) -> Meaning:
    low = name.lower()
    direction = "rx" if low in _RECEIVED or _RX.search(low.removeprefix("eth_")) else "tx" if _TX.search(low.removeprefix("eth_")) else None
    rate = "rate" in low or "_avg_" in low
    unit = "byte" if "byte" in low else "packet" if "pkt" in low or low.endswith(("cast", "_drops")) or low in _RECEIVED else None
    return vendor(name, direction, None if rate else unit, "gauge" if rate else "counter")
