"""Neighbours in JSON: lldpctl in its three shapes, EOS, NX-OS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracelab_parsers.counters.switch_transcript import Context
from tracelab_parsers.counters.switch_values import address, bodies
from tracelab_parsers.nccl_json.values import mapping, text
from tracelab_parsers.topology.lldp_rows import Neighbour, kind_by_capabilities

__all__ = ["json_neighbours"]

_BARE = frozenset({"via", "chassis", "port"})
_NAMES = ("host", "hostname", "node")


def json_neighbours(line: int, context: Context, value: Any) -> list[Neighbour] | None:
    """The neighbours of a document; None where it is of no known form."""
    found: list[Neighbour] = []
    known = False
    for body in bodies(value):
        for node, inner in _by_host(body, context.node):
            got = _of_body(line, node, inner)
            known = known or got is not None
            found.extend(got or ())
    return found if known else None


def _by_host(body: dict[str, Any], node: str | None) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """The output itself, or those that stand in it under the names of their machines."""
    wrapped = {k: v for k, v in body.items() if isinstance(v, dict) and ("lldp" in v or "lldpNeighbors" in v)}
    if wrapped and "lldp" not in body:
        yield from wrapped.items()
    else:
        yield next((n for k in _NAMES if (n := text(body.get(k))) is not None), node), body


def _of_body(line: int, node: str | None, body: dict[str, Any]) -> list[Neighbour] | None:
    if "lldp" in body:
        return list(_lldpctl(line, node, body["lldp"]))
    if "lldpNeighbors" in body:
        return list(_eos(line, node, body["lldpNeighbors"]))
    for table, row in (("TABLE_nbor_detail", "ROW_nbor_detail"), ("TABLE_nbor", "ROW_nbor")):
        if table in body:
            rows = mapping(body[table]).get(row)
            return [_nxos(line, node, mapping(r)) for r in (rows if isinstance(rows, list) else [rows])]
    return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else value


def _leaf(value: object) -> str | None:
    """Text, or the `value` of an object, alone or first of a list."""
    inner = _first(value)
    return text(inner.get("value") if isinstance(inner, dict) else inner)


def _lldpctl(line: int, node: str | None, value: object) -> Iterator[Neighbour]:
    for part in _list(value):
        for entry in _list(mapping(part).get("interface")):
            if not isinstance(entry, dict):
                continue
            bare = bool(_BARE & entry.keys())
            for name, fields in [(text(entry.get("name")), entry)] if bare else list(entry.items()):
                for single in _list(fields):
                    yield _lldpctl_one(line, node, name, mapping(single))


def _lldpctl_one(line: int, node: str | None, local: str | None, fields: dict[str, Any]) -> Neighbour:
    chassis, port = mapping(_first(fields.get("chassis"))), mapping(_first(fields.get("port")))
    name = _leaf(chassis.get("name"))
    if "id" not in chassis and len(chassis) == 1:
        ((name, inner),) = chassis.items()
        chassis = mapping(inner)
    capabilities = [mapping(c) for c in _list(chassis.get("capability"))]
    enabled = {str(c.get("type")) for c in capabilities if c.get("enabled") in (True, "on")}
    negotiation = mapping(_first(port.get("auto-negotiation")))
    return Neighbour(
        line,
        local,
        node,
        name=name,
        chassis=_leaf(chassis.get("id")),
        kind=kind_by_capabilities(enabled),
        port=_leaf(port.get("id")),
        port_text=_leaf(port.get("descr")),
        media=_leaf(negotiation.get("current")),
    )


def _eos(line: int, node: str | None, value: object) -> Iterator[Neighbour]:
    if isinstance(value, list):
        for row in map(mapping, value):
            yield Neighbour(line, text(row.get("port")), node, "switch", text(row.get("neighborDevice")), port=text(row.get("neighborPort")))
        return
    for local, fields in mapping(value).items():
        heard = _list(mapping(fields).get("lldpNeighborInfo"))
        if not heard:
            yield Neighbour(line, local, node, "switch")
        for info in map(mapping, heard):
            port, enabled = mapping(info.get("neighborInterfaceInfo")), mapping(info.get("systemCapabilities"))
            yield Neighbour(
                line,
                local,
                node,
                "switch",
                text(info.get("systemName")),
                text(info.get("chassisId")),
                kind_by_capabilities({str(k) for k, v in enabled.items() if v is True}),
                text(port.get("interfaceId_v2")) or text(port.get("interfaceId")),
                text(port.get("interfaceDescription")),
            )


def _nxos(line: int, node: str | None, row: dict[str, Any]) -> Neighbour:
    """In the short form, `chassis_id` holds the name of the machine, or its MAC where it has none."""
    chassis, name = text(row.get("chassis_id")), text(row.get("sys_name"))
    if name is None and chassis is not None and address(chassis) is None:
        chassis, name = None, chassis
    enabled = text(row.get("enabled_capability")) or text(row.get("capability")) or ""
    return Neighbour(
        line,
        text(row.get("l_port_id")),
        node,
        "switch",
        name,
        chassis,
        kind_by_capabilities(set(enabled.replace(",", " ").split()) | (set(enabled) if enabled.isupper() else set())),
        text(row.get("port_id")),
        text(row.get("port_desc")),
    )
