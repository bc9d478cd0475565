"""Who sends how much to whom: matrices of GPU pairs and of hosts, bytes per network device, volume per step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracelab.results import Section
from tracelab.units import format_bytes
from tracelab_reports.figures import Bars, Figure, Line, SectionBody, Series, byte_scale, color_of, columns, numbers, whole
from tracelab_reports.matrices import Cell, Matrix, axis_names, ends_of
from tracelab_reports.sections.pairs import MAX_SIDE, pair_matrix, top_pairs
from tracelab_reports.words import plural

__all__ = ["build"]

_MAX_BARS = 40
_MAX_NAME = 24


def build(section: Section) -> SectionBody:
    """Matrices of pairs, of what differs from rings in rank order, and of hosts; bars of network devices; a line of the volume per step."""
    figures = [
        pair_matrix(section),
        pair_matrix(section, difference=True),
        _host_matrix(section),
        _nics(section),
        _steps(section),
    ]
    top = top_pairs(section)
    return SectionBody([f for f in figures if f is not None], [top] if top else [])


def _host_matrix(section: Section) -> Matrix | None:
    found = columns(section, "traffic_hosts", "src_host", "dst_host", "bytes", "share", "pairs")
    if found is None:
        return None
    rows = [
        (src, dst, sent, share or 0.0, plural(pairs, "pair that sends", "pairs that send") if whole(pairs) else "unknown")
        for src, dst, sent, share, pairs in zip(*found[:2], numbers(found[2]), numbers(found[3]), found[4], strict=True)
        if isinstance(src, str) and isinstance(dst, str) and sent is not None and sent > 0
    ]
    places = columns(section, "traffic_places", "position", "host") or [[], []]
    ordered = [host for _, host in sorted(zip(*places, strict=True), key=lambda p: p[0] if whole(p[0]) else -1) if isinstance(host, str)]
    names = list(dict.fromkeys([*ordered, *(end for src, dst, *_ in rows for end in (src, dst))]))
    if len(names) < 2 or not rows:
        return None
    at = {name: i for i, name in enumerate(names)}
    together = math.ceil(len(names) / MAX_SIDE)
    cells = [Cell(at[src], at[dst], sent, share, 1.0, (pairs,)) for src, dst, sent, share, pairs in rows]
    most = max((c for c in cells if c.src != c.dst), key=lambda c: (c.value, -c.src, -c.dst), default=None)
    top = (
        " None sends to another."
        if most is None
        else f" Between hosts the highest is {format_bytes(most.value)}, {_short(names[most.src])} to {_short(names[most.dst])}."
    )
    many = f" Each cell adds up {together} neighbouring hosts on either side." if together > 1 else ""
    return Matrix(
        id="traffic-hosts",
        title="Bytes per pair of hosts",
        alt=f"Matrix of {len(names)} by {len(names)} hosts.{top}",
        table="traffic_hosts",
        note="Rows send, columns receive; the diagonal is what stays inside a host. Empty: no bytes." + many,
        place_word="host",
        numbers=range(len(names)),
        names=[_short(n) for n in names],
        ticks=axis_names(names),
        inner=[],
        blocks=[],
        cells=_coarse(cells, together),
        both=[],
        facts=("ranks",),
        x_label="receiver",
        y_label="sender",
        value_label="bytes",
        together=together,
    )


def _short(name: str) -> str:
    return ends_of(name, _MAX_NAME)


def _coarse(cells: Sequence[Cell], together: int) -> list[Cell]:
    """Cells of neighbours added up, `together` on either side."""
    if together == 1:
        return list(cells)
    groups: dict[tuple[int, int], list[Cell]] = {}
    for c in cells:
        groups.setdefault((c.src // together * together, c.dst // together * together), []).append(c)
    added = ((at, sum(c.value for c in group), sum(c.share for c in group)) for at, group in sorted(groups.items()))
    return [Cell(src, dst, value, share, 1.0, ("several hosts",)) for (src, dst), value, share in added]


def _nics(section: Section) -> Bars | None:
    found = columns(section, "traffic_nics", "host", "nic", "bytes")
    if found is None:
        return None
    known = zip(*found[:2], numbers(found[2]), strict=True)
    rows = [(host, nic, sent) for host, nic, sent in known if isinstance(host, str) and isinstance(nic, str) and sent is not None and sent >= 0]
    rows.sort(key=lambda r: (-r[2], r[0], r[1]))
    if not rows:
        return None
    shown = sorted(rows[:_MAX_BARS], key=lambda r: (r[0], r[1]))
    size, unit = byte_scale([b for *_, b in shown])
    many = f" Shown are the {_MAX_BARS} of {len(rows)} devices with the most bytes." if len(rows) > _MAX_BARS else ""
    return Bars(
        id="traffic-nics",
        title="Bytes that leave through each network device",
        alt=f"Bars of {len(shown)} network devices. The most bytes leave {_short(rows[0][0])} through {_short(rows[0][1])}: {format_bytes(rows[0][2])}.",
        table="traffic_nics",
        note=f"Devices of one host that carry very different amounts are rails used unevenly.{many}",
        categories=[f"{_short(h)} {_short(n)}" for h, n, _ in shown],
        series=[Series("sent", [b / size for *_, b in shown], color_of("transfer"))],
        category_label="device",
        value_label="bytes",
        unit=unit,
    )


def _steps(section: Section) -> Figure | None:
    found = columns(section, "traffic_steps_total", "step", "bytes")
    if found is None:
        return None
    rows = sorted((step, sent) for step, sent in zip(found[0], numbers(found[1]), strict=True) if whole(step) and sent is not None and sent >= 0)
    amounts = [sent for _, sent in rows]
    if len(rows) < 2 or not any(amounts):
        return None
    size, unit = byte_scale(amounts)
    return Line(
        id="traffic-steps",
        title="Bytes per step",
        alt=f"Line: bytes of {len(rows)} steps, from {format_bytes(min(amounts))} to {format_bytes(max(amounts))}.",
        table="traffic_steps_total",
        note="Payload of all pairs together.",
        x=[step for step, _ in rows],
        y=[v / size for v in amounts],
        x_label="step",
        y_label="bytes",
        unit=unit,
    )
