"""Which communicator an address stood for when an operation was logged: addresses are used again."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

from tracelab_parsers.nccl_log.processes import Communicator
from tracelab_parsers.nccl_log.scanning import Ints, Words, codes_of

__all__ = ["Bindings"]

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Bindings:
    """The addresses of a block's operations, by process, and what they meant at each line.

    `speaker` numbers the prefixes of lines, `threads` their process and thread. `appears` tells of the first use of an
    address after its meaning was lost; it gives the communicator.
    """

    def __init__(
        self,
        line: Ints,
        part: Ints,
        pointer: Words,
        size: Ints,
        speaker: Ints,
        threads: Sequence[tuple[int, int]],
        appears: Callable[[int, int, int, int], Communicator | None],
    ) -> None:
        self._line, self._part, self._pointer, self._size, self._speaker = line, part, pointer, size, speaker
        self._threads = threads
        self._appears = appears
        self._codes, first = codes_of(pointer * _ODD + part.astype(np.uint64))
        self._group = {(int(part[row]), int(pointer[row])): code for code, row in enumerate(first.tolist())}
        self._pending = [(int(line[row]), code, row) for code, row in enumerate(first.tolist())]
        heapq.heapify(self._pending)
        self._history: list[list[tuple[int, Communicator | None]]] = [[] for _ in first]
        self._rows_of_code: dict[int, Ints] = {}
        self._of_thread: dict[tuple[int, int], tuple[list[int], Ints]] = {}
        self._speakers: dict[tuple[int, int], list[int]] = {}
        for number, thread in enumerate(threads):
            self._speakers.setdefault(thread, []).append(number)

    def upto(self, line: int) -> None:
        """Lets the operations before `line` happen."""
        while self._pending and self._pending[0][0] < line:
            at, code, row = heapq.heappop(self._pending)
            self._history[code].append((at, self._appears(at, int(self._part[row]), int(self._pointer[row]), int(self._size[row]))))

    def _rows(self, code: int) -> Ints:
        found = self._rows_of_code.get(code)
        if found is None:
            found = self._rows_of_code[code] = np.flatnonzero(self._codes == code)
        return found

    def changed(self, part: int, pointer: int, line: int) -> None:
        """The address has another meaning after `line`: its next use is asked for again."""
        code = self._group.get((part, pointer))
        if code is None:
            return
        self._pending = [p for p in self._pending if p[1] != code]
        heapq.heapify(self._pending)
        rows = self._rows(code)
        following = int(np.searchsorted(self._line[rows], line, side="right"))
        if following < len(rows):
            row = int(rows[following])
            heapq.heappush(self._pending, (int(self._line[row]), code, row))

    def last_of(self, part: int, tid: int, line: int) -> tuple[int, Communicator | None] | None:
        """Line and communicator of the thread's last operation before `line`."""
        found = self._of_thread.get((part, tid))
        if found is None:
            speakers = self._speakers.get((part, tid), [])
            rows = np.flatnonzero(self._speaker == speakers[0] if len(speakers) == 1 else np.isin(self._speaker, speakers))
            found = self._of_thread[part, tid] = (self._line[rows].tolist(), rows)
        at = bisect_left(found[0], line) - 1
        return (found[0][at], self._meaning(int(self._codes[found[1][at]]), found[0][at])) if at >= 0 else None

    def _meaning(self, code: int, line: int) -> Communicator | None:
        found = None
        for since, comm in self._history[code]:
            if since > line:
                break
            found = comm
        return found

    def last_by_thread(self) -> dict[tuple[int, int], tuple[int, Communicator | None]]:
        """The last operation of every thread."""
        last = np.full(len(self._threads), -1, np.int64)
        last[self._speaker] = np.arange(len(self._speaker))
        out: dict[tuple[int, int], tuple[int, Communicator | None]] = {}
        for thread, row in sorted(zip(self._threads, last.tolist(), strict=True), key=lambda t: t[1]):
            if row >= 0:
                line = int(self._line[row])
                out[thread] = (line, self._meaning(int(self._codes[row]), line))
        return out

    def columns(self) -> tuple[Ints, list[Communicator]]:
        """For each operation the place of its communicator in the list, -1 where it has none."""
        comms: list[Communicator] = []
        place = np.full(len(self._history), -1, np.int64)
        moved: list[tuple[int, int, int, int]] = []
        for code, history in enumerate(self._history):
            for i, (since, comm) in enumerate(history):
                number = len(comms) if comm is not None else -1
                if comm is not None:
                    comms.append(comm)
                if i == 0:
                    place[code] = number
                else:
                    moved.append((code, since, history[i + 1][0] if i + 1 < len(history) else 1 << 62, number))
        out = place[self._codes]
        for code, since, until, number in moved:
            rows = self._rows(code)
            lines = self._line[rows]
            out[rows[(lines >= since) & (lines < until)]] = number
        return out, comms
