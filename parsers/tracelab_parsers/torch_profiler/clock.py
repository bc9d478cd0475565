"""The moment that the times of a trace count from.

New traces count from `baseTimeNanoseconds`, which until March 2025 stood after the events: it is then looked for
before the events are read, in the tail of the file or, where that is compressed, by one quick pass over it. Old
traces count from the Unix epoch and need no base.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import numpy as np

from tracelab_parsers.bytestream import ByteStream
from tracelab_parsers.torch_profiler.notices import Notices
from tracelab_parsers.torch_profiler.times import ABSOLUTE_NS, MAX_TS_NS, Ints

__all__ = ["Clock", "find_base"]

KEY = "baseTimeNanoseconds"
_STATED = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(-?\d[\d.eE+-]{0,63})(?=[\s,}])')
_JSON_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_MARK = b'"baseTimeNanoseconds"'
_PIECE = 1 << 20
_OVERLAP = 256
_MAX_TEXT = 64


def _number(raw: bytes | None) -> Decimal | None:
    """A base time, exactly as it is stated: tools that write JSON anew may give it an exponent or a fraction."""
    text = raw.strip() if raw is not None else b""
    if len(text) > _MAX_TEXT or _JSON_NUMBER.fullmatch(text) is None:
        return None
    base = Decimal(text.decode("ascii"))
    return base if 0 <= base < MAX_TS_NS else None


def _last_base(text: bytes) -> Decimal | None:
    at = text.rfind(_MARK)
    while at >= 0:
        m = _STATED.match(text, at)
        if m is not None and text[at - 1 : at] != b"\\":
            return _number(m.group(1))
        at = text.rfind(_MARK, 0, at)
    return None


def find_base(path: Path) -> Decimal | None:
    """The last base time (ns) that the file states anywhere; None where it states none."""
    with ByteStream(path) as stream:
        size = path.stat().st_size
        if not stream.compressed and size > 2 * _PIECE:
            with path.open("rb") as file:
                file.seek(size - _PIECE)
                base = _last_base(file.read())
            if base is not None:
                return base
        base, rest = None, b""
        while piece := stream.read(_PIECE):
            text = rest + piece
            found = _last_base(text)
            base = base if found is None else found
            rest = text[-_OVERLAP:]
        return base


class Clock:
    """Puts the times of one file on the Unix epoch. `values` are the top-level values read so far."""

    def __init__(self, path: Path, values: Mapping[str, bytes], notices: Notices) -> None:
        self._path = path
        self._values = values
        self._notices = notices
        self._base: Decimal | None = None
        self._sought = False
        self.counts_from_base = False

    def _resolve(self) -> Decimal | None:
        if not self._sought:
            self._sought = True
            stated = _number(self._values.get(KEY))
            self._base = stated if stated is not None else find_base(self._path)
            self._notices.add("fractional-time-base", count=int(self._base is not None and self._base % 1 != 0))
        return self._base

    @property
    def base_ns(self) -> int | None:
        """The base time that was used, ns since the Unix epoch; None where none was needed or none is stated."""
        return None if self._base is None else int(self._base.to_integral_value(ROUND_HALF_EVEN))

    def absolute(self, ts: Ints) -> Ints:
        """`ts` (ns, as the file counts them) since the Unix epoch."""
        relative = ts < ABSOLUTE_NS
        self.counts_from_base = self.counts_from_base or bool(ts[relative].any())
        if not relative.any():
            return ts
        base = self._resolve()
        if base is None and ts[relative].any() and "no-time-base" not in self._notices:
            self._notices.add("no-time-base")
        return np.where(relative, ts + (0 if base is None else int(base.to_integral_value(ROUND_HALF_EVEN))), ts)

    def confirm(self) -> None:
        """Checks the base that was used against the one that the document turned out to state."""
        stated = _number(self._values.get(KEY))
        if self._sought and stated is not None and stated != self._base:
            self._notices.add("time-base-conflict")
