"""The matrix of GPU pairs, from the tables of the section of traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from tracelab.results import Section
from tracelab.units import format_bytes, format_share
from tracelab_reports.figures import columns, numbers, optional_column, whole
from tracelab_reports.matrices import Cell, Matrix, ends_of
from tracelab_reports.words import plural, rank_label, shorten

__all__ = ["MAX_SIDE", "pair_matrix", "top_pairs"]

MAX_SIDE = 320
"""Cells along a side of a matrix: with more, a cell would be thinner than two pixels, and a thin line of them vanish."""
_MAX_HOST = 40
_MOST_LOCAL = 1_000
_NOISE = 0.005
"""Share of the largest difference below which one is rounding."""
_ALIKE = 0.01
_RUNGS = {
    "transfers": "bytes counted by a proxy",
    "stated": "a line of a log",
    "order": "a complete ring order",
    "completed": "not stated: a cut ring order, completed",
    "connections": "not stated: the only ring that the connections allow",
    "call": "the call itself",
    "assumed": "not stated: rank order is assumed",
}
_WAYS = {"host": "inside the host, transport not stated", "network": "network, transport not stated"}
_STATED = frozenset({"transfers", "stated", "order", "call"})
"""Rungs that rest on what a file says."""


@dataclass(frozen=True)
class _Place:
    rank: int
    host: str | None
    local: int | None

    @property
    def name(self) -> str:
        where = "unknown host" if self.host is None else ends_of(self.host, _MAX_HOST)
        return f"rank {rank_label(self.rank)}, {where}" + (f" GPU {self.local}" if self.local is not None else "")


@dataclass(frozen=True)
class _Flow:
    """Bytes from one place to another; `way` and `rung` are those of most of them, `mixed` where others have others."""

    src: int
    dst: int
    sent: float
    expected: float
    share: float
    stated: float
    way: str
    rung: str
    mixed: bool = False


def pair_matrix(section: Section, *, difference: bool = False, symmetric: bool = False) -> Matrix | None:
    """Bytes per pair of GPUs, the page's switch to both directions with them.

    `difference`: bytes minus what rings in rank order would carry; None where the document does not tell, or where nothing
    differs. `symmetric`: both directions added.
    """
    places, flows, together = _read(section, difference=difference)
    if not places or not flows:
        return None
    total = sum(f.sent for f in flows)
    exact = _added(flows) if symmetric else flows
    worth = _worth_showing(exact) if difference else [f for f in exact if f.sent]
    if not worth:
        return None
    shared = max(together, math.ceil(len(places) / MAX_SIDE))
    shared = math.ceil(shared / together) * together
    cells = _coarse(worth, shared)
    both = [] if difference or symmetric or all(f.src == f.dst for f in cells) else _added(cells)
    hosts = [shorten(p.host, 80) if p.host is not None else "unknown host" for p in places]
    known = all(p.local is not None for p in places) and len(set(hosts)) > 1
    matrix = Matrix(
        id="traffic-difference" if difference else "traffic-pairs",
        title="Bytes per GPU pair, against rings in rank order" if difference else "Bytes per GPU pair" + (", both directions added" if symmetric else ""),
        alt=_alt(places, exact, both, difference=difference, symmetric=symmetric),
        table="traffic_pairs",
        note="",
        place_word="rank",
        numbers=[p.rank for p in places],
        names=[p.name for p in places],
        ticks=[rank_label(p.rank) for p in places],
        inner=[str(p.local) for p in places] if known else [],
        blocks=[(next(iter(g))[0], host) for host, g in groupby(enumerate(hosts), key=lambda p: p[1])],
        cells=[_cell(f, difference=difference) for f in cells],
        both=[_cell(f, difference=False) for f in both],
        facts=("bytes sent", "over rings", "by", "known from") if difference else ("by", "known from"),
        x_label="receiver",
        y_label="sender",
        value_label="difference" if difference else "bytes" + (", both directions added" if symmetric else ""),
        together=shared,
        signed=difference,
    )
    said = [*_reading(matrix), *_doubts(matrix, flows, total)]
    if difference:
        said.insert(1, "Orange: more than rings in rank order, host by host, would carry; purple: less. Empty: no difference.")
        small = sum(1 for f in exact if f.sent != f.expected) - len(worth)
        said += (
            [f"{plural(small, 'cell')} that differ{'s' if small == 1 else ''} by less than {format_share(_NOISE)} of the highest: left empty."] if small else []
        )
    else:
        said.insert(1, "Empty: no bytes.")
        said += ["No pair carries more or less than over rings in rank order."] if _same_as_expected(section, flows) else []
        left = next(t for t in section.tables if t.id == "traffic_pairs").rows_left_out
        said += [f"The result document leaves out {plural(left, 'pair')} for its size; they are empty here."] if left else []
    return replace(matrix, note=" ".join(said))


def top_pairs(section: Section, most: int = 3) -> str:
    """The pairs that carry most, as a sentence; empty where none does."""
    places, flows, together = _read(section)
    flows = sorted((f for f in flows if f.sent and f.src != f.dst), key=lambda f: (-f.sent, f.src, f.dst))
    if not flows or together > 1:
        return ""

    def ends(flow: _Flow) -> str:
        return f"{rank_label(places[flow.src].rank)} to {rank_label(places[flow.dst].rank)}"

    top = [f for f in flows if f.sent >= (1 - _ALIKE) * flows[0].sent]
    if len(top) == len(flows) and len(flows) > 1:
        return f"All {plural(len(flows), 'pair')} carry alike, {format_bytes(flows[0].sent)} each."
    if len(top) > most:
        named = ", ".join(ends(f) for f in top[:most])
        return f"The most, {format_bytes(flows[0].sent)} each, goes over {plural(len(top), 'pair')}: ranks {named} and {len(top) - most} more."
    shown = [f"rank {ends(f)} {format_bytes(f.sent)} ({', '.join(t for t in (format_share(f.share), f.way) if t)})" for f in flows[:most]]
    return f"The most goes from {'; '.join(shown)}."


def _read(section: Section, *, difference: bool = False) -> tuple[list[_Place], list[_Flow], int]:
    """Places in order, what goes between them, and how many neighbours share a row; nothing where the tables do not fit together."""
    found = columns(section, "traffic_pairs", "src_position", "dst_position", "bytes")
    order = columns(section, "traffic_places", "position", "rank")
    if found is None or order is None:
        return [], [], 1
    rows = len(found[0])

    def column(name: str, empty: Any) -> list[Any]:
        return optional_column(section, "traffic_pairs", name) or [empty] * rows

    hosts, local = (optional_column(section, "traffic_places", name) or [None] * len(order[0]) for name in ("host", "local"))
    sorted_places = sorted(zip(*order, hosts, local, strict=True), key=lambda p: p[0] if whole(p[0]) else -1)
    if [p for p, *_ in sorted_places] != list(range(len(sorted_places))) or not all(whole(r) for _, r, *_ in sorted_places):
        return [], [], 1
    places = [_Place(r, h if isinstance(h, str) else None, n if whole(n) and 0 <= n < _MOST_LOCAL else None) for _, r, h, n in sorted_places]
    expected = numbers(column("expected_bytes", None))
    if difference and not any(e is not None for e in expected):
        return [], [], 1
    known = zip(*found[:2], numbers(found[2]), expected, numbers(column("share", 0.0)), *(column(n, None) for n in ("transport", "nic", "rung")), strict=True)
    flows = [
        _Flow(
            s,
            d,
            b,
            e or 0.0,
            sh or 0.0,
            float(isinstance(r, str) and r in _STATED),
            " ".join(_WAYS.get(t, shorten(t, 24)) for t in (tr, nic) if isinstance(t, str)),
            r if isinstance(r, str) else "unknown",
        )
        for s, d, b, e, sh, tr, nic, r in known
        if whole(s) and whole(d) and 0 <= s < len(places) and 0 <= d < len(places) and b is not None and b >= 0
    ]
    together = max((r for r in column("ranks", 1) if whole(r) and r <= len(places)), default=1)
    return places, flows, max(1, together)


def _same_as_expected(section: Section, flows: Sequence[_Flow]) -> bool:
    return any(e is not None for e in optional_column(section, "traffic_pairs", "expected_bytes") or []) and not _worth_showing(flows)


def _worth_showing(flows: Sequence[_Flow]) -> list[_Flow]:
    """Those that differ by more than rounding."""
    most = max((abs(f.sent - f.expected) for f in flows), default=0.0)
    if most <= _NOISE * max((max(f.sent, f.expected) for f in flows), default=0.0):
        return []
    return [f for f in flows if abs(f.sent - f.expected) > _NOISE * most]


def _merged(flows: Sequence[_Flow], key: Callable[[_Flow], Sequence[tuple[int, int]]]) -> list[_Flow]:
    """Flows with the same key added up; a flow counts once for each of its keys."""
    groups: dict[tuple[int, int], list[_Flow]] = {}
    for flow in flows:
        for at in key(flow):
            groups.setdefault(at, []).append(flow)
    return [_sum(src, dst, members) for (src, dst), members in sorted(groups.items())]


def _sum(src: int, dst: int, flows: Sequence[_Flow]) -> _Flow:
    top = max(flows, key=lambda f: f.sent)
    sent = sum(f.sent for f in flows)
    stated = sum(f.stated * f.sent for f in flows) / sent if sent else top.stated
    mixed = any(f.mixed or (f.way, f.rung) != (top.way, top.rung) for f in flows if f.sent)
    return _Flow(src, dst, sent, sum(f.expected for f in flows), sum(f.share for f in flows), stated, top.way, top.rung, mixed)


def _coarse(flows: Sequence[_Flow], together: int) -> list[_Flow]:
    """Flows of neighbours added up, `together` on either side."""
    if together == 1:
        return list(flows)
    return _merged(flows, lambda f: [(f.src // together * together, f.dst // together * together)])


def _added(flows: Sequence[_Flow]) -> list[_Flow]:
    """Both directions of every pair added up."""
    return _merged(flows, lambda f: [(f.src, f.dst)] if f.src == f.dst else [(f.src, f.dst), (f.dst, f.src)])


def _cell(flow: _Flow, *, difference: bool) -> Cell:
    more = " and others" if flow.mixed else ""
    known = (flow.way or "unknown") + more, _RUNGS.get(flow.rung, shorten(flow.rung, 24)) + more
    if difference:
        return Cell(flow.src, flow.dst, flow.sent - flow.expected, flow.share, flow.stated, (format_bytes(flow.sent), format_bytes(flow.expected), *known))
    return Cell(flow.src, flow.dst, flow.sent, flow.share, flow.stated, known)


def _alt(places: Sequence[_Place], flows: Sequence[_Flow], both: Sequence[_Flow], *, difference: bool, symmetric: bool) -> str:
    size = f"Matrix of {len(places)} by {len(places)} GPUs"

    def ends(flow: _Flow, word: str) -> str:
        return f"rank {rank_label(places[flow.src].rank)} {word} rank {rank_label(places[flow.dst].rank)}"

    if difference:
        top = max(flows, key=lambda f: (abs(f.sent - f.expected), -f.src, -f.dst))
        amount = format_bytes(abs(top.sent - top.expected))
        way = "more" if top.sent > top.expected else "less"
        return f"{size}: bytes sent, against rings in rank order. The highest difference is {amount} {way}, {ends(top, 'to')}."
    top = max(flows, key=lambda f: (f.sent, -f.src, -f.dst))
    if symmetric:
        return f"{size}: bytes of both directions. The highest is {format_bytes(top.sent)}, {ends(top, 'and')}."
    text = f"{size}: bytes sent. The highest is {format_bytes(top.sent)}, {ends(top, 'to')}."
    pair = max(both, key=lambda f: (f.sent, -f.src, -f.dst), default=None)
    return text if pair is None else f"{text} With both directions added it is {format_bytes(pair.sent)}, {ends(pair, 'and')}."


def _reading(matrix: Matrix) -> list[str]:
    said = ["Rows send, columns receive; ranks stand in the order of hosts and GPUs."]
    if matrix.borders:
        step = matrix.border_step
        said.append("Lines are borders of hosts." if step == 1 else f"Lines are borders of every {step} hosts.")
    if matrix.inner_ticks:
        said.append("Numbers on top and at the right count the GPUs of a host.")
    if matrix.together > 1:
        said.append(f"Each cell adds up {matrix.together} neighbouring ranks on either side.")
    return said


def _doubts(matrix: Matrix, flows: Sequence[_Flow], total: float) -> list[str]:
    guessed = sum((1 - f.stated) * f.sent for f in flows)
    if not guessed or not total:
        return []
    return [f"No file states the pairs of {format_share(guessed / total)} of the bytes{' (hatched)' if matrix.hatched else ''}: they are completed or assumed."]
