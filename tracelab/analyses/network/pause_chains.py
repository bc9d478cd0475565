"""Pauses, walked upstream: from the ports that are stopped to the device that nobody stops."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import END, Counted, carried, shown, totals, where
from tracelab.tables import Column, TableSpec

__all__ = ["PAUSES", "PAUSE_CHAINS", "chains_of", "ports_of"]

PAUSE_CHAINS = TableSpec(
    "pause_chains",
    "Ports that are stopped, and the device at which that begins",
    (
        Column("root", "string", "device that stops others and is not stopped itself, in words: a host's adapter, or a switch", nullable=False, key=True),
        Column("root_node", "string", "its machine", nullable=False),
        Column("root_port", "string", "the adapter of a host; null of switches"),
        Column("pattern", "string", "slow receiver, incast, congested switch, cycle, or unknown (the other end is not known)", nullable=False),
        Column("egress", "string", "of an incast: the port that all send to, in words"),
        Column("held_node", "string", "machine that is stopped", nullable=False, key=True),
        Column("held_port", "string", "its port", nullable=False, key=True),
        Column("hops", "int32", "links from the root; null in a cycle"),
        Column("priority", "int32", "priority; null for pauses of the whole port", key=True),
        Column("share", "float64", "of the time that the port is stopped; null where no duration is collected", "ratio"),
        Column("frames_per_s", "float64", "pause frames that reach it", "packet/s"),
    ),
    ("root", "hops", "held_node", "held_port", "priority"),
)

PAUSES = ("pfc_pause_frames", "pfc_pause_us", "pfc_transitions", "pfc_storm_events", "global_pause_frames", "global_pause_us")
_MEASURES = {
    "pfc_pause_frames": "frames",
    "global_pause_frames": "frames",
    "pfc_pause_us": "paused_us",
    "global_pause_us": "paused_us",
    "pfc_transitions": "transitions",
    "pfc_storm_events": "storms",
}
_KEY = [*END, "priority", "direction"]


def ports_of(given: Counted, least_share: float, least_frames: float) -> pl.DataFrame:
    """Rows of PAUSE_PORTS without `role`."""
    sums = totals(given.rates, PAUSES).filter(pl.col("direction").is_not_null())
    sums = sums.with_columns(pl.col("counter").replace_strict(_MEASURES).alias("measure"))
    worst = given.rates.filter(pl.col("counter").is_in(["pfc_pause_us", "global_pause_us"]) & ~pl.col("at_least") & ~pl.col("gap"))
    worst = worst.group_by("series").agg((pl.col("per_s").max() / 1e6).alias("worst"))
    sums = sums.join(worst, on="series", how="left", maintain_order="left")
    columns = [pl.col("total").filter(pl.col("measure") == m).first().alias(m) for m in ("frames", "paused_us", "transitions", "storms")]
    frames, time = pl.col("measure") == "frames", pl.col("measure") == "paused_us"
    out = sums.group_by(_KEY, maintain_order=True).agg(
        *columns,
        pl.col("per_s").filter(frames).first().alias("frames_per_s"),
        (pl.col("per_s").filter(time).first() / 1e6).clip(upper_bound=1.0).alias("paused_share"),
        pl.col("worst").filter(time).first().clip(upper_bound=1.0).alias("peak_share"),
        pl.col("intervals").max(),
        pl.col("left_out").max(),
    )
    much = pl.when(pl.col("paused_share").is_not_null()).then(pl.col("paused_share") >= least_share).otherwise(pl.col("frames_per_s") >= least_frames)
    return out.with_columns((much & pl.col("used")).fill_null(False).alias("heavy"))


Unit = tuple[str, str | None]
"""A device that is stopped as a whole: a switch, or one adapter of a host."""


@dataclass(frozen=True)
class Hold:
    """One device stops a port of another, which it is wired to."""

    by: Unit
    node: str
    port: str
    unit: Unit
    priority: int | None
    share: float | None
    frames_per_s: float | None


def chains_of(given: Counted, ports: pl.DataFrame, egress_share: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of PAUSE_CHAINS, and the role of each port's device: node, port, role."""
    holds = _holds(given, ports)
    by_unit: dict[Unit, list[Hold]] = defaultdict(list)
    for hold in holds:
        by_unit[hold.by].append(hold)
    held = {h.unit for h in holds}
    roots = sorted((u for u in by_unit if u not in held), key=_order)
    rows: list[dict[str, object]] = []
    reached: set[Unit] = set()
    for root in roots:
        rows += _walk(root, by_unit, reached, *_pattern(root, by_unit[root], given, egress_share))
    for unit in sorted((u for u in by_unit if u not in reached), key=_order):
        if unit not in reached:
            rows += _walk(unit, by_unit, reached, "cycle", None)
    chains = PAUSE_CHAINS.conform(pl.DataFrame(rows, schema=PAUSE_CHAINS.polars))
    return chains, _roles(given, set(by_unit), held)


def _order(unit: Unit) -> tuple[str, str]:
    return unit[0], unit[1] or ""


def _unit(node: str, port: str, *, host: bool) -> Unit:
    return (node, port) if host else (node, None)


def _holds(given: Counted, ports: pl.DataFrame) -> list[Hold]:
    """Who stops which port. Both ends may count it: the port that is stopped (rx) speaks first, else the one that stops it (tx)."""
    known = {
        (n, p): (tier, side, peer, at) for n, p, tier, side, peer, at in given.ends.select("node", "port", "tier", "side", "peer_node", "peer_port").iter_rows()
    }
    out: dict[tuple[str, str, int | None], Hold] = {}
    for row in ports.filter("heavy").sort("direction", "node", "port", "priority").iter_rows(named=True):
        node, port, priority = row["node"], row["port"], row["priority"]
        tier, side, peer, at = known[node, port]
        own = _unit(node, port, host=tier == 0 and side == "a")
        other = _unit(peer, at, host=tier == 0 and side == "b") if peer is not None and at is not None else ("what is beyond " + where(node, port), None)
        measures = (priority, row["paused_share"], row["frames_per_s"])
        if row["direction"] == "rx":
            hold = Hold(other, node, port, own, *measures)
        elif peer is not None and at is not None:
            hold = Hold(own, peer, at, other, *measures)
        else:
            hold = Hold(own, "what is beyond", where(node, port), other, *measures)
        out.setdefault((hold.node, hold.port, priority), hold)
    return [out[k] for k in sorted(out, key=lambda k: (k[0], k[1], -1 if k[2] is None else k[2]))]


def _walk(root: Unit, by_unit: dict[Unit, list[Hold]], reached: set[Unit], pattern: str, egress: str | None) -> list[dict[str, object]]:
    """Everything that `root` stops, nearest first."""
    rows: list[dict[str, object]] = []
    front, hops = [root], 1
    mine = {root}
    while front:
        ahead: list[Unit] = []
        for unit in front:
            for hold in by_unit.get(unit, ()):
                name = where(root[0], root[1]) if root[1] is not None else shown(root[0])
                rows.append(
                    {
                        "root": name,
                        "root_node": root[0],
                        "root_port": root[1],
                        "pattern": pattern,
                        "egress": egress,
                        "held_node": hold.node,
                        "held_port": hold.port,
                        "hops": hops if pattern != "cycle" else None,
                        "priority": hold.priority,
                        "share": hold.share,
                        "frames_per_s": hold.frames_per_s,
                    }
                )
                if hold.unit not in mine:
                    mine.add(hold.unit)
                    ahead.append(hold.unit)
        front, hops = ahead, hops + 1
    reached |= mine
    return rows


def _pattern(root: Unit, holds: list[Hold], given: Counted, egress_share: float) -> tuple[str, str | None]:
    """What kind of root it is; of an incast, the switch's port that sends at nearly the speed of its link."""
    if root[1] is not None:
        return "slow receiver", None
    if root[0] not in set(given.ends["node"]):
        return "unknown", None
    sent = carried(given.rates, "bytes").filter((pl.col("node") == root[0]) & (pl.col("direction") == "tx"))
    full = sent.with_columns((pl.col("per_s") * 8 / pl.col("speed_bps")).alias("share")).filter(pl.col("share") >= egress_share)
    if len({h.unit for h in holds}) > 1 and full.height:
        row = full.sort("share", "port", descending=[True, False]).row(0, named=True)
        return "incast", where(row["node"], row["port"])
    return "congested switch", None


def _roles(given: Counted, holding: set[Unit], held: set[Unit]) -> pl.DataFrame:
    rows = []
    for node, port, tier, side in given.ends.select("node", "port", "tier", "side").iter_rows():
        unit = _unit(node, port, host=tier == 0 and side == "a")
        role = "spreads" if unit in holding and unit in held else "root" if unit in holding else "victim" if unit in held else None
        rows.append((node, port, role))
    return pl.DataFrame(rows, schema={"node": pl.String, "port": pl.String, "role": pl.String}, orient="row").unique(["node", "port"], keep="first")
