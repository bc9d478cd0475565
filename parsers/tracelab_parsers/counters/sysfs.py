"""The parser of copies of `/sys/class/infiniband`, as the plugin registry knows it: a tree, or the text of `grep -r .` over it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tracelab.plugins import Emitter, Gathering, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, INTERFACES, TableSpec
from tracelab_parsers.counters.values import is_digits

__all__ = ["PARSER", "SysfsParser"]

_COUNTER = rb"(?:[^\n]{0,1000}/)?ports/\d{1,3}/(?:counters|hw_counters)/[\w,.-]+"
_GREP = re.compile(rb"^" + _COUNTER + rb"(?::|[ \t]*=|[ \t])[ \t]*(?:1:)?(?:\d{1,20}[ \t\r]*$|N/A)", re.MULTILINE)
_HEAD = re.compile(rb"^==> " + _COUNTER + rb" <==[ \t\r]*\n(?:\d{1,20}[ \t\r]*$|N/A)", re.MULTILINE)
_VALUE = re.compile(rb"\s*(?:\d{1,20}|N/A[^\n]{0,80})\s*")
_COUNTERS = ("counters", "hw_counters")
_DEPTH = 5
_SHORT = 200
_MOST = 100_000
"""A host has some dozens of ports with some dozens of counters each, and some hundreds of addresses of ports."""


class SysfsParser:
    """Reads all devices of one tree as one snapshot. Names of folders above the tree are not its business."""

    name = "sysfs-infiniband"
    version = 3
    title = "InfiniBand and RoCE devices (/sys/class/infiniband)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`. Of a tree, only the first file that holds a number is claimed."""
        if _GREP.search(head) or _HEAD.search(head):
            return Match(0.95, "counters of devices, with the path before each")
        if not _VALUE.fullmatch(head[: _SHORT + 1]) or _tree_of(path) is None:
            return None
        return Match(0.9, "the counters of a device's ports")

    def companions(self, path: Path) -> Gathering | None:
        """See `tracelab.plugins.WithCompanions`."""
        root = _tree_of(path)
        return None if root is None else Gathering(root, tuple(islice(_walk(root), _MOST)))

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.sysfs_reading import read_grep, read_tree

        root = _tree_of(source.path)
        return read_grep(source, emit) if root is None else read_tree(root, islice(_walk(root), _MOST), emit)


def _tree_of(path: Path) -> Path | None:
    """The folder that holds the devices, where `path` is the first of its counters; else None."""
    if not _is_counter(path):
        return None
    # the folder of the file is looked at first: it tells most files apart from the first one
    if any(p.name < path.name and _holds_number(p) for p in _folder(path.parent)):
        return None
    root = path.parents[4]
    first = next((p for p in _walk(root) if _is_counter(p) and _holds_number(p)), None)
    return root if first == path else None


def _is_counter(path: Path) -> bool:
    """Whether the path is that of a counter of a port: mlx5_0/ports/1/counters/link_downed."""
    parents = path.parents
    return len(parents) >= _DEPTH and parents[0].name in _COUNTERS and is_digits(parents[1].name, 3) and parents[2].name == "ports"


def _holds_number(path: Path) -> bool:
    try:
        if not path.is_file():  # opening a pipe or a device could block for ever
            return False
        with path.open("rb") as f:
            return _VALUE.fullmatch(f.read(_SHORT + 1)) is not None
    except OSError:
        return False


def _folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _walk(root: Path) -> Iterator[Path]:
    """The regular files of all devices below `root`, in order; links to folders are not followed."""
    devices = sorted(d.name for d in _folder(root) if (d / "ports").is_dir())
    for device in devices:
        for folder, folders, files in os.walk(root / device):
            folders.sort()
            yield from (path for name in sorted(files) if (path := Path(folder, name)).is_file())


PARSER = SysfsParser()
