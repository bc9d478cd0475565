"""The files of a tree of devices, or their text with paths before it, as counters and interfaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.headings import heading_of
from tracelab_parsers.counters.host_output import Output
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.notices import described
from tracelab_parsers.counters.sysfs_paths import Place, place_of, stated_by
from tracelab_parsers.counters.values import is_digits
from tracelab_parsers.counters.writing import Subject, TimeQuality
from tracelab_parsers.nccl_json.lines import lines

__all__ = ["read_grep", "read_tree"]

_LONGEST_VALUE = 256
_LONGEST_LINE = 1 << 13
_RATE = re.compile(r"([\d.]{1,8}) Gb/sec(?: \((\d{1,3})X)?")
_STATE = re.compile(r"(?:\d: )?(NOP|DOWN|INIT|ARMED|ACTIVE|ACTIVE_DEFER)")
_NETDEV = re.compile(r"[\w.@:-]{1,32}")
_LID = re.compile(r"0x[0-9a-f]{1,8}|\d{1,9}")
_HEAD = re.compile(r"==> (?P<path>\S+) <==")
_COUNTERS = frozenset({"counters", "hw_counters"})
_FACTS = frozenset({"rate", "state", "link_layer", "lid", "node_guid", "node_desc", "gids/0"})
_DESCRIPTION = re.compile(r"(?P<node>(?!localhost\b)[A-Za-z0-9][\w.-]{0,252}) (?P<device>[\w.-]+)")
"""How the system describes an adapter: its host and its name; a maker's text has another form."""
_NO_COUNTERS = frozenset({"lifespan"})
"""How often the hardware refreshes its counters, in ms."""
_FULL_32 = str(2**32 - 1)
_WIDE = frozenset({"bytes", "packets", "xmit_wait_ticks"})
"""The kernel serves them in 32 bits, which stay at the highest value, where the adapter has no wider ones (drivers/infiniband/core/sysfs.c)."""

Key = tuple[str | None, str, int]


class _Snapshots:
    """Rows of the snapshots of one source: counters at once, interfaces when all of their files were seen."""

    def __init__(self, emit: Emitter) -> None:
        self.out = Output(emit)
        self._facts: dict[Key, dict[str, object]] = {}
        self._guids: dict[tuple[str | None, str], str] = {}
        self.ts_ns: int | None = None
        self.quality: TimeQuality | None = None
        self.node: str | None = None

    def wants(self, place: Place) -> bool:
        """Whether the file tells anything that is not known yet."""
        folder, _, leaf = place.name.rpartition("/")
        if folder == "gid_attrs/ndevs":
            facts = self._facts.get((self.node, place.device or "", place.port or 0), {})
            return not facts.get("netdev")
        return (folder in _COUNTERS and leaf not in _NO_COUNTERS) or place.name in _FACTS

    def add(self, line: int, place: Place) -> None:
        """What one file holds."""
        if not self.wants(place):
            return
        text = place.value.strip()
        folder, _, leaf = place.name.rpartition("/")
        if folder in _COUNTERS:
            self._counter(line, place, leaf.partition(",")[0], text)
        if place.device is None:
            return
        if place.port is None:
            guid = _guid(text)
            if leaf == "node_guid" and guid is not None:
                self._guids[self.node, place.device] = guid
            return
        facts = self._facts.setdefault((self.node, place.device, place.port), {"line": line})
        if folder == "gid_attrs/ndevs":
            facts["netdev"] = text if _NETDEV.fullmatch(text) else None
        elif place.name == "gids/0":
            facts["gid"] = _guid(text[-19:])
        elif not folder:
            _learn(facts, leaf, text)

    def described(self, place: Place) -> None:
        """A description of an adapter names the machine of all that follow, where nothing else did."""
        found = _DESCRIPTION.fullmatch(place.value.strip()) if place.name == "node_desc" else None
        if found is not None and (found["device"] == place.device or found["device"].startswith("HCA-")):
            self.node = self.node or found["node"]

    def _counter(self, line: int, place: Place, name: str, text: str) -> None:
        meaning = infiniband_meaning(name)
        flags = ("saturated",) if text == _FULL_32 and _may_be_narrow(name, meaning) else ()
        subject = Subject("rdma", place.device, node=self.node, node_kind="host", port=place.port)
        self.out.number(line, subject, name, meaning, text, self.ts_ns, self.quality, flags)

    def close(self, *, torn: bool) -> SourceInfo:
        """Emits what is left, and describes the source."""
        ports = Counter((node, device) for node, device, _ in self._facts)
        for (node, device, port), facts in self._facts.items():
            gid, guid = facts.pop("gid", None), self._guids.get((node, device))
            infiniband = facts.get("link_layer") != "Ethernet"  # the first address of a RoCE port comes from its MAC, not from its GUID
            uid = gid if gid is not None and infiniband else guid if ports[node, device] == 1 else None
            self.out.interface(node=node, node_uid=guid, device=device, port=port, uid=uid, origin="sysfs", **facts)
        self.out.close()
        counts = [EventCount("counters", self.out.counters, True), EventCount("interfaces", self.out.interfaces, True)]
        return described(counts, self.out.notices, torn=torn)


def _may_be_narrow(name: str, meaning: Meaning) -> bool:
    return meaning.counter in _WIDE and name.startswith("port_")


def _guid(text: str) -> str | None:
    """64 bits as `0c42:a103:0000:0001` or `0x0c42a10300000001`, as digits; None for none and for 0."""
    digits = text.lower().removeprefix("0x").replace(":", "")
    return digits if re.fullmatch(r"[0-9a-f]{16}", digits) and int(digits, 16) else None


def _learn(facts: dict[str, object], leaf: str, text: str) -> None:
    """What a file of a port says of it."""
    if leaf == "rate" and (rate := _RATE.match(text)) and rate[1].count(".") <= 1:
        facts["speed_bps"] = round(float(rate[1]) * 1e9)
        facts["lanes"] = int(rate[2]) if rate[2] else None
    elif leaf == "state" and (state := _STATE.fullmatch(text)) is not None:
        facts["up"] = state[1].startswith("ACTIVE")
    elif leaf == "link_layer" and text in ("InfiniBand", "Ethernet"):
        facts["link_layer"] = text
    elif leaf == "lid" and _LID.fullmatch(text):
        facts["lid"] = (int(text, 16) if text.startswith("0x") else int(text)) & 0xFFFF or None


def read_tree(root: Path, files: Iterable[Path], emit: Emitter) -> SourceInfo:
    """Reads the tree; each file's number in order stands for its line."""
    snapshots = _Snapshots(emit)
    for number, path in enumerate(files, 1):
        place = _place(path.relative_to(root).parts)
        if place is None or not snapshots.wants(place):
            continue
        try:
            with path.open("rb") as f:
                text = f.read(_LONGEST_VALUE).decode("utf-8", "replace")
        except OSError:
            snapshots.out.notices.add("unreadable-value")
            continue
        place = place._replace(value=text.partition("\n")[0])
        snapshots.described(place)
        snapshots.add(number, place)
    return snapshots.close(torn=False)


def _place(parts: tuple[str, ...]) -> Place | None:
    """Which file of the tree it is."""
    if len(parts) > 3 and parts[1] == "ports" and is_digits(parts[2], 3):
        return Place("", parts[0], int(parts[2]), "/".join(parts[3:]), "")
    return Place("", parts[0], None, "/".join(parts[1:]), "") if parts[1:2] != ("ports",) else None


def read_grep(source: SourceFile, emit: Emitter) -> SourceInfo:
    """Reads lines `path:value`, or `==> path <==` above each value, with headings that state moment and machine between snapshots. Raises `OSError`."""
    snapshots = _Snapshots(emit)
    notices = snapshots.out.notices
    headed: str | None = None
    with ByteStream(source.path) as stream:
        for line in lines(stream, lambda offset: notices.add("line-too-long", offset), _LONGEST_LINE):
            text = line.text.decode("utf-8", "replace").rstrip("\r")
            head = _HEAD.fullmatch(text)
            if head is not None:
                headed = head["path"]
                continue
            place = place_of(text if headed is None or not text.strip() else f"{headed}:{text}")
            headed = headed if not text.strip() else None
            if place is None:
                _between(snapshots, text, line.offset)
            elif not line.whole and snapshots.out.counters:  # what is cut may be another number
                notices.add("truncated", line.offset)
            else:
                _snapshot(snapshots, line.number, place)
            emit.progress(stream.file_position)
        notices.damage(stream.damage)
        return snapshots.close(torn=stream.torn)


def _between(snapshots: _Snapshots, text: str, offset: int) -> None:
    """A line that is no file: a heading, or nothing known."""
    heading = heading_of(text)
    if heading is not None:
        if heading.ts_ns is not None:
            snapshots.ts_ns, snapshots.quality = heading.ts_ns, heading.quality
        snapshots.node = heading.node or snapshots.node
    elif text.strip():
        snapshots.out.notices.add("unread-lines", offset)


def _snapshot(snapshots: _Snapshots, line: int, place: Place) -> None:
    """Adds a file; what its folders say goes before what the last heading said."""
    kept = snapshots.node, snapshots.ts_ns, snapshots.quality
    stated = stated_by(place.above)
    snapshots.node = stated.node or snapshots.node
    if stated.moment is not None:
        snapshots.ts_ns, snapshots.quality = stated.moment.ns, "file" if stated.moment.zoned else "local"
    snapshots.add(line, place)
    snapshots.node, snapshots.ts_ns, snapshots.quality = kept
