"""One operation while its events are read.

The end that the dump states for an operation is that of its last event, or, where nothing more of it was recorded, merely
the moment when it was handed to the GPU. Its length is therefore taken from the events inside it: from the GPU's clock where
every channel was stamped at both ends, else from the host's view of the channels, else, for operations without events of the
GPU, from the end of the last transfer that the proxy made for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracelab_parsers.nccl_json.values import MAX_NS, nanoseconds, natural, unsigned, whole

__all__ = ["Operation", "length_ns", "moment_ns"]


def moment_ns(value: object) -> int | None:
    """A time of the dump in ns from the plugin's start; None for 0, which stands for what has not happened."""
    ns = nanoseconds(value)
    return ns if ns is not None and ns > 0 else None


def length_ns(start: int | None, end: int | None) -> int | None:
    """From start to end; None where either is unknown, or the end comes first."""
    return end - start if start is not None and end is not None and end >= start else None


@dataclass
class _Range:
    """The reach of some numbers."""

    first: int | None = None
    last: int | None = None

    def add(self, first: int, last: int) -> None:
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)


@dataclass
class Operation:
    """A collective, send or recv. `line` is where it begins, `args` what its first event states, `api` what the call states."""

    category: str
    name: str
    line: int
    part: int
    comm: int | None
    seq: int
    rank: int | None
    operation: str
    start: int | None
    args: Mapping[str, Any]
    api: Mapping[str, Any]
    channels: _Range = field(default_factory=_Range)
    kernels: int = 0
    transfers: int = 0
    transfers_done: int = 0
    _clocked: int = 0
    _seen: int = 0
    _clock: _Range = field(default_factory=_Range)
    _host: _Range = field(default_factory=_Range)
    _kernel_start: int | None = None

    def kernel_begins(self, start: object, args: Mapping[str, Any]) -> None:
        """A channel of its kernel, with the GPU's clock in ns at both ends: 0 where it has not got there."""
        self.kernels += 1
        self._kernel_start = moment_ns(start)
        channel = natural(args.get("Channel"), 32)
        if channel is not None:
            self.channels.add(channel, channel)
        first, last = unsigned(args.get("StartGpuClk")), unsigned(args.get("StopGpuClk"))
        if first and last and last >= first:
            self._clocked += 1
            self._clock.add(first, last)

    def kernel_ends(self, end: object) -> None:
        """The end of the channel that began last, as the host saw it."""
        last = moment_ns(end)
        if self._kernel_start is not None and last is not None:
            self._seen += 1
            self._host.add(self._kernel_start, last)
        self._kernel_start = None

    def outcome(self, end: int | None) -> tuple[str, int | None]:
        """Its state when the dump was written, and its length; `end` is the end that the dump states."""
        if self.kernels:
            stated = whole(self.args.get("nChannels"), 32)
            done = self.kernels in {self._clocked, self._seen} and self.kernels >= (stated or 0)
            if not done:
                return "started", None
            # More channels than the operation has are left over from another one that used the same memory.
            return "completed", self._kernel_length() if stated in {None, self.kernels} else None
        if self.transfers:
            done = self.transfers == self.transfers_done
            return ("completed", length_ns(self.start, end)) if done else ("started", None)
        return "enqueued", None

    def _kernel_length(self) -> int | None:
        found = self._clock if self._clocked == self.kernels else self._host
        ns = length_ns(found.first, found.last)
        return ns if ns is not None and ns < MAX_NS else None
