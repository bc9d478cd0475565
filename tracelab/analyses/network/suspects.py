"""Which links may have cost the job time: what stands out on each, whether it shows an effect, and whether it fits the slow transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from tracelab.analyses.network.cost import Slow, Slowness
from tracelab.analyses.network.ends import carried, counted
from tracelab.analyses.network.params import Params
from tracelab.analyses.network.signals import Repeats, Signal
from tracelab.analysis import Tables
from tracelab.results import FindingKind

__all__ = ["HARDNESS", "Effect", "Suspect", "fits", "overloaded", "suspects_of"]

HARDNESS = ("down", "degraded", "integrity", "discards", "resent", "paused", "marked", "waiting")
"""What is told first: a cable that loses bits explains a queue that fills, and not the other way round."""
_SOFT = ("paused", "marked", "waiting")
_EFFECTS = ("resent", "paused", "waiting")
"""What lost time looks like at the link that costs it: packets sent again, or packets that wait."""
_EXPLAINED = 0.2
"""Share of the packets sent again that a link must have lost to be the reason."""
_MANY = 0.1
"""A link with this share of another one's events of the same kind cannot be told from it."""
_ENOUGH = 8
"""Transfers to compare with."""
_FEW = 0.3
"""A link that was down holds the transfers of that time: the lost time lies in no more than this share of them."""

Effect = Literal["shown", "unknown", "none"]


@dataclass(frozen=True)
class Suspect:
    """Links that stand out for one reason, the loudest first, and what stands out on each.

    `effect`: whether what was counted shows that it held transfers up; unknown where nothing that would show it was collected.
    """

    kind: FindingKind
    links: tuple[int, ...]
    signals: tuple[Signal, ...]
    effect: Effect

    @property
    def spans(self) -> list[tuple[int, int]]:
        """When it was so; a link that was down holds transfers up until some time after it came back."""
        after = 1 if self.kind == "link_flap" else 0
        return sorted({(start, end + after * (end - start)) for signal in self.signals for start, end in signal.rises})

    @property
    def hardest(self) -> Signal:
        """What stands out most on the loudest link."""
        return max((s for s in self.signals if s.link == self.links[0]), key=lambda s: (-HARDNESS.index(s.family), s.ratio))

    def rivals(self, others: Sequence[Suspect]) -> list[Suspect]:
        """Those of `others` that could be the reason as well: the same kind of events, about as many, at the same time."""
        mine, spans = self.hardest, self.spans
        return [
            x
            for x in others
            if x.effect == self.effect
            and x.hardest.family == mine.family
            and (x.hardest.count >= _MANY * mine.count if x.hardest.counter == mine.counter else x.hardest.ratio >= _MANY * mine.ratio)
            and any(start < end_b and end > start_b for start, end in spans for start_b, end_b in x.spans)
        ]


def suspects_of(tables: Tables, signals: Sequence[Signal], links: pl.DataFrame, repeats: Repeats, slow: Slow, params: Params) -> list[Suspect]:
    """One per link with a hard signal, and one of all others with soft ones; the best supported first.

    First come links whose counters show an effect, then ports that carry more than their equals, then links of whose effect
    nothing is known.
    """
    by_link: dict[int, list[Signal]] = {}
    for s in signals:
        by_link.setdefault(s.link, []).append(s)
    hard = {link: mine for link, mine in by_link.items() if any(s.family not in _SOFT for s in mine)}
    found = [Suspect(_kind(mine, slow, params), (link,), tuple(mine), _effect(link, mine, repeats)) for link, mine in hard.items()]
    left = [s for s in signals if s.link not in hard]
    soft = [s for s in left if s.family in ("paused", "marked")] or [s for s in left if s.family == "waiting"]
    if soft:
        tiers = dict(links.select("link", "tier").iter_rows())
        loudest = sorted({s.link for s in soft}, key=lambda link: (-tiers[link], -max(s.ratio for s in soft if s.link == link)))
        alone = len(loudest) == 1 and all(s.family == "waiting" for s in soft)
        found.append(Suspect("slow_link" if alone else "congestion", tuple(loudest), tuple(soft), "shown"))

    def place(suspect: Suspect) -> tuple[object, ...]:
        if suspect.kind == "congestion":
            return (1 if overloaded(tables, suspect.links[0], links) >= params.imbalance else 3,)
        return ({"shown": 0, "unknown": 2, "none": 4}[suspect.effect], *_loudness(suspect.signals), suspect.links[0])

    return sorted(found, key=place)


def _loudness(signals: Sequence[Signal]) -> tuple[int, int, float]:
    """Sorts links by their hardest signal, then by how many counters of both ends agree, then by how far they stand out."""
    hardest = min(HARDNESS.index(s.family) for s in signals)
    return hardest, -len(signals), -max(s.ratio for s in signals if HARDNESS.index(s.family) == hardest)


def _effect(link: int, signals: Sequence[Signal], repeats: Repeats) -> Effect:
    """Damaged and dropped packets cost time where packets are sent again or wait; where that is counted and did not rise, they cost none."""
    families = {s.family for s in signals}
    if "degraded" in families or not families.isdisjoint(_EFFECTS):
        return "shown"
    lost = max((s.count for s in signals if s.family in ("integrity", "discards")), default=0.0)
    if repeats.count and lost >= _EXPLAINED * repeats.count:
        return "shown"
    if "down" in families:
        return "unknown"
    return "none" if link in repeats.links else "unknown"


def _kind(signals: Sequence[Signal], slow: Slow, params: Params) -> FindingKind:
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
    link = signals[0].link
    slowness, speed = slow.of(link, params.efficiency), slow.speed_bps(link)
    if slowness is None or not speed:
        return "slow_link"
    packets = max(slow.bytes_per_s(link), speed / 8 * 0.01) / params.packet_bytes
    more = lost / packets * speed / 8 * params.round_trip_s / params.packet_bytes
    return "packet_loss" if more >= 0.5 * (slowness.beside([s for x in signals for s in x.rises]).ratio - 1) else "slow_link"


def fits(suspect: Suspect, slow: Slow, mine: Slowness, elsewhere: Sequence[tuple[int, int]], params: Params) -> bool:
    """Whether transfers were slow where and when the suspect says, and not as slow elsewhere.

    `mine`: the transfers that no stronger suspect explains; `elsewhere`: when others stand out. Compared with the transfers of
    other times, and with those of the same time that do not use the link, where there are enough.
    """
    beside = mine.beside(suspect.spans)
    excess = beside.ratio - 1
    if not len(beside) or excess <= 0:
        return False
    apart = mine.apart([*suspect.spans, *elsewhere])
    if len(apart) >= _ENOUGH and apart.ratio - 1 > 0.5 * excess:
        return False
    if suspect.kind == "link_flap" and len(apart) < _ENOUGH <= len(beside) and beside.concentration > _FEW:
        return False
    others = slow.of(suspect.links[0], params.efficiency, uses=False) if suspect.kind != "congestion" else None
    if others is None:
        return True
    control, own = others.beside(suspect.spans).alone(), beside.alone()
    return min(len(control), len(own)) < _ENOUGH or control.ratio - 1 < 0.5 * (own.ratio - 1)


def overloaded(tables: Tables, number: int, links: pl.DataFrame) -> float:
    """What the port carries, over the mean of the ports of its switch in its tier (of the same adapters of other hosts)."""
    row = links.filter(pl.col("link") == number).row(0, named=True)
    equals = links.filter((pl.col("tier") == row["tier"]) & ((pl.col("a_node") == row["a_node"]) if row["tier"] else (pl.col("rail") == row["rail"])))
    rates = carried(counted(tables).rates.filter(pl.col("link").is_in(equals["link"].implode())), "bytes")
    per_way = rates.with_columns(pl.col("per_s").mean().over("side", "direction").alias("mean")).filter((pl.col("link") == number) & (pl.col("mean") > 0))
    return float(per_way.select((pl.col("per_s") / pl.col("mean")).max()).item() or 0.0)
