"""From counters, wiring, logs and the job's hosts to the tables of the network."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from tracelab.fabric.adapters import Adapters, end_name
from tracelab.fabric.endpoints import endpoints_frame
from tracelab.fabric.machines import Machines
from tracelab.fabric.rates import Ports, counter_rates
from tracelab.fabric.samples import Sources, counters_of, machine_of
from tracelab.fabric.wiring import End, Link, links_frame, wire
from tracelab.plugins import Notice
from tracelab.tables import COUNTER_RATES, COUNTERS, ENDPOINTS, LINKS

_VIRTUAL = r"(?i)^(?:lo\d*|docker\d*|veth.*|cali.*|flannel.*|cni.*|br-.*|br\d+|virbr.*|bond.*|team\d*|tun.*|tap.*|ifb.*|dummy.*|sit\d*|vxlan.*|wg\d*|.*\.\d+)$"
"""Network devices behind which there is no cable of their own."""

__all__ = ["Fabric", "Job", "Stated", "fabric_tables"]


@dataclass(frozen=True)
class Job:
    """What the network is looked at for.

    `ranks`: columns rank, host, device. `clocks`, `edges`: the tables of those names. `net_devices`: rows of that table with
    their rank. `window`: first and last moment of the captures, aligned; None without any.
    """

    ranks: pl.DataFrame
    clocks: pl.DataFrame
    edges: pl.DataFrame
    net_devices: pl.DataFrame
    window: tuple[int, int] | None


@dataclass(frozen=True)
class Fabric:
    """`frames`: the LINK_TABLES by name; `notices`: what was left out or assumed."""

    frames: dict[str, pl.DataFrame]
    notices: tuple[Notice, ...]


@dataclass(frozen=True)
class Stated:
    """What the user states: other names of hosts, the speed of links that no source states, the adapters of ranks."""

    aliases: Mapping[str, str] = field(default_factory=dict)
    link_bps: int | None = None
    adapters: Mapping[int, str] = field(default_factory=dict)


def fabric_tables(parsed: Mapping[str, pl.LazyFrame], sources: Sources, job: Job, stated: Stated) -> Fabric:
    """The network of one job. `parsed`: the FABRIC_TABLES. Memory grows with the number of samples."""
    tables = {name: frame.collect(engine="streaming") for name, frame in parsed.items()}
    if not any(t.height for t in tables.values()):
        return Fabric({t.name: t.empty() for t in (COUNTERS, COUNTER_RATES, LINKS, ENDPOINTS)}, ())
    machines = Machines(job.ranks["host"].to_list(), stated.aliases)
    _learn(machines, tables, job)
    interfaces = _resolved(tables["interfaces"], sources, machines)
    cables = _resolved_cables(tables["cables"], sources, machines)
    paths = _resolved(tables["adapter_paths"], sources, machines)
    counters, notices = counters_of(_by_lid(tables["counter_samples"], tables["interfaces"]), sources, machines, job.clocks, job.window)
    adapters = Adapters([*interfaces, *_from_cables(cables), *_from_logs(job, machines), *_from_counters(counters)])
    counting = _counting(counters)
    links, contradicted = wire(cables, adapters, machines, counting, stated.link_bps)
    if contradicted:
        text = f"cables were left out because another statement claims one of their ends: {', '.join(contradicted[:3])}"
        hint = "one of the statements is wrong or old: look at both, and remove it"
        notices.append(Notice("contradictory-cable", "warning", text, hint, len(contradicted)))
    rates = counter_rates(counters, _ports(adapters, links))
    frames = {
        COUNTERS.name: counters,
        COUNTER_RATES.name: rates,
        LINKS.name: links_frame(links, adapters, counting),
        ENDPOINTS.name: endpoints_frame(job.edges, job.ranks, paths, links, adapters, stated.adapters, _idle(rates, adapters)),
    }
    return Fabric(frames, tuple(notices))


_IDLE = 0.02
"""An adapter that carries less than this share of what its host's busiest one does takes no part in the job's collectives."""


def _idle(rates: pl.DataFrame, adapters: Adapters) -> set[End]:
    """Adapters that carried next to nothing beside others of their machine."""
    rows = rates.filter(pl.col("counter").cast(pl.String) == "bytes").with_columns(end_name(pl.lit(None, pl.String)).alias("name"))
    # what is a lower bound only may have been any number
    sums = rows.group_by("node", "name", "series").agg(pl.when(pl.col("at_least").any()).then(float("inf")).otherwise(pl.col("delta").sum()).alias("delta"))
    sums = sums.drop_nulls().sort("node", "name", "series")
    carried: dict[End, float] = {}
    for node, name, delta in sums.select("node", "name", "delta").iter_rows():
        adapter = adapters.find(node, name)
        end = (node, adapter.name if adapter is not None else name)
        carried[end] = max(delta, carried.get(end, 0.0))
    busiest: dict[str, float] = {}
    for (node, _), most in carried.items():
        busiest[node] = max(most if math.isfinite(most) else 0.0, busiest.get(node, 0.0))
    return {end for end, most in carried.items() if most < _IDLE * busiest[end[0]]}


def _learn(machines: Machines, tables: Mapping[str, pl.DataFrame], job: Job) -> None:
    """Names and addresses, before any row is resolved: what one file states names the folder of another."""
    hosts = dict(job.ranks.select("rank", "host").iter_rows())
    for rank, address in job.net_devices.filter(pl.col("address").is_not_null()).select("rank", "address").unique().sort("rank", "address").iter_rows():
        if rank in hosts:
            machines.address(address, hosts[rank])
    for node, addresses in (
        tables["interfaces"]
        .filter(pl.col("node").is_not_null() & pl.col("address").is_not_null())
        .select("node", "address")
        .unique()
        .sort("node", "address")
        .iter_rows()
    ):
        for address in addresses.split():
            owner = machines.name(address) if machines.is_known(address) else None
            if owner in machines.job_hosts and not machines.is_known(node):
                machines.same(node, owner)
    _learn_addresses_of_machines(machines, tables)
    for table, columns in (("cables", ("a_node", "b_node")), ("interfaces", ("node",)), ("counter_samples", ("node",))):
        for column in columns:
            for name in tables[table][column].cast(pl.String).drop_nulls().unique().sort():
                machines.name(name)


def _learn_addresses_of_machines(machines: Machines, tables: Mapping[str, pl.DataFrame]) -> None:
    """GUIDs and LIDs by which tools name a machine whose name another one states."""
    pairs = (("interfaces", "node", "node_uid"), ("cables", "a_node", "a_uid"), ("cables", "b_node", "b_uid"))
    for table, node, uid in pairs:
        rows = tables[table].filter(pl.col(node).is_not_null() & pl.col(uid).is_not_null()).select(node, uid).unique().sort(node, uid)
        for name, address in rows.iter_rows():
            if name.lower() != address:
                machines.same(address, machines.name(name))


def _by_lid(samples: pl.DataFrame, interfaces: pl.DataFrame) -> pl.DataFrame:
    """`samples` in which a device that only its local address names (`lid 21`) has the machine and device that another source states."""
    known = (
        interfaces.filter(pl.col("lid").is_not_null() & pl.col("node").is_not_null())
        .group_by("lid")
        .agg(pl.col("node").unique(), pl.col("device").unique(), pl.col("node_kind").cast(pl.String).first())
    )
    one = known.filter((pl.col("node").list.len() == 1) & (pl.col("device").list.len() == 1))
    names = one.select(
        pl.format("lid {}", "lid").alias("_lid"),
        pl.col("node").list.first().alias("_node"),
        pl.col("device").list.first().alias("_device"),
        pl.col("node_kind").alias("_kind"),
    )
    if not names.height or not samples.height:
        return samples
    rows = samples.with_columns(pl.col("node", "device", "node_kind").cast(pl.String)).join(
        names, left_on="device", right_on="_lid", how="left", maintain_order="left"
    )
    found = pl.col("_node").is_not_null()
    switch = found & (pl.col("_kind") == "switch")
    return rows.with_columns(
        pl.coalesce("node", "_node").alias("node"),
        pl.when(found).then("_device").otherwise("device").alias("device"),
        pl.coalesce("node_kind", "_kind").alias("node_kind"),
        pl.when(switch).then(pl.lit("switch-port")).otherwise(pl.col("device_kind").cast(pl.String)).alias("device_kind"),
    ).drop("_node", "_device", "_kind")


def _resolved(rows: pl.DataFrame, sources: Sources, machines: Machines) -> list[dict[str, object]]:
    """Rows with `machine` and `kind` of the one that they speak for."""
    out = []
    for row in rows.sort("source_id", "line").iter_rows(named=True):
        machine, _ = machine_of(row["source_id"], row["node"], sources, machines)
        kind = "host" if machine in machines.job_hosts else row.get("node_kind")
        out.append(row | {"machine": machine, "kind": kind})
    return [r for r in out if r["machine"]]


def _resolved_cables(rows: pl.DataFrame, sources: Sources, machines: Machines) -> list[dict[str, object]]:
    out = []
    for row in rows.sort("source_id", "line").iter_rows(named=True):
        a, _ = machine_of(row["source_id"], row["a_node"], sources, machines)
        # a machine without a name is called by its address, or as another source calls that
        far = row["b_node"] or row["b_uid"]
        b = machines.name(far) if far else None
        out.append(row | {"a_machine": a, "b_machine": b})
    return out


def _from_cables(cables: list[dict[str, object]]) -> list[dict[str, object]]:
    """The two ends of every cable, as interfaces."""
    out = []
    for row in cables:
        for side in "ab":
            if row[f"{side}_machine"] is None:
                continue
            device, port = row[f"{side}_device"], row[f"{side}_port"]
            number = int(str(port)) if port is not None and re.fullmatch(r"[0-9]{1,9}", str(port)) else None
            out.append(
                _interface(
                    row[f"{side}_machine"],
                    row[f"{side}_kind"],
                    device=device,
                    netdev=None if number is not None else port,
                    port=number,
                    uid=row[f"{side}_port_uid"],
                    speed_bps=row["speed_bps"],
                    origin=row["origin"],
                )
            )
    return out


def _from_logs(job: Job, machines: Machines) -> list[dict[str, object]]:
    hosts = dict(job.ranks.select("rank", "host").iter_rows())
    named = job.net_devices.filter(pl.col("name").is_not_null() & (pl.col("plugin").cast(pl.String) == "IB"))
    found = named.select("rank", "name", "port").unique().sort("rank", "name", "port")
    return [_interface(machines.name(hosts[r]), "host", device=n, port=p, origin="nccl-log") for r, n, p in found.iter_rows() if r in hosts]


def _from_counters(counters: pl.DataFrame) -> list[dict[str, object]]:
    """Whatever counts is an adapter, if nothing else describes it."""
    found = counters.filter(pl.col("device_kind").cast(pl.String).is_in(["rdma", "netdev", "switch-port"]))
    found = found.select("node", "node_kind", pl.col("device_kind").cast(pl.String), pl.col("device").cast(pl.String), "port", pl.col("uid").cast(pl.String))
    rows = []
    for node, kind, device_kind, device, port, uid in found.unique().sort("node", "device", "port", "uid").iter_rows():
        rdma = device_kind == "rdma"
        rows.append(_interface(node, kind, device=device if rdma else None, netdev=None if rdma else device, port=port, uid=uid, origin="counters"))
    speeds = counters.filter((pl.col("counter").cast(pl.String) == "link_speed") & (pl.col("value") > 0))
    for node, device_kind, device, port, value in (
        speeds.group_by("node", pl.col("device_kind").cast(pl.String), pl.col("device").cast(pl.String), "port")
        .agg(pl.col("value").last())
        .sort("node", "device", "port")
        .iter_rows()
    ):
        rdma = device_kind == "rdma"
        rows.append(
            _interface(node, None, device=device if rdma else None, netdev=None if rdma else device, port=port, speed_bps=int(value), origin="counters")
        )
    return rows


def _interface(machine: object, kind: object, **other: object) -> dict[str, object]:
    empty = dict.fromkeys(("device", "netdev", "alias", "port", "uid", "pci", "speed_bps", "cable"))
    return {**empty, "machine": machine, "kind": kind, **other}


def _counting(counters: pl.DataFrame) -> list[End]:
    """Ends of links that have counters of traffic or of errors: not what only exists in the kernel, nor network devices of hosts that have RDMA."""
    kind = pl.col("device_kind").cast(pl.String)
    found = counters.filter(kind.is_in(["rdma", "netdev", "switch-port"]))
    beside = (kind == "netdev") & (kind == "rdma").any().over("node")
    found = found.filter(~beside & ~((kind == "netdev") & pl.col("device").cast(pl.String).str.contains(_VIRTUAL)))
    return [(n, d) for n, d in found.select("node", end_name().alias("name")).unique().drop_nulls().sort("node", "name").iter_rows()]


def _ports(adapters: Adapters, links: list[Link]) -> Ports:
    speeds = {end: link.speed_bps for link in links if link.speed_bps for end in (link.a, link.b) if end is not None}
    unit, speed = {}, {}
    for adapter in adapters.all:
        known = adapter.speed_bps or speeds.get((adapter.machine, adapter.name))
        for name in adapter.names:
            unit[adapter.machine, name] = adapter.name
            if known:
                speed[adapter.machine, name] = known
    return Ports(unit, speed)
