"""The parser of what a host's network tools print: ethtool, rdma, ibdev2netdev, ibstat, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, INTERFACES, TableSpec

__all__ = ["PARSER", "EthtoolParser"]

_MARK = rb"^(?:[\w.-]{1,253}: ?)?"
"""A parallel shell puts the host before each line."""
_NUMBER = rb"[ \t]+\S[^\n:]*(?::[^\n:]*)?:[ \t]*(?:-?\d[\d,]*|0x[0-9a-fA-F]+|N/A)[ \t\r]*$"
_STATISTICS = re.compile(_MARK + rb"[ \t]{0,8}NIC statistics:[ \t\r]*$", re.MULTILINE)
_FILTERED = re.compile(rb"^[^\n]{0,200}\bethtool (?:-S|--statistics) [^\n]{1,200}\n" + _NUMBER, re.MULTILINE)
_SETTINGS = re.compile(_MARK + rb"Settings for [\w.@:-]+:[ \t\r]*\n(?:[\w.-]+:)?\s+\S", re.MULTILINE)
_DRIVER = re.compile(_MARK + rb"driver: \S+[^\n]*\n(?:[\w.-]+: ?)?version: [^\n]*\n(?:[\w.-]+: ?)?firmware-version: ", re.MULTILINE)
_RDMA = re.compile(_MARK + rb"(?:\d+/\d+: )?link [\w.-]+/\d{1,3}(?: (?:\w+ \d+ ){2}| ?\r?\n[ \t]+\w+ \d+ ?\r?\n)", re.MULTILINE)
_LINK = re.compile(_MARK + rb"(?:\d+/\d+: )?link [\w.-]+/\d{1,3} [^\n]{0,200}\bstate [A-Z]+ physical_state [A-Z]", re.MULTILINE)
_MAP = re.compile(_MARK + rb"(?:[0-9a-f:.]{12} )?[\w.-]+ (?:\([^\n]{1,200} )?port \d{1,3}(?: \(\w+\))? ==> \S+ \((?:Up|Down)\)", re.MULTILINE)
_IBSTAT = re.compile(_MARK + rb"CA '[\w.-]+'[ \r]*\n(?:[\w.-]+:)?\s+CA type: ", re.MULTILINE)


class EthtoolParser:
    """Reads `ethtool -S`, `ethtool`, `ethtool -i`, `rdma statistic`, `rdma link`, `ibstat` and `ibdev2netdev`, any number of them one after another.

    Lines may be of one host, or of several as pdsh, clush and dshbak mark them.
    """

    name = "ethtool"
    version = 3
    title = "Host network tools (ethtool, rdma, ibdev2netdev, ibstat)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES, INTERFACES)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the user chooses the name
        """See `tracelab.plugins.Parser.sniff`."""
        for pattern, reason in (
            (_STATISTICS, "statistics as ethtool -S prints them"),
            (_FILTERED, "statistics as ethtool -S prints them"),
            (_RDMA, "statistics as rdma statistic prints them"),
            (_LINK, "devices as rdma link lists them"),
            (_IBSTAT, "adapters as ibstat describes them"),
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
