"""Finds operations among the bytes of many lines at once: columns of numbers, no text per line.

Of a line only what differs from line to line is read here: the place of its words, opCount and count. What stands before
and behind comes again and again; it is numbered, and read once for each number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Flags", "Ints", "Scan", "Text", "Words", "codes_of", "scan"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_WORDS = 20
"""`AllReduce:` opCount x sendbuff p recvbuff p count n datatype d op d root d comm p [nranks=n] stream p."""
_HEAD_WORDS = 4
"""host:pid:tid [device] NCCL INFO."""
_RCCL_WORDS = 4
_KEYWORDS = ((1, b"opCount"), (3, b"sendbuff"), (5, b"recvbuff"), (7, b"count"), (9, b"datatype"))
_OP_COUNT, _COUNT, _TAIL = 2, 8, 9
_LONGEST_LINE = 1 << 12
_LONGEST_HEAD = 224
_LONGEST_TAIL = 256

_ALL_BITS = (1 << 64) - 1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ONES = np.uint64(0x0101010101010101)
_ZEROS = np.uint64(0x3030303030303030)
_THREES = np.uint64(0x3333333333333333)
_SIXES = np.uint64(0x0606060606060606)
_HIGH = np.uint64(0xF0F0F0F0F0F0F0F0)
_LOW = np.uint64(0x0F0F0F0F0F0F0F0F)
_LAST = np.array([(_ALL_BITS << (8 * (8 - n))) & _ALL_BITS for n in range(9)], np.uint64)
"""By how many letters count: the bits of the last of eight."""
_FILL = ~_LAST & _ZEROS
_FIRST = np.array([_ALL_BITS >> (8 * (8 - n)) for n in range(9)], np.uint64)


@dataclass(frozen=True)
class Scan:
    """Lines of a block. `begins` and `ends` are those of all lines; the other columns belong to the lines `at`, which look like operations.

    `token_begins` is where host:pid:tid begins. `head` numbers the texts from there to the colon after the operation's name,
    `tail` those from `datatype` to the end of the line; `heads` and `tails` are these texts by number.
    """

    text: Text
    begins: Ints
    ends: Ints
    at: Ints
    token_begins: Ints
    op_count: Ints
    count: Ints
    head: Ints
    heads: list[bytes]
    tail: Ints
    tails: list[bytes]


def scan(data: bytes) -> Scan:
    """All lines of `data` and the operations among them."""
    text = Text(data)
    plain = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(plain == 10)
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    begins = np.empty_like(ends)
    begins[:1] = 0
    np.add(ends[:-1], 1, out=begins[1:])
    spaces = np.flatnonzero(plain == 32)
    upto = np.searchsorted(spaces, ends)
    words = np.diff(upto, prepend=0) + 1
    at = np.flatnonzero((words >= _HEAD_WORDS + _WORDS) & (ends - begins < _LONGEST_LINE))
    lines = _aligned(text, _Lines(at, upto[at] - _WORDS, spaces))
    rest = np.setdiff1d(at[words[at] >= _HEAD_WORDS + _WORDS + _RCCL_WORDS], lines.at) if len(lines.at) < len(at) else at[:0]
    others = _aligned(text, _Lines(rest, upto[rest] - _WORDS - _RCCL_WORDS, spaces))
    if len(others.at):
        at = np.concatenate((lines.at, others.at))
        order = np.argsort(at, kind="stable")
        lines = _Lines(at[order], np.concatenate((lines.base, others.base))[order], spaces)
    return _columns(text, data, begins, ends, lines)


class Text:
    """The bytes of a block, eight at a time from any place."""

    _BEFORE = 16

    def __init__(self, data: bytes) -> None:
        padded = b"".join((bytes(self._BEFORE), data, bytes(16)))
        # Raw bytes are gathered four times as fast as numbers that are not aligned. Places before the first byte count from the end.
        self._words = np.ndarray((len(padded) - 7 - self._BEFORE,), "V8", padded, self._BEFORE, (1,))

    def eight(self, at: Ints) -> Words:
        """The bytes from `at` on; the first is the lowest."""
        found: Words = self._words[at].view("<u8")
        return found

    def is_word(self, begin: Ints, length: Ints, word: bytes) -> Flags:
        """Whether `word`, of at most eight letters, stands there."""
        letters, mask = np.uint64(int.from_bytes(word, "little")), _FIRST[len(word)]
        same: Flags = (length == len(word)) & (self.eight(begin) & mask == letters)
        return same

    def digest(self, begin: Ints, end: Ints, longest: int) -> Words:
        """A number for each text, equal for equal ones; of longer ones only the first `longest` bytes count."""
        length = np.minimum(end - begin, longest)
        out: Words = length.astype(np.uint64)
        shortest = int(length.min(initial=longest))
        for at in range(0, int(length.max(initial=0)), 8):
            if at + 8 <= shortest:
                out ^= self.eight(begin + at)
            else:
                out ^= self.eight(begin + np.minimum(at, length)) & _FIRST[np.minimum(np.maximum(length - at, 0), 8)]
            out *= _MULTIPLIER
            np.bitwise_xor(out, out >> np.uint64(32), out=out)
        return out

    def _last_eight(self, end: Ints, length: Ints) -> Words:
        """The last eight of `length` characters before `end`, with zeros in front of shorter ones."""
        letters = np.minimum(np.maximum(length, 0), 8)
        kept: Words = np.bitwise_or(self.eight(end - 8) & _LAST[letters], _FILL[letters])
        return kept

    def decimal(self, end: Ints, length: Ints) -> tuple[Ints, Flags]:
        """Whole numbers of at most sixteen digits that end before `end`, and whether they are such."""
        low, good = _decimal_of_eight(self._last_eight(end, length))
        if int(length.max(initial=0)) > 8:
            high, fine = _decimal_of_eight(self._last_eight(end - 8, length - 8))
            low, good = low + high * np.uint64(10**8), good & fine
        return low.astype(np.int64), good & (length > 0) & (length <= 16)

    def hexadecimal(self, end: Ints, length: Ints) -> tuple[Words, Flags]:
        """Lower-case numbers of at most sixteen digits that end before `end`, and whether they are such."""
        low, good = _hexadecimal_of_eight(self._last_eight(end, length))
        if int(length.max(initial=0)) > 8:
            high, fine = _hexadecimal_of_eight(self._last_eight(end - 8, length - 8))
            low, good = low | high << np.uint64(32), good & fine
        return low, good & (length > 0) & (length <= 16)


def codes_of(values: Words) -> tuple[Ints, Ints]:
    """The values as numbers in the order in which they first appear, and where each appears first."""
    plain = pa.Array.from_buffers(pa.uint64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
    codes = plain.dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.empty(int(codes.max(initial=-1)) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, first


def _decimal_of_eight(x: Words) -> tuple[Words, Flags]:
    """The number that eight digits write, all at once (D. Lemire, 2018)."""
    good = (x & _HIGH) | (((x + _SIXES) & _HIGH) >> np.uint64(4)) == _THREES
    x = ((x & _LOW) * np.uint64(2561)) >> np.uint64(8)
    x = ((x & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((x & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32), good


def _hexadecimal_of_eight(x: Words) -> tuple[Words, Flags]:
    """As above: letters are moved behind the digits, then halves are joined to pairs, fours and eights."""
    letters = (x >> np.uint64(6)) & _ONES
    x = x - letters * np.uint64(0x27)
    good = (x & _HIGH == _ZEROS) & (((x + _SIXES) >> np.uint64(6)) & _ONES == letters)
    x = x & _LOW
    x = ((x << np.uint64(4)) | (x >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    x = ((x << np.uint64(8)) | (x >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return ((x << np.uint64(16)) | (x >> np.uint64(32))) & np.uint64(0xFFFFFFFF), good


class _Lines:
    """Lines that may end with the words of an operation. `base` is the place, among all spaces, of the one before the first of those words."""

    def __init__(self, at: Ints, base: Ints, spaces: Ints) -> None:
        self.at, self.base, self.spaces = at, base, spaces
        self._places: dict[int, Ints] = {}

    def space(self, word: int) -> Ints:
        """The space before a word."""
        found = self._places.get(word)
        if found is None:
            found = self._places[word] = self.spaces[self.base + word]
        return found

    def length(self, word: int) -> Ints:
        """How long a word is, of all but the last."""
        return self.space(word + 1) - self.space(word) - 1

    def kept(self, good: Flags) -> _Lines:
        """Only some of them."""
        return self if good.all() else _Lines(self.at[good], self.base[good], self.spaces)


def _aligned(text: Text, lines: _Lines) -> _Lines:
    """Those of the lines that have the words of an operation in their places."""
    for word, keyword in _KEYWORDS:
        if len(lines.at):
            lines = lines.kept(text.is_word(lines.space(word) + 1, lines.length(word), keyword))
    return lines


def _columns(text: Text, data: bytes, begins: Ints, ends: Ints, lines: _Lines) -> Scan:
    """Reads the numbers; lines whose numbers are none are left out."""
    op_count, good = text.hexadecimal(lines.space(_OP_COUNT + 1), lines.length(_OP_COUNT))
    good &= op_count < 1 << 63
    count, fine = text.decimal(lines.space(_COUNT + 1), lines.length(_COUNT))
    good &= fine
    at, line_begins, line_ends = lines.at, begins[lines.at], ends[lines.at]
    # No space stands before the first word of a line.
    token = np.maximum(np.where(lines.base >= _HEAD_WORDS, lines.spaces[np.maximum(lines.base - _HEAD_WORDS, 0)] + 1, 0), line_begins)
    name_ends, tail_begins = lines.space(1), lines.space(_TAIL) + 1
    good &= (name_ends - token <= _LONGEST_HEAD) & (line_ends - tail_begins <= _LONGEST_TAIL)
    columns = [at, token, name_ends, tail_begins, line_ends, op_count.astype(np.int64), count]
    if not good.all():
        columns = [c[good] for c in columns]
    at, token, name_ends, tail_begins, line_ends, op_counts, counts = columns
    head, first = codes_of(text.digest(token, name_ends, _LONGEST_HEAD))
    heads = [data[begin:end] for begin, end in zip(token[first].tolist(), name_ends[first].tolist(), strict=True)]
    tail, first = codes_of(text.digest(tail_begins, line_ends, _LONGEST_TAIL))
    tails = [data[begin:end] for begin, end in zip(tail_begins[first].tolist(), line_ends[first].tolist(), strict=True)]
    return Scan(text, begins, ends, at, token, op_counts, counts, head, heads, tail, tails)
