"""Hand-made rows of communication logs and of the traces beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tests.builders.frames import Row, frame
from tracelab.plugins import Notice
from tracelab.tables import COLLECTIVES, COMMUNICATORS, GROUPS, LOGGED_COLLECTIVES, MATCHES, PROCESS_GROUPS
from tracelab.traffic.communicators import job_communicators
from tracelab.traffic.operations import operations


def comm(rank: int, number: int, comm_rank: int | None, size: int | None, comm_id: str | None = None, **more: Any) -> Row:
    """A row of `communicators`: of the process of `rank`, whose log is the source of the same number unless said otherwise."""
    base = {"source_id": max(rank, 0), "part": 0, "rank": rank, "line": 1 + number, "comm": number, "comm_rank": comm_rank, "size": size}
    return {**base, "comm_id": comm_id, "pointer": "0x55d89db06b00", "state": "complete", "library": "nccl", **more}


def group(group_id: int, ranks: Sequence[int] | None, origin: str = "stated", name: str | None = None) -> Row:
    """A row of `groups`."""
    return {"group_id": group_id, "ranks": ranks, "size": len(ranks) if ranks else None, "name": name or f"group {group_id}", "origin": origin}


def listed(source: int, name: str, ranks: Sequence[int], desc: str | None = None) -> Row:
    """A row of `process_groups`."""
    return {"source_id": source, "rank": source, "part": 0, "group_name": name, "group_desc": desc, "size": len(ranks), "group_ranks": list(ranks)}


@dataclass
class Comms:
    """What `job_communicators` makes of hand-made rows."""

    table: pl.DataFrame
    places: pl.DataFrame
    notices: list[Notice]

    @property
    def codes(self) -> set[str]:
        """Codes of the notices."""
        return {n.code for n in self.notices}

    @property
    def members(self) -> list[list[int | None]]:
        """The ranks of every communicator, in order."""
        return self.table["ranks"].to_list()

    def key(self, source: int, number: int, part: int = 0) -> int:
        """The key of a process's communicator."""
        found = self.places.filter((pl.col("source_id") == source) & (pl.col("comm") == number) & (pl.col("part") == part))
        return int(found["comm_key"].item())


def merge(rows: Iterable[Mapping[str, Any]], world: int | None, groups: Iterable[Row] = (), lists: Iterable[Row] = ()) -> Comms:
    """`job_communicators` on hand-made rows."""
    rows = list(rows)
    hosts = dict.fromkeys(range(world or 0), "node-0")
    return Comms(*job_communicators(frame(COMMUNICATORS, rows).lazy(), frame(PROCESS_GROUPS, lists).lazy(), frame(GROUPS, groups), hosts, world))


def logged(rank: int, number: int, ops: Iterable[tuple[str, int]], ranks: int, first: int = 0, origin: str = "coll-line", **more: Any) -> list[Row]:
    """Rows of `logged_collectives`: operations (name, bytes as in `matches`) of one communicator in order, numbered from `first`."""
    out = []
    for n, (operation, size) in enumerate(ops, first):
        share = size // ranks
        sides = {"all_gather": (share, size), "reduce_scatter": (size, share)}.get(operation, (size, size))
        row = {"source_id": max(rank, 0), "part": 0, "rank": rank, "line": 100 + n, "origin": origin, "comm": number, "seq": n, "operation": operation}
        out.append({**row, "in_bytes": sides[0], "out_bytes": sides[1], "size": ranks, "state": "enqueued", **more})
    return out


def message(rank: int, number: int, operation: str, peer: int, size: int, line: int, **more: Any) -> Row:
    """A Send or Recv line."""
    sides = {"in_bytes": size} if operation == "send" else {"out_bytes": size}
    row = {"source_id": max(rank, 0), "part": 0, "rank": rank, "line": line, "origin": "coll-line", "comm": number, "seq": line, "operation": operation}
    return {**row, **sides, "peer": peer, "state": "enqueued", **more}


@dataclass
class Trace:
    """Traced operations: rows of `collectives` and `matches`, one operation every `PERIOD` ns."""

    collectives: list[Row] = field(default_factory=list)
    matches: list[Row] = field(default_factory=list)

    def add(
        self, operation: str, size: int | None, ranks: Sequence[int], group_id: int | None, start: int, *, matched: bool = True, stream: int = 7, **more: Any
    ) -> None:
        """One operation that `ranks` show."""
        match = len(self.matches) if matched else None
        for rank in ranks:
            row = {"op_id": len(self.collectives), "source_id": 50 + rank, "rank": rank, "group_id": group_id, "operation": operation}
            row |= {"operation_origin": "metadata", "library": "nccl", "name": "ncclDevKernel", "stream": stream, "start_ns": start, "end_ns": start + 5}
            row |= {"source_ts_ns": start, "in_bytes": size, "out_bytes": size, "match_id": match, **more}
            self.collectives.append(row)
        if matched:
            row = {"match_id": match, "group_id": group_id, "operation": operation, "rung": "order", "present": len(ranks), "bytes": size, "step": start // 100}
            row |= {"first_start_ns": start, "last_start_ns": start, "last_rank": ranks[0], "last_certain": False, "end_ns": start + 5, "end_spread_ns": 0}
            self.matches.append(row)

    def pair(self, src: int, dst: int, size: int | None, group_id: int | None, start: int) -> None:
        """A matched send and receive."""
        match = len(self.matches)
        for rank, operation, peer in ((src, "send", dst), (dst, "recv", src)):
            self.add(operation, size, [rank], group_id, start, matched=False, peer=peer)
            self.collectives[-1]["match_id"] = match
        row = {"match_id": match, "group_id": group_id, "operation": "send_recv", "rung": "order", "present": 2, "bytes": size, "step": start // 100}
        row |= {"first_start_ns": start, "last_start_ns": start, "last_rank": src, "last_certain": False, "end_ns": start + 5, "end_spread_ns": 0}
        self.matches.append(row)


def join(comms: Comms, lines: Iterable[Row], trace: Trace, groups: Iterable[Row]) -> tuple[pl.DataFrame, set[str]]:
    """`operations` on hand-made rows, and the codes of its notices."""
    rows = frame(LOGGED_COLLECTIVES, lines).lazy()
    table, notices = operations(rows, comms.places, comms.table, frame(COLLECTIVES, trace.collectives), frame(MATCHES, trace.matches), frame(GROUPS, groups))
    return table, {n.code for n in notices}
