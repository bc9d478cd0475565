"""Which machine a row speaks for: sources spell one host in several ways, or leave its name to the folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

__all__ = ["Machines", "plain_name"]

_PORT = re.compile(r":\d{1,5}$")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_MOMENT = re.compile(r"[\d][\dTtZz:._+-]{7,}")
_SPLIT = re.compile(r"[._]|(?<=\d)-(?=[a-z])")
_KINDS = frozenset(
    {
        "counters",
        "counter",
        "metrics",
        "switch",
        "switches",
        "leaf",
        "leaves",
        "spine",
        "spines",
        "lldp",
        "net",
        "network",
        "nic",
        "nics",
        "host",
        "hosts",
        "node",
        "nodes",
        "topology",
        "fabric",
        "telemetry",
        "snapshots",
        "data",
        "logs",
        "log",
        "nccl",
        "traces",
    }
)
"""Names of folders that say what lies in them, not whose it is."""


def plain_name(name: str) -> str:
    """A machine's name for comparison: lower case, without port and domain. Addresses stay whole."""
    name = _PORT.sub("", name.strip().lower())
    return name if _ADDRESS.fullmatch(name) else name.partition(".")[0]


@dataclass
class Machines:
    """Machines by every name that they go by. `hosts` are the job's, spelled as the job spells them.

    `aliases` (of the manifest) are followed first. A name that nobody knows is a machine of its own.
    """

    hosts: Iterable[str]
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._aliases = {a.strip().lower(): b for a, b in self.aliases.items()}
        self._job = set(self.hosts)
        for host in sorted(self._job):
            self._known.setdefault(plain_name(host), host)

    @property
    def job_hosts(self) -> frozenset[str]:
        """Hosts of the job."""
        return frozenset(self._job)

    def address(self, address: str, machine: str) -> None:
        """States that `address` belongs to `machine`; of two that claim it, neither gets it."""
        known = self._addresses.get(address)
        self._addresses[address] = machine if known in (None, machine) else ""

    def is_known(self, name: str) -> bool:
        """Whether `name` is that of a machine seen so far."""
        return name.strip().lower() in self._aliases or plain_name(name) in self._known or bool(self._addresses.get(_PORT.sub("", name.strip())))

    def name(self, stated: str) -> str:
        """The machine that `stated` means; it is known from then on."""
        alias = self._aliases.get(stated.strip().lower()) or self._aliases.get(plain_name(stated))
        plain = plain_name(alias or stated)
        by_address = self._addresses.get(_PORT.sub("", stated.strip()))
        if alias is None and by_address:
            return by_address
        return self._known.setdefault(plain, alias or _PORT.sub("", stated.strip()))

    def same(self, stated: str, machine: str) -> None:
        """States that `stated` is another name of `machine`."""
        self._known[plain_name(stated)] = machine

    def of_path(self, path: str) -> str | None:
        """The machine that a relative path names: the innermost part that is, or begins or ends with, a known name.

        Where no known name stands in it: the innermost folder that is neither a moment nor a word for what lies in it, else
        the beginning of the file's name.
        """
        parts = PurePosixPath(path).parts
        for part in reversed(parts):
            found = self._within(part)
            if found is not None:
                return found
        file, folders = parts[-1], parts[:-1]
        for part in reversed(folders):
            if part.lower() not in _KINDS and not _MOMENT.fullmatch(part) and part.lower() not in _TREES:
                return self.name(part)
        first = _SPLIT.split(file, maxsplit=1)[0]
        return self.name(first) if first and first.lower() not in _KINDS and "." in file and any(c.isdigit() for c in first) else None

    def _within(self, part: str) -> str | None:
        """The known machine whose name stands in `part`, delimited; the longest where several do."""
        text = part.lower()
        for end in sorted({len(text), *(m.start() for m in re.finditer(r"[._\-]", text))}, reverse=True):
            for start in sorted({0, *(m.end() for m in re.finditer(r"[._\-]", text))}):
                if start < end and (machine := self._known.get(text[start:end]) or self._aliases.get(text[start:end])):
                    return machine
        return None


_TREES = frozenset(["sys", "class", "infiniband", "device", "devices", "ports", "hw_counters", "statistics"])
"""Folders of a copied system tree."""
