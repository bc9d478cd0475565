"""Result documents of a made-up job: one slow GPU, a loader that stalls twice, a slow link.

Every figure in a document follows from the times that `_Job` lays out per rank and step, so that the parts add up.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from tracelab.results import (
    AnalysisStatus,
    Attribution,
    Cause,
    Clock,
    Coverage,
    DataColumn,
    DataTable,
    Evidence,
    Finding,
    Input,
    Link,
    NotObservable,
    RankInfo,
    RankTimes,
    ResultNotice,
    RunInfo,
    RunResult,
    Section,
    StepTime,
    Tool,
    finding_id,
)

__all__ = ["HOSTILE", "ORIGIN_NS", "empty_result", "example_result"]

HOSTILE = "</script><script>alert(1)</script>{{7*7}}"
ORIGIN_NS = 1_772_000_000_000_000_000
_MS = 1_000_000
_PARTS = ("compute", "memcpy", "exposed_transfer", "exposed_wait", "idle")
_MAX_ROWS = 20_000


@dataclass(frozen=True)
class Cell:
    """What one rank did in one step, in ns: the first five add up to the step; the loader overlaps them."""

    rank: int
    step: int
    compute: int
    memcpy: int
    exposed_transfer: int
    exposed_wait: int
    idle: int
    dataloader: int

    @property
    def wall(self) -> int:
        return self.compute + self.memcpy + self.exposed_transfer + self.exposed_wait + self.idle


@dataclass(frozen=True)
class _Job:
    """Ranks in lock step: whoever is done early waits, so that all steps end together."""

    ranks: int
    steps: int
    slow_rank: int
    stalled: tuple[int, ...]
    name: str = "llama-8b-pretrain"
    file_suffix: str = ""
    host_prefix: str = "node"
    seed: int = 7
    per_host: int = 8
    cells: list[Cell] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        for step in range(self.steps):
            drafts = [self._draft(rng, rank, step) for rank in range(self.ranks)]
            longest = max(sum(d[:4]) for d in drafts)
            self.cells.extend(Cell(rank, step, d[0], d[1], d[2], longest - sum(d[:4]), d[3], d[4]) for rank, d in enumerate(drafts))

    def _draft(self, rng: random.Random, rank: int, step: int) -> tuple[int, int, int, int, int]:
        compute = int(620 * _MS * (1.11 if rank == self.slow_rank else 1) * rng.gauss(1, 0.004))
        stall = 240 * _MS if step in self.stalled and rank == 0 else 0
        transfer = int(64 * _MS * (1.12 if self.host(rank) == self.host(self.ranks - 1) else 1))
        return compute, int(9 * _MS * rng.uniform(0.9, 1.1)), transfer, int(21 * _MS * rng.uniform(0.8, 1.2)) + stall, 4 * _MS + stall

    def host(self, rank: int) -> str:
        return f"{self.host_prefix}-{rank // self.per_host}"

    def source(self, rank: int) -> str:
        return f"traces/rank{rank}{self.file_suffix}.json.gz"

    @cached_property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(self.host(r) for r in range(self.ranks)))

    @cached_property
    def by_rank(self) -> dict[int, list[Cell]]:
        out: dict[int, list[Cell]] = {r: [] for r in range(self.ranks)}
        for c in self.cells:
            out[c.rank].append(c)
        return out

    @cached_property
    def lengths(self) -> list[int]:
        return [c.wall for c in self.by_rank[0]]

    @cached_property
    def starts(self) -> list[int]:
        return [ORIGIN_NS + sum(self.lengths[:i]) for i in range(self.steps)]

    def total(self, rank: int, part: str) -> int:
        return sum(getattr(c, part) for c in self.by_rank[rank])

    @property
    def straggler_ns(self) -> int:
        """What the slow rank costs: per step, its lead over the slowest other rank."""
        lost = 0
        for step in range(self.steps):
            busy = {c.rank: c.wall - c.exposed_wait for c in self.cells[step * self.ranks : (step + 1) * self.ranks]}
            lost += max(0, busy[self.slow_rank] - max(b for r, b in busy.items() if r != self.slow_rank))
        return lost


def _column(name: str, unit: str, doc: str, values: Sequence[object]) -> DataColumn:
    return DataColumn(name, unit, doc, list(values)[:_MAX_ROWS])


def _table(table_id: str, title: str, rows: int, *columns: tuple[str, str, str, Sequence[object]]) -> DataTable:
    return DataTable(table_id, title, [_column(*c) for c in columns], max(0, rows - _MAX_ROWS))


def _steps_section(job: _Job) -> Section:
    slowest, spread = [], []
    for step in range(job.steps):
        busy = {c.rank: c.wall - c.exposed_wait for c in job.cells[step * job.ranks : (step + 1) * job.ranks]}
        slowest.append(max(busy, key=lambda r: (busy[r], -r)))
        spread.append(max(busy.values()) - min(busy.values()))
    worst = max(range(job.steps), key=lambda s: job.lengths[s])
    table = _table(
        "step_times",
        "One row per step, over all ranks.",
        job.steps,
        ("step", "", "step number", range(job.steps)),
        ("start_ns", "ns", "first rank's start", job.starts),
        ("length_ns", "ns", "longest over ranks", job.lengths),
        ("slowest_rank", "", "rank that was busy longest", slowest),
        ("spread_ns", "ns", "busy time of the slowest minus that of the fastest rank", spread),
    )
    answer = f"The median step takes {median(job.lengths) / _MS:.0f} ms; step {worst} is the longest with {job.lengths[worst] / _MS:.0f} ms."
    return Section("steps", "Step times", "How long did each step take?", answer, [table])


def _breakdown_section(job: _Job) -> Section:
    docs = {p: f"time in {p.replace('_', ' ')}" for p in (*_PARTS, "dataloader")}
    per_rank = _table(
        "rank_times",
        "One row per rank: its time over the analysed steps.",
        job.ranks,
        ("rank", "", "global rank", range(job.ranks)),
        ("host", "", "host name", [job.host(r) for r in range(job.ranks)]),
        ("steps", "", "steps analysed", [job.steps] * job.ranks),
        ("wall_ns", "ns", "time of the steps", [job.total(r, "wall") for r in range(job.ranks)]),
        *((f"{p}_ns", "ns", docs[p], [job.total(r, p) for r in range(job.ranks)]) for p in docs),
    )
    per_step = _table(
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


def _overlap_section(job: _Job) -> Section:
    hidden = [int(job.total(r, "compute") * 0.19) for r in range(job.ranks)]
    exposed = [job.total(r, "exposed_transfer") + job.total(r, "exposed_wait") for r in range(job.ranks)]
    comm = [h + e for h, e in zip(hidden, exposed, strict=True)]
    by_rank = _table(
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
    by_group = _table(
        "overlap_by_group",
        "One row per group and operation.",
        1,
        ("group", "", "group of ranks", ["data parallel"]),
        ("operation", "", "collective operation", ["all_reduce"]),
        ("count", "", "operations over all ranks", [24 * job.steps * job.ranks]),
        ("communication_ns", "ns", "time with communication", [sum(comm)]),
        ("hidden_ns", "ns", "of it while compute runs", [sum(hidden)]),
        ("exposed_ns", "ns", "of it while no compute runs", [sum(exposed)]),
        ("overlap_ratio", "", "hidden ÷ communication", [sum(hidden) / sum(comm)]),
    )
    answer = f"{100 * sum(hidden) / sum(comm):.1f} % of the communication is hidden behind compute."
    return Section("overlap", "Overlap", "How much communication is hidden behind compute?", answer, [by_rank, by_group])


_CLASSES = (("data parallel", "all_reduce", 134_217_728, 24, 0.70), ("tensor parallel", "all_gather", 33_554_432, 64, 0.22), ("world", "barrier", None, 1, 0.08))


def _collectives_section(job: _Job) -> Section:
    transfer = sum(job.total(r, "exposed_transfer") for r in range(job.ranks)) // job.ranks
    wait = sum(job.total(r, "exposed_wait") for r in range(job.ranks))
    counts = [n * job.steps for *_, n, _ in _CLASSES]
    totals = [int(transfer * share) for *_, share in _CLASSES]
    medians = [t // n for t, n in zip(totals, counts, strict=True)]
    classes = _table(
        "collective_classes",
        "One row per group, operation and size.",
        len(_CLASSES),
        ("group", "", "group of ranks", [c[0] for c in _CLASSES]),
        ("operation", "", "collective operation", [c[1] for c in _CLASSES]),
        ("bytes", "B", "size of one operation", [c[2] for c in _CLASSES]),
        ("count", "", "operations", counts),
        ("transfer_total_ns", "ns", "time moving data, summed", totals),
        ("transfer_median_ns", "ns", "median of one operation", medians),
        ("transfer_p95_ns", "ns", "95th percentile", [int(1.3 * m) for m in medians]),
        ("wait_total_ns", "ns", "waits of all ranks, summed", [int(wait * c[4]) for c in _CLASSES]),
        ("busbw_median_bytes_per_s", "B/s", "median bus bandwidth", [None if c[2] is None else c[2] * 1.75e9 / m for c, m in zip(_CLASSES, medians, strict=True)]),
    )
    top = sorted(range(job.steps), key=lambda s: -job.lengths[s])[:10]
    costliest = _table(
        "costliest",
        "The operations that cost most.",
        len(top),
        ("match_id", "", "number of the operation", [24 * s for s in top]),
        ("group", "", "group of ranks", ["data parallel"] * len(top)),
        ("operation", "", "collective operation", ["all_reduce"] * len(top)),
        ("bytes", "B", "size", [134_217_728] * len(top)),
        ("step", "", "step", top),
        ("start_ns", "ns", "first arrival", [job.starts[s] + job.lengths[s] // 2 for s in top]),
        ("transfer_ns", "ns", "time moving data", [medians[0] + 1000 * s for s in top]),
        ("wait_total_ns", "ns", "waits of all ranks", [sum(c.exposed_wait for c in job.cells[s * job.ranks : (s + 1) * job.ranks]) for s in top]),
        ("last_rank", "", "rank that arrived last", [0 if s in job.stalled else job.slow_rank for s in top]),
        ("last_by_ns", "ns", "behind the rank before it", [58 * _MS] * len(top)),
        ("busbw_bytes_per_s", "B/s", "bus bandwidth", [134_217_728 * 1.75e9 / (medians[0] + 1000 * s) for s in top]),
    )
    answer = "The all_reduce of 134 MB in the group data parallel costs most, by the waits for its last rank."
    return Section("collectives", "Collectives", "Which collectives cost most, and why?", answer, [classes, costliest])


def _waits_section(job: _Job) -> Section:
    operations = 89 * job.steps
    last = {r: 0 for r in range(job.ranks)}
    late = {r: 0 for r in range(job.ranks)}
    cell_late: list[int] = []
    for step in range(job.steps):
        cells = job.cells[step * job.ranks : (step + 1) * job.ranks]
        order = sorted(cells, key=lambda c: (c.exposed_wait, c.rank))
        lead = (order[1].exposed_wait if len(order) > 1 else 0) - order[0].exposed_wait
        last[order[0].rank] += 1
        late[order[0].rank] += lead
        cell_late += [lead if c.rank == order[0].rank else 0 for c in cells]
    arrivals = _table(
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
        ("late_ns", "ns", "time it came after the rank before it", [late[r] for r in range(job.ranks)]),
    )
    per_step = _table(
        "rank_step_waits",
        "One row per rank and step.",
        len(job.cells),
        ("rank", "", "global rank", [c.rank for c in job.cells]),
        ("step", "", "step number", [c.step for c in job.cells]),
        ("wait_ns", "ns", "time it waited for others", [c.exposed_wait for c in job.cells]),
        ("late_ns", "ns", "time it came after the rank before it", cell_late),
    )
    share = last[job.slow_rank] / job.steps
    answer = f"Rank {job.slow_rank} arrives last in {100 * share:.0f} % of the operations."
    return Section("waits", "Arrivals", "Who waits, and for whom?", answer, [arrivals, per_step])


def _attribution(job: _Job) -> Attribution:
    n = job.steps * 1e9
    of_all = {p: sum(job.total(r, p) for r in range(job.ranks)) / job.ranks / n for p in _PARTS}
    total = sum(job.lengths) / n
    straggler, stall = job.straggler_ns / n, 240 * _MS * len(job.stalled) / n
    wait = of_all["exposed_wait"]
    straggler = min(straggler, 0.9 * wait)
    stall = min(stall, 0.9 * (wait - straggler))
    seconds = {
        "compute": of_all["compute"],
        "exposed_transfer": of_all["exposed_transfer"],
        "compute_straggler": straggler,
        "input_stall": stall,
        "idle": of_all["idle"],
        "memcpy": of_all["memcpy"],
    }
    causes = [Cause(k, s, s / total, 0.94 * s, 1.06 * s) for k, s in seconds.items()]
    per_rank = {str(r): RankTimes(*(job.total(r, p) / 1e9 for p in (*_PARTS, "dataloader"))) for r in range(job.ranks)}
    return Attribution("s", total, causes, total - sum(seconds.values()), per_rank)


def _findings(job: _Job) -> list[Finding]:
    lost = job.straggler_ns / 1e9
    slow, host = job.slow_rank, job.host(job.slow_rank)
    worst = sorted(job.by_rank[slow], key=lambda c: -c.compute)[:3]
    first_stall = job.starts[job.stalled[0]] if job.stalled else job.starts[0]
    stall = 0.18 * len(job.stalled)
    findings = [
        Finding(
            id=finding_id("compute_straggler", [slow]),
            kind="compute_straggler",
            severity="critical",
            summary=f"Kernels on rank {slow} ({host}) take 11 % longer than the same kernels on its peers, in every step, so that all other ranks wait for it.",
            confidence="likely",
            lost_s=lost,
            lost_s_low=0.93 * lost,
            lost_s_high=1.04 * lost,
            lost_gpu_hours=lost * job.ranks / 3600,
            ranks=[slow],
            hosts=[host],
            steps=list(range(job.steps)),
            start_ns=job.starts[0],
            end_ns=job.starts[-1] + job.lengths[-1],
            evidence=[
                Evidence(
                    job.source(slow),
                    slow,
                    82_000_000_000 + job.starts[c.step] - ORIGIN_NS,
                    job.starts[c.step],
                    f"step {c.step}: {c.compute / _MS:.0f} ms of compute, {median(x.compute for x in job.cells if x.step == c.step) / _MS:.0f} ms on the median rank",
                )
                for c in worst
            ],
            next_step=f"Check clocks, temperature and power limit of GPU {slow % job.per_host} on {host} (nvidia-smi -q -d CLOCK,TEMPERATURE,POWER) and swap it out if it throttles.",
        ),
    ]
    if job.stalled:
        findings.append(
            Finding(
                id=finding_id("input_stall", [0]),
                kind="input_stall",
                severity="major",
                summary=f"The data loader of rank 0 delivers its batch 240 ms late in {len(job.stalled)} of {job.steps} steps.",
                confidence="proven",
                lost_s=stall,
                lost_s_low=0.9 * stall,
                lost_s_high=1.1 * stall,
                lost_gpu_hours=stall * job.ranks / 3600,
                ranks=[0],
                hosts=[job.host(0)],
                steps=list(job.stalled),
                start_ns=first_stall,
                end_ns=first_stall + 240 * _MS,
                evidence=[Evidence(job.source(0), 0, 82_000_000_000 + first_stall - ORIGIN_NS, first_stall, "DataLoader.__next__ runs for 244 ms; the GPU is idle meanwhile")],
                next_step="Raise num_workers or prefetch_factor of the loader on rank 0, and look at the storage that it reads from.",
            )
        )
    if len(job.hosts) > 1:
        link = Link(job.hosts[-1], "mlx5_3", "leaf-1", "Ethernet12")
        members = [r for r in range(job.ranks) if job.host(r) == job.hosts[-1]]
        saving = 0.0077 * job.steps
        findings.append(
            Finding(
                id=finding_id("slow_link", [job.hosts[-1], "mlx5_3"]),
                kind="slow_link",
                severity="minor",
                summary=f"Transfers of {job.hosts[-1]} take 12 % longer than those of the other hosts.",
                confidence="possible",
                lost_s=saving,
                lost_s_low=0.2 * saving,
                lost_s_high=1.8 * saving,
                lost_gpu_hours=saving * job.ranks / 3600,
                ranks=members,
                hosts=[job.hosts[-1]],
                links=[link],
                steps=list(range(job.steps)),
                evidence=[Evidence(job.source(members[0]), members[0], None, job.starts[0], "all_reduce of 134 MB: 71.7 ms, 64.0 ms on the other hosts")],
                next_step=f"Read the error counters and the negotiated speed of mlx5_3 on {job.hosts[-1]} and of Ethernet12 on leaf-1.",
            )
        )
    return sorted(findings, key=lambda f: -f.lost_s)


def _poison(name: str) -> DataTable:
    values: list[object] = [name, "<img src=x onerror=alert(2)>", "$$x$$ \\(y\\)", "=cmd|' /C calc'!A0", "void k<int>(T&&)\x1b[2J\u202egnp", None]
    return _table(
        "kernels",
        f"Kernels of {name}",
        len(values),
        ("name", "", f"kernel {name}", values),
        ("duration_ns", "ns", "", [1_500_000, 2_000, 10, 0, None, 3]),
        (name, "", "", range(len(values))),
    )


def example_result(ranks: int = 16, steps: int = 12, *, hostile: bool = False, stalled: tuple[int, ...] = (4, 9), missing: tuple[int, ...] = ()) -> RunResult:
    """A finished, slow job of `ranks` ranks. `hostile` puts markup into every name that a file could have given.

    `missing` ranks are expected but unseen, beyond those that were seen.
    """
    text = HOSTILE if hostile else ""
    job = _Job(ranks, steps, min(3, ranks - 1), tuple(s for s in stalled if s < steps), name=f"llama-8b-pretrain{text}", file_suffix=text, host_prefix=f"node{text}")
    findings = _findings(job)
    top = findings[0]
    span = sum(job.lengths) / 1e9
    extra = [Section("kernels", f"Kernels{text}", "Which kernels?", text, [_poison(text)])] if hostile else []
    return RunResult(
        tool=Tool("tracelab", "0.1.0"),
        run=RunInfo(
            name=job.name,
            start_ns=ORIGIN_NS,
            end_ns=ORIGIN_NS + sum(job.lengths),
            world_size=ranks + len(missing),
            ranks=[RankInfo(r, job.host(r), r % job.per_host, "NVIDIA H100 80GB HBM3", [job.source(r)]) for r in range(ranks)],
            missing_ranks=[ranks + i for i in range(len(missing))],
            steps=steps,
            step_time_s=StepTime(median(job.lengths) / 1e9, sorted(job.lengths)[int(0.95 * (steps - 1))] / 1e9, max(job.lengths) / 1e9),
            coverage=[Coverage(r, 3 if r == ranks - 1 else 0, r == ranks - 1, 1 if r == ranks - 1 else 0) for r in range(ranks)],
        ),
        verdict=f"Rank {job.slow_rank} on {job.host(job.slow_rank)} computes 11 % longer than its peers and costs {top.lost_s:.2f} s of {span:.1f} s analysed ({100 * top.lost_s / span:.1f} %)",
        attribution=_attribution(job),
        findings=findings,
        not_observable=[
            NotObservable("Does a switch drop packets?", "no counters of switches or network interfaces", "ethtool -S or a Prometheus snapshot of each host, before and after the run"),
            NotObservable("Did a GPU throttle?", "no clock and temperature samples", "nvidia-smi dmon or DCGM during the run"),
        ],
        clocks=[Clock(h, ORIGIN_NS, (i * 2 - len(job.hosts) + 1) * 731_000, 0.8 * i, 4_200 + 300 * i, "collective-ends", "A") for i, h in enumerate(job.hosts)],
        analyses=[
            *(AnalysisStatus(a, "ok") for a in ("steps", "breakdown", "waits", "overlap", "collectives", "stragglers", "input")),
            AnalysisStatus("links", "degraded", "no file states which NIC a channel uses; hosts are compared instead"),
            AnalysisStatus("network", "not_applicable", "no counters of network interfaces"),
        ],
        sections=[_steps_section(job), _breakdown_section(job), _overlap_section(job), _collectives_section(job), _waits_section(job), *extra],
        inputs=[
            *(Input(job.source(r), "torch-profiler", "analysed", 9_800_000 + 1_000 * r, 212_000 + r, r, "") for r in range(ranks)),
            Input(f"notes{text}.txt", "", "unknown", 2_048, 0, None, "no parser claims this file"),
        ],
        notices=[
            ResultNotice(job.source(ranks - 1), "truncated", "warning", 1, 41_943_040, "the file ends inside an event; the events before are kept", "copy the file again"),
            ResultNotice(job.source(0), "unknown-event", "info", 17, 1_204, "events of an unknown category are not used", ""),
        ],
    )


def empty_result() -> RunResult:
    """A healthy job of one rank: no finding, no section."""
    return RunResult(
        tool=Tool("tracelab", "0.1.0"),
        run=RunInfo("quiet", None, None, None, [RankInfo(-1, "unknown", None, None, ["t.json"])], [], 0, None, []),
        verdict="No cause of lost time stands out from noise",
        attribution=None,
        findings=[],
        not_observable=[],
        clocks=[],
        analyses=[AnalysisStatus("steps", "ok")],
    )
