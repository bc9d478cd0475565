"""Switches and blocks of topology.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

__all__ = ["LARGEST_FILE", "YamlError", "groups_of_yaml"]

LARGEST_FILE = 4 << 20
"""Bytes of a topology of either form."""
_LARGEST_YAML = 1 << 20
"""Bytes; 10,000 nodes, each on a line of its own, have a fifth of it. Reading it takes seconds."""
_LISTS: tuple[tuple[str, str, str, Literal["switch", "block"]], ...] = (
    ("tree", "switches", "switch", "switch"),
    ("block", "blocks", "block", "block"),
    ("ring", "rings", "ring", "block"),
)


class YamlError(ValueError):
    """What is no YAML, or no YAML that is safe to read."""


def groups_of_yaml(text: bytes) -> Iterator[tuple[int, str, Literal["switch", "block"], str | None, str | None]]:
    """Number of the record, name, kind, nodes and switches below, of every group in order. Raises `YamlError`."""
    document = _load(text)
    record = 0
    for topology in document if isinstance(document, list) else [document]:
        if not isinstance(topology, dict):
            continue
        for kind, many, one, means in _LISTS:
            inner = topology.get(kind)
            groups = inner.get(many) if isinstance(inner, dict) else None
            for group in groups if isinstance(groups, list) else ():
                record += 1
                if isinstance(group, dict) and group.get(one) is not None:
                    yield record, str(group[one])[:256], means, _list(group.get("nodes")), _list(group.get("children"))


def _list(value: object) -> str | None:
    """A list of hosts as one text, also where the YAML lists them one by one."""
    if isinstance(value, list):
        return ",".join(str(v) for v in value if isinstance(v, str | int))
    return str(value) if isinstance(value, str | int) else None


def _load(text: bytes) -> Any:
    """The document. Aliases are refused: nested, they make gigabytes of a few lines."""
    import yaml  # type: ignore[import-untyped]

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("alias")
            return super().compose_node(parent, index)

    if len(text) > _LARGEST_YAML:
        raise YamlError("too large")
    try:
        return yaml.load(text.decode("utf-8", "replace"), Loader)  # noqa: S506 - a safe loader, made stricter
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError, KeyError) as e:
        raise YamlError(str(e)) from e
