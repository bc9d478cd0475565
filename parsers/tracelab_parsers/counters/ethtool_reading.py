"""One pass over the text of a host's network tools."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import INTERFACES
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.headings import Heading, heading_of
from tracelab_parsers.counters.names_ethernet import ethtool_meaning
from tracelab_parsers.counters.names_infiniband import infiniband_meaning
from tracelab_parsers.counters.notices import TEXTS
from tracelab_parsers.counters.values import read_number
from tracelab_parsers.counters.writing import Samples, Subject, TimeQuality
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer

__all__ = ["Reading"]

_LONGEST = 1 << 16
_SETTINGS = re.compile(r"Settings for (?P<netdev>[\w.@:-]+):")
_SPEED = re.compile(r"Speed: (\d+)Mb/s")
_LANES = re.compile(r"Lanes: (\d+)")
_DRIVER = re.compile(r"(?P<key>driver|version|firmware-version|bus-info): ?(?P<value>.*)")
_RDMA = re.compile(r"(?:\d+/\d+: )?link (?P<device>[\w.-]+)/(?P<port>\d+) (?P<rest>.*)")
_MAP = re.compile(
    r"(?:(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d) )?(?P<device>\w+) port (?P<port>\d+)(?: \([^)]*\))? ==> (?P<netdev>\S+) \((?P<state>Up|Down)\).*"
)
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", re.IGNORECASE)


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source, self._emit = source, emit
        self._samples = Samples(emit)
        self._interfaces = RowBuffer(INTERFACES, emit)
        self._notices = Notices(TEXTS)
        self._rows = 0
        self._ts_ns: int | None = None
        self._quality: TimeQuality | None = None
        self._node: str | None = None
        self._netdev: str | None = None
        self._counting: Subject | None = None
        self._settings: dict[str, object] | None = None
        self._sections: dict[str, Callable[[int, str], bool]] = {"statistics": self._statistic, "settings": self._setting}
        self._section: str | None = None

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            last = None
            for line in lines(stream, lambda offset: self._notices.add("line-too-long", offset), _LONGEST):
                text = line.text.decode("utf-8", "replace").rstrip("\r")
                if line.whole or not self._torn(text):
                    self._read(line.number, line.offset, text)
                else:
                    last = line.offset
                self._emit.progress(stream.file_position)
            self._close()
            self._notices.damage(stream.damage)
            torn = stream.torn
        if last is not None:
            self._notices.add("truncated", last)
        self._samples.close()
        self._interfaces.flush()
        self._notices.add("no-counters", count=int(not self._samples.count + self._rows))
        self._notices.emit(self._emit)
        counts = [EventCount("counters", self._samples.count, True), EventCount("interfaces", self._rows, True)]
        return SourceInfo([], event_counts=[c for c in counts if c.count], truncated=torn or last is not None)

    def _torn(self, text: str) -> bool:
        """Whether the last line, without an end, may have lost digits: a number that is cut is another number."""
        return self._section == "statistics" and text[-1:].isdigit() and self._samples.count > 0

    def _read(self, number: int, offset: int, text: str) -> None:
        if not text.strip():
            return
        if text[0] not in " \t" and (heading := heading_of(text)) is not None:
            self._close()
            self._head(heading)
        elif text.startswith("NIC statistics:"):
            self._close()
            self._section = "statistics"
            self._counting = Subject("netdev", self._netdev, node=self._node, node_kind="host")
        elif (found := _SETTINGS.fullmatch(text.strip())) is not None:
            self._close()
            self._section, self._settings = "settings", {"line": number, "netdev": found["netdev"]}
        elif (found := _RDMA.fullmatch(text.strip())) is not None:
            self._rdma(number, found)
        elif (found := _MAP.fullmatch(text.strip())) is not None:
            self._interface(
                line=number,
                device=found["device"],
                port=int(found["port"]),
                netdev=found["netdev"],
                up=found["state"] == "Up",
                pci=found["pci"],
                origin="ibdev2netdev",
            )
        elif (found := _DRIVER.fullmatch(text)) is not None:
            self._driver(number, found)
        elif self._section is None or not self._sections[self._section](number, text):
            self._notices.add("unread-lines", offset)

    def _head(self, heading: Heading) -> None:
        if heading.ts_ns is not None:
            self._ts_ns, self._quality = heading.ts_ns, heading.quality
        self._node = heading.node or self._node
        if heading.command is not None:
            words = [w for w in heading.command.split() if not w.startswith("-")]
            at = next((n for n, w in enumerate(words) if w.rsplit("/", 1)[-1] == "ethtool"), None)
            self._netdev = words[at + 1] if at is not None and at + 1 < len(words) else None

    def _close(self) -> None:
        """Ends a section; settings that were gathered become a row."""
        if self._settings is not None:
            self._interface(**self._settings, origin="ethtool")
        self._settings, self._section = None, None

    def _statistic(self, number: int, text: str) -> bool:
        name, colon, value = text.rpartition(":")
        name = name.strip()
        if not colon or not name or self._counting is None or text[0] not in " \t":
            return False
        try:
            parsed = read_number(value)
        except ValueError:
            self._notices.add("bad-number")
            parsed = None
        self._samples.add(number, self._counting, name, ethtool_meaning(name), parsed, ts_ns=self._ts_ns, quality=self._quality)
        return True

    def _setting(self, number: int, text: str) -> bool:  # noqa: ARG002 - the row has the line of its first
        if self._settings is None or text[0] not in " \t":
            return False
        text = text.strip()
        if (speed := _SPEED.fullmatch(text)) is not None:
            self._settings["speed_bps"] = int(speed[1]) * 1_000_000
        elif (lanes := _LANES.fullmatch(text)) is not None:
            self._settings["lanes"] = int(lanes[1])
        elif text.startswith("Link detected:"):
            self._settings["up"] = text.endswith("yes")
        return True

    def _driver(self, number: int, found: re.Match[str]) -> None:
        if found["key"] == "bus-info" and self._netdev is not None and _PCI.fullmatch(found["value"]):
            self._interface(line=number, netdev=self._netdev, pci=found["value"].lower(), origin="ethtool")

    def _rdma(self, number: int, found: re.Match[str]) -> None:
        subject = Subject("rdma", found["device"], node=self._node, node_kind="host", port=int(found["port"]))
        words = found["rest"].split()
        for name, value in zip(words[::2], words[1::2], strict=False):
            try:
                parsed = read_number(value)
            except ValueError:
                self._notices.add("bad-number")
                parsed = None
            self._samples.add(number, subject, name, infiniband_meaning(name), parsed, ts_ns=self._ts_ns, quality=self._quality)

    def _interface(self, **values: object) -> None:
        self._rows += 1
        self._interfaces.add(node=self._node, node_kind="host", **values)
