"""Streams the elements of one array of a large JSON document in bounded memory, exactly.

The text is cut into chunks where `}` and `,` and `{` follow each other. Whether such a place is a cut between two
elements, and not inside a string or a nested list, is proven by decoding: starting from a cut, `[` + chunk + `]` is
valid JSON if and only if the chunk ends between two elements. Only where the guess fails is the text scanned.

Damage is told apart by the decoder too: a text that could go on validly is incomplete (a torn file), one that could
not is broken at a known byte (one bad element, which is repaired or dropped).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

import msgspec
import numpy as np

from tracelab_parsers.json_repair import Repaired, balanced_end, next_starts, repair
from tracelab_parsers.json_window import Window

__all__ = ["Chunk", "Decoder", "ElementReader", "Limits", "Report", "Verdict", "probe"]

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Report = Callable[[str, int], None]
"""Takes a notice code and the offset in the uncompressed file."""

_CUT = re.compile(rb"\}\s*,\s*(?=\{)")
_CLOSE = re.compile(rb"\}\s*\]\s*(?:[,}]|$)")
_BYTE = re.compile(r"\(byte (\d+)\)")
_SPACE = b" \t\r\n"
_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_REPAIR_BYTES = 1 << 20
_CAREFUL_BYTES = 64 << 10
_FIRST_BYTES = 1 << 20
_OVERLAP = 256
_SCAN_BYTES = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds of memory, in bytes: text decoded at once, one element, one value beside the array."""

    chunk: int = 8 << 20
    element: int = 64 << 20
    value: int = 8 << 20


class Decoder(Protocol[T_co]):
    """What turns a JSON array into a list of elements."""

    def decode(self, buf: bytes, /) -> Sequence[T_co]:
        """The elements; raises `msgspec.DecodeError` where the text is no such array."""


@dataclass(frozen=True)
class Chunk(Generic[T]):
    """Elements in a row. `text` is a valid JSON array of them, one for one; `offset` is where they begin.

    `singly`: they were decoded one by one, by the reader's `single`, or converted.
    """

    elements: Sequence[T]
    text: bytes
    offset: int
    singly: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a text from an element on is: it closes the array, could go on validly, breaks JSON, or nests too deep to tell."""

    state: Literal["closed", "clean", "broken", "deep"]
    at: int = 0


@dataclass
class ElementReader(Generic[T]):
    """Reads array elements from `window`, which stands after the `[`, to the closing `]`.

    `decoder` decodes a JSON array of elements and may be exchanged between two chunks. Where it refuses a chunk,
    `single` decodes the elements one by one, and `convert` makes an element from a plain Python value where `single`
    refuses too. Where text that had to be dropped matches `foreign`, another document was written into this one: reading
    stops there, for what follows is a mixture.
    """

    window: Window
    decoder: Decoder[T]
    single: Decoder[T]
    convert: Callable[[object], T]
    report: Report
    limits: Limits = field(default_factory=Limits)
    foreign: re.Pattern[bytes] | None = None
    closed: bool = False
    torn: bool = False
    _size: int = 0
    _careful: bool = False

    def __iter__(self) -> Iterator[Chunk[T]]:
        # The first chunk is small: what it shows of the file may change how the rest is decoded.
        self._size = min(self.limits.chunk, _FIRST_BYTES)
        while not (self.closed or self.torn):
            if self._at_end():
                break
            before = self.window.offset
            yield from self._step()
            if self.window.offset > before and not self._careful:
                self._size = min(self._size * 4, self.limits.chunk)
            self._careful = False

    def _at_end(self) -> bool:
        c = self.window.peek()
        if c == b"]":
            self.window.advance(1)
            self.closed = True
        elif not c:
            self._tear()
        return self.closed or self.torn

    def _tear(self) -> None:
        self.torn = True
        self.report("truncated", self.window.offset)

    def _step(self) -> Iterator[Chunk[T]]:
        window = self.window
        data, start, stop, last = window.view(self._size)
        chunk = self._last(data, start, stop) if last else self._guess(data, start, stop)
        if chunk is not None:
            yield chunk
            return
        piece = data[start:stop]
        verdict = probe(piece)
        if verdict.state == "closed":
            yield from self._emit(piece[: verdict.at])
            window.advance(verdict.at + 1)
            self.closed = True
        elif verdict.state == "broken":
            yield from self._around(piece[: verdict.at])
        else:
            yield from self._clean(piece, last=last)

    def _guess(self, data: bytes, start: int, stop: int) -> Chunk[T] | None:
        """The elements up to the last place that looks like a cut, if it is one."""
        for _ in range(3):
            found = _last_cut(data, start, stop)
            if found is None:
                return None
            end, after = found
            chunk = self._decode(memoryview(data)[start:end])
            if chunk is not None:
                self.window.advance(after - start)
                return chunk
            stop = end - 1
        return None

    def _last(self, data: bytes, start: int, stop: int) -> Chunk[T] | None:
        """All elements, if there is but one place near the end where the array may close, and it does."""
        ends = [m.start() for m in _CLOSE.finditer(data, max(start, stop - _CAREFUL_BYTES), stop)]
        end = data.index(b"]", ends[0]) if len(ends) == 1 else -1
        chunk = self._decode(memoryview(data)[start:end]) if end >= 0 else None
        if chunk is not None:
            self.window.advance(end + 1 - start)
            self.closed = True
        return chunk

    def _decode(self, body: bytes | memoryview) -> Chunk[T] | None:
        text = b"".join((b"[", body, b"]"))
        try:
            return Chunk(self.decoder.decode(text), text, self.window.offset)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None

    def _emit(self, body: bytes) -> Iterator[Chunk[T]]:
        """The elements of `body`, which holds whole ones; one by one where they do not decode together."""
        if not body.strip(_SPACE):
            return
        chunk = self._decode(body)
        if chunk is not None:
            yield chunk
            return
        singles: list[tuple[T, bytes]] = []
        start = self.window.offset
        begin = 0
        for end in (*_commas(body).tolist(), len(body)):
            if body[begin:end].strip(_SPACE):
                singles.extend(self._single(body[begin:end], start + begin))
            begin = end + 1
        yield _together(singles, start)

    def _single(self, text: bytes, offset: int) -> list[tuple[T, bytes]]:
        """The element that `text` holds, and valid text of it; nothing where it cannot be read."""
        try:
            return [(e, text) for e in self.single.decode(b"[%b]" % text)]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            repaired = repair(text)
        if repaired is None:
            self.report("bad-event", offset)
            return []
        for code in repaired.codes:
            self.report(code, offset)
        return [(self.convert(repaired.value), repaired.text())]

    def _clean(self, piece: bytes, *, last: bool) -> Iterator[Chunk[T]]:
        """`piece` is valid as far as it goes but does not close the array."""
        commas = _commas(piece)
        if len(commas):
            end = int(commas[-1])
            yield from self._emit(piece[:end])
            self.window.advance(end)
            self._past_comma()
        elif last:
            end = balanced_end(piece, 0, len(piece))
            if end < 0:
                self._tear()
                return
            yield from self._emit(piece[:end])
            self.window.advance(end)
            self._past_comma()
        elif self._size < self.limits.element:
            self._size *= 2
        else:
            self.report("oversized-event", self.window.offset)
            self.window.skip_value()
            self._past_comma()

    def _around(self, prefix: bytes) -> Iterator[Chunk[T]]:
        """`prefix` is valid but what follows breaks it: gives the elements before, or deals with the bad one."""
        self._size, self._careful = min(self.limits.chunk, _CAREFUL_BYTES), True
        commas = _commas(prefix)
        if len(commas):
            end = int(commas[-1])
            yield from self._emit(prefix[:end])
            self.window.advance(end)
            self._past_comma()
            return
        offset = self.window.offset
        data, last = self.window.piece(_REPAIR_BYTES)
        start = len(data) - len(data.lstrip(_SPACE))
        if data[start : start + 1] == b",":
            self.report("bad-comma", offset + start)
            self.window.advance(start)
            self._past_comma()
            return
        for end, reading in _readings(data, start):
            for code in reading.codes:
                self.report(code, offset + start)
            self.window.advance(end)
            self._past_comma()
            yield _together([(self.convert(reading.value), reading.text())], offset + start)
            return
        self.report("bad-event", offset + start)
        self._drop(data, start, last=last)

    def _drop(self, data: bytes, start: int, *, last: bool) -> None:
        """Skips the broken event at `start`, to where the next one or the end of the array seems to be."""
        starts = next_starts(data, start, len(data))
        bounds = [*(end for end, _ in starts[1:]), len(data)]
        for (_, after), bound in zip(starts, bounds, strict=False):
            # What has no phase is no event but a piece of the broken one.
            if data[after : after + 1] == b"]" or b'"ph"' in data[after:bound]:
                mark = self.foreign.search(data, start, after) if self.foreign is not None else None
                if mark is not None:
                    self.torn = True
                    self.report("interleaved-writers", self.window.offset + mark.start())
                else:
                    self.window.advance(after)
                return
        if last:
            self.torn = True
            self.report("truncated", self.window.offset + start)
        else:
            self.window.advance(len(data) - _OVERLAP)

    def _past_comma(self) -> None:
        """Goes to the next element, or to the end of the array, and tells of a comma that is missing before it or too much."""
        mark, offset = self.window.peek(), self.window.offset
        if mark == b",":
            self.window.advance(1)
            if self.window.peek() == b"]":
                self.report("bad-comma", offset)
        elif mark not in (b"]", b""):
            self.report("bad-comma", offset)


def _together(singles: list[tuple[T, bytes]], offset: int) -> Chunk[T]:
    return Chunk([e for e, _ in singles], b"[%b]" % b",".join(text for _, text in singles), offset, singly=True)


def _last_cut(data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    at = data.rfind(b"}", start, stop)
    for _ in range(10_000):
        if at < 0:
            return None
        m = _CUT.match(data, at, stop)
        if m is not None:
            return at + 1, m.end()
        at = data.rfind(b"}", start, at)
    return None


def probe(piece: bytes) -> Verdict:
    """How `piece`, which starts at an element, goes on: positions are in `piece`."""
    try:
        _RAW.decode(b"[" + piece)
        return Verdict("closed", piece.rfind(b"]"))
    except RecursionError:
        return Verdict("deep")
    except msgspec.DecodeError as e:
        message = str(e)
    m = _BYTE.search(message)
    if m is None:
        return Verdict("clean")
    at = int(m.group(1)) - 1
    if "trailing characters" in message:
        return Verdict("closed", piece.rfind(b"]", 0, at))
    # A number cut in its middle (`-`, `1.`, `1e`) reads like a broken one.
    return Verdict("clean") if at >= len(piece) - 3 else Verdict("broken", at)


_STRUCTURE = np.zeros(256, np.bool_)
_STRUCTURE[list(b",[]{}")] = True
_STEP = np.zeros(256, np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1


def _commas(piece: bytes) -> Ints:
    """Positions of the commas between elements: at depth 0 and outside strings. `piece` starts at an element.

    Works on 1 MiB at a time: hostile text is brackets all over.
    """
    found: list[Ints] = []
    in_string, depth = 0, 0
    for begin in range(0, len(piece), _SCAN_BYTES):
        commas, in_string, depth = _block_commas(piece, begin, in_string, depth)
        found.append(commas)
        if depth < 0:
            break
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _block_commas(piece: bytes, begin: int, in_string: int, depth: int) -> tuple[Ints, int, int]:
    """As `_commas`, for the block at `begin`, which is entered inside a string (1) or not (0) and at `depth`; both at its end too."""
    a = np.frombuffer(piece, np.uint8, min(_SCAN_BYTES, len(piece) - begin), begin)
    quotes = np.flatnonzero(a == ord('"'))
    before = np.frombuffer(piece, np.uint8)[np.maximum(quotes + begin - 1, 0)]
    suspects = quotes[before == ord("\\")]
    escaped = [q for q in suspects.tolist() if _backslashes(piece, q + begin) % 2]
    if escaped:
        quotes = np.setdiff1d(quotes, np.array(escaped, np.int64), assume_unique=True)
    marks = np.flatnonzero(_STRUCTURE[a])
    marks = marks[((np.searchsorted(quotes, marks) + in_string) & 1) == 0]
    depths = depth + np.cumsum(_STEP[a[marks]], dtype=np.int64)
    last = int(depths[-1]) if len(depths) else depth
    closed = np.flatnonzero(depths < 0)
    if len(closed):
        marks, depths, last = marks[: closed[0]], depths[: closed[0]], -1
    commas = marks[(a[marks] == ord(",")) & (depths == 0)]
    return np.asarray(commas + begin, np.int64), (in_string + len(quotes)) & 1, last


def _backslashes(piece: bytes, quote: int) -> int:
    at = quote
    while at > 0 and piece[at - 1] == ord("\\"):
        at -= 1
    return quote - at


def _readings(data: bytes, start: int) -> Iterator[tuple[int, Repaired]]:
    """Readings of the broken object at `start`, the most certain first, and where it ends by each."""
    ends = [balanced_end(data, start, len(data)), *(end for end, _ in next_starts(data, start, len(data))[:4])]
    for end in dict.fromkeys(e for e in ends if e > start):
        repaired = repair(data[start:end])
        if repaired is not None and isinstance(repaired.value, dict):
            yield end, repaired
