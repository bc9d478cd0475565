"""The sections of a made-up result: tables with the columns that the analyses produce."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tests.builders.result_job import MS, PARTS, ResultJob
from tracelab.results import DataColumn, DataTable, Section

__all__ = ["breakdown_section", "collectives_section", "overlap_section", "steps_section", "table", "waits_section"]

_MAX_ROWS = 20_000


def _column(name: str, unit: str, doc: str, values: Sequence[object]) -> DataColumn:
    return DataColumn(name, unit, doc, list(values)[:_MAX_ROWS])


def table(table_id: str, title: str, rows: int, *columns: tuple[str, str, str, Sequence[object]]) -> DataTable:
    return DataTable(table_id, title, [_column(*c) for c in columns], max(0, rows - _MAX_ROWS))


def steps_section(job: ResultJob) -> Section:
    slowest, spread = [], []
    for step in range(job.steps):
        busy = {c.rank: c.busy for c in job.in_step(step)}
        slowest.append(max(busy, key=lambda r: (busy[r], -r)))
        spread.append(max(busy.values()) - min(busy.values()))
    worst = max(range(job.steps), key=lambda s: job.lengths[s])
    times = table(
        "step_times",
        "One row per step, over all ranks.",
        job.steps,
        ("step", "", "step number", range(job.steps)),
        ("start_ns", "ns", "moment that the last rank left the step before", job.starts),
        ("length_ns", "ns", "from there to the moment that the last rank left this step", job.lengths),
        ("slowest_rank", "", "rank that was busy longest", slowest),
        ("spread_ns", "ns", "busy time of the slowest minus that of the fastest rank", spread),
    )
    answer = f"The median step takes {median(job.lengths) / MS:.0f} ms; step {worst} is the longest with {job.lengths[worst] / MS:.0f} ms."
    return Section("steps", "Step times", "How long did each step take?", answer, [times])


def breakdown_section(job: ResultJob) -> Section:
    docs = {p: f"time in {p.replace('_', ' ')}" for p in (*PARTS, "dataloader")}
    per_rank = table(
        "rank_times",
        "One row per rank: its time over the analysed steps.",
        job.ranks,
        ("rank", "", "global rank", range(job.ranks)),
        ("host", "", "host name", [job.host(r) for r in range(job.ranks)]),
        ("steps", "", "steps analysed", [job.steps] * job.ranks),
        ("wall_ns", "ns", "time of the steps", [job.total(r, "wall") for r in range(job.ranks)]),
        *((f"{p}_ns", "ns", docs[p], [job.total(r, p) for r in range(job.ranks)]) for p in docs),
    )
    per_step = table(
        "rank_step_times",
        "One row per rank and step.",
        len(job.cells),
        ("rank", "", "global rank", [c.rank for c in job.cells]),
        ("step", "", "step number", [c.step for c in job.cells]),
        ("wall_ns", "ns", "time of the step", [c.wall for c in job.cells]),
        *((f"{p}_ns", "ns", docs[p], [getattr(c, p) for c in job.cells]) for p in docs),
    )
    share = sum(job.total(r, "exposed_wait") for r in range(job.ranks)) / sum(job.total(r, "wall") for r in range(job.ranks))
    answer = f"Ranks wait for their peers in {100 * share:.1f} % of their time; rank {job.slow_rank} waits least."
    return Section("breakdown", "Time of each rank", "What did each rank do with its time?", answer, [per_rank, per_step])


def overlap_section(job: ResultJob) -> Section:
    hidden = [int(job.total(r, "compute") * 0.19) for r in range(job.ranks)]
    exposed = [job.total(r, "exposed_transfer") + job.total(r, "exposed_wait") for r in range(job.ranks)]
    comm = [h + e for h, e in zip(hidden, exposed, strict=True)]
    by_rank = table(
        "overlap_by_rank",
        "One row per rank: communication and compute on the GPU.",
        job.ranks,
        ("rank", "", "global rank", range(job.ranks)),
        ("kernel_time_ns", "ns", "sum of all kernels", [job.total(r, "compute") + c for r, c in enumerate(comm)]),
        ("busy_ns", "ns", "time with any work", [job.total(r, "wall") - job.total(r, "idle") for r in range(job.ranks)]),
        ("idle_ns", "ns", "time without work", [job.total(r, "idle") for r in range(job.ranks)]),
        ("compute_ns", "ns", "time with compute", [job.total(r, "compute") for r in range(job.ranks)]),
        ("communication_ns", "ns", "time with communication", comm),
        ("hidden_ns", "ns", "communication while compute runs", hidden),
        ("exposed_ns", "ns", "communication while no compute runs", exposed),
        ("overlap_ratio", "", "hidden ÷ communication", [h / c for h, c in zip(hidden, comm, strict=True)]),
    )
    by_group = table(
        "overlap_by_group",
        "One row per group and operation.",
        1,
        ("group", "", "group of ranks", [f"data parallel{job.group_suffix}"]),
        ("operation", "", "collective operation", ["all_reduce"]),
        ("count", "", "operations over all ranks", [24 * job.steps * job.ranks]),
        ("communication_ns", "ns", "time with communication", [sum(comm)]),
        ("hidden_ns", "ns", "of it while compute runs", [sum(hidden)]),
        ("exposed_ns", "ns", "of it while no compute runs", [sum(exposed)]),
        ("overlap_ratio", "", "hidden ÷ communication", [sum(hidden) / sum(comm)]),
    )
    answer = f"{100 * sum(hidden) / sum(comm):.1f} % of the communication is hidden behind compute."
    return Section("overlap", "Overlap", "How much communication is hidden behind compute?", answer, [by_rank, by_group])


_CLASSES = (
    ("data parallel", "all_reduce", 134_217_728, 24, 0.70),
    ("tensor parallel", "all_gather", 33_554_432, 64, 0.22),
    ("world", "barrier", None, 1, 0.08),
)


def collectives_section(job: ResultJob) -> Section:
    transfer = sum(job.total(r, "exposed_transfer") for r in range(job.ranks)) // job.ranks
    wait = sum(job.total(r, "exposed_wait") for r in range(job.ranks))
    counts = [n * job.steps for *_, n, _ in _CLASSES]
    totals = [int(transfer * share) for *_, share in _CLASSES]
    medians = [t // n for t, n in zip(totals, counts, strict=True)]
    classes = table(
        "collective_classes",
        "One row per group, operation and size.",
        len(_CLASSES),
        ("group", "", "group of ranks", [c[0] + job.group_suffix for c in _CLASSES]),
        ("operation", "", "collective operation", [c[1] for c in _CLASSES]),
        ("bytes", "B", "size of one operation", [c[2] for c in _CLASSES]),
        ("count", "", "operations", counts),
        ("transfer_total_ns", "ns", "time moving data, summed", totals),
        ("transfer_median_ns", "ns", "median of one operation", medians),
        ("transfer_p95_ns", "ns", "95th percentile", [int(1.3 * m) for m in medians]),
        ("wait_total_ns", "ns", "waits of all ranks, summed", [int(wait * c[4]) for c in _CLASSES]),
        (
            "busbw_median_bytes_per_s",
            "B/s",
            "median bus bandwidth",
            [None if c[2] is None else c[2] * 1.75e9 / m for c, m in zip(_CLASSES, medians, strict=True)],
        ),
    )
    top = sorted(range(job.steps), key=lambda s: -job.lengths[s])[:10]
    costliest = table(
        "costliest",
        "The operations that cost most.",
        len(top),
        ("match_id", "", "number of the operation", [24 * s for s in top]),
        ("group", "", "group of ranks", [f"data parallel{job.group_suffix}"] * len(top)),
        ("operation", "", "collective operation", ["all_reduce"] * len(top)),
        ("bytes", "B", "size", [134_217_728] * len(top)),
        ("step", "", "step", top),
        ("start_ns", "ns", "first arrival", [job.starts[s] + job.lengths[s] // 2 for s in top]),
        ("transfer_ns", "ns", "time moving data", [medians[0] + 1000 * s for s in top]),
        ("wait_total_ns", "ns", "waits of all ranks", [sum(c.exposed_wait for c in job.in_step(s)) for s in top]),
        ("last_rank", "", "rank that arrived last", [0 if s in job.stalled else job.slow_rank for s in top]),
        ("last_by_ns", "ns", "behind the rank before it", [58 * MS] * len(top)),
        ("busbw_bytes_per_s", "B/s", "bus bandwidth", [134_217_728 * 1.75e9 / (medians[0] + 1000 * s) for s in top]),
    )
    answer = "The all_reduce of 134 MB in the group data parallel costs most, by the waits for its last rank."
    return Section("collectives", "Collectives", "Which collectives cost most, and why?", answer, [classes, costliest])


def waits_section(job: ResultJob) -> Section:
    operations = 89 * job.steps
    last = dict.fromkeys(range(job.ranks), 0)
    late = dict.fromkeys(range(job.ranks), 0)
    cell_late: list[int] = []
    for step in range(job.steps):
        cells = job.in_step(step)
        longest = max(c.exposed_wait for c in cells)
        last[min(cells, key=lambda c: (c.exposed_wait, c.rank)).rank] += 1
        for c in cells:
            late[c.rank] += longest - c.exposed_wait
        cell_late += [longest - c.exposed_wait for c in cells]
    arrivals = table(
        "arrivals_by_rank",
        "One row per rank: how often it came last, and how long it waited.",
        job.ranks,
        ("rank", "", "global rank", range(job.ranks)),
        ("host", "", "host name", [job.host(r) for r in range(job.ranks)]),
        ("operations", "", "operations it took part in", [operations] * job.ranks),
        ("last_count", "", "times it arrived last", [89 * last[r] for r in range(job.ranks)]),
        ("last_certain_count", "", "of these beyond the clock uncertainty", [80 * last[r] for r in range(job.ranks)]),
        ("last_share", "", "share of operations in which it was last", [last[r] / job.steps for r in range(job.ranks)]),
        ("wait_ns", "ns", "time it waited for others", [job.total(r, "exposed_wait") for r in range(job.ranks)]),
        ("late_ns", "ns", "arrivals after the first one", [late[r] for r in range(job.ranks)]),
    )
    per_step = table(
        "rank_step_waits",
        "One row per rank and step.",
        len(job.cells),
        ("rank", "", "global rank", [c.rank for c in job.cells]),
        ("step", "", "step number", [c.step for c in job.cells]),
        ("wait_ns", "ns", "time it waited for others", [c.exposed_wait for c in job.cells]),
        ("late_ns", "ns", "arrivals after the first one", cell_late),
    )
    share = last[job.slow_rank] / job.steps
    answer = f"Rank {job.slow_rank} arrives last in {100 * share:.0f} % of the operations."
    return Section("waits", "Arrivals", "Who waits, and for whom?", answer, [arrivals, per_step])
