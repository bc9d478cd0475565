"""Seconds and peak memory of the estimate of clocks, and of the whole alignment, by size of the job. One measurement is one process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from benchmarks.alignment_data import T0, Scenario, make, names, tables

__all__ = ["Cost", "cost", "work"]


@dataclass(frozen=True)
class Cost:
    """Seconds, peak of memory in GiB, of which so much was there before (the input and the libraries), and rows that went in."""

    seconds: float
    peak_gib: float
    before_gib: float
    rows: int


def cost(what: str, hosts: int, per_host: int, operations: int) -> Cost:
    """Of `clocks` (the estimate alone, all operations over all ranks) or `align` (all of it, from parsed tables)."""
    command = [sys.executable, "-m", "benchmarks.alignment", "--work", what, str(hosts), str(per_host), str(operations)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Cost(**json.loads(done.stdout.strip().splitlines()[-1]))


def work(what: str, hosts: int, per_host: int, operations: int) -> str:
    """The measurement itself, as JSON."""
    return json.dumps(asdict(_clocks(hosts, per_host, operations) if what == "clocks" else _align(hosts, per_host, operations)))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _clocks(hosts: int, per_host: int, operations: int) -> Cost:
    from tracelab.align.clocks import estimate_clocks
    from tracelab.tables import STEPS

    random = np.random.default_rng(1)
    ranks = hosts * per_host
    host = {r: f"host{r // per_host:04d}" for r in range(ranks)}
    offset = random.integers(-10_000_000, 10_000_000, hosts)
    drift = random.uniform(-20, 20, hosts) * 1e-6
    time_ns = np.sort(random.uniform(0, 1e6 * operations, operations))
    parts = []
    for first in range(0, operations, 1000):
        at = time_ns[first : first + 1000, None]
        count = len(at)
        late = random.exponential(200e3, (count, ranks)).astype(np.float32)
        begin = at + late
        end = begin.max(1, keepdims=True) + 50e3 + random.exponential(5e3, (count, ranks))
        ahead = np.repeat(offset, per_host)[None, :] + np.repeat(drift, per_host)[None, :] * at
        parts.append(
            pl.DataFrame(
                {
                    "match_id": np.repeat(np.arange(first, first + count, dtype=np.int64), ranks),
                    "rank": np.tile(np.arange(ranks, dtype=np.int32), count),
                    "start_ns": T0 + (begin + ahead).round().astype(np.int64).ravel(),
                    "end_ns": T0 + (end + ahead).round().astype(np.int64).ravel(),
                }
            )
        )
    rows = pl.concat(parts, rechunk=True).with_columns(
        pl.lit(0, pl.Int32).alias("group_id"), pl.lit("all_reduce").cast(pl.Categorical).alias("operation"), pl.lit(1 << 20, pl.Int64).alias("in_bytes")
    )
    del parts
    margins: list[float | None] = [None] * operations
    before, start = _peak(), time.perf_counter()
    estimate_clocks(rows, margins, host, {}, STEPS.empty())
    return Cost(time.perf_counter() - start, _peak(), before, rows.height)


def _align(hosts: int, per_host: int, operations: int) -> Cost:
    from tracelab.align import align

    job = make(Scenario("scale", hosts=hosts, per_host=per_host, slots=operations))
    parsed, host = tables(job), names(job)
    rows = int(job.present.sum())
    del job
    before, start = _peak(), time.perf_counter()
    align(parsed, host, hosts * per_host)
    return Cost(time.perf_counter() - start, _peak(), before, rows)
