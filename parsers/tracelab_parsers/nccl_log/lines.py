"""Single lines taken apart: messages of the library wherever they begin, and lines without its prefix that may matter."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracelab_parsers.nccl_log.prefix import Front, Head, Prefixes, strip_label
from tracelab_parsers.nccl_log.scanning import Flags, Ints

__all__ = ["Bare", "Message", "take_apart", "worth_reading"]

LONGEST = 4096
"""Characters of a message or a bare line that are read."""

_NCCL = " NCCL "
_LEVEL = re.compile(r"(INFO|WARN|TRACE|CALL|VERSION|ABORT|ERROR)(?: |$)")
_WORDS = (
    b"nccl",
    b"ollective",
    b"atchdog",
    b"terminate called",
    b" version",
    b"perf",
    b"CUDA failure",
    b"ranks",
    b"SIGTERM",
    b"SIGKILL",
    b"death signal",
    b"CANCELLED AT",
)
_ROW = re.compile(
    rb"(?:\[[^\]\n]{1,40}+\](?:<\w+>)?: ?|\d+: |\([^)\n]{1,160}+\) ?)?[ \t]*+"
    rb"(?:#|N/A|\d[\d.]*+(?:e[+-]?\d++)?+(?:[ \t]|[-\w]*+:\d+:\d+ |$)|[\s-]*+\[\d[\d, ]*\] (?:started|finished))"
)
_ROW_STARTS = np.zeros(256, bool)
_ROW_STARTS[list(b"#N0123456789 \t[(-")] = True
GLUED = Front(clean=False)


class Message(NamedTuple):
    """One message of the library. Where its `front` is not clean, it begins inside a line of another writer."""

    number: int
    head: Head
    front: Front
    level: str
    text: str


class Bare(NamedTuple):
    """A line, or a piece of one, without the library's prefix."""

    number: int
    front: Front
    text: str


def worth_reading(data: bytes, begins: Ints, ends: Ints) -> Ints:
    """Which of these lines hold anything that a reader may know: a word, or a number or # at their start."""
    if not len(begins):
        return np.zeros(0, np.int64)
    raws = [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    out = np.zeros(len(raws), bool)
    for number in np.flatnonzero(_may_begin_a_row(np.frombuffer(data, np.uint8), begins)).tolist():
        out[number] = _ROW.match(raws[number]) is not None
    joined = b"\n".join(raws)
    starts = [0, *np.cumsum(ends - begins + 1).tolist()]
    for word in (b"NCCL", b"\r", *_WORDS):
        at, found = joined.find(word), []
        while at >= 0:
            found.append(bisect_right(starts, at) - 1)
            at = joined.find(word, starts[found[-1] + 1])
        out[found] = True
    return np.flatnonzero(out)


def _may_begin_a_row(text: npt.NDArray[np.uint8], begins: Ints) -> Flags:
    """By their first letters; lines that begin with a date are no rows."""
    first = text[begins]
    bracket = first == ord("[")
    date = text[np.minimum(begins + 4 + bracket, len(text) - 1)] == ord("-")
    may: Flags = _ROW_STARTS[first] & ~(date & (bracket | ((first >= ord("0")) & (first <= ord("9")))))
    return may


def take_apart(raw: bytes, number: int, prefixes: Prefixes) -> Sequence[Message | Bare]:
    """What the line `number` holds, in order."""
    if b"\r" in raw:
        return [item for piece in raw.split(b"\r") if piece for item in take_apart(piece, number, prefixes)]
    if b" NCCL " not in raw:
        return _bare(raw[:LONGEST].decode("utf-8", "replace"), number)
    line = raw.decode("utf-8", "replace")
    found = _prefixes_in(line, prefixes)
    if not found:
        return _bare(line[:LONGEST], number)
    begin = found[0][0]
    front = prefixes.front(line[max(0, begin - LONGEST) : begin])
    out = _bare(line[max(0, begin - LONGEST) : begin], number) if not front.clean else []
    for i, (_, end, head, level) in enumerate(found):
        limit = found[i + 1][0] if i + 1 < len(found) else len(line)
        out.append(Message(number, head, front, level, line[end : min(limit, end + LONGEST)]))
        front = GLUED
    return out


def _bare(text: str, number: int) -> list[Message | Bare]:
    if not text or text.isspace():
        return []
    rest, front = strip_label(text)
    return [Bare(number, front, rest)]


def _prefixes_in(line: str, prefixes: Prefixes) -> list[tuple[int, int, Head, str]]:
    """Where each prefix begins, where its message begins, the prefix and its level."""
    found: list[tuple[int, int, Head, str]] = []
    begin = line.find(_NCCL)
    while begin >= 0:
        at = begin + len(_NCCL)
        level = _LEVEL.match(line, at)
        if level is not None:
            head = prefixes.head(line[max(0, begin - 640) : begin])
            if head is not None:
                found.append((begin - head.length, level.end(), head, level[1]))
        begin = line.find(_NCCL, at)
    return found
