"""EDGES: the pairs of ranks that a communicator sends over, per channel, with what each rests on and the path that it takes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from tracelab.plugins import Notice
from tracelab.tables import CHANNEL_EDGES, EDGES, NET_DEVICES, RING_ORDERS
from tracelab.traffic.rings import Evidence, Ring, rank_order, ring_of
from tracelab.traffic.trees import tree_of, which_tree

__all__ = ["PATHS", "Communicator", "Edges", "build_edges", "communicators_of"]

_MOST_CHANNELS = 256
"""NCCL has 64 at most, RCCL 128: a larger number is a damaged line."""

_COLLECT = "set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV on all ranks, with NCCL_DEBUG_FILE=….%h.%p.log"

PATHS = {
    "comm_key": pl.Int32,
    "p2p": pl.Boolean,
    "channel": pl.Int32,
    "src_rank": pl.Int32,
    "dst_rank": pl.Int32,
    "transport": pl.String,
    "net_device": pl.Int32,
    "nic": pl.String,
    "gdr": pl.Boolean,
    "proxy_rank": pl.Int32,
}
"""How a pair (global ranks) is connected on a channel, once for collectives and once for point to point (connection index 1)."""

_ROW = ("comm_key", "group_id", "kind", "channel", "position", "src_rank", "dst_rank", "rung")
Row = tuple[int | None, int | None, str, int, int | None, int, int, str]


@dataclass(frozen=True)
class Communicator:
    """A communicator of the job, or (`key` null) a group that no log describes. `ranks`: global ranks in its order, null where unknown."""

    key: int | None
    group_id: int | None
    ranks: tuple[int | None, ...]
    channels: int | None
    nodes: int | None
    hosts: tuple[str | None, ...]

    @property
    def size(self) -> int:
        """Ranks in it."""
        return len(self.ranks)


@dataclass(frozen=True)
class Edges:
    """`frame` is EDGES, `paths` has the columns of `PATHS`, one row per pair, channel and use."""

    frame: pl.DataFrame
    paths: pl.DataFrame
    notices: tuple[Notice, ...]


def communicators_of(job_communicators: pl.DataFrame, groups: pl.DataFrame, hosts: Mapping[int, str]) -> list[Communicator]:
    """All communicators, then the groups of known ranks that none of them serves."""
    out = []
    for key, group, ranks, size, channels, nodes in job_communicators.select("comm_key", "group_id", "ranks", "size", "channels", "nodes").iter_rows():
        members = tuple((ranks or [])[:size]) + (None,) * (size - len(ranks or []))
        out.append(Communicator(key, group, members, channels, nodes, tuple(None if r is None else hosts.get(r) for r in members)))
    logged = {c.group_id for c in out}
    for group, ranks in groups.select("group_id", "ranks").iter_rows():
        if ranks and group not in logged:
            out.append(Communicator(None, group, tuple(ranks), None, None, tuple(hosts.get(r) for r in ranks)))
    return out


def build_edges(tables: Mapping[str, pl.LazyFrame], comm_map: pl.DataFrame, communicators: list[Communicator]) -> Edges:
    """The edges of all `communicators`. `tables` has channel_edges, ring_orders and net_devices (each may be missing).

    `comm_map` leads from (source_id, part, comm) to comm_key and the process's comm_rank.
    """
    counts: Counter[str] = Counter()
    stated = _stated(tables, comm_map, communicators, counts)
    orders = _orders(tables, comm_map)
    paths = _paths(stated, tables.get("net_devices", NET_DEVICES.empty().lazy()), communicators)
    by_comm = {k[0]: f for k, f in stated.partition_by("comm_key", as_dict=True, maintain_order=True).items()}
    rows: list[Row] = []
    for c in communicators:
        if c.size < 2:
            continue
        if sum(r is not None for r in c.ranks) < 2:
            counts["unmapped"] += 1
            continue
        if c.key is None:
            rows += _ring_rows(c, 0, Ring(rank_order(c.hosts), ("assumed",) * c.size), counts)
            continue
        rows += _rows(c, by_comm.get(c.key, stated.clear()), orders.get(c.key, {}), counts)
    frame = pl.DataFrame(
        rows,
        schema={n: EDGES.polars[n] if n in ("comm_key", "group_id", "channel", "position", "src_rank", "dst_rank") else pl.String for n in _ROW},
        orient="row",
    )
    frame = pl.concat([frame, _p2p_rows(paths, communicators)])
    frame = frame.with_columns((pl.col("kind") == "p2p").alias("p2p")).join(
        paths, on=["comm_key", "p2p", "channel", "src_rank", "dst_rank"], how="left", maintain_order="left", validate="m:1"
    )
    return Edges(EDGES.conform(frame.select(EDGES.names)), paths, tuple(_notices(counts)))


def _stated(tables: Mapping[str, pl.LazyFrame], comm_map: pl.DataFrame, communicators: list[Communicator], counts: Counter[str]) -> pl.DataFrame:
    """The rows of channel_edges with comm_key whose ranks and channel are possible; ranks are still those of the communicator."""
    sizes = pl.DataFrame([(c.key, c.size) for c in communicators if c.key is not None], schema={"comm_key": pl.Int32, "size": pl.Int32}, orient="row")
    frame = tables.get("channel_edges", CHANNEL_EDGES.empty().lazy()).collect(engine="streaming")
    text = [pl.col(c).cast(pl.String) for c in ("kind", "direction", "transport")]
    joined = frame.with_columns(text).join(comm_map, on=["source_id", "part", "comm"], how="left", maintain_order="left", validate="m:1")
    joined = joined.join(sizes, on="comm_key", how="left", maintain_order="left", validate="m:1")
    known = joined.filter(pl.col("size").is_not_null())
    counts["edges-without-communicator"] += joined.height - known.height
    ends = [pl.col(c).is_between(0, pl.col("size") - 1) for c in ("src_rank", "dst_rank")]
    possible = known.filter(pl.all_horizontal(ends) & pl.col("channel").is_between(0, _MOST_CHANNELS - 1))
    counts["impossible-edges"] += known.height - possible.height
    return possible.filter(pl.col("src_rank") != pl.col("dst_rank"))


def _orders(tables: Mapping[str, pl.LazyFrame], comm_map: pl.DataFrame) -> dict[int, dict[int, list[tuple[int, ...]]]]:
    """Printed orders by communicator and channel."""
    frame = tables.get("ring_orders", RING_ORDERS.empty().lazy()).collect(engine="streaming")
    joined = frame.join(comm_map, on=["source_id", "part", "comm"], how="inner", maintain_order="left", validate="m:1")
    out: dict[int, dict[int, list[tuple[int, ...]]]] = defaultdict(lambda: defaultdict(list))
    for key, channel, order in joined.select("comm_key", "channel", "order").iter_rows():
        if key is not None and 0 <= channel < _MOST_CHANNELS:
            out[key][channel].append(tuple(order))
    return out


def _global(communicators: list[Communicator]) -> pl.DataFrame:
    """comm_key, comm_rank → global rank."""
    rows = [(c.key, i, r) for c in communicators if c.key is not None for i, r in enumerate(c.ranks)]
    return pl.DataFrame(rows, schema={"comm_key": pl.Int32, "comm_rank": pl.Int32, "job_rank": pl.Int32}, orient="row")


def _paths(stated: pl.DataFrame, net_devices: pl.LazyFrame, communicators: list[Communicator]) -> pl.DataFrame:
    """PATHS from the connection rows: the sender's own line before the receiver's, which tells nothing of the sender's device."""
    received = pl.col("direction").fill_null("") == "receive"
    rows = stated.filter((pl.col("kind") == "connection") & pl.col("transport").is_not_null()).with_columns(
        received.alias("received"), (pl.col("connection").fill_null(0) == 1).alias("p2p"), pl.col("transport").str.strip_prefix("NET/").alias("plugin")
    )
    devices = net_devices.select("source_id", "part", pl.col("plugin").cast(pl.String), pl.col("device").alias("net_device"), pl.col("name").alias("nic"))
    known = devices.filter(pl.col("net_device").is_not_null() & (pl.col("plugin") != "bootstrap")).collect()
    exact = known.unique(["source_id", "part", "plugin", "net_device"], keep="first", maintain_order=True)
    # A plugin may print its devices under another name than its connections: its index is enough where one plugin lists devices.
    single = known.filter((pl.col("plugin").n_unique() == 1).over("source_id", "part")).unique(
        ["source_id", "part", "net_device"], keep="first", maintain_order=True
    )
    rows = rows.join(exact, on=["source_id", "part", "plugin", "net_device"], how="left", maintain_order="left", validate="m:1").join(
        single.select("source_id", "part", "net_device", pl.col("nic").alias("only_nic")),
        on=["source_id", "part", "net_device"],
        how="left",
        maintain_order="left",
        validate="m:1",
    )
    ranks = _global(communicators)
    for column in ("src_rank", "dst_rank", "proxy_rank"):
        names = {"comm_rank": column, "job_rank": f"{column}_job"}
        rows = rows.join(ranks.rename(names), on=["comm_key", column], how="left", maintain_order="left", validate="m:1")
    own = [
        pl.when(~pl.col("received")).then(e).alias(n)
        for n, e in (("net_device", pl.col("net_device")), ("nic", pl.coalesce("nic", "only_nic")), ("proxy_rank", pl.col("proxy_rank_job")))
    ]
    keys = ["comm_key", "p2p", "channel", "src_rank", "dst_rank"]
    out = rows.with_columns(own).with_columns(pl.col("src_rank_job").alias("src_rank"), pl.col("dst_rank_job").alias("dst_rank"))
    out = out.drop_nulls(["src_rank", "dst_rank"]).sort(*keys, "received", "source_id", "line").unique(keys, keep="first", maintain_order=True)
    return out.select(pl.col(n).cast(t) for n, t in PATHS.items())


def _p2p_rows(paths: pl.DataFrame, communicators: list[Communicator]) -> pl.DataFrame:
    groups = pl.DataFrame([(c.key, c.group_id) for c in communicators if c.key is not None], schema={"comm_key": pl.Int32, "group_id": pl.Int32}, orient="row")
    rows = paths.filter("p2p").join(groups, on="comm_key", how="left", maintain_order="left", validate="m:1")
    fixed = [pl.lit("p2p").alias("kind"), pl.lit(None, pl.Int32).alias("position"), pl.lit("stated").alias("rung")]
    return rows.with_columns(fixed).select(_ROW)


def _rows(c: Communicator, stated: pl.DataFrame, orders: Mapping[int, list[tuple[int, ...]]], counts: Counter[str]) -> Iterator[Row]:
    """Rings, trees and the trees between switches of one communicator."""
    evidence: dict[int, Evidence] = defaultdict(Evidence)
    other: dict[tuple[str, int], set[tuple[int, int]]] = defaultdict(set)
    for channel, lists in orders.items():
        evidence[channel].orders += lists
    columns = ("kind", "channel", "connection", "src_rank", "dst_rank", "comm_rank")
    for kind, channel, connection, src, dst, speaker in stated.select(columns).iter_rows():
        told = evidence[channel] if kind in ("ring", "tree") or (kind == "connection" and connection in (0, None)) else Evidence()
        if kind == "ring":
            told.neighbours.add((src, dst))
        elif kind == "tree":
            told.tree.add((src, dst))
            told.tree_known.add(-1 if speaker is None else speaker)
        elif kind == "connection":
            (told.maybe_linked if connection is None else told.linked).add((src, dst))
        else:
            other["nvls" if kind == "nvls_tree" else "collnet", channel].add((src, dst))
    count = _channel_count(c, evidence)
    for channel in range(count):
        ring = ring_of(evidence.get(channel, Evidence()), c.size, c.hosts)
        counts[ring.problem] += bool(ring.problem)
        yield from _ring_rows(c, channel, ring, counts)
    yield from _tree_rows(c, {k: e.tree for k, e in evidence.items() if e.tree}, count, counts)
    for (kind, channel), pairs in sorted(other.items()):
        for src, dst in sorted(pairs):
            yield from _row(c, kind, channel, None, src, dst, "stated", counts)


def _channel_count(c: Communicator, evidence: Mapping[int, Evidence]) -> int:
    """Channels for collectives: as stated, but no less than rings are printed for; else as many as anything is known of."""
    rings = max((k for k, e in evidence.items() if e.orders or e.neighbours), default=-1) + 1
    if c.channels:
        return max(min(c.channels, _MOST_CHANNELS), rings)
    return rings or max(evidence, default=0) + 1


def _ring_rows(c: Communicator, channel: int, ring: Ring, counts: Counter[str]) -> Iterator[Row]:
    counts["completed"] += "completed" in ring.rungs
    counts["assumed"] += c.key is not None and "assumed" in ring.rungs
    for position, (src, rung) in enumerate(zip(ring.order, ring.rungs, strict=True)):
        yield from _row(c, "ring", channel, position, src, ring.order[(position + 1) % c.size], rung, counts)


def _tree_rows(c: Communicator, trees: Mapping[int, set[tuple[int, int]]], count: int, counts: Counter[str]) -> Iterator[Row]:
    for channel in sorted(trees):
        tree = tree_of(trees[channel], c.size)
        counts["incomplete-trees"] += bool(tree.missing)
        counts["missing-tree-links"] += tree.missing
        counts["contradicting-trees"] += tree.contradiction
        for src, dst in tree.links:
            yield from _row(c, "tree", channel, which_tree(channel, count), src, dst, "stated", counts)


def _row(c: Communicator, kind: str, channel: int, position: int | None, src: int, dst: int, rung: str, counts: Counter[str]) -> Iterator[Row]:
    a, b = c.ranks[src], c.ranks[dst]
    if a is None or b is None:
        counts["unknown-ranks"] += 1
    else:
        yield c.key, c.group_id, kind, channel, position, a, b, rung


_TEXTS: Mapping[str, tuple[str, str, str, str]] = {
    "edges-without-communicator": ("edges-without-communicator", "warning", "connections in logs belong to no known communicator; they are left out", _COLLECT),
    "impossible-edges": ("impossible-edges", "warning", "connections name an impossible rank or channel; they are left out", ""),
    "unknown-ranks": ("edges-of-unknown-ranks", "warning", "edges end at ranks that no source tells; their bytes are missing", _COLLECT),
    "unmapped": ("communicators-of-unknown-ranks", "warning", "communicators have no edges, as no source tells which ranks of the job they join", _COLLECT),
    "assumed": ("assumed-ring", "info", "rings of logged communicators are not told: rank order is assumed, ranks of a host together", _COLLECT),
    "completed": ("completed-ring", "info", "rings were printed in part and completed by the order that repeats from host to host", _COLLECT),
    "order-invalid": ("dropped-ring-order", "warning", "printed rings name a rank twice or one that does not exist; they were dropped", ""),
    "order-not-completed": ("dropped-ring-order", "warning", "printed rings are cut short and nothing tells how they go on; they were dropped", _COLLECT),
    "order-contradicted": ("dropped-ring-order", "warning", "printed rings contradict what other ranks say of their neighbours; they were dropped", ""),
    "ambiguous-connections": ("dropped-connections", "info", "connections allow no ring or more than one, as trees use them too; they were dropped", _COLLECT),
    "incomplete-trees": ("incomplete-tree", "info", "trees are known in part (ranks are silent, lines cut); their bytes are placed on the rings", _COLLECT),
    "contradicting-trees": ("contradicting-tree", "warning", "trees name two parents of one rank, or a circle; their bytes are placed on the rings", ""),
}  # fmt: skip


def _notices(counts: Mapping[str, int]) -> Iterator[Notice]:
    for key, (code, severity, text, hint) in _TEXTS.items():
        if counts[key]:
            more = f" ({counts['missing-tree-links']} links are missing)" if key == "incomplete-trees" else ""
            yield Notice(code, "warning" if severity == "warning" else "info", text + more, hint, counts[key])
