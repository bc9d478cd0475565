"""Which link cost the job time: counters that stand out, transfers that were slow, and the job run again without that.

Neither alone is a finding. Errors that cost nothing are named in the answer; slow transfers without a link that stands out
say nothing of where. The cost is what the job, run again with transfers as links of that speed allow, would have saved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracelab.analyses.common import severity, world_of
from tracelab.analyses.network.cost import Slowness, job_again, slowness_of, speeds_of
from tracelab.analyses.network.demand import demand_of
from tracelab.analyses.network.signals import Signal, signals_of
from tracelab.analyses.partition import partition_of
from tracelab.analysis import Analysis, AnalysisResult, Tables
from tracelab.results import Evidence, Finding, FindingKind, Link, finding_id
from tracelab.tables import Column, TableSpec
from tracelab.units import NS_PER_S, format_duration, format_share

__all__ = ["ANALYSIS", "LINK_SIGNALS", "Params"]

LINK_SIGNALS = TableSpec(
    "link_signals",
    "Counters that stand out beside those of the other links of their tier",
    (
        Column("link", "int32", "row of `links`", nullable=False, key=True),
        Column(
            "family",
            "string",
            "down, degraded (below the speed of the others), integrity, discards, resent, paused, marked or waiting",
            nullable=False,
            key=True,
        ),
        Column("name", "string", "the link by its ends", nullable=False),
        Column("node", "string", "machine that counted", nullable=False, key=True),
        Column("counter", "string", "counter", nullable=False),
        Column("count", "float64", "counted in the window", nullable=False),
        Column("per_s", "float64", "rate", "1/s", nullable=False),
        Column("usual", "float64", "median rate of the other links", "1/s", nullable=False),
    ),
    ("link", "family", "node"),
)


@dataclass(frozen=True)
class Params:
    """Thresholds of a finding.

    `least_share`: saving as a share of the run (1 %: less cannot be told from what else varies). `slow`: transfers must take
    this much longer than they took at other times of the run (1.1), or, where they were never faster, than links that work
    need (`slow_always`, 1.2: networks reach 80 % and more of their speed without anything being wrong). `imbalance`: a port
    that marks packets carries this many times what its equals carry on average (1.5), is `paused` for this share of the time (5 %), or
    like transfers differ by this factor between quick and slow ones (`scatter`, 1.5): else its marks are how congestion control
    works. `efficiency`: share of a link's speed that large transfers reach (0.90;
    0.85 to 0.95 are usual for NCCL over InfiniBand and RoCE), `efficiency_range`: from and to of the interval that is given.
    `round_trip_s`, `packet_bytes`: a lost packet costs go-back-N what is in flight then (100 µs under load, 4,096).
    """

    least_share: float = 0.01
    slow: float = 1.1
    slow_always: float = 1.2
    imbalance: float = 1.5
    scatter: float = 1.5
    paused: float = 0.05
    efficiency: float = 0.90
    efficiency_range: tuple[float, float] = (0.82, 0.98)
    round_trip_s: float = 100e-6
    packet_bytes: int = 4096


_HARDNESS = ("down", "degraded", "integrity", "discards", "resent", "paused", "marked", "waiting")
"""What is told first: a cable that loses bits explains a queue that fills, and not the other way round."""
_SOFT = ("paused", "marked", "waiting")


@dataclass(frozen=True)
class _Suspect:
    """Links that stand out for one reason, the loudest first, and what stands out on each."""

    kind: FindingKind
    links: list[int]
    signals: list[Signal]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """When it was so; a link that was down holds transfers up until some time after it came back."""
        after = 1 if self.kind == "link_flap" else 0
        return sorted({(start, end + after * (end - start)) for signal in self.signals for start, end in signal.rises})


def _run(tables: Tables, params: Params) -> AnalysisResult:
    job = partition_of(tables).job
    window = (int(job["start_ns"][0]), int(job["end_ns"][-1]))
    run_ns = float((job["end_ns"] - job["start_ns"]).sum())
    links = tables["links"].collect()
    signals = signals_of(tables, links, window)
    frames = {"link_signals": _signal_rows(signals, links)}
    if not signals:
        return AnalysisResult("No link's counters stand out beside those of its peers.", frames)
    slow = _Slow(tables, links, params, window)
    findings: list[Finding] = []
    silent: list[str] = []
    taken: list[tuple[int, int]] = []
    for suspect in _suspects(signals, links, slow, params):
        finding = _finding(tables, suspect, links, slow, taken, run_ns, params)
        if finding is not None:
            findings.append(finding)
            taken += suspect.spans
        elif suspect.kind != "congestion":
            silent.append(_name(links, suspect.links[0]))
    answer = " ".join(f.summary for f in findings) or "Counters of some links stand out, but no transfer was slower than it had to be."
    if silent:
        answer += f" Errors or losses without a measurable cost: {', '.join(silent[:5])}{' and others' if len(silent) > 5 else ''}."
    return AnalysisResult(answer, frames, tuple(findings), degraded=slow.degraded)


_ASSUMED = "no source states the speed of a link; assumed: {} (set it where the wiring is described)"


class _Slow:
    """How slow transfers were, by link and assumed efficiency; computed when asked for."""

    def __init__(self, tables: Tables, links: pl.DataFrame, params: Params, window: tuple[int, int]) -> None:
        self._tables, self._params = tables, params
        moved = tables["matches"].filter(pl.col("transfer_ns").is_not_null()).select("last_start_ns", "end_ns").collect()
        busy = _union_ns(moved, window) / max(window[1] - window[0], 1)
        self._speeds, self.stated = speeds_of(tables, links, busy)
        known = self._speeds["speed_bps"].drop_nulls()
        self.degraded = "" if self.stated else _ASSUMED.format(f"{known[0] / 1e9:.0f} Gb/s" if known.len() else "none")
        self._known: dict[tuple[int | None, float], Slowness | None] = {}

    def speed_bps(self, link: int) -> float:
        """Speed of a link, stated or assumed; 0 where unknown."""
        found = self._speeds.filter(pl.col("link") == link)["speed_bps"].drop_nulls()
        return float(found[0]) if found.len() else 0.0

    def bytes_per_s(self, signals: list[Signal]) -> float:
        """What the link's busier way carries on average, by the counters of the machines that complain."""
        nodes = [s.node for s in signals]
        rows = self._tables["counter_rates"].filter((pl.col("counter").cast(pl.String) == "bytes") & pl.col("node").is_in(nodes) & ~pl.col("at_least"))
        ends = {s.end for s in signals}
        found = rows.filter(pl.col("device").cast(pl.String).is_in(sorted(ends)) | pl.col("port").cast(pl.String).is_in(sorted(ends)))
        return float(found.select(pl.col("per_s").median()).collect().item() or 0.0)

    def of(self, link: int | None, efficiency: float) -> Slowness | None:
        """The transfers that use the link, or all, with their healthy times at that efficiency."""
        if (link, efficiency) not in self._known:
            self._known[link, efficiency] = slowness_of(demand_of(self._tables, self._speeds, efficiency), link)
        return self._known[link, efficiency]


def _union_ns(moved: pl.DataFrame, window: tuple[int, int]) -> float:
    """Time of the window in which some transfer ran."""
    rows = moved.with_columns(pl.col("last_start_ns").clip(*window), pl.col("end_ns").clip(*window)).sort("last_start_ns")
    done = rows["end_ns"].cum_max().shift(1).fill_null(window[0])
    own = (rows["end_ns"] - pl.DataFrame({"a": rows["last_start_ns"], "b": done}).max_horizontal()).clip(0)
    return float(own.sum())


def _suspects(signals: list[Signal], links: pl.DataFrame, slow: _Slow, params: Params) -> list[_Suspect]:
    """One per link with a hard signal, the hardest and loudest first, then all links with soft ones together."""
    by_link: dict[int, list[Signal]] = {}
    for s in signals:
        by_link.setdefault(s.link, []).append(s)
    hard = {link: mine for link, mine in by_link.items() if any(s.family not in _SOFT for s in mine)}
    order = sorted(hard, key=lambda link: _loudness(hard[link]))
    out = [_Suspect(_kind(hard[link], slow, params), [link], hard[link]) for link in order]
    left = [s for s in signals if s.link not in hard]
    soft = [s for s in left if s.family in ("paused", "marked")] or [s for s in left if s.family == "waiting"]
    if soft:
        tiers = dict(links.select("link", "tier").iter_rows())
        loudest = sorted({s.link for s in soft}, key=lambda link: (-tiers[link], -max(s.ratio for s in soft if s.link == link)))
        alone = len(loudest) == 1 and all(s.family == "waiting" for s in soft)
        out.append(_Suspect("slow_link" if alone else "congestion", loudest, soft))
    return out


def _loudness(signals: list[Signal]) -> tuple[int, int, float]:
    """Sorts links by their hardest signal, then by how many counters of both ends agree, then by how far they stand out."""
    hardest = min(_HARDNESS.index(s.family) for s in signals)
    return hardest, -len(signals), -max(s.ratio for s in signals if _HARDNESS.index(s.family) == hardest)


def _kind(signals: list[Signal], slow: _Slow, params: Params) -> FindingKind:
    """What hard signals mean: a link that went down, one that loses packets, or one that damages them and runs slow."""
    families = {s.family: s for s in sorted(signals, key=lambda s: s.ratio)}  # of the two ends the louder one
    if "down" in families:
        return "link_flap"
    if "degraded" in families:
        return "slow_link"
    lost = max((families[f].per_s for f in ("discards", "resent") if f in families), default=0.0)
    if "integrity" not in families:
        return "packet_loss"
    if "discards" in families and families["discards"].per_s > families["integrity"].per_s:
        return "packet_loss"
    # damaged packets are lost packets too: does losing that many explain how slow transfers were?
    slowness = slow.of(signals[0].link, params.efficiency)
    speed = slow.speed_bps(signals[0].link)
    if slowness is None or not speed:
        return "slow_link"
    carried = max(slow.bytes_per_s(signals), speed / 8 * 0.01)
    more = lost / (carried / params.packet_bytes) * speed / 8 * params.round_trip_s / params.packet_bytes
    return "packet_loss" if more >= 0.5 * (slowness.ratio([s for x in signals for s in x.rises]) - 1) else "slow_link"


def _finding(
    tables: Tables, suspect: _Suspect, links: pl.DataFrame, slow: _Slow, taken: list[tuple[int, int]], run_ns: float, params: Params
) -> Finding | None:
    link = suspect.links[0] if links.filter(pl.col("link") == suspect.links[0])["tier"].item() == 0 and suspect.kind != "congestion" else None
    slowness, spans = slow.of(link, params.efficiency), _free(suspect.spans, taken)
    if slowness is None or not spans or not _slow_enough(tables, suspect, slowness, spans, links, params):
        return None
    job = job_again(tables)
    if job is None:
        return None
    saving = job.saving(slowness.healthy(spans))
    lost = float(np.clip(saving, 0, None).sum())
    if lost < params.least_share * run_ns:
        return None
    other = [slow.of(link, e) for e in params.efficiency_range]
    bounds = [float(np.clip(job.saving(s.healthy(spans)), 0, None).sum()) if s is not None else lost for s in other]
    steps = partition_of(tables).job
    touched = np.flatnonzero(saving >= 0.25 * max(np.max(saving), 1.0))
    ends = {s.node for s in suspect.signals if s.link == suspect.links[0]}
    families = {s.family for s in suspect.signals}
    sure = len(ends) > 1 and (suspect.kind != "congestion" or len(families) > 1)
    subject = [_link(links, n) for n in suspect.links]
    share = lost / run_ns
    return Finding(
        id=finding_id(suspect.kind, [_name(links, n) for n in suspect.links[:1]]),
        kind=suspect.kind,
        severity=severity(share, enough=len(saving) > 1),
        summary=_summary(suspect, links, slowness.ratio(spans), lost, share),
        confidence="possible" if not (links["tier"] == 0).any() else "proven" if sure else "likely",
        lost_s=lost / NS_PER_S,
        lost_s_low=min(*bounds, lost) / NS_PER_S,
        lost_s_high=max(*bounds, lost) / NS_PER_S,
        lost_gpu_hours=lost / NS_PER_S * world_of(tables) / 3600,
        hosts=sorted({x.host for x in subject[:1] if x.host}),
        links=subject[:16],
        steps=[int(steps["step"][int(n)]) for n in touched],
        start_ns=int(steps["start_ns"][int(touched[0])]),
        end_ns=int(steps["end_ns"][int(touched[-1])]),
        evidence=_evidence(tables, suspect),
        next_step=_NEXT[suspect.kind],
    )


def _slow_enough(tables: Tables, suspect: _Suspect, slowness: Slowness, spans: list[tuple[int, int]], links: pl.DataFrame, params: Params) -> bool:
    """Whether transfers were slow while the link stood out, and what stands out can be the reason."""
    ratio = slowness.ratio(spans)
    if slowness.measured:
        return ratio >= params.slow
    if ratio < params.slow_always:
        return False
    if suspect.kind != "congestion":
        return True
    paused = max((s.per_s / 1e6 for s in suspect.signals if s.counter in ("pfc_pause_us", "global_pause_us")), default=0.0)
    return paused >= params.paused or slowness.spread >= params.scatter or _imbalance(tables, suspect.links[0], links) >= params.imbalance


def _imbalance(tables: Tables, number: int, links: pl.DataFrame) -> float:
    """What the port carries, over the mean of the ports of its switch in its tier (of the same adapters of other hosts)."""
    row = links.filter(pl.col("link") == number).row(0, named=True)
    equals = links.filter((pl.col("tier") == row["tier"]) & ((pl.col("a_node") == row["a_node"]) if row["tier"] else (pl.col("rail") == row["rail"])))
    rates = tables["counter_rates"].filter((pl.col("counter").cast(pl.String) == "bytes") & ~pl.col("at_least"))
    rates = rates.with_columns(pl.coalesce(pl.col("device").cast(pl.String), pl.col("port").cast(pl.String)).alias("end"), pl.col("direction").cast(pl.String))
    sides = [equals.select("link", node=node, end=end) for node, end in (("a_node", "a_device"), ("a_node", "a_port"), ("b_node", "b_port"))]
    ends = pl.concat(sides).drop_nulls().unique(["node", "end"], keep="first", maintain_order=True)
    carried = rates.join(ends.lazy(), on=["node", "end"]).group_by("link", "node", "direction").agg(pl.col("per_s").mean()).collect()
    per_way = carried.with_columns(pl.col("per_s").mean().over("direction").alias("mean")).filter((pl.col("link") == number) & (pl.col("mean") > 0))
    return float(per_way.select((pl.col("per_s") / pl.col("mean")).max()).item() or 0.0)


def _free(spans: list[tuple[int, int]], taken: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """`spans` that no stronger suspect explains already."""
    return [s for s in spans if not any(s[0] < end and s[1] > start for start, end in taken)]


def _link(links: pl.DataFrame, number: int) -> Link:
    row = links.filter(pl.col("link") == number).row(0, named=True)
    if row["tier"] == 0:
        return Link(row["a_node"], row["a_device"] or row["a_port"], row["b_node"], row["b_port"])
    return Link(None, None, row["a_node"], row["a_port"])


def _name(links: pl.DataFrame, number: int) -> str:
    x = _link(links, number)
    far = f"{x.switch} {x.port}" if x.switch else ""
    near = f"{x.host} {x.nic}" if x.host else ""
    return f"{near} ({far})" if near and far else near or far


_MEANS = {
    "integrity": "damages what it carries",
    "discards": "drops packets",
    "resent": "makes its sender repeat packets",
    "waiting": "waits for credits",
    "paused": "is paused",
    "marked": "marks congestion",
    "down": "went down",
    "degraded": "runs below the speed of the others",
}
_SAYS: dict[str, str] = {
    "slow_link": "{name} is slow",
    "packet_loss": "{name} loses packets",
    "congestion": "{name} is congested",
    "link_flap": "{name} went down and came back",
}
_NEXT: dict[FindingKind, str] = {
    "slow_link": "reseat or replace the cable and transceivers of this link, and check its width and speed (ibstat, ethtool) on both ends",
    "packet_loss": "look at both ends of this link: drops at the switch port (buffers, PFC and DSCP of the job's class) and errors of cable and transceivers",
    "congestion": "look at how flows spread over equal links (ECMP hashing, adaptive routing, number of queue pairs) and at other traffic on these ports",
    "link_flap": "replace the cable or transceiver of this link, and look at the switch's log around these times",
}


def _summary(suspect: _Suspect, links: pl.DataFrame, ratio: float, lost: float, share: float) -> str:
    name = _name(links, suspect.links[0])
    loudest = max((s for s in suspect.signals if s.link == suspect.links[0]), key=lambda s: (-_HARDNESS.index(s.family), s.ratio))
    more = f" and {len(suspect.links) - 1} more" if len(suspect.links) > 1 else ""
    says = _SAYS[suspect.kind].format(name=f"The link {name}")
    if loudest.family == "degraded":
        much = f"it runs at {loudest.count / 1e9:.0f} Gb/s, most others at {loudest.count * loudest.ratio / 1e9:.0f}"
    else:
        much = (
            f"{loudest.counter} rose by {loudest.count:,.0f}, the other links' {'did not rise' if loudest.usual < 0.05 else f'{loudest.usual:,.3g} per second'}"
        )
    return f"{says}{more} ({much}): transfers take {ratio:.2f} times what they need, {format_duration(lost)} lost, {format_share(share)} of the run."


def _evidence(tables: Tables, suspect: _Suspect) -> list[Evidence]:
    """The last sample of each telling counter in the window, the hardest first."""
    out = []
    order = sorted(suspect.signals, key=lambda s: (suspect.links.index(s.link), _HARDNESS.index(s.family), -s.ratio))
    for s in order[:8]:
        upto = s.rises[-1][1] if s.rises else None
        rows = tables["counters"].filter(pl.col("series") == s.series)
        rows = rows.filter(pl.col("ts_ns") <= upto) if upto is not None else rows
        last = rows.sort("ts_ns").tail(1).select("source_id", "source_ts_ns", "ts_ns", "line").collect()
        if last.height:
            source, source_ts, ts, line = last.row(0)
            much = f"{s.count:,.0f} in the window, {s.per_s:,.3g} per second (others {s.usual:,.3g})"
            text = f"{s.node} {s.end} {_MEANS[s.family]}: {s.counter} {much}; line {line}"
            out.append(tables.evidence(source, None, source_ts, ts, text))
    return out


def _signal_rows(signals: list[Signal], links: pl.DataFrame) -> pl.DataFrame:
    rows = [(s.link, s.family, _name(links, s.link), s.node, s.counter, s.count, s.per_s, s.usual) for s in signals]
    return LINK_SIGNALS.conform(pl.DataFrame(rows, schema=LINK_SIGNALS.polars, orient="row"))


ANALYSIS = Analysis(
    "network",
    "Network faults",
    "Which link cost the job time?",
    ("counter_rates", "links", "matches", "steps"),
    Params,
    (LINK_SIGNALS,),
    _run,
    {
        "counter_rates": "no counters of adapters or switches were sampled twice or more",
        "links": "no adapter of the job's hosts has counters or a known cable",
        "matches": "no communication was matched between ranks",
        "steps": "no step and no work was recorded",
    },
)
