"""The operations that a scan found, with what their lines say of who speaks and what is done."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracelab_parsers.nccl_log.operations import name_code
from tracelab_parsers.nccl_log.prefix import Front, Head, Prefixes, read_head
from tracelab_parsers.nccl_log.scanning import Flags, Ints, Scan, Words, codes_of

__all__ = ["NO_TIME", "Columns", "Speaker", "TailReader", "columns_of"]

NO_TIME = int(np.iinfo(np.int64).min)
_LONGEST_FRONT = 160
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_ZONE = re.compile(r"(?:[+-]\d\d:?\d\d|Z|UTC|GMT)\]?:? ?$|1\d{9}(?:\.\d+)?\]?:? ?$")
_HEAD = re.compile(rb"(\S*:\d{1,10}:\d{1,10} \[-?\d{1,6}\]) NCCL INFO (\w{2,60}):")
_TAIL = re.compile(
    rb"datatype (\d{1,6}) op (\d{1,10}) root (-?\d{1,9}) comm (0x0*[1-9a-f][0-9a-f]{0,15}) \[nranks=(\d{1,9})\] stream (0x[0-9a-f]{1,16})"
    rb"(?: task \d+ globalrank (\d{1,9}))?"
)
_TAILS_KEPT = 1 << 15

Tail = tuple[int, int, int, int, int, int, int]
"""Element type, reduction, root, communicator, size, stream, and the rank that RCCL prints or -1."""
_NO_TAIL: Tail = (0, 0, 0, 0, 0, 0, -1)


@dataclass(frozen=True)
class Speaker:
    """A prefix that lines begin with; `front` is what stands before it in the first of them, number `line`."""

    line: int
    head: Head
    front: Front


@dataclass(frozen=True)
class Columns:
    """Operations in columns; `row` are their places in the scan, `speaker` numbers `speakers`. `ts` is `NO_TIME` where no zone is stated."""

    row: Ints
    line: Ints
    speaker: Ints
    name: Ints
    ts: Ints
    op_count: Ints
    count: Ints
    datatype: Ints
    reduction: Ints
    root: Ints
    comm: Words
    size: Ints
    stream: Words
    global_rank: Ints
    speakers: list[Speaker]


class TailReader:
    """Reads what stands behind `count` in a line; what comes again costs a look-up."""

    def __init__(self) -> None:
        self._known: dict[bytes, Tail | None] = {}

    def read(self, text: bytes) -> Tail | None:
        """None where it is not exactly that."""
        if text in self._known:
            return self._known[text]
        if len(self._known) >= _TAILS_KEPT:
            self._known.clear()
        m = _TAIL.fullmatch(text)
        found = self._known[text] = _tail(m) if m is not None else None
        return found


def _tail(m: re.Match[bytes]) -> Tail | None:
    comm, stream = int(m[4], 16), int(m[6], 16)
    if len(m[4]) > 18:
        return None
    return int(m[1]), int(m[2]), int(m[3]), comm, int(m[5]), stream, int(m[7]) if m[7] else -1


def columns_of(data: bytes, first_line: int, scan: Scan, prefixes: Prefixes, tails: TailReader) -> Columns:
    """Leaves out lines with a prefix that is none, or with foreign text before it: another reader must see that text."""
    begins = scan.begins[scan.at]
    good, ts = _fronts(data, begins, scan, prefixes) if np.any(scan.token_begins > begins) else (np.ones(len(begins), bool), np.full(len(begins), NO_TIME))
    first = _first(scan.head, len(scan.heads))
    speakers: list[Speaker] = []
    known: dict[bytes, int] = {}
    speaker_of, name_of = np.full(len(first), -1, np.int64), np.zeros(len(first), np.int64)
    for code, (text, row) in enumerate(zip(scan.heads, first.tolist(), strict=True)):
        m = _HEAD.fullmatch(text)
        if m is None:
            continue
        name_of[code] = name_code(m[2].decode())
        if m[1] not in known:
            speaker = _speaker(data[begins[row] : scan.token_begins[row]], m[1], int(scan.at[row]) + first_line, prefixes)
            known[m[1]] = len(speakers) if speaker is not None else -1
            speakers += [speaker] if speaker is not None else []
        speaker_of[code] = known[m[1]]
    read = [tails.read(text) for text in scan.tails]
    table = np.array([t or _NO_TAIL for t in read] or [_NO_TAIL], object)
    fits = np.array([t is not None for t in read], bool)
    said, tail = speaker_of[scan.head], scan.tail
    good &= (said >= 0) & fits[tail]
    row = np.flatnonzero(good)
    if len(row) < len(good):
        said, tail = said[row], tail[row]

    def column(n: int) -> Ints:
        return table[:, n].astype(np.int64)[tail]

    def address(n: int) -> Words:
        return table[:, n].astype(np.uint64)[tail]

    return Columns(
        row,
        scan.at[row] + first_line,
        said,
        name_of[scan.head[row]],
        ts[row],
        scan.op_count[row],
        scan.count[row],
        column(0),
        column(1),
        column(2),
        address(3),
        column(4),
        address(5),
        column(6),
        speakers,
    )


def _first(codes: Ints, many: int) -> Ints:
    """Where each code appears first."""
    first = np.zeros(many, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def _speaker(before: bytes, token: bytes, line: int, prefixes: Prefixes) -> Speaker | None:
    """The prefix that a line begins with; None where it is none, or foreign text is glued to it."""
    head = read_head(token.decode("utf-8", "replace"))
    if head is None or head.where is not None:
        return None
    front = prefixes.front(before.decode("utf-8", "replace") + head.front)
    return Speaker(line, head, front) if front.clean else None


def _fronts(data: bytes, begins: Ints, scan: Scan, prefixes: Prefixes) -> tuple[Flags, Ints]:
    """Whether the text before each prefix is a label or a time and nothing else, and its time where it states a zone."""
    ends = scan.token_begins
    alike = type(scan.text)(data.translate(_DIGITS_ALIKE))
    codes, first = codes_of(alike.digest(begins, ends, _LONGEST_FRONT))
    texts = [data[begins[row] : ends[row]].decode("utf-8", "replace") for row in first.tolist()]
    clean = np.array([prefixes.front(text).clean for text in texts])
    zoned = np.array([_ZONE.search(text) is not None for text in texts])
    good = clean[codes] & (ends - begins <= _LONGEST_FRONT)
    ts = np.full(len(codes), NO_TIME, np.int64)
    for row in np.flatnonzero(zoned[codes] & good).tolist():
        value = prefixes.front(data[begins[row] : ends[row]].decode("utf-8", "replace")).source_ts_ns
        if value is not None:
            ts[row] = value
    return good, ts
