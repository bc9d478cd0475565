"""The parser of what gnmic writes, as the plugin registry knows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tracelab.plugins import Emitter, Match, SourceFile, SourceInfo, SourceKind
from tracelab.tables import COUNTER_SAMPLES, TableSpec

__all__ = ["PARSER", "GnmicParser"]

_HINT = re.compile(rb'"(?:timestamp|update|updates|sync-response|syncResponse)"\s*:')
_PROTO = re.compile(rb'^\s*\[?\s*\{\s*"update"\s*:\s*\{\s*"timestamp"\s*:\s*"\d{16,19}"\s*,\s*"(?:prefix|update)"\s*:')
_JSON = re.compile(
    rb'^\s*\[?\s*\{\s*"source"\s*:\s*"[^"]*"\s*,\s*(?:"system-name"\s*:\s*"[^"]*"\s*,\s*)?"subscription-name"\s*:\s*"[^"]*"\s*,\s*"timestamp"\s*:\s*\d{16,19}'
)
_EVENT = re.compile(
    rb'^\s*\[?\s*\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"timestamp"\s*:\s*\d{16,19}\s*,\s*"tags"\s*:\s*\{[^{}]*"(?:source|subscription-name)"[^{}]*\}\s*,\s*"values"\s*:'
)


class GnmicParser:
    """Reads gNMI notifications as gnmic prints them: event, json and protojson, one array, one per line or over many lines."""

    name = "gnmic"
    version = 2
    title = "gNMI notifications (gnmic: event, json, protojson)"
    kind: SourceKind = "fabric"
    tables: tuple[TableSpec, ...] = (COUNTER_SAMPLES,)
    option_names: tuple[str, ...] = ()

    def sniff(self, path: Path, head: bytes) -> Match | None:  # noqa: ARG002 - notifications are told by their content
        """See `tracelab.plugins.Parser.sniff`."""
        if _HINT.search(head) is None:
            return None
        from tracelab_parsers.counters.gnmic_records import head_records

        shapes = [_shape(r) for r in head_records(head)]
        if shapes and all(shapes) and set(shapes) != {"sync"}:
            return Match(1.0, f"gNMI notifications in the form {next(s for s in shapes if s != 'sync')}")
        if not shapes and any(p.match(head) for p in (_PROTO, _JSON, _EVENT)):
            return Match(0.95, "begins as a long gNMI notification")
        return None

    def parse(self, source: SourceFile, emit: Emitter) -> SourceInfo:
        """See `tracelab.plugins.Parser.parse`."""
        from tracelab_parsers.counters.gnmic_reading import Reading

        return Reading(source, emit).run()


def _shape(record: dict[str, Any]) -> str:
    """The form that a record has; empty where it is no notification."""
    if set(record) <= {"sync-response", "syncResponse", "extension"}:
        return "sync" if record else ""
    notification = record.get("update")
    if isinstance(notification, dict) and "timestamp" in notification and ("update" in notification or "delete" in notification):
        return "protojson"
    if not isinstance(record.get("timestamp"), int | str):
        return ""
    updates = record.get("updates")
    if isinstance(updates, list) and ("source" in record or "subscription-name" in record or "prefix" in record or "time" in record):
        return "json" if all(isinstance(u, dict) and "Path" in u and "values" in u for u in updates) else ""
    if isinstance(record.get("deletes"), list) and ("source" in record or isinstance(record.get("tags"), dict)):
        return "event" if "tags" in record else "json"
    tags, values = record.get("tags"), record.get("values")
    if isinstance(tags, dict) and isinstance(values, dict) and set(record) <= {"name", "timestamp", "tags", "values", "deletes"}:
        paths = any("/" in k for k in values)
        return "event" if paths or "subscription-name" in tags or ("source" in tags and not values) else ""
    return "event" if isinstance(tags, dict) and set(record) == {"name", "timestamp", "tags"} and "subscription-name" in tags else ""


PARSER = GnmicParser()
