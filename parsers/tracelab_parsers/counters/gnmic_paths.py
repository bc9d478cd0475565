"""Paths of gNMI and the entities that their keys name: interfaces, queues, priorities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from tracelab_parsers.counters.values import is_digits

__all__ = ["Entity", "entity", "flatten", "list_items", "node_name", "plain_names", "tags_of_elements", "xpath"]

_ELEMENT = re.compile(r"((?:[^/\[\\]|\\.)*)((?:\[(?:[^\]\\]|\\.)*\])*)(?:/|$)")
_KEY = re.compile(r"\[([^=\]]*)=((?:[^\]\\]|\\.)*)\]")
_PORT = re.compile(r"(?<=[^:]):\d{1,5}$|(?<=\]):\d{1,5}$|^:\d{1,5}$")
_ITEM = re.compile(r"\.\d+(?=/)")
_LIST_KEYS = ("name", "id", "interface-id", "interface-name", "port-id", "queue-id", "index", "dot1p", "if-name")
_DEVICE = re.compile(
    r"(?:(?:phys-?)?(?:interface|port|ifc?|ethernet|phys-?if-list)[_-])?(?:interface-?name|interface-?id|port-?id|port-?name|if-?name|ifdescr)"
    r"|(?:interface|port|phys-?if-list|ethernet|if-list)_(?:name|id)|interface|ifname|port",
    re.IGNORECASE,
)
_QUEUE = re.compile(r"(?:\w+-)?queue(?:-list)?[_-](?:name|id|number|queue-id|index)|queue", re.IGNORECASE)
_PRIORITY = re.compile(r"(?:[\w-]+_)?(?:dot1p|pfc-priority|priority)|pfc-priority_(?:index|id)", re.IGNORECASE)
_SUB = re.compile(r"subinterface_(?:index|id)|subinterface", re.IGNORECASE)
_DEEPEST = 24
_MOST_PRIORITY = 7


class Entity(NamedTuple):
    """What a record speaks of, by its tags."""

    device: str | None
    queue: str | None
    priority: int | None
    sub: str | None
    component: str | None


@lru_cache(maxsize=16_384)
def xpath(text: str) -> tuple[str, dict[str, str]]:
    """A path with keys in brackets as the plain path and tags `<element>_<key>`."""
    names, tags = [], {}
    for m in _ELEMENT.finditer(text):
        if not m[0]:
            break
        name = m[1]
        names.append(name)
        tags.update({f"{name.rpartition(':')[2]}_{k[1]}": re.sub(r"\\(.)", r"\1", k[2]) for k in _KEY.finditer(m[2])})
    return "/".join(names), tags


def tags_of_elements(path: object) -> tuple[str, dict[str, str]]:
    """A path of protobuf's JSON form as the plain path and tags."""
    if not isinstance(path, dict):
        return "", {}
    names, tags = [], {}
    for element in path.get("elem") or ():
        if not isinstance(element, dict):
            continue
        name = str(element.get("name") or "")
        names.append(name)
        keys = element.get("key")
        if isinstance(keys, dict):
            tags.update({f"{name.rpartition(':')[2]}_{k}": str(v) for k, v in keys.items()})
    return "/".join(names), tags


@lru_cache(maxsize=65_536)
def plain_names(path: str) -> tuple[str, ...]:
    """The names of a path's elements without modules, lower case, parted by hyphens alone."""
    return tuple(name for part in path.split("/") if (name := part.rpartition(":")[2].lower().replace("_", "-")))


def entity(tags: Mapping[str, str]) -> Entity:
    """The interface, queue, priority, subinterface and component that `tags` name."""
    return _entity(tuple(tags.items()))


@lru_cache(maxsize=65_536)
def _entity(tags: tuple[tuple[str, str], ...]) -> Entity:
    device = queue = sub = component = None
    priority: int | None = None
    for key, value in tags:
        if _QUEUE.fullmatch(key):
            queue = value
        elif _PRIORITY.fullmatch(key) and is_digits(value, 3) and int(value) <= _MOST_PRIORITY:
            priority = int(value)
        elif _SUB.fullmatch(key):
            sub = value
        elif key == "component_name":
            component = value
        elif device is None and _DEVICE.fullmatch(key):
            device = value
    return Entity(device, queue, priority, sub, component)


def node_name(source: object) -> str | None:
    """The machine that a source's address names: without its port."""
    if not isinstance(source, str):
        return None
    return _PORT.sub("", source.strip()).strip("[]") or None


def flatten(path: str, value: object, tags: Mapping[str, str], depth: int = 0) -> Iterator[tuple[str, object, Mapping[str, str]]]:
    """The leaves of a JSON value: path, value, and the tags with the keys of the lists that it lies in. Too deep ones are left out."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for name, child in value.items():
            yield from flatten(f"{path}/{name}", child, tags, depth + 1)
    elif isinstance(value, list):
        element = path.rpartition("/")[2].rpartition(":")[2]
        for item in value:
            if not isinstance(item, dict):
                continue
            plain = {k.rpartition(":")[2]: v for k, v in item.items()}
            own = {f"{element}_{k}": str(plain[k]) for k in _LIST_KEYS if isinstance(plain.get(k), str | int)}
            yield from flatten(path, item, {**tags, **own}, depth + 1)
    else:
        yield path, value, tags


def list_items(values: Mapping[str, Any], tags: Mapping[str, str]) -> Iterator[tuple[str, object, Mapping[str, str]]]:
    """As `flatten`, for values that were flattened before: items of lists are numbered in their paths (`interface.0/state/…`)."""
    for path, value in values.items():
        if isinstance(value, dict | list):
            yield from flatten(path, value, tags)
            continue
        numbered = list(_ITEM.finditer(path))
        if not numbered:
            yield path, value, tags
            continue
        own = {}
        for m in numbered:
            element = path[: m.start()].rpartition("/")[2].rpartition(":")[2]
            stated = next((v for k in _LIST_KEYS if (v := values.get(f"{path[: m.end()]}/{k}")) is not None), m[0][1:])
            own[f"{element}_name"] = str(stated)
        yield _ITEM.sub("", path), value, {**tags, **own}
