"""The clocks of the hosts, from the ends of collectives.

A synchronising collective ends on all ranks within microseconds, whoever came late, so ends measure clocks and starts do
not. For collective k and host h: end(k, h) = T(k) + offset(h) + drift(h) · t(k) + noise. T(k) is eliminated exactly and
the rest solved by iteratively reweighted least squares (Huber), with a jump where a clock was set. What all hosts have in
common (mean offset, mean drift) cannot be seen and is set to 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.align.jumps import find_jump
from tracelab.align.matching import AMBIGUOUS, SYNCHRONISING
from tracelab.plugins import Notice
from tracelab.tables import CLOCKS

__all__ = ["SAME_HOST_NS", "estimate_clocks"]

Float = NDArray[np.float64]

SAME_HOST_NS = 5_000
"""Ranks of one host share a clock; what is left are the ends' own spread and the GPUs' conversion, measured as 1 to 7 µs."""
MOST_MATCHES = 20_000
"""More equations than this, evenly taken over the run, add no accuracy and cost memory."""
MOST_VALUES = 4_000_000
"""Matches times hosts held at once; each takes some 50 bytes."""
MOST_JUMPS = 8
_ROUNDS = 10
_HUBER = 2.0


@dataclass
class _Fit:
    """Offsets and drifts per host (ns, ns per ns from `t0`), jumps as (host, time on that host, size), residuals (K, H)."""

    hosts: list[str]
    t0: int
    offset: Float
    drift: Float
    jumps: list[tuple[int, int, float]]
    residual: Float
    weight: Float
    sigma: float
    error: Float


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
    ends, order = _host_ends(rows, margins, hosts)
    linked = _largest_link(ends, order, names)
    out = [_row(h, starts.get(h, 0), 0, 0.0, None, "none") for h in names if h not in linked]
    notices = [
        Notice(
            "unaligned-host",
            "warning",
            f"no collective links host {h!r} with the others: its clock stays as it is",
            "collect traces of all ranks of a group that spans the hosts, over the same steps",
        )
        for h in names
        if h not in linked
    ]
    if linked:
        fit = _fit_with_jumps(ends, linked, steps, hosts)
        rows_fit, more = _pieces(fit, starts)
        out, notices = out + rows_fit, notices + more
    return _frame(out), notices


def _row(host: str, start: int, offset: int, ppm: float, uncertainty: int | None, method: str) -> dict[str, object]:
    grade = "D" if uncertainty is None else "A" if uncertainty <= 10_000 else "B" if uncertainty <= 100_000 else "C" if uncertainty <= 1_000_000 else "D"
    return {"host": host, "start_ns": start, "offset_ns": offset, "drift_ppm": ppm, "uncertainty_ns": uncertainty, "method": method, "grade": grade}


def _frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    return CLOCKS.conform(pl.DataFrame(rows, schema=CLOCKS.polars)) if rows else CLOCKS.empty()


def _host_ends(rows: pl.DataFrame, margins: list[float | None], hosts: Mapping[int, str]) -> tuple[pl.DataFrame, list[str]]:
    """Median end per (match, host) of unambiguous synchronising matches that span at least two hosts, in time order."""
    host = pl.DataFrame({"rank": list(hosts), "host": list(hosts.values())}, schema={"rank": pl.Int32, "host": pl.String})
    sure = pl.Series("sure", [m is None or m >= AMBIGUOUS for m in margins], pl.Boolean)
    use = rows.filter((pl.col("match_id") >= 0) & pl.col("operation").is_in(SYNCHRONISING)).select("match_id", "rank", "end_ns")
    use = use.filter(sure.gather(use["match_id"])) if use.height else use
    ends = use.join(host, on="rank").group_by("match_id", "host").agg(_median_time("end_ns"), pl.len().alias("ranks"))
    ends = ends.filter(pl.len().over("match_id") >= 2)
    order = ends.group_by("match_id").agg(pl.col("end_ns").min()).sort("end_ns", "match_id")["match_id"]
    most = min(MOST_MATCHES, MOST_VALUES // max(ends["host"].n_unique(), 1))
    if len(order) > most:
        order = order.gather(np.linspace(0, len(order) - 1, most).astype(np.int64))
        ends = ends.filter(pl.col("match_id").is_in(order.implode()))
    return ends, sorted(ends["host"].unique().to_list())


def _median_time(time: str) -> pl.Expr:
    """The median of moments, by their differences: float64 holds a moment since 1970 only to 256 ns."""
    first = pl.col(time).min()
    return (first + (pl.col(time) - first).median().round().cast(pl.Int64)).alias(time)


def _largest_link(ends: pl.DataFrame, linked: list[str], names: list[str]) -> list[str]:
    """The largest set of hosts that matches connect; the first by name of equally large ones."""
    parts: list[set[str]] = [{h} for h in linked]
    for (together,) in ends.group_by("match_id").agg(pl.col("host").unique().sort()).select("host").unique().iter_rows():
        touched = [p for p in parts if p & set(together)]
        parts = [p for p in parts if not p & set(together)] + [{h for p in touched for h in p}]

    parts.sort(key=lambda p: (-len(p), [names.index(h) for h in sorted(p)]))
    return sorted(parts[0]) if parts else []


def _matrix(ends: pl.DataFrame, linked: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Ends as (matches, hosts) in time order, and which of them exist."""
    wide = ends.filter(pl.col("host").is_in(linked)).pivot("host", index="match_id", values="end_ns").sort("match_id")
    wide = wide.with_columns(pl.min_horizontal(linked).alias("_t")).sort("_t", "match_id")
    exists = wide.select(pl.col(h).is_not_null() for h in linked).to_numpy()
    values = wide.select(pl.col(h).fill_null(pl.col("_t")) for h in linked).to_numpy().astype(np.int64)
    return values, exists


def _fit_with_jumps(ends: pl.DataFrame, linked: list[str], steps: pl.DataFrame, hosts: Mapping[int, str]) -> _Fit:
    values, exists = _matrix(ends, linked)
    jumps: list[tuple[int, int]] = []
    fit = _solve(values, exists, linked, jumps)
    while len(jumps) < MOST_JUMPS:
        found = find_jump(values, exists, fit.residual, steps, hosts, linked)
        if found is None or found in jumps:
            break
        jumps.append(found)
        fit = _solve(values, exists, linked, jumps)
    return fit


def _solve(values: NDArray[np.int64], exists: NDArray[np.bool_], hosts: list[str], jumps: list[tuple[int, int]]) -> _Fit:
    t0 = int(values.min()) + int(np.median(values[exists] - values.min()))
    y = (values - t0).astype(np.float64)
    count, width = y.shape
    span = max(float(np.ptp(y)), 1.0)
    owner = np.concatenate([np.arange(width), np.arange(width), np.array([h for h, _ in jumps], dtype=np.int64)]).astype(np.int64)
    features = np.concatenate(
        [np.ones((count, width)), np.zeros((count, width))] + [(values[:, h] >= at).astype(np.float64)[:, None] for h, at in jumps], axis=1
    )
    # With few collectives, or all in an instant, a drift cannot be told from noise.
    use_drift = count >= 8 and span > 5e7
    weight = exists.astype(np.float64)
    theta, residual, sigma, normal = np.zeros(len(owner)), y, 1.0, np.eye(len(owner))
    for _ in range(_ROUNDS):
        # The moment of a collective on the common clock: clocks may be seconds apart, and drift times seconds counts.
        time = np.where(exists, y - theta[:width], 0.0).sum(1) / exists.sum(1) / span
        features[:, width : 2 * width] = time[:, None]
        theta, normal = _normal_equations(y, weight, features, owner, width, use_drift)
        model = np.zeros_like(y)
        np.add.at(model.T, owner, (features * theta).T)
        residual = y - model
        residual = np.where(exists, residual - ((weight * residual).sum(1) / weight.sum(1))[:, None], 0.0)
        sigma = 1.4826 * float(np.median(np.abs(residual[exists]))) + 1.0
        weight = exists / np.maximum(1.0, np.abs(residual) / (_HUBER * sigma))
        spread = np.sqrt((residual**2).sum(1) / exists.sum(1)) / sigma
        weight = np.maximum(weight / (1.0 + spread**2)[:, None], exists * 1e-9)
    variance = np.diag(np.linalg.pinv(normal, hermitian=True))
    drift_variance = variance[width : 2 * width] if use_drift else np.zeros(width)
    error = sigma * np.sqrt(np.maximum(variance[:width] + 0.25 * drift_variance, 0.0))
    sizes = [(h, at, float(theta[2 * width + n])) for n, (h, at) in enumerate(jumps)]
    return _Fit(hosts, t0, theta[:width], theta[width : 2 * width] / span, sizes, residual, weight * exists, sigma, error)


def _normal_equations(y: Float, weight: Float, features: Float, owner: NDArray[np.int64], width: int, use_drift: bool) -> tuple[Float, Float]:
    """Least squares with one free value per row of `y` eliminated; mean offset and mean drift held at 0. Solution and matrix."""
    total = weight.sum(1)
    weighted = features * weight[:, owner]
    same = owner[:, None] == owner[None, :]
    a = np.where(same, features.T @ weighted, 0.0) - (weighted / total[:, None]).T @ weighted
    r = (weighted * (y[:, owner] - ((weight * y).sum(1) / total)[:, None])).sum(0)
    scale = max(float(np.trace(a)) / len(a), 1e-12)
    for first in (0, width):
        a[first : first + width, first : first + width] += scale / width
    if not use_drift:
        a[width : 2 * width, :] = 0.0
        a[:, width : 2 * width] = 0.0
        r[width : 2 * width] = 0.0
        a[np.arange(width, 2 * width), np.arange(width, 2 * width)] = scale
    a[np.diag_indices_from(a)] += 1e-12 * scale
    try:
        return np.linalg.solve(a, r), a
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(a, r, rcond=None)[0], a


def _pieces(fit: _Fit, starts: Mapping[str, int]) -> tuple[list[dict[str, object]], list[Notice]]:
    present = fit.weight > 0
    spread = np.where(present, fit.residual, -np.inf).max(1) - np.where(present, fit.residual, np.inf).min(1)
    systematic = 0.5 * float(np.quantile(spread, 0.9))
    rows, notices = [], []
    for h, host in enumerate(fit.hosts):
        offset, drift = float(fit.offset[h]), float(fit.drift[h])
        uncertainty = round(max(3.0 * float(fit.error[h]), systematic, 1_000.0))
        moments = [(starts.get(host, fit.t0), 0.0)]
        for owner, at, size in sorted(fit.jumps):
            if owner == h:
                moments.append((at, moments[-1][1] + size))
                notices.append(
                    Notice(
                        "clock-jump",
                        "warning",
                        f"the clock of host {host!r} jumps by {size / 1000:.0f} µs",
                        "set clocks by slewing (chrony makestep off, PTP) while jobs run",
                    )
                )
        for start, jumped in moments:
            there = offset + drift * ((start - fit.t0) - offset) + jumped
            rows.append(_row(host, start, -round(there), -drift * 1e6, uncertainty, "collective-ends"))
    return rows, notices
