"""The clocks of the hosts, from the ends of collectives.

A synchronising collective ends on all ranks within microseconds, whoever came late, so ends measure clocks and starts do
not: they only bound them. For collective k and host h: end(k, h) = T(k) + offset(h) + drift(h) · t(k) + noise, with a step
where a clock was set, and a drift that changes where it wanders. What all hosts have in common (mean offset, mean drift)
cannot be seen and is set to 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.bounds import hard_bounds
from tracelab.align.certainty import Lags, disagreement, rank_lags, systematic
from tracelab.align.jumps import with_steps
from tracelab.align.lateness import end_lateness, host_lateness
from tracelab.align.observations import Parts, link_sets, parts_of, spanning, thinned
from tracelab.align.solve import Fit, beside_steps, own_moment, solve
from tracelab.align.wander import wandering
from tracelab.plugins import Notice
from tracelab.tables import CLOCKS

__all__ = ["SAME_HOST_NS", "estimate_clocks"]

Float = NDArray[np.float64]

SAME_HOST_NS = 5_000
"""Ranks of one host share a clock; what is left are the ends' own spread and the GPUs' conversion, measured as 1 to 7 µs."""
LEAST_NS = 2_000.0
"""No clock is said to be right within less: GPUs of one host differ by as much."""
SURE = 3.0
"""Standard errors that the stated uncertainty spans: 99.7 % of normal errors are less."""

IMPLAUSIBLE = 5.0
"""Ends are not late in every operation by more than so many times what they scatter by."""
MISMATCHED = 10.0
"""An operation of which an end is so many times further off than ends scatter is taken for a wrong match."""


@dataclass(frozen=True)
class _Model:
    """The clocks of linked hosts: `shift` (ns per host) is added to the offsets of `fit`; uncertainty per host but for `fit`'s own error."""

    parts: Parts
    y: Float
    fit: Fit
    shift: Float
    systematic: Float
    least: Float
    most: Float


def estimate_clocks(
    rows: pl.DataFrame, margins: list[float | None], hosts: Mapping[int, str], starts: Mapping[str, int], steps: pl.DataFrame
) -> tuple[pl.DataFrame, list[Notice]]:
    """CLOCKS for all `hosts` (host per rank), from `rows` with match_id and ends in source time.

    `margins` by match; `starts` is the earliest moment of each host in its own clock. Hosts that no collective links with
    the largest linked set get the method none and grade D; nothing is assumed about them.
    """
    names = sorted(set(hosts.values()))
    if len(names) <= 1:
        return _frame([_row(h, starts.get(h, 0), 0, 0.0, SAME_HOST_NS, "single-host") for h in names]), []
    parts, operations = spanning(rows, margins, hosts, names)
    sets = link_sets(parts, operations, names)
    linked = sets[0] if sets else []
    out = [_row(h, starts.get(h, 0), 0, 0.0, None, "none") for n, h in enumerate(names) if n not in linked]
    apart = [*sets[1:], *([n] for n in range(len(names)) if not any(n in s for s in sets))]
    notices = [_unlinked([names[n] for n in part]) for part in sorted(apart)]
    if linked:
        chosen = parts_of(parts, thinned(operations.filter(pl.col("first").is_in(linked)), len(linked)), linked, names)
        training = {n: steps.filter(pl.col("rank").is_in([r for r, name in hosts.items() if name == h])) for n, h in enumerate(chosen.hosts)}
        model, more = _modelled(chosen, training)
        rows_fit, jumps = _pieces(model, starts)
        out, notices = out + rows_fit, [*notices, *more, *jumps]
    return _frame(out), notices


def _unlinked(part: list[str]) -> Notice:
    text = f"no collective links host {part[0]!r} with the others: its clock stays as it is"
    if len(part) > 1:
        named = ", ".join(repr(h) for h in part[:3]) + (", …" if len(part) > 3 else "")
        text = f"no collective links {len(part)} hosts ({named}) with the others: their clocks stay as they are"
    return Notice("unaligned-host", "warning", text, "collect traces of all ranks of a group that spans the hosts, over the same steps", len(part))


def _row(host: str, start: int, offset: int, ppm: float, uncertainty: int | None, method: str) -> dict[str, object]:
    grade = "D" if uncertainty is None else "A" if uncertainty <= 10_000 else "B" if uncertainty <= 100_000 else "C" if uncertainty <= 1_000_000 else "D"
    return {"host": host, "start_ns": start, "offset_ns": offset, "drift_ppm": ppm, "uncertainty_ns": uncertainty, "method": method, "grade": grade}


def _frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    return CLOCKS.conform(pl.DataFrame(rows, schema=CLOCKS.polars)) if rows else CLOCKS.empty()


def _modelled(parts: Parts, training: Mapping[int, pl.DataFrame]) -> tuple[_Model, list[Notice]]:
    y, exists = parts.matrix(parts.end)
    fit = solve(y, exists)
    y, fit, _ = _without_lags(parts, y, exists, fit)
    fit = with_steps(y, exists, parts.kind, fit, training, parts.base)
    while knots := wandering(fit, exists):
        fit = with_steps(y, exists, parts.kind, solve(y, exists, fit.steps, knots, fit), training, parts.base)
    y, fit, lags = _without_lags(parts, y, exists, fit)
    hidden, assumed = systematic(fit, exists, parts.kind, lags)
    return _certified(parts, y, fit, lags, hidden, assumed)


def _without_lags(parts: Parts, y: Float, exists: NDArray[np.bool_], fit: Fit) -> tuple[Float, Fit, Lags]:
    """Ends per operation and host, and the fit to them, without the lasting lateness of single ranks; which ranks take part then does not matter."""
    lags = rank_lags(parts, fit)
    if not lags.lag.any():
        return y, fit, lags
    y, _ = parts.matrix(parts.end - lags.lag)
    return y, solve(y, exists, fit.steps, fit.basis.knots, fit), lags


def _certified(parts: Parts, y: Float, fit: Fit, lags: Lags, hidden: Float, assumed: float) -> tuple[_Model, list[Notice]]:
    """The fit held against what must be true of starts and durations."""
    hosts, notices = parts.hosts, []
    width = len(hosts)
    before = [np.array([s.host == h for s in fit.steps], dtype=bool) for h in range(width)]
    error = np.array([max(fit.error(h, t, before[h]) for t in (fit.basis.low, fit.basis.high)) for h in range(width)])
    offset = fit.offset_of(parts.row, parts.host)
    late = end_lateness(parts, offset)
    corrected = -host_lateness(late, parts, lags.lag)
    if lags.ranks.max() < 2:
        # Nothing but durations tells of ends that are always late on a host, and they tell of slow links as well.
        hidden = np.hypot(hidden, min(late.spread, IMPLAUSIBLE * fit.sigma))
    offset = offset + corrected[parts.host]
    far = np.zeros(width)
    np.maximum.at(far, parts.host, np.abs(lags.lag))
    # A wrong match says nothing of clocks, nor does an operation that may lie on the other side of a step.
    sound = (np.abs(fit.residual).max(1) < MISMATCHED * fit.sigma) & ~beside_steps(fit)
    bounds = hard_bounds(parts, sound[parts.row], offset, SURE * error + far)
    # One operation makes a bound: clocks are moved only by what their own uncertainty cannot explain.
    moved_by = np.where(np.abs(bounds.shift) > SURE * np.hypot(error, hidden), bounds.shift, 0.0)
    least = np.maximum(np.abs(bounds.shift), max(LEAST_NS, assumed))
    if bounds.cycle:
        named = ", ".join(repr(hosts[h]) for h in bounds.cycle[:4])
        notices.append(
            Notice(
                "contradicting-clocks",
                "warning",
                f"operations of the hosts {named} contradict each other by {bounds.excess / 1000:.0f} µs: a rank left one before another had entered it",
                "check that the traces are of one run and that all ranks are of the same profiler version",
            )
        )
        least[bounds.cycle] = np.maximum(least[bounds.cycle], bounds.excess)
    moved = offset + moved_by[parts.host]
    off, percent = disagreement(
        parts, moved, parts.end - fit.offset_of(parts.row, parts.host) - fit.time[parts.row], np.maximum(SURE * np.hypot(error, hidden), least)
    )
    if off:
        notices.append(
            Notice(
                "clocks-against-durations",
                "warning",
                f"in {percent} % of operations the rank that enters last by its clock is not the one that took part for the shortest time",
                "who came last across hosts is uncertain by what the two differ",
            )
        )
        least = np.maximum(least, off)
    return _Model(parts, y, fit, corrected + moved_by, hidden, least, np.maximum(bounds.width + np.abs(bounds.shift - moved_by), least)), notices


def _pieces(model: _Model, starts: Mapping[str, int]) -> tuple[list[dict[str, object]], list[Notice]]:
    """A row per host and stretch between knots and steps, and a notice per step that is beyond doubt."""
    fit, base = model.fit, model.parts.base
    middle = fit.offset(np.array([0.5 * (fit.basis.low + fit.basis.high)]))[:, 0] + model.shift
    common = base[0] + round(sum(b - base[0] + ahead for b, ahead in zip(base, middle.tolist(), strict=True)) / len(base))
    # Errors are those beside the mean of all hosts; what is stated is beside the others.
    beside = len(base) / (len(base) - 1)
    rows, notices = [], []
    for h, host in enumerate(model.parts.hosts):
        first = starts.get(host)
        began = fit.basis.low if first is None else fit.common_time(h, float(first - base[h]))
        changes = [(t, -1) for t in fit.basis.moments() if t > began] + [(s.at, n) for n, s in enumerate(fit.steps) if s.host == h]
        changes = [(began, -1), *sorted(changes)]
        done = np.zeros(len(fit.steps), dtype=bool)
        for (at, step), until in zip(changes, [*(t for t, _ in changes[1:]), fit.basis.high], strict=True):
            if step >= 0:
                done[step] = True
            ahead = fit.course(h, at) + float(fit.sizes[done].sum())
            slope = fit.slope(h, at, until)
            # On this host's own clock, since its base.
            own = own_moment(fit, model.y, h, at) if step >= 0 else at + ahead if at > began or first is None else float(first - base[h])
            ahead += slope * (own - at - ahead) + float(model.shift[h])
            error = max(fit.error(h, min(max(t, fit.basis.low), fit.basis.high), done) for t in (at, until))
            uncertainty = min(max(beside * SURE * float(np.hypot(error, model.systematic[h])), float(model.least[h])), float(model.most[h]))
            rows.append(_row(host, base[h] + round(own), common - base[h] - round(ahead), -slope / (1.0 + slope) * 1e6, round(uncertainty), "collective-ends"))
            if step >= 0 and abs(fit.sizes[step]) > uncertainty:
                notices.append(_jump(host, float(fit.sizes[step])))
    return rows, notices


def _jump(host: str, size: float) -> Notice:
    text = f"the clock of host {host!r} jumps by {size / 1000:.0f} µs"
    return Notice("clock-jump", "warning", text, "set clocks by slewing (chrony makestep off, PTP) while jobs run")
