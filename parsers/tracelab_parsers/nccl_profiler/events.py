"""Lines of a dump to events: the JSON that NCCL's example profiler writes is not always valid."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tracelab_parsers.nccl_json.values import decode

__all__ = ["events_of"]

_BLANK = b" \t\r\n\0"
_STRING_OR_BARE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(:\s*)([A-Za-z0-9_]++|\(nil\))(?=\s*[,}])')
_KEYWORDS = re.compile(rb"-?[0-9]+|true|false|null|nan|inf|NaN|Infinity")


def events_of(line: bytes, report: Callable[[str], None]) -> list[Any] | None:
    """The values on a line of the array, without its brackets and trailing commas; None where they cannot be read.

    Names and addresses that stand without quotes are read as text, which is reported as `unquoted-values`.
    """
    text = line.strip(_BLANK).removeprefix(b"[").removesuffix(b"]").strip(_BLANK + b",")
    if not text:
        return []
    found = decode(b"[%b]" % text)
    if found is None:
        quoted, changes = _quoted(text)
        found = decode(b"[%b]" % quoted, report)
        if found is not None and changes:
            report("unquoted-values")
    return found if isinstance(found, list) else None


def _quoted(text: bytes) -> tuple[bytes, int]:
    """`text` with bare words after colons in quotes, and how many there were."""
    changes = 0

    def replace(m: re.Match[bytes]) -> bytes:
        nonlocal changes
        word: bytes | None = m.group(2)
        if word is None or _KEYWORDS.fullmatch(word):
            return m.group()
        changes += 1
        return b'%b"%b"' % (m.group(1), word)

    return _STRING_OR_BARE.sub(replace, text), changes
