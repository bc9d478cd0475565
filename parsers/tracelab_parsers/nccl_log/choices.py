"""Which algorithm, protocol and channels were chosen for an operation, and which operation that was."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracelab_parsers.nccl_log import ops
from tracelab_parsers.nccl_log.line import LogLine

if TYPE_CHECKING:
    from tracelab_parsers.nccl_log.operations import Operations

__all__ = ["Choice", "attach", "read_choice"]

_Key = tuple[int, int, bool, str | None, int]

_CHOICE = re.compile(
    r"(?:(?P<name>\w{2,40}): )?(?P<bytes>\d{1,18}) Bytes -> Algo (?P<algorithm>\w{1,20}) proto (?P<protocol>\w{1,10})"
    r"(?P<channels> channel\{Lo\.\.Hi\}=\{(?P<first>\d{1,4})\.\.(?P<last>\d{1,4})\})?"
)
_SPECIAL = re.compile(r"(?P<name>\w{2,40}) \[(?P<how>Symmetric|[\w ]*Copy Engine|[\w ]*CE)\]: (?P<bytes>\d{1,18}) Bytes -> (?P<rest>.*)", re.DOTALL)
_KERNEL = re.compile(r"Kernel (?P<kernel>\w+)(?: nchannels (?P<channels>\d{1,4}))?")
_KERNEL_PROTOCOL = re.compile(r"LL128|LL(?![a-z])")


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice. `full`: its bytes are those over all ranks for all_gather and reduce_scatter (before 2.24)."""

    line: int
    part: int
    tid: int
    name: str | None
    bytes: int
    full: bool
    algorithm: str | None
    protocol: str | None
    first: int | None
    last: int | None


def read_choice(line: LogLine, part: int, version: tuple[int, ...]) -> Choice | None:
    """The choice that a line states, else None."""
    m = _CHOICE.match(line.text)
    if m is not None:
        name = ops.operation(m["name"]) if m["name"] else None
        algorithm, protocol = ops.algorithm(m["algorithm"], version), ops.protocol(m["protocol"])
        channels = (int(m["first"]), int(m["last"])) if m["channels"] else (None, None)
        return Choice(line.number, part, line.tid or 0, name, int(m["bytes"]), not m["channels"], algorithm, protocol, *channels)
    m = _SPECIAL.match(line.text)
    if m is None:
        return None
    kernel = _KERNEL.match(m["rest"])
    found = _KERNEL_PROTOCOL.search(kernel["kernel"]) if kernel else None
    count = int(kernel["channels"]) if kernel and kernel["channels"] else 0
    algorithm = "SYMMETRIC" if m["how"] == "Symmetric" else "COPY_ENGINE"
    channels = (0, count - 1) if count else (None, None)
    return Choice(line.number, part, line.tid or 0, ops.operation(m["name"]), int(m["bytes"]), False, algorithm, found[0] if found else None, *channels)


def attach(blocks: Sequence[Operations], choices: Sequence[Choice]) -> None:
    """Writes choices into the operations that they belong to.

    A choice is printed by rank 0 of the communicator, after its operation, by the same thread: it belongs to the first
    operation of that thread that has none yet, fits in function and bytes, and is not known to be of another rank.
    """
    waiting: defaultdict[_Key, deque[tuple[int, int, int]]] = defaultdict(deque)
    wanted = {_key(c) for c in choices}
    for number, block in enumerate(blocks):
        _gather(number, block, wanted, waiting)
    taken: set[tuple[int, int]] = set()
    for choice in choices:
        rows = waiting.get(_key(choice))
        while rows and rows[0][0] < choice.line:
            _, number, row = rows.popleft()
            if (number, row) not in taken:
                taken.add((number, row))
                _write(blocks[number], row, choice)
                break


def _write(block: Operations, row: int, choice: Choice) -> None:
    from tracelab_parsers.nccl_log.operations import ALGORITHMS, PROTOCOLS

    if choice.algorithm in ALGORITHMS:
        block.algorithm[row] = ALGORITHMS.index(choice.algorithm)
    if choice.protocol in PROTOCOLS:
        block.protocol[row] = PROTOCOLS.index(choice.protocol)
    if choice.first is not None and choice.last is not None:
        block.first[row], block.last[row] = choice.first, choice.last


def _key(choice: Choice) -> _Key:
    return choice.part, choice.tid, choice.full, choice.name, choice.bytes


def _gather(number: int, block: Operations, wanted: set[_Key], waiting: defaultdict[_Key, deque[tuple[int, int, int]]]) -> None:
    """Operations without a choice that may fit one of those `wanted`, in the order of lines."""
    from tracelab_parsers.nccl_log.operations import NAMES

    own = block.per_call()
    old = np.where(np.isin(block.name, [NAMES.index("all_gather"), NAMES.index("reduce_scatter")]), block.full(), own)
    open_ = (block.algorithm < 0) & (block.comm_rank <= 0) & (block.origin == 0)
    for full, size in ((False, own), (True, old)):
        sizes = np.array(sorted({k[4] for k in wanted if k[2] is full}), np.int64)
        threads = np.array(sorted({k[1] for k in wanted if k[2] is full}), np.int64)
        rows = np.flatnonzero(open_ & np.isin(size, sizes) & np.isin(block.tid, threads)) if len(sizes) else np.zeros(0, np.int64)
        columns = (block.line, block.part, block.tid, block.name, size)
        for row, line, part, tid, name, count in zip(rows.tolist(), *(c[rows].tolist() for c in columns), strict=True):
            for key in ((part, tid, full, NAMES[name], count), (part, tid, full, None, count)):
                if key in wanted:
                    waiting[key].append((line, number, row))
