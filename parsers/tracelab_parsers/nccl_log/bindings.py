"""Which communicator an address stood for when an operation was logged: addresses are used again."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from tracelab_parsers.nccl_log.processes import Communicator
from tracelab_parsers.nccl_log.scanning import Ints, Words, codes_of

__all__ = ["Bindings"]

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Bindings:
    """The addresses of a block's operations, by process, and what they meant at each line.

    `appears` tells of the first use of an address after its meaning was lost; it gives the communicator.
    """

    def __init__(self, line: Ints, part: Ints, pointer: Words, size: Ints, appears: Callable[[int, int, int, int], Communicator | None]) -> None:
        self._line, self._part, self._pointer, self._size = line, part, pointer, size
        self._appears = appears
        self._codes, first = codes_of(pointer * _ODD + part.astype(np.uint64)) if len(line) else (part, part)
        order = np.argsort(self._codes, kind="stable")
        self._rows = np.split(order, np.cumsum(np.bincount(self._codes, minlength=len(first)))[:-1]) if len(first) else []
        self._group = {(int(part[row]), int(pointer[row])): code for code, row in enumerate(first.tolist())}
        self._pending = [(int(line[row]), code) for code, row in enumerate(first.tolist())]
        heapq.heapify(self._pending)
        self._history: list[list[tuple[int, Communicator | None]]] = [[] for _ in self._rows]
        self._threads: dict[tuple[int, int], tuple[list[int], Ints]] | None = None

    def upto(self, line: int) -> None:
        """Lets the operations before `line` happen."""
        while self._pending and self._pending[0][0] < line:
            at, code = heapq.heappop(self._pending)
            row = int(self._rows[code][0]) if not self._history[code] else self._row_from(code, at)
            self._history[code].append((at, self._appears(at, int(self._part[row]), int(self._pointer[row]), int(self._size[row]))))

    def _row_from(self, code: int, line: int) -> int:
        rows = self._rows[code]
        return int(rows[np.searchsorted(self._line[rows], line)])

    def changed(self, part: int, pointer: int, line: int) -> None:
        """The address has another meaning from `line` on: its next use is asked for again."""
        code = self._group.get((part, pointer))
        if code is None:
            return
        self._pending = [p for p in self._pending if p[1] != code]
        heapq.heapify(self._pending)
        rows = self._rows[code]
        next_row = int(np.searchsorted(self._line[rows], line, side="right"))
        if next_row < len(rows):
            heapq.heappush(self._pending, (int(self._line[rows[next_row]]), code))

    def last_of(self, part: int, tid: int, line: int, tids: Ints) -> tuple[int, Communicator | None] | None:
        """Line and communicator of the thread's last operation before `line`."""
        if self._threads is None:
            self._threads = {}
            if len(self._line):
                codes, first = codes_of(tids.astype(np.uint64) * _ODD + self._part.astype(np.uint64))
                order = np.argsort(codes, kind="stable")
                for code, rows in enumerate(np.split(order, np.cumsum(np.bincount(codes))[:-1])):
                    self._threads[int(self._part[first[code]]), int(tids[first[code]])] = (self._line[rows].tolist(), rows)
        found = self._threads.get((part, tid))
        at = bisect_left(found[0], line) - 1 if found is not None else -1
        if found is None or at < 0:
            return None
        return found[0][at], self._meaning(int(self._codes[found[1][at]]), found[0][at])

    def _meaning(self, code: int, line: int) -> Communicator | None:
        found = None
        for since, comm in self._history[code]:
            if since > line:
                break
            found = comm
        return found

    def last_by_thread(self, tids: Ints) -> dict[tuple[int, int], tuple[int, Communicator | None]]:
        """The last operation of every thread."""
        self.last_of(-1, -1, 0, tids)
        out: dict[tuple[int, int], tuple[int, Communicator | None]] = {}
        for key in self._threads or {}:
            last = self.last_of(*key, 1 << 62, tids)
            if last is not None:
                out[key] = last
        return out

    def columns(self) -> tuple[Ints, list[Communicator]]:
        """For each operation the place of its communicator in the list, -1 where it has none."""
        comms: list[Communicator] = []
        out = np.full(len(self._line), -1, np.int64)
        for rows, history in zip(self._rows, self._history, strict=True):
            for i, (since, comm) in enumerate(history):
                if comm is None:
                    continue
                begin = np.searchsorted(self._line[rows], since)
                end = np.searchsorted(self._line[rows], history[i + 1][0]) if i + 1 < len(history) else len(rows)
                out[rows[begin:end]] = len(comms)
                comms.append(comm)
        return out, comms
