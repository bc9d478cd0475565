"""Cisco's model-driven telemetry in the JSON form of its protobuf messages (self-describing GPB): points as Telegraf makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracelab_parsers.counters.telegraf_lines import Point, held
from tracelab_parsers.nccl_json.values import mapping, text, whole

__all__ = ["points_of_message"]

_DEEPEST = 32
_NAMES = ("interfaceName", "interface-name", "interface_name", "interface", "ifName", "name")


def points_of_message(message: dict[str, Any]) -> list[Point]:
    """One point for each object of the message that states numbers or an interface; its keys, and those of objects around it, are tags."""
    path = text(message.get("encodingPath")) or ""
    outer = {"source": text(message.get("nodeIdStr")) or "", "path": path}
    found: list[Point] = []
    rows = message.get("dataGpbkv")
    for row in rows if isinstance(rows, list) else ():
        stamp = whole(mapping(row).get("timestamp")) or whole(message.get("msgTimestamp"))
        parts = {str(mapping(f).get("name")): f for f in _children(row)}
        keys = {k: str(v) for k, v in _scalars(parts.get("keys", {})).items()}
        found.extend(_points(path, {**outer, **keys}, parts.get("content", {}), stamp, 0))
    return found


def _points(path: str, tags: dict[str, str], field: object, stamp: int | None, depth: int) -> Iterator[Point]:
    if depth > _DEEPEST:
        return
    fields: dict[str, object] = _scalars(field)
    name = next((str(fields[k]) for k in _NAMES if isinstance(fields.get(k), str)), None)
    inner = tags if name is None else {**tags, "interface_name": name}
    if fields:
        yield Point(path, inner, fields, stamp)
    for child in _children(field):
        if isinstance(child, dict) and isinstance(child.get("fields"), list):
            yield from _points(path, inner, child, stamp, depth + 1)


def _children(field: object) -> list[Any]:
    children = mapping(field).get("fields")
    return children if isinstance(children, list) else []


def _scalars(field: object) -> dict[str, object]:
    """Named values directly below a field. Whole numbers of 64 bits are printed as text."""
    out: dict[str, object] = {}
    for child in _children(field):
        if not isinstance(child, dict) or not isinstance(child.get("name"), str):
            continue
        for kind, value in child.items():
            if kind.endswith("Value"):
                number = whole(value, 65) if kind.startswith(("uint", "sint", "int")) else None
                out[child["name"]] = number if number is not None else held(value) if kind in ("doubleValue", "floatValue") else value
                break
    return out
