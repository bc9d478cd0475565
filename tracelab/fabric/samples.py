"""From what sources state to the table `counters`: machine, moment and series of every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from zoneinfo import ZoneInfo

import polars as pl
import polars.selectors as cs

from tracelab.align.apply import aligned_time, with_clock_model
from tracelab.fabric.machines import Machines
from tracelab.fabric.moments import moment_of_path
from tracelab.plugins import Notice
from tracelab.tables import COUNTERS

__all__ = ["SERIES", "Sources", "counters_of", "machine_of"]

SERIES = ("node", "device_kind", "device", "port", "uid", "priority", "queue", "direction", "counter", "raw_name", "kind", "width", "format")
"""What makes two numbers samples of one series. The format of the file is part of it: two tools read at two moments, in two ways."""


_KEYS = [
    *("source_id", "_timed", "time_quality", "node", "node_kind", "device_kind", "device", "port", "uid", "priority", "queue", "direction"),
    *("counter", "raw_name", "kind", "width"),
]
"""Columns of `counter_samples` that decide machine, clock and series."""
_QUARTER_NS = 15 * 60 * 1_000_000_000
"""Zones differ by quarters of an hour."""
_NEAR_NS = 10 * 60 * 1_000_000_000
"""Counters of a job are collected within this of its captures, if they are worth reading beside them."""


@dataclass(frozen=True)
class Sources:
    """By number of the file: its path, its format, the host that it is of where the job knows it (a capture's), the zone that the user states."""

    paths: Sequence[str]
    formats: Sequence[str]
    hosts: Mapping[int, str]
    zones: Mapping[int, tzinfo] = field(default_factory=dict)


def counters_of(
    samples: pl.DataFrame, sources: Sources, machines: Machines, clocks: pl.DataFrame, window: tuple[int, int] | None
) -> tuple[pl.DataFrame, list[Notice]]:
    """The table `counters`.

    `samples`: the rows of `counter_samples`; `clocks`: the hosts' clocks; `window`: first and last moment of the captures,
    against which moments without a zone are checked. Samples of which no machine is known are left out and counted.
    """
    if not samples.height:
        return COUNTERS.empty(), []
    # a series has thousands of samples: what is found out by name is found out once for each, and joined
    rows = samples.with_columns(pl.col("source_ts_ns").is_not_null().alias("_timed"))
    each = rows.group_by(_KEYS).agg(pl.len().alias("samples"))
    named, notices = _with_machines(_spelled(each).join(_per_source(each, sources), on="source_id", how="left"), sources, machines)
    named = _stamped(named, machines, clocks)
    named = named.with_columns(pl.struct(SERIES).rank("dense").cast(pl.Int32).sub(1).alias("series"))
    keys = each.with_row_index("_each")
    rows = rows.join(keys.drop("samples"), on=_KEYS, how="left", nulls_equal=True).drop("node", "node_kind", "time_quality", "_timed")
    found = named.select(
        "_each", "series", "node", "node_kind", "node_origin", "time_quality", "local", "clock", "path_ts_ns", cs.starts_with("_start", "_offset", "_drift")
    )
    rows = rows.join(found.with_columns(cs.string().cast(pl.Categorical)), on="_each", how="inner")
    rows = rows.with_columns(pl.coalesce("source_ts_ns", "path_ts_ns").alias("source_ts_ns"))
    rows, zones = _in_utc(_in_stated_zones(rows, sources), window)
    pieces = len(rows.select(cs.starts_with("_start")).columns)
    rows = rows.with_columns(aligned_time("source_ts_ns", pieces).alias("ts_ns"))
    return COUNTERS.conform(rows.select(COUNTERS.names)), [*notices, *zones]


def _spelled(each: pl.DataFrame) -> pl.DataFrame:
    """Names as text, and a number for each row."""
    return each.with_columns(cs.categorical().cast(pl.String)).with_row_index("_each")


def _stamped(named: pl.DataFrame, machines: Machines, clocks: pl.DataFrame) -> pl.DataFrame:
    """`named` with the quality of its moments, whether they lack a zone, who stamped them, and that one's clock where it is a host's of the job."""
    from_path = ~pl.col("_timed") & pl.col("path_ts_ns").is_not_null()
    quality = pl.when(from_path).then(pl.lit("path")).otherwise("time_quality")
    local = pl.when(from_path).then("path_local").otherwise(pl.col("time_quality") == "local").fill_null(False)
    named = named.with_columns(quality.alias("time_quality"), local.alias("local"))
    own = pl.col("time_quality").is_in(["device", "file", "local", "path"])
    clock = pl.when(pl.col("time_quality").is_null()).then(None).when(own).then(pl.col("node")).otherwise(pl.lit("collector"))
    out, _ = with_clock_model(named.with_columns(clock.alias("clock")), clocks.filter(pl.col("host").is_in(sorted(machines.job_hosts))), "clock")
    return out


def _per_source(rows: pl.DataFrame, sources: Sources) -> pl.DataFrame:
    """Per file: its format and the moment in its path."""
    out = []
    for source in rows["source_id"].unique().sort():
        moment = moment_of_path(sources.paths[source])
        out.append((source, sources.formats[source], moment[0] if moment else None, moment is not None and not moment[1]))
    schema = {"source_id": pl.Int32, "format": pl.String, "path_ts_ns": pl.Int64, "path_local": pl.Boolean}
    return pl.DataFrame(out, schema=schema, orient="row")


def _with_machines(rows: pl.DataFrame, sources: Sources, machines: Machines) -> tuple[pl.DataFrame, list[Notice]]:
    """`rows` whose `node` is the machine's one name, with its kind and where the name was taken from."""
    found = []
    for source, node, kind, device_kind in rows.select("source_id", "node", "node_kind", "device_kind").unique(maintain_order=True).iter_rows():
        name, origin = machine_of(source, node, sources, machines)
        guess = "switch" if device_kind in ("switch-port", "switch") else "host"
        found.append((source, node, kind, device_kind, name, "host" if name in machines.job_hosts else kind or guess, origin))
    keys = {"source_id": pl.Int32, "node": pl.String, "node_kind": pl.String, "device_kind": pl.String}
    names = pl.DataFrame(found, schema={**keys, "machine": pl.String, "machine_kind": pl.String, "node_origin": pl.String}, orient="row")
    out = rows.join(names, on=list(keys), how="left", nulls_equal=True, maintain_order="left")
    lost = out.filter(pl.col("machine").is_null())
    notices = []
    if lost.height:
        paths = ", ".join(sources.paths[s] for s in lost["source_id"].unique().sort()[:3])
        text = f"counters of which neither content nor path names the machine: {paths}"
        hint = "put them into a folder that is named after the machine"
        notices.append(Notice("counters-without-machine", "warning", text, hint, int(lost["samples"].sum())))
    out = out.filter(pl.col("machine").is_not_null()).drop("node", "node_kind")
    return out.rename({"machine": "node", "machine_kind": "node_kind"}), notices


def machine_of(source: int, node: str | None, sources: Sources, machines: Machines) -> tuple[str | None, str]:
    """The machine of a row, and what it was taken from; None where nothing names it."""
    if node:
        return machines.name(node), "content"
    if source in sources.hosts:
        return machines.name(sources.hosts[source]), "content"
    return machines.of_path(sources.paths[source]), "path"


def _in_stated_zones(rows: pl.DataFrame, sources: Sources) -> pl.DataFrame:
    """Moments without a zone, moved where the user states that of their file (the earlier one, where clocks were set back); they count as having one then."""
    out = rows
    for source, zone in sorted(sources.zones.items()):
        own = (pl.col("source_id") == source) & pl.col("local") & pl.col("source_ts_ns").is_not_null()
        if isinstance(zone, ZoneInfo):
            moments = pl.from_epoch("source_ts_ns", time_unit="ns").dt.replace_time_zone(zone.key, ambiguous="earliest", non_existent="null")
            moved = pl.coalesce(moments.dt.epoch("ns"), "source_ts_ns")
        else:
            offset = zone.utcoffset(None)
            moved = pl.col("source_ts_ns") - (round(offset.total_seconds() * 1e9) if offset is not None else 0)
        out = out.with_columns(pl.when(own).then(moved).otherwise("source_ts_ns").alias("source_ts_ns"), (pl.col("local") & ~own).alias("local"))
    return out


def _in_utc(rows: pl.DataFrame, window: tuple[int, int] | None) -> tuple[pl.DataFrame, list[Notice]]:
    """Moments without a zone, moved by the one offset of a zone that brings the file beside the captures; said."""
    local = rows.filter(pl.col("local") & pl.col("source_ts_ns").is_not_null())
    if window is None or not local.height:
        return rows, []
    spans = local.group_by("source_id").agg(pl.col("source_ts_ns").min().alias("first"), pl.col("source_ts_ns").max().alias("last")).sort("source_id")
    shifts, told = [], 0
    for source, first, last in spans.iter_rows():
        away = (window[0] + window[1]) // 2 - (first + last) // 2
        shift = round(away / _QUARTER_NS) * _QUARTER_NS
        near = first + shift < window[1] + _NEAR_NS and last + shift > window[0] - _NEAR_NS
        own = first < window[1] + _NEAR_NS and last > window[0] - _NEAR_NS
        if not own and near and abs(shift) <= 56 * _QUARTER_NS:
            shifts.append((source, shift))
            told += 1
    if not told:
        return rows, []
    moved = rows.join(pl.DataFrame(shifts, schema={"source_id": pl.Int32, "zone": pl.Int64}, orient="row"), on="source_id", how="left", maintain_order="left")
    by = pl.when("local").then(pl.col("zone").fill_null(0)).otherwise(0)
    hours = ", ".join(sorted({f"{-s / 3.6e12:+g} h" for _, s in shifts}))
    text = f"moments without a zone lie beside the captures only if the zone is UTC{hours}; that is taken for true"
    notice = Notice(
        "zone-assumed", "warning", text, 'set [files."…"] zone = "+02:00" in tracelab.toml; next time collect with a zone: date --iso-8601=ns, or TZ=UTC', told
    )
    return moved.with_columns(pl.col("source_ts_ns") + by).drop("zone"), [notice]
