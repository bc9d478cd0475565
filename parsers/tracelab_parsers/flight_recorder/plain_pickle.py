"""Reads pickles that hold nothing but dictionaries, lists, tuples, text and numbers, and refuses all others.

A pickle is a program for a stack machine, and the standard one can import and call anything. This one knows 30 of the 68
opcodes: those that build plain values. There is nothing in it that could look up a name, make an object or ask for one, so
that no input can lead there. A program that tries is refused with the name of the opcode. What is built is bounded, whatever
the input claims: a length is never believed beyond the bytes that are there, references share what they refer to, and
nothing here follows a value into its depth.

The opcodes and their arguments are described in the standard module `pickletools`.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from tracelab.errors import TracelabError

__all__ = ["Limits", "Loaded", "load_plain"]

_NAMES = {ord(op.code): op.name for op in pickletools.opcodes}
_PROTOCOLS = range(2, 6)
_STOP = ord(".")
_BINGET = ord("h")
_SHOWN = 80
_HINT = "a dump of the recorder holds plain values alone: this file is something else, or was made to do harm; do not load it with other tools either"


@dataclass(frozen=True)
class Limits:
    """Bounds of the machine: instructions, containers, values kept for references, and containers that are open at one time.

    A dump of 100,000 operations has about 15 million instructions and 1 million containers, and never more than 5 open.
    """

    opcodes: int = 16_000_000
    containers: int = 4_000_000
    memo: int = 4_000_000
    open: int = 64


@dataclass(frozen=True)
class Loaded:
    """What a pickle holds. `torn`: it ends at byte `end` without its end mark, and `value` is what was complete before."""

    value: Any
    torn: bool
    end: int


class _Torn(Exception):  # noqa: N818 - no error, but the end of what can be read
    """The program ends before its end mark."""


def load_plain(data: bytes, name: str, limits: Limits | None = None) -> Loaded:
    """The value of the pickle `data`; `name` is how messages call it.

    Raises `TracelabError` where it tries anything but to build plain values, is damaged, or is larger than `limits`.
    """
    return _Machine(data, name, limits or Limits()).run()


class _Machine:
    def __init__(self, data: bytes, name: str, limits: Limits) -> None:
        self._data = data
        self._name = name
        self._limits = limits
        self._at = 0
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self._containers = 0

    def run(self) -> Loaded:
        data, size, steps, stack, memo = self._data, len(self._data), _STEPS, self.stack, self.memo
        for _ in range(self._limits.opcodes):
            at = self._at
            if at >= size:
                return self._torn()
            code = data[at]
            # Half of all instructions refer to one of the first 256 texts: the keys.
            if code == _BINGET and at + 1 < size and data[at + 1] in memo:
                stack.append(memo[data[at + 1]])
                self._at = at + 2
                continue
            self._at = at + 1
            if code == _STOP:
                return Loaded(self._pop(), torn=False, end=self._at)
            step = steps.get(code)
            if step is None:
                self._refuse(code, at)
            try:
                step(self)
            except _Torn:
                return self._torn()
        return self._fail(f"has more than {self._limits.opcodes:,} instructions")

    def _torn(self) -> Loaded:
        """Puts what is still open into its containers, from the inside out: what was complete is kept."""
        stack = self.stack
        while self._marks:
            items = self._above_mark()
            if not stack:
                break
            holder = stack[-1]
            if isinstance(holder, list):
                holder.extend(items)
            elif isinstance(holder, dict):
                holder.update((k, v) for k, v in zip(items[::2], items[1::2], strict=False) if isinstance(k, str))
        return Loaded(stack[0] if stack else None, torn=True, end=len(self._data))

    def _fail(self, what: str) -> NoReturn:
        raise TracelabError(f"{self._name}: the pickle {what} (byte {self._at})", hint="copy the file again from where it was written")

    def _refuse(self, code: int, at: int) -> NoReturn:
        name = _NAMES.get(code)
        if name is None:
            self._fail(f"is damaged: {code:#04x} is no instruction")
        wanted = ""
        if name in ("GLOBAL", "INST"):
            words = self._data[at + 1 : at + 1 + 2 * _SHOWN].split(b"\n")[:2]
            wanted = f" for {b'.'.join(words).decode('utf-8', 'replace')[:_SHOWN]!r}"
        elif name == "STACK_GLOBAL":
            wanted = f" for {'.'.join(str(w)[:_SHOWN] for w in self.stack[-2:] if isinstance(w, str))!r}"
        raise TracelabError(f"{self._name}: the pickle was refused: it asks{wanted} by {name} at byte {at}, which no plain value needs", hint=_HINT)

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self._at + size
        if end > len(self._data):
            raise _Torn
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def _pop(self) -> Any:
        stack, marks = self.stack, self._marks
        if len(stack) <= (marks[-1] if marks else 0):
            self._fail("is damaged: an instruction lacks its operand")
        return stack.pop()

    def _above_mark(self) -> list[Any]:
        if not self._marks:
            self._fail("is damaged: an instruction lacks its mark")
        start = self._marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def open(self, value: Any) -> None:
        self._containers += 1
        if self._containers > self._limits.containers:
            self._fail(f"holds more than {self._limits.containers:,} lists and dictionaries")
        self.stack.append(value)

    def _holder(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind) or len(self.stack) <= (self._marks[-1] if self._marks else 0):
            self._fail(f"is damaged: it fills what is no {kind.__name__}")
        return self.stack[-1]

    def protocol(self) -> None:
        version = self.number(1)
        if version not in _PROTOCOLS:
            self._fail(f"is of protocol {version}, which is not known")

    def frame(self) -> None:
        self.take(8)

    def mark(self) -> None:
        if len(self._marks) >= self._limits.open:
            self._fail(f"nests more than {self._limits.open} levels")
        self._marks.append(len(self.stack))

    def text(self, width: int) -> None:
        self.stack.append(self.take(self.number(width)).decode("utf-8", "replace"))

    def byte(self) -> None:
        at = self._at
        if at >= len(self._data):
            raise _Torn
        self.stack.append(self._data[at])
        self._at = at + 1

    def float(self) -> None:
        self.stack.append(struct.unpack(">d", self.take(8))[0])

    def long(self) -> None:
        self.stack.append(int.from_bytes(self.take(self.number(1)), "little", signed=True))

    def tuple_above_mark(self) -> None:
        self.open(tuple(self._above_mark()))

    def tuple_of(self, size: int) -> None:
        items = [self._pop() for _ in range(size)]
        self.open(tuple(reversed(items)))

    def append(self) -> None:
        item = self._pop()
        self._holder(list).append(item)

    def extend(self) -> None:
        items = self._above_mark()
        self._holder(list).extend(items)

    def set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set([key, value])

    def set_items(self) -> None:
        self._set(self._above_mark())

    def _set(self, items: list[Any]) -> None:
        holder = self._holder(dict)
        if len(items) % 2:
            self._fail("is damaged: a key lacks its value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # What is hashed is a number or text: neither can be made slow or deep.
            if not isinstance(key, str | int):
                self._fail(f"has a {type(key).__name__} for a key")
            holder[key] = value

    def put(self, index: int) -> None:
        if not self.stack:
            self._fail("is damaged: it stores what is not there")
        if len(self.memo) >= self._limits.memo:
            self._fail(f"keeps more than {self._limits.memo:,} values for references")
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        if index not in self.memo:
            self._fail("is damaged: it refers to what was not stored")
        self.stack.append(self.memo[index])


def _pushes(value: Any) -> Callable[[_Machine], None]:
    return lambda m: m.stack.append(value)


_Step = Callable[[_Machine], None]
_BY_NAME: dict[str, _Step] = {
    "PROTO": _Machine.protocol,
    "FRAME": _Machine.frame,
    "MARK": _Machine.mark,
    "NONE": _pushes(None),
    "NEWTRUE": _pushes(True),
    "NEWFALSE": _pushes(False),
    "BININT1": _Machine.byte,
    "BININT2": lambda m: m.stack.append(m.number(2)),
    "BININT": lambda m: m.stack.append(int.from_bytes(m.take(4), "little", signed=True)),
    "LONG1": _Machine.long,
    "BINFLOAT": _Machine.float,
    "BINUNICODE": lambda m: m.text(4),
    "SHORT_BINUNICODE": lambda m: m.text(1),
    "EMPTY_LIST": lambda m: m.open([]),
    "EMPTY_DICT": lambda m: m.open({}),
    "EMPTY_TUPLE": lambda m: m.tuple_of(0),
    "TUPLE": _Machine.tuple_above_mark,
    "TUPLE1": lambda m: m.tuple_of(1),
    "TUPLE2": lambda m: m.tuple_of(2),
    "TUPLE3": lambda m: m.tuple_of(3),
    "APPEND": _Machine.append,
    "APPENDS": _Machine.extend,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "BINPUT": lambda m: m.put(m.number(1)),
    "LONG_BINPUT": lambda m: m.put(m.number(4)),
    "MEMOIZE": lambda m: m.put(len(m.memo)),
    "BINGET": lambda m: m.get(m.number(1)),
    "LONG_BINGET": lambda m: m.get(m.number(4)),
}
_STEPS: dict[int, _Step] = {code: _BY_NAME[name] for code, name in _NAMES.items() if name in _BY_NAME}
