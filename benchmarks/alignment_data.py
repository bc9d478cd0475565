"""A made job whose clocks and operations are known: the tables that `tracelab.align` reads, and the truth beside them.

Operations follow one another in slots: of four, one spans all ranks, and three run at once in groups of eight hosts, one
rank each. Every rank arrives when it is ready; the transfer begins with the last arrival and ends on all ranks but for
jitter and a lasting lateness per rank. Each host then reads the moments off its own clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracelab.tables import PARSED_TABLES, TABLES

__all__ = ["Job", "Scenario", "make", "tables"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

T0 = 1_785_000_000_000_000_000
_BLOCK = 8
_KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
_BYTES = np.array([1 << 16, 1 << 20, 1 << 24, 1 << 26])
_BYTES_PER_NS = 40.0
_LAUNCH_NS = 20e3


@dataclass(frozen=True)
class Scenario:
    """What is made. Times in µs where the name says so; `steps`: sizes in µs by the host that is set, at 20 to 80 % of the run."""

    name: str
    hosts: int = 64
    per_host: int = 8
    slots: int = 1000
    gap_us: float = 15_000.0
    offset_us: float = 10_000.0
    ppm: float = 20.0
    jitter_us: float = 5.0
    bias_us: float = 0.0
    straggler_us: float = 3_000.0
    steps: tuple[tuple[float, ...], ...] = ()
    wander_ppm: float = 0.0
    dropped: float = 0.0
    cut_us: float = 0.0
    keys: bool = True
    seed: int = 1


@dataclass(frozen=True)
class Job:
    """The truth: arrays are (slots, ranks), ns since `T0` on the true clock; `group` numbers the operation of each slot and rank."""

    scenario: Scenario
    start: Float
    end: Float
    local_start: Int
    local_end: Int
    group: Int
    size: Int
    present: NDArray[np.bool_]
    host: Int
    knots: Float
    offset: Float

    def offset_at(self, host: int, time: Float) -> Float:
        """How far the clock of `host` is ahead at true moments, ns."""
        return np.asarray(np.interp(time, self.knots, self.offset[host]) + self.jumped(host, time))

    def jumped(self, host: int, time: Float) -> Float:
        """The sum of the steps of `host` up to true moments, ns."""
        out = np.zeros(len(time))
        for at, size in self.jumps(host):
            out += (time >= at) * size
        return out

    def jumps(self, host: int) -> list[tuple[float, float]]:
        """True moments and sizes (ns) of the steps of `host`."""
        sizes = self.scenario.steps[host] if host < len(self.scenario.steps) else ()
        share = [0.2 + 0.6 * (n + 0.5 + 0.3 * np.sin(7 * host + n)) / max(len(sizes), 1) for n in range(len(sizes))]
        return [(float(self.knots[-1] * s), 1e3 * size) for s, size in zip(share, sizes, strict=True)]


def make(s: Scenario) -> Job:
    """The job of a scenario; the same for the same scenario."""
    random = np.random.default_rng(s.seed)
    ranks = s.hosts * s.per_host
    host = np.repeat(np.arange(s.hosts), s.per_host)
    blocks = max(s.hosts // _BLOCK, 1)
    world = np.arange(s.slots) % 4 == 0
    rail = (np.arange(ranks) // s.per_host % blocks) * s.per_host + np.arange(ranks) % s.per_host + 1
    group = np.where(world[:, None], 0, rail[None, :])
    kind = random.integers(0, len(_BYTES), s.slots)
    bias = 1e3 * s.bias_us * random.standard_normal(ranks)
    bias -= bias.min()
    late = np.where(np.arange(ranks) == int(random.integers(ranks)), 1e3 * s.straggler_us, 0.0)
    start, end = np.empty((s.slots, ranks)), np.empty((s.slots, ranks))
    now = 0.0
    for k in range(s.slots):
        arrive = now + 1e3 * s.gap_us * random.uniform(0.5, 1.0) + random.exponential(200e3, ranks) + late
        transfer = (_LAUNCH_NS + 2 * _BYTES[kind[k]] / _BYTES_PER_NS) * (1 + 0.05 * random.exponential())
        done = np.full(int(group[k].max()) + 1, -np.inf)
        np.maximum.at(done, group[k], arrive)
        start[k], end[k] = arrive, done[group[k]] + transfer + 1e3 * random.exponential(s.jitter_us, ranks) + bias
        end[k] = np.maximum(end[k], arrive + 1e3)
        now = float(done.max()) + transfer
    knots = np.linspace(0.0, float(end.max()) + 1.0, 400)
    offset = 1e3 * random.uniform(-s.offset_us, s.offset_us, (s.hosts, 1)) + 1e-6 * random.uniform(-s.ppm, s.ppm, (s.hosts, 1)) * knots
    gap_s = (knots[1] - knots[0]) / 1e9
    rate = np.cumsum(random.standard_normal((s.hosts, len(knots))) * s.wander_ppm * np.sqrt(gap_s), axis=1)
    offset = offset + np.cumsum(rate - rate.mean(1, keepdims=True), axis=1) * gap_s * 1e3
    present = random.random((s.slots, ranks)) >= s.dropped
    if s.cut_us:
        head, tail = 1e3 * random.uniform(0, s.cut_us, ranks), knots[-1] - 1e3 * random.uniform(0, s.cut_us, ranks)
        present &= (start >= head) & (end <= tail)
    job = Job(s, start, end, np.empty(0, np.int64), np.empty(0, np.int64), group, _BYTES[kind], present, host, knots, offset)
    return Job(s, start, end, _local(job, start), _local(job, end), group, _BYTES[kind], present, host, knots, offset)


def _local(job: Job, time: Float) -> Int:
    out = np.empty(time.shape, dtype=np.int64)
    for r, h in enumerate(job.host.tolist()):
        out[:, r] = T0 + np.round(time[:, r] + job.offset_at(h, time[:, r])).astype(np.int64)
    return out


def names(job: Job) -> dict[int, str]:
    """Host by rank."""
    return {r: f"host{h:04d}" for r, h in enumerate(job.host.tolist())}


def tables(job: Job) -> dict[str, pl.LazyFrame]:
    """The parsed tables: a kernel and its record per rank and operation, and the groups."""
    slot, rank = np.nonzero(job.present)
    start = job.local_start[slot, rank]
    common = {"source_id": rank, "rank": rank, "part": np.zeros_like(rank), "ts_ns": start, "source_ts_ns": start}
    common |= {"dur_ns": np.maximum(job.local_end[slot, rank] - start, 1), "correlation": slot + 1}
    group = job.group[slot, rank]
    spans = pl.DataFrame(common).with_columns(
        pl.lit("kernel").alias("kind"),
        pl.lit(_KERNEL).alias("name"),
        pl.Series("stream", np.where(group == 0, 20, 21)),
        pl.lit(0).alias("device"),
        pl.lit(value=False).alias("clamped"),
    )
    seq = np.cumsum(np.where(job.group == 0, 1, 0), axis=0)[slot, rank]
    seq = np.where(group == 0, seq, slot + 1 - seq)
    records = pl.DataFrame(common).with_columns(
        pl.lit("kernel").alias("recorded_on"),
        pl.lit("allreduce").alias("operation"),
        pl.lit("Float").alias("dtype"),
        pl.Series("in_elements", job.size[slot] // 4),
        pl.Series("out_elements", job.size[slot] // 4),
        pl.Series("group_name", group).cast(pl.String),
        pl.Series("seq", seq if job.scenario.keys else [None] * len(seq), pl.Int64),
    )
    listed: list[dict[str, object]] = []
    for r in range(job.start.shape[1]):
        for number in sorted({0, int(job.group[1 % len(job.group), r])}):
            members = np.flatnonzero(job.group[0 if number == 0 else 1] == number).tolist()
            listed.append({"source_id": r, "rank": r, "part": 0, "group_name": str(number), "group_desc": "", "size": len(members), "group_ranks": members})
    made = {"gpu_spans": spans, "comm_records": records, "process_groups": pl.DataFrame(listed)}
    return {t.name: _filled(made[t.name], t.name).lazy() if t.name in made else t.empty().lazy() for t in PARSED_TABLES}


def _filled(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    types = TABLES[table].polars
    return frame.select(pl.col(c).cast(t) if c in frame.columns else pl.lit(None, t).alias(c) for c, t in types.items())
