"""Lists of hosts as SLURM writes them: `tux[0-3,12],rack[1-2]node[01-16]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product

__all__ = ["MOST_NAMES", "HostlistError", "expand"]

MOST_NAMES = 65_536
"""More names than any list of a real cluster has."""
_MOST_DIGITS = 9
_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class HostlistError(ValueError):
    """A list that is none, or that stands for too many names."""


def expand(text: str) -> list[str]:
    """The names that `text` stands for, in order, repeated ones once. Raises `HostlistError`; at most `MOST_NAMES` are made."""
    names: dict[str, None] = {}
    position = 0
    text = text.strip()
    while position < len(text):
        m = _ITEM.match(text, position)
        if m is None:
            raise HostlistError(f"no list of hosts: {text[position : position + 40]!r}")
        for name in _names(m[0], MOST_NAMES - len(names)):
            names[name] = None
        position = m.end()
        if position < len(text):
            if text[position] != ",":
                raise HostlistError(f"no list of hosts: {text[position : position + 40]!r}")
            position += 1
    return list(names)


def _names(item: str, most: int) -> Iterator[str]:
    """The names of one item: all combinations of its brackets."""
    choices: list[list[str]] = []
    count = 1
    for m in _PART.finditer(item):
        choices.append(_numbers(m[1], most) if m[2] is None else [m[2]])
        count *= len(choices[-1])
        if count > most:
            raise HostlistError(f"more than {MOST_NAMES} names")
    return islice(("".join(parts) for parts in product(*choices)), most)


def _numbers(text: str, most: int) -> list[str]:
    """The numbers of one bracket; leading zeros are kept."""
    out: list[str] = []
    for piece in text.split(","):
        m = _RANGE.fullmatch(piece.strip())
        if m is None or max(len(m[1]), len(m[2] or "")) > _MOST_DIGITS:
            raise HostlistError(f"no range: {piece[:40]!r}")
        first, last = int(m[1]), int(m[2] or m[1])
        if last < first:
            raise HostlistError(f"no range: {piece[:40]!r}")
        if last - first + 1 + len(out) > most:
            raise HostlistError(f"more than {MOST_NAMES} names")
        out.extend(str(n).zfill(len(m[1])) for n in range(first, last + 1))
    return out
