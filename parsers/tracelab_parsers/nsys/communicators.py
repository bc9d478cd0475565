"""Rows of `communicators`: what NCCL's ranges say of the communicators of each process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracelab.plugins import Emitter
from tracelab.tables import COMMUNICATORS
from tracelab_parsers.nccl_json.rows import RowBuffer
from tracelab_parsers.nsys.payload import Facts

__all__ = ["Communicator", "emit_communicators", "joined"]

_STATES = {"CommDestroy": "destroyed", "CommAbort": "aborted"}


@dataclass
class Communicator:
    """What one process knows of a communicator: its ranks, its own rank in it, what made it. `line` is the number of the range that names it first."""

    size: int
    rank: int | None
    line: int = 0
    function: str | None = None
    device: int | None = None
    parent: int | None = None
    color: int | None = None
    key: int | None = None
    state: str = "seen"


def joined(known: Communicator | None, facts: Facts, name: str, line: int) -> Communicator:
    """What is known of a communicator after a range of this name states `facts`, its size among them."""
    base = name.removeprefix("NCCL:").removeprefix("nccl")
    made = base.startswith("Comm") and base not in _STATES
    if known is None:
        known = Communicator(facts.size or 0, facts.rank, line)
    if known.rank is None:
        known.rank = facts.rank
    if known.device is None:
        known.device = facts.device
    if made and known.function is None:
        known.function, known.state = name.removeprefix("NCCL:"), "complete"
        known.parent, known.color, known.key = facts.parent, facts.color, facts.key
    known.state = _STATES.get(base, known.state)
    return known


def emit_communicators(communicators: Mapping[int, Mapping[int, Communicator]], emit: Emitter) -> None:
    """Emits a row per communicator of a process, in the order of their ranges."""
    rows = RowBuffer(COMMUNICATORS, emit)
    for part, known in sorted(communicators.items()):
        numbers = {comm: n for n, comm in enumerate(known)}
        for comm, c in known.items():
            rows.add(
                part=part, line=c.line, comm=numbers[comm], comm_id=f"{comm:#x}", comm_rank=c.rank, size=c.size, cuda_device=c.device, function=c.function,
                parent=numbers.get(c.parent) if c.parent is not None else None, color=c.color, split_key=c.key, state=c.state, library="nccl",
            )  # fmt: skip
    rows.flush()
