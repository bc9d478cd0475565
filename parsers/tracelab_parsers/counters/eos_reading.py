"""JSON outputs of EOS: interfaces, their counters, rates and queues."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.switch_moments import epoch_ns
from tracelab_parsers.counters.switch_reading import JsonReading
from tracelab_parsers.counters.switch_transcript import Context
from tracelab_parsers.counters.switch_values import address, vendor
from tracelab_parsers.nccl_json.values import mapping, text, whole

__all__ = ["Reading"]

_BITS, _PACKETS = "bits_per_s", "packets_per_s"
_KNOWN = {
    "inOctets": Meaning("bytes", "rx"),
    "outOctets": Meaning("bytes", "tx"),
    "inTotalPkts": Meaning("packets", "rx"),
    "outTotalPkts": Meaning("packets", "tx"),
    "totalInErrors": Meaning("errors", "rx"),
    "totalOutErrors": Meaning("errors", "tx"),
    "inErrors": Meaning("errors", "rx"),
    "outErrors": Meaning("errors", "tx"),
    "inDiscards": Meaning("discards", "rx"),
    "outDiscards": Meaning("discards", "tx"),
    "linkStatusChanges": Meaning("link_transitions"),
    "fcsErrors": Meaning("crc_errors", "rx"),
    "symbolErrors": Meaning("symbol_errors", "rx"),
    "rxPause": Meaning("global_pause_frames", "rx"),
    "txPause": Meaning("global_pause_frames", "tx"),
    "inBitsRate": Meaning(_BITS, "rx", width=0),
    "outBitsRate": Meaning(_BITS, "tx", width=0),
    "inBpsRate": Meaning(_BITS, "rx", width=0),
    "outBpsRate": Meaning(_BITS, "tx", width=0),
    "inPpsRate": Meaning(_PACKETS, "rx", width=0),
    "outPpsRate": Meaning(_PACKETS, "tx", width=0),
    "rxPower": Meaning("rx_power", "rx", width=0),
    "txPower": Meaning("tx_power", "tx", width=0),
    "temperature": Meaning("module_temperature", width=0),
}
_STATISTICS = {"inPktsRate": Meaning(_PACKETS, "rx", width=0), "outPktsRate": Meaning(_PACKETS, "tx", width=0)}
_RATES = {"inPktsRate": vendor("inPktsRate", "rx", "percent", "gauge"), "outPktsRate": vendor("outPktsRate", "tx", "percent", "gauge")}
_QUEUES = {
    "enqueuedPackets": Meaning("queue_packets", "tx"),
    "enqueuedOctets": Meaning("queue_bytes", "tx"),
    "enqueuedBytes": Meaning("queue_bytes", "tx"),
    "droppedPackets": Meaning("queue_drop_packets", "tx"),
    "droppedOctets": vendor("droppedOctets", "tx", "byte"),
    "droppedBytes": vendor("droppedBytes", "tx", "byte"),
}
_FRAMES = {"rxFrames": Meaning("pfc_pause_frames", "rx"), "txFrames": Meaning("pfc_pause_frames", "tx")}
_PARTS = ("interfaceCounters", "inputErrorsDetail", "outputErrorsDetail")
_COUNTED = re.compile(r"(?:in|out|rx|tx)[A-Z]\w*|\w+(?:Errors|Frames|Pkts|Octets|Discards|Drops|TooLongs|TooShorts|Collisions|Transmissions)")
_UNIT = ((re.compile(r"Pkts|Packets|Frames|Discards"), "packet"), (re.compile(r"Octets|Bytes"), "byte"))
_TIMES = ("counterRefreshTime", "lastUpdateTimestamp")
_QUEUE_PART = re.compile(r"TC\d+|DP\d+|COS\d+|mcast|voq", re.IGNORECASE)
_MEMBER = re.compile(r"Member of (Port-Channel\S+)")
_UP = {"connected": True, "notconnect": False, "disabled": False, "errdisabled": False}
_ABSENT = ("not available", "description not available", "")


class Reading(JsonReading):
    """Reads outputs of EOS."""

    def body(self, value: dict[str, Any]) -> bool:
        """See `JsonReading.body`."""
        if (name := text(value.get("hostname"))) is not None and not isinstance(value.get("interfaces"), dict):
            self.node = name
            return True
        if (now := epoch_ns(value.get("utcTime"))) is not None:
            self.context = Context(self.context.node, self.context.command, now, "file")
            return True
        known = False
        for key, fields in value.items():
            if key in ("egressQueueCounters", "ingressVoqCounters"):
                for device, queues in mapping(mapping(fields).get("interfaces")).items():
                    self.records += 1
                    self._queues(device, mapping(queues), ("voq",) if key.startswith("ingress") else ())
                known = True
            elif key in ("interfaces", "interfaceErrorCounters", "interfaceStatuses", "interfaceCounters"):
                for device, one in mapping(fields).items():
                    self.records += 1
                    self._interface(device, mapping(one))
                known = True
        return known

    def _interface(self, device: str, fields: dict[str, Any]) -> None:
        counters = mapping(fields.get("interfaceCounters"))
        times = (epoch_ns(part.get(k)) for part in (counters, fields) for k in _TIMES)
        ts_ns = next((t for t in times if t is not None), None)
        self._describe(device, fields, ts_ns)
        for part, values in (("", fields), ("interfaceCounters", counters)):
            self._numbers(device, values, ts_ns, every=bool(part))
            for detail in _PARTS[1:]:
                direction = "rx" if detail.startswith("input") else "tx"
                self._numbers(device, mapping(values.get(detail)), ts_ns, every=True, direction=direction)
        for name, value in mapping(fields.get("interfaceStatistics")).items():
            meaning = _STATISTICS.get(name) or _KNOWN.get(name)
            if meaning is not None:
                self.number(device, name, meaning, value, ts_ns=ts_ns)
            elif name != "updateInterval":
                self.number(device, name, vendor(name, None, None, "gauge"), value, ts_ns=ts_ns)
        for name in ("egressQueueCounters", "ingressVoqCounters", "trafficClasses"):
            if isinstance(fields.get(name), dict):
                self._queues(device, {name: fields[name]}, ())
        self._pauses(device, fields)

    def _numbers(self, device: str, values: dict[str, Any], ts_ns: int | None, *, every: bool, direction: Any = None) -> None:
        """The numbers of one object; those of unknown names where all of its fields are counters, or where they are called like one."""
        for name, value in values.items():
            if isinstance(value, dict | list | bool) or name in _TIMES:
                continue
            meaning = _KNOWN.get(name) or _RATES.get(name)
            if meaning is None and (every or (_COUNTED.fullmatch(name) and name not in _FRAMES)) and isinstance(value, int | Decimal):
                way = direction or ("rx" if name.startswith("in") else "tx" if name.startswith("out") else None)
                unit = next((u for pattern, u in _UNIT if pattern.search(name)), "event" if name.endswith(("Errors", "ions")) else None)
                meaning = vendor(name, way, unit, "gauge" if "Rate" in name else "counter")
            if meaning is not None:
                self.number(device, name, meaning, value, ts_ns=ts_ns)

    def _describe(self, device: str, fields: dict[str, Any], ts_ns: int | None) -> None:
        """The interface itself, where the output tells of it: speed, state, address, description."""
        status = text(fields.get("interfaceStatus")) or text(fields.get("linkStatus"))
        if status is None and "bandwidth" not in fields:
            return
        up = _UP.get(status or "")
        if status is not None:
            self.state(device, "interfaceStatus" if "interfaceStatus" in fields else "linkStatus", up=up, ts_ns=ts_ns)
        speed = whole(fields.get("bandwidth")) or None
        if speed is not None and up is not False:
            self.number(device, "bandwidth", Meaning("link_speed", width=0), speed, ts_ns=ts_ns)
        if "lastStatusChangeTimestamp" in fields:
            change = vendor("lastStatusChangeTimestamp", None, None, "gauge")
            self.number(device, "lastStatusChangeTimestamp", change, fields["lastStatusChangeTimestamp"], ts_ns=ts_ns)
        member = _MEMBER.match(text(fields.get("interfaceMembership")) or "")
        alias = text(fields.get("description"))
        self.interface(
            netdev=device,
            alias=None if (alias or "").lower() in _ABSENT else alias,
            uid=address(fields.get("burnedInAddress")) or address(fields.get("physicalAddress")),
            address=_addresses(fields.get("interfaceAddress")),
            speed_bps=speed,
            mtu=whole(fields.get("mtu"), 32),
            up=up,
            bond=member[1] if member is not None else None,
            cable=text(fields.get("interfaceType")),
        )

    def _queues(self, device: str, values: dict[str, Any], path: tuple[str, ...]) -> None:
        """Counters of queues at any depth below the names of their class, precedence and kind."""
        for name, value in values.items():
            if isinstance(value, dict):
                self._queues(device, value, (*path, *_QUEUE_PART.findall(name)[:1]))
            elif isinstance(value, int | Decimal) and not isinstance(value, bool):
                meaning = _QUEUES.get(name) or vendor(name, "tx", None, "gauge" if "Rate" in name else "counter")
                self.number(device, name, meaning, value, queue=" ".join(path) or None)

    def _pauses(self, device: str, fields: dict[str, Any], priority: int | None = None) -> None:
        """Frames of priority flow control: of the port, or below the numbers of its priorities."""
        for name, value in fields.items():
            if name in _FRAMES and not isinstance(value, dict):
                self.number(device, name, _FRAMES[name], value, priority=priority)
            elif isinstance(value, dict) and (name == "priorities" or re.fullmatch(r"[0-7]", name)):
                self._pauses(device, value, int(name) if name.isdigit() else None)


def _addresses(value: object) -> str | None:
    entries = value if isinstance(value, list) else [value]
    found = [text(mapping(mapping(e).get("primaryIp")).get("address")) for e in entries]
    return " ".join(a for a in found if a is not None and a != "0.0.0.0") or None  # noqa: S104 - EOS prints it for no address
