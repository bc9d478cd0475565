"""What a terminal session on a switch leaves in a file: prompts, commands, moments, and the output between them.

A session may hold plain text, JSON documents, or both in turn; a file that is one JSON document is a session without prompts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tracelab_parsers.counters.switch_moments import moment_in
from tracelab_parsers.json_window import Readable
from tracelab_parsers.nccl_json.lines import lines

__all__ = ["DOCUMENT_BYTES", "Context", "Item", "transcript", "transcript_context"]

DOCUMENT_BYTES = 64 << 20
"""Longest JSON document that is read: a switch of 512 ports prints a tenth of it."""
_LONGEST_LINE = 1 << 16
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]')
_WORDS = r"(?:show|sh|sudo|date|clock|portstat|pfcstat|queuestat|watermarkstat|pg-drop|wredstat|sonic-db-dump|redis-dump|lldpctl|lldpcli|lldpshow|docker|cat)"
_SHELL = re.compile(r"(?:\([^)]{1,40}\) ?)?[\w.-]+@(?P<node>[\w.-]+):[^\s$#]*[$#](?: (?P<command>.*))?")
_BRACKET = re.compile(r"\[[\w.-]+@(?P<node>[\w.-]+) [^\]\s]*\][$#](?: (?P<command>.*))?")
_CLI = re.compile(rf"(?P<node>[A-Za-z][\w.-]*)(?:\([\w/-]+\))*[#>] ?(?P<command>{_WORDS}\b.*)?")
_HEADING = re.compile(rf"(?:[#$+!] ?|!Command: |-{{4,}} ?|`|={{3,}} ?)(?P<command>{_WORDS} .*?)(?:`| ?-{{4,}}| ?={{3,}})?")
_ANSIBLE = re.compile(r"(?P<node>[\w.-]+) \| (?:CHANGED|SUCCESS|FAILED) \| rc=\d+ >>")
_TIMEZONE = re.compile(r"Time ?zone: ?(?:UTC|GMT)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Context:
    """What the lines before an output state: the machine (from a prompt), the command, the moment. None where they do not."""

    node: str | None = None
    command: str | None = None
    ts_ns: int | None = None
    quality: Literal["file", "local"] | None = None


class Item(NamedTuple):
    """A line of text, or a JSON document that begins on `line`. `whole`: the file did not end inside."""

    line: int
    context: Context
    text: str
    document: bytes | None
    whole: bool


def transcript(stream: Readable, too_long: Callable[[int], None]) -> Iterator[Item]:
    """The outputs in `stream` in order, without prompts and dates; `too_long` gets the offset of what is left out for its size."""
    context, document = Context(), _Document()
    for line in lines(stream, too_long, DOCUMENT_BYTES):
        raw = line.text.removeprefix(b"\xef\xbb\xbf") if line.number == 1 else line.text
        text = _ANSI.sub("", raw.rstrip(b"\r").decode("utf-8", "replace")) if len(raw) <= _LONGEST_LINE else ""
        if document.begun and _is_prompt(text):
            yield Item(document.line, context, "", document.take(), whole=False)
        if document.begun or (raw.lstrip()[:1] in (b"{", b"[") and not _is_prompt(text)):
            if not document.add(line.number, raw):
                too_long(line.offset)
            elif document.depth <= 0:
                yield Item(document.line, context, "", document.take(), whole=True)
        elif len(raw) > _LONGEST_LINE:
            too_long(line.offset)
        else:
            changed = _stated(text, context)
            if changed is None:
                yield Item(line.number, context, text, None, line.whole)
            context = changed or context
    if document.begun:
        yield Item(document.line, context, "", document.take(), whole=False)


class _Document:
    """The lines of a JSON document, until its brackets are closed."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.depth = self.line = 0

    @property
    def begun(self) -> bool:
        return bool(self._parts)

    def add(self, line: int, raw: bytes) -> bool:
        """False, and all is dropped, where it becomes too large."""
        self.line = self.line if self._parts else line
        self._parts.append(raw)
        self._size += len(raw) + 1
        self.depth += _brackets(raw)
        if self._size <= DOCUMENT_BYTES:
            return True
        self.take()
        return False

    def take(self) -> bytes:
        whole = b"\n".join(self._parts)
        self._parts, self._size, self.depth = [], 0, 0
        return whole


def _brackets(raw: bytes) -> int:
    """Brackets that `raw` opens and does not close."""
    depth = 0
    for token in _TOKEN.findall(raw):
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
    return depth


def _is_prompt(text: str) -> bool:
    return len(text) <= 512 and (_SHELL.fullmatch(text) or _BRACKET.fullmatch(text)) is not None


def _stated(text: str, context: Context) -> Context | None:
    """The context after `text`, where it is a prompt, a heading or a moment; None where it is output."""
    text = text.strip()
    if not text or len(text) > 512:
        return None
    if (m := _ANSIBLE.fullmatch(text)) is not None:
        return Context(node=m["node"])
    if (m := _SHELL.fullmatch(text) or _BRACKET.fullmatch(text) or _CLI.fullmatch(text)) is not None:
        same = m["node"] == context.node or context.node is None
        return replace(context if same else Context(), node=m["node"], command=(m["command"] or "").strip() or None)
    if (m := _HEADING.fullmatch(text)) is not None:
        return replace(context, command=m["command"].strip())
    if _TIMEZONE.match(text) and context.ts_ns is not None:
        return replace(context, quality="file")
    if (moment := moment_in(text)) is not None:
        return replace(context, ts_ns=moment.ns, quality="file" if moment.zoned else "local")
    return None


def transcript_context(text: str, context: Context) -> tuple[Context, bool]:
    """The context after the line `text`, and whether the line is output that nothing else explains."""
    text = _ANSI.sub("", text.rstrip("\r\n"))
    changed = _stated(text, context)
    return changed or context, changed is None and bool(text.strip())
