"""NCCL's calls as its NVTX ranges show them: which calls stand alone, which form a group that is launched together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
    """A range of NCCL on one thread, in the clock of the source."""

    name: str
    start: int
    end: int
    facts: Facts | None = None


@dataclass(slots=True)
class Unit:
    """Calls that are launched together, and the span in which their kernels are launched. `kernels` are numbers of kernels."""

    start: int
    end: int
    calls: list[Call]
    kernels: list[int] = field(default_factory=list)


def units(calls: Iterable[Call], launches: Sequence[int] = ()) -> tuple[list[Unit], int]:  # noqa: PLR0912  # one state machine, read from top to bottom
    """The units of one thread, in the order of time; they never overlap. And the calls in groups whose end was lost.

    Between ncclGroupStart and ncclGroupEnd calls are only noted: what they ask for is launched in the last ncclGroupEnd. A
    call inside another one's range is a part of it. One that launches kernels itself, at one of `launches` (in order), is in no
    group: where one seems open, its end was lost, and its calls stand alone.
    """
    out: list[Unit] = []
    ordered: Sequence[Call] = sorted(calls, key=lambda c: (c.start, -c.end))
    depth, group_start, open_until = 0, 0, -(1 << 63)
    group: list[Call] = []
    grouped: list[Call] | None = None
    lost = 0
    for call in ordered:
        name = base_name(call.name)
        inside = call.start < open_until
        if depth and not inside and name in OPERATIONS and bisect_left(launches, call.start) < bisect_right(launches, call.end):
            out += [Unit(c.start, c.end, [c]) for c in group]
            depth, lost, group = 0, lost + len(group), []
        if name == _GROUP_START:
            depth += 1
            if depth == 1:
                group_start, group = call.start, []
        elif name == _GROUP_END:
            depth = max(0, depth - 1)
            if depth == 0:
                out.append(Unit(min(group_start, call.start) if group else call.start, call.end, group))
                group_start, group = call.end, []
        elif name in _WHOLE_GROUPS:
            if not inside and depth == 0:
                grouped, open_until = [], call.end
                out.append(Unit(call.start, call.end, grouped))
        elif name in OPERATIONS:
            if inside:
                if grouped is not None:
                    grouped.append(call)
            elif depth:
                group.append(call)
                grouped, open_until = None, call.end
            else:
                grouped, open_until = None, call.end
                out.append(Unit(call.start, call.end, [call]))
    if depth:
        out += [Unit(c.start, c.end, [c]) for c in group]
        lost += len(group)
    return out, lost
