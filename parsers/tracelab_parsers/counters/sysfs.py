"""The parser of copies of `/sys/class/infiniband`, as the plugin registry knows it: a tree, or the text of `grep -r .` over it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

from tracelab.plugins import Emitter, Gathering, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "SysfsParser"]

_GREP = re.compile(rb"^(?:[^\n:]*/)?[\w.-]+/ports/\d{1,3}/(?:counters|hw_counters)/[\w,.-]+:[ \t]*(?:\d+|N/A)", re.MULTILINE)
_VALUE = re.compile(rb"\s*(?:\d{1,20}|N/A[^\n]{0,80})\s*")
_COUNTERS = ("counters", "hw_counters")
_DEPTH = 5
_MOST = 100_000
"""A host has some dozens of ports with some dozens of counters each."""


class SysfsParser:
    """Reads all devices of one tree as one snapshot. Names of folders above the tree are not its business."""

    name = "sysfs-infiniband"
    version = 1
    title = "InfiniBand and RoCE devices (/sys/class/infiniband)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:
        """See `tracelab.plugins.Parser.sniff`. Of a tree, only the first file is claimed."""
        if _GREP.search(head):
            return Match(0.95, "counters of a device, as grep -r prints them")
        if not _VALUE.fullmatch(head[:200]) or _tree_of(path) is None:
            return None
        return Match(0.9, "the counters of a device's ports")

    def companions(self, path: Path) -> Gathering | None:
        """See `tracelab.plugins.WithCompanions`."""
        root = _tree_of(path)
        return None if root is None else Gathering(root, _files_of(root))

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.sysfs_reading import read_grep, read_tree

        root = _tree_of(source.path)
        return read_grep(source, emit) if root is None else read_tree(root, _files_of(root), emit)


def _tree_of(path: Path) -> Path | None:
    """The folder that holds the devices, where `path` is the first of its counters; else None."""
    parents = path.parents
    if len(parents) < _DEPTH or parents[0].name not in _COUNTERS or parents[2].name != "ports" or not parents[1].name.isdigit():
        return None
    return parents[4] if _first_counter(str(parents[4])) == str(path) else None


@lru_cache(maxsize=1024)
def _first_counter(root: str) -> str | None:
    """The first counter of a tree, by names: asked for each of its files, and answered once."""
    return next((str(p) for p in _files_of(Path(root)) if p.parent.name in _COUNTERS), None)


def _files_of(root: Path) -> tuple[Path, ...]:
    """The files of all devices below `root`, in order; links are not followed."""
    return tuple(islice(_walk(root), _MOST))


def _walk(root: Path) -> Iterator[Path]:
    try:
        devices = sorted(d.name for d in root.iterdir() if (d / "ports").is_dir())
    except OSError:
        return
    for device in devices:
        for folder, folders, files in os.walk(root / device):
            folders.sort()
            yield from (Path(folder, name) for name in sorted(files))


PARSER = SysfsParser()
