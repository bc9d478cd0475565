"""One pass over what SONiC's commands printed."""

from __future__ import annotations

import re

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.sonic_cli_outputs import RowReader, json_output, row_reader, title_of
from tracelab_parsers.counters.sonic_cli_rows import Rows, Where, port_in
from tracelab_parsers.counters.sonic_cli_tables import Table, headings, is_rule
from tracelab_parsers.counters.sonic_meanings import CLI_DETAILS, direction_in
from tracelab_parsers.counters.switch_transcript import Context, Item, transcript
from tracelab_parsers.counters.switch_values import SWITCH_TEXTS, vendor
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.values import decode
from tracelab_parsers.topology.lldp_rows import LldpRows
from tracelab_parsers.topology.lldp_text import SONIC_COLUMNS, sonic_neighbour

__all__ = ["Reading"]

_PERIOD = re.compile(r"The rates are calculated within (\d{1,6}) seconds? period")
_NAMESPACE = re.compile(r"For namespace ?([\w.-]*) ?:")
_IN_TITLE = re.compile(r"\(Namespace ([\w.-]+)\)")
_CACHED = re.compile(r"(?:\S+ )?Last cached time(?: for \S+)? was .*")
_DETAIL = re.compile(r"([A-Z][\w /-]*?[a-z\d])\.{3,} ?(\S.*)")
_CLEARED = "Time Since Counters Last Cleared"
_TALK = re.compile(r"(?:Reminder: |Clear and update |Total entries displayed|Capability codes|Channel: |Message published|-{20,}$)")


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(SWITCH_TEXTS)
        self._rows = Rows(emit, self._notices)
        self._lldp = LldpRows(emit)
        self._head: Item | None = None
        self._details: list[tuple[int, str, str]] = []
        self._context = Context()
        self._start()

    def _start(self) -> None:
        """Forgets what holds for one output alone."""
        self._title = ""
        self._namespace: str | None = None
        self._since_clear = False
        self._interval_ns: int | None = None
        self._table: Table | None = None
        self._reader: RowReader | None = None

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices = self._notices
        with ByteStream(self._source.path) as stream:
            for item in transcript(stream, lambda offset: notices.add("line-too-long", offset)):
                self._item(item)
                if item.line % 10_000 == 0:
                    self._emit.progress(stream.file_position)
            self._leave()
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            return self._finish(torn=stream.torn)

    def _finish(self, *, torn: bool) -> SourceInfo:
        self._rows.flush()
        self._lldp.flush()
        counts = {
            "numbers": self._rows.samples.count,
            "interfaces": self._rows.interfaces + self._lldp.interfaces,
            "cables": self._lldp.cables,
        }
        self._notices.add("no-counters", 0, int(not any(counts.values())))
        self._notices.emit(self._emit)
        events = [EventCount(kind, n, stored=True) for kind, n in counts.items() if n]
        return SourceInfo([], event_counts=events, truncated=torn or "truncated" in self._notices)

    def _item(self, item: Item) -> None:
        if item.context != self._context:
            self._leave()
            self._context = item.context
            self._start()
        if item.document is not None:
            self._leave()
            value = decode(item.document, self._notices.add if item.whole else None)
            if value is None:
                self._notices.add("bad-json" if item.whole else "truncated")
            else:
                self._notices.add("unknown-output", None, int(not json_output(self._rows, item.line, item.context, value)))
            return
        if is_rule(item.text) and self._head is not None:
            self._open(self._head, item.text)
            self._head = None
            return
        if self._head is not None:
            self._line(self._head)
        self._head = item

    def _leave(self) -> None:
        """Reads what is held back: the last line of an output, and details that a line at their end explains."""
        if self._head is not None:
            self._line(self._head)
            self._head = None
        self._flush_details()

    def _open(self, head: Item, rule: str) -> None:
        self._flush_details()
        table = headings(head.text, rule, head.context)
        if table is None:
            self._line(head)
            return
        self._table = table.called(self._title, self._namespace, since_clear=self._since_clear, interval_ns=self._interval_ns)
        self._reader = row_reader(self._table)
        if self._reader is None and table.columns[: len(SONIC_COLUMNS)] != SONIC_COLUMNS:
            self._notices.add("unknown-output")

    def _line(self, item: Item) -> None:
        text = item.text
        if not text.strip() or self._stated(text.strip()):
            return
        detail = _DETAIL.fullmatch(text.strip())
        if detail is not None:
            self._details.append((item.line, detail[1], detail[2].strip()))
            return
        table = self._table
        if table is None or _TALK.match(text.strip()):
            self._notices.add("unread-lines", None, int(_TALK.match(text.strip()) is None))
            return
        cells = table.cells(text)
        if not item.whole and (cells is None or len(text) < table.spans[-1][1]):
            self._notices.add("truncated")
        elif cells is None:
            self._notices.add("bad-row" if self._reader is not None else "unread-lines")
        elif self._reader is not None:
            self._reader(self._rows, item.line, table, cells)
        elif table.columns[: len(SONIC_COLUMNS)] == SONIC_COLUMNS:
            self._lldp.add(sonic_neighbour(item.line, table.context.node, table.columns, cells))

    def _stated(self, text: str) -> bool:
        """Takes lines between tables that say something of the next ones."""
        if (period := _PERIOD.fullmatch(text)) is not None:
            self._interval_ns = int(period[1]) * 10**9
        elif (namespace := _NAMESPACE.fullmatch(text)) is not None:
            self._namespace, self._since_clear = namespace[1] or None, False
        elif _CACHED.fullmatch(text) is not None:
            self._since_clear = True
        elif title_of(text) is not None:
            inside = _IN_TITLE.search(text)
            self._title, self._namespace = text, inside[1] if inside is not None else None
        else:
            return False
        self._table = self._reader = None
        return True

    def _flush_details(self) -> None:
        """Rows of `show interfaces counters detailed`, whose last line tells whether the counters were cleared."""
        if not self._details:
            return
        cleared = any(name == _CLEARED and text != "None" for _, name, text in self._details)
        where = Where(self._context, self._since_clear or cleared, self._interval_ns)
        device = port_in(self._context.command)
        for line, name, text in self._details:
            if name == _CLEARED:
                continue
            direction = "rx" if "Received" in name else "tx" if "Transmitted" in name else direction_in(name)
            meaning = CLI_DETAILS.get(name) or vendor(name, direction, "packet")
            self._rows.number(line, where, "switch-port", device, name, meaning, text)
        self._details = []
