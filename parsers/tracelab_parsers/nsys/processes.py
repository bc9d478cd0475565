"""Which process each row belongs to: `globalPid` and `globalTid` hold hardware, machine, process and thread in one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from tracelab_parsers.nsys.columns import Flags, Ints, Timed, distinct, split_by
from tracelab_parsers.nsys.notices import Notices

__all__ = ["Process", "Processes", "pid_of", "process_key", "thread_of"]

_TID_BITS = 24
_PID_MASK = (1 << 24) - 1
_KEY_MASK = (1 << 40) - 1
_MOST = 4_096
_NOWHERE = -1
_NO_PROCESS = -1
"""Stands for the process of rows that name none."""
_Ids = TypeVar("_Ids", int, Ints)


def process_key(ids: _Ids) -> _Ids:
    """Hardware, machine and process number of each id; the highest bit may be set, which makes it negative."""
    return ids >> _TID_BITS & _KEY_MASK


def pid_of(keys: _Ids) -> _Ids:
    """The process number in each key, as its container counts it."""
    return keys & _PID_MASK


def thread_of(ids: Ints) -> Ints:
    """The thread number of each id."""
    return ids & _PID_MASK


@dataclass
class Process:
    """One part of the file: the window of its rows and how many kernels ran on which device."""

    key: int
    start_ns: int | None = None
    end_ns: int | None = None
    kernels: dict[int, int] = field(default_factory=dict)

    @property
    def pid(self) -> int | None:
        """The process number; None where the rows name no process."""
        return pid_of(self.key) if self.key != _NO_PROCESS else None

    @property
    def device(self) -> int | None:
        """The device with the most GPU work, the smallest of several."""
        return min(self.kernels, key=lambda d: (-self.kernels[d], d)) if self.kernels else None

    def extend(self, start: int, end: int) -> None:
        """Widens the window."""
        self.start_ns = start if self.start_ns is None else min(self.start_ns, start)
        self.end_ns = end if self.end_ns is None else max(self.end_ns, end)


class Processes:
    """Numbers the processes that did GPU work in the order in which they appear; where none did, those that called CUDA or marked ranges."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._numbers: dict[int, int] = {}
        self.all: list[Process] = []
        self.worked = False

    def parts(self, ids: Ints, present: Flags, *, gpu: bool) -> Ints:
        """The part of each row, -1 where its process has none. Only rows of the GPU make new parts, once there are any."""
        keys = process_key(ids)
        if not present.all():
            keys = np.where(present, keys, _NO_PROCESS)
        unique, positions = distinct(keys)
        self.worked = self.worked or (gpu and len(keys) > 0)
        numbers = np.array([self._number(int(k), make=gpu or not self.worked) for k in unique], np.int64)
        return numbers[positions]

    def _number(self, key: int, *, make: bool) -> int:
        if key in self._numbers:
            return self._numbers[key]
        if not make:
            return _NOWHERE
        if len(self.all) >= _MOST:
            self._notices.add("too-many-processes")
            return _NOWHERE
        self._numbers[key] = len(self.all)
        self.all.append(Process(key))
        return self._numbers[key]

    def extend(self, parts: Ints, rows: Timed, base: int) -> None:
        """Widens the windows of the parts; times that the export cut say nothing about them."""
        ts, ends = rows.ts, rows.ts + rows.dur
        if rows.clamped.any():
            real = ~rows.clamped
            ts, ends, parts = ts[real], ends[real], parts[real]
        for part, mine in split_by(parts):
            self.all[part].extend(int(ts[mine].min()) + base, int(ends[mine].max()) + base)

    def device_index(self, part: int, ordinals: Ints, gpu_of: Mapping[tuple[int, int], int]) -> Ints:
        """GPUs of the host by the ordinals that a process knows them by, where the export tells; else the ordinals."""
        pid = self.all[part].pid
        table = {cuda: gpu for (p, cuda), gpu in gpu_of.items() if p == pid}
        if not table:
            return ordinals
        unique, positions = distinct(ordinals)
        return np.array([table.get(int(o), int(o)) for o in unique], np.int64)[positions]
