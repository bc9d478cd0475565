"""Which ports were paused, by whom in the end, and which ports saw congestion more than their peers."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracelab.analyses.network.ends import END_COLUMNS, Counted, counted, label, listed, nothing_counted, several, uncovered, where
from tracelab.analyses.network.marks import CONGESTION_MARKS, MARKS, marks_of
from tracelab.analyses.network.pause_chains import PAUSE_CHAINS, chains_of, ports_of
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import NotObservable
from tracelab.tables import Column, TableSpec
from tracelab.units import format_share

__all__ = ["ANALYSIS", "CONGESTION_MARKS", "PAUSE_CHAINS", "PAUSE_PORTS", "Params"]

PAUSE_PORTS = TableSpec(
    "pause_ports",
    "Pauses of each port, priority and direction; ports without a row had no such counter collected",
    (
        *END_COLUMNS,
        Column("priority", "int32", "priority; null for pauses of the whole port", key=True),
        Column("direction", "string", "rx: the neighbour asks this port to stop (it is paused); tx: this port asks its neighbour to", nullable=False, key=True),
        Column("frames", "float64", "pause frames in the intervals that touch the captures; null where not collected or not to be trusted", "packet"),
        Column("frames_per_s", "float64", "of them, per second", "packet/s"),
        Column("paused_us", "float64", "time paused; null where not collected", "us"),
        Column("paused_share", "float64", "of the time counted", "ratio"),
        Column("peak_share", "float64", "of the interval with most of it", "ratio"),
        Column("transitions", "float64", "changes from sending to paused", "event"),
        Column("storms", "float64", "pauses that a watchdog called a storm", "event"),
        Column("intervals", "int64", "intervals counted", nullable=False),
        Column("left_out", "int64", "intervals with a reset or a gap: not counted", nullable=False),
        Column("heavy", "bool", "beyond the parameters, and the job uses the link", nullable=False),
        Column("role", "string", "of the device of a heavy port: root (stops others, is not stopped), victim (is stopped), spreads (both); null of others"),
    ),
    ("tier", "link", "side", "node", "port", "priority", "direction"),
)


@dataclass(frozen=True)
class Params:
    """From when on a pause or a mark is worth a word. A few of either are how lossless fabrics work.

    `paused_share` (ratio; 0.05): time paused, of all time: less cannot cost more than that. `frames_per_s` (packet/s; 1000):
    where no duration is collected: one frame stops a 400 Gbit/s port for 84 µs at most (65535 quanta of 512 bits), so 1000 of
    them for 8 %; hosts that cannot receive send up to thousands a second (Guo et al., SIGCOMM 2016, 4.4).
    `times_peers` (ratio; 5): marks and waiting per byte against the median of the ports at the same place: absolute numbers differ
    by device, and large ones are seen without any effect. `marks_per_gb` (packet/GB; 500): of 244,000 packets of 4096 bytes.
    `wait_share` (ratio; 0.01) of the link's speed lost to waiting, at `bytes_per_tick` (B; 8) per tick (older devices: 32).
    `egress_share` (ratio; 0.8): a switch's port that sends at this much of its speed while others are paused is the way in of
    an incast.
    """

    paused_share: float = 0.05
    frames_per_s: float = 1000.0
    times_peers: float = 5.0
    marks_per_gb: float = 500.0
    wait_share: float = 0.01
    bytes_per_tick: float = 8.0
    egress_share: float = 0.8


def _run(tables: Tables, params: Params) -> AnalysisResult:
    given = counted(tables)
    ports = ports_of(given, params.paused_share, params.frames_per_s)
    chains, roles = chains_of(given, ports, params.egress_share)
    ports = ports.join(roles, on=["node", "port"], how="left", maintain_order="left")
    ports = PAUSE_PORTS.conform(ports.with_columns(pl.when("heavy").then("role").alias("role")).select(PAUSE_PORTS.names))
    marks = marks_of(given, params.times_peers, params.marks_per_gb, params.wait_share, params.bytes_per_tick)
    if not ports.height and not marks.height:
        answer, unseen = nothing_counted("counters of pauses, marks and waiting", given)
        return AnalysisResult(answer, {}, degraded="; ".join(given.caveats), not_observable=(unseen, *given.unseen))
    frames = {PAUSE_PORTS.name: ports, PAUSE_CHAINS.name: chains, CONGESTION_MARKS.name: marks}
    unseen_here = _not_observable(ports, marks)
    return AnalysisResult(
        _answer(given, ports, chains, marks) + uncovered(tables)[0],
        {n: f for n, f in frames.items() if f.height},
        degraded="; ".join(given.caveats),
        not_observable=(*given.unseen, *unseen_here),
    )


def _not_observable(ports: pl.DataFrame, marks: pl.DataFrame) -> list[NotObservable]:
    out = []
    used = marks.filter(pl.col("used").fill_null(False))
    waits = used.filter(pl.col("counter") == "xmit_wait_ticks").height
    if not ports.filter(pl.col("priority").is_not_null()).height and not waits:
        reason = "no counter of priority flow control was collected: adapters have them only for priorities with it, so it may also be off"
        collect = "ethtool -S <interface> (rx_prio3_pause …) and the switch's PFC counters, and mlnx_qos -i <interface> for what is enabled"
        out.append(NotObservable("Did ports stop each other?", reason, collect))
    if not used.filter(pl.col("counter") != "xmit_wait_ticks").height and not waits:
        reason = "no counter of congestion marks or notifications was collected of the job's ports"
        out.append(
            NotObservable(
                "Were packets marked for congestion?", reason, "hw_counters of the adapters (np_ecn_marked_roce_packets …), ECN counters of the switch's queues"
            )
        )
    return out


def _answer(given: Counted, ports: pl.DataFrame, chains: pl.DataFrame, marks: pl.DataFrame) -> str:
    parts = [*_chain_words(chains), *_storm_words(ports), *_mark_words(marks)]
    if parts:
        return given.beside(" ".join(parts))
    here = [f.filter(pl.col("used").fill_null(False)) for f in (ports, marks)]
    if not any(f.height for f in here):
        return "No port with such counters is known to be of the job."
    seen = pl.concat([f.select("node", "port") for f in here]).n_unique()
    what = " or ".join(w for w, f in (("held up", here[0]), ("marked or kept waiting more than its peers", here[1])) if f.height)
    return f"None of the {several(seen, 'port')} of the job with such counters was {what}."


def _chain_words(chains: pl.DataFrame) -> list[str]:
    out = []
    for (root, pattern), part in chains.group_by("root", "pattern", maintain_order=True):
        first = part.row(0, named=True)
        held = list(dict.fromkeys(where(n, p) for n, p in part.select("held_node", "held_port").iter_rows()))
        strength = format_share(first["share"]) + " of the time" if first["share"] is not None else f"{first['frames_per_s']:.0f} pause frames a second"
        text = f"{root} stops {listed(held)} ({strength}"
        text += f", priority {first['priority']})" if first["priority"] is not None else ")"
        out.append(text + _PATTERN[str(pattern)].format(egress=first["egress"]) + ".")
    return out


_PATTERN = {
    "slow receiver": ": a host that cannot take what arrives",
    "incast": ": several senders meet at {egress}",
    "congested switch": ", and no port of it is stopped itself",
    "cycle": ", and each that stops another is stopped itself: a cycle of pauses (deadlock), without a root",
    "unknown": "; what it is plugged into is not known",
}


def _storm_words(ports: pl.DataFrame) -> list[str]:
    storms = ports.filter(pl.col("used").fill_null(False) & (pl.col("storms") > 0))
    names = list(dict.fromkeys(label(r) for r in storms.iter_rows(named=True)))
    return [f"A watchdog called the pauses of {listed(names)} a storm."] if names else []


def _mark_words(marks: pl.DataFrame) -> list[str]:
    out = []
    high = marks.filter("stands_out").sort("times", "node", "port", descending=[True, False, False])
    for (counter,), part in high.group_by("counter", maintain_order=True):
        first = part.row(0, named=True)
        more = f" (and {several(part.height - 1, 'other port')})" if part.height > 1 else ""
        text = f"{label(first)}{more} {MARKS[str(counter)].words} {first['times']:.0f} times as much per byte as its peers"
        if first["lost_share"] is not None:
            text += f": about {format_share(first['lost_share'])} of its speed, at the usual length of a tick"
        out.append(text + ".")
    return out


ANALYSIS = Analysis(
    "pause",
    "Pauses and congestion",
    "Who stopped whom, where does that begin, and which ports were congested more than others?",
    ("counter_rates",),
    Params,
    (PAUSE_PORTS, PAUSE_CHAINS, CONGESTION_MARKS),
    _run,
    {"counter_rates": "no counter of a link was read twice; collect PFC, ECN and xmit_wait counters of adapters and switch ports every second"},
)
