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
_OTHER_MACHINE = re.compile(r"[-_.](?:bmc|ipmi|idrac|ilo|mgmt|oob|pdu)\b")
"""What stands behind a host's name where not the host is meant, but what manages it."""
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
    name = _without_port(name).lower()
    return name if _ADDRESS.fullmatch(name) or ":" in name else name.partition(".")[0]


def _without_port(name: str) -> str:
    """`name` without the port behind it; an address with colons has one only behind brackets."""
    name = name.strip()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return _PORT.sub("", name) if name.count(":") == 1 else name


@dataclass
class Machines:
    """Machines by every name that they go by. `hosts` are the job's, spelled as the job spells them.

    `aliases` (of the manifest) are followed first. A name that nobody knows is a machine of its own. Names without a domain and
    with one are of one machine, unless two domains have one of that name.
    """

    hosts: Iterable[str]
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known: dict[str, str] = {}
        self._full: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._aliases = {a.strip().lower(): b for a, b in self.aliases.items()}
        self._job = set(self.hosts)
        for host in sorted(self._job):
            self._add(host, host)

    def _add(self, stated: str, machine: str) -> str:
        """Makes `machine` known by its whole name and, where no other has it, by the name without its domain."""
        self._full[_without_port(stated).lower()] = machine
        short = plain_name(stated)
        known = self._known.setdefault(short, machine)
        if known not in (machine, ""):
            self._known[short] = ""  # two domains have a machine of this name: it means neither
        return machine

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
        bare = _without_port(name)
        known = name.strip().lower() in self._aliases or bare.lower() in self._full or self._known.get(plain_name(name)) or self._addresses.get(bare)
        return bool(known)

    def name(self, stated: str) -> str:
        """The machine that `stated` means; it is known from then on."""
        alias = self._aliases.get(stated.strip().lower()) or self._aliases.get(plain_name(stated))
        bare = _without_port(alias or stated)
        if alias is None and self._addresses.get(bare):
            return self._addresses[bare]
        if bare.lower() in self._full:
            return self._full[bare.lower()]
        known = self._known.get(plain_name(bare))
        # a whole name of another domain is another machine; a name without a domain, or of a machine without one, is the one known
        if known and ("." not in bare or "." not in known or _ADDRESS.fullmatch(bare)):
            return known
        return self._add(bare, bare)

    def same(self, stated: str, machine: str) -> None:
        """States that `stated` is another name of `machine`."""
        self._full[_without_port(stated).lower()] = machine
        self._known[plain_name(stated)] = machine

    def of_path(self, path: str) -> str | None:
        """The machine that a relative path names: the innermost part that is, or begins or ends with, a known name.

        Where no known name stands in it: the innermost folder that is neither a moment nor a word for what lies in it, else
        the beginning of the file's name.
        """
        *folders, file = PurePosixPath(path).parts
        for part in reversed(folders):
            if part.lower() in self._aliases or self._known.get(part.lower()) or part.lower() in self._full:
                return self.name(part)
        telling = [part for part in reversed(folders) if any(c.isdigit() for c in part) and not _MOMENT.fullmatch(part) and not part.isdecimal()]
        for part in (file, *reversed(folders)):
            found = self._within(part)
            if found is not None and (part != file or not telling or _starts(file, found)):
                return found
        for part in reversed(folders):
            if part.lower() not in _KINDS and not _MOMENT.fullmatch(part) and part.lower() not in _TREES and not part.isdecimal():
                return self.name(part)
        first = _SPLIT.split(file, maxsplit=1)[0]
        return self.name(first) if first and first.lower() not in _KINDS and "." in file and any(c.isdigit() for c in first) else None

    def _within(self, part: str) -> str | None:
        """The known machine whose name stands in `part`, delimited; the longest where several do."""
        text = part.lower()
        for end in sorted({len(text), *(m.start() for m in re.finditer(r"[._\-]", text))}, reverse=True):
            for start in sorted({0, *(m.end() for m in re.finditer(r"[._\-]", text))}):
                machine = self._known.get(text[start:end]) or self._aliases.get(text[start:end]) if start < end else None
                if machine and not _OTHER_MACHINE.match(text[end:]):
                    return machine
        return None


def _starts(file: str, machine: str) -> bool:
    """Whether a file's name begins with a machine's, and that has a number: a word alone may be anything."""
    return file.lower().startswith(plain_name(machine)) and any(c.isdigit() for c in machine)


_TREES = frozenset(["sys", "class", "infiniband", "device", "devices", "ports", "hw_counters", "statistics"])
"""Folders of a copied system tree."""
