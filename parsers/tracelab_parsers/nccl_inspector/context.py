"""Which communicator and process a record belongs to.

Until format 4.2 every record says so. Since 4.3 only the first record of a dump (`dump_stats`) does, for those that follow it,
which it counts.
"""

from __future__ import annotations

from typing import Any

from tracelab_parsers.nccl_json.values import mapping, natural

__all__ = ["DumpContext"]

_COUNTS = {"coll_perf": "coll_records", "p2p_perf": "p2p_records", "proxy_trace": "proxy_records"}


class DumpContext:
    """Follows the dumps of one file. `missing` counts records that dumps announced and that did not follow."""

    def __init__(self) -> None:
        self._header: dict[str, Any] = {}
        self._metadata: dict[str, Any] = {}
        self._due: dict[str, int] = {}
        self.missing = 0

    def begin(self, record: dict[str, Any]) -> None:
        """A dump begins with `record`."""
        self.end()
        stats = mapping(record.get("dump_stats"))
        self._header, self._metadata = mapping(record.get("header")), mapping(record.get("metadata"))
        self._due = {kind: natural(stats.get(key)) or 0 for kind, key in _COUNTS.items()}

    def end(self) -> bool:
        """The dump is over, or the file: whether all of it was there."""
        missing = sum(self._due.values())
        self.missing += missing
        self._due = {}
        return not missing

    def of(self, record: dict[str, Any], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and metadata of a record of that kind; empty where neither it nor its dump states them."""
        due = self._due.get(kind, 0)
        if due:
            self._due[kind] = due - 1
        header, metadata = mapping(record.get("header")), mapping(record.get("metadata"))
        return (header or self._header, metadata or self._metadata) if due else (header, metadata)
