"""Result documents of a made-up job, from one rank to thousands, with or without hostile names.

Every figure in a document follows from the times that `ResultJob` lays out per rank and step, so that the parts add up.
`python -m tests.builders.result` writes the example document and the JSON Schema of the repository again.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import msgspec

from tests.builders.result_job import MS, ORIGIN_NS, PARTS, ResultJob
from tests.builders.result_sections import breakdown_section, collectives_section, overlap_section, steps_section, table, waits_section
from tests.builders.result_traffic import traffic_of, traffic_section
from tracelab.results import (
    AnalysisStatus,
    Attribution,
    Cause,
    Clock,
    Coverage,
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
    json_schema,
)

__all__ = ["EXAMPLE", "HOSTILE", "SCHEMA_FILE", "empty_result", "example_file", "example_result", "quiet_result", "schema_text"]

HOSTILE = "</script><script>alert(1)</script>{{7*7}}"
_ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = _ROOT / "examples" / "findings.example.json"
SCHEMA_FILE = _ROOT / "docs" / "findings.schema.json"


def _attribution(job: ResultJob) -> Attribution:
    n = job.steps * 1e9
    of_all = {p: sum(job.total(r, p) for r in range(job.ranks)) / job.ranks / n for p in PARTS}
    total = sum(job.lengths) / n
    straggler, stall = job.straggler_ns / n, 240 * MS * len(job.stalled) / n
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
    per_rank = {str(r): RankTimes(*(job.total(r, p) / 1e9 for p in (*PARTS, "dataloader"))) for r in range(job.ranks)}
    return Attribution("s", total, causes, total - sum(seconds.values()), per_rank)


def _straggler(job: ResultJob) -> Finding:
    lost = job.straggler_ns / 1e9
    slow, host = job.slow_rank, job.host(job.slow_rank)
    worst = sorted(job.by_rank[slow], key=lambda c: -c.compute)[:3]
    return Finding(
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
                f"step {c.step}: {c.compute / MS:.0f} ms of compute, {median(x.compute for x in job.in_step(c.step)) / MS:.0f} ms on the median rank",
            )
            for c in worst
        ],
        next_step=f"Check clocks, temperature and power limit of GPU {slow % job.per_host} on {host} with nvidia-smi -q; swap it out if it throttles.",
    )


def _stall(job: ResultJob) -> Finding:
    first_stall = job.starts[job.stalled[0]]
    stall = 0.18 * len(job.stalled)
    return Finding(
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
        end_ns=first_stall + 240 * MS,
        evidence=[Evidence(job.source(0), 0, 82_000_000_000 + first_stall - ORIGIN_NS, first_stall, "DataLoader.__next__ takes 244 ms; the GPU is idle")],
        next_step="Raise num_workers or prefetch_factor of the loader on rank 0, and look at the storage that it reads from.",
    )


def _slow_link(job: ResultJob) -> Finding:
    link = Link(job.hosts[-1], "mlx5_3", "leaf-1", "Ethernet12")
    members = [r for r in range(job.ranks) if job.host(r) == job.hosts[-1]]
    saving = 0.0077 * job.steps
    return Finding(
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


def _findings(job: ResultJob) -> list[Finding]:
    findings = [_straggler(job)]
    if job.stalled:
        findings.append(_stall(job))
    if len(job.hosts) > 1:
        findings.append(_slow_link(job))
    return sorted(findings, key=lambda f: -f.lost_s)


def _poison(name: str) -> DataTable:
    values: list[object] = [name, "<img src=x onerror=alert(2)>", "$$x$$ \\(y\\)", "=cmd|' /C calc'!A0", "void k<int>(T&&)\x1b[2J\u202egnp", None]
    return table(
        "kernels",
        f"Kernels of {name}",
        len(values),
        ("name", "", f"kernel {name}", values),
        ("duration_ns", "ns", "", [1_500_000, 2_000, 10, 0, None, 3]),
        (name, "", "", range(len(values))),
    )


def _run(job: ResultJob, missing: int) -> RunInfo:
    last = job.ranks - 1
    return RunInfo(
        name=job.name,
        start_ns=ORIGIN_NS,
        end_ns=ORIGIN_NS + sum(job.lengths),
        world_size=job.ranks + missing,
        ranks=[RankInfo(r, job.host(r), r % job.per_host, "NVIDIA H100 80GB HBM3", [job.source(r)]) for r in range(job.ranks)],
        missing_ranks=[job.ranks + i for i in range(missing)],
        steps=job.steps,
        step_time_s=StepTime(median(job.lengths) / 1e9, sorted(job.lengths)[int(0.95 * (job.steps - 1))] / 1e9, max(job.lengths) / 1e9),
        coverage=[Coverage(r, 3 if r == last else 0, r == last, 1 if r in {0, last} else 0) for r in range(job.ranks)],
    )


def _open_questions() -> list[NotObservable]:
    counters = "ethtool -S or a Prometheus snapshot of each host, before and after the run"
    return [
        NotObservable("Does a switch drop packets?", "no counters of switches or network interfaces", counters),
        NotObservable("Did a GPU throttle?", "no clock and temperature samples", "nvidia-smi dmon or DCGM during the run"),
    ]


def _statuses() -> list[AnalysisStatus]:
    return [
        *(AnalysisStatus(a, "ok") for a in ("steps", "breakdown", "waits", "overlap", "collectives", "traffic", "stragglers", "exposure", "clocks")),
        AnalysisStatus("links", "degraded", "no file states which NIC a channel uses; hosts are compared instead"),
        AnalysisStatus("network", "not_applicable", "no counters of network interfaces"),
    ]


def _notices(job: ResultJob) -> list[ResultNotice]:
    cut = "the file ends inside an event; the events before are kept"
    return [
        ResultNotice(job.source(job.ranks - 1), "truncated", "warning", 1, 41_943_040, cut, "copy the file again"),
        ResultNotice(job.source(0), "unknown-event", "info", 17, 1_204, "events of an unknown category are not used", ""),
    ]


def example_result(
    ranks: int = 16, steps: int = 12, *, hostile: bool = False, stalled: tuple[int, ...] = (4, 9), missing: int = 0, per_host: int = 8
) -> RunResult:
    """A finished, slow job of `ranks` ranks. `hostile` puts markup into every name that a file could have given.

    `missing` ranks are expected but unseen, beyond those that were seen.
    """
    text = HOSTILE if hostile else ""
    job = ResultJob(
        ranks,
        steps,
        min(3, ranks - 1),
        tuple(s for s in stalled if s < steps),
        name=f"llama-8b-pretrain{text}",
        file_suffix=text,
        host_prefix=f"node{text}",
        group_suffix=text,
        per_host=per_host,
    )
    findings = _findings(job)
    lost, span = findings[0].lost_s, sum(job.lengths) / 1e9
    extra = [Section("kernels", f"Kernels{text}", "Which kernels?", text, [_poison(text)])] if hostile else []
    agree = f"The clocks of {len(job.hosts)} hosts agree within 4.20 µs." if len(job.hosts) > 1 else "All ranks share the clock of one host."
    clocks = Section("clocks", "Clocks", "How well do the clocks of the hosts agree?", agree, [])
    told = [steps_section(job), breakdown_section(job), overlap_section(job), collectives_section(job), waits_section(job), clocks]
    sections = [*told, *([traffic_section(job)] if ranks > 1 else []), *extra]
    return RunResult(
        tool=Tool("tracelab", "0.1.0"),
        run=_run(job, missing),
        verdict=f"{lost * 1000:.0f} ms lost ({100 * lost / span:.1f} % of the run) over {steps} steps on {ranks} ranks: {findings[0].summary}",
        attribution=_attribution(job),
        findings=findings,
        not_observable=_open_questions(),
        clocks=[Clock(h, ORIGIN_NS, (i * 2 - len(job.hosts) + 1) * 731_000, 0.8 * i, 4_200 + 300 * i, "collective-ends", "A") for i, h in enumerate(job.hosts)],
        analyses=_statuses(),
        traffic=traffic_of(job) if ranks > 1 else None,
        sections=sections,
        inputs=[
            *(Input(job.source(r), "torch-profiler", "analysed", 9_800_000 + 1_000 * r, 212_000 + r, r, "") for r in range(ranks)),
            Input(f"notes{text}.txt", "", "unknown", 2_048, 0, None, "no parser claims this file"),
        ],
        notices=_notices(job),
    )


def quiet_result() -> RunResult:
    """A healthy job of two ranks: all was checked, nothing was found."""
    ranks = [RankInfo(r, "node-0", r, None, [f"t{r}.json"]) for r in (0, 1)]
    return msgspec.structs.replace(
        empty_result(),
        run=RunInfo("quiet", None, None, 2, ranks, [], 3, None, []),
        verdict="No cause of lost time stands out from noise: 3 steps on 2 ranks.",
        analyses=[AnalysisStatus(a, "ok") for a in ("steps", "stragglers", "exposure")],
    )


def empty_result() -> RunResult:
    """One rank alone, without steps: no finding, no section, and little that could be checked."""
    return RunResult(
        tool=Tool("tracelab", "0.1.0"),
        run=RunInfo("quiet", None, None, None, [RankInfo(-1, "unknown", None, None, ["t.json"])], [], 0, None, []),
        verdict="Nothing could be checked",
        attribution=None,
        findings=[],
        not_observable=[],
        clocks=[],
        analyses=[AnalysisStatus("overlap", "ok"), AnalysisStatus("stragglers", "not_applicable", "one rank alone has no peers")],
    )


def example_file() -> bytes:
    """What `examples/findings.example.json` holds."""
    return example_result(8, 6, per_host=4, stalled=(4,)).to_json()


def schema_text() -> str:
    """What `docs/findings.schema.json` holds."""
    return json.dumps(json_schema(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    EXAMPLE.write_bytes(example_file())
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
