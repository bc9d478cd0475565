"""NCCL's calls as its NVTX ranges show them: which calls stand alone, which form a group that is launched together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tracelab_parsers.nsys.payload import Facts

__all__ = ["OPERATIONS", "RELEVANT", "Call", "Unit", "base_name", "units"]

OPERATIONS = frozenset(
    ("AllReduce", "AllGather", "AllGatherV", "ReduceScatter", "Broadcast", "Bcast", "Reduce", "Send", "Recv", "AlltoAll", "AllToAll", "Gather", "Scatter")
)
_GROUP_START, _GROUP_END = "GroupStart", "GroupEnd"
_WHOLE_GROUPS = frozenset({"API Group", "APIGroup", "GroupApi", "Group"})
RELEVANT = OPERATIONS | _WHOLE_GROUPS | {_GROUP_START, _GROUP_END}


def base_name(name: str) -> str:
    """The name of a call without its prefix: `ncclAllReduce` since ever, `AllReduce` where NCCL's profiler plugin writes it."""
    return name.removeprefix("NCCL:").removeprefix("nccl")


@dataclass(frozen=True, slots=True)
class Call:
    """A range of NCCL on one thread, in the clock of the source. `open`: it has no end, which is that of the capture then."""

    name: str
    start: int
    end: int
    facts: Facts | None = None
    open: bool = False


@dataclass(slots=True)
class Unit:
    """Calls that are launched together, and the span in which their kernels are launched. `kernels` are numbers of kernels."""

    start: int
    end: int
    calls: list[Call]
    kernels: list[int] = field(default_factory=list)


def units(calls: Iterable[Call], launches: Sequence[int] = ()) -> tuple[list[Unit], int]:
    """The units of one thread, in the order of time; they never overlap. And the calls in groups whose end was lost.

    Between ncclGroupStart and ncclGroupEnd calls are only noted: what they ask for is launched in the last ncclGroupEnd, at
    one of `launches` (in order). A call inside another one's range is a part of it. A call that launches kernels itself is in
    no group, and an ncclGroupEnd that does ends the outermost one: groups that seem open around them lost their end, and
    their calls stand alone.
    """
    thread = _Thread(launches)
    for call in _ended(sorted(calls, key=lambda c: (c.start, -c.end))):
        thread.take(call)
    thread.give_up()
    return thread.units, thread.lost


def _ended(ordered: Sequence[Call]) -> Iterator[Call]:
    """The calls, those without end only up to the next one: that is not a part of them."""
    for n, call in enumerate(ordered, 1):
        yield replace(call, end=min(call.end, ordered[n].start)) if call.open and n < len(ordered) else call


@dataclass
class _Thread:
    """What is known at one moment. `begins`: of each open group its start, and how many calls were noted before it."""

    launches: Sequence[int]
    units: list[Unit] = field(default_factory=list)
    lost: int = 0
    noted: list[Call] = field(default_factory=list)
    begins: list[tuple[int, int]] = field(default_factory=list)
    inside_until: int = -(1 << 63)
    whole: list[Call] | None = None

    def take(self, call: Call) -> None:
        name = base_name(call.name)
        if call.start < self.inside_until:
            if name in OPERATIONS and self.whole is not None:
                self.whole.append(call)
        elif name == _GROUP_START:
            self.begins.append((call.start, len(self.noted)))
        elif name == _GROUP_END:
            self._end(call)
        elif name in OPERATIONS or name in _WHOLE_GROUPS:
            if self._launches(call):
                self.give_up()
            self._stand(call, whole=name in _WHOLE_GROUPS)

    def give_up(self, kept: int = 0) -> None:
        """The calls of open groups stand alone, all but the last `kept`."""
        alone = self.noted[: len(self.noted) - kept]
        self.units += [Unit(c.start, c.end, [c]) for c in alone]
        self.lost += len(alone)
        self.noted, self.begins = self.noted[len(alone) :], []

    def _launches(self, call: Call) -> bool:
        return bisect_left(self.launches, call.start) < bisect_right(self.launches, call.end)

    def _stand(self, call: Call, *, whole: bool) -> None:
        if self.begins:
            if whole:
                return
            self.noted.append(call)
        self.inside_until, self.whole = call.end, [] if whole else None
        if not self.begins:
            self.units.append(Unit(call.start, call.end, [call] if self.whole is None else self.whole))

    def _end(self, call: Call) -> None:
        start, before = self.begins.pop() if self.begins else (call.start, 0)
        if self.begins and not self._launches(call):
            return
        self.give_up(len(self.noted) - before)
        self.units.append(Unit(start if self.noted else call.start, call.end, self.noted))
        self.noted = []
