"""Rows of counters and interfaces from the outputs of SONiC's commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tracelab.plugins import Emitter
from tracelab.tables import INTERFACES
from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.sonic_cli_values import read_cell
from tracelab_parsers.counters.switch_moments import moment_in
from tracelab_parsers.counters.switch_transcript import Context
from tracelab_parsers.counters.switch_values import adjusted, vendor
from tracelab_parsers.counters.writing import Samples, Subject
from tracelab_parsers.nccl_json.notices import Notices
from tracelab_parsers.nccl_json.rows import RowBuffer

__all__ = ["Rows", "Where", "port_in"]

_STATES = {"U": 1.0, "UP": 1.0, "D": 0.0, "X": 0.0, "DOWN": 0.0}
_PORT = re.compile(r"(?:Ethernet|PortChannel|etp)[\w/:.-]*\d[\w/:.-]*|(?:\w+GigE)\d+(?:/\d+)*")
_SPEED = re.compile(r"([\d.]+) ?([MG])", re.ASCII)
Kind = Literal["switch-port", "switch", "other"]


@dataclass(frozen=True, slots=True)
class Where:
    """What holds for all numbers of an output."""

    context: Context
    since_clear: bool = False
    interval_ns: int | None = None


class Rows:
    """Gathers the rows of a file."""

    def __init__(self, emit: Emitter, notices: Notices) -> None:
        self._notices = notices
        self.samples = Samples(emit)
        self._interfaces = RowBuffer(INTERFACES, emit)
        self.interfaces = self.texts = 0

    def number(
        self,
        line: int,
        where: Where,
        kind: Kind,
        device: str | None,
        name: str,
        meaning: Meaning,
        text: str,
        *,
        queue: str | None = None,
        priority: int | None = None,
    ) -> None:
        """One cell: a number, nothing (N/A), or what is no number, which is counted and kept as missing."""
        try:
            cell = read_cell(text)
        except ValueError:
            self._notices.add("bad-number")
            cell = read_cell("N/A")
        delta = where.interval_ns is not None
        flags = [f for f, on in (("since-clear", where.since_clear and meaning.stated_kind == "counter"), ("rounded", cell.rounded)) if on]
        context = where.context
        subject = Subject(kind, device, node=context.node, node_kind="switch")
        exact = adjusted(meaning, cell.scale, delta=delta)
        self.samples.add(
            line,
            subject,
            name,
            exact,
            cell.number,
            ts_ns=context.ts_ns,
            quality=context.quality,
            interval_ns=where.interval_ns if exact.kind == "delta" else None,
            priority=priority,
            queue=queue,
            flags="+".join(flags) or None,
        )
        if cell.share is not None:
            share = vendor(f"{name} share", meaning.direction, "percent", "gauge")
            self.samples.add(line, subject, name, share, cell.share, ts_ns=context.ts_ns, quality=context.quality, queue=queue)

    def state(self, line: int, where: Where, device: str, name: str, text: str) -> None:
        """A state of a link: U, D or X (switched off)."""
        value = _STATES.get(text.upper())
        if value is None and text.upper() != "N/A":
            self._notices.add("bad-number")
        context = where.context
        subject = Subject("switch-port", device, node=context.node, node_kind="switch")
        self.samples.add(line, subject, name, Meaning("link_up", width=0), value, ts_ns=context.ts_ns, quality=context.quality)

    def moment(self, line: int, where: Where, device: str, name: str, text: str, priority: int | None) -> None:
        """A moment in a cell (`01/10/2008, 21:20:00`, month first), as seconds since 1970 in the switch's zone."""
        m = re.fullmatch(r"(\d\d)/(\d\d)/(\d{4}), (\d\d:\d\d:\d\d)", text)
        at = moment_in(f"{m[3]}-{m[1]}-{m[2]} {m[4]}") if m is not None else None
        if at is None and text.upper() != "N/A":
            self._notices.add("bad-number")
        context = where.context
        subject = Subject("switch-port", device, node=context.node, node_kind="switch")
        value = None if at is None else at.ns / 1e9
        meaning = vendor(name, "rx", None, "gauge")
        self.samples.add(line, subject, name, meaning, value, ts_ns=context.ts_ns, quality=context.quality, priority=priority, flags="local-time")

    def interface(self, line: int, context: Context, cells: dict[str, str]) -> None:
        """A row of `show interfaces status`."""
        self.interfaces += 1
        speed = _SPEED.match(cells.get("Speed", ""))
        lanes, bond, kind = cells.get("Lanes", ""), cells.get("Vlan", ""), cells.get("Type", "")
        oper, mtu = cells.get("Oper", ""), cells.get("MTU", "")
        self._interfaces.add(
            line=line,
            node=context.node,
            node_kind="switch",
            netdev=cells.get("Interface"),
            alias=_stated(cells.get("Alias", "")),
            speed_bps=round(float(speed[1]) * (1e9 if speed[2] == "G" else 1e6)) if speed is not None else None,
            lanes=lanes.count(",") + 1 if re.fullmatch(r"\d+(?:,\d+)*", lanes) else None,
            mtu=int(mtu) if re.fullmatch(r"\d{1,6}", mtu, re.ASCII) else None,
            link_layer="Ethernet",
            up=oper == "up" if oper in ("up", "down") else None,
            bond=bond if bond.startswith("PortChannel") else None,
            cable=_stated(kind),
            origin="table",
        )

    def flush(self) -> None:
        """Emits what is held."""
        self.samples.close()
        self._interfaces.flush()


def port_in(command: str | None) -> str | None:
    """The one port that a command names."""
    found = [word for word in (command or "").split() if _PORT.fullmatch(word)]
    return found[0] if len(found) == 1 else None


def _stated(text: str) -> str | None:
    return text if text.strip() and text.strip().upper() != "N/A" else None
