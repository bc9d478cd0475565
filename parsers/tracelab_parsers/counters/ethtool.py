"""The parser of what a host's network tools print: ethtool, rdma, ibdev2netdev, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "EthtoolParser"]

_STATISTICS = re.compile(rb"^NIC statistics:[ \t\r]*\n(?:[ \t]+\S[^\n:]*:[ \t]*-?\d+[ \t\r]*\n?)?", re.MULTILINE)
_SETTINGS = re.compile(rb"^Settings for [\w.@:-]+:[ \t\r]*\n\s+\S", re.MULTILINE)
_DRIVER = re.compile(rb"^driver: \S+[^\n]*\nversion: [^\n]*\nfirmware-version: ", re.MULTILINE)
_RDMA = re.compile(rb"^link \w+/\d+ (?:\w+ \d+ ){2}", re.MULTILINE)
_MAP = re.compile(rb"^(?:\S+ )?\w+ port \d+ ==> \S+ \((?:Up|Down)\)", re.MULTILINE)


class EthtoolParser:
    """Reads `ethtool -S`, `ethtool`, `ethtool -i`, `rdma statistic` and `ibdev2netdev`, any number of them one after another."""

    name = "ethtool"
    version = 1
    title = "Host network tools (ethtool, rdma statistic, ibdev2netdev)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the user chooses the name
        """See `tracelab.plugins.Parser.sniff`."""
        for pattern, reason in (
            (_STATISTICS, "statistics as ethtool -S prints them"),
            (_RDMA, "statistics as rdma statistic prints them"),
            (_MAP, "devices as ibdev2netdev lists them"),
            (_SETTINGS, "settings as ethtool prints them"),
            (_DRIVER, "a driver as ethtool -i describes it"),
        ):
            if pattern.search(head):
                return Match(0.9, reason)
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.ethtool_reading import Reading

        return Reading(source, emit).run()


PARSER = EthtoolParser()
