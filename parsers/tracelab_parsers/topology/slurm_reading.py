"""Switches and blocks with what lies below them, from either form of SLURM's topology."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab.tables import CABLES
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.nccl_json.notices import Notices, NoticeText
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.topology.slurm_hostlist import HostlistError, expand
from tracelab_parsers.topology.slurm_yaml import LARGEST_FILE, YamlError, groups_of_yaml

__all__ = ["Reading"]

_LINE_BYTES = 1 << 20
_FIELD = re.compile(r"\b(\w{1,40})\s*=\s*(\"[^\"]*\"|\S+)")
_CONF = re.compile(r"\s*(?:SwitchName|BlockName|BlockSizes|TopologyPlugin|TopologyParam)\s*=", re.IGNORECASE)
_MOST_NAMES = 1_000_000
_TEXTS = {
    "bad-line": NoticeText("warning", "lines that name no switch and no block were left out"),
    "unread-words": NoticeText("warning", "words of lines set nothing and were passed over: the file may be cut short there"),
    "bad-hostlist": NoticeText("warning", "lists of hosts cannot be read, or stand for too many; they were left out", "see that the brackets are closed"),
    "bad-yaml": NoticeText("error", "the file is no YAML that can be read; aliases are not followed", "check it with `scontrol reconfigure`"),
    "too-large": NoticeText("error", "the file is larger than any topology; the rest was left out"),
    "line-too-long": NoticeText("warning", "lines longer than any of a topology were left out"),
    "unknown-tier": NoticeText("warning", "switches lie below themselves, or above one that the file does not describe; their tiers are unknown"),
    "no-nodes": NoticeText("warning", "the file names no switch and no block with anything below it"),
}


@dataclass(frozen=True, slots=True)
class Group:
    """A switch, or a block of nodes that no switch is named for, and what lies directly below it, as printed."""

    line: int
    name: str
    kind: Literal["switch", "block"]
    nodes: str | None
    switches: str | None


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source = source
        self._emit = emit
        self._notices = Notices(_TEXTS)
        self._rows = RowBuffer(CABLES, emit)
        self._count = 0
        self._below: dict[str, list[str]] = {}
        self._names = 0

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        with ByteStream(self._source.path) as stream:
            text = stream.read(LARGEST_FILE + 1)
            more = len(text) > LARGEST_FILE
            groups = list(self._groups(text[:LARGEST_FILE]))
            self._notices.add("too-large", LARGEST_FILE, int(more))
            self._emit.progress(stream.file_position)
            self._notices.damage(stream.damage)
            torn = stream.torn
        expanded = [(g, self._expand(g.nodes), self._expand(g.switches)) for g in groups]
        for group, _, switches in expanded:
            if group.kind == "switch":
                self._below.setdefault(group.name, []).extend(switches)
        tiers = _tiers(self._below)
        self._notices.add("unknown-tier", None, sum(t is None for t in tiers.values()))
        for group, nodes, switches in expanded:
            self._group(group, nodes, switches, tiers)
        self._rows.flush()
        self._notices.add("no-nodes", 0, int(not self._count))
        self._notices.emit(self._emit)
        return SourceInfo([], event_counts=[EventCount("cables", self._count, stored=True)] if self._count else [], truncated=torn or more)

    def _groups(self, text: bytes) -> Iterator[Group]:
        stripped = (line.strip() for line in text.split(b"\n"))
        first = next((t for t in stripped if t and not t.startswith(b"#")), b"").decode("utf-8", "replace")
        if _CONF.match(first) is not None:
            yield from self._conf(text)
            return
        try:
            for line, name, kind, nodes, switches in groups_of_yaml(text):
                yield Group(line, name, kind, nodes, switches)
        except YamlError:
            self._notices.add("bad-yaml", 0)

    def _conf(self, text: bytes) -> Iterator[Group]:
        """Lines of topology.conf; a backslash at the end of one joins it with the next."""
        held, start = "", 0
        for line in lines(_Bytes(text), lambda offset: self._notices.add("line-too-long", offset), _LINE_BYTES):
            part = line.text.decode("utf-8", "replace").partition("#")[0].rstrip()
            start = start if held else line.number
            held += part.removesuffix("\\") + (" " if part.endswith("\\") else "")
            if part.endswith("\\") and line.whole and len(held) <= _LINE_BYTES:
                continue
            statement, held = held.strip(), ""
            if not statement:
                continue
            fields = {k.lower(): v.strip('"') for k, v in _FIELD.findall(statement)}
            self._notices.add("unread-words", line.offset, int(bool(_FIELD.sub("", statement).strip())))
            group = _group_of(start, fields)
            if group is not None:
                yield group
            elif not fields.keys() & {"blocksizes", "topologyplugin", "topologyparam"}:
                self._notices.add("bad-line", line.offset)

    def _expand(self, text: str | None) -> list[str]:
        if not text:
            return []
        try:
            names = expand(text)
        except HostlistError:
            names = []
        self._names += len(names)
        if not names or self._names > _MOST_NAMES:
            self._notices.add("bad-hostlist")
            return []
        return names

    def _group(self, group: Group, nodes: list[str], switches: list[str], tiers: Mapping[str, int | None]) -> None:
        """One row for each of what lies below: membership, no port."""
        switch = group.kind == "switch"
        below: list[tuple[str, str, int | None]] = [(n, "host", 0) for n in nodes]
        below += [(n, "switch", tiers.get(n)) for n in switches]
        for name, kind, tier in below:
            self._count += 1
            self._rows.add(
                line=group.line,
                a_node=group.name,
                a_kind="switch" if switch else None,
                a_tier=tiers.get(group.name) if switch else None,
                b_node=name,
                b_kind=kind,
                b_tier=tier,
                origin="slurm",
            )


class _Bytes:
    """Bytes as a stream."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        part = self._data[self._at : self._at + size]
        self._at += len(part)
        return part


def _group_of(line: int, fields: Mapping[str, str]) -> Group | None:
    name = fields.get("switchname") or fields.get("blockname")
    if name is None or not (fields.get("nodes") or fields.get("switches")):
        return None
    return Group(line, name, "switch" if "switchname" in fields else "block", fields.get("nodes"), fields.get("switches"))


def _tiers(below: Mapping[str, list[str]]) -> dict[str, int | None]:
    """Tier of each switch: one above the highest switch below it, 1 without any; None where that has no end.

    Peels the tree from its leaves, so that no depth is too deep.
    """
    tiers: dict[str, int | None] = dict.fromkeys(below)
    above: dict[str, list[str]] = {}
    open_below = {name: len(set(children)) for name, children in below.items()}
    for name, children in below.items():
        for child in set(children):
            above.setdefault(child, []).append(name)
    ready = sorted(name for name, count in open_below.items() if not count)
    highest: dict[str, int] = {}
    while ready:
        name = ready.pop()
        tiers[name] = tier = highest.get(name, 0) + 1
        for parent in above.get(name, ()):
            highest[parent] = max(highest.get(parent, 0), tier)
            open_below[parent] -= 1
            if not open_below[parent]:
                ready.append(parent)
    return tiers
