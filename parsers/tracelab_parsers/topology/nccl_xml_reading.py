"""NCCL's tree of a machine to distances of GPUs and adapters.

The tree: system / cpu (numaid, host_hash) / pci (busid, class) nested by bridges / gpu (dev), or nic / net (name, speed in Mb/s, port,
guid), as ncclTopoGetXmlFromSys of NCCL (graph/xml.cc) builds it. Files of providers hold pci elements alone.
"""

from __future__ import annotations

import re
from collections import Counter

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import ADAPTER_PATHS, INTERFACES
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.notices import NoticeText as _Text
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.topology.nccl_xml_tree import Element, read_tree

__all__ = ["Reading"]

_AGAIN = "let NCCL write the file again (NCCL_TOPO_DUMP_FILE)"
_CHECK = "check where the file comes from"
_TEXTS: dict[str, _Text] = {
    "doctype": _Text("error", "the file declares a document type, which NCCL's do not; nothing after it was read", _CHECK),
    "too-many-elements": _Text("warning", "the file has more or deeper elements than any machine; the rest was not read", _CHECK),
    "bad-xml": _Text("warning", "the file breaks the rules of XML; what came before was kept", _AGAIN),
    "truncated": _Text("warning", "the file ends before its last element does; what came before was kept", _AGAIN),
    "search-graphs": _Text("info", "the file holds search graphs of NCCL, which say nothing of wiring", "dump the topology instead (NCCL_TOPO_DUMP_FILE)"),
    "unclassed-devices": _Text("info", "devices state no class: GPUs and adapters among them are not known", "use the dump of a job, no provider's file"),
    "unnamed-adapters": _Text("info", "the file names no adapters, only their PCI addresses", "add a copy of /sys/class/infiniband or the dump of a job"),
    "several-machines": _Text("info", "the file holds several machines, told apart by their hash"),
    "bad-attribute": _Text("warning", "attributes that are no usable numbers were read as missing"),
    "no-topology": _Text("warning", "the file holds no GPUs beside adapters", _AGAIN),
}
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_ADAPTER_CLASSES = {"0x0200": "Ethernet", "0x0207": "InfiniBand"}
_PCI = re.compile(r"(?:0x)?0*([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
_GUID = re.compile(r"0x([0-9a-f]{1,16})", re.IGNORECASE)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_MEGABIT = 10**6
_MOST_PAIRS = 1 << 20


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._paths = RowBuffer(ADAPTER_PATHS, emit)
        self._interfaces = RowBuffer(INTERFACES, emit)
        self._counts = Counter[str]()
        self._several = False

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            elements = read_tree(stream, notices.add)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        graphs = sum(e.tag == "graph" for e in elements)
        if elements and elements[0].tag == "graphs":
            notices.add("search-graphs", 0)
        else:
            self._machine(elements)
            notices.add("no-topology", 0, int(not self._counts["paths"]))
        self._paths.flush()
        self._interfaces.flush()
        notices.emit(self._emit)
        counts = [EventCount(kind, n, stored=True) for kind, n in sorted(self._counts.items()) if n]
        counts += [EventCount("graphs", graphs, stored=False)] if graphs else []
        return SourceInfo([], event_counts=counts, truncated=torn or "truncated" in notices)

    def _machine(self, elements: list[Element]) -> None:
        self._several = len({e.attributes.get("host_hash") for e in elements if e.tag == "cpu"}) > 1
        self._notices.add("several-machines", None, int(self._several))
        devices = [e for e in elements if e.tag == "pci"]
        stated = [e for e in elements if e.tag == "gpu"]
        gpus = stated or [e for e in devices if e.attributes.get("class", "")[:6].lower() in _GPU_CLASSES]
        named = [e for e in elements if e.tag == "net"]
        adapters = named or [e for e in devices if e.attributes.get("class", "")[:6].lower() in _ADAPTER_CLASSES]
        self._notices.add("unclassed-devices", None, sum("class" not in e.attributes and not e.children for e in devices))
        self._notices.add("unnamed-adapters", None, 0 if named else len(adapters))
        guids = Counter(e.attributes.get("guid") for e in named)
        for adapter in adapters:
            self._adapter(adapter, guids)
        for gpu in gpus:
            for adapter in adapters:
                if _machine_of(gpu) == _machine_of(adapter) and self._counts["paths"] < _MOST_PAIRS:
                    self._path(gpu, adapter)

    def _path(self, gpu: Element, adapter: Element) -> None:
        self._counts["paths"] += 1
        self._paths.add(
            line=gpu.line,
            node=self._node(gpu),
            gpu=self._number(gpu, "dev", 31) if gpu.tag == "gpu" else None,
            gpu_pci=_address(gpu),
            device=adapter.attributes.get("name") or None,
            device_pci=_address(adapter),
            path=_distance(gpu, adapter),
            origin="nccl-topology",
        )

    def _adapter(self, adapter: Element, guids: Counter[str | None]) -> None:
        self._counts["interfaces"] += 1
        name, guid = adapter.attributes.get("name") or None, _guid(adapter.attributes.get("guid"))
        speed = self._number(adapter, "speed", 40) if adapter.tag == "net" else None
        address, cpu = _address(adapter), _above(adapter, "cpu")
        numa = self._number(cpu, "numaid", 31) if cpu is not None else None
        merged = name is not None and "+" in name
        port = self._number(adapter, "port", 31) if adapter.tag == "net" else None
        # NCCL states the GUID of the card. It is that of the port only where the card has no other, and for its first function.
        own = guid is not None and guids[adapter.attributes.get("guid")] == 1 and (address or "").endswith(".0") and not merged
        self._interfaces.add(
            line=adapter.line,
            node=self._node(adapter),
            node_kind="host",
            device=name if guid is not None else None,
            netdev=name if guid is None else None,
            port=port if port and not merged else None,
            uid=guid if own else None,
            pci=address,
            numa=numa if numa is not None and numa >= 0 else None,
            speed_bps=speed * _MEGABIT if speed is not None and speed > 0 else None,
            link_layer=_ADAPTER_CLASSES.get(adapter.attributes.get("class", "")[:6].lower()),
            origin="nccl-topology",
        )

    def _node(self, element: Element) -> str | None:
        return _machine_of(element) if self._several else None

    def _number(self, element: Element, name: str, bits: int) -> int | None:
        text = element.attributes.get(name)
        if text is None:
            return None
        value = int(text) if _WHOLE.fullmatch(text.strip()) else None
        if value is None or not -(1 << bits) <= value < 1 << bits:
            self._notices.add("bad-attribute")
            return None
        return value


def _above(element: Element, tag: str) -> Element | None:
    """The nearest element of that tag, the one itself included."""
    at: Element | None = element
    while at is not None and at.tag != tag:
        at = at.parent
    return at


def _machine_of(element: Element) -> str | None:
    cpu = _above(element, "cpu")
    return None if cpu is None else cpu.attributes.get("host_hash")


def _address(element: Element) -> str | None:
    """PCI address of the device that the element is of, as 0000:0f:00.0."""
    device = _above(element, "pci")
    m = _PCI.fullmatch(device.attributes.get("busid", "")) if device is not None else None
    return None if m is None else f"{m[1][-4:] if not m[1][:-4].strip('0') else m[1]}:{m[2]}:{m[3]}.{m[4]}".lower()


def _guid(text: str | None) -> str | None:
    """The GUID as adapters print it: NCCL prints the 64 bits as they lie in memory, the last byte first. None for 0, which sockets have."""
    m = _GUID.fullmatch((text or "").strip())
    value = int(m[1], 16) if m is not None else 0
    return value.to_bytes(8, "little").hex() if value else None


def _bridges(element: Element) -> tuple[list[Element], Element | None]:
    """PCI bridges above the device of the element, nearest first, and its CPU."""
    device = _above(element, "pci")
    found: list[Element] = []
    at = device.parent if device is not None else element
    while at is not None and at.tag != "cpu":
        if at.tag == "pci":
            found.append(at)
        at = at.parent
    return found, at


def _distance(gpu: Element, adapter: Element) -> str:
    """PIX where both hang on one bridge, PXB where one is above both, PHB on one CPU (the tree does not show host bridges), else SYS."""
    (ours, cpu), (theirs, other) = _bridges(gpu), _bridges(adapter)
    if ours and theirs and ours[0] is theirs[0]:
        return "PIX"
    if any(a is b for a in ours for b in theirs):
        return "PXB"
    return "PHB" if cpu is not None and cpu is other else "SYS"
