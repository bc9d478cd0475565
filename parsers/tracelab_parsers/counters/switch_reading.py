"""What the readers of JSON outputs of switches share: a session's documents one by one, rows of numbers, interfaces and neighbours."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, Literal

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import INTERFACES
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.switch_transcript import Context, transcript
from tracelab_parsers.counters.switch_values import SWITCH_TEXTS, bodies, json_number
from tracelab_parsers.counters.writing import Samples, Subject
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.nccl_json.values import decode
from tracelab_parsers.topology.lldp_json import json_neighbours
from tracelab_parsers.topology.lldp_rows import LldpRows

__all__ = ["JsonReading"]

_NO_PLUG = re.compile(r"(?:port-?channel|vlan|bdi|loopback|tunnel|vxlan|nve|null|po\d)", re.IGNORECASE)


class JsonReading(ABC):
    """Reads `source` and gives rows and notices to `emit`. A reader of one system says in `body` what an output holds."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self.notices = Notices(SWITCH_TEXTS)
        self._samples = Samples(emit)
        self._interfaces = RowBuffer(INTERFACES, emit)
        self._lldp = LldpRows(emit)
        self._counts = {"interfaces": 0, "texts": 0}
        self.records = 0
        self.context = Context()
        self.node: str | None = None

    @abstractmethod
    def body(self, value: dict[str, Any]) -> bool:
        """Reads one output; whether it is of a known form."""

    def heading(self, text: str) -> bool:  # noqa: ARG002 - most systems have prompts alone
        """Whether a line between the outputs tells something of the next one; a reader that knows such lines keeps what it tells."""
        return False

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self.notices
        with ByteStream(self._source.path) as stream:
            for item in transcript(stream, lambda offset: notices.add("line-too-long", offset)):
                if item.context.node != self.context.node:
                    self.node = item.context.node
                self.context = item.context
                if item.document is None:
                    notices.add("unread-lines", None, int(bool(item.text.strip()) and not self.heading(item.text)))
                    continue
                value = decode(item.document, notices.add if item.whole else None)
                if value is None:
                    notices.add("bad-json" if item.whole else "truncated")
                for body in bodies(value):
                    notices.add("unknown-output", None, int(not self._body(body)))
                self._emit.progress(stream.file_position)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            return self._finish(torn=stream.torn)

    def _body(self, body: dict[str, Any]) -> bool:
        context = Context(self.node, self.context.command, self.context.ts_ns, self.context.quality)
        neighbours = json_neighbours(0, context, body)
        for heard in neighbours or ():
            self.records += 1
            heard.line = self.records
            self._lldp.add(heard)
        known = self.body(body)
        return known or neighbours is not None

    def _finish(self, *, torn: bool) -> SourceInfo:
        self._samples.close()
        self._interfaces.flush()
        self._lldp.flush()
        counts = {
            "numbers": self._samples.count,
            "interfaces": self._counts["interfaces"] + self._lldp.interfaces,
            "cables": self._lldp.cables,
        }
        self.notices.add("no-counters", 0, int(not any(counts.values())))
        self.notices.emit(self._emit)
        events = [EventCount(kind, n, stored=True) for kind, n in counts.items() if n]
        if self._counts["texts"]:
            events.append(EventCount("texts", self._counts["texts"], stored=False))
        return SourceInfo([], event_counts=events, truncated=torn or "truncated" in self.notices)

    def number(
        self,
        device: str,
        name: str,
        meaning: Meaning,
        value: object,
        *,
        ts_ns: int | None = None,
        queue: str | None = None,
        priority: int | None = None,
        flags: str | None = None,
    ) -> None:
        """One number of the record being read; what is none is counted and kept as missing. Its moment is the device's, or that of the session."""
        try:
            number = json_number(value)
        except ValueError:
            self.notices.add("bad-number")
            number = None
        quality: Literal["device", "file", "local"] | None = "device" if ts_ns is not None else self.context.quality
        moment = ts_ns if ts_ns is not None else self.context.ts_ns
        subject = self._subject(device)
        self._samples.add(self.records, subject, name, meaning, number, ts_ns=moment, quality=quality, queue=queue, priority=priority, flags=flags)

    def state(self, device: str, name: str, *, up: bool | None, ts_ns: int | None = None) -> None:
        """The state of a link as a number."""
        quality: Literal["device", "file", "local"] | None = "device" if ts_ns is not None else self.context.quality
        value = None if up is None else float(up)
        moment = ts_ns if ts_ns is not None else self.context.ts_ns
        self._samples.add(self.records, self._subject(device), name, Meaning("link_up", width=0), value, ts_ns=moment, quality=quality)

    def _subject(self, device: str) -> Subject:
        """A port; bundles count their members' packets again, and interfaces without a plug count none of the wire."""
        kind: Literal["switch-port", "other"] = "other" if _NO_PLUG.match(device) or "." in device else "switch-port"
        return Subject(kind, device, node=self.node, node_kind="switch")

    def text(self) -> None:
        """Counts a field that is neither a number nor told of an interface."""
        self._counts["texts"] += 1

    def interface(self, **values: object) -> None:
        """A row of interfaces."""
        self._counts["interfaces"] += 1
        self._interfaces.add(line=self.records, node=self.node, node_kind="switch", link_layer="Ethernet", origin="table", **values)
