"""Findings about links, in words."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracelab.analyses.network.ends import listed
from tracelab.analyses.network.suspects import HARDNESS, Suspect
from tracelab.analysis import Tables
from tracelab.results import Evidence, FindingKind, Link
from tracelab.units import format_duration, format_share

__all__ = ["NEXT", "evidence_of", "link_of", "name_of", "summary_of"]


def link_of(links: pl.DataFrame, number: int) -> Link:
    """A row of `links` as the subject of a finding."""
    row = links.filter(pl.col("link") == number).row(0, named=True)
    if row["tier"] == 0:
        return Link(row["a_node"], row["a_device"] or row["a_port"], row["b_node"], row["b_port"])
    return Link(None, None, row["a_node"], row["a_port"])


def name_of(links: pl.DataFrame, number: int) -> str:
    """A row of `links` by its ends."""
    x = link_of(links, number)
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
NEXT: dict[FindingKind, str] = {
    "slow_link": "reseat or replace the cable and transceivers of this link, and check its width and speed (ibstat, ethtool) on both ends",
    "packet_loss": "look at both ends of this link: drops at the switch port (buffers, PFC and DSCP of the job's class) and errors of cable and transceivers",
    "congestion": "look at how flows spread over equal links (ECMP hashing, adaptive routing, number of queue pairs) and at other traffic on these ports",
    "link_flap": "replace the cable or transceiver of this link, and look at the switch's log around these times",
}


def summary_of(suspect: Suspect, rivals: Sequence[Suspect], links: pl.DataFrame, ratio: float, lost: float, share: float) -> str:
    """One sentence: the link, what it counted, what it cost; and what cannot be told apart from it."""
    loudest = suspect.hardest
    more = f" and {len(suspect.links) - 1} more" if len(suspect.links) > 1 else ""
    says = _SAYS[suspect.kind].format(name=f"The link {name_of(links, suspect.links[0])}")
    if loudest.family == "degraded":
        much = f"it runs at {loudest.count / 1e9:.0f} Gb/s, most others at {loudest.usual / 1e9:.0f}"
    else:
        usual = "did not rise" if loudest.usual < 0.05 else f"{loudest.usual:,.3g} per second"
        much = f"{loudest.counter} rose by {loudest.count:,.0f}, the other links' {usual}"
    out = f"{says}{more} ({much}): transfers take {ratio:.2f} times what they need, {format_duration(lost)} lost, {format_share(share)} of the run."
    if rivals:
        out += f" It may as well be {listed([name_of(links, x.links[0]) for x in rivals])}: the same was counted there at the same time."
    if suspect.effect == "unknown":
        out += " Nothing that was collected shows whether packets had to wait or be sent again there."
    return out


def evidence_of(tables: Tables, suspect: Suspect) -> list[Evidence]:
    """The last sample of each telling counter in the window, the hardest first."""
    out = []
    order = sorted(suspect.signals, key=lambda s: (suspect.links.index(s.link), HARDNESS.index(s.family), -s.ratio))
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
