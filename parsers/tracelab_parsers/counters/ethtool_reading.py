"""One pass over the text of the network tools of one host, or of several whose lines a parallel shell has marked."""

from __future__ import annotations

import re

from tracelab.plugins import Emitter, EventCount, SourceFile, SourceInfo
from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.counters.ethtool_session import STARTS, Session, is_netdev
from tracelab_parsers.counters.host_output import Output
from tracelab_parsers.nccl_json.lines import lines
from tracelab_parsers.topology.slurm_hostlist import HostlistError, expand

__all__ = ["Reading"]

_LONGEST = 1 << 16
_MOST_HOSTS = 10_000
_MARKED = re.compile(r"(?P<node>(?=[\w.-]*[A-Za-z])[A-Za-z0-9][\w.-]{0,252}): ?(?P<rest>.*)")
_RULE = re.compile(r"-{8,}")
_GROUP = re.compile(r"(?P<nodes>[A-Za-z0-9][\w.,\[\]-]*)(?: \(\d+\))?")


class Reading:
    """Reads `source` and gives rows and notices to `emit`."""

    def __init__(self, source: SourceFile, emit: Emitter) -> None:
        self._source, self._emit = source, emit
        self._out = Output(emit)
        self._current = [Session(self._out)]
        self._hosts: dict[str, Session] = {}
        self._after_rule = False

    def run(self) -> SourceInfo:
        """Emits all rows and notices, and describes the file. Raises `OSError` where it cannot be read."""
        notices, cut = self._out.notices, None
        with ByteStream(self._source.path) as stream:
            for line in lines(stream, lambda offset: notices.add("line-too-long", offset), _LONGEST):
                text = line.text.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").rstrip("\r")
                if (self._after_rule or text[:8] == "--------") and self._headed(text):
                    continue
                sessions, text = self._owners(text)
                if not line.whole and sessions[0].counts and text[-1:].isdigit() and self._out.counters:
                    cut = line.offset  # a number that may have lost digits is another number
                    continue
                for session in sessions:
                    session.read(line.number, line.offset, text)
                self._emit.progress(stream.file_position)
            for session in (*self._current, *self._hosts.values()):
                session.end()
            notices.damage(stream.damage)
            torn = stream.torn or cut is not None
        if cut is not None:
            notices.add("truncated", cut)
        self._out.close()
        counts = [EventCount("counters", self._out.counters, True), EventCount("interfaces", self._out.interfaces, True)]
        return SourceInfo([], event_counts=[c for c in counts if c.count], truncated=torn)

    def _owners(self, text: str) -> tuple[list[Session], str]:
        """The sessions that a line belongs to, and the line without its mark: `node7: NIC statistics:`, as pdsh and clush print it."""
        marked = _MARKED.fullmatch(text) if text[:1] not in " \t" else None
        if marked is None:
            return self._current, text
        session = self._hosts.get(marked["node"])
        if session is None and STARTS.match(marked["rest"]) and len(self._hosts) < _MOST_HOSTS:
            session = self._hosts[marked["node"]] = Session(self._out, marked["node"])
        return (self._current, text) if session is None else ([session], marked["rest"])

    def _headed(self, text: str) -> bool:
        """Whether the line is of a head as dshbak prints it: a host's name, or those of several that printed the same, between two rules."""
        rule = _RULE.fullmatch(text) is not None
        named = _GROUP.fullmatch(text) if self._after_rule and not rule else None
        self._after_rule = rule
        if named is None or is_netdev(named["nodes"]):
            return rule
        try:
            nodes = expand(named["nodes"])[:_MOST_HOSTS]
        except HostlistError:
            return False
        for session in self._current:
            session.end()
        self._current = [Session(self._out, node) for node in nodes] or self._current
        return True
