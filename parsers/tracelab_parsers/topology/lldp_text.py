"""Neighbours in plain text: lldpctl (keyvalue and plain), and the commands of SONiC, NX-OS and EOS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tracelab_parsers.counters.sonic_cli_tables import Table, headings, is_rule
from tracelab_parsers.counters.switch_transcript import Item
from tracelab_parsers.topology.lldp_rows import Neighbour, kind_by_capabilities

__all__ = ["SONIC_COLUMNS", "TextNeighbours", "sonic_neighbour"]

SONIC_COLUMNS = ("LocalPort", "RemoteDevice", "RemotePortID")
_EOS_COLUMNS = ("Port", "Neighbor Device ID", "Neighbor Port ID")
_KEYVALUE = re.compile(r"lldp\.(.+?)\.(via|rid|age|chassis|port|vlan|ppvid|pi|lldp-med|unknown-tlvs|custom-tlvs|power|dot3)((?:\.[^=]+)?)=(.*)", re.DOTALL)
_KEYS = {
    ("chassis", "name"): "name",
    **dict.fromkeys((("chassis", kind) for kind in ("mac", "local", "ifname", "ip")), "chassis"),
    **dict.fromkeys((("port", kind) for kind in ("ifname", "mac", "local", "ip", "ifalias")), "port"),
    ("port", "descr"): "port_text",
    ("port", "auto-negotiation.current"): "media",
}
_PLAIN = re.compile(r"Interface: +(\S+), via: (\S+)(?:,.*)?")
_FIELD = re.compile(r" *([A-Za-z][\w ]*?): +(\S.*)")
_NXOS_HEAD = re.compile(r"Device ID +Local Intf +Hold-time +Capability +Port ID")
_NXOS_ROW = re.compile(r"(\S.*?) +((?:Eth|mgmt|Ethernet|Po)[\w/.:-]*) +(\d+) +((?:[A-Z,]+ +)?)(\S.*)")
_NXOS_FIELDS = {"Chassis id", "Port id", "Local Port id", "Port Description", "System Name", "System Description", "Enabled Capabilities"}
_TALK = re.compile(
    r"-{3,}|LLDP neighbors:|Capability codes.*|\([A-Z]\) .*|Total entries.*|#.*|Chassis:|Port:|Last table change time.*|Number of table .*", re.DOTALL
)


class TextNeighbours:
    """Takes lines one by one and gives neighbours as soon as they are whole; `close` gives the last one."""

    def __init__(self) -> None:
        self._heard: Neighbour | None = None
        self._enabled: set[str] = set()
        self._locals: set[str] = set()
        self._via = False
        self._form = ""
        self._head: Item | None = None
        self._table: Table | None = None
        self.unread = 0

    def line(self, item: Item) -> Iterator[Neighbour]:
        """The neighbours that this line completes."""
        text = item.text.rstrip()
        if not text.strip():
            return
        if (m := _KEYVALUE.fullmatch(text.strip())) is not None:
            yield from self._keyvalue(item, m)
        elif is_rule(text) and self._head is not None and (table := headings(self._head.text, text, item.context)) is not None:
            self._table = table
            self.unread -= int(_TALK.fullmatch(self._head.text.strip()) is None)
        elif _NXOS_HEAD.fullmatch(text) is not None:
            yield from self.close()
            self._form = "nxos"
        elif (m := _PLAIN.fullmatch(text)) is not None:
            yield from self._next("plain", item, m[1])
        elif self._table is not None and (cells := self._table.cells(text)) is not None and (row := _row(item, self._table, cells)) is not None:
            yield row
        elif self._form == "nxos" and (m := _NXOS_ROW.fullmatch(text)) is not None:
            kind = kind_by_capabilities(set(m[4].strip().replace(",", "")))
            yield Neighbour(item.line, m[2], item.context.node, "switch", m[1], None, kind, m[5])
        elif (m := _FIELD.fullmatch(text)) is not None and self._form in ("nxos", "plain", "detail"):
            yield from self._field(item, m[1], m[2])
        elif self._form != "detail" and _TALK.fullmatch(text.strip()) is None:
            self.unread += 1
        self._head = item

    def close(self) -> Iterator[Neighbour]:
        """The neighbour that is not given yet."""
        heard, self._heard = self._heard, None
        if heard is not None:
            heard.kind = kind_by_capabilities(self._enabled)
            yield heard
        self._enabled = set()

    def _next(self, form: str, item: Item, local: str | None) -> Iterator[Neighbour]:
        yield from self.close()
        self._form = form
        self._heard = Neighbour(item.line, local, item.context.node)

    def _keyvalue(self, item: Item, m: re.Match[str]) -> Iterator[Neighbour]:
        """`lldp.<interface>.<part>[.<name>]=<value>`; each `via` begins another neighbour, of the same interface or of the next."""
        local, part, name, value = m[1], m[2], m[3].removeprefix("."), m[4].strip()
        heard = self._heard
        if heard is not None and heard.local != local and part != "via" and local in self._locals:
            self.unread += 1  # a line about an interface whose neighbour is given already
            return
        if heard is None or heard.local != local or (part == "via" and self._via):
            yield from self._next("keyvalue", item, local)
            heard = self._heard = Neighbour(item.line, local, item.context.node)
            self._via = False
            self._locals.add(local)
        self._via = self._via or part == "via"
        if part == "chassis" and name.endswith(".enabled") and value == "on":
            self._enabled.add(name.split(".", maxsplit=1)[0])
        attribute = _KEYS.get((part, name))
        if attribute is not None:
            setattr(heard, attribute, value)

    def _field(self, item: Item, name: str, value: str) -> Iterator[Neighbour]:
        if name == "Chassis id":
            yield from self._next("detail", item, None)
        heard = self._heard
        if heard is None:
            return
        if self._form == "detail":
            heard.node_kind = "switch"
        if name in ("Chassis id", "ChassisID"):
            heard.chassis = value.split(" ", 1)[-1] if name == "ChassisID" else value
        elif name == "Local Port id":
            heard.local = value
        elif name in ("Port id", "PortID"):
            heard.port = value.split(" ", 1)[-1] if name == "PortID" else value
        elif name in ("Port Description", "PortDescr"):
            heard.port_text = value
        elif name in ("System Name", "SysName"):
            heard.name = value
        elif name == "Enabled Capabilities":
            self._enabled = set(value.split(","))
        elif name == "Capability" and value.endswith(", on"):
            self._enabled.add(value.split(",", maxsplit=1)[0])
        elif name == "MAU oper type":
            heard.media = value


def sonic_neighbour(line: int, node: str | None, columns: Sequence[str], cells: Sequence[str]) -> Neighbour:
    """A row of `show lldp table`."""
    row = dict(zip(columns, cells, strict=True))
    kind = kind_by_capabilities(set(row.get("Capability", "")))
    return Neighbour(line, row["LocalPort"], node, "switch", row["RemoteDevice"], None, kind, row["RemotePortID"], row.get("RemotePortDescr"))


def _row(item: Item, table: Table, cells: list[str]) -> Neighbour | None:
    if table.columns[:3] == SONIC_COLUMNS:
        return sonic_neighbour(item.line, item.context.node, table.columns, cells)
    if table.columns[:3] == _EOS_COLUMNS:
        return Neighbour(item.line, cells[0], item.context.node, "switch", cells[1], None, None, cells[2])
    return None
