"""Points of Telegraf to counters: which plugin wrote one, what machine and device it speaks of."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tracelab_parsers.counters.gnmic_meanings import leaf_of, number_of
from tracelab_parsers.counters.gnmic_paths import entity, node_name
from tracelab_parsers.counters.gnmic_reading import subject_of, time_of
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.switch_moments import moment_in
from tracelab_parsers.counters.telegraf_lines import NO_NUMBER, Point
from tracelab_parsers.counters.telegraf_meanings import Plugin, field_meaning
from tracelab_parsers.counters.values import is_digits
from tracelab_parsers.counters.writing import Samples, Subject, TimeQuality
from tracelab_parsers.nccl_json.notices import Notices

__all__ = ["Points", "plugin_of"]

_HOST: dict[str, Plugin] = {"infiniband": "infiniband", "net": "net", "ethtool": "ethtool", "nvidia_smi": "nvidia_smi"}
_IF_MIB = re.compile(r"if(?:HC)?(?:In|Out)\w+|ifOperStatus|ifHighSpeed")
_NAMES_OF_PORTS = ("ifName", "ifDescr", "name", "ifAlias", "ifIndex")
_DAY_FIRST = re.compile(r"(\d\d)-(\d\d)-(\d{4}) (\d\d:\d\d:\d\d(?:\.\d+)?)(Z?)")
_PEAK = Meaning("queue_depth_bytes", "tx", width=0, kind="event")
_TREE = frozenset({"path", "source", "subscription", "host", "row_number", "component_id", "sub_component_id"})
_SPREAD = 5 * 10**9
_UP: dict[object, float] = {1: 1.0, 0: 0.0, 2: 0.0, "up": 1.0, "down": 0.0}


def plugin_of(point: Point) -> str | None:
    """The plugin that wrote a point, by its name, tags and fields; None where it counts no network and no GPU."""
    name, tags, fields = point.measurement, point.tags, point.fields
    if name == "nvidia_smi" and "index" in tags:
        return name
    if name == "infiniband" and "device" in tags:
        return name
    if name in ("net", "ethtool") and "interface" in tags:
        return name
    if "agent_host" in tags and any(_IF_MIB.fullmatch(f) for f in fields):
        return "snmp"
    if "peak" in fields and ("interfaceName" in fields or "interface_name" in tags) and "endTs" in fields:
        return "microburst"
    return "gnmi" if "source" in tags and ("path" in tags or any("/" in f or leaf_of(f).known for f in fields)) else None


class Points:
    """Writes the numbers of points to `samples`. Counts points of other plugins, and texts."""

    def __init__(self, samples: Samples, notices: Notices) -> None:
        self._samples = samples
        self._notices = notices
        self.points = self.others = self.texts = 0

    def add(self, line: int, point: Point) -> None:
        """One point."""
        self.points += 1
        plugin = plugin_of(point)
        if plugin is None or (plugin == "net" and point.tags["interface"] == "all"):
            self.others += 1
            return
        ts_ns = time_of(point.stamp)
        self._notices.add("bad-time", None, int(ts_ns is None and point.stamp is not None))
        if plugin == "microburst":
            self._burst(line, point, ts_ns)
        elif plugin == "gnmi":
            self._tree(line, point, ts_ns)
        elif plugin == "snmp":
            self._fields(line, point, "snmp", _port_of_agent(point.tags), ts_ns)
        else:
            self._fields(line, point, _HOST[plugin], _device_of_host(_HOST[plugin], point.tags), ts_ns)

    def _fields(self, line: int, point: Point, plugin: Plugin, subject: Subject, ts_ns: int | None) -> None:
        for name, value in point.fields.items():
            meaning = field_meaning(plugin, name)
            number: float | None
            if meaning.counter == "link_up":
                number = _UP.get(value.partition("(")[0].lower() if isinstance(value, str) else value)
            elif isinstance(value, str | bool):
                self.texts += 1
                continue
            else:
                number = value if isinstance(value, int | float) else None
                self._notices.add("bad-number", None, int(value is NO_NUMBER))
                if meaning.counter == "link_speed" and number is not None and number <= 0:
                    number = None  # how the kernel prints that there is no link
            self._samples.add(line, subject, name, meaning, number, ts_ns=ts_ns, quality="collector")

    def _tree(self, line: int, point: Point, ts_ns: int | None) -> None:
        """A point of gnmi or cisco_telemetry_mdt: fields are leaves below the path of the subscription."""
        tags, path = point.tags, point.tags.get("path", "")
        found = entity({_full_tag(k, path): v for k, v in tags.items() if k not in _TREE})
        if found.device is None and found.component is None and (name := tags.get("name")) is not None:
            found = found._replace(device=name) if _of_ports(path, point.fields) else found._replace(component=name)
        subject = subject_of(found, node_name(tags.get("source")))
        for name, value in point.fields.items():
            leaf = leaf_of(name if name.startswith("/") else f"{path}/{name}")
            try:
                read = number_of(leaf, value)
            except ValueError:
                self._notices.add("bad-number")
                read = leaf.meaning, None
            if read is None:
                self.texts += 1
                continue
            meaning = read[0] if leaf.known else Meaning(f"vendor.{name}", read[0].direction, width=read[0].width, kind=read[0].kind, unit=read[0].unit)
            priority = found.priority if meaning.priority is None else None
            self._samples.add(line, subject, name, meaning, read[1], ts_ns=ts_ns, quality="device", queue=found.queue, priority=priority)

    def _burst(self, line: int, point: Point, ts_ns: int | None) -> None:
        """A burst of one queue: its highest fill, at the moment of the record. The switch prints begin, peak and end in whole seconds alone."""
        tags, fields = point.tags, point.fields
        device = str(fields.get("interfaceName") or tags.get("interface_name"))
        queue = tags.get("queue_number") or (str(fields["queue"]) if "queue" in fields else None)
        subject = Subject("switch-port", device, node=node_name(tags.get("source")), node_kind="switch")
        peak = _stated_moment(fields.get("peakTs"))
        exact = _stated_moment(fields.get("ts"))
        near = exact is not None and (peak is None or abs(exact[0] - peak[0]) < _SPREAD)
        stated = exact if near else peak
        moment = stated[0] if stated is not None else ts_ns
        quality: TimeQuality = "local" if stated is not None and not stated[1] else "device"
        value = fields.get("peak")
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        self._notices.add("bad-number", None, int(value is NO_NUMBER))
        self._samples.add(line, subject, "peak", _PEAK, number, ts_ns=moment, quality=quality, queue=queue)
        for name in ("duration", "threshold", "endDepth", "startDepth"):
            value = fields.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                meaning = Meaning(f"vendor.{name}", "tx", width=0, kind="event", unit=None if name == "duration" else "byte")
                self._samples.add(line, subject, name, meaning, value, ts_ns=moment, quality=quality, queue=queue)
        self.texts += sum(isinstance(v, str) for v in fields.values())


def _device_of_host(plugin: Plugin, tags: Mapping[str, str]) -> Subject:
    node = tags.get("host")
    if plugin == "infiniband":
        port = tags.get("port", "")
        return Subject("rdma", tags["device"], node=node, node_kind="host", port=int(port) if is_digits(port, 9) else None)
    if plugin == "nvidia_smi":
        return Subject("gpu", tags["index"], node=node, node_kind="host", uid=tags.get("uuid"))
    return Subject("netdev", tags["interface"], node=node, node_kind="host")


def _port_of_agent(tags: Mapping[str, str]) -> Subject:
    """A port of what answers SNMP; the tag `host` is the machine that asked."""
    name = next((tags[k] for k in _NAMES_OF_PORTS if k in tags), None)
    return Subject(
        "switch-port" if name is not None else "switch", name, node=tags.get("sysName") or tags.get("hostname") or tags["agent_host"], node_kind="switch"
    )


def _full_tag(tag: str, path: str) -> str:
    """A key's tag with the name of its element, which Telegraf prints for the second key of a name alone, and then as a path."""
    plain = tag.rpartition("/")
    if not plain[0]:
        return tag
    element = plain[0].rpartition("/")[2].rpartition(":")[2] or path.rpartition("/")[2]
    return f"{element}_{plain[2]}"


def _of_ports(path: str, fields: Mapping[str, object]) -> bool:
    """Whether the tag `name` of a point is that of an interface."""
    return any("interface" in p or "/port" in p or leaf_of(p).known for p in (path, *list(fields)[:8])) and "component" not in path


def _stated_moment(text: object) -> tuple[int, bool] | None:
    """A moment as Cisco's switches print it, with the day first, or the ISO way; and whether it states its zone."""
    if not isinstance(text, str):
        return None
    m = _DAY_FIRST.fullmatch(text.strip())
    found = moment_in(f"{m[3]}-{m[2]}-{m[1]} {m[4]}{m[5]}" if m is not None else text.strip())
    return None if found is None else (found.ns, found.zoned)
