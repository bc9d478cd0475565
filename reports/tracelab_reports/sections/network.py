"""The sections of the network: which link is to blame and where it hangs, how full links were, and the rest with what stands out first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from tracelab.results import DataColumn, DataTable, RunResult, Section
from tracelab_reports.figures import SectionBody
from tracelab_reports.linkfigures import Wire, WireBlock, Wiring
from tracelab_reports.sections.cabling import Cable, cables_of, natural, rows_of
from tracelab_reports.sections.loads import levels_figure, loads_figure
from tracelab_reports.words import plural, shorten

__all__ = ["build_counters", "build_faults", "build_links"]

_MAX_WIRES = 10
"""Links on one side of a switch in the sketch."""
_MAX_ROWS = 40
_UNKNOWN = "not known"
_CAVEAT = (
    "The lines at 60 to 80 % (mean) and 95 % (peak) are in common use for planning capacity, and no rule of health: training sends in bursts "
    "and is silent in between, so that a link may be full inside each collective and far below the lines in the mean."
)


def build_faults(section: Section, result: RunResult) -> SectionBody:
    """The signals, those of blamed links first, and the sketch of the wiring with these links marked."""
    cables = cables_of(result)
    sketch = _wiring(cables)
    tables = [_signals(t, cables) for t in section.tables if t.id == "link_signals"]
    if sketch is not None:
        tables.append(_wiring_table(cables))
    return SectionBody([sketch] if sketch else [], tables=tables)


def build_links(section: Section, result: RunResult) -> SectionBody:
    """Load over time, mean to peak per link, and the tables with the fullest first."""
    cables = cables_of(result)
    figures = [loads_figure(section, result, cables), levels_figure(section, cables)]
    shown = [f for f in figures if f is not None]
    return SectionBody(shown, [_CAVEAT] if any(f.guides for f in shown) else [], _outstanding(section, cables))


def build_counters(section: Section, result: RunResult) -> SectionBody:
    """The tables alone, with the rows that stand out first."""
    return SectionBody(tables=_outstanding(section, cables_of(result)))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


_Key = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _highest(row: tuple[Any, ...]) -> tuple[float, ...]:
    return tuple(-abs(_number(v)) if not isinstance(v, bool) else -float(v) for v in row)


def _named(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A column that is null where nothing stands out, then numbers."""
    return (row[0] in (None, "none", ""), *_highest(row[1:]))


_ORDER: Mapping[str, tuple[tuple[str, ...], _Key]] = {
    "link_utilisation": (("peak", "mean", "bytes_per_s"), _highest),
    "link_balance": (("uneven", "max_over_mean"), _highest),
    "link_disagreements": (("contradicts", "difference"), _highest),
    "loss": (("verdict", "share", "lost"), _named),
    "loss_counters": (("per_million", "total"), _highest),
    "pause_ports": (("heavy", "paused_share", "frames"), _highest),
    "congestion_marks": (("stands_out", "times"), _highest),
    "link_health": (("suspect", "flaps", "a_errors", "b_errors"), _named),
    "link_errors": (("pattern", "total"), _named),
    "link_levels": (("outside",), _highest),
    "queue_fill": (("times_peers", "bytes"), _highest),
    "traffic_classes": (("doubtful", "drops", "bytes"), _highest),
}
"""What a table is sorted by, so that what stands out is on the page where the table is longer than that."""
_PLACE = frozenset({"link", "side", "tier", "rail", "used"})


def _outstanding(section: Section, cables: Mapping[int, Cable]) -> list[DataTable]:
    return [_sorted(t, cables) for t in section.tables if t.id in _ORDER]


def _sorted(table: DataTable, cables: Mapping[int, Cable]) -> DataTable:
    """Links that a finding names first, then what the table says stands out, then as it was."""
    names, key = _ORDER[table.id]
    by_row = [(not _verdict(link, cables), key(values)) for (link, *_), values in zip(rows_of(table, "link"), rows_of(table, *names), strict=True)]
    order = sorted(range(table.rows), key=by_row.__getitem__)
    taken = _taken(table, order)
    # what a port is like stands behind what it counted: else that would be beyond the edge of a screen
    last = [c for c in taken.columns if c.name in _PLACE]
    return _with_verdicts(msgspec.structs.replace(taken, columns=[*(c for c in taken.columns if c.name not in _PLACE), *last]), cables)


def _verdict(link: Any, cables: Mapping[int, Cable]) -> str:
    cable = cables.get(link) if isinstance(link, int) else None
    return cable.verdict if cable else ""


def _taken(table: DataTable, order: Sequence[int]) -> DataTable:
    if any(len(c.values) != table.rows for c in table.columns):
        return table
    columns = [msgspec.structs.replace(c, values=[c.values[i] for i in order]) for c in table.columns]
    return msgspec.structs.replace(table, columns=columns)


def _with_verdicts(table: DataTable, cables: Mapping[int, Cable]) -> DataTable:
    """The table with a first column that names the finding about the link, where there is any."""
    said = [_verdict(link, cables) for (link,) in rows_of(table, "link")]
    if not any(said):
        return table
    column = DataColumn("finding", "", "what a finding calls this link", [f"▲ {text}" if text else None for text in said])
    return msgspec.structs.replace(table, columns=[column, *table.columns])


def _signals(table: DataTable, cables: Mapping[int, Cable]) -> DataTable:
    links = [link for (link,) in rows_of(table, "link")]
    return _with_verdicts(_taken(table, sorted(range(table.rows), key=lambda i: not _verdict(links[i], cables))), cables)


def _blocks(cables: Mapping[int, Cable]) -> list[tuple[str, list[Cable], list[Cable]]]:
    """Switches with the links below and above them: those with a blamed link first, then those with signals, then by name."""
    below: dict[str, list[Cable]] = {}
    above: dict[str, list[Cable]] = {}
    for cable in cables.values():
        if cable.a is None or cable.used is False:
            continue
        if cable.tier == 0 or (cable.tier is None and cable.b is not None):
            below.setdefault(cable.b[0] if cable.b else "", []).append(cable)
        else:
            above.setdefault(cable.a[0], []).append(cable)

    def place(switch: str) -> tuple[bool, bool, list[tuple[int, int | str]]]:
        mine = (*below.get(switch, ()), *above.get(switch, ()))
        return not any(c.verdicts for c in mine), not any(c.families for c in mine), natural(switch)

    order = sorted({*below, *above}, key=place)
    return [
        (
            switch,
            sorted(below.get(switch, ()), key=lambda c: natural(f"{c.b[1]} {c.a}" if c.b else str(c.a))),
            sorted(above.get(switch, ()), key=lambda c: natural(c.a[1] if c.a else "")),
        )
        for switch in order
    ]


def _wiring(cables: Mapping[int, Cable]) -> Wiring | None:
    everything = _blocks(cables)
    blocks: list[WireBlock] = []
    for switch, below, above in everything:
        block = WireBlock(
            shorten(switch, 32) if switch else f"switch {_UNKNOWN}",
            [_wire(c, up=False) for c in _some(below)],
            [_wire(c, up=True) for c in _some(above)],
            max(0, len(below) - _MAX_WIRES),
            max(0, len(above) - _MAX_WIRES),
        )
        if blocks and sum(b.rows for b in blocks) + block.rows > _MAX_ROWS:
            break
        blocks.append(block)
    wires = [w for b in blocks for w in (*b.below, *b.above)]
    if not wires:
        return None
    total = sum(len(below) + len(above) for _, below, above in everything)
    named = [c.name for c in cables.values() if c.verdicts]
    many = f" Shown are {len(wires)} of {total:,} links, at {len(blocks)} of {len(everything):,} switches; those of findings come first."
    said = f"Named in findings: {', '.join(named[:3])}{f' and {len(named) - 3} more' if len(named) > 3 else ''}." if named else "No finding names a link."
    return Wiring(
        id="network-wiring",
        title="Where the links hang",
        alt=f"Sketch of {plural(len(blocks), 'switch', 'switches')} with {plural(len(wires), 'link')}. {said}",
        table="wiring",
        note="Each box is a switch with its ports: hosts and lower switches on its left, what it hangs on itself on its right."
        + (many if total > len(wires) else ""),
        blocks=blocks,
    )


def _some(cables: Sequence[Cable]) -> list[Cable]:
    """As many as fit: blamed ones and those with signals in any case, in the order that they have."""
    kept = sorted(range(len(cables)), key=lambda i: (not cables[i].verdicts, not cables[i].families, i))[:_MAX_WIRES]
    return [cables[i] for i in sorted(kept)]


def _wire(cable: Cable, *, up: bool) -> Wire:
    far, near = (cable.b, cable.a) if up else (cable.a, cable.b)
    return Wire(
        cable.end_text(far) if far else f"other end {_UNKNOWN}",
        shorten(near[1], 20) if near else "",
        cable.verdict.lower(),
        "" if cable.verdicts else ", ".join(cable.families),
        cable.used is True,
    )


def _wiring_table(cables: Mapping[int, Cable]) -> DataTable:
    """One row per link, grouped by switch, in the order of the sketch."""
    rows = [
        (cable.number, switch or None, "up" if is_up else "down", *_row(cable, up=is_up))
        for switch, below, above in _blocks(cables)
        for is_up, group in groupby([*((False, c) for c in below), *((True, c) for c in above)], key=lambda pair: pair[0])
        for _, cable in group
    ]
    names = (
        ("link", "row of `links`"),
        ("switch", "switch; empty where not known"),
        ("way", "down to hosts, or up to other switches"),
        ("port", "port of the switch"),
        ("to", "host or other switch"),
        ("its port", "adapter of the host, or port of the other switch"),
        ("tier", "0 host to leaf, 1 leaf to spine, 2 above"),
        ("used", "the job's data take this link"),
        ("stands out", "kinds of counters that stand out beside those of the other links"),
        ("points to", "what the counters of both ends point to"),
    )
    columns = [DataColumn(name, "", doc, [row[i] for row in rows]) for i, (name, doc) in enumerate(names)]
    return _with_verdicts(DataTable("wiring", "Links of the job by switch", columns), cables)


def _row(cable: Cable, *, up: bool) -> tuple[Any, ...]:
    far, near = ((end or (None, None)) for end in ((cable.b, cable.a) if up else (cable.a, cable.b)))
    return near[1], far[0], far[1], cable.tier, cable.used, ", ".join(cable.families) or None, cable.suspect or None
