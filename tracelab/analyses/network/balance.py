"""Links that should be alike, beside each other: those of equal cost, and the two ends of one."""

from __future__ import annotations

import polars as pl

from tracelab.analyses.common import Float
from tracelab.analysis import Tables
from tracelab.tables import Column, TableSpec

__all__ = ["LINK_BALANCE", "LINK_DISAGREEMENTS", "balance_of", "disagreements_of", "jain"]

LINK_BALANCE = TableSpec(
    "link_balance",
    "Links of equal cost beside each other: the uplinks of one switch, its ports that lead nobody knows where, and one rail over all hosts",
    (
        Column(
            "kind",
            "string",
            "uplinks, open (ports of a leaf of which no source names the other end: uplinks or other hosts, not judged) or rail",
            nullable=False,
            key=True,
        ),
        Column("name", "string", "which ones", nullable=False, key=True),
        Column("speed_bps", "int64", "their speed", "bit/s", key=True),
        Column("direction", "string", "tx or rx as the lower end sees it", nullable=False, key=True),
        Column("links", "int64", "links compared", nullable=False),
        Column("mean_bytes_per_s", "float64", "mean over them", "byte/s", nullable=False),
        Column("max_over_mean", "float64", "the fullest over the mean; 1 is even", "ratio", nullable=False),
        Column("jain", "float64", "Jain's index (Σx)² / (n·Σx²): 1 is even, 1/n is all on one", "ratio", nullable=False),
        Column("expected", "float64", "of rails: fullest over mean of what the job's operations send or receive per host; null where not known", "ratio"),
        Column("fullest_node", "string", "lower end of the fullest", nullable=False),
        Column("fullest_port", "string", "its port", nullable=False),
        Column("emptiest_node", "string", "lower end of the emptiest", nullable=False),
        Column("emptiest_port", "string", "its port", nullable=False),
        Column("uneven", "bool", "beyond the parameter, and more than the operations explain", nullable=False),
    ),
    ("kind", "name", "speed_bps", "direction"),
)

LINK_DISAGREEMENTS = TableSpec(
    "link_disagreements",
    "Bytes of one link as its two ends count them",
    (
        Column("link", "int32", "row of `links`", nullable=False, key=True),
        Column("direction", "string", "tx or rx as the A end sees it", nullable=False, key=True),
        Column("a_node", "string", "A end", nullable=False),
        Column("a_port", "string", "its port", nullable=False),
        Column("b_node", "string", "B end", nullable=False),
        Column("b_port", "string", "its port", nullable=False),
        Column("seconds", "float64", "time that both ends cover", "s", nullable=False),
        Column("a_bytes_per_s", "float64", "as A counts", "byte/s", nullable=False),
        Column("b_bytes_per_s", "float64", "as B counts", "byte/s", nullable=False),
        Column("difference", "float64", "(A − B) / the larger", "ratio", nullable=False),
        Column("tolerance", "float64", "what may differ: the parameter, and half an interval of each end over the common time", "ratio", nullable=False),
        Column("contradicts", "bool", "the difference is larger", nullable=False),
    ),
    ("link", "direction"),
)

_FLIPPED = pl.col("direction").replace({"tx": "rx", "rx": "tx"})


def jain(values: Float) -> float:
    """Jain's fairness index of `values` (Jain, Chiu, Hawe 1984): 1 where all are equal, 1/n where one has all; 1 of zeros."""
    squares = float((values**2).sum()) * len(values)
    return float(values.sum()) ** 2 / squares if squares else 1.0


def balance_of(tables: Tables, utilisation: pl.DataFrame, ends: pl.DataFrame, imbalance: float, quiet: float) -> pl.DataFrame:
    """Rows of LINK_BALANCE of the links that the job uses, and of open ports that it may. `utilisation`: rows of LINK_UTILISATION."""
    lower = ends.filter(pl.col("side") == "a").select("link", a_node="node", a_port="port", upper="peer_node")
    rows = utilisation.filter(pl.col("used").fill_null(pl.col("tier") > 0)).with_columns(
        pl.when(pl.col("side") == "b").then(_FLIPPED).otherwise("direction").alias("way")
    )
    rows = rows.sort("lower_bound", "side").unique(["link", "way"], keep="first", maintain_order=True)
    rows = rows.join(lower, on="link", how="inner").sort("link", "way")
    busiest = float(rows["bytes_per_s"].max() or 0)  # type: ignore[arg-type]
    flat, leads_up = pl.col("tier") == 0, pl.col("upper").is_not_null()
    kind = pl.when(flat).then(pl.lit("rail")).when(leads_up).then(pl.lit("uplinks")).otherwise(pl.lit("open"))
    rail, up, beyond = (
        pl.concat_str(pl.lit(f"{words} "), pl.col(column).cast(pl.String))
        for words, column in (("rail", "rail"), ("the uplinks of", "a_node"), ("the open ports of", "a_node"))
    )
    name = pl.when(flat).then(rail).when(leads_up).then(up).otherwise(beyond)
    rows = rows.filter(~flat | pl.col("rail").is_not_null()).with_columns(kind.alias("kind"), name.alias("name"))
    sent = {way: _per_host(tables, column) for way, column in (("tx", "src_host"), ("rx", "dst_host"))} if rows.height else {}
    out = []
    for (kind, name, speed, way), part in rows.group_by("kind", "name", "speed_bps", "way", maintain_order=True):
        values = part["bytes_per_s"].to_numpy()
        if len(values) < 2 or not values.sum():
            continue
        expected = _spread([sent[str(way)].get(h, 0) for h in part["a_node"]]) if kind == "rail" and sent[str(way)] else None
        usual = {"uplinks": 1.0, "rail": expected}.get(str(kind))
        most = float(values.max() / values.mean())
        clear = not part["lower_bound"].any() and values.mean() >= quiet * busiest
        full, empty = part.row(int(values.argmax()), named=True), part.row(int(values.argmin()), named=True)
        uneven = clear and usual is not None and most > imbalance * usual
        ports = (full["a_node"], full["a_port"], empty["a_node"], empty["a_port"])
        out.append((kind, name, speed, way, len(values), float(values.mean()), most, jain(values), expected, *ports, uneven))
    return LINK_BALANCE.conform(pl.DataFrame(out, schema=LINK_BALANCE.polars, orient="row"))


def _per_host(tables: Tables, column: str) -> dict[str, int]:
    """Bytes that the captured operations send from (src_host) or to (dst_host) each host."""
    crossing = (pl.col("src_host") != pl.col("dst_host")) & (pl.col("window").cast(pl.String) == "capture")
    return dict(tables["traffic"].filter(crossing).group_by(column).agg(pl.col("bytes").sum()).collect().iter_rows())


def _spread(values: list[int]) -> float | None:
    """Largest over mean."""
    return max(values) * len(values) / sum(values) if sum(values) else None


def disagreements_of(rows: pl.DataFrame, ends: pl.DataFrame, allowed: float) -> pl.DataFrame:
    """Rows of LINK_DISAGREEMENTS, from the intervals of each port's bytes (those of `counter_rates`, with END columns).

    Each end's intervals count by the part that lies in the time that both ends cover, as if bytes were spread evenly in them.
    Links of which an end has lower bounds alone, or covers less than half of that time, are left out.
    """
    exact = rows.filter(~pl.col("at_least") & pl.col("link").is_not_null())
    exact = exact.with_columns(pl.when(pl.col("side") == "b").then(_FLIPPED).otherwise("direction").alias("way"))
    spans = exact.group_by("link", "way", "side").agg(pl.col("start_ns").min().alias("first"), pl.col("end_ns").max().alias("last"))
    common = spans.group_by("link", "way").agg(pl.len().alias("sides"), pl.col("first").max(), pl.col("last").min())
    exact = exact.join(common.filter((pl.col("sides") == 2) & (pl.col("last") > pl.col("first"))), on=["link", "way"], how="inner")
    part = (pl.min_horizontal("end_ns", "last") - pl.max_horizontal("start_ns", "first")).clip(lower_bound=0) / 1e9
    exact = exact.with_columns(part.alias("part"), ((pl.col("last") - pl.col("first")) / 1e9).alias("span"))
    sums = exact.group_by("link", "way", "side", "span").agg(
        ((pl.col("per_s") * pl.col("part")).sum() / pl.col("part").sum()).alias("rate"),
        pl.col("part").sum(),
        pl.col("seconds").median().alias("interval"),
    )
    sums = sums.filter((pl.col("part") >= 0.5 * pl.col("span")) & pl.col("rate").is_finite())
    a, b = (sums.filter(pl.col("side") == side).drop("side") for side in "ab")
    both = a.join(b.drop("span"), on=["link", "way"], how="inner", suffix="_b")
    higher = pl.max_horizontal("rate", "rate_b")
    both = both.with_columns(
        pl.when(higher > 0).then((pl.col("rate") - pl.col("rate_b")) / higher).otherwise(0.0).alias("difference"),
        (allowed + (pl.col("interval") + pl.col("interval_b")) / 2 / pl.col("span")).alias("tolerance"),
    )
    named = ends.filter(pl.col("side") == "a").select("link", "used", a_node="node", a_port="port", b_node="peer_node", b_port="peer_port")
    both = both.join(named, on="link", how="inner").with_columns(
        (pl.col("used").fill_null(False) & (pl.col("difference").abs() > pl.col("tolerance"))).alias("contradicts")
    )
    out = both.rename({"way": "direction", "span": "seconds", "rate": "a_bytes_per_s", "rate_b": "b_bytes_per_s"})
    return LINK_DISAGREEMENTS.conform(out.select(LINK_DISAGREEMENTS.names))
