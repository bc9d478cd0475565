"""Whether the counters of the links agree with what the job's operations sent: bytes per link end, not single events.

Samples are seconds apart and transfers last milliseconds, so what a counter says is compared over windows: the bytes that the
operations must have put on a link, beside those that were counted, with what the moments of the samples leave open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.accounting_words import answer_of, not_observable_of
from tracelab.analyses.network.counter_clocks import COUNTER_CLOCKS, clocks_of, clocks_table, host_bounds, stamps_of
from tracelab.analyses.network.ends import END, Counted, carried, counted, listed, median_step_ns, nothing_counted, shown
from tracelab.analyses.network.headers import headers_of
from tracelab.analyses.network.link_bytes import LINK_BYTES, LINK_BYTES_WINDOWS, compared, judged, windows_of
from tracelab.analyses.network.predicted import covered_of, predicted_of
from tracelab.analyses.network.rises import COUNTER_RISES, RISING, rises_of
from tracelab.analysis import MAX_ROWS, Analysis, AnalysisResult, Tables
from tracelab.results import NotObservable
from tracelab.units import NS_PER_S, format_duration

__all__ = ["ANALYSIS", "Params"]


@dataclass(frozen=True)
class Params:
    """Thresholds.

    `tolerance` (ratio; 0.02): difference that still agrees: acknowledgements, requests and headers of messages take up to 1 %, and
    InfiniBand counts about 1 % fewer bytes of headers than RoCE. `unclear` (ratio; 0.25): a wider error bar says nothing.
    `payload_bytes` (4,096): bytes per packet where no interface states less. `windows` (60): windows per link end over the captures.
    `max_lag_s` (10): largest shift of a clock that is tried; clocks that are set by NTP at all are nearer. `device_jitter_s` (0.01),
    `read_jitter_s` (0.05): how far the moment of a sample is off where the device stamped it, and where a program read it; what the
    printed moment is rounded to is added. `unchecked_clock_s` (0.1): how far a clock may be off that nothing checks.
    """

    tolerance: float = 0.02
    unclear: float = 0.25
    payload_bytes: int = 4096
    windows: int = 60
    max_lag_s: float = 10.0
    device_jitter_s: float = 0.01
    read_jitter_s: float = 0.05
    unchecked_clock_s: float = 0.1


def _run(tables: Tables, params: Params) -> AnalysisResult:
    given = counted(tables)
    headers = headers_of(tables, params.payload_bytes)
    predicted = predicted_of(tables, headers)
    rows = _chosen(tables, given)
    if not predicted.shares:
        reason, collect = "no operation is known to cross links of the job", "traces of all ranks, and how hosts are wired to switches"
        unseen = NotObservable("Do the counters agree with what the job sent?", reason, collect)
        return AnalysisResult("Nothing that the job sent is known to cross its links.", {}, degraded="; ".join(given.caveats), not_observable=(unseen,))
    if not rows.height:
        answer, unseen = nothing_counted("counters of bytes", given)
        return AnalysisResult(answer, {}, degraded="; ".join(given.caveats), not_observable=(*given.unseen, unseen))
    stamps = stamps_of(tables)
    spans, step = covered_of(tables), median_step_ns(tables)
    rows = _stamped(rows, stamps)
    most, assumed = round(params.max_lag_s * NS_PER_S), round(params.unchecked_clock_s * NS_PER_S)
    clocks = clocks_of(tables, rows, predicted, spans, step, most_ns=most, assumed_ns=assumed)
    off = {name: bound for name, bound in host_bounds(tables).items() if bound is not None} | {name: c.uncertainty_ns for name, c in clocks.items()}
    unchecked = sorted(name for name, clock in clocks.items() if not clock.checked)
    found = compared(_edged(rows, off, params), clocks, predicted, spans)
    bytes_ = judged(found, predicted, spans, headers=headers.share, tolerance=params.tolerance, unclear=params.unclear)
    events = _edged(_stamped(given.rates.filter(pl.col("used") & pl.col("counter").is_in(list(RISING))), stamps), off, params)
    rises = rises_of(tables, events, clocks, predicted, step, given.window)
    frames = {
        LINK_BYTES.name: bytes_,
        LINK_BYTES_WINDOWS.name: windows_of(found, min(params.windows, max(1, MAX_ROWS * 9 // 10 // max(bytes_.height, 1)))),
        COUNTER_CLOCKS.name: clocks_table(clocks, step),
        COUNTER_RISES.name: rises,
    }
    said = [*given.caveats]
    if unchecked:
        text = f"the clocks that stamped counters of {listed([shown(n) for n in unchecked])} cannot be checked against the job's: taken to be right within"
        said.append(f"{text} {format_duration(max(off[n] for n in unchecked))}")
    return AnalysisResult(
        answer_of(bytes_, clocks, rises, headers, logged=predicted.stated >= _MOST_BYTES),
        {n: f for n, f in frames.items() if f.height},
        degraded="; ".join(said),
        not_observable=(*given.unseen, *not_observable_of(bytes_, clocks, rises)),
    )


_MOST_BYTES = 0.9
"""Share of the bytes whose protocol a log states, from which on another protocol explains no difference."""


def _chosen(tables: Tables, given: Counted) -> pl.DataFrame:
    """Intervals of one counter per end and direction, of all adapters of the job's hosts: bytes on the wire, else of RDMA alone."""
    best = pl.concat([carried(given.rates, name).with_columns(pl.lit(name).alias("counter")) for name in ("bytes", "rdma_bytes")])
    key = [*END, "direction"]
    best = best.sort("lower_bound", "counter", maintain_order=True).unique(key, keep="first", maintain_order=True)
    rows = given.rates.join(best.select("series", "direction", "counter"), on=["series", "direction", "counter"], how="inner")
    hosts = tables["endpoints"].select("host").unique().collect()["host"]
    lower = tables["links"].filter(pl.col("tier") == 0).select("link", host="a_node").collect()
    rows = rows.join(lower.filter(pl.col("host").is_in(hosts.implode())), on="link", how="inner")
    flipped = pl.col("direction").replace({"tx": "rx", "rx": "tx"})
    return rows.with_columns(pl.when(pl.col("side") == "b").then(flipped).otherwise("direction").alias("way"))


def _stamped(rows: pl.DataFrame, stamps: pl.DataFrame) -> pl.DataFrame:
    """With who stamped them, and whether they can be compared at all."""
    rows = rows.join(stamps, on="series", how="left").with_columns(pl.coalesce("clock", "node").alias("clock"))
    return rows.with_columns((~pl.col("at_least") & ~pl.col("gap")).alias("good")).sort("series", "start_ns")


def _edged(rows: pl.DataFrame, off: Mapping[str, int], params: Params) -> pl.DataFrame:
    """With how far the moment of a sample may be off. `off`: of that, what the clock is."""
    device, read = (round(s * NS_PER_S) for s in (params.device_jitter_s, params.read_jitter_s))
    jitter = pl.when(pl.col("quality") == "device").then(device).otherwise(read)
    clock = pl.col("clock").replace_strict(dict(off), default=round(params.unchecked_clock_s * NS_PER_S), return_dtype=pl.Int64)
    return rows.with_columns((jitter + pl.col("resolution_ns").fill_null(0) + clock).cast(pl.Int64).alias("edge_ns"))


ANALYSIS = Analysis(
    "accounting",
    "Byte accounting",
    "Do the counters agree with what the job sent?",
    ("counter_rates", "traffic", "endpoints"),
    Params,
    (LINK_BYTES, LINK_BYTES_WINDOWS, COUNTER_CLOCKS, COUNTER_RISES),
    _run,
    {
        "counter_rates": "no counter of a link was read twice; collect byte counters of adapters and switch ports every second, or before and after",
        "traffic": "no operation with bytes between ranks is known",
        "endpoints": "nothing ties the job's ranks to adapters; collect nvidia-smi topo -m and ibdev2netdev, or logs with NCCL_DEBUG=INFO",
    },
)
