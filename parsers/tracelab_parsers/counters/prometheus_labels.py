"""Labels of a metric to the machine and device that it speaks of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from tracelab_parsers.counters.bulk import Key
from tracelab_parsers.counters.device_kinds import device_kind_of
from tracelab_parsers.counters.gnmic_paths import node_name
from tracelab_parsers.counters.prometheus_names import Metric
from tracelab_parsers.counters.writing import Subject
from tracelab_parsers.topology.ibnetdiscover_names import guid_of

__all__ = ["has_entity", "key_of"]

_TARGET = frozenset(
    re.findall(
        r"\w+",
        "__name__ instance job cluster namespace pod container service endpoint prometheus prometheus_replica replica region zone "
        "datacenter dc env environment site rack tenant node nodename node_name kubernetes_node hostname Hostname host exported_instance "
        "exported_job monitor app owner team",
    )
)
"""Labels that say where and by whom a number was collected; those of the device and of the statistic are the others."""
_NODE = ("nodename", "node", "node_name", "kubernetes_node", "exported_instance", "instance")
_ENTITY = ("device", "interface", "ifName", "ifDescr", "ifAlias", "ifIndex", "interface_name", "netdev", "iface", "nic", "hca", "gpu")
_EXPORTERS_POD = re.compile(r".*dcgm-exporter-[a-z0-9]{5}")
_URL = re.compile(r"[a-z]+://([^/]+)(?:/.*)?")
_PORT = re.compile(r"(.+):\d{1,5}")
_NUMBER = re.compile(r"\d{1,9}")
_ADAPTER = re.compile(r"(\S+) +(\S+)")


def key_of(name: str, labels: Mapping[str, str], metric: Metric, guids: Mapping[str, str], flags: tuple[str, ...] = ()) -> Key:
    """The series. `guids`: names of switches and adapters by their GUID, as far as the file has stated them."""
    queue = labels.get("queue") if metric.family in ("sonic", "gnmic") else None
    if metric.family == "dcgm":
        parts = [f"{what} {labels[label]}" for what, label in (("instance", "GPU_I_ID"), ("nvlink", "nvlink"), ("vgpu", "vgpu")) if labels.get(label)]
        queue = " ".join(parts) or None
    raw = _labelled(name, labels) if metric.labelled else name
    return Key(_subject(name, labels, metric, guids), raw, metric.meaning, queue=queue, flags=flags, float64=True)


def has_entity(labels: Mapping[str, str]) -> bool:
    """Whether labels name a device of a network or a GPU."""
    device = labels.get("device", "")
    named = any(label in labels for label in _ENTITY[1:]) or (bool(device) and "port" in labels)
    return named or device_kind_of(device) in ("rdma", "switch-port")


def _subject(name: str, labels: Mapping[str, str], metric: Metric, guids: Mapping[str, str]) -> Subject:
    family = metric.family
    if family == "fabric":
        return _of_fabric(name, labels, guids)
    if family == "component":
        return _of_component(labels)
    node = _node(labels)
    if family == "infiniband":
        return Subject("rdma", labels.get("device"), node=node, node_kind="host", port=_number(labels.get("port")))
    if family == "netdev":
        return Subject("netdev", labels.get("device") or labels.get("interface"), node=node, node_kind="host")
    if family == "dcgm":
        return _of_gpu(labels)
    if family == "snmp":
        port = next((labels[label] for label in ("ifName", "ifDescr", "ifAlias", "ifIndex") if labels.get(label)), None)
        return Subject("switch-port", port, node=labels.get("sysName") or node, node_kind="switch")
    if family == "sonic":
        return Subject("switch-port", labels.get("device") or labels.get("interface"), node=node, node_kind="switch")
    if family == "gnmic":
        return Subject("switch-port", labels["interface_name"], node=node_name(labels.get("source")) or node, node_kind="switch")
    if family == "telegraf":
        return _of_telegraf(name, labels)
    return _unknown(labels, node)


def _of_fabric(name: str, labels: Mapping[str, str], guids: Mapping[str, str]) -> Subject:
    """infiniband_exporter reads a whole fabric from one machine: its `instance` is not what is counted."""
    guid, port = guid_of(labels.get("guid")), _number(labels.get("port"))
    if name.startswith("infiniband_switch_"):
        known = labels.get("switch") or guids.get(guid or "")
        return Subject("switch-port" if port is not None else "switch", None, node=known or guid, node_kind="switch", port=port, uid=guid)
    host, device = _adapter(labels.get("hca") or guids.get(guid or ""))
    return Subject("rdma", device, node=host or guid, node_kind="host", port=port, uid=guid)


def _of_component(labels: Mapping[str, str]) -> Subject:
    guid, port = guid_of(labels.get("local_guid")), _number(labels.get("local_port"))
    if labels["component"] == "switch":
        return Subject("switch-port", None, node=labels.get("local_name") or guid, node_kind="switch", port=port, uid=guid)
    host, device = _adapter(labels.get("local_name"))
    return Subject("rdma", device, node=host or guid, node_kind="host", port=port, uid=guid)


def _of_gpu(labels: Mapping[str, str]) -> Subject:
    stated = labels.get("Hostname")
    named = next((labels[label] for label in _NODE[:4] if labels.get(label) and not _NUMBER.fullmatch(labels[label])), None)
    if named is None and stated and not _EXPORTERS_POD.fullmatch(stated):
        named = stated
    return Subject("gpu", labels.get("gpu"), node=named or _node(labels), node_kind="host", uid=labels.get("UUID") or labels.get("uuid"))


def _of_telegraf(name: str, labels: Mapping[str, str]) -> Subject:
    node: str | None = labels["host"]
    kind: Literal["rdma", "gpu", "netdev"] = "rdma" if name.startswith("infiniband_") else "gpu" if "index" in labels else "netdev"
    device = labels.get("device") if kind == "rdma" else labels.get("index") if kind == "gpu" else labels.get("interface")
    port = _number(labels.get("port")) if kind == "rdma" else None
    return Subject(kind, device, node=node, node_kind="host", port=port, uid=labels.get("uuid"))


def _unknown(labels: Mapping[str, str], node: str | None) -> Subject:
    device = next((labels[label] for label in _ENTITY if labels.get(label)), None)
    port = labels.get("port")
    if "gpu" in labels:
        return Subject("gpu", labels["gpu"], node=node, node_kind="host", uid=labels.get("UUID"))
    kind = device_kind_of(device or "")
    if kind != "other":
        return Subject(kind, device, node=node, node_kind="switch" if kind == "switch-port" else "host", port=_number(port) if kind == "rdma" else None)
    if device is None and port and not _number(port):
        device = port
    return Subject("other", device, node=node, port=_number(port))


def _node(labels: Mapping[str, str]) -> str | None:
    for label in _NODE:
        text = labels.get(label)
        if text and not (label == "node" and _NUMBER.fullmatch(text)):
            return _host(text)
    return None


@lru_cache(maxsize=65_536)
def _host(text: str) -> str:
    """An address that was scraped, without scheme, path and port."""
    url = _URL.fullmatch(text)
    host = url[1] if url is not None else text
    if host.startswith("["):
        return host[1:].partition("]")[0]
    port = _PORT.fullmatch(host)
    return port[1] if port is not None and ":" not in port[1] else host


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def _adapter(text: str | None) -> tuple[str | None, str | None]:
    """Host and device of an adapter's description: `node7 mlx5_0`, `node7 HCA-1`."""
    m = _ADAPTER.fullmatch(text.strip()) if text else None
    return (m[1], m[2]) if m is not None else (text or None, None)


def _labelled(name: str, labels: Mapping[str, str]) -> str:
    """The name with the labels that tell its series of one device apart."""
    rest = {k: v for k, v in labels.items() if k not in _TARGET and k not in _ENTITY and k not in ("port", "UUID", "queue", "pci_bus_id", "modelName")}
    return f"{name}{{{','.join(f'{k}={v}' for k, v in sorted(rest.items()))}}}" if rest else name
