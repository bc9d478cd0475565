"""Rows of an SQLite file straight from its pages, many at a time: the way of SQLite itself, row by row, costs five times as much.

The layout is that of https://www.sqlite.org/fileformat2.html: a table is a tree of pages; its leaves hold the rows in the
order of their numbers. Whatever is not as usual raises `ValueError`; SQLite then reads it. Nothing of the file is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracelab_parsers.nsys.columns import Bytes, Flags, Ints, pieces_of
from tracelab_parsers.nsys.source import MAX_TEXT, Field, arrow_type

__all__ = ["Pages", "Rows"]

_INNER, _LEAF = 0x05, 0x0D
_HEAD = 8
"""Bytes before the positions of the rows in a leaf."""
_UTF8 = 1
_MAX_DEPTH = 20
_MAX_PAYLOAD = 1 << 20
_MAX_REST = 1 << 26
_FEW_ROWS = 500
_MOST_BYTES = 1 << 24
_MAX_LENGTH = 1 << 40
_EXACT = float(1 << 62)
_NULL, _REAL, _ZERO, _ONE, _FIRST_BLOB = 0, 7, 8, 9, 12
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((n - _FIRST_BLOB) // 2 for n in range(_FIRST_BLOB, 128))], np.int64)
"""Bytes of a value by its type; from 12 on even types are blobs and odd ones are texts, the longer the higher."""
_SHIFTS = np.array([63, 56, 48, 40, 32, 16, 0, 0, 63, 63], np.int64)
"""By how much eight bytes that begin with a whole number are shifted to leave it alone."""


_CONTINUED = [0x8080808080808080 & ~((1 << 8 * (8 - n)) - 1) for n in range(9)]
"""Bits of eight bytes that say, of each of the first n, that its number goes on in the next."""
_Types = npt.NDArray[np.uint8] | npt.NDArray[np.int64]


def _big(buffer: Bytes, at: Ints) -> Ints:
    """Numbers of two bytes."""
    return buffer.take(at).astype(np.int64) << 8 | buffer.take(at + 1)


def _varints(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Numbers of up to nine bytes, seven bits in each, and where they end."""
    first = buffer.take(at)
    after = at + 1
    if not len(first) or first.max() < 0x80:
        return first.astype(np.int64), after
    value = (first & 0x7F).astype(np.int64)
    more = np.flatnonzero(first & 0x80)
    for number in range(1, 9):
        every = len(more) == len(at)
        byte = buffer.take(after if every else after[more])
        last = number == 8  # the ninth byte counts whole
        part = byte if last else byte & 0x7F
        if every:
            value = value << (8 if last else 7) | part
            after += 1
        else:
            value[more] = value[more] << (8 if last else 7) | part
            after[more] += 1
        more = more[byte >= 0x80]
        if not len(more):
            break
    return value, after


def _behind(buffer: Bytes, at: Ints) -> Ints:
    """Where numbers of up to nine bytes end; most often all have as many bytes as the first."""
    length = int(_varints(buffer, at[:1])[1][0] - at[0])
    alike = all(buffer.take(at + n).min() >= 0x80 for n in range(length - 1)) and (length == 9 or buffer.take(at + (length - 1)).max() < 0x80)
    return at + length if alike else _varints(buffer, at)[1]


@dataclass(frozen=True)
class _Values:
    """Types and places of one column's values."""

    types: _Types
    low: int
    high: int
    at: Ints

    def sizes(self, most: int | None = None) -> Ints:
        """Bytes of each value, of the first `most`."""
        types = self.types[:most]
        if types.dtype == np.uint8:
            return _SIZES[types]
        return np.where(types < 128, _SIZES[np.minimum(types, 127)], np.minimum(types - _FIRST_BLOB, _MAX_LENGTH) >> 1)


class Rows:
    """Rows of some leaves. `last` is the number of the last one."""

    def __init__(self, buffer: Bytes, start: Ints, end: Ints, last: int) -> None:
        self._bytes, self._start, self._end, self.last = buffer, start, end, last
        self._words = buffer[: len(buffer) // 8 * 8].view(">u8").astype(np.uint64)

    def __len__(self) -> int:
        return len(self._start)

    def columns(self, fields: Sequence[Field], places: Mapping[str, int]) -> list[pa.Array]:
        """The values of `fields`, whose columns stand at `places` in a row. `ValueError` where one is not as its kind wants it."""
        found = self._find({places[c] for f in fields for c in f.columns})
        return [self._column(f, [found[places[c]] for c in f.columns]) for f in fields]

    def _find(self, wanted: set[int]) -> dict[int, _Values]:
        """Types and places of the values of these columns. What all rows have alike costs next to nothing."""
        head, at = _varints(self._bytes, self._start)
        body, head_end = self._start + head, self._start + head
        found: dict[int, _Values] = {}
        place, count, alike = 0, max(wanted) + 1, 0
        while place < count:
            columns, at = self._types(at, min(8, count - place))
            for types, low, high in columns:
                if alike and (place in wanted or low != high):
                    body, alike = body + alike, 0
                values = _Values(types, low, high, body)
                if place in wanted:
                    found[place] = values
                if low == high:
                    alike += int(values.sizes(1)[0])
                else:
                    body = body + values.sizes()
                place += 1
        if (at > head_end).any() or (body + alike > self._end).any():
            raise ValueError("a row ends before its columns do")
        return found

    def _types(self, at: Ints, count: int) -> tuple[list[tuple[_Types, int, int]], Ints]:
        """Types of the next `count` columns, up to eight, with the lowest and highest of each, and where they end."""
        word = self._eight(at)
        low, high = int(word.min()), int(word.max())
        octets = word.astype(">u8").view(np.uint8).reshape(-1, 8)
        if low == high and not low & _CONTINUED[count]:
            return [(octets[:, n], int(octets[0, n]), int(octets[0, n])) for n in range(count)], at + count
        columns: list[tuple[_Types, int, int]] = []
        if not (word & np.uint64(_CONTINUED[count])).any():
            for n in range(count):
                types = octets[:, n].copy()
                columns.append((types, int(types.min()), int(types.max())))
            return columns, at + count
        for _ in range(count):
            wide, at = _varints(self._bytes, at)
            columns.append((wide, int(wide.min()), int(wide.max())))
        return columns, at

    def _column(self, f: Field, values: list[_Values]) -> pa.Array:
        if f.kind in ("text", "blob"):
            return self._texts(f, values[0])
        if f.kind == "real":
            return self._reals(values[0])
        numbers, known = self._ints(values[0])
        for factor in values[1:]:
            more, also = self._ints(factor)
            if (np.abs(numbers.astype(np.float64) * more) > _EXACT).any():
                raise ValueError("a product too large")
            numbers, known = numbers * more, known & also
        if not known.any():
            return pa.nulls(len(self), pa.int64())
        return pa.array(numbers, mask=None if known.all() else ~known)

    def _ints(self, values: _Values) -> tuple[Ints, Flags]:
        types, low, high = values.types, values.low, values.high
        if high == _NULL:
            return np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        if high > _ONE or (low <= _REAL <= high and (types == _REAL).any()):
            raise ValueError("no whole number")
        known = types != _NULL
        if low >= _ZERO:
            return (types - np.int64(_ZERO)).astype(np.int64), known
        numbers = self._eight(values.at).view(np.int64) >> (_SHIFTS[low] if low == high else _SHIFTS[types])
        if high >= _ZERO or low == _NULL:
            numbers = np.where((types == _NULL) | (types == _ZERO), 0, np.where(types == _ONE, 1, numbers))
        return numbers, known

    def _reals(self, values: _Values) -> pa.Array:
        real = values.types == _REAL
        whole: Ints = np.where(real, _NULL, values.types).astype(np.int64)
        numbers, known = self._ints(_Values(whole, int(whole.min()), int(whole.max()), values.at))
        floats = np.where(real, self._eight(values.at).view(np.float64), numbers.astype(np.float64))
        return pa.array(floats, mask=~(known | real))

    def _eight(self, at: Ints) -> npt.NDArray[np.uint64]:
        """The eight bytes from each position on, the first one highest."""
        word, bits = at >> 3, ((at & 7) << 3).astype(np.uint64)
        return self._words.take(word) << bits | self._words.take(word + 1) >> np.uint64(1) >> (np.uint64(63) - bits)

    def _texts(self, f: Field, values: _Values) -> pa.Array:
        kind = arrow_type(f.kind)
        types = values.types.astype(np.int64)
        known = types != _NULL
        if not known.any():
            return pa.nulls(len(self), kind)
        if (known & (types < _FIRST_BLOB)).any():
            raise ValueError("a number in a column of texts")
        sizes = np.where(known, (types - _FIRST_BLOB) >> 1, 0)
        ends = np.cumsum(sizes)
        if ends[-1] >= 1 << 31:
            raise ValueError("too many characters at once")
        offsets = np.zeros(len(sizes) + 1, np.int32)
        offsets[1:] = ends
        data = pieces_of(self._bytes, values.at, sizes, ends)
        if f.kind == "text" and not data.all():
            raise ValueError("a text with a zero in it")
        validity = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
        made = pa.Array.from_buffers(kind, len(sizes), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])
        made.validate(full=True)
        if sizes.max() > MAX_TEXT:
            return pc.utf8_slice_codeunits(made, 0, MAX_TEXT) if f.kind == "text" else pc.binary_slice(made, 0, MAX_TEXT)
        return made


class Pages:
    """The pages of a file that is whole and that nobody writes. `ValueError` where it holds other texts than UTF-8."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        head = self._file.read(100)
        size = int.from_bytes(head[16:18])
        self._size = 65_536 if size == 1 else size
        self._usable = self._size - head[20]
        self._count = path.stat().st_size // max(self._size, 1)
        if int.from_bytes(head[56:60]) != _UTF8 or self._usable < 480:
            self._file.close()
            raise ValueError("texts of another encoding")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def rows(self, root: int, at_once: int) -> Iterator[Rows]:
        """The rows of the table that begins at page `root`, about so many at once."""
        leaves = self._leaves(root)
        begin, pages = 0, 1 + at_once // _FEW_ROWS
        while begin < len(leaves):
            rows = self._cells(leaves[begin : begin + pages])
            begin += pages
            pages = max(1, min(pages * at_once // max(1, len(rows)), _MOST_BYTES // self._size))
            if len(rows):
                yield rows

    def _read(self, pages: Ints) -> Bytes:
        """The pages one after the other, and 16 bytes to spare. Neighbours in the file are read at once."""
        if pages.min() < 1 or pages.max() > self._count:
            raise ValueError("a page beyond the end of the file")
        buffer = np.empty(len(pages) * self._size + 16, np.uint8)
        buffer[-16:] = 0
        view = memoryview(buffer.data)
        runs = np.flatnonzero(np.r_[True, np.diff(pages) != 1])
        for begin, end in zip(runs.tolist(), [*runs[1:].tolist(), len(pages)], strict=True):
            self._file.seek((int(pages[begin]) - 1) * self._size)
            part = view[begin * self._size : end * self._size]
            if self._file.readinto(part) != len(part):
                raise ValueError("the file ends early")
        return buffer

    def _leaves(self, root: int) -> Ints:
        """The leaves below a page, in order. All are equally deep."""
        level = np.array([root], np.int64)
        for _ in range(_MAX_DEPTH):
            if self._read(level[:1])[0] == _LEAF:
                return level
            below: list[Ints] = []
            left = self._count
            for page in level.tolist():
                below.append(self._children(page))
                left -= len(below[-1])
                if left < 0:
                    raise ValueError("more pages than the file has")
            level = np.concatenate(below)
        raise ValueError("a tree without leaves")

    def _children(self, number: int) -> Ints:
        page = self._read(np.array([number], np.int64))
        cells = int.from_bytes(page[3:5].tobytes())
        if page[0] != _INNER or 12 + 2 * cells > self._usable:
            raise ValueError("no inner page")
        at = _big(page, 12 + 2 * np.arange(cells))
        below = _big(page, at) << 16 | _big(page, at + 2)
        return np.append(below, int.from_bytes(page[8:12].tobytes()))

    def _cells(self, pages: Ints) -> Rows:
        buffer = self._read(pages)
        begins = np.arange(len(pages)) * self._size
        counts = _big(buffer, begins + 3)
        if (buffer.take(begins) != _LEAF).any() or (_HEAD + 2 * counts > self._usable).any():
            raise ValueError("no leaf")
        begins, counts = begins[counts > 0], counts[counts > 0]
        page = np.repeat(begins, counts)
        if not len(page):
            return Rows(buffer, page, page, 0)
        before = np.cumsum(counts) - counts
        place = 2 * np.arange(len(page)) + np.repeat(begins + _HEAD - 2 * before, counts)
        at = _big(buffer, place)
        if (np.minimum.reduceat(at, before) < _HEAD + 2 * counts).any():
            raise ValueError("a row inside the list of rows")
        size, at = _varints(buffer, page + at)
        last = int(_varints(buffer, at[-1:])[0][0])
        at = _behind(buffer, at)
        end = at + size
        border = page + self._usable
        most = int(size.max())
        if size.min() < 1 or (at > border).any():
            raise ValueError("no rows")
        if most > self._usable - 35:
            long = size > self._usable - 35
            end = np.where(long, at, end)
            buffer, at, end = self._with_rest(buffer, at, end, size, np.flatnonzero(long))
            border[long] = len(buffer)
        if (end > border).any():
            raise ValueError("a row beyond its page")
        return Rows(buffer, at, end, last)

    def _with_rest(self, buffer: Bytes, at: Ints, end: Ints, sizes: Ints, long: Ints) -> tuple[Bytes, Ints, Ints]:
        """Rows that are too long for their page go on in others: they are put together behind all pages."""
        pieces, behind = [buffer], len(buffer)
        for row in long.tolist():
            size = int(sizes[row])
            least = (self._usable - 12) * 32 // 255 - 23
            local = least + (size - least) % (self._usable - 4)
            local = local if local <= self._usable - 35 else least
            piece = [buffer[at[row] : at[row] + local]]
            following = buffer[at[row] + local : at[row] + local + 4]
            left = min(size, _MAX_PAYLOAD) - local
            while left > 0:
                page = self._read(np.array([int.from_bytes(following.tobytes())], np.int64))
                following = page[:4]
                piece.append(page[4 : 4 + min(left, self._usable - 4)])
                left -= self._usable - 4
            at[row], end[row] = behind, behind + sum(map(len, piece))
            pieces += piece
            behind = int(end[row])
            if behind > len(buffer) + _MAX_REST:
                raise ValueError("too many long rows at once")
        return np.concatenate([*pieces, np.zeros(16, np.uint8)]), at, end
