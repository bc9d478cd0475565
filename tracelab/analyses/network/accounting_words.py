"""The answer of the accounting in words, and what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracelab.analyses.network.counter_clocks import CounterClock
from tracelab.analyses.network.ends import label, listed, several, shown
from tracelab.analyses.network.headers import Headers
from tracelab.results import NotObservable
from tracelab.units import format_bytes, format_duration, format_share

__all__ = ["answer_of", "not_observable_of"]

_QUESTION = "Do the counters agree with what the job sent?"


def answer_of(bytes_: pl.DataFrame, clocks: Mapping[str, CounterClock], rises: pl.DataFrame, headers: Headers, *, logged: bool) -> str:
    """The answer. `logged`: logs state the protocol of nearly all bytes."""
    return " ".join([_agreement(bytes_, headers), *_apart(bytes_, logged=logged), *_clock_words(clocks), *_rise_words(rises)])


def _agreement(bytes_: pl.DataFrame, headers: Headers) -> str:
    judged = bytes_.filter(~pl.col("verdict").is_in(["not compared", "unclear", "beyond"]))
    if not judged.height:
        counters = several(bytes_.height, "counter")
        return f"Whether the counters agree with what the job sent cannot be told: of {counters} of bytes none can be compared closely."
    agrees = judged.filter((pl.col("verdict") == "agrees") & (pl.col("predicted_bytes") > 0))
    text = f"{agrees.height} of {several(judged.height, 'counter')} of bytes agree with what the job sent ({headers.origin})"
    if agrees.height:
        worst = agrees.sort(pl.col("difference").abs(), descending=True).row(0, named=True)
        text += f"; at most {format_share(abs(worst['difference']))} apart"
    open_ = bytes_.height - judged.height
    around = (judged["scope"] == "around").any()
    return f"{text}{f', {open_} cannot be judged' if open_ else ''}.{' Samples reach beyond the captures: only totals can be compared.' if around else ''}"


_WORDS = {
    "nothing": ("counted nothing", "the adapter is not used, or this counter does not see its traffic"),
    "less": ("counted less", "the data take another way than the map of ranks to adapters says"),
    "more": ("counted more", "packets sent again, or other traffic"),
    "unpredicted": ("counted what no operation explains", "other traffic, or the map of ranks to adapters is wrong"),
}


def _apart(bytes_: pl.DataFrame, *, logged: bool) -> list[str]:
    out = []
    for verdict, (what, why) in _WORDS.items():
        rows = bytes_.filter(pl.col("verdict") == verdict)
        if not rows.height:
            continue
        rows = rows.with_columns((pl.col("counted_bytes") - pl.col("predicted_bytes")).abs().alias("apart"))
        rows = rows.sort("apart", "link", "side", "direction", descending=[True, False, False, False])
        names = listed([_amount(row) for row in rows.head(4).iter_rows(named=True)] + [""] * (rows.height - 4)) if rows.height > 0 else ""
        # one adapter more and the other less, together right: the bytes are there, and lie elsewhere
        elsewhere = verdict != "more" and rows["host_difference"].is_not_null().all() and (rows["host_difference"].abs() < 0.05).all()
        reason = why
        if elsewhere:
            reason = "all adapters of the host together agree: the data take other ones than the map of ranks to adapters says"
        elif verdict == "more" and not logged and 2 * rows.height > (bytes_["predicted_bytes"] > 0).sum():
            reason += ", or a protocol that no log states (LL128 adds 6.7 %)"
        out.append(f"{what[:1].upper()}{what[1:]}: {names} ({reason}).")
    return out


def _amount(row: dict[str, object]) -> str:
    """A port with its difference and the interval of it."""
    name = f"{label(row)} {row['direction']}"
    difference, low, high = (row[c] for c in ("difference", "difference_low", "difference_high"))
    if not isinstance(difference, float) or not isinstance(low, float) or not isinstance(high, float):
        return f"{name} {format_bytes(float(str(row['counted_bytes'])))}"
    if row["verdict"] == "nothing":
        return f"{name} instead of {format_bytes(float(str(row['predicted_bytes'])))}"
    if low <= 0 <= high and isinstance(row["beside_peers"], float):
        return f"{name} {100 * row['beside_peers']:+.1f} % beside {int(str(row['peers'])) - 1} alike"
    return f"{name} {100 * difference:+.1f} % ({100 * low:+.1f} to {100 * high:+.1f} %)"


def _clock_words(clocks: Mapping[str, CounterClock]) -> list[str]:
    out = []
    apart = [c for c in clocks.values() if c.fit.status == "found" and abs(c.shift_ns) > c.uncertainty_ns and abs(c.shift_ns) > _SMALL_NS]
    for c in sorted(apart, key=lambda c: (-abs(c.shift_ns), c.name))[:3]:
        way = "ahead of" if c.shift_ns > 0 else "behind"
        out.append(f"The clock that stamped the counters of {shown(c.name)} is {format_duration(abs(c.shift_ns))} {way} the job's (± {_near(c)}).")
    for c in [c for c in clocks.values() if c.fit.status == "ambiguous"][:2]:
        lags = listed([format_duration(k.lag_ns) for k in c.fit.candidates], 4)
        out.append(f"The clock of the counters of {shown(c.name)} may be off by {lags}: the job repeats itself, and each explains the counts.")
    return out


_SMALL_NS = 20_000_000
"""Below that, the moments of a sample are no better known."""


def _near(clock: CounterClock) -> str:
    return format_duration(max(3 * clock.fit.candidates[0].se_ns, 1e6))


def _rise_words(rises: pl.DataFrame) -> list[str]:
    """When counters that stand out rose, if not in most of the samples."""
    rows = rises.filter(pl.col("stands_out") & (pl.col("share_of_time") <= 0.5) & (pl.col("intervals") >= 4))
    if not rows.height:
        return []
    top = rows.sort("share_of_time", "link", "side", "counter", "times", descending=[False, False, False, False, True]).row(0, named=True)
    ports = rows.select("node", "port").unique().height
    where = f"{label(top)} {top['counter'].replace('_', ' ')}"
    exact = "in" if top["shows_steps"] else "in samples that hold"
    text = f"Counters that stand out rose in a part of the samples at {several(ports, 'port')}; the shortest time: {where} {exact} steps {top['steps']}"
    return [f"{text} (resolution {format_duration(top['resolution_ns'])}: no single operation can be told)."]


def not_observable_of(bytes_: pl.DataFrame, clocks: Mapping[str, CounterClock], rises: pl.DataFrame) -> tuple[NotObservable, ...]:
    """What stays open, and what to collect."""
    out = []
    closed = bytes_.filter(pl.col("verdict").is_in(["not compared", "unclear", "beyond"]))
    if closed.height:
        limits = "too few whole samples inside the captures, resets, or moments too uncertain"
        reason = f"{several(closed.height, 'counter')} of {bytes_.height} cannot be compared: {limits}"
        out.append(NotObservable(_QUESTION, reason, "64-bit byte counters every second with the moment of each sample, and captures of a minute"))
    unsure = [c for c in clocks.values() if c.fit.status != "found" and not c.host]
    if unsure:
        words = {
            "few": "too few samples lie inside the captures for shifts of more than a step",
            "ambiguous": "the job repeats itself and several shifts explain the counts",
            "edge": "no shift that was tried explains the counts",
            "flat": "all shifts explain the counts alike",
        }
        reason = f"{listed([shown(c.name) for c in unsure])}: {words[unsure[0].fit.status]}"
        collect = "counters over a longer time with an irregular event in it (a checkpoint, an evaluation), or a log of the offset of their NTP or PTP"
        out.append(NotObservable("How far are the clocks of switches and collectors from the job's?", reason, collect))
    loud = rises.filter("stands_out")
    if loud.height:
        finest = float(loud["resolution_ns"].min())  # type: ignore[arg-type]
        reason = f"samples with their moments tell nothing apart that is closer than {format_duration(finest)}"
        out.append(NotObservable("Which single operation made a counter rise?", reason, "streaming telemetry or events of queues below a millisecond"))
    return tuple(out)
