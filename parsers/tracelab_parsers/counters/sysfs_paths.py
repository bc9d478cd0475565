"""Lines `path:value` of a tree of devices: which device, port and file, and what the folders above say of machine and moment."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from tracelab_parsers.counters.switch_moments import Moment, moment_in

__all__ = ["Place", "Stated", "place_of", "stated_by"]

_SEPARATOR = r"(?::|[ \t]*=|[ \t])[ \t]*(?:1:(?! ))?"
_NAME = r"(?P<name>(?:counters/|hw_counters/|gid_attrs/ndevs/|gids/)?[\w,.-]+)"
_OF_DEVICE = r"(?P<name>hw_counters/[\w,.-]+|node_guid|node_desc|node_type|sys_image_guid|fw_ver|board_id|hca_type|hw_rev|uevent|dev)"
_ABOVE = r"(?P<above>(?:[^\n]*/|[\w.-]+: )?)"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"{_ABOVE}(?P<device>[A-Za-z][\w.-]*)/ports/(?P<port>\d{{1,3}})/{_NAME}{_SEPARATOR}(?P<value>.*)",
        rf"(?P<above>(?:\./)?)(?P<device>)ports/(?P<port>\d{{1,3}})/{_NAME}{_SEPARATOR}(?P<value>.*)",
        rf"{_ABOVE}(?P<device>[A-Za-z][\w.-]*)/(?P<port>){_OF_DEVICE}{_SEPARATOR}(?P<value>.*)",
    )
)
_MARKED = re.compile(r"(?P<node>[\w.-]+): ?(?=[/.]|$)")
_TREE = frozenset({"sys", "class", "infiniband", "infiniband_verbs", "device", "devices", "", ".", "..", "/"})
_MOMENT = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[T_ -](\d\d)[:.-]?(\d\d)[:.-]?(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"1\d{9}(?:[._]\d{1,9})?")
_NODE = re.compile(r"(?=[^/]*[A-Za-z])(?=[^/]*\d)[A-Za-z0-9][\w.-]{1,252}")
_SERIES = re.compile(r"(?:run|job|jobs|snap|snapshot|step|iter|iteration|sample|test|exp|before|after|round|try|t|v|part|tmp)[-_.]?\d+|pci.*", re.IGNORECASE)
"""Folders that are numbered and no machines."""


class Place(NamedTuple):
    """One file of a tree. `port` is None for what lies above the ports; `above` are the folders above the device."""

    above: str
    device: str | None
    port: int | None
    name: str
    value: str


class Stated(NamedTuple):
    """What folders say; None where they do not."""

    node: str | None
    moment: Moment | None


def place_of(text: str) -> Place | None:
    """The file that the line `text` shows; None where it is no such line."""
    if "/" not in text:
        return None
    found = next((m for form in _FORMS if (m := form.fullmatch(text)) is not None), None)
    if found is None:
        return None
    return Place(found["above"], found["device"] or None, int(found["port"]) if found["port"] else None, found["name"], found["value"])


@lru_cache(maxsize=4096)
def stated_by(above: str) -> Stated:
    """The machine and the moment that the folders `above` a device state; a parallel shell's `node7: /sys/…` states the machine too."""
    marked = _MARKED.match(above)
    node = marked["node"] if marked is not None else None
    moment: Moment | None = None
    for part in reversed(PurePosixPath(above[marked.end() :] if marked is not None else above).parts):
        if part in _TREE:
            continue
        told = _moment(part)
        if told is not None:
            moment = moment or told
        elif node is None and _NODE.fullmatch(part) and not _SERIES.fullmatch(part):
            node = part
    return Stated(node, moment)


def _moment(part: str) -> Moment | None:
    if _EPOCH.fullmatch(part):
        return moment_in(part.replace("_", "."))
    m = _MOMENT.fullmatch(part)
    if m is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = m.groups()
    return moment_in(f"{year}-{month}-{day}T{hour}:{minute}:{second}" + (f".{fraction}" if fraction else "") + (zone or ""))
