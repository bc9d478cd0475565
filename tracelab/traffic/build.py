"""From logs and matched collectives to the five tables of the traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import polars as pl

from tracelab.plugins import Notice
from tracelab.tables import (
    COLLECTIVES,
    COMMUNICATORS,
    EDGES,
    GROUPS,
    JOB_COMMUNICATORS,
    LOGGED_COLLECTIVES,
    MATCHES,
    OPERATIONS,
    PROCESS_GROUPS,
    TRAFFIC,
    TRAFFIC_EXPECTED,
    TRAFFIC_STEPS,
)
from tracelab.traffic.communicators import job_communicators
from tracelab.traffic.edges import build_edges, communicators_of
from tracelab.traffic.operations import operations
from tracelab.traffic.transfers import counted_transfers
from tracelab.traffic.volumes import traffic_volumes

__all__ = ["Traffic", "traffic_tables"]


@dataclass(frozen=True)
class Traffic:
    """`frames`: the TRAFFIC_TABLES by name; `notices`: what was left out or assumed."""

    frames: dict[str, pl.DataFrame]
    notices: tuple[Notice, ...]


def traffic_tables(tables: Mapping[str, pl.LazyFrame], derived: Mapping[str, pl.DataFrame], hosts: Mapping[int, str], world_size: int | None) -> Traffic:
    """The traffic of one job.

    `tables`: the parsed ones (communicators, channel_edges, ring_orders, net_devices, net_transfers, logged_collectives and
    process_groups are used), `derived`: the aligned ones (groups, collectives, matches); missing ones count as empty. `hosts`
    names the host of every rank. Memory grows with the operations of all ranks and with the pairs that exchange data.
    """
    logs = {t.name: tables.get(t.name, t.empty().lazy()) for t in (COMMUNICATORS, LOGGED_COLLECTIVES, PROCESS_GROUPS)}
    known = {t.name: derived.get(t.name, t.empty()) for t in (GROUPS, COLLECTIVES, MATCHES)}
    comms, comm_map, comm_notices = job_communicators(logs["communicators"], logs["process_groups"], known["groups"], hosts, world_size)
    ops, op_notices = operations(logs["logged_collectives"], comm_map, comms, known["collectives"], known["matches"], known["groups"])
    members = communicators_of(comms, known["groups"], hosts)
    edges = build_edges(tables, comm_map, members)
    transfers = counted_transfers(tables.get("net_transfers"), comm_map, members)
    counted = transfers[0].height > 0
    volumes = [traffic_volumes(part, edges, members, hosts, transfers, name) for name, part in _windows(ops, counted=counted).items()]
    plain = build_edges({}, comm_map, members)
    unchosen = ops.with_columns(pl.lit(None, ops.schema[c]).alias(c) for c in ("algorithm", "channel_first", "channel_last"))
    expected = [traffic_volumes(part, plain, members, hosts, None, name) for name, part in _windows(unchosen, counted=counted).items()]
    frames = {
        JOB_COMMUNICATORS.name: comms,
        EDGES.name: edges.frame,
        OPERATIONS.name: ops,
        TRAFFIC.name: TRAFFIC.conform(pl.concat([v.traffic for v in volumes])),
        TRAFFIC_EXPECTED.name: TRAFFIC_EXPECTED.conform(pl.concat([_per_pair(v.traffic) for v in expected])),
        TRAFFIC_STEPS.name: _together([v.steps for v in volumes]),
    }
    told = [n for v in volumes for n in v.notices]
    return Traffic(frames, (*comm_notices, *op_notices, *edges.notices, *_merged(told), *_outside(ops)))


def _windows(ops: pl.DataFrame, *, counted: bool) -> dict[str, pl.DataFrame]:
    """Operations by window. Transfers that a proxy `counted` belong to no window of their own: nothing is split then."""
    captured = ops.filter(pl.col("origin") != "log")
    if counted:
        return {"capture" if captured.height else "log": ops}
    return {"capture": captured, "log": ops.filter(pl.col("origin") == "log")}


def _per_pair(traffic: pl.DataFrame) -> pl.DataFrame:
    return traffic.group_by("src_rank", "dst_rank", "window").agg(pl.col("bytes").sum()).select(TRAFFIC_EXPECTED.names)


def _together(steps: list[pl.DataFrame]) -> pl.DataFrame:
    """Rows of the windows added up: both may hold operations without a step."""
    keys = ["step", "group_id", "operation"]
    known = pl.when(pl.col("cross_host_bytes").is_not_null().all()).then(pl.col("cross_host_bytes").sum()).alias("cross_host_bytes")
    rows = pl.concat(steps).group_by(keys).agg(pl.col("operations").sum(), pl.col("bytes").sum(), known)
    return TRAFFIC_STEPS.conform(rows.select(TRAFFIC_STEPS.names))


def _merged(notices: list[Notice]) -> list[Notice]:
    """One notice of each kind, with the counts of both windows."""
    out: dict[tuple[str, str], Notice] = {}
    for n in notices:
        before = out.get((n.code, n.text))
        out[n.code, n.text] = n if before is None else msgspec.structs.replace(n, count=n.count + before.count)
    return list(out.values())


def _outside(ops: pl.DataFrame) -> list[Notice]:
    """Logs speak of the whole run, traces of a window: who compares the traffic with the window's steps must know of the rest."""
    counts = dict(ops.group_by("origin").len().iter_rows())
    alone, traced = counts.get("log", 0), counts.get("trace", 0) + counts.get("both", 0)
    if not alone or not traced:
        return []
    text = "operations stand in logs and in no capture, as before and after the captured steps: their bytes are kept apart (window: log)"
    return [Notice("operations-outside-captures", "info", text, "", alone)]
