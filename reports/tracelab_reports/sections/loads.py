"""How full links were: over time beside the steps of the job, and from mean to peak."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracelab.results import RunResult, Section
from tracelab.units import format_bytes, format_share
from tracelab_reports.figures import COLORS, byte_scale, columns, numbers, optional_column, scale, whole
from tracelab_reports.linkfigures import MARKS, MEAN_LINES, PEAK_LINE, Guide, Levels, LinkBar, LoadLine, Loads, StepMark
from tracelab_reports.sections.cabling import Cable
from tracelab_reports.words import plural

__all__ = ["levels_figure", "loads_figure"]

LOAD_TABLE = "link_load"
"""Rows: link, side, direction, start_ns, end_ns, bytes_per_s, utilisation. One per interval between two samples."""
_MAX_LINES = 5
_MAX_BARS = 20
_MAX_STEPS = 120
_MAX_POINTS = 600
_LINE_COLORS = (COLORS[3], COLORS[0], COLORS[1], COLORS[2], COLORS[5])
_WAYS = {("tx", "a"): True, ("rx", "a"): False, ("tx", "b"): False, ("rx", "b"): True}
"""Whether bytes go up, by direction and side of the end that counts."""


@dataclass(frozen=True)
class _Load:
    """What one end of a link counted in one direction."""

    link: int
    up: bool
    side: str
    rate: float
    mean: float | None
    p95: float | None
    peak: float | None

    @property
    def size(self) -> tuple[float, float]:
        """Sorts by how full it was."""
        return max(self.peak or 0.0, self.mean or 0.0), self.rate


def _loads(section: Section, cables: Mapping[int, Cable]) -> dict[tuple[int, bool], _Load]:
    """One per link and direction, as the lower end counts it, or the other where that has no exact counter; links of other jobs left out."""
    found = columns(section, "link_utilisation", "link", "side", "direction", "bytes_per_s")
    if found is None:
        return {}
    rest = [numbers(optional_column(section, "link_utilisation", name) or [None] * len(found[0])) for name in ("mean", "p95", "peak")]
    bounds = optional_column(section, "link_utilisation", "lower_bound") or [False] * len(found[0])
    rows = zip(*found[:3], numbers(found[3]), *rest, bounds, strict=True)
    best: dict[tuple[int, bool], tuple[tuple[bool, str], _Load]] = {}
    for link, side, direction, rate, mean, p95, peak, bound in rows:
        up = _WAYS.get((direction, side)) if isinstance(direction, str) and isinstance(side, str) else None
        if up is None or rate is None or rate < 0 or not whole(link) or link not in cables or cables[link].used is False:
            continue
        trust = (bound is True, side)
        if (link, up) not in best or trust < best[link, up][0]:
            best[link, up] = trust, _Load(link, up, side, rate, mean, p95, peak)
    return {key: load for key, (_, load) in best.items()}


def _chosen(loads: Mapping[tuple[int, bool], _Load], cables: Mapping[int, Cable], most: int) -> list[int]:
    """Links to show, in order of their number: those of findings, then the fullest."""
    fullest: dict[int, tuple[float, float]] = {}
    for (link, _), load in loads.items():
        fullest[link] = max(fullest.get(link, (0.0, 0.0)), load.size)
    order = sorted(fullest, key=lambda n: (not cables[n].verdicts, -fullest[n][0], -fullest[n][1], n))
    return sorted(order[:most])


def _name(cable: Cable) -> str:
    return f"▲ {cable.name}" if cable.verdicts else cable.name


_GUIDES = (Guide(MEAN_LINES, "Line of the mean, 60 to 80 %", 60.0, 80.0), Guide(PEAK_LINE, "Line of the peak, 95 %", 95.0, 95.0))


def levels_figure(section: Section, cables: Mapping[int, Cable]) -> Levels | None:
    """Mean, 95th percentile and peak of the fullest links; bytes per second where no speed is known."""
    everything = _loads(section, cables)
    known = {key: load for key, load in everything.items() if load.mean is not None}
    loads, share = known or everything, bool(known)
    if not any(load.rate for load in loads.values()):
        return None
    links = _chosen(loads, cables, _MAX_BARS)
    size, unit = (0.01, "%") if share else byte_scale([load.rate for load in loads.values()])
    rows = [loads[key] for link in links for key in ((link, True), (link, False)) if key in loads]
    top = max(loads.values(), key=lambda x: (x.size, -x.link, x.up))
    amount = f"{format_share(top.size[0])} in its fullest interval" if share else f"{format_bytes(top.rate)}/s in the mean"
    blind = len({link for link, _ in everything}) - len({link for link, _ in loads})
    said = ["As the lower end of each link counts it; the upper end where that has no counter.", *_reading(loads, links, cables, share=share)]
    said += [f"{plural(blind, 'link')} without a stated speed: see the table."] if blind else []
    said += [] if share else ["No source states the speed of these links, so that how full they were is not known."]
    return Levels(
        id="link-levels",
        title="How full each link was: mean, 95th percentile and peak" if share else "What each link carried in the mean",
        alt=f"Bars of {plural(len(links), 'link')}, both directions. The fullest is {cables[top.link].name}, {'up' if top.up else 'down'}: {amount}.",
        table="link_utilisation",
        note=" ".join(said),
        bars=[_bar(load, _name(cables[load.link]), size, share=share) for load in rows],
        guides=_GUIDES if share else (),
        value_label="utilisation" if share else "bytes per second",
        unit="%" if share else f"{unit}/s",
    )


def _reading(loads: Mapping[tuple[int, bool], _Load], links: Sequence[int], cables: Mapping[int, Cable], *, share: bool) -> list[str]:
    """What marks mean, what the reader can do, and which links are shown."""
    count = len({link for link, _ in loads})
    said = ["▲: a finding names this link."] if any(cables[link].verdicts for link in links) else []
    said += ["Drag the lines to move them; the buttons hide them."] if share else []
    return said + ([f"Shown are {len(links)} of {count:,} links, those of findings and the fullest."] if count > len(links) else [])


def _bar(load: _Load, name: str, size: float, *, share: bool) -> LinkBar:
    if not share:
        return LinkBar(name, load.up, load.rate / size, None, None)
    p95, peak = (None if v is None else v / size for v in (load.p95, load.peak))
    return LinkBar(name, load.up, (load.mean or 0.0) / size, p95, peak)


_Spans = list[tuple[float, float, float]]


def loads_figure(section: Section, result: RunResult, cables: Mapping[int, Cable]) -> Loads | None:
    """Load over time; None where the section has no series."""
    everything = _loads(section, cables)
    share, series = _series(section, everything)
    if not series:
        return None
    loads = {key: everything[key] for key in series}
    origin = result.run.start_ns if result.run.start_ns is not None else int(min(spans[0][0] for spans in series.values()))
    x_size, x_unit = scale([spans[-1][1] - origin for spans in series.values()])
    y_size, y_unit = (0.01, "%") if share else byte_scale([v for spans in series.values() for *_, v in spans])
    placed = {key: [((a - origin) / x_size, (b - origin) / x_size, v / y_size) for a, b, v in spans] for key, spans in series.items()}
    links = sorted(_chosen(loads, cables, _MAX_LINES), key=lambda n: not cables[n].verdicts)
    others = len({link for link, _ in placed}) - len(links)
    steps, together = _steps(result, origin, x_size)
    highest = max(v for spans in placed.values() for *_, v in spans)
    y_unit = y_unit if share else f"{y_unit}/s"
    said = ["Each value is the mean over the interval between two samples; shorter bursts do not show."]
    said += ["The boxes above are the steps of the job." if together == 1 else f"The boxes above are {together} steps of the job each."] if steps else []
    said += [*_reading(loads, links, cables, share=share), *(["The others lie in the band."] if others else [])]
    return Loads(
        id="link-loads",
        title="How full links were over time" if share else "What links carried over time",
        alt=f"Lines of {plural(len(links), 'link')}, both directions, below the steps of the job. The highest value of any link is {highest:.3g} {y_unit}.",
        table=LOAD_TABLE,
        note=" ".join(said),
        lines=_lines(placed, links, cables),
        others=_band([spans for (link, _), spans in placed.items() if link not in links]),
        others_label=f"{plural(others, 'other link')}, lowest to highest",
        steps=steps,
        guides=_GUIDES if share else (),
        x_label="after job start" if result.run.start_ns is not None else "after the first sample",
        x_unit=x_unit,
        y_label="utilisation" if share else "bytes per second",
        y_unit=y_unit,
    )


def _lines(placed: Mapping[tuple[int, bool], _Spans], links: Sequence[int], cables: Mapping[int, Cable]) -> list[LoadLine]:
    """Up and down of each link in its colour and with its mark."""
    looks = {link: (color, mark) for link, color, (mark, _) in zip(links, _LINE_COLORS, MARKS, strict=False)}
    keys = [(link, up) for link in links for up in (True, False) if (link, up) in placed]
    return [LoadLine(_name(cables[link]), "up" if up else "down", up, *looks[link], placed[link, up]) for link, up in keys]


def _series(section: Section, loads: Mapping[tuple[int, bool], _Load]) -> tuple[bool, dict[tuple[int, bool], _Spans]]:
    """Intervals of each link and direction in order, of the end that `loads` took; whether the values are shares of the speed."""
    found = columns(section, LOAD_TABLE, "link", "side", "direction", "start_ns", "end_ns", "bytes_per_s")
    if found is None:
        return False, {}
    shares = numbers(optional_column(section, LOAD_TABLE, "utilisation") or [None] * len(found[0]))
    share = any(v is not None for v in shares)
    out: dict[tuple[int, bool], _Spans] = {}
    for link, side, direction, start, end, rate, part in zip(*found[:5], numbers(found[5]), shares, strict=True):
        up = _WAYS.get((direction, side)) if isinstance(direction, str) and isinstance(side, str) else None
        value = part if share else rate
        if up is None or not whole(link) or value is None or value < 0 or not (isinstance(start, int) and isinstance(end, int) and start < end):
            continue
        if (link, up) in loads and loads[link, up].side == side:
            out.setdefault((link, up), []).append((start, end, value))
    return share, {key: _joined(sorted(spans)) for key, spans in sorted(out.items())}


def _joined(spans: _Spans) -> _Spans:
    """At most so many intervals: neighbours as one, with their highest value, so that no peak is lost."""
    step = math.ceil(len(spans) / _MAX_POINTS)
    groups = [spans[i : i + step] for i in range(0, len(spans), step)]
    return [(g[0][0], g[-1][1], max(v for *_, v in g)) for g in groups]


def _band(series: Sequence[_Spans]) -> list[tuple[float, float, float, float]]:
    """From the lowest to the highest value of all, in bins of time as long as the usual interval."""
    spans = [s for one in series for s in one]
    if not spans:
        return []
    first, last = min(a for a, *_ in spans), max(b for _, b, _ in spans)
    usual = sorted(b - a for a, b, _ in spans)[len(spans) // 2]
    bins = max(1, min(_MAX_POINTS, round((last - first) / usual)))
    width = (last - first) / bins
    seen: list[list[float]] = [[] for _ in range(bins)]
    for a, b, value in spans:
        for i in range(int((a - first) / width), min(bins, math.ceil((b - first) / width - 1e-9))):
            seen[i].append(value)
    return [(first + i * width, first + (i + 1) * width, min(values), max(values)) for i, values in enumerate(seen) if values]


def _step_rows(result: RunResult) -> list[tuple[int, int, int]]:
    section = result.section("steps")
    found = columns(section, "step_times", "step", "start_ns", "length_ns") if section else None
    rows: list[tuple[Any, Any, Any]] = list(zip(*found, strict=True)) if found else []
    return sorted((s, a, n) for s, a, n in rows if whole(s) and isinstance(a, int) and isinstance(n, int) and n > 0)


def _steps(result: RunResult, origin: int, size: float) -> tuple[list[StepMark], int]:
    """The steps on the axis of time, and how many are joined in one."""
    rows = _step_rows(result)
    together = max(1, math.ceil(len(rows) / _MAX_STEPS))
    groups = [rows[i : i + together] for i in range(0, len(rows), together)]
    marks = [
        StepMark(str(g[0][0]) if len(g) == 1 else f"{g[0][0]}–{g[-1][0]}", (g[0][1] - origin) / size, (g[-1][1] + g[-1][2] - origin) / size) for g in groups
    ]
    return marks, together
