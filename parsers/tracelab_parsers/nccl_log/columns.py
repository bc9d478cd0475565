"""The operations that a scan found, with what their lines say of who speaks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracelab_parsers.nccl_log.blocks import Block
from tracelab_parsers.nccl_log.operations import name_code
from tracelab_parsers.nccl_log.prefix import Front, Head, Prefixes, read_head
from tracelab_parsers.nccl_log.scanning import Flags, Ints, Scan, codes_of

__all__ = ["NO_TIME", "Columns", "Speaker", "columns_of"]

NO_TIME = int(np.iinfo(np.int64).min)
_LONGEST_TOKEN = 96
_LONGEST_FRONT = 160
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_ZONE = re.compile(r"(?:[+-]\d\d:?\d\d|Z|UTC|GMT)\]?:? ?$|1\d{9}(?:\.\d+)?\]?:? ?$")


@dataclass(frozen=True)
class Speaker:
    """A prefix that lines begin with; `front` is what stands before it in the first of them, number `line`."""

    line: int
    head: Head
    front: Front


@dataclass(frozen=True)
class Columns:
    """Operations in columns; `row` are their places in the scan, `speaker` numbers `speakers`. `ts` is `NO_TIME` where no zone is stated."""

    scan: Scan
    row: Ints
    line: Ints
    speaker: Ints
    name: Ints
    ts: Ints
    speakers: list[Speaker]

    def of(self, values: npt.NDArray[np.int64]) -> Ints:
        """A column of the scan for these operations."""
        return values[self.row]


def columns_of(block: Block, scan: Scan, prefixes: Prefixes) -> Columns:
    """Leaves out lines with a prefix that is none, or with foreign text before it: another reader must see that text."""
    data = block.data
    rows = np.arange(len(scan.at), dtype=np.int64)
    begins, token_begins, token_ends = scan.begins[scan.at], scan.token_begins, scan.token_ends
    good = np.ones(len(rows), bool)
    ts = np.full(len(rows), NO_TIME, np.int64)
    if np.any(token_begins > begins):
        good, ts = _fronts(data, scan, prefixes)
    codes, first = codes_of(scan.text.digest(token_begins, token_ends, _LONGEST_TOKEN))
    speakers: list[Speaker] = []
    number_of = np.full(len(first), -1, np.int64)
    good &= token_ends - token_begins <= _LONGEST_TOKEN
    for code, row in enumerate(first.tolist()):
        head = read_head(data[token_begins[row] : token_ends[row]].decode("utf-8", "replace"))
        if head is None or head.where is not None:
            continue
        front = prefixes.front(data[begins[row] : token_begins[row]].decode("utf-8", "replace") + head.front)
        if not front.clean:
            continue
        number_of[code] = len(speakers)
        speakers.append(Speaker(int(scan.at[row]) + block.first_line, head, front))
    speaker = number_of[codes] if len(codes) else codes
    kept = rows[good & (speaker >= 0)]
    return Columns(scan, kept, scan.at[kept] + block.first_line, speaker[kept], _names(data, scan)[kept], ts[kept], speakers)


def _fronts(data: bytes, scan: Scan, prefixes: Prefixes) -> tuple[Flags, Ints]:
    """Whether the text before each prefix is a label or a time and nothing else, and its time where it states a zone."""
    begins, ends = scan.begins[scan.at], scan.token_begins
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


def _names(data: bytes, scan: Scan) -> Ints:
    codes, first = codes_of(scan.text.digest(scan.name_begins, scan.name_ends, 64))
    names = [name_code(data[scan.name_begins[row] : scan.name_ends[row]].decode("utf-8", "replace")) for row in first.tolist()]
    return np.array(names, np.int64)[codes] if names else codes
