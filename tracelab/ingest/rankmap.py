"""The rank map of the analysed job: which file speaks for which rank and window, on which host, and who is missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tracelab.errors import UsageError
from tracelab.ingest.identity import FileNotice, Process
from tracelab.ingest.jobs import group_jobs, overlap
from tracelab.ingest.launches import attach_logs, fill_in, short_name
from tracelab.ingest.manifest import Manifest
from tracelab.plugins import Notice, Severity
from tracelab.units import format_ranges

__all__ = ["Assignment", "RankMap", "map_ranks"]

_LISTED = 4
"""Names spelled out in a notice; more are counted."""


@dataclass(frozen=True)
class Assignment:
    """What became of one process: its job (0 is the analysed one), final rank and host, capture window and role."""

    process: Process
    job: int
    rank: int
    host: str
    window: int
    role: str


@dataclass(frozen=True)
class RankMap:
    """All assignments, by file and part. `world_size` is None where nothing states it."""

    assignments: tuple[Assignment, ...]
    world_size: int | None
    missing: tuple[int, ...]
    notices: tuple[FileNotice, ...]

    @cached_property
    def used(self) -> tuple[Assignment, ...]:
        """Those of the analysed job whose rows are read: captures and logs."""
        return tuple(a for a in self.assignments if a.role in {"analysed", "log"})

    @cached_property
    def analysed(self) -> tuple[Assignment, ...]:
        """The captures among them; the logs where there is no capture."""
        return tuple(a for a in self.assignments if a.role == "analysed")

    @cached_property
    def by_rank(self) -> dict[int, list[Assignment]]:
        """The analysed ones by rank, in order (negative ranks are unknown ones)."""
        out: dict[int, list[Assignment]] = {}
        for a in sorted(self.analysed, key=lambda a: a.rank):
            out.setdefault(a.rank, []).append(a)
        return out

    @cached_property
    def hosts(self) -> dict[int, str]:
        """Host by rank, of all ranks that a capture or a log names."""
        out: dict[int, str] = {}
        for a in sorted(self.used, key=lambda a: (a.role != "analysed", a.rank)):
            out.setdefault(a.rank, a.host)
        return dict(sorted(out.items()))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are analysed, in order."""
        return tuple(self.by_rank)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _number_unknown(job: list[Process]) -> tuple[list[Process], list[FileNotice]]:
    """Gives processes without a rank the numbers -1, -2, …: visible, and never mistaken for rank 0."""
    out, notices, number = [], [], 0
    captures = sum(p.kind == "timeline" for p in job)
    for p in sorted(job, key=lambda p: p.kind == "log"):
        if p.rank is not None:
            out.append(p)
            continue
        number -= 1
        out.append(replace(p, rank=number))
        if p.kind == "log" and p.pid is None and p.host is None:
            continue  # no process of the job: a benchmark's table, an answer of the library's monitor
        if p.kind == "timeline":
            text = f"neither the content nor the name states a rank; shown as rank {number}"
        else:
            text = (
                f"the log of process {p.pid if p.pid is not None else '?'} on {p.host or 'an unknown host'} states no rank of the job; shown as rank {number}"
            )
        severity: Severity = "info" if len(job) == 1 or (p.kind == "log" and captures) else "warning"
        notices.append(FileNotice(p.name, Notice("unknown-rank", severity, text, 'set [files."…"] rank = … in tracelab.toml')))
    return sorted(out, key=lambda p: (p.source, p.part.part)), notices


def _drop_copies(job: list[Process]) -> tuple[list[Process], list[Process], list[FileNotice]]:
    """Keeps one of files with equal content."""
    kept: list[Process] = []
    first: dict[tuple[str, int], Process] = {}
    copies, notices = [], []
    for p in job:
        original = first.setdefault((p.content, p.part.part), p)
        if original is p:
            kept.append(p)
            continue
        copies.append(p)
        notices.append(FileNotice(p.name, Notice("duplicate-file", "info", f"the same bytes as {original.name}; read once", "delete the copy")))
    return kept, copies, notices


def _drop_rivals(job: list[Process]) -> tuple[list[Process], list[Process], list[FileNotice]]:
    """Of captures that claim one rank at one time, keeps a whole one before a damaged one, then the one with the most events."""
    kept: dict[int | None, list[Process]] = defaultdict(list)
    rivals: list[Process] = []
    notices: list[FileNotice] = []
    for p in sorted(job, key=lambda p: (p.damaged, -p.events, p.source, p.part.part)):
        winner = next((k for k in kept[p.rank] if overlap(k, p)), None)
        if winner is None:
            kept[p.rank].append(p)
            continue
        rivals.append(p)
        why = "is whole" if p.damaged and not winner.damaged else "holds more events"
        text = f"claims rank {p.rank} at the same time as {winner.name}, which {why}; left out"
        hint = 'one of the two is another rank or another job: set [files."…"] rank = … (or ignore = true) in tracelab.toml'
        notices.append(FileNotice(p.name, Notice("duplicate-rank", "error", text, hint)))
    return [p for same in kept.values() for p in same], rivals, notices


def _drop_repeated(logs: list[Process]) -> tuple[list[Process], list[Process], list[FileNotice]]:
    """Of several files of one format that hold the log of one process, keeps the one with the most messages."""
    kept: list[Process] = []
    first: dict[tuple[str, str | None, int], Process] = {}
    repeated, notices = [], []
    for p in sorted(logs, key=lambda p: (-p.events, p.source, p.part.part)):
        winner = p if p.pid is None or p.part.partial else first.setdefault((p.format, short_name(p.host), p.pid), p)
        if winner is p:
            kept.append(p)
            continue
        repeated.append(p)
        text = f"holds messages of process {p.pid}, of which {winner.name} holds more; left out, so that nothing counts twice"
        hint = "if the files are parts of one log (rotated), join them into one file"
        notices.append(FileNotice(p.name, Notice("repeated-log", "warning", text, hint)))
    return kept, repeated, notices


def _one_name(job: list[Process]) -> list[Process]:
    """Hosts of logs under the names that captures use: libraries print a name up to its first dot."""
    full: dict[str, set[str]] = defaultdict(set)
    for p in job:
        if p.kind == "timeline" and p.host:
            full[p.host.partition(".")[0]].add(p.host)
    out = []
    for p in job:
        names = full.get(p.host or "", set())
        out.append(replace(p, host=next(iter(names))) if p.kind == "log" and len(names) == 1 else p)
    return out


def _windows(job: list[Process]) -> dict[tuple[int, int], int]:
    """The number of each process' capture window among those of its rank, by time."""
    by_rank: dict[int | None, list[Process]] = defaultdict(list)
    for p in job:
        if p.kind == "timeline":
            by_rank[p.rank].append(p)
    out = {}
    for same in by_rank.values():
        for i, p in enumerate(sorted(same, key=lambda p: (p.span or (0, 0), p.source))):
            out[p.source, p.part.part] = i
    return out


def _hosts(job: list[Process]) -> dict[int, tuple[str, str]]:
    """Host and origin per rank. Where none is known, ranks share a host as long as rank minus GPU index stays the same.

    Launchers number the GPUs of a host in the order of its ranks. A rank whose GPU index is unknown, or that breaks that
    order, gets a host of its own: the worst case for the clocks, but never a wrong merge.
    """
    known: dict[int, tuple[str, str]] = {}
    devices: dict[int, int | None] = {}
    for p in sorted(job, key=lambda p: p.kind == "log"):
        assert p.rank is not None  # numbered before
        if p.host is not None:
            known.setdefault(p.rank, (p.host, p.host_origin))
        devices.setdefault(p.rank, p.part.device)
    number, first = -1, None
    for rank in sorted(r for r in devices if r not in known):
        device = devices[rank]
        base = None if device is None or rank < 0 else rank - device
        if base is None or base != first:
            number += 1
        first = base
        known[rank] = (f"unnamed-host-{number}", "devices" if device is not None else "unknown")
    return known


def _missing(ranks: Sequence[int], world: int | None) -> tuple[int, ...]:
    seen = {r for r in ranks if r >= 0}
    size = world if world is not None else max(seen, default=-1) + 1
    return tuple(r for r in range(size) if r not in seen)


def _others(jobs: list[list[Process]]) -> list[FileNotice]:
    notices = []
    for number, job in enumerate(jobs[1:], 1):
        names = sorted({p.name for p in job})
        ranks = len({p.rank for p in job if p.rank is not None})
        what = f"{ranks} ranks of a world of {job[0].world_size}" if job[0].world_size else "captures that state no world"
        text = f"belongs to job {number} ({what}, {len(names)} files), which is not analysed here"
        hint = f"--job {number} analyses it, or give its file or folder"
        notices.append(FileNotice(names[0], Notice("other-job", "info", text, hint)))
    return notices


def map_ranks(processes: Sequence[Process], manifest: Manifest, chosen: int = 0) -> RankMap:
    """Maps processes to jobs, ranks, hosts and windows; the job number `chosen` (0: the largest) is analysed.

    Raises `UsageError` where there is no job of that number.
    """
    processes = fill_in(processes)
    captures = [p for p in processes if p.kind == "timeline" and p.span is not None]
    logs = [p for p in processes if p.kind == "log" and p.events]
    silent = [p for p in processes if p.span is None and p.kind == "timeline"]
    mute = [p for p in processes if p.kind == "log" and not p.events]
    jobs, unplaced = attach_logs(group_jobs(captures), logs)
    if not 0 <= chosen < max(1, len(jobs)):
        raise UsageError(f"there is no job number {chosen}", hint=f"there are {len(jobs)}, numbered from 0; `tracelab inspect` lists them")
    placed = [_assign(p, 0, "no-events", {}, {}) for p in silent + mute]
    notices = [FileNotice(p.name, Notice("no-events", "warning", "holds no timed event of a host or GPU", "collect the trace again")) for p in silent]
    if not jobs:
        return RankMap(tuple(placed), manifest.job.world_size, (), tuple(notices))
    notices += unplaced
    jobs.insert(0, jobs.pop(chosen))
    job, more = _number_unknown(jobs[0])
    notices += more
    job, copies, more = _drop_copies(job)
    notices += more
    own_logs, repeated, told = _drop_repeated([p for p in job if p.kind == "log"])
    job, rivals, more = _drop_rivals([p for p in job if p.kind == "timeline"])
    roles = {"timeline": "analysed", "log": "log" if job else "analysed"}
    rivals += repeated
    job = _one_name(sorted(job + own_logs, key=lambda p: (p.source, p.part.part)))
    notices += more + told + _others(jobs)
    hosts, windows = _hosts(job), _windows(job)
    placed += [_assign(p, 0, roles[p.kind], hosts, windows) for p in job]
    placed += [_assign(p, 0, "duplicate", hosts, {}) for p in copies + rivals]
    placed += [_assign(p, number, "other-job", {}, {}) for number, other in enumerate(jobs[1:], 1) for p in other]
    world = manifest.job.world_size or max((p.world_size for p in job if p.world_size), default=None)
    missing = _missing([a.rank for a in placed if a.role == "analysed"], world)
    if missing:
        text = f"{len(missing)} of {world or max(missing) + 1} ranks left no file: {format_ranges(missing)}"
        hint = "collect their traces: a rank that is not seen can be neither blamed nor cleared"
        notices.append(FileNotice("", Notice("missing-ranks", "warning", text, hint)))
    placed.sort(key=lambda a: (a.process.source, a.process.part.part))
    return RankMap(tuple(placed), world, missing, tuple(notices))


def _assign(p: Process, job: int, role: str, hosts: dict[int, tuple[str, str]], windows: dict[tuple[int, int], int]) -> Assignment:
    rank = p.rank if p.rank is not None else -1
    host, origin = hosts.get(rank, (p.host or "unknown", p.host_origin))
    return Assignment(replace(p, host=host, host_origin=origin), job, rank, host, windows.get((p.source, p.part.part), 0), role)
