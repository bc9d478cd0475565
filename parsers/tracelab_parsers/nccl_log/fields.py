"""Small things that the readers of messages share: bounded numbers and texts, memory that cannot grow without end."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from tracelab_parsers.nccl_log.line import LogLine

__all__ = ["Bounded", "bounded", "integer", "process", "thread"]

_TEXT = 500
_INT32, _INT64 = 2**31 - 1, 2**63 - 1

K = TypeVar("K")
V = TypeVar("V")


def bounded(text: str, limit: int = _TEXT) -> str:
    """`text` without surrounding space, at most `limit` characters long; a cut one ends with an ellipsis."""
    out = text[: 4 * limit].strip()
    return out if len(out) <= limit else out[: limit - 1] + "…"


def integer(digits: str | None, *, wide: bool = False) -> int | None:
    """The number that `digits` are, None where they are no number or too many for the column (int32, or int64 if `wide`)."""
    if digits is None or len(digits) > 20:
        return None
    body = digits.removeprefix("-")
    if not (body.isascii() and body.isdigit()):
        return None
    number = int(digits)
    return number if abs(number) <= (_INT64 if wide else _INT32) else None


def process(line: LogLine) -> tuple[str, int | None]:
    """What tells the writers of bare lines apart: the rank of the launcher's label, else the part.

    A label comes first: its part may be known only after some lines.
    """
    return ("part", line.part) if line.rank_label is None else ("rank", line.rank_label)


def thread(line: LogLine) -> tuple[int | None, int | None]:
    """What tells threads apart; tables and blocks are printed by one thread."""
    return line.part, line.tid


class Bounded(OrderedDict[K, V], Generic[K, V]):
    """A dictionary that forgets the entry not written for longest when it holds more than `limit`."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.limit:
            self.popitem(last=False)
