"""Reads one export, from its tables to the rows of ours, and describes it. Works on any `Source`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tracelab.plugins import Emitter, EventCount, Part, SourceInfo
from tracelab.tables import COMM_RECORDS, GPU_SPANS, HOST_SPANS
from tracelab_parsers.nsys.communicators import emit_communicators
from tracelab_parsers.nsys.context import Context
from tracelab_parsers.nsys.counters import Metrics
from tracelab_parsers.nsys.generic import generic_metrics
from tracelab_parsers.nsys.gpu import gpu_rows
from tracelab_parsers.nsys.host import Ranges, api_rows, other_rows
from tracelab_parsers.nsys.joins import Joins
from tracelab_parsers.nsys.names import Names
from tracelab_parsers.nsys.nccl import Nccl
from tracelab_parsers.nsys.notices import Notices
from tracelab_parsers.nsys.processes import Process, Processes
from tracelab_parsers.nsys.session import Session, read_session
from tracelab_parsers.nsys.source import Field, Source, newest

__all__ = ["read_export"]

_NOT_STORED = (
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    "OSRT_API",
    "SCHED_EVENTS",
    "COMPOSITE_EVENTS",
    "CUDNN_EVENTS",
    "CUBLAS_EVENTS",
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
)
_SERIOUS = 2
_LOSS = ("dropped", "lost", "were not collected", "incomplete", "overflow")


def read_export(source: Source, emit: Emitter, notices: Notices) -> SourceInfo:
    """Emits all rows and notices of `source`, and describes it."""
    context = Context(source, notices, read_session(source), Names(source, notices), Processes(notices))
    joins, nccl = Joins(), Nccl(notices)
    for found in gpu_rows(context):
        emit.batch(GPU_SPANS, found.batch)
        if found.batch.column("kind")[0].as_py() != "sync":
            joins.work(found.batch)
        if len(found.nccl):
            nccl.kernels(found.batch, found.nccl)
    for batch in api_rows(context, joins, nccl):
        emit.batch(HOST_SPANS, batch)
    ranges = Ranges(context, nccl)
    for batch in ranges.rows():
        emit.batch(HOST_SPANS, batch)
    for batch in other_rows(context):
        emit.batch(HOST_SPANS, batch)
    metrics = Metrics(context, emit)
    metrics.read()
    generic_metrics(context, metrics)
    metrics.samples.close()
    emit_communicators(nccl.communicators, emit)
    ranks = _ranks(context, nccl)
    for batch in nccl.records({n: world for n, (_, world) in enumerate(ranks) if world is not None}):
        emit.batch(COMM_RECORDS, batch)
    parts = [_part(context, nccl, n, *ranks[n]) for n in range(len(ranks))]
    _judge(context, joins, nccl, ranges, parts)
    for notice in notices.all():
        emit.notice(notice)
    return SourceInfo(parts or [_empty(context.session)], dict(sorted(context.session.facts.items())), list(_counts(context)), source.cut_short)


def _ranks(context: Context, nccl: Nccl) -> list[tuple[int | None, int | None]]:
    """Rank and number of ranks of each part, as far as the file states them.

    The environment is that of the program that was profiled: it tells the rank only where that is the only process. A
    communicator of as many ranks as the job tells it for several. A launcher may have an environment of its own, which
    counts hosts: a larger communicator, or a rank that occurs twice, gives it away.
    """
    session, processes = context.session, context.processes.all
    sizes = [c.size for known in nccl.communicators.values() for c in known.values()]
    world = session.env_world
    believed = world is None or max(sizes, default=0) <= world
    found: list[int | None] = [session.mpi_rank.get(p.key) for p in processes]
    if len(processes) == 1:
        rank = found[0] if found[0] is not None or not believed else session.env_rank
        if rank is None and len(session.xla_ranks) == 1:
            rank = session.xla_ranks[0]
        return [(rank, world if believed else None)]
    if world is not None and believed and not any(f is not None for f in found):
        held = [{c.rank for c in nccl.communicators[n].values() if c.size == world} for n in range(len(processes))]
        told = [next(iter(ranks)) if len(ranks) == 1 else None for ranks in held]
        known = [r for r in told if r is not None]
        if len(set(known)) == len(known):
            return [(r, world if r is not None else None) for r in told]
    return [(rank, None) for rank in found]


def _part(context: Context, nccl: Nccl, number: int, rank: int | None, world: int | None) -> Part:
    process, session = context.processes.all[number], context.session
    whole = sorted(comm for comm, c in nccl.communicators[number].items() if world is not None and c.size == world)
    device = process.device
    return Part(
        part=number,
        rank=rank,
        world_size=world,
        host=session.host,
        pid=process.pid,
        device=device,
        gpu=_gpu(session, process),
        job=f"{whole[0]:#x}" if len(whole) == 1 else None,
        start_ns=process.start_ns,
        end_ns=process.end_ns,
        time_base_lost=session.base_lost,
    )


def _gpu(session: Session, process: Process) -> str | None:
    """The model of the GPU: only where its index is known, or where all GPUs of the host are alike."""
    names = session.gpu_names
    if len(set(names.values())) == 1:
        return next(iter(names.values()))
    mapped = process.device is not None and process.device in session.gpu_of.values()
    return names.get(process.device) if mapped and process.device is not None else None


def _empty(session: Session) -> Part:
    return Part(rank=session.env_rank, world_size=session.env_world, host=session.host, time_base_lost=session.base_lost)


def _judge(context: Context, joins: Joins, nccl: Nccl, ranges: Ranges, parts: list[Part]) -> None:
    notices, stored = context.notices, context.stored
    joins.judge(notices)
    notices.add("no-kernels", int(not (stored["kernel"] or stored["graph"])))
    notices.add("no-runtime-calls", int(not stored["api call"]))
    notices.add("no-ranges", int(not stored["nvtx range"]))
    notices.add("no-payloads", nccl.calls if not ranges.payloads.seen else 0)
    notices.add("bad-payload", ranges.payloads.bad)
    notices.add("no-time-base", int(context.session.base_lost))
    notices.add("shifted-times", int(context.session.facts.get("time_shift", "0") not in {"0", ""}))
    notices.add("no-rank", sum(p.rank is None for p in parts) or int(not parts and context.session.env_rank is None))
    notices.add("events-dropped", _dropped(context.source))


def _dropped(source: Source) -> int:
    """Warnings of the profiler about lost events. Their text may name paths and commands: it goes nowhere."""
    table = newest(source.tables, "DIAGNOSTIC_EVENT")
    count = 0
    for batch in source.batches(table, (Field("severity"), Field("text", "text"))) if table is not None else ():
        for severity, text in zip(batch.column("severity").to_pylist(), batch.column("text").to_pylist(), strict=True):
            words = (text or "").lower()
            count += severity is not None and severity >= _SERIOUS and any(w in words for w in _LOSS)
    return count


def _counts(context: Context) -> Iterator[EventCount]:
    lost = Counter(context.lost)
    for name in _NOT_STORED:
        table = newest(context.source.tables, name)
        if table is not None:
            lost[name.lower()] += context.source.count(table)
    for kind in sorted(context.stored.keys() | lost.keys()):
        if context.stored[kind]:
            yield EventCount(kind, context.stored[kind], stored=True)
        if lost[kind]:
            yield EventCount(f"{kind} (not stored)" if context.stored[kind] else kind, lost[kind], stored=False)
