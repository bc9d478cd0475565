"""A wiring table to cables and interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import CABLES, INTERFACES
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.notices import NoticeText as _Text
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.nccl_json.values import whole
from tracelab_parsers.topology.wiring_columns import Columns, End, Side
from tracelab_parsers.topology.wiring_rows import Begin, head_of, is_rdma, mac_or_guid, pci_address, speed_bps, speed_of_name, split, stated

__all__ = ["Reading"]

_TEXTS: dict[str, _Text] = {
    "no-header": _Text("error", "no line names the columns host, switch and port, or two ends of links", "begin the file with: host,nic,netdev,switch,port"),
    "bad-row": _Text("warning", "rows that do not fit the headings, or name no machine, were left out"),
    "truncated": _Text("warning", "the last row is cut short and was left out", "copy the file again"),
    "no-end-of-line": _Text("info", "the last line has no end; if the file was cut there, its last cell is incomplete"),
    "bad-value": _Text("warning", "cells that should be a speed, a number or an address are none; they were read as missing"),
    "bare-speed": _Text("info", "speeds state no unit: up to 1600 were read as Gb/s, up to 10**9 as Mb/s, above as bit/s", "write 400G or 400000M"),
    "speed-by-name": _Text("info", "speeds were taken from the names of the ports, which state them"),
    "unread-columns": _Text("info", "columns with headings that mean nothing here were not read"),
    "several-ports": _Text("warning", "rows name two different ports of the switch; the first was taken"),
    "no-adapter": _Text("info", "rows name neither adapter nor interface of the host"),
    "line-too-long": _Text("warning", "lines longer than 64 KiB were left out"),
}
_LONGEST = 64 << 10
_UNITS = {"speed-g": 10**9, "speed-m": 10**6, "speed-bit": 1}
_MOST_NAMES = 1 << 20


class _Row(NamedTuple):
    line: int
    offset: int
    cells: list[str]
    whole: bool


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._path: Path = source.path
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._cables = RowBuffer(CABLES, emit)
        self._interfaces = RowBuffer(INTERFACES, emit)
        self._counts = {"cables": 0, "interfaces": 0}
        self._switches: set[str] = set()
        self._told: set[tuple[str, str]] = set()

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        begin = self._begin()
        if begin is None:
            self._notices.add("no-header", 0)
            self._notices.emit(self._emit)
            return SourceInfo([])
        columns = begin.columns
        self._notices.add("unread-columns", None, columns.unread)
        if columns.form == "host":
            self._learn(begin)
        notices = self._notices
        with ByteStream(self._path) as stream:
            for row in self._rows(stream, begin, report=True):
                notices.add("no-end-of-line", row.offset, int(not row.whole))
                self._row(row, columns)
            self._emit.progress(stream.file_position)
            notices.damage(stream.damage)
            torn = stream.torn
        self._cables.flush()
        self._interfaces.flush()
        notices.emit(self._emit)
        counts = [EventCount(kind, n, stored=True) for kind, n in self._counts.items() if n]
        return SourceInfo([], event_counts=counts, truncated=torn or "truncated" in notices)

    def _begin(self) -> Begin | None:
        with ByteStream(self._path) as stream:
            head = stream.read(_LONGEST)
        return head_of(head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").split("\n"))

    def _rows(self, stream: ByteStream, begin: Begin, *, report: bool) -> Iterator[_Row]:
        """Rows below the heading that have its number of cells."""
        width = len(begin.columns.ends)
        for line in lines(stream, lambda offset: self._notices.add("line-too-long", offset, int(report)), _LONGEST):
            text = line.text.decode("utf-8", "replace").strip("\r")
            if line.number <= begin.line or not text.strip() or text.lstrip().startswith("#") or not text.strip("|-+: \t"):
                continue
            cells = split(text, begin.separator)
            if len(cells) > width and not any(cells[width:]):
                del cells[width:]
            if len(cells) == width:
                yield _Row(line.number, line.offset, cells, line.whole)
            elif report:
                self._notices.add("bad-row" if line.whole else "truncated", line.offset)

    def _learn(self, begin: Begin) -> None:
        """Names of switches: one that stands as a host in another row is a switch all the same."""
        at = [n for n, end in enumerate(begin.columns.ends) if end == End("b", "node")]
        with ByteStream(self._path) as stream:
            for row in self._rows(stream, begin, report=False):
                if len(self._switches) < _MOST_NAMES:
                    self._switches.update(row.cells[n] for n in at)

    def _row(self, row: _Row, columns: Columns) -> None:
        values: dict[End, list[str]] = {}
        for end, cell in zip(columns.ends, row.cells, strict=True):
            text = stated(cell)
            if end is not None and text is not None:
                values.setdefault(end, []).append(text)
        a, b = self._machine(values, "a"), self._machine(values, "b")
        if a is None or (b is None and columns.form != "adapters"):
            self._notices.add("bad-row", row.offset)
            return
        speed = self._speed(values, row.offset)
        if speed is None:
            speed = speed_of_name(_first(values, "b", "port")) or speed_of_name(_first(values, "a", "port"))
            self._notices.add("speed-by-name", row.offset, int(speed is not None))
        cable = _first(values, "", "cable")
        if columns.form == "links":
            assert b is not None
            self._link(row, columns, values, (a, b), speed, cable)
            return
        device, netdev = _adapter(values)
        a_kind = "switch" if a in self._switches else "host"
        self._notices.add("no-adapter", row.offset, int(device is None and netdev is None))
        uid = mac_or_guid(_first(values, "a", "guid")) or mac_or_guid(_first(values, "a", "mac"))
        self._host_interface(row, values, a, a_kind, device=device, netdev=netdev, uid=uid, speed=speed, cable=cable)
        if b is None:
            return
        self._switch_address(row, values, "b", b)
        ports = values.get(End("b", "port"), [])
        self._notices.add("several-ports", row.offset, int(len(set(ports)) > 1))
        self._counts["cables"] += 1
        self._cables.add(
            line=row.line,
            a_node=a,
            a_kind=a_kind,
            a_device=device,
            a_port=netdev,
            a_port_uid=uid,
            b_node=b,
            b_kind="switch",
            b_port=ports[0] if ports else None,
            speed_bps=speed,
            cable=cable,
            origin="table",
        )

    @staticmethod
    def _machine(values: dict[End, list[str]], side: Side) -> str | None:
        """Name of the machine at an end; its address where the table has no name."""
        return _first(values, side, "node") or _first(values, side, "address")

    def _host_interface(
        self,
        row: _Row,
        values: dict[End, list[str]],
        node: str,
        kind: str,
        *,
        device: str | None,
        netdev: str | None,
        uid: str | None,
        speed: int | None,
        cable: str | None,
    ) -> None:
        address = _first(values, "a", "address")
        if device is None and netdev is None and address is None:
            return
        self._counts["interfaces"] += 1
        self._interfaces.add(
            line=row.line,
            node=node,
            node_kind=kind,
            device=device,
            netdev=netdev,
            uid=uid,
            pci=pci_address(_first(values, "a", "pci")),
            address=address if address != node else None,
            numa=whole(_first(values, "a", "numa"), 32),
            speed_bps=speed,
            mtu=whole(_first(values, "", "mtu"), 32),
            cable=cable,
            origin="table",
        )

    def _switch_address(self, row: _Row, values: dict[End, list[str]], side: Side, node: str) -> None:
        """The address of a switch, once: collectors of counters may call it by that."""
        address = _first(values, side, "address")
        if address is None or address == node or (node, address) in self._told or len(self._told) >= _MOST_NAMES:
            return
        self._told.add((node, address))
        self._counts["interfaces"] += 1
        self._interfaces.add(line=row.line, node=node, node_kind="switch", address=address, origin="table")

    def _link(self, row: _Row, columns: Columns, values: dict[End, list[str]], nodes: tuple[str, str], speed: int | None, cable: str | None) -> None:
        a, b = nodes
        named = {side: _first(values, side, "port") for side in ("a", "b")}
        rdma = {side: port if port is not None and is_rdma(port) else None for side, port in named.items()}
        for side, node in (("a", a), ("b", b)):
            self._switch_address(row, values, "a" if side == "a" else "b", node)
        self._counts["cables"] += 1
        self._cables.add(
            line=row.line,
            a_node=a,
            a_kind=columns.kinds.get("a"),
            a_device=rdma["a"],
            a_port=None if rdma["a"] else named["a"],
            b_node=b,
            b_kind=columns.kinds.get("b"),
            b_device=rdma["b"],
            b_port=None if rdma["b"] else named["b"],
            speed_bps=speed,
            cable=cable,
            a_tier=columns.tiers.get("a"),
            b_tier=columns.tiers.get("b"),
            origin="table",
        )

    def _speed(self, values: dict[End, list[str]], offset: int) -> int | None:
        for role in ("speed", *_UNITS):
            text = _first(values, "", role)
            if text is None:
                continue
            try:
                speed, guessed = speed_bps(text, _UNITS.get(role))
            except ValueError:
                self._notices.add("bad-value", offset)
                continue
            self._notices.add("bare-speed", offset, int(guessed))
            return speed if speed is None or 0 < speed < 1 << 63 else None
        return None


def _first(values: dict[End, list[str]], side: Side, role: str) -> str | None:
    found = values.get(End(side, role))
    return found[0] if found else None


def _adapter(values: dict[End, list[str]]) -> tuple[str | None, str | None]:
    """RDMA device and network device of a row: a column called nic may hold either, which its name tells."""
    stated_names = values.get(End("a", "nic"), []) + values.get(End("a", "netdev"), [])
    device = next((n for n in stated_names if is_rdma(n)), None)
    netdev = next((n for n in values.get(End("a", "netdev"), []) if not is_rdma(n)), None)
    return device, netdev or next((n for n in stated_names if not is_rdma(n)), None)
