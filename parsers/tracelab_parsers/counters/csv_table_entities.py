"""Cells of a row that say who is counted: the machine, the device and what on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from tracelab_parsers.counters.csv_table_description import TableDescription
from tracelab_parsers.counters.csv_table_plan import Role
from tracelab_parsers.counters.device_kinds import device_kind_of
from tracelab_parsers.counters.gnmic_paths import node_name
from tracelab_parsers.counters.meanings import Direction
from tracelab_parsers.counters.writing import Subject

__all__ = ["Entity", "entity_of"]

_NUMBER = re.compile(r"\d{1,9}")
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{12,16})")
_PRIORITY = re.compile(r"(?:pfc|prio|priority|pri|tc|p)?_?([0-7])", re.IGNORECASE)
_WAYS: dict[str, Direction] = {**dict.fromkeys(("rx", "in", "receive", "ingress", "input"), "rx"), **dict.fromkeys(("tx", "out", "transmit", "egress"), "tx")}


class Entity(NamedTuple):
    """Who is counted, and on what of it. `name`: the counter that the row names."""

    subject: Subject
    priority: int | None
    queue: str | None
    direction: Direction | None
    name: str | None


def entity_of(cells: Mapping[Role, str], told: TableDescription, *, gpu: bool) -> Entity:
    """The entity of a row. `gpu`: the table counts GPUs."""
    stated = {role: text.strip() for role, text in cells.items() if text.strip()}
    priority = _PRIORITY.fullmatch(stated.get("priority", ""))
    direction = _WAYS.get(stated.get("direction", "").lower())
    return Entity(_subject(stated, told, gpu=gpu), int(priority[1]) if priority else None, stated.get("queue"), direction, stated.get("name"))


def _subject(stated: Mapping[Role, str], told: TableDescription, *, gpu: bool) -> Subject:
    node = node_name(stated.get("switch") or stated.get("node"))
    uid = _uid(stated.get("uid"))
    if gpu:
        return Subject("gpu", stated.get("gpu") or stated.get("device"), node=node, node_kind="host", uid=uid)
    device, port = _device(stated)
    if node is None and "interface" in stated and device != stated.get("device"):
        node = node_name(stated.get("device"))
    kind = told.device_kind or device_kind_of(device or "")
    if kind == "other" and ("switch" in stated or told.node_kind == "switch"):
        kind = "switch-port" if device is not None or port is not None else "switch"
    node_kind: Literal["host", "switch"] | None = told.node_kind
    if node_kind is None and kind != "other":
        node_kind = "switch" if kind in ("switch-port", "switch") else "host"
    return Subject(kind, device, node=node, node_kind=node_kind, port=port, uid=uid)


def _device(stated: Mapping[Role, str]) -> tuple[str | None, int | None]:
    """Name of the device, and number of its port. A port that is no number is the device."""
    port, device, interface = stated.get("port"), stated.get("device"), stated.get("interface")
    number = int(port) if port is not None and _NUMBER.fullmatch(port) else None
    if device is not None and device_kind_of(device) != "other":
        return device, number
    if interface is not None:
        return interface, number
    if port is not None and number is None:
        return port, None
    return device, number


def _uid(text: str | None) -> str | None:
    """An address without its separators; other texts as they are."""
    m = _HEX.fullmatch(re.sub(r"[:.-]", "", text)) if text else None
    return m[1].lower() if m is not None else text
