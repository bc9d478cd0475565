"""Walks the top level of a JSON document, streams the elements of one of its arrays and keeps a few other values.

A document is an object that holds the array under a key, at any place among its keys, or the bare array itself.
Values that nobody asked for are passed over without being kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

from tracelab_parsers.json_chunks import Chunk, Decoder, ElementReader, Limits, Report, probe
from tracelab_parsers.json_window import Readable, Window

__all__ = ["JsonDocument"]

T = TypeVar("T")
_KEY = re.compile(rb'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)"')
_KEY_BYTES = 64 << 10
_BOM = b"\xef\xbb\xbf"


class JsonDocument(Generic[T]):
    """Iterate over it for the chunks of the array under `key`; `values` fills on the way with the raw text of `keep`.

    `report` gets a code and an offset for: truncated, broken-metadata, bad-event, bad-comma, oversized-event,
    duplicate-key, interleaved-writers, trailing-data, no-json and the repairs of `json_repair`. `finished` tells whether
    the document was closed. `heads` are top-level keys that, found in damaged text inside the array, prove a second document.
    """

    def __init__(
        self,
        stream: Readable,
        key: str,
        decoder: Decoder[T],
        convert: Callable[[object], T],
        report: Report,
        *,
        single: Decoder[T] | None = None,
        keep: frozenset[str] = frozenset(),
        heads: frozenset[str] = frozenset(),
        limits: Limits | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._window = Window(stream, min(1 << 20, self._limits.chunk))
        self._key = key
        self._keep = keep
        self._report = report
        self._resync = _known_keys(keep | {key})
        foreign = _known_keys(heads) if heads else None
        self._reader = ElementReader(self._window, decoder, single or decoder, convert, report, self._limits, foreign)
        self._arrays = 0
        self.values: dict[str, bytes] = {}
        self.finished = False
        self.bare = False

    @property
    def decoder(self) -> Decoder[T]:
        """What decodes a chunk; may be exchanged between two chunks."""
        return self._reader.decoder

    @decoder.setter
    def decoder(self, decoder: Decoder[T]) -> None:
        self._reader.decoder = decoder

    @property
    def torn(self) -> bool:
        """Whether the array was left before its end."""
        return self._reader.torn

    def __iter__(self) -> Iterator[Chunk[T]]:
        if self._window.piece(len(_BOM))[0] == _BOM:
            self._window.advance(len(_BOM))
        first = self._window.peek()
        if first == b"[":
            self.bare = True
            yield from self._elements()
            self.finished = self._reader.closed
        elif first == b"{":
            self._window.advance(1)
            yield from self._members()
        else:
            self._report("no-json", self._window.offset)
            return
        if self.finished and self._trailing():
            self._report("trailing-data", self._window.offset)

    def _trailing(self) -> bool:
        while self._window.peek() == b"\0":
            self._window.advance(1)
        return bool(self._window.peek())

    def trailing_text(self, size: int) -> bytes:
        """The first `size` bytes after the document."""
        return self._window.piece(size)[0]

    def _elements(self) -> Iterator[Chunk[T]]:
        self._window.advance(1)
        self._arrays += 1
        if self._arrays > 1:
            self._report("duplicate-key", self._window.offset)
        self._reader.closed = False
        yield from self._reader

    def _members(self) -> Iterator[Chunk[T]]:
        """The members of the top-level object, to its end or that of the file."""
        while True:
            mark = self._window.peek()
            if mark == b"}":
                self._window.advance(1)
                self.finished = True
                return
            if not mark:
                self._truncated()
                return
            key = self._take_key()
            if key is None:
                if not self._recover():
                    return
                continue
            if key == self._key and self._window.peek() == b"[":
                yield from self._elements()
                if self._reader.torn:
                    return
            elif not self._value(key):
                return
            if self._window.peek() == b",":
                self._window.advance(1)

    def _take_key(self) -> str | None:
        """Consumes a key and its colon; None where there is no such thing."""
        m = self._window.match(_KEY, _KEY_BYTES)
        if m is None:
            return None
        self._window.advance(m.end())
        if self._window.peek() != b":":
            return None
        self._window.advance(1)
        return _text(m.group(1))

    def _truncated(self) -> None:
        self._report("truncated", self._window.offset)

    def _recover(self) -> bool:
        """Goes on at the next key that is known; False, and to the end of the file, where there is none."""
        _, last = self._window.piece(_KEY_BYTES)
        offset = self._window.offset
        if self._window.find(self._resync):
            self._report("broken-metadata", offset)
            return True
        self._report("truncated" if last else "broken-metadata", offset)
        return False

    def _value(self, key: str) -> bool:
        """Passes over the value of `key`, and keeps it where it is wanted; False where the file ends inside."""
        offset = self._window.offset
        text, ended = self._window.take_value(self._limits.value)
        if not ended:
            return self._unended(offset)
        if key in self._keep and text is not None:
            if key in self.values:
                self._report("duplicate-key", offset)
            self.values[key] = text
        elif key in self._keep or (key == self._key and text != b"null"):
            self._report("broken-metadata", offset)
        return True

    def _unended(self, offset: int) -> bool:
        """The file ends inside a value: torn where the value could go on validly, else broken and worth a search for the next key."""
        text, _ = self._window.piece(self._limits.value)
        if probe(text).state != "clean" and self._window.find(self._resync):
            self._report("broken-metadata", offset)
            return True
        self._report("truncated", offset)
        return False


def _text(raw: bytes) -> str:
    """A key as text; keys that are no valid JSON strings stay unknown."""
    if b"\\" not in raw:
        return raw.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(b'"%b"' % raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _known_keys(keys: frozenset[str]) -> re.Pattern[bytes]:
    names = b"|".join(re.escape(k.encode()) for k in sorted(keys))
    return re.compile(rb'"(?:%b)"\s*:' % names)
