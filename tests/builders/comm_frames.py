"""Hand-made tables of communication logs and operations for tests of the traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tracelab.tables import CHANNEL_EDGES, GROUPS, JOB_COMMUNICATORS, NET_DEVICES, OPERATIONS, RING_ORDERS, TableSpec

__all__ = ["comm_map", "frame", "groups", "job_comm", "link", "operations", "order", "tables"]

Row = Mapping[str, object]


def frame(spec: TableSpec, rows: Sequence[Row]) -> pl.DataFrame:
    """`rows` as a frame of that table; columns that a row leaves out are null."""
    return pl.DataFrame([{n: r.get(n) for n in spec.names} for r in rows], schema=spec.polars, strict=True)


def link(src: int, dst: int, *, speaker: int = 0, comm: int = 0, kind: str = "connection", channel: int = 0, **rest: object) -> Row:
    """A row of channel_edges that process `speaker` (one source each) states."""
    connection = 0 if kind == "connection" else None
    return {
        "source_id": speaker,
        "rank": speaker,
        "part": 0,
        "line": 1,
        "comm": comm,
        "kind": kind,
        "channel": channel,
        "connection": connection,
        "src_rank": src,
        "dst_rank": dst,
    } | rest


def order(ranks: Sequence[int], *, speaker: int = 0, comm: int = 0, channel: int = 0, cut: bool = False) -> Row:
    """A row of ring_orders."""
    return {"source_id": speaker, "rank": speaker, "part": 0, "line": 1, "comm": comm, "channel": channel, "order": list(ranks), "cut": cut}


def tables(links: Sequence[Row] = (), orders: Sequence[Row] = (), devices: Sequence[Row] = ()) -> dict[str, pl.LazyFrame]:
    """The parsed tables that edges are made from."""
    return {s.name: frame(s, r).lazy() for s, r in ((CHANNEL_EDGES, links), (RING_ORDERS, orders), (NET_DEVICES, devices))}


def job_comm(ranks: Sequence[int | None], *, key: int = 0, group_id: int | None = 0, channels: int | None = 1, nodes: int | None = None) -> Row:
    """A row of job_communicators."""
    return {
        "comm_key": key,
        "group_id": group_id,
        "size": len(ranks),
        "ranks": list(ranks),
        "seen": 1,
        "origin": "comm-id",
        "nodes": nodes,
        "channels": channels,
        "name": "all",
    }


def comm_map(speakers: Sequence[int] = (0,), comms: Sequence[int] = (0,)) -> pl.DataFrame:
    """Communicator number i of each speaking process (whose comm_rank is its number) is comm_key i."""
    rows = [(s, 0, c, c, s) for s in speakers for c in comms]
    schema = {"source_id": pl.Int32, "part": pl.Int16, "comm": pl.Int32, "comm_key": pl.Int32, "comm_rank": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def groups(*members: Sequence[int]) -> pl.DataFrame:
    """GROUPS with one group per argument."""
    return frame(GROUPS, [{"group_id": i, "ranks": list(m), "size": len(m), "name": str(i), "origin": "stated"} for i, m in enumerate(members)])


def operations(*rows: Row) -> pl.DataFrame:
    """OPERATIONS; of communicator 0 and group 0 unless a row says otherwise."""
    return frame(OPERATIONS, [{"operation_id": i, "origin": "log", "comm_key": 0, "group_id": 0} | dict(r) for i, r in enumerate(rows)])


def job_comms(*rows: Row) -> pl.DataFrame:
    """JOB_COMMUNICATORS."""
    return frame(JOB_COMMUNICATORS, rows)
