"""Levels of ports (speed, lanes, light, heat, bit errors) beside the ports at the same place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import END, END_COLUMNS, Counted, with_ends
from tracelab.analysis import Tables
from tracelab.tables import Column, TableSpec

__all__ = ["LEVELS", "LINK_LEVELS", "gauges", "levels_of"]

LINK_LEVELS = TableSpec(
    "link_levels",
    "Levels of each port during the captures, or else the nearest to them, beside the ports at the same place",
    (
        *END_COLUMNS,
        Column("level", "string", "link_up, link_speed, link_width, bit_error_rate, rx_power, tx_power or module_temperature", nullable=False, key=True),
        Column("unit", "string", "unit of the values"),
        Column("lowest", "float64", "lowest value", nullable=False),
        Column("highest", "float64", "highest value", nullable=False),
        Column("samples", "int64", "values", nullable=False),
        Column("peers", "float64", "median of the job's ports of the same tier and side, this one included"),
        Column("compared", "int64", "ports in it", nullable=False),
        Column("outside", "bool", "beyond the parameters, and the job uses the link", nullable=False),
    ),
    ("level", "tier", "link", "side", "node", "port"),
)


@dataclass(frozen=True)
class Level:
    """`low`: it is the lowest value that counts, else the highest. `words`: what being outside means."""

    low: bool
    words: str


LEVELS = {
    "link_up": Level(low=True, words="it is down"),
    "link_speed": Level(low=True, words="it runs at less speed"),
    "link_width": Level(low=True, words="it runs with fewer lanes"),
    "bit_error_rate": Level(low=False, words="its bit error rate is too high"),
    "rx_power": Level(low=True, words="little light arrives"),
    "tx_power": Level(low=True, words="little light leaves"),
    "module_temperature": Level(low=False, words="its transceiver is hot"),
}
_PEERS = 3


def gauges(tables: Tables, given: Counted, counters: Sequence[str]) -> pl.DataFrame:
    """Levels that counters state: END, rail, speed_bps, series, counter, queue, priority, unit, value.

    Of each series the values of the window; where there are none, the one nearest to it, or one without a moment.
    """
    kind = pl.col("kind").cast(pl.String)
    names = pl.col("counter", "device", "queue", "direction", "unit", "uid").cast(pl.String)
    found = tables["counters"].filter((kind == "gauge") & pl.col("value").is_not_null()).with_columns(names).filter(pl.col("counter").is_in(counters))
    columns = ("series", "ts_ns", "node", "device", "port", "uid", "priority", "queue", "direction", "counter", "unit", "value")
    rows = found.select(columns).collect(engine="streaming")
    if given.window is not None:
        first, last = given.window
        away = pl.max_horizontal(first - pl.col("ts_ns"), pl.col("ts_ns") - last, pl.lit(0)).fill_null(2**62)
        rows = rows.with_columns(away.alias("away")).filter(pl.col("away") == pl.col("away").min().over("series")).drop("away")
    return with_ends(rows, given)


def levels_of(tables: Tables, given: Counted, most_errors: float, power_db: float, temperature: float) -> pl.DataFrame:
    """Rows of LINK_LEVELS. Lanes of one transceiver count as one: its worst."""
    rows = gauges(tables, given, tuple(LEVELS))
    per_series = rows.group_by([*END, "counter", "unit", "series"], maintain_order=True).agg(
        pl.col("value").min().alias("lowest"), pl.col("value").max().alias("highest"), pl.len().alias("samples")
    )
    out = per_series.group_by([*END, "counter"], maintain_order=True).agg(
        pl.col("unit").first(), pl.col("lowest").min(), pl.col("highest").max(), pl.col("samples").sum()
    )
    low = pl.col("counter").is_in([n for n, x in LEVELS.items() if x.low])
    worst = pl.when(low).then("lowest").otherwise("highest")
    place = ("counter", "tier", "side", "ours")
    out = out.with_columns(pl.col("used").fill_null(False).alias("ours"), worst.alias("worst"))
    out = out.with_columns(
        pl.when("ours").then(pl.col("worst").median().over(place)).alias("peers"),
        pl.when("ours").then(pl.len().over(place)).otherwise(0).cast(pl.Int64).alias("compared"),
    )
    alone = {"link_up": pl.col("worst") < 1, "bit_error_rate": pl.col("worst") > most_errors}
    beside = {
        "link_speed": pl.col("worst") < pl.col("peers"),
        "link_width": pl.col("worst") < pl.col("peers"),
        "rx_power": pl.col("worst") < pl.col("peers") - power_db,
        "tx_power": pl.col("worst") < pl.col("peers") - power_db,
        "module_temperature": pl.col("worst") > pl.col("peers") + temperature,
    }
    rules = [(pl.col("counter") == n) & rule for n, rule in alone.items()]
    rules += [(pl.col("counter") == n) & (pl.col("compared") >= _PEERS) & rule for n, rule in beside.items()]
    outside = (pl.col("ours") & pl.any_horizontal(rules)).fill_null(False)
    return LINK_LEVELS.conform(out.with_columns(outside.alias("outside")).rename({"counter": "level"}).select(LINK_LEVELS.names))
