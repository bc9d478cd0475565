"""Interfaces, network devices and plugins: what each process found, and what it chose."""

from __future__ import annotations

import re
from typing import Any

from tracelab.tables.logs import LOG_SETTINGS, NET_DEVICES
from tracelab_parsers.nccl_log.fields import Bounded, bounded, integer
from tracelab_parsers.nccl_log.line import LogLine, Rows
from tracelab_parsers.nccl_log.settings import allowed, clean_value

__all__ = ["NetworkReader"]

_STATEMENTS = 65_536
_DEVICES_PER_PROCESS = 512
_LIST = 32_768

# `[0]ib0:10.0.0.1<0>`; versions from 2.8 print one bootstrap interface without a number.
_INTERFACE = re.compile(r"(?:\[([0-9]{1,5})\] ?)?([0-9A-Za-z_.@-]{1,64}):([0-9A-Fa-f.:]{2,64}(?:%[0-9A-Za-z_.@-]{1,64})?)<[0-9]{1,5}>")
_PORT = r"([0-9A-Za-z_.+-]{1,128}):([0-9]{1,4})/(IB|RoCE|UNSPEC)(?:/SHARP)?(?=[\s;,}]|$)"
_IB_DEVICE = re.compile(rf"\[([0-9]{{1,5}})\] ?(?:=\{{([^}}]{{1,2000}})\}}|{_PORT})")
_MEMBER = re.compile(rf"\[[0-9]{{1,5}}\] ?{_PORT}")
_USING = re.compile(r"NET/([A-Za-z][0-9A-Za-z_.-]{0,40}) ?: Using (?=\[|\S+:[^ ]+<)")
_GDR = re.compile(r"NET/([A-Za-z][0-9A-Za-z_.-]{0,40}) ?: GPU Direct RDMA (Enabled|Disabled) for (GPU [^ /]{1,40} / )?HCA ([0-9]{1,5})(?: '([^']{1,128})'| \()")
_VIRTUAL = re.compile(r"NET/([A-Za-z][0-9A-Za-z_.-]{0,40}) ?: Made virtual device \[([0-9]{1,5})\] name=([^\s=]{1,128}) speed=")
_OFI_NIC = re.compile(r"NET/OFI NIC group ([0-9]{1,5}) device #[0-9]{1,3} ([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![0-9])")
_OFI_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([\w;-]{1,60})(?:, fabric is ([\w.:;-]{1,60}))?")
_OFI_VERSION = re.compile(r"NET/OFI (?:Initializing|Using) (aws-ofi-nccl \S{1,60})")
_SELF_SET = re.compile(r"[Ss]etting ((?:NCCL|RCCL)_[A-Z0-9_]{1,60}) environment variable to (\S{1,400})")
_CHOICE = re.compile(r"Using network (.{1,100})")
_PLUGIN = (
    re.compile(r"(?:Initialized|Assigned) NET plugin (\S{1,80})"),
    re.compile(r"(?:NET/Plugin ?: )?Loaded net plugin (.{1,80})"),
    re.compile(r"P2P plugin (\S{1,80})"),
    re.compile(r"NET/Plugin ?: (?:Using|No plugin found .{0,200}, using) (internal) "),
)
_KNOWN = (
    "NET/",
    "Bootstrap",
    "Using network ",
    "Using non-device net plugin",
    "Initialized ",
    "Assigned ",
    "Failed to initialize ",
    "Loaded ",
    "P2P plugin",
    "Plugin Path",
    "Plugin name set",
    "GPU Direct RDMA",
    "dlvsym failed",
    "Successfully loaded external plugin",
    "Successfully loaded external network plugin",
    "COLLNET/",
    "SHARP",
    "Failed to open libibverbs",
)
_PLUGIN_WORDS = re.compile(r"(?:Initialized|Assigned|Failed to initialize|Loaded)(?: any)? (?:NET|GIN|RMA|CollNet|net|collnet|gin|tuner|profiler)\b")

_Values = dict[str, Any]
_Devices = dict[tuple[str, int | str], tuple[LogLine, _Values]]


class NetworkReader:
    """Collects the devices of each process until the end: whether they are used and can reach GPU memory is said later."""

    def __init__(self) -> None:
        self._devices: dict[int | None, _Devices] = {}
        self._networks: dict[int | None, set[str]] = {}
        self._said: Bounded[tuple[int | None, str, str], None] = Bounded(_STATEMENTS)

    def take(self, line: LogLine, rows: Rows) -> str | None:
        """`net` for a line of networks or plugins, else None; `plugin` for plugins of other kinds."""
        text = line.text
        if not line.level or line.level == "WARN" or not text.startswith(_KNOWN):
            return "plugin" if line.level == "INFO" and "/Plugin" in text[:20] else None
        if text.startswith("NET/"):
            if "async" in text or "Got " in text or "completed with error" in text:
                return None
            self._net(text, line, rows)
        elif text.startswith("Bootstrap"):
            if "Using" not in text[:20]:
                return None
            self._interfaces("bootstrap", text, line, rows)
        elif found := _CHOICE.match(text):
            self._choose(found[1].strip(), line, rows)
        elif text.startswith(("Initialized", "Assigned", "Failed to init", "Loaded")) and not _PLUGIN_WORDS.match(text):
            return None
        else:
            self._plugin(text, line, rows)
        return "net"

    def finish(self, rows: Rows) -> None:
        """Writes the devices of all processes."""
        for part in list(self._devices):
            self._flush(part, rows)

    def _net(self, text: str, line: LogLine, rows: Rows) -> None:
        if found := _USING.match(text):
            plugin = found[1]
            listed, _, _ = text[found.end() : found.end() + _LIST].partition("OOB ")
            if _IB_DEVICE.search(listed):
                self._ib_devices(plugin, listed, line, rows)
            else:
                self._interfaces(plugin, listed, line, rows)
        elif found := _GDR.match(text):
            device = integer(found[4])
            known = self._of(line).get((found[1], device if device is not None else ""))
            # For one HCA several GPUs are judged: it can reach memory if it can reach one of them.
            enabled = found[2] == "Enabled" or bool(found[3] and known and known[1].get("gdr"))
            self._device(line, rows, plugin=found[1], device=device, name=found[5], gdr=enabled)
        elif found := _VIRTUAL.match(text):
            self._device(line, rows, plugin=found[1], device=integer(found[2]), name=found[3])
        elif text.startswith("NET/OFI"):
            self._ofi(text, line, rows)
        else:
            self._plugin(text, line, rows)

    def _ib_devices(self, plugin: str, listed: str, line: LogLine, rows: Rows) -> None:
        for entry in _IB_DEVICE.finditer(listed):
            device = integer(entry[1])
            if entry[2] is None:
                self._device(line, rows, plugin=plugin, device=device, name=entry[3], port=integer(entry[4]), link_layer=entry[5])
                continue
            members = [(m[1], m[3]) for m in _MEMBER.finditer(entry[2])]
            layers = {layer for _, layer in members}
            if members:
                layer = layers.pop() if len(layers) == 1 else None
                self._device(line, rows, plugin=plugin, device=device, name="+".join(name for name, _ in members), link_layer=layer)

    def _interfaces(self, plugin: str, text: str, line: LogLine, rows: Rows) -> None:
        for entry in _INTERFACE.finditer(text):
            device = integer(entry[1]) if entry[1] else (0 if plugin == "bootstrap" else None)
            self._device(line, rows, plugin=plugin, device=device, name=entry[2], address=entry[3])

    def _ofi(self, text: str, line: LogLine, rows: Rows) -> None:
        if found := _OFI_NIC.match(text):
            self._device(line, rows, plugin="OFI", device=integer(found[1]), name=found[2])
        elif found := _OFI_VERSION.match(text):
            self._say("net_plugin", found[1], line, rows)
        elif found := _OFI_PROVIDER.match(text):
            self._say("net_plugin", f"OFI provider {found[1]}" + (f", fabric {found[2]}" if found[2] else ""), line, rows)
        elif (found := _SELF_SET.search(text)) and allowed(found[1]):
            self._say(found[1], found[2], line, rows)

    def _plugin(self, text: str, line: LogLine, rows: Rows) -> None:
        found = next((f for p in _PLUGIN if (f := p.match(text))), None)
        if found is not None:
            self._say("net_plugin", found[1].strip(), line, rows)

    def _choose(self, network: str, line: LogLine, rows: Rows) -> None:
        chosen = self._networks.setdefault(line.part, set())
        if len(chosen) < 16:
            chosen.add(network)
        self._say("network", network, line, rows)

    def _say(self, name: str, value: str, line: LogLine, rows: Rows) -> None:
        kept = clean_value(value)
        if kept and (line.part, name, kept) not in self._said:
            self._said[line.part, name, kept] = None
            rows.add(LOG_SETTINGS, line, name=name, value=kept, origin="stated")

    def _of(self, line: LogLine) -> _Devices:
        return self._devices.setdefault(line.part, {})

    def _device(self, line: LogLine, rows: Rows, **values: object) -> None:
        devices = self._of(line)
        plugin, device = str(values["plugin"]), values.get("device")
        key = (plugin, device if isinstance(device, int) else str(values.get("name")))
        if plugin == "OFI":
            key = (plugin, str(values.get("name")))
        given = {k: v for k, v in values.items() if v is not None}
        if key in devices:
            devices[key][1].update(given)
        elif len(devices) < _DEVICES_PER_PROCESS:
            devices[key] = (line, given)
        else:
            rows.add(NET_DEVICES, line, **given)

    def _flush(self, part: int | None, rows: Rows) -> None:
        chosen = self._networks.get(part) or set()
        for line, values in (self._devices.pop(part, None) or {}).values():
            values["plugin"] = bounded(values["plugin"], 64)
            rows.add(NET_DEVICES, line, used=_used(values["plugin"], chosen), **values)


def _used(plugin: str, chosen: set[str]) -> bool | None:
    """Whether the process says that it uses the plugin: plugins choose under names of their own."""
    if plugin == "bootstrap":
        return True
    if not chosen:
        return None
    families = {_family(name) for name in chosen}
    return _family(plugin) in families


def _family(name: str) -> str:
    lower = name.lower()
    if "libfabric" in lower or lower == "ofi":
        return "ofi"
    return "ib" if lower.startswith("ib") else lower
