"""Commands of InfiniBand's tools, as headings and prompts show them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracelab_parsers.topology.ibnetdiscover_names import guid_of

__all__ = ["Command", "command_of"]

_WITH_VALUE = frozenset("CPtysD")
_LONG_WITH_VALUE = frozenset({"--Ca", "--Port", "--timeout", "--m_key", "--sminfo", "--node-name-map", "--threshold-file", "--suppress"})
_WORD = re.compile(r"[A-Za-z][\w.-]{0,63}")
_LID = re.compile(r"0x[0-9a-fA-F]{1,4}|\d{1,5}")
_MOST_WORDS = 40


@dataclass(frozen=True, slots=True)
class Command:
    """What a command asks for: a LID, a GUID, or a name that a script put in their place; nothing of them is the local port.

    `clears_errors`, `clears_data`: it sets the counters back to 0 after it has read them. `hides`: it leaves some out.
    """

    lid: int | None = None
    guid: str | None = None
    name: str | None = None
    clears_errors: bool = False
    clears_data: bool = False
    hides: bool = False

    @property
    def local(self) -> bool:
        """Whether it asks the machine that it runs on."""
        return self.lid is None and self.guid is None and self.name is None


def command_of(text: str) -> Command | None:
    """The command `text`, where it is perfquery or ibqueryerrors."""
    words = text.split()[:_MOST_WORDS]
    tool = next((n for n, w in enumerate(words) if w.rpartition("/")[2] in ("perfquery", "ibqueryerrors")), None)
    if tool is None:
        return None
    errors_tool = words[tool].endswith("ibqueryerrors")
    flags: set[str] = set()
    rest: list[str] = []
    skip = False
    for word in words[tool + 1 :]:
        if skip:
            skip = False
        elif word.startswith("--"):
            flags.add(word.partition("=")[0])
            skip = word in _LONG_WITH_VALUE
        elif word.startswith("-") and len(word) > 1:
            flags |= set(word[1:])
            skip = word[-1] in _WITH_VALUE or (errors_tool and word[-1] == "s")
        elif word in ("|", ">", ">>", "2>&1", ";", "&&"):
            break
        else:
            rest.append(word)
    target = rest[0] if rest else ""
    guid = guid_of(target) if flags & {"G", "S", "--Guid", "--port-guid"} else None
    if guid is None and re.fullmatch(r"0x[0-9a-fA-F]{8,16}", target):
        guid = guid_of(target)
    lid = int(target, 0) if guid is None and _LID.fullmatch(target) and not re.fullmatch(r"0\d+", target) else None
    name = target if guid is None and lid is None and _WORD.fullmatch(target) else None
    if errors_tool:
        return Command(None, guid, None, bool(flags & {"k", "--clear-errors"}), bool(flags & {"K", "--clear-counts"}), _hides(flags))
    clears = bool(flags & {"r", "R", "--reset_after_read", "--Reset_only"})
    return Command(lid, guid, name, clears, clears)


def _hides(flags: set[str]) -> bool:
    return bool(flags & {"s", "c", "--suppress", "--suppress-common", "--threshold-file"})
