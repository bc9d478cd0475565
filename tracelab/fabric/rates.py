"""From samples of counters to what they counted between two of them, with all that can go wrong in between.

Differences are taken between whole numbers as printed, so that they are exact beyond 2**53. A counter that falls was reset
or started again from 0; its width, how often it falls and the link's speed decide which. A reset touches all counters of its
device, also those that rose: what a device counted across one is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from tracelab.fabric.adapters import end_name
from tracelab.tables import COUNTER_RATES

__all__ = ["Ports", "counter_rates"]

_GAP = 3.0
"""An interval this many times longer than the series' usual one is a gap."""
_SLACK = 1.25
"""A difference may be this much more than the link's speed allows: samples are not taken at the very moments that they state."""
_MANY_FALLS = 0.1
"""Share of intervals in which a number falls, from which on it is a narrow counter, not a device that is reset again and again."""
_FALLS = 3
"""And at least so many of them."""
_TOP = 0.5
"""A counter that wraps was above this share of its range before."""
_REPEATS = 3
"""A device that is read more often than it refreshes repeats itself so many times at most; longer, and the port is idle."""
_TRAFFIC = ("bytes", "packets", "rdma_bytes", "rdma_packets", "priority_bytes", "priority_packets", "queue_bytes", "queue_packets")


@dataclass(frozen=True)
class Ports:
    """What is known of the devices that count, by machine and device.

    `unit`: a name that all devices of one adapter share (the RDMA device and the network device count the same hardware);
    `speed_bps`: speed of the link.
    """

    unit: Mapping[tuple[str, str], str]
    speed_bps: Mapping[tuple[str, str], int]


def counter_rates(counters: pl.DataFrame, ports: Ports) -> pl.DataFrame:
    """The table `counter_rates` of all cumulative counters and interval counts with moments.

    Order and repetitions of samples do not matter; of two numbers at one moment the higher one counts. Memory grows with
    the samples.
    """
    kind = pl.col("kind").cast(pl.String)
    rows = counters.filter(pl.col("ts_ns").is_not_null())
    grown = _fresh(rows.filter((kind == "counter") & pl.col("raw").is_not_null()))
    counted = rows.filter((kind == "delta") & pl.col("value").is_not_null() & (pl.col("value") >= 0))
    out = [_judged(_steps(grown, ports)), _counted(counted)]
    return COUNTER_RATES.conform(pl.concat([COUNTER_RATES.conform(f.select(COUNTER_RATES.names)) for f in out]))


def _fresh(rows: pl.DataFrame) -> pl.DataFrame:
    """Samples in order, one per moment, without those that a device repeats because it refreshes more slowly than it is read."""
    rows = rows.sort("series", "ts_ns", "raw").unique(["series", "ts_ns"], keep="last", maintain_order=True)
    return _without_repeats(rows, (pl.col("raw") == pl.col("raw").shift(1).over("series")).fill_null(False))


def _without_repeats(rows: pl.DataFrame, still: pl.Expr) -> pl.DataFrame:
    """`rows` without the `still` ones of lazy series: a traffic counter that stands still in every second or third sample, never for long, repeats itself."""
    runs = rows.with_columns(still.alias("still")).with_columns(pl.col("still").rle_id().over("series").alias("run"))
    lengths = runs.filter("still").group_by("series", "run").agg(pl.len())
    long = lengths.group_by("series").agg(pl.len().alias("runs"), (pl.col("len") > _REPEATS).sum().alias("long_runs"))
    shares = runs.group_by("series").agg(pl.col("still").mean().alias("share"), pl.len().alias("samples"), pl.col("counter").first())
    lazy = shares.join(long, on="series", how="inner")
    lazy = lazy.filter(
        pl.col("counter").cast(pl.String).is_in(_TRAFFIC)
        & pl.col("share").is_between(0.2, 0.85)
        & (pl.col("samples") >= 10)
        & (pl.col("long_runs") * 10 <= pl.col("runs"))
    )
    brief = pl.len().over("series", "run") <= _REPEATS
    repeats = pl.col("still") & brief & pl.col("series").is_in(lazy["series"].implode())
    return runs.filter(~repeats).drop("still", "run")


def _steps(rows: pl.DataFrame, ports: Ports) -> pl.DataFrame:
    """One row per two neighbouring samples: how far the number rose or fell, and how far it can have."""
    before = {c: pl.col(c).shift(1).over("series").alias(f"_{c}") for c in ("ts_ns", "raw")}
    steps = rows.with_columns(before.values()).filter(pl.col("_raw").is_not_null())
    known = [(node, device, unit, ports.speed_bps.get((node, device))) for (node, device), unit in sorted(ports.unit.items())]
    schema = {"node": pl.String, "_name": pl.String, "unit_name": pl.String, "speed_bps": pl.Int64}
    steps = steps.with_columns(end_name().alias("_name")).join(pl.DataFrame(known, schema=schema, orient="row"), on=["node", "_name"], how="left")
    # more than its stated width holds: the source serves it from a wider register
    fits = pl.col("raw").max().over("series").cast(pl.Float64) < pl.lit(2.0).pow(pl.col("width").cast(pl.Int64))
    width = pl.when((pl.col("width") > 0) & fits).then("width").when(pl.col("raw").max().over("series") < 2**32).then(32).otherwise(64)
    fell = pl.col("raw") < pl.col("_raw")
    # a number that falls often and never passes 32 bits is kept in 32, whatever its documentation says
    often = (fell.sum().over("series") >= _FALLS) & (fell.mean().over("series") >= _MANY_FALLS)
    narrow = often & (pl.max_horizontal("raw", "_raw").max().over("series") < 2**32) & (pl.col("width") != 16)
    steps = steps.with_columns(
        pl.coalesce("unit_name", "_name").fill_null("").alias("adapter"),
        ((pl.col("ts_ns") - pl.col("_ts_ns")) / 1e9).alias("dt"),
        fell.alias("fell"),
        pl.when(fell).then(0).otherwise(pl.col("raw") - pl.col("_raw")).alias("rise"),
        pl.when(narrow).then(32).otherwise(width).cast(pl.Int64).alias("bits"),
        narrow.alias("narrow"),
        (pl.col("unit").cast(pl.String) == "byte").alias("in_bytes"),
    )
    cap = pl.when(pl.col("in_bytes")).then(pl.col("speed_bps") / 8 * pl.col("dt") * _SLACK)
    around = pl.lit(2.0).pow(pl.col("bits"))
    # unsigned numbers of 64 bits start again where they are subtracted, exactly
    passed = pl.when(pl.col("bits") == 64).then((pl.col("raw") - pl.col("_raw")).cast(pl.Float64))
    return steps.with_columns(
        cap.alias("cap"),
        (around * pl.col("scale")).alias("range"),
        (passed.otherwise(around - (pl.col("_raw") - pl.col("raw")).cast(pl.Float64)) * pl.col("scale")).alias("around"),
        (pl.col("rise").cast(pl.Float64) * pl.col("scale")).alias("up"),
        (pl.col("_raw").cast(pl.Float64) >= _TOP * around).alias("near_top"),
    )


def _judged(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps with what was counted in them, and whether that is a lower bound."""
    possible = pl.col("cap").is_null() | (pl.col("around") <= pl.col("cap"))
    wrapped = pl.col("fell") & ~pl.col("saturates") & (pl.col("narrow") | ((pl.col("bits") <= 32) & pl.col("near_top") & possible))
    wrapped |= pl.col("fell") & (pl.col("bits") == 64) & pl.col("near_top") & (pl.col("_raw") > 2**63) & possible
    steps = steps.with_columns(wrapped.alias("wrapped"))
    too_much = pl.col("in_bytes") & ~pl.col("fell") & (pl.col("up") > pl.col("cap")).fill_null(False)
    steps = steps.with_columns((pl.col("fell") & ~pl.col("wrapped")).alias("lost"), too_much.alias("too_much"))
    steps = _with_resets(steps)
    full = pl.lit(2.0).pow(pl.col("width").cast(pl.Int64)) - 1
    saturated = pl.col("saturates") & (pl.col("width") > 0) & (pl.col("raw").cast(pl.Float64) == full)
    # a narrow counter that can start again more than once between two samples says little
    unsure = (pl.col("bits") <= 32) & ~pl.col("saturates") & pl.when(pl.col("cap").is_not_null()).then(pl.col("cap") > pl.col("range")).otherwise("narrow")
    since = pl.col("raw").cast(pl.Float64) * pl.col("scale")
    delta = pl.when(pl.col("reset")).then(pl.when(pl.col("from_zero")).then(since).otherwise(0.0)).when(pl.col("wrapped")).then("around").otherwise("up")
    usual = pl.col("dt").median().over("series")
    names = {"reset": pl.col("reset"), "wrapped": pl.col("wrapped") & ~pl.col("reset"), "saturated": saturated, "may-have-wrapped-more": unsure}
    flags = pl.concat_str([pl.when(flag).then(pl.lit(name)) for name, flag in names.items()], separator="+", ignore_nulls=True)
    out = steps.with_columns(
        delta.alias("delta"), (pl.col("reset") | saturated | unsure).alias("at_least"), (pl.col("dt") > _GAP * usual).alias("gap"), flags.alias("flags")
    )
    out = out.with_columns((pl.col("delta") / pl.col("dt")).alias("per_s"), pl.col("_ts_ns").alias("start_ns"), pl.col("ts_ns").alias("end_ns"))
    return out.with_columns(pl.when(pl.col("flags") != "").then("flags").alias("flags"))


def _with_resets(steps: pl.DataFrame) -> pl.DataFrame:
    """`steps` with `reset` (the adapter was reset in it) and `from_zero` (its counters started at 0 then, as far as can be told)."""
    usual = pl.col("up").filter(~pl.col("fell")).median().over("series")
    plausible = pl.when(pl.col("cap").is_not_null()).then(pl.col("cap")).otherwise(3 * usual)
    since = pl.col("raw").cast(pl.Float64) * pl.col("scale")
    traffic = pl.col("counter").cast(pl.String).is_in(_TRAFFIC)
    steps = steps.with_columns((since <= plausible).fill_null(False).alias("small"), traffic.alias("traffic"))
    cause = steps.filter(pl.col("lost") | pl.col("too_much")).select("node", "adapter", "_ts_ns", "ts_ns", "lost", "small", "traffic")
    found = [(*key, *event) for key, events in cause.group_by("node", "adapter", maintain_order=True) for event in _merged(events)]
    schema = {"node": pl.String, "adapter": pl.String, "_from": pl.Int64, "_to": pl.Int64, "zero": pl.Boolean}
    steps = steps.with_row_index("_step")
    across = steps.join(pl.DataFrame(found, schema=schema, orient="row"), on=["node", "adapter"], how="inner")
    across = across.filter((pl.col("_ts_ns") < pl.col("_to")) & (pl.col("ts_ns") > pl.col("_from")))
    told = across.group_by("_step").agg(pl.lit(True).alias("reset"), pl.coalesce("zero", "lost").all().alias("from_zero"))
    return steps.join(told, on="_step", how="left", maintain_order="left").with_columns(pl.col("reset", "from_zero").fill_null(False))


def _merged(events: pl.DataFrame) -> list[tuple[int, int, bool | None]]:
    """The resets of one adapter: from, to (the moment lies inside for all its counters), and whether counters started at 0.

    Traffic counters tell: they hold no more than can have passed since. Without one that fell, None: only a counter that
    fell itself is then taken to have started at 0.
    """
    out: list[tuple[int, int, bool | None]] = []
    for start, end, lost, small, traffic in events.sort("_ts_ns", "ts_ns").select("_ts_ns", "ts_ns", "lost", "small", "traffic").iter_rows():
        zero = bool(lost and small) if traffic else None
        if out and start < out[-1][1]:
            first, last, known = out[-1]
            both = known if zero is None else zero if known is None else known and zero
            out[-1] = (max(first, start), min(last, end), both)
        else:
            out.append((start, end, zero))
    return out


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    """Counts of intervals as they are stated; one without a length counts since the sample before it.

    A device that refreshes more slowly than it is read counts nothing in between: what it counts then is of the time since it
    last counted.
    """
    rows = rows.sort("series", "ts_ns", "value").unique(["series", "ts_ns"], keep="last", maintain_order=True)
    rows = _without_repeats(rows, (pl.col("value") == 0) & pl.col("interval_ns").is_null())
    stated = pl.col("ts_ns") - pl.col("interval_ns")
    out = rows.with_columns(pl.coalesce(stated, pl.col("ts_ns").shift(1).over("series")).alias("start_ns"), pl.col("ts_ns").alias("end_ns"))
    out = out.filter(pl.col("start_ns").is_not_null() & (pl.col("end_ns") > pl.col("start_ns")))
    dt = (pl.col("end_ns") - pl.col("start_ns")) / 1e9
    return out.with_columns(
        pl.col("value").alias("delta"),
        (pl.col("value") / dt).alias("per_s"),
        pl.lit(False).alias("at_least"),
        (dt > _GAP * dt.median().over("series")).alias("gap"),
        pl.lit(None, pl.String).alias("flags"),
    )
