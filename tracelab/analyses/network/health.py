"""Links that went down, that received errors, or that run below their peers, and which part of them that points to."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import END, END_COLUMNS, Counted, counted, label, listed, nothing_counted, several, totals, uncovered, where
from tracelab.analyses.network.levels import LEVELS, LINK_LEVELS, levels_of
from tracelab.analyses.network.scatter import PATTERNS, with_patterns
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import NotObservable
from tracelab.tables import Column, TableSpec

__all__ = ["ANALYSIS", "LINK_ERRORS", "LINK_HEALTH", "LINK_LEVELS", "Params"]

RECEIVED = ("symbol_errors", "crc_errors", "fec_uncorrectable", "pcs_errors", "rcv_errors", "local_link_integrity", "errors")
"""Counted by the receiver of the signal: the cable, its far transceiver or its own. Several of them count one event."""
REMOTE = "rcv_remote_physical_errors"
"""Broken before it came over this link."""
DOWN = ("link_down_events", "link_transitions", "link_recovery")
LISTED = ("fec_corrected", "buffer_overrun")
"""Listed alone: correction is at work on every fast link, overruns are the receiver's."""
COUNTERS = (*RECEIVED, REMOTE, *DOWN, *LISTED)

_STEADY_P = 0.01
"""Counts that scatter less likely than that are not at a constant rate."""

LINK_ERRORS = TableSpec(
    "link_errors",
    "Errors and changes of state that each port counted; ports without a row for a counter did not have it collected",
    (
        *END_COLUMNS,
        Column("counter", "string", "counter", nullable=False, key=True),
        Column("total", "float64", "in the intervals that touch the captures; null where none can be trusted"),
        Column("per_s", "float64", "of them, per second", "1/s"),
        Column("intervals", "int64", "intervals counted", nullable=False),
        Column("rose", "int64", "of them, with a rise", nullable=False),
        Column("left_out", "int64", "intervals with a reset or a gap: not counted", nullable=False),
        Column("pattern", "string", PATTERNS, nullable=False),
    ),
    ("tier", "link", "side", "node", "port", "counter"),
)
LINK_HEALTH = TableSpec(
    "link_health",
    "Each link with what its two ends say of it",
    (
        Column("link", "int32", "row of `links`", nullable=False, key=True),
        Column("a_node", "string", "A end", nullable=False),
        Column("a_port", "string", "its port", nullable=False),
        Column("b_node", "string", "B end; null where unknown"),
        Column("b_port", "string", "its port"),
        Column("used", "bool", "the job's data take this link; others are listed, not judged"),
        Column("flaps", "float64", "times that it went down, or half the changes of state, whichever is more; null where not collected"),
        Column("recoveries", "float64", "times that it retrained without going down; null where not collected"),
        Column("a_errors", "float64", "received at A: the largest of its counters; null where not collected", "event"),
        Column("b_errors", "float64", "received at B", "event"),
        Column("remote_errors", "float64", "packets that came already broken, at either end; null where not collected", "packet"),
        Column("below_peers", "string", "levels that lie outside their peers', joined by +"),
        Column("suspect", "string", "what that points to; null where nothing stands out or the job does not use it"),
    ),
    ("link",),
)


@dataclass(frozen=True)
class Params:
    """From when on a link stands out.

    `least_errors` (event; 10): example thresholds of rdma-core's infiniband-diags for symbol, link-down and receive errors.
    `bit_error_rate` (ratio; 1e-12): the classic limit of ibdiagnet, after correction. `power_db` (dB; 3): half the light of the
    peers'. `temperature_c` (°C; 15): above the peers'; `speed` below the peers' counts whatever it is.
    """

    least_errors: float = 10
    bit_error_rate: float = 1e-12
    power_db: float = 3.0
    temperature_c: float = 15.0


def _run(tables: Tables, params: Params) -> AnalysisResult:
    given = counted(tables)
    errors = _errors(given.rates)
    levels = levels_of(tables, given, params.bit_error_rate, params.power_db, params.temperature_c)
    if not errors.height and not levels.height:
        answer, unseen = nothing_counted("counters of errors and levels of links", given)
        return AnalysisResult(answer, {}, degraded="; ".join(given.caveats), not_observable=(unseen, *given.unseen))
    health = _health(given.ends, errors, levels, params.least_errors)
    frames = {LINK_HEALTH.name: health, LINK_ERRORS.name: errors, LINK_LEVELS.name: levels}
    unseen_here = _not_observable(errors, levels)
    return AnalysisResult(
        _answer(given, health, errors, levels) + uncovered(tables)[0],
        {n: f for n, f in frames.items() if f.height},
        degraded="; ".join(given.caveats),
        not_observable=(*given.unseen, *unseen_here),
    )


def _errors(rates: pl.DataFrame) -> pl.DataFrame:
    """Rows of LINK_ERRORS: queues and lanes of one port are added up."""
    # packets that could not be sent say nothing of the signal
    rates = rates.filter((pl.col("counter") != "errors") | (pl.col("direction") == "rx"))
    sums = with_patterns(totals(rates, COUNTERS), rates, _STEADY_P).sort("total", descending=True, nulls_last=True)
    known = pl.col("total").is_not_null().any()
    first = ("intervals", "rose", "left_out", "pattern")
    out = sums.group_by([*END, "counter"], maintain_order=True).agg(
        *(pl.when(known).then(pl.col(c).sum()).alias(c) for c in ("total", "per_s")), *(pl.col(c).first() for c in first)
    )
    return LINK_ERRORS.conform(out.select(LINK_ERRORS.names))


def _health(ends: pl.DataFrame, errors: pl.DataFrame, levels: pl.DataFrame, least: float) -> pl.DataFrame:
    """Rows of LINK_HEALTH."""
    of_link = errors.filter(pl.col("link").is_not_null())
    most = pl.col("total").filter(pl.col("counter").is_in(RECEIVED)).max()
    halves = pl.when(pl.col("counter") == "link_transitions").then((pl.col("total") / 2).ceil()).when(pl.col("counter") == "link_down_events").then("total")
    by_link = of_link.group_by("link").agg(
        halves.max().alias("flaps"),
        pl.col("total").filter(pl.col("counter") == "link_recovery").max().alias("recoveries"),
        pl.col("total").filter(pl.col("counter") == REMOTE).max().alias("remote_errors"),
    )
    sides = [of_link.filter(pl.col("side") == s).group_by("link").agg(most.alias(f"{s}_errors")) for s in "ab"]
    low = levels.filter("outside").group_by("link").agg(pl.col("level").unique().sort().str.join("+").alias("below_peers"))
    links = ends.filter(pl.col("side") == "a").select("link", "used", a_node="node", a_port="port", b_node="peer_node", b_port="peer_port")
    out = links
    for part in (by_link, *sides, low):
        out = out.join(part, on="link", how="left", maintain_order="left")
    rows = [row | {"suspect": _suspect(row, least) if row["used"] else None} for row in out.iter_rows(named=True)]
    return LINK_HEALTH.conform(pl.DataFrame(rows, schema=LINK_HEALTH.polars))


def _suspect(row: dict[str, object], least: float) -> str | None:
    """What the counters of both ends point to, the most telling first."""
    a, b = where(str(row["a_node"]), str(row["a_port"])), where(str(row["b_node"]), str(row["b_port"]))
    errors = {side: row[f"{side}_errors"] for side in "ab"}
    bad = {side: isinstance(n, float) and n >= least for side, n in errors.items()}
    parts = []
    if isinstance(row["flaps"], float) and row["flaps"] >= 1:
        parts.append(f"went down {row['flaps']:.0f}×")
    if bad["a"] and bad["b"]:
        parts.append("both ends receive errors: the cable, or a bad contact")
    elif bad["a"] or bad["b"]:
        here, there, other = (a, b, errors["b"]) if bad["a"] else (b, a, errors["a"])
        if other is None:
            parts.append(f"{here} receives errors; the other end is not collected: the cable or a transceiver")
        else:
            parts.append(f"{here} alone receives errors: the cable, its own transceiver, or the sending one at {there}")
    elif isinstance(row["remote_errors"], float) and row["remote_errors"] >= least:
        parts.append("packets came already broken: the fault is further up their way")
    if row["below_peers"]:
        parts.append(f"beside its peers: {', '.join(LEVELS[x].words for x in str(row['below_peers']).split('+'))}")
    return "; ".join(parts) or None


def _not_observable(errors: pl.DataFrame, levels: pl.DataFrame) -> list[NotObservable]:
    used = errors.filter(pl.col("used").fill_null(False))
    out = []
    collect = "ethtool -S of the hosts, the switch's interface counters, or perfquery and ibqueryerrors"
    if not used.filter(pl.col("counter").is_in([*RECEIVED, REMOTE])).height:
        out.append(NotObservable("Did cables or transceivers fail?", "no counter of receive errors was collected of the job's links", collect))
    if not used.filter(pl.col("counter").is_in(DOWN)).height and not levels.filter(pl.col("level") == "link_up").height:
        out.append(NotObservable("Did links go down?", "no counter of link state was collected of the job's links", collect))
    return out


def _answer(given: Counted, health: pl.DataFrame, errors: pl.DataFrame, levels: pl.DataFrame) -> str:
    bad = health.filter(pl.col("suspect").is_not_null())
    if bad.height:
        order = pl.max_horizontal("a_errors", "b_errors", "remote_errors").fill_null(0)
        rows = bad.sort(pl.col("flaps").fill_null(0), order, "link", descending=[True, True, False])
        said = [f"{_link_name(row)}: {row['suspect']}." for row in rows.head(3).iter_rows(named=True)]
        return given.beside(" ".join([*said, *([f"And {several(bad.height - 3, 'other link')}."] if bad.height > 3 else [])]))
    seen = pl.concat([f.filter(pl.col("used").fill_null(False)).select("node", "port") for f in (errors, levels)]).n_unique()
    if not seen:
        return "No port with such counters is known to be of the job."
    reset = errors.filter(pl.col("used").fill_null(False) & (pl.col("intervals") == 0))
    unknown = list(dict.fromkeys(label(r) for r in reset.iter_rows(named=True)))
    tail = f" Not known of {listed(unknown)}: reset in every interval." if unknown else ""
    ours = set(errors.filter(pl.col("used").fill_null(False) & (pl.col("intervals") > 0))["counter"])
    levelled = levels.filter(pl.col("used").fill_null(False)).height
    what = ["received errors"] * bool(ours & {*RECEIVED, REMOTE}) + ["went down"] * bool(ours & {*DOWN}) + ["has levels unlike its peers"] * bool(levelled)
    if not what:
        return f"Of the {several(seen, 'port')} of the job with such counters nothing is known: each was reset in every interval."
    return f"None of the {several(seen, 'port')} of the job with such counters {' or '.join(what)}.{tail}"


def _link_name(row: dict[str, object]) -> str:
    a = where(str(row["a_node"]), str(row["a_port"]))
    return f"{a} – {where(str(row['b_node']), str(row['b_port']))}" if row["b_node"] is not None else a


ANALYSIS = Analysis(
    "link_health",
    "Health of links",
    "Did links go down or receive errors, and is it the cable, a transceiver or something further up?",
    ("counters",),
    Params,
    (LINK_HEALTH, LINK_ERRORS, LINK_LEVELS),
    _run,
    {"counters": "no counter of a link was collected; collect ethtool -S, hw_counters and the switch's counters every second, or before and after"},
)
