"""Finds operations among the bytes of many lines at once: columns of numbers, no text per line.

A line that ends with exactly the twenty words of an operation is taken here; whatever differs in one word is left to the
reader of single lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
_KEYWORDS = ((1, b"opCount"), (3, b"sendbuff"), (5, b"recvbuff"), (7, b"count"), (9, b"datatype"), (11, b"op"), (13, b"root"), (15, b"comm"), (18, b"stream"))
_LONGEST_LINE = 1 << 12

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
    """Lines of a block. `begins` and `ends` of all lines; the other columns belong to the lines `at`, which are operations.

    `token_begins` is where host:pid:tid begins, `token_ends` where [device] ends; `global_rank` is -1 where RCCL did not print it.
    """

    text: Text
    begins: Ints
    ends: Ints
    at: Ints
    name_begins: Ints
    name_ends: Ints
    token_begins: Ints
    token_ends: Ints
    op_count: Ints
    count: Ints
    datatype: Ints
    reduction: Ints
    root: Ints
    comm: Words
    size: Ints
    stream: Words
    global_rank: Ints


def scan(data: bytes) -> Scan:
    """All lines of `data` and the operations among them."""
    text = Text(data)
    plain = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(plain == 10)
    if not data.endswith(b"\n"):
        newlines = np.append(newlines, len(data))
    ends = newlines.astype(np.int64)
    begins = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64)
    spaces = np.flatnonzero(plain == 32).astype(np.int64)
    upto = np.searchsorted(spaces, ends)
    plain_lines = _aligned(text, spaces, upto, begins, ends, 0)
    rccl_lines = _aligned(text, spaces, upto, begins, ends, _RCCL_WORDS)
    found = [_columns(text, lines) for lines in (plain_lines, rccl_lines) if len(lines.at)]
    if not found:
        found = [_columns(text, plain_lines)]
    columns = found[0] if len(found) == 1 else _merged(found)
    return Scan(text, begins, ends, *columns)


class Text:
    """The bytes of a block, eight at a time from any place."""

    _BEFORE = 16

    def __init__(self, data: bytes) -> None:
        padded = b"".join((bytes(self._BEFORE), data, bytes(16)))
        # Raw bytes are gathered four times as fast as numbers that are not aligned.
        self._words = np.ndarray((len(padded) - 7,), "V8", padded, 0, (1,))

    def eight(self, at: Ints) -> Words:
        """The bytes from `at` on; the first is the lowest."""
        return self._words[at + self._BEFORE].view("<u8")

    def is_word(self, begin: Ints, end: Ints, word: bytes) -> Flags:
        """Whether `word` stands there; of a longer one only its length and first eight letters are compared."""
        letters = np.uint64(int.from_bytes(word[:8], "little"))
        mask = np.uint64((1 << 8 * min(len(word), 8)) - 1)
        same: Flags = (end - begin == len(word)) & (self.eight(begin) & mask == letters)
        return same

    def is_letter(self, at: Ints, letter: str) -> Flags:
        """Whether `letter` stands there."""
        same: Flags = self.eight(at) & np.uint64(0xFF) == np.uint64(ord(letter))
        return same

    def digest(self, begin: Ints, end: Ints, longest: int) -> Words:
        """A number for each text, equal for equal ones; of longer ones only the first `longest` bytes count."""
        length = np.clip(end - begin, 0, longest)
        out = length.astype(np.uint64)
        for at in range(0, int(length.max(initial=0)), 8):
            mask = _FIRST[np.minimum(np.maximum(length - at, 0), 8)]
            out = (out ^ (self.eight(begin + np.minimum(at, length)) & mask)) * _MULTIPLIER
            out ^= out >> np.uint64(32)
        return out

    def _last_eight(self, end: Ints, length: Ints) -> Words:
        """The last eight of `length` characters before `end`, with zeros in front of shorter ones."""
        letters = np.minimum(np.maximum(length, 0), 8)
        kept: Words = self.eight(end - 8) & _LAST[letters] | _FILL[letters]
        return kept

    def decimal(self, begin: Ints, end: Ints) -> tuple[Ints, Flags]:
        """Whole numbers of at most sixteen digits, and whether they are such."""
        length = end - begin
        low, good = _decimal_of_eight(self._last_eight(end, length))
        if int(length.max(initial=0)) > 8:
            high, fine = _decimal_of_eight(self._last_eight(end - 8, length - 8))
            low, good = low + high * np.uint64(10**8), good & fine
        return low.astype(np.int64), good & (length > 0) & (length <= 16)

    def hexadecimal(self, begin: Ints, end: Ints) -> tuple[Words, Flags]:
        """Lower-case numbers of at most sixteen digits, and whether they are such."""
        length = end - begin
        low, good = _hexadecimal_of_eight(self._last_eight(end, length))
        if int(length.max(initial=0)) > 8:
            high, fine = _hexadecimal_of_eight(self._last_eight(end - 8, length - 8))
            low, good = low | high << np.uint64(32), good & fine
        return low, good & (length > 0) & (length <= 16)

    def address(self, begin: Ints, end: Ints) -> tuple[Words, Flags]:
        """Numbers after 0x."""
        value, good = self.hexadecimal(begin + 2, end)
        return value, good & (self.eight(begin) & np.uint64(0xFFFF) == np.uint64(0x7830))


def codes_of(values: Words) -> tuple[Ints, Ints]:
    """The values as numbers in the order in which they first appear, and where each appears first."""
    codes = pa.array(values).dictionary_encode().indices.to_numpy().astype(np.int64)
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
    """Lines that end with the words of an operation. `base` is the place, among all spaces, of the one before the first of those words."""

    def __init__(self, at: Ints, base: Ints, spaces: Ints, begins: Ints, ends: Ints, extra: int) -> None:
        self.at, self.base, self.spaces, self.begins, self.ends, self.extra = at, base, spaces, begins, ends, extra
        self._places: dict[int, Ints] = {}

    def begin(self, word: int) -> Ints:
        """Where a word begins; those of the head count down from -1."""
        found = self._places.get(word)
        if found is None:
            found = self._places[word] = self.spaces[self.base + word] + 1
        return found

    def end(self, word: int) -> Ints:
        """Where it ends."""
        return self.ends if word == _WORDS + self.extra - 1 else self.begin(word + 1) - 1

    def kept(self, good: Flags) -> _Lines:
        """Only some of them."""
        if good.all():
            return self
        return _Lines(self.at[good], self.base[good], self.spaces, self.begins[good], self.ends[good], self.extra)


def _aligned(text: Text, spaces: Ints, upto: Ints, begins: Ints, ends: Ints, extra: int) -> _Lines:
    """Lines whose last words are those of an operation and `extra` more, after a head."""
    words = _WORDS + extra
    before = np.concatenate(([0], upto[:-1]))
    at = np.flatnonzero((upto - before >= words + _HEAD_WORDS - 1) & (ends - begins < _LONGEST_LINE)).astype(np.int64)
    lines = _Lines(at, upto[at] - words, spaces, begins[at], ends[at], extra)
    for word, keyword in (*([(words - 2, b"globalrank"), (words - 4, b"task")] if extra else []), *_KEYWORDS, (-2, b"NCCL"), (-1, b"INFO")):
        if not len(lines.at):
            break
        lines = lines.kept(text.is_word(lines.begin(word), lines.end(word), keyword))
    good = text.is_letter(lines.begin(-3), "[") & text.is_letter(lines.end(-3) - 1, "]") & text.is_letter(lines.end(0) - 1, ":")
    return lines.kept(good)


def _columns(text: Text, lines: _Lines) -> list[npt.NDArray[Any]]:
    """The columns of a scan. Lines whose numbers are none are left out."""

    def word(n: int) -> tuple[Ints, Ints]:
        return lines.begin(n), lines.end(n)

    op_count, good = text.hexadecimal(*word(2))
    good &= op_count < 1 << 63
    numbers: list[Ints] = []
    for n in (8, 10, 12, 14):
        number, fine = text.decimal(*word(n))
        numbers.append(number)
        good &= fine
    comm, fine = text.address(*word(16))
    good &= fine & (comm > 0)
    stream, fine = text.address(*word(19))
    good &= fine
    begin, end = word(17)
    size, fine = text.decimal(begin + len("[nranks="), end - 1)
    good &= fine & (text.eight(begin) == np.uint64(int.from_bytes(b"[nranks=", "little"))) & text.is_letter(end - 1, "]")
    global_rank = np.full(len(lines.at), -1, np.int64)
    if lines.extra:
        global_rank, fine = text.decimal(*word(_WORDS + lines.extra - 1))
        good &= fine
    # No space stands before the first word of a line.
    token = np.maximum(np.where(lines.base >= _HEAD_WORDS, lines.spaces[np.maximum(lines.base - _HEAD_WORDS, 0)] + 1, 0), lines.begins)
    name_begin, name_end = word(0)
    columns = [lines.at, name_begin, name_end - 1, token, lines.end(-3), op_count.astype(np.int64), *numbers, comm, size, stream, global_rank]
    return columns if good.all() else [c[good] for c in columns]


def _merged(found: list[list[npt.NDArray[Any]]]) -> list[npt.NDArray[Any]]:
    """Columns of two kinds of lines as one, in the order of lines."""
    columns = [np.concatenate(pair) for pair in zip(*found, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return [c[order] for c in columns]
