"""The tables and JSON forms of SONiC's commands, told by their headings and keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tracelab_parsers.counters.meanings import Meaning
from tracelab_parsers.counters.sonic_cli_rows import Rows, Where, port_in
from tracelab_parsers.counters.sonic_cli_tables import Table
from tracelab_parsers.counters.sonic_meanings import CLI_TITLES, cli_meaning
from tracelab_parsers.counters.switch_moments import moment_in
from tracelab_parsers.counters.switch_transcript import Context
from tracelab_parsers.counters.switch_values import vendor

__all__ = ["RowReader", "json_output", "row_reader", "title_of"]

RowReader = Callable[[Rows, int, Table, list[str]], None]
_QUEUE = re.compile(r"(?:UC|MC|ALL|VOQ|CPU)\d+")
_GROUP = re.compile(r"PG\d+")
_PFC = re.compile(r"PFC([0-7])")
_TIME_KEYS = frozenset({"time", "cached_time"})
_PORT_KEY = re.compile(r"(?:[\w.-]+\|)*(?:Ethernet|PortChannel|\w+GigE|PORT)[\w/.:-]*")


def title_of(text: str) -> tuple[str, Meaning] | None:
    """The known title that a line is, and what the columns below it count."""
    name = text.partition(":")[0].strip()
    return (name, CLI_TITLES[name]) if name in CLI_TITLES else None


def _where(table: Table) -> Where:
    return Where(table.context, table.since_clear, table.interval_ns)


def _watermark(table_or_command: str, title: str, meaning: Meaning) -> Meaning:
    """Persistent watermarks are cleared by other commands than users', so that they are counters of their own."""
    return vendor(f"persistent {title}", meaning.direction, "byte", "gauge") if "persistent" in table_or_command else meaning


def row_reader(table: Table) -> RowReader | None:
    """What reads the rows of a table with these columns; None for tables of other commands."""
    first, rest = table.columns[0], table.columns[1:]
    if first == "IFACE" and rest:
        return _ports if rest[0] == "STATE" else _router_interfaces
    if first in ("Port Rx", "Port Tx") and all(map(_PFC.fullmatch, rest)):
        return _pauses
    if table.columns[:3] == ("Port", "Priority", "RX Pause Transitions"):
        return _pause_history
    if (first == "Port" and rest[:1] in (("TxQ",), ("Voq",))) or first in ("TxQ", "Voq"):
        return _queues
    if first == "Port" and rest and (all(map(_QUEUE.fullmatch, rest)) or all(map(_GROUP.fullmatch, rest))):
        return _wide
    if table.columns == ("Pool", "Bytes"):
        return _pools
    if table.columns == ("Symbol Errors Per Codeword", "Codewords"):
        return _histogram
    if table.columns[:3] == ("Interface", "Lanes", "Speed"):
        return _status
    return _watchdog if table.columns[:2] == ("QUEUE", "STATUS") else None


def _ports(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    rows.state(line, _where(table), cells[0], "STATE", cells[1])
    for name, text in zip(table.columns[2:], cells[2:], strict=True):
        rows.number(line, _where(table), "switch-port", cells[0], name, cli_meaning(name), text)


def _router_interfaces(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    """Counters of routed interfaces: they may have a port's name, and count other packets than the port does."""
    for name, text in zip(table.columns[1:], cells[1:], strict=True):
        known = cli_meaning(name)
        meaning = vendor(name, known.direction, known.stated_unit, known.stated_kind)
        rows.number(line, _where(table), "other", cells[0], name, meaning, text)


def _pauses(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    meaning = Meaning("pfc_pause_frames", "rx" if table.columns[0].endswith("Rx") else "tx")
    for name, text in zip(table.columns[1:], cells[1:], strict=True):
        rows.number(line, _where(table), "switch-port", cells[0], name, meaning, text, priority=int(name[-1]))


def _pause_history(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    m = _PFC.fullmatch(cells[1])
    priority = int(m[1]) if m is not None else None
    for name, text in zip(table.columns[2:], cells[2:], strict=True):
        if name.endswith("Timestamp"):
            rows.moment(line, _where(table), cells[0], name, text, priority)
        else:
            rows.number(line, _where(table), "switch-port", cells[0], name, cli_meaning(name), text, priority=priority)


def _queues(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    port = cells[0] if table.columns[0] == "Port" else None
    begin = 2 if port is not None else 1
    kind, queue = ("switch-port" if port is not None else "switch"), cells[begin - 1]
    for name, text in zip(table.columns[begin:], cells[begin:], strict=True):
        rows.number(line, _where(table), kind, port or table.namespace, name, cli_meaning(name), text, queue=queue)  # type: ignore[arg-type]


def _wide(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    title, meaning = title_of(table.title) or _title_by_command(table.context.command, table.columns[1])
    meaning = _watermark(table.context.command or "", title, meaning)
    for queue, text in zip(table.columns[1:], cells[1:], strict=True):
        rows.number(line, _where(table), "switch-port", cells[0], title, meaning, text, queue=queue)


def _title_by_command(command: str | None, queue: str) -> tuple[str, Meaning]:
    """What columns of queues or priority groups count where no title says so: a queue has one watermark, a group three numbers."""
    command = command or ""
    if not queue.startswith("PG"):
        kind = "unicast" if queue.startswith("UC") else "multicast" if queue.startswith("MC") else "all"
        title = f"Egress shared pool occupancy per {kind} queue{'s' if kind == 'all' else ''}"
    elif "headroom" in command:
        title = "Ingress headroom per PG"
    elif "shared" in command:
        title = "Ingress shared pool occupancy per PG"
    elif "drop" in command:
        title = "Ingress PG dropped packets"
    else:
        return "PG", vendor("PG", "rx", None, "gauge")
    return title, CLI_TITLES[title]


def _pools(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    title, meaning = title_of(table.title) or ("Bytes", vendor("Bytes", None, "byte", "gauge"))
    meaning = _watermark(table.context.command or "", title, meaning)
    rows.number(line, _where(table), "switch", table.namespace, title, meaning, cells[1], queue=cells[0])


def _histogram(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    meaning = vendor(cells[0], "rx", "event")
    rows.number(line, _where(table), "switch-port", port_in(table.context.command), cells[0], meaning, cells[1])


def _status(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    rows.interface(line, table.context, dict(zip(table.columns, cells, strict=True)))


def _watchdog(rows: Rows, line: int, table: Table, cells: list[str]) -> None:
    """`show pfcwd stats`: a cell holds two numbers, its heading the names of both behind common words."""
    port, _, index = cells[0].rpartition(":")
    status = {"operational": "0", "stormed": "1"}.get(cells[1], cells[1])
    rows.number(line, _where(table), "switch-port", port, "STATUS", vendor("STATUS", "rx", None, "gauge"), status, queue=index)
    for name, text in zip(table.columns[2:], cells[2:], strict=True):
        common, _, names = name.rpartition(" ")
        for part, value in zip(names.split("/"), text.split("/"), strict=False):
            full = f"{common} {part}"
            rows.number(line, _where(table), "switch-port", port, full, cli_meaning(full), value, queue=index)


def json_output(rows: Rows, line: int, context: Context, value: Any) -> int:
    """Reads a JSON form; how many records of it were read."""
    if isinstance(value, list):
        return sum(_json_row(rows, line, context, row) for row in value)
    if not isinstance(value, dict):
        return 0
    if value and all(_QUEUE.fullmatch(k) for k in value):
        return _json_queues(rows, line, Where(context), None, value)
    read = 0
    for port, fields in value.items():
        if isinstance(fields, dict) and _PORT_KEY.fullmatch(port):
            read += _json_port(rows, line, context, port, fields)
    return read


def _json_row(rows: Rows, line: int, context: Context, row: Any) -> int:
    """A row of `show … watermark --json`: Port or Pool, then columns."""
    if not isinstance(row, dict):
        return 0
    where, command = Where(context), context.command or ""
    if "Pool" in row and "Bytes" in row:
        title = ("Headroom pool" if "headroom" in command else "Shared pool") + " maximum occupancy"
        rows.number(line, where, "switch", None, title, _watermark(command, title, CLI_TITLES[title]), _text(row["Bytes"]), queue=_text(row["Pool"]))
        return 1
    queues = [k for k in row if _QUEUE.fullmatch(k) or _GROUP.fullmatch(k)]
    for queue in queues:
        title, meaning = _title_by_command(command, queue)
        meaning = _watermark(command, title, meaning)
        rows.number(line, where, "switch-port", _text(row.get("Port")), title, meaning, _text(row[queue]), queue=queue)
    return int(bool(queues))


def _json_port(rows: Rows, line: int, context: Context, port: str, fields: dict[str, Any]) -> int:
    stated = moment_in(_text(fields.get("time")))
    if stated is not None and context.ts_ns is None:
        context = Context(context.node, context.command, stated.ns, "file" if stated.zoned else "local")
    where = Where(context, since_clear=bool(fields.get("cached_time")))
    queues = {k: v for k, v in fields.items() if isinstance(v, dict)}
    if queues:
        return _json_queues(rows, line, where, port, queues)
    groups = [k for k in fields if _GROUP.fullmatch(k)]
    for name in groups:
        title, meaning = _title_by_command(f"{context.command or ''} drop", name)
        rows.number(line, where, "switch-port", port, title, meaning, _text(fields[name]), queue=name)
    for name, value in fields.items():
        if name == "STATE":
            rows.state(line, where, port, name, _text(value))
        elif name not in _TIME_KEYS and name not in groups:
            rows.number(line, where, "switch-port", port, name, cli_meaning(name), _text(value))
    return 1


def _json_queues(rows: Rows, line: int, where: Where, port: str | None, queues: dict[str, Any]) -> int:
    for queue, fields in queues.items():
        for name, value in fields.items() if isinstance(fields, dict) else ():
            rows.number(line, where, "switch-port" if port else "switch", port, name, cli_meaning(name), _text(value), queue=queue)
    return 1


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int | Decimal) and not isinstance(value, bool) else "N/A" if value is None else "?"
