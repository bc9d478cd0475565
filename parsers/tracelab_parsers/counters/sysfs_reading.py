"""The files of a tree of devices, or their text with paths before it, as counters and interfaces."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import INTERFACES
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.headings import heading_of
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.notices import TEXTS
from tracelab_parsers.counters.values import read_number
from tracelab_parsers.counters.writing import Samples, Subject, TimeQuality
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer

__all__ = ["read_grep", "read_tree"]

_LONGEST = 256
_RATE = re.compile(r"([\d.]+) Gb/sec(?: \((\d+)X)?")
_LEAF = r"(?P<name>(?:counters/|hw_counters/|gid_attrs/ndevs/)?[\w,.-]+)"
_PATHS = (re.compile(rf"(?:.*/)?(?P<device>[\w.-]+)/ports/(?P<port>\d{{1,3}})/{_LEAF}"), re.compile(r"(?:.*/)?(?P<device>[\w.-]+)/(?P<port>)(?P<name>[\w.-]+)"))
_NO_COUNTERS = frozenset({"lifespan"})
"""How often the hardware refreshes its counters, in ms."""


def _path_of(path: str) -> re.Match[str] | None:
    """Device, port (empty for what lies above the ports) and name."""
    return next((m for pattern in _PATHS if (m := pattern.fullmatch(path)) is not None), None)


class _Snapshot:
    """Rows of one snapshot: counters at once, interfaces when all of their files were seen."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self.samples = Samples(emit)
        self.notices = Notices(TEXTS)
        self._facts: dict[tuple[str, int], dict[str, object]] = defaultdict(dict)
        self._guids: dict[str, str] = {}
        self.ts_ns: int | None = None
        self.quality: TimeQuality | None = None
        self.node: str | None = None

    def add(self, line: int, device: str, port: int | None, name: str, text: str) -> None:
        """One file: `name` is its path below the port, or below the device where `port` is None."""
        text = text.strip()
        folder, _, leaf = name.rpartition("/")
        if port is None:
            if leaf == "node_guid":
                self._guids[device] = re.sub(r"[^0-9a-f]", "", text.lower())
            return
        facts = self._facts[device, port]
        facts.setdefault("line", line)
        if folder in ("counters", "hw_counters"):
            if leaf not in _NO_COUNTERS:
                self._counter(line, device, port, leaf.partition(",")[0], text)
        elif folder == "gid_attrs/ndevs":
            facts.setdefault("netdev", text if re.fullmatch(r"[\w.@:-]{1,32}", text) else None)
        elif leaf == "rate" and (rate := _RATE.match(text)):
            facts["speed_bps"] = int(float(rate[1]) * 1e9)
            facts["lanes"] = int(rate[2]) if rate[2] else None
        elif leaf == "state" and text:
            facts["up"] = text.endswith("ACTIVE")
        elif leaf == "link_layer" and text in ("InfiniBand", "Ethernet"):
            facts["link_layer"] = text
        elif leaf == "lid" and re.fullmatch(r"(?:0x)?[0-9a-f]{1,8}", text):
            facts["lid"] = int(text, 0) or None

    def _counter(self, line: int, device: str, port: int, name: str, text: str) -> None:
        try:
            number = read_number(text) if text.lower() != "n/a (no pma)" else None
        except ValueError:
            self.notices.add("bad-number")
            number = None
        meaning = infiniband_meaning(name)
        full = meaning.saturates and meaning.width and number == 2**meaning.width - 1
        subject = Subject("rdma", device, node=self.node, node_kind="host", port=port)
        self.samples.add(line, subject, name, meaning, number, ts_ns=self.ts_ns, quality=self.quality, flags="saturated" if full else None)

    def close(self, *, truncated: bool = False) -> SourceInfo:
        """Emits what is left, and describes the source."""
        rows = RowBuffer(INTERFACES, self._emit)
        for (device, port), facts in self._facts.items():
            guid = self._guids.get(device)
            only = sum(d == device for d, _ in self._facts) == 1
            rows.add(node=self.node, node_kind="host", device=device, port=port, uid=guid if only and guid and int(guid, 16) else None, origin="sysfs", **facts)
        rows.flush()
        self.samples.close()
        self.notices.add("no-counters", count=int(not self.samples.count + len(self._facts)))
        self.notices.emit(self._emit)
        counts = [EventCount("counters", self.samples.count, True), EventCount("interfaces", len(self._facts), True)]
        return SourceInfo([], event_counts=[c for c in counts if c.count], truncated=truncated)


def read_tree(root: Path, files: Sequence[Path], emit: Emitter) -> SourceInfo:
    """Reads the tree; each file's number in order stands for its line."""
    snapshot = _Snapshot(emit)
    for number, path in enumerate(files, 1):
        found = _path_of(path.relative_to(root).as_posix())
        if found is None:
            continue
        try:
            with path.open("rb") as f:
                text = f.read(_LONGEST).decode("utf-8", "replace")
        except OSError:
            snapshot.notices.add("unreadable-value")
            continue
        snapshot.add(number, found["device"], int(found["port"]) if found["port"] else None, found["name"], text.partition("\n")[0])
    return snapshot.close()


def read_grep(source: SourceFile, emit: Emitter) -> SourceInfo:
    """Reads lines `path:value`, with headings that state a moment and a machine between snapshots. Raises `OSError`."""
    snapshot = _Snapshot(emit)
    with ByteStream(source.path) as stream:
        for line in lines(stream, lambda offset: snapshot.notices.add("line-too-long", offset), 1 << 16):
            text = line.text.decode("utf-8", "replace").rstrip("\r")
            path, colon, value = text.partition(":")
            found = _path_of(path.strip()) if colon else None
            if found is not None and "/" in path:
                if line.whole or not value[-1:].isdigit():
                    snapshot.add(line.number, found["device"], int(found["port"]) if found["port"] else None, found["name"], value)
                else:
                    snapshot.notices.add("truncated", line.offset)
            elif (heading := heading_of(text)) is not None:
                if heading.ts_ns is not None:
                    snapshot.ts_ns, snapshot.quality = heading.ts_ns, heading.quality
                snapshot.node = heading.node or snapshot.node
            elif text.strip():
                snapshot.notices.add("unread-lines", line.offset)
            emit.progress(stream.file_position)
        snapshot.notices.damage(stream.damage)
        torn = stream.torn
    return snapshot.close(truncated=torn)
