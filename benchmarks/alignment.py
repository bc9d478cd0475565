"""How good the alignment of clocks and operations is, and what it costs: made jobs with their truth, and real ones.

`python -m benchmarks.alignment --help`. Times in µs. A made job has a clock per host, 8 GPUs on each; see `alignment_data`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.alignment_data import Scenario, make
from benchmarks.alignment_real import end_residuals, shifted
from benchmarks.alignment_scale import cost, work
from benchmarks.alignment_scores import aligned, clock_scores, last_arrivers, matching_scores, step_scores

_STEPS = ((), (20.0,), (500.0, -80.0), (5_000.0,), (), (-25.0, 40.0), (-2_000.0,), (30.0,))
_CLOCKS = (
    Scenario("offsets, drift, straggler; jitter 5"),
    Scenario("jitter 50", jitter_us=50.0),
    Scenario("steps; jitter 5", steps=_STEPS),
    Scenario("steps; jitter 50", jitter_us=50.0, steps=_STEPS, slots=2000, gap_us=8_000.0),
    Scenario("bias σ 20 per rank; jitter 5", bias_us=20.0),
    Scenario("bias, steps; jitter 20", bias_us=20.0, jitter_us=20.0, steps=_STEPS),
    Scenario("no straggler, 50 operations", slots=50, straggler_us=0.0),
    Scenario("wander 0.05 ppm/√s, steps; jitter 5", wander_ppm=0.05, steps=_STEPS, slots=2000, gap_us=40_000.0),
)
_MATCHING = Scenario("1 % dropped, windows cut by up to 0.5 s", hosts=16, per_host=4, slots=1000, dropped=0.01, cut_us=500_000.0)
_COST = (
    ("clocks", 128, 1, 100_000),
    ("clocks", 128, 8, 10_000),
    ("clocks", 1024, 1, 10_000),
    ("align", 16, 8, 1000),
    ("align", 64, 8, 1000),
    ("align", 128, 8, 1000),
)


@dataclass(frozen=True)
class _Line:
    """One measurement; `good` is None where nothing is asked for."""

    case: str
    what: str
    found: str
    wanted: str = ""
    good: bool | None = None


def _clock_lines(scenario: Scenario, seeds: range) -> Iterator[_Line]:
    errors: list[float] = []
    raw: list[float] = []
    covered: list[bool] = []
    stated: list[float] = []
    steps, last, shares = np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64), []
    for seed in seeds:
        job = make(replace(scenario, seed=seed))
        found = aligned(job)
        score = clock_scores(job, found)
        errors, raw, covered, stated = errors + score.errors, raw + score.raw, covered + score.covered, stated + score.stated
        steps += step_scores(job, found)
        clear, right, share = last_arrivers(job, found)
        last += (clear, right)
        shares.append(share)
    median, high = float(np.median(errors)), float(np.percentile(errors, 99))
    most = (5.0, 20.0) if scenario.bias_us else (1.0, 10.0)
    yield _Line(
        scenario.name,
        "error: median / p99 / max (raw max)",
        f"{median:.2f} / {high:.2f} / {max(errors):.2f} ({max(raw):,.0f})",
        f"≤ {most[0]:.0f} / ≤ {most[1]:.0f}",
        median <= most[0] and high <= most[1],
    )
    yield _Line(
        "",
        "hosts covered by the stated uncertainty (its median)",
        f"{np.mean(covered):.1%} ({np.median(stated):.1f})",
        "≥ 99 %",
        bool(np.mean(covered) >= 0.99),
    )
    yield _Line(
        "",
        "last arrival right where clear (raw, all)",
        f"{last[1] / last[0]:.2%} of {last[0]:,} ({np.mean(shares):.0%})",
        "≥ 99 %",
        bool(last[1] >= 0.99 * last[0]),
    )
    there, seen, claimed, invented = steps.tolist()
    yield _Line("", "steps found (claimed), invented", f"{seen} of {there} ({claimed}), {invented}", "all, 0", seen == there and not invented)


def _matching_lines(seeds: range) -> Iterator[_Line]:
    for name, keys in (("with sequence numbers", True), ("by order alone", False)):
        counts = np.zeros(3, dtype=np.int64)
        for seed in seeds:
            job = make(replace(_MATCHING, keys=keys, seed=seed))
            score = matching_scores(job, aligned(job))
            counts += (score.matched, score.right, score.possible)
        precision, recall = counts[1] / counts[0], counts[1] / counts[2]
        found = f"{precision:.3%} / {recall:.3%} of {counts[2]:,}"
        yield _Line(f"{_MATCHING.name}, {name}", "precision / recall", found, "≥ 99.9 % / ≥ 99 %", bool(precision >= 0.999 and recall >= 0.99))


def _cost_lines() -> Iterator[_Line]:
    for what, hosts, per_host, operations in _COST:
        c = cost(what, hosts, per_host, operations)
        asked = (what, hosts * per_host, operations) == ("clocks", 128, 100_000)
        yield _Line(
            f"{'estimate of clocks' if what == 'clocks' else 'whole alignment'}, {hosts} hosts × {per_host}, {operations:,} operations ({c.rows:,} rows)",
            "seconds / peak GiB (before)",
            f"{c.seconds:.1f} / {c.peak_gib:.2f} ({c.before_gib:.2f})",
            "≤ 30 / < 2" if asked else "",
            c.seconds <= 30 and c.peak_gib < 2 if asked else None,
        )


def _real_lines(shift: list[Path], ends: list[Path]) -> Iterator[_Line]:
    for path in shift:
        s = shifted(path, 1)
        yield _Line(path.name, f"{s.ranks} ranks shifted by up to 1 s: error", f"{s.error_us:.1f}", "≤ 10", s.error_us <= 10)
        yield _Line("", "last arrivals that change", f"{s.changed} of {s.operations}", "0", s.changed == 0)
    for path in ends:
        median, most, claimed = end_residuals(path)
        yield _Line(path.name, "ends beside their operation: median / max", f"{median:.2f} / {most:.1f}", "≤ 1 / ≤ 60", median <= 1 and most <= 60)
        yield _Line("", "steps claimed", str(claimed), "0", claimed == 0)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="made jobs of each kind")
    parser.add_argument("--first-seed", type=int, default=1, help="the seeds are this and those that follow")
    parser.add_argument("--only", choices=("clocks", "matching", "cost", "real"), action="append", help="part of the table; may be repeated")
    parser.add_argument("--shift", type=Path, action="append", default=[], help="directory of traces of one host, of which each rank's times are shifted")
    parser.add_argument("--ends", type=Path, action="append", default=[], help="directory of traces of a healthy job, of which ends are compared")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        print(work(args.work[0], *(int(n) for n in args.work[1:])))
        return
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    parts = args.only or ["clocks", "matching", "cost", "real"]
    table = Table("case", "measured", "found", "wanted", "", title=f"{args.seeds} seeds; times in µs")
    lines: list[_Line] = []
    if "clocks" in parts:
        lines += [line for s in _CLOCKS for line in _clock_lines(s, seeds)]
    if "matching" in parts:
        lines += _matching_lines(seeds)
    if "cost" in parts:
        lines += _cost_lines()
    if "real" in parts:
        lines += _real_lines(args.shift, args.ends)
    for line in lines:
        table.add_row(line.case, line.what, line.found, line.wanted, "" if line.good is None else "yes" if line.good else "NO")
    Console(width=190).print(table)


if __name__ == "__main__":
    main()
