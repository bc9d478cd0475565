"""The ends of the job's links, and what was counted at them while the job was captured.

One end goes by several names (mlx5_0 and ens1f0np0 are one adapter) and several tools may read one counter: here each end
has one name, and of several series that state the same thing one is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tracelab.analyses.common import once
from tracelab.analysis import Tables
from tracelab.results import NotObservable
from tracelab.tables import Column

__all__ = [
    "END",
    "END_COLUMNS",
    "Counted",
    "carried",
    "counted",
    "label",
    "listed",
    "median_step_ns",
    "nothing_counted",
    "several",
    "shown",
    "totals",
    "uncovered",
    "where",
    "window_of",
    "with_ends",
]

END_COLUMNS = (
    Column("node", "string", "host or switch", nullable=False, key=True),
    Column("port", "string", "adapter of the host, or port of the switch", nullable=False, key=True),
    Column("link", "int32", "row of `links`; null where the port belongs to no link of the job"),
    Column("side", "string", "a: the host, or the lower switch; b: the switch above it"),
    Column("tier", "int32", "0 host to leaf, 1 leaf to spine, 2 above"),
    Column("used", "bool", "the job's data take this link; ports of which that is false or unknown are listed, not judged"),
)
"""Columns by which result tables name a port."""
END = tuple(c.name for c in END_COLUMNS)

_RATE = ("series", "start_ns", "end_ns", "priority", "queue", "direction", "counter", "delta", "per_s", "at_least", "gap", "flags")
_COARSE = 2.0
"""An interval this many times longer than the captures says little of them."""


@dataclass(frozen=True)
class Counted:
    """The ports of the job's network and what they counted.

    `ends`: END columns, rail, speed_bps, peer_node, peer_port; one row per end of a link. `names`: every name that an end goes by
    on its machine (node, name, link, side). `rates`: rows of `counter_rates` that touch the `window` (aligned ns; None where no
    step is known: then all), with the END columns, rail, speed_bps, `seconds` and `inside` (part of the interval in the window).
    `caveats`: why the result is weaker than it looks; `unseen`: what follows from that.
    """

    window: tuple[int, int] | None
    ends: pl.DataFrame
    names: pl.DataFrame
    rates: pl.DataFrame
    caveats: tuple[str, ...]
    unseen: tuple[NotObservable, ...]

    def beside(self, sentence: str) -> str:
        """`sentence` about what was found, with a word of doubt where the samples reach far beyond the captures."""
        return sentence + (" The samples reach far beyond the captures: this may have been before or after them." if self.unseen else "")


def counted(tables: Tables) -> Counted:
    """What the ports of the job's network counted during the captures; computed once."""
    return once(tables, "network.counted", lambda: _counted(tables))


def window_of(tables: Tables) -> tuple[int, int] | None:
    """First and last moment of the job's steps, aligned ns; None without steps."""
    first, last = tables["steps"].select(pl.col("start_ns").min(), pl.col("end_ns").max()).collect().row(0)
    return (first, last) if first is not None and last > first else None


def median_step_ns(tables: Tables) -> float | None:
    """Median length of a step."""
    value = tables["steps"].select((pl.col("end_ns") - pl.col("start_ns")).median()).collect().item()
    return float(value) if value is not None else None


def where(node: str, port: str) -> str:
    """A port in words: `node7 mlx5_0`, `leaf1 port 3`."""
    return shown(f"{node} port {port}" if port.isdigit() else f"{node} {port}")


def shown(name: str) -> str:
    """A name out of a file, fit for a sentence: without control characters, and not too long."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:80])


def label(row: dict[str, object]) -> str:
    """The port of a row with END columns, in words."""
    return where(str(row["node"]), str(row["port"]))


def listed(words: Sequence[str], most: int = 3) -> str:
    """`a`, `a and b`, `a, b, c and 4 more`."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def several(count: int, what: str) -> str:
    """`1 port`, `2 ports`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _counted(tables: Tables) -> Counted:
    window = window_of(tables)
    ends, names = _ends(tables)
    found = tables["counter_rates"].with_columns(pl.col("counter", "device", "queue", "direction").cast(pl.String))
    rows = found.filter(~pl.col("counter").str.starts_with("vendor."))
    if window is not None:
        rows = rows.filter((pl.col("end_ns") > window[0]) & (pl.col("start_ns") < window[1]))
    rates = rows.select("node", "device", "port", *_RATE).collect(engine="streaming")
    uids = tables["counters"].select("series", pl.col("uid").cast(pl.String)).unique("series").collect(engine="streaming")
    rates = _placed(rates.join(uids, on="series", how="left"), ends, names)
    first, last = window if window is not None else (None, None)
    inside = pl.min_horizontal("end_ns", pl.lit(last, pl.Int64)) - pl.max_horizontal("start_ns", pl.lit(first, pl.Int64))
    length = pl.col("end_ns") - pl.col("start_ns")
    rates = rates.with_columns((length / 1e9).alias("seconds"), (inside / length).alias("inside"))
    rates = rates.sort("series", "start_ns")
    return Counted(window, ends, names, rates, *_caveats(window, ends, rates))


def with_ends(rows: pl.DataFrame, given: Counted) -> pl.DataFrame:
    """Rows of counters (node, device, port, uid as text and number) with the END columns, rail and speed_bps of their port."""
    return _placed(rows, given.ends, given.names)


def _placed(rows: pl.DataFrame, ends: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    rows = rows.with_columns(counter_end().alias("name")).drop("device", "port", "uid").filter(pl.col("name").is_not_null())
    rows = rows.join(names, on=["node", "name"], how="left").join(ends.drop("node", "peer_node", "peer_port"), on=["link", "side"], how="left")
    return rows.with_columns(pl.coalesce("port", "name").alias("port")).drop("name")


def counter_end() -> pl.Expr:
    """Name of what counted, from columns device, port and uid: as `tracelab.fabric.adapters.end_name`, of text."""
    numbered = pl.when(pl.col("port") > 1).then(pl.concat_str("device", pl.lit("/"), pl.col("port").cast(pl.String))).otherwise("device")
    return pl.coalesce(numbered, pl.col("port").cast(pl.String), "uid")


def _ends(tables: Tables) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The ends of all links, and the names that they go by: node, name, link, side."""
    links = tables["links"].collect()
    endpoints = tables["endpoints"].select("host", "device", "netdev", "link").filter(pl.col("link").is_not_null()).unique().collect()
    used = endpoints["link"].unique()
    leaves = links.filter(pl.col("link").is_in(used.implode()))["b_node"].drop_nulls().unique()
    of_job = pl.col("link").is_in(used.implode())
    # between switches: of the job where its hosts hang on several switches and the link leads up from one of them
    above = pl.col("b_node").is_not_null() & (pl.col("a_node").is_in(leaves.implode()) | pl.col("b_node").is_in(leaves.implode())) & (len(leaves) > 1)
    known = pl.when(pl.col("tier") == 0).then(of_job).when(pl.col("b_node").is_null() & (len(leaves) > 1)).then(None).otherwise(above)
    links = links.with_columns((known if endpoints.height else pl.lit(None, pl.Boolean)).alias("used"))
    # an adapter with several ports is called by its port where the job's ranks say which
    called = endpoints.sort("device").unique("link", keep="first").select("link", "device")
    a_port, b_port = pl.coalesce("device", "a_device", "a_port"), pl.col("b_port")
    shared = ("link", "tier", "rail", "speed_bps", "used")
    links = links.join(called, on="link", how="left")
    a = links.select(*shared, node="a_node", port=a_port, side=pl.lit("a"), peer_node="b_node", peer_port=b_port)
    b = links.select(*shared, node="b_node", port=b_port, side=pl.lit("b"), peer_node="a_node", peer_port=a_port)
    ends = pl.concat([a, b]).filter(pl.col("node").is_not_null() & pl.col("port").is_not_null())
    own = [endpoints.select(node="host", name=c, link="link", side=pl.lit("a"), trust=pl.lit(0)) for c in ("device", "netdev")]
    sides = (("a_node", "a_device", "a"), ("a_node", "a_port", "a"), ("b_node", "b_port", "b"))
    wired = [links.select(node=n, name=c, link="link", side=pl.lit(s), trust=pl.lit(1)) for n, c, s in sides]
    names = pl.concat([*own, *wired]).drop_nulls().unique()
    names = names.filter(pl.col("trust") == pl.col("trust").min().over("node", "name"))
    # a name that two links claim names neither
    names = names.filter(pl.struct("link", "side").n_unique().over("node", "name") == 1).select("node", "name", "link", "side").unique()
    return ends.select(*END, "rail", "speed_bps", "peer_node", "peer_port").sort("link", "side"), names


def _caveats(window: tuple[int, int] | None, ends: pl.DataFrame, rates: pl.DataFrame) -> tuple[tuple[str, ...], tuple[NotObservable, ...]]:
    said: list[str] = []
    unseen: list[NotObservable] = []
    if window is None:
        said.append("no step is known: the whole time of the counters is looked at")
    if rates.height and not rates["link"].is_not_null().any():
        said.append("no counter belongs to a known link of the job: nothing is judged")
    elif ends.height and not ends["used"].is_not_null().any():
        said.append("nothing ties the job's ranks to adapters: nothing is judged")
    if window is not None and rates.height:
        usual, span = float(rates["seconds"].median() or 0), (window[1] - window[0]) / 1e9  # type: ignore[arg-type]
        if usual > _COARSE * span:
            reason = f"two samples are {usual:.3g} s apart in the median, the captures {span:.3g} s long: what was counted may lie outside of them"
            said.append(reason)
            unseen.append(
                NotObservable("What did the network count during the captures?", reason, "counters every second, or right before and after the captures")
            )
    return tuple(said), tuple(unseen)


def uncovered(tables: Tables) -> tuple[str, tuple[NotObservable, ...]]:
    """A sentence on the job's adapters that nothing counted, neither they nor the switch ports at their other ends; empty without any."""
    series = tables["links"].select("link", (pl.col("a_series") | pl.col("b_series")).alias("counts"))
    adapters = tables["endpoints"].select("host", "device", "link").unique().join(series, on="link", how="left").sort("host", "device").collect()
    missing = [where(h, d) for h, d in adapters.filter(~pl.col("counts").fill_null(False)).select("host", "device").iter_rows()]
    if not missing:
        return "", ()
    many = f"{len(missing)} of the job's {several(adapters.height, 'adapter')}"
    reason = f"no counter of {listed(missing)} was collected, at neither end"
    return f" Nothing counted {many} ({listed(missing)}): a fault there would not show.", (
        NotObservable(
            f"Did {many} lose, damage or hold up packets?", reason, "counters of all hosts' adapters, or of the switch ports that they are cabled to"
        ),
    )


def nothing_counted(what: str, given: Counted) -> tuple[str, NotObservable]:
    """The answer where no counter of a kind was collected during the captures, and what to collect."""
    reason = "no sample lies beside the captures" if not given.rates.height else f"no source holds {what} of the time of the captures"
    return f"Not collected: {reason}.", NotObservable(
        f"What do {what} say?", reason, f"{what} of adapters and switch ports, read before, during and after the captures"
    )


def totals(given: pl.DataFrame, counters: Sequence[str]) -> pl.DataFrame:
    """What each port counted of events: one row per port, counter, direction, priority and queue.

    Columns: END, rail, speed_bps, counter, direction, priority, queue, series, total, per_s, seconds, intervals, rose (intervals
    with a rise), left_out. Intervals with a reset or a gap are left out; total and per_s are null where none is left. Of several
    series for the same the one that rose most is taken.
    """
    key = [*END, "counter", "direction", "priority", "queue"]
    good = ~pl.col("at_least") & ~pl.col("gap")
    rows = given.filter(pl.col("counter").is_in(counters)).with_columns(good.alias("good"))
    sums = rows.group_by([*key, "rail", "speed_bps", "series"], maintain_order=True).agg(
        pl.col("delta").filter("good").sum().alias("total"),
        pl.col("seconds").filter("good").sum(),
        pl.col("good").sum().cast(pl.Int64).alias("intervals"),
        (pl.col("delta").filter("good") > 0).sum().cast(pl.Int64).alias("rose"),
        (~pl.col("good")).sum().cast(pl.Int64).alias("left_out"),
    )
    seen = pl.col("intervals") > 0
    sums = sums.with_columns(pl.when(seen).then("total").alias("total"), pl.when(seen).then(pl.col("total") / pl.col("seconds")).alias("per_s"))
    best = sums.sort("total", "intervals", "series", descending=[True, True, False], nulls_last=True).unique(key, keep="first", maintain_order=True)
    return best.sort("node", "port", "counter", "direction", "priority", "queue", nulls_last=True)


def carried(given: pl.DataFrame, counter: str) -> pl.DataFrame:
    """Traffic of each port and direction: END, rail, speed_bps, direction, series, per_s, seconds, lower_bound.

    `counter`: bytes or packets. Lower bounds count only where a series has nothing else. Of several series for one port the one
    with exact numbers, then the one that counted most, is taken: an adapter's RDMA counters may leave out other traffic.
    """
    key = [*END, "direction"]
    rows = given.filter((pl.col("counter") == counter) & pl.col("direction").is_not_null())
    exact = ~pl.col("at_least")
    some = exact.any().over("series")
    rows = rows.filter(exact | ~some)
    part, within = pl.col("delta") * pl.col("inside"), pl.col("seconds") * pl.col("inside")
    sums = rows.group_by([*key, "rail", "speed_bps", "series"], maintain_order=True).agg(
        (part.sum() / within.sum()).alias("per_s"), within.sum().alias("seconds"), pl.col("at_least").any().alias("lower_bound")
    )
    best = sums.sort("lower_bound", "per_s", "series", descending=[False, True, False], nulls_last=True).unique(key, keep="first", maintain_order=True)
    return best.sort("node", "port", "direction")
