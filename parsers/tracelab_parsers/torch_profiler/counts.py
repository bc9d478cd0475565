"""How many events of each kind a file holds, stored or not."""

from __future__ import annotations

from tracelab.plugins import EventCount
from tracelab_parsers.torch_profiler.notices import Notices

__all__ = ["EventCounter", "Kind"]

Kind = tuple[str | None, str | None]
"""Phase and category of an event."""

_MAX_KINDS = 256
_MAX_TEXT = 80


class EventCounter:
    """Counts events by phase and category. At most 256 kinds are told apart, whatever the file holds."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._counts: dict[Kind, list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, kind: Kind, lost: int, stored: int) -> None:
        """Counts events that are in no table, and such that are."""
        if kind not in self._counts and len(self._counts) >= _MAX_KINDS:
            if "too-many-kinds" not in self._notices:
                self._notices.add("too-many-kinds")
            kind = ("other", None)
        counts = self._counts.setdefault(kind, [0, 0])
        counts[0] += lost
        counts[1] += stored

    def result(self) -> list[EventCount]:
        """The counts, in the order of their names: `X kernel`, `s ac2g`, `M`."""
        found: dict[tuple[str, bool], int] = {}
        for (ph, cat), counts in self._counts.items():
            name = f"{ph or '?'} {cat or ''}".strip()[:_MAX_TEXT]
            for stored in (False, True):
                label = name if stored or not counts[True] else f"{name} (not stored)"
                if counts[stored]:
                    found[label, stored] = found.get((label, stored), 0) + counts[stored]
        return [EventCount(label, n, stored) for (label, stored), n in sorted(found.items())]
