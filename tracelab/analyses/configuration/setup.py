"""The setup as the logs state it: processes, settings, network devices, connections and paths, joined with hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from tracelab.analyses.configuration.issue import clean
from tracelab.analysis import Tables
from tracelab.units import format_ranges

__all__ = ["HOST", "NETWORK", "RDMA", "Setup", "hosts_named", "off", "on", "ranks_of", "read_setup", "troubled", "who"]

HOST, NETWORK = "host", "network"
LONGEST_VALUE = 200
_KEY = ["source_id", "part"]
_EDGE = ["comm", "connection", "src_rank", "dst_rank", "src_device", "dst_device", "direction", "transport", "net_device", "gdr", "proxy_rank"]
RDMA = ~pl.col("plugin").str.to_lowercase().is_in(["socket", "fastsocket", "bootstrap"])
"""Rows of network devices that can write to another host's memory, as those of any plugin but the socket ones."""


@dataclass(frozen=True)
class Setup:
    """What all checks read; every frame has source_id, part, rank, unit, host and line.

    A unit is one process: its rank, or a number below -1 where no source states one.
    """

    processes: pl.DataFrame
    settings: pl.DataFrame
    devices: pl.DataFrame
    comms: pl.DataFrame
    connections: pl.DataFrame
    paths: pl.DataFrame
    gpus: dict[int, str]

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All hosts that a log names."""
        return tuple(sorted({h for h in self.processes["host"].to_list() if h}))

    @cached_property
    def count(self) -> int:
        """Processes that speak; a line without any prefix stands for none where others have one."""
        named = self.processes.filter(pl.col("host") != "")
        return (named if named.height else self.processes)["unit"].n_unique()

    @cached_property
    def spans_hosts(self) -> bool:
        """Whether the job communicates between hosts."""
        several = len(self.hosts) > 1
        # Where the number of hosts is not printed (before 2.20), a communicator of several ranks may span the hosts that were seen.
        spans = (pl.col("nodes") > 1) | (pl.col("nodes").is_null() & ((pl.col("size") > 1) | pl.col("size").is_null()) & pl.lit(several))
        return self.network.height > 0 or (self.comms.filter(spans).height > 0 if self.comms.height else several)

    @cached_property
    def network(self) -> pl.DataFrame:
        """Connections between hosts, over the network."""
        return self.connections.filter(pl.col("scope") == NETWORK)

    @cached_property
    def complete_hosts(self) -> frozenset[str]:
        """Hosts of which every rank of the job wrote a log: only there can be said that something is used by nobody."""
        seen = self.processes.group_by("host").agg(pl.col("unit").n_unique().alias("units"))
        stated = self.comms.group_by("host").agg(pl.col("local_ranks").max(), pl.col("size").max())
        whole = self.comms["size"].max()
        all_seen = isinstance(whole, int) and self.processes["unit"].n_unique() >= whole
        rows = seen.join(stated, on="host", how="inner").filter(pl.lit(all_seen) | (pl.col("units") >= pl.col("local_ranks")).fill_null(False))
        return frozenset(rows["host"].to_list())

    @cached_property
    def device_names(self) -> pl.DataFrame:
        """unit, net_device and nic: how the devices of a connection are called."""
        known = self.devices.filter(RDMA).sort("line").select("unit", pl.col("device").alias("net_device"), pl.col("name").alias("nic"))
        return known.drop_nulls().unique(["unit", "net_device"], keep="last", maintain_order=True)

    def setting(self, *names: str) -> pl.DataFrame:
        """The rows of some settings."""
        return self.settings.filter(pl.col("name").is_in(names))


def troubled(hosts: Iterable[str]) -> frozenset[str]:
    """How `Issue.explains` names hosts: what has a slow link there also has fewer channels and uses fewer adapters."""
    return frozenset(f"host {h}" for h in hosts)


def on(value: pl.Expr) -> pl.Expr:
    """Whether a value switches something on: a number that is not 0."""
    return value.str.strip_chars(" .\"'").str.contains(r"^[+-]?0*[1-9]\d*$") | value.str.to_lowercase().is_in(["true", "yes", "on"])


def off(value: pl.Expr) -> pl.Expr:
    """Whether a value switches something off."""
    return value.str.strip_chars(" .\"'").str.to_lowercase().is_in(["0", "false", "no", "off"])


def ranks_of(frame: pl.DataFrame) -> tuple[int, ...]:
    """The ranks in `frame`, in order, without processes of unknown rank."""
    return tuple(sorted({int(r) for r in frame["unit"].to_list() if r >= 0}))


def hosts_named(hosts: Iterable[str], most: int = 4) -> str:
    """`host a` or `hosts a, b and 3 more`."""
    names = sorted({h for h in hosts if h})
    shown = ", ".join(clean(h) for h in names[:most])
    return f"host{'s' if len(names) > 1 else ''} {shown}" + (f" and {len(names) - most} more" if len(names) > most else "") if names else "a host without name"


def who(units: Iterable[int]) -> str:
    """`rank 3`, `ranks 0–7, 9`, with processes of unknown rank counted."""
    every = set(units)
    ranks = [u for u in every if u >= 0]
    unknown = len(every) - len(ranks)
    parts = [f"rank{'s' if len(ranks) > 1 else ''} {format_ranges(ranks)}"] if ranks else []
    if unknown:
        parts.append(f"{unknown} process{'es' if unknown > 1 else ''} of unknown rank")
    return " and ".join(parts) or "no rank"


def read_setup(tables: Tables) -> Setup:
    """Reads the tables of logs; connections of one kind, process and peer are counted, not listed."""
    comms = _strings(tables["communicators"])
    settings = _strings(tables["log_settings"]).with_columns(pl.col("value").str.slice(0, LONGEST_VALUE))
    devices, paths = _strings(tables["net_devices"]), _strings(tables["node_paths"])
    edges = _strings(_edges(tables))
    processes = _processes(tables, [comms, settings, devices, paths, edges, _strings(_speakers(tables))])

    def placed(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join(processes.select(*_KEY, "unit", "host"), on=_KEY, how="left", maintain_order="left")

    comms = placed(comms)
    ranks = tables["ranks"].collect()
    gpus = dict(ranks.select("rank", "gpu").drop_nulls().iter_rows()) if "gpu" in ranks.columns else {}
    connections = _scoped(placed(edges), comms, tables, dict(zip(processes["unit"], processes["host"], strict=True)))
    return Setup(processes, placed(settings), placed(devices), comms, connections, placed(paths), gpus)


def _strings(frame: pl.LazyFrame) -> pl.DataFrame:
    """Collected, categories as text, in the order of the files."""
    rows = frame.with_columns(pl.col(pl.Categorical).cast(pl.String)).collect(engine="streaming")
    return rows.sort("source_id", "part", *(["line"] if "line" in rows.columns else []), maintain_order=True)


def _edges(tables: Tables) -> pl.LazyFrame:
    stated = tables["channel_edges"].filter(pl.col("transport").is_not_null())
    counted = stated.group_by("source_id", "rank", "part", *_EDGE).agg(
        pl.len().alias("count"), pl.col("channel").n_unique().alias("channels"), pl.col("line").min()
    )
    return counted.sort("source_id", "part", "line", *_EDGE)


def _speakers(tables: Tables) -> pl.LazyFrame:
    """Processes whose messages say nothing else: they count as seen."""
    spoken = tables["log_events"].filter(pl.col("level").cast(pl.String) != "ERROR")
    return spoken.select("source_id", "rank", "part").unique()


def _processes(tables: Tables, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One row per process: source_id, part, rank, unit, host."""
    keys = pl.concat([f.select("source_id", "part", "rank") for f in frames]).unique(_KEY, keep="first", maintain_order=True).sort("rank", *_KEY)
    sources = tables["sources"].select("source_id", "part", pl.col("host").alias("_source")).collect().unique(_KEY, keep="first", maintain_order=True)
    ranks = tables["ranks"].select("rank", pl.col("host").alias("_rank")).collect().unique("rank", keep="first", maintain_order=True)
    rows = keys.join(sources, on=_KEY, how="left", maintain_order="left").join(ranks, on="rank", how="left", maintain_order="left")
    unknown = pl.col("rank") < 0
    unit = pl.when(unknown).then(-1 - unknown.cast(pl.Int32).cum_sum()).otherwise(pl.col("rank"))
    return rows.with_columns(unit.cast(pl.Int32).alias("unit"), pl.coalesce("_source", "_rank").fill_null("").alias("host")).drop("_source", "_rank")


def _scoped(edges: pl.DataFrame, comms: pl.DataFrame, tables: Tables, hosts: dict[int, str]) -> pl.DataFrame:
    """Edges with the size of their communicator, own and peer's device, and whether they stay on the host."""
    grouped = comms.select(*_KEY, "comm", "comm_id", "comm_rank", "size", "nodes", "unit", "host").unique([*_KEY, "comm"], keep="first", maintain_order=True)
    grouped = grouped.with_columns(_groups(grouped, tables))
    members = _members(grouped, tables, hosts)
    sends = pl.col("direction").fill_null("send") != "receive"
    joined = edges.join(grouped.select(*_KEY, "comm", "group", "size", "nodes"), on=[*_KEY, "comm"], how="left", maintain_order="left")
    joined = joined.with_columns(
        pl.when(sends).then("dst_rank").otherwise("src_rank").alias("peer"),
        pl.when(sends).then("src_device").otherwise("dst_device").alias("own_device"),
    ).join(members, on=["group", "peer"], how="left", maintain_order="left")
    over_net = pl.col("transport").str.starts_with("NET") | pl.col("transport").str.starts_with("COLLNET")
    same_host = (pl.col("peer_host") == pl.col("host")).fill_null(False) | (pl.col("nodes") == 1).fill_null(False)
    inside = ~over_net & ~pl.col("transport").str.contains("MNNVL") | (over_net & same_host)
    return joined.with_columns(pl.when(inside).then(pl.lit(HOST)).otherwise(pl.lit(NETWORK)).alias("scope"))


def _groups(comms: pl.DataFrame, tables: Tables) -> pl.Series:
    """The communicator over all its ranks: its id, or the one of `job_communicators` that fits size and place."""
    by_place: dict[tuple[int, int, int], list[str]] = {}
    known = tables["job_communicators"].select("comm_key", "size", "ranks").collect()
    for key, size, ranks in known.iter_rows():
        for place, rank in enumerate(ranks or ()):
            if rank is not None:
                by_place.setdefault((size, place, rank), []).append(f"#{key}")
    names = []
    for comm_id, place, size, unit in comms.select("comm_id", "comm_rank", "size", "unit").iter_rows():
        fits = by_place.get((size, place, unit), [])
        names.append(comm_id or (fits[0] if len(fits) == 1 else None))
    return pl.Series("group", names, pl.String)


def _members(comms: pl.DataFrame, tables: Tables, hosts: dict[int, str]) -> pl.DataFrame:
    """Host by communicator and rank in it."""
    rows = list(comms.filter(pl.col("group").is_not_null() & pl.col("comm_rank").is_not_null()).select("group", "comm_rank", "host").iter_rows())
    for key, ranks in tables["job_communicators"].select("comm_key", "ranks").collect().iter_rows():
        rows.extend((f"#{key}", place, hosts.get(rank, "")) for place, rank in enumerate(ranks or ()) if rank is not None)
    frame = pl.DataFrame(rows, schema={"group": pl.String, "peer": pl.Int32, "peer_host": pl.String}, orient="row")
    return frame.filter(pl.col("peer_host") != "").unique(["group", "peer"], keep="first", maintain_order=True)
