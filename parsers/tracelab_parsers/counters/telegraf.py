"""The parser of what Telegraf writes, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, TableSpec

__all__ = ["PARSER", "TelegrafParser"]

_STAMPED = re.compile(rb" \d{10,19}\s*$")
_KEYS = {"fields", "name", "tags", "timestamp"}
_MDT = re.compile(rb'"dataGpbkv"\s*:\s*\[')
_LINES = 20


class TelegrafParser:
    """Reads line protocol and JSON of Telegraf (infiniband, net, ethtool, gnmi, snmp, nvidia_smi, cisco_telemetry_mdt), and Cisco's telemetry itself."""

    name = "telegraf"
    version = 2
    title = "Telegraf (line protocol, JSON), Cisco model-driven telemetry (JSON)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES,)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - the user chooses the name
        """See `tracelab.plugins.Parser.sniff`."""
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] in (b"{", b"["):
            return _sniff_json(text)
        first = text.partition(b"\n")[0]
        return _sniff_lines(text, len(head)) if b"=" in first or first.startswith((b"#", b"> ")) else None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.telegraf_reading import Reading

        return Reading(source, emit).run()


def _sniff_json(head: bytes) -> Match | None:
    from tracelab_parsers.counters.gnmic_records import head_records

    if b'"encodingPath"' in head and _MDT.search(head) is not None:
        return Match(1.0, "Cisco's model-driven telemetry as JSON")
    if b'"fields"' not in head:
        return None
    found = head_records(head)
    return Match(1.0, "metrics as Telegraf's JSON output prints them") if found and all(_is_point(r) for r in found) else None


def _is_point(record: dict[str, Any]) -> bool:
    return set(record) == _KEYS and isinstance(record["fields"], dict) and isinstance(record["tags"], dict) and isinstance(record["timestamp"], int)


def _sniff_lines(head: bytes, size: int) -> Match | None:
    """Line protocol: the first lines are nothing else, and one of them at least states its moment and has tags."""
    from tracelab_parsers.counters.telegraf_lines import UnendedError, point
    from tracelab_parsers.counters.telegraf_points import plugin_of

    lines = [line.strip() for line in head.split(b"\n")]
    if size >= 1 << 16 and len(lines) > 1:
        lines.pop()  # cut by the head
    lines = [line for line in lines if line and not line.startswith(b"#")][:_LINES]
    stamped, plugins = 0, set()
    for line in lines:
        try:
            found = point(line.decode("utf-8", "replace").removeprefix("> "))
        except UnendedError:
            continue
        except ValueError:
            return None
        stamped += found.stamp is not None and bool(found.tags) and _STAMPED.search(line) is not None
        plugins.add(plugin_of(found))
    if not stamped:
        return None
    named = sorted(p for p in plugins if p is not None)
    return Match(1.0, f"line protocol of {', '.join(named)}") if named else Match(0.8, "line protocol")


PARSER = TelegrafParser()
