"""Who sends how much to whom: matrices of GPU pairs and of hosts, bytes per network device, volume per step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tracelab.results import Section
from tracelab.units import format_bytes, format_share
from tracelab_reports.figures import Bars, Cell, Figure, Line, Matrix, SectionBody, Series, color_of, columns, numbers, whole
from tracelab_reports.words import rank_label, shorten

__all__ = ["build", "pair_matrix"]

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_MAX_BARS = 40
_MAX_SIDE = 320
"""Cells along a side of a matrix: with more, a cell would be thinner than two pixels, and a thin line of them vanish."""
_NOTE = "Senders from top to bottom, receivers from left to right, in the order of hosts and GPUs; lines are borders of hosts. Empty: no bytes."


def build(section: Section) -> SectionBody:
    """Matrices of pairs, of what differs from rings in rank order, and of hosts; bars of network devices; a line of the volume per step."""
    figures = [
        pair_matrix(section),
        pair_matrix(section, difference=True),
        _host_matrix(section),
        _nics(section),
        _steps(section),
    ]
    return SectionBody([f for f in figures if f is not None])


def byte_scale(values: Sequence[float]) -> tuple[float, str]:
    """The decimal unit in which the largest value is at least one: its size in bytes and its name."""
    largest = max((abs(v) for v in values), default=0.0)
    return next(((size, unit) for size, unit in _UNITS if largest >= size), (1.0, "B"))


def pair_matrix(section: Section, *, difference: bool = False, symmetric: bool = False) -> Matrix | None:
    """Bytes per pair of GPUs; `difference`: minus what rings in rank order would carry; `symmetric`: both directions added."""
    found = columns(section, "traffic_pairs", "src_position", "dst_position", "ranks", "bytes", "expected_bytes", "share", "transport", "rung")
    places = columns(section, "traffic_places", "position", "rank", "host")
    if found is None or places is None:
        return None
    src, dst, together, sent, expected, share, transport, rung = found
    order = sorted(zip(*places, strict=True))
    if [p for p, *_ in order] != list(range(len(order))) or not all(whole(v) for v in (*src, *dst)):
        return None
    values = [b - e for b, e in zip(sent, expected, strict=True)] if difference else list(sent)
    if difference and not any(values):
        return None
    size, unit = byte_scale(values)
    cells = [
        Cell(s, d, v / size, _text(v if difference else b, sh, t, r))
        for s, d, v, b, sh, t, r in zip(src, dst, values, sent, share, transport, rung, strict=True)
        if v
    ]
    if symmetric:
        cells = _both_ways(cells)
    shared = max(together[0], math.ceil(len(order) / _MAX_SIDE))
    cells = _coarse(cells, shared)
    top = max(range(len(values)), key=lambda i: (abs(values[i]), -src[i], -dst[i]))
    names = [f"rank {rank_label(r)}" if len(order) <= 8 else rank_label(r) for _, r, _ in order]
    pair = f"rank {rank_label(order[src[top]][1])} to rank {rank_label(order[dst[top]][1])}"
    what = "more (or, where negative, less) than rings in rank order would carry" if difference else "bytes sent"
    blocks = [(next(iter(g))[0], host or "unknown host") for host, g in groupby(order, key=lambda p: p[2])]
    many = f" Each cell adds up {shared} neighbouring ranks on either side; the table has more." if shared > 1 else ""
    return Matrix(
        id="traffic-difference" if difference else "traffic-pairs",
        title="Bytes per GPU pair, against rings in rank order" if difference else "Bytes per GPU pair",
        alt=f"Matrix of {len(order)} by {len(order)} GPUs: {what}. The highest is {format_bytes(abs(values[top]))}, {pair}.",
        table="traffic_pairs",
        note=_NOTE + (" Orange: more than rings in rank order would carry; purple: less." if difference else "") + many,
        names=names,
        blocks=blocks,
        cells=cells,
        x_label="receiver",
        y_label="sender",
        value_label="difference" if difference else "bytes",
        unit=unit,
        together=shared,
        signed=difference,
    )


def _text(value: int, share: float, transport: str | None, rung: str) -> str:
    said = [f"{'-' if value < 0 else ''}{format_bytes(abs(value))}", f"{format_share(share)} of all"]
    return ", ".join([*said, *([transport] if transport else []), rung])


def _coarse(cells: Sequence[Cell], together: int) -> list[Cell]:
    """Cells of neighbours added up, `together` on either side."""
    if together == 1:
        return list(cells)
    total: dict[tuple[int, int], float] = {}
    for c in cells:
        key = (c.src // together * together, c.dst // together * together)
        total[key] = total.get(key, 0.0) + c.value
    return [Cell(s, d, v) for (s, d), v in sorted(total.items())]


def _both_ways(cells: Sequence[Cell]) -> list[Cell]:
    total: dict[tuple[int, int], float] = {}
    for c in cells:
        for key in {(c.src, c.dst), (c.dst, c.src)}:
            total[key] = total.get(key, 0.0) + c.value
    return [Cell(s, d, v, "both directions") for (s, d), v in sorted(total.items())]


def _host_matrix(section: Section) -> Matrix | None:
    found = columns(section, "traffic_hosts", "src_host", "dst_host", "bytes", "share", "pairs")
    if found is None:
        return None
    src, dst, sent, share, pairs = found
    places = columns(section, "traffic_places", "position", "host")
    ordered = [h for _, h in sorted(zip(*places, strict=True), key=lambda p: p[0])] if places is not None else []
    names = list(dict.fromkeys(h for h in [*ordered, *src, *dst] if h is not None))
    if len(names) < 2 or not any(sent):
        return None
    at = {name: i for i, name in enumerate(names)}
    size, unit = byte_scale(sent)
    cells = [
        Cell(at[s], at[d], b / size, f"{format_bytes(b)}, {format_share(sh)} of all, {n} pairs of ranks")
        for s, d, b, sh, n in zip(src, dst, sent, share, pairs, strict=True)
        if b
    ]
    top = max(range(len(sent)), key=lambda i: (src[i] != dst[i], sent[i]))
    return Matrix(
        id="traffic-hosts",
        title="Bytes per pair of hosts",
        alt=f"Matrix of {len(names)} by {len(names)} hosts. Between hosts the highest is {format_bytes(sent[top])}, {src[top]} to {dst[top]}.",
        table="traffic_hosts",
        note="Senders from top to bottom, receivers from left to right; the diagonal is what stays inside a host.",
        names=[shorten(n, 24) for n in names],
        blocks=[(0, "")],
        cells=cells,
        x_label="receiver",
        y_label="sender",
        value_label="bytes",
        unit=unit,
    )


def _nics(section: Section) -> Bars | None:
    found = columns(section, "traffic_nics", "host", "nic", "bytes")
    if found is None:
        return None
    rows: list[tuple[Any, Any, Any]] = sorted(zip(*found, strict=True), key=lambda r: (-r[2], r[0], r[1]))
    shown = sorted(rows[:_MAX_BARS], key=lambda r: (r[0], r[1]))
    size, unit = byte_scale([b for *_, b in shown])
    many = f" Shown are the {_MAX_BARS} of {len(rows)} devices with the most bytes." if len(rows) > _MAX_BARS else ""
    return Bars(
        id="traffic-nics",
        title="Bytes that leave through each network device",
        alt=f"Bars of {len(shown)} network devices. The most bytes leave {rows[0][0]} through {rows[0][1]}: {format_bytes(rows[0][2])}.",
        table="traffic_nics",
        note=f"Devices of one host that carry very different amounts are rails used unevenly.{many}",
        categories=[f"{shorten(h, 24)} {n}" for h, n, _ in shown],
        series=[Series("sent", [b / size for *_, b in shown], color_of("transfer"))],
        category_label="device",
        value_label="bytes",
        unit=unit,
    )


def _steps(section: Section) -> Figure | None:
    found = columns(section, "traffic_steps_total", "step", "bytes")
    if found is None or len(found[0]) < 2 or not any(found[1]) or not all(whole(s) for s in found[0]):
        return None
    size, unit = byte_scale(found[1])
    return Line(
        id="traffic-steps",
        title="Bytes per step",
        alt=f"Line: bytes of {len(found[0])} steps, from {format_bytes(min(found[1]))} to {format_bytes(max(found[1]))}.",
        table="traffic_steps_total",
        note="Payload of all pairs together.",
        x=[int(s) for s in found[0]],
        y=[None if v is None else v / size for v in numbers(found[1])],
        x_label="step",
        y_label="bytes",
        unit=unit,
    )
