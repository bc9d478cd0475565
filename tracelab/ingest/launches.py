"""Which logs belong to which job. A log has no capture window and often no time: processes, worlds and folders decide.

A launch is what one start of the job left in files of one format: its processes share the id of their world communicator,
or, where none is printed, their world size, with each rank once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

import msgspec

from tracelab.ingest.identity import NEAR_NS, FileNotice, Process
from tracelab.plugins import Notice

__all__ = ["attach_logs", "fill_in"]

Launch = list[Process]


def short_name(host: str | None) -> str | None:
    """A host's name up to the first dot: libraries print that, profilers the whole."""
    return host.partition(".")[0] if host else None


def fill_in(processes: Sequence[Process]) -> list[Process]:
    """Gives captures and logs of one process (host and pid) the rank, host and world that only one of them states."""
    captures = [p for p in processes if p.kind == "timeline"]
    logs = [p for p in processes if p.kind == "log"]
    of_logs, of_captures = _Known(logs, "log"), _Known(captures, "capture")
    return [(of_logs if p.kind == "timeline" else of_captures).complete(p) for p in processes]


class _Known:
    """Processes by pid, as other files know them."""

    def __init__(self, processes: Iterable[Process], origin: str) -> None:
        self._origin = origin
        self._by_pid: dict[int, list[Process]] = defaultdict(list)
        for p in processes:
            if p.pid is not None:
                self._by_pid[p.pid].append(p)

    def complete(self, p: Process) -> Process:
        """`p` with what it lacks, where all others that can be the same process agree."""
        same = [q for q in self._by_pid.get(p.pid, ()) if _may_be_one(p, q)] if p.pid is not None else []
        if p.rank is None and len(ranks := {(q.rank, q.host) for q in same if q.rank is not None}) == 1:
            p = replace(p, rank=ranks.pop()[0], rank_origin=self._origin)
        if p.host is None and len(hosts := {q.host for q in same if q.host is not None and q.rank == p.rank}) == 1:
            p = replace(p, host=hosts.pop(), host_origin=self._origin)
        if p.rank is not None and p.world_size is None and len(worlds := {q.world_size for q in same if q.rank == p.rank and q.world_size}) == 1:
            p = replace(p, part=msgspec.structs.replace(p.part, world_size=worlds.pop()))
        return p


def _may_be_one(p: Process, q: Process) -> bool:
    hosts = short_name(p.host), short_name(q.host)
    return (None in hosts or hosts[0] == hosts[1]) and (p.rank is None or q.rank is None or p.rank == q.rank)


def _launches(logs: Sequence[Process]) -> list[Launch]:
    """Launches of every format, in the order of their first files."""
    stated: dict[tuple[Hashable, ...], Launch] = defaultdict(list)
    for p in logs:
        if p.part.job:
            stated[p.format, "job", p.part.job].append(p)
        elif p.world_size:
            stated[p.format, "world", p.world_size].append(p)
        else:  # the folder is all that such processes can have in common
            stated[p.format, "folder", PurePosixPath(p.name).parent].append(p)
    out: list[Launch] = []
    for same in stated.values():
        out += _by_turns(same)
    return sorted(out, key=lambda launch: min((p.source, p.part.part) for p in launch))


def _by_turns(processes: Launch) -> list[Launch]:
    """Splits where two processes claim one rank: by folder or by file where that ends it (two jobs' logs), else by turns (a restart).

    By turns, the second process of each rank belongs to the second launch, and so on.
    """
    if not _claimed_twice(processes):
        return [processes]
    depth = max(len(PurePosixPath(p.name).parts) for p in processes)
    for level in range(1, depth + 1):
        parts: dict[tuple[str, ...], Launch] = defaultdict(list)
        for p in processes:
            parts[PurePosixPath(p.name).parts[:level]].append(p)
        whole = level < depth or any(len({p.rank for p in part}) > 1 for part in parts.values())
        if len(parts) > 1 and whole and not any(_claimed_twice(part) for part in parts.values()):
            return list(parts.values())
    turns: dict[int, Launch] = defaultdict(list)
    seen: dict[int, list[Hashable]] = defaultdict(list)
    for p in processes:
        turn = 0
        if p.rank is not None:
            who = _who(p)
            if who not in seen[p.rank]:
                seen[p.rank].append(who)
            turn = seen[p.rank].index(who)
        turns[turn].append(p)
    return list(turns.values())


def _who(p: Process) -> Hashable:
    return (short_name(p.host), p.pid) if p.pid is not None else None


def _claimed_twice(processes: Launch) -> bool:
    """Whether two processes claim one rank."""
    claims: dict[int, set[Hashable]] = defaultdict(set)
    for p in processes:
        if p.rank is not None:
            claims[p.rank].add(_who(p))
    return any(len(c) > 1 for c in claims.values())


def _world(processes: Iterable[Process]) -> int | None:
    return max((p.world_size for p in processes if p.world_size is not None), default=None)


def _shared(launch: Launch, job: Sequence[Process]) -> tuple[int, int]:
    """Processes of the launch that the job has too, by rank and pid; and ranks that another process of the job has."""
    known: dict[int, list[Process]] = defaultdict(list)
    for p in job:
        if p.rank is not None and p.pid is not None:
            known[p.rank].append(p)
    same = other = 0
    for p in launch:
        rivals = known.get(p.rank, ()) if p.rank is not None and p.pid is not None else ()
        if any(p.pid == q.pid and _may_be_one(p, q) for q in rivals):
            same += 1
        elif rivals:
            other += 1
    return same, other


def _apart(launch: Launch, job: Sequence[Process]) -> bool:
    """Whether both are timed and lie further apart than captures of one job do."""
    mine, theirs = ([p.span for p in group if p.span is not None] for group in (launch, job))
    if not mine or not theirs:
        return False
    start, end = min(s[0] for s in mine), max(s[1] for s in mine)
    return start > max(s[1] for s in theirs) + NEAR_NS or end < min(s[0] for s in theirs) - NEAR_NS


def _fits(launch: Launch, job: Sequence[Process]) -> bool:
    """Whether nothing speaks against it: the world's size, the ranks' processes, the time."""
    mine, theirs = _world(launch), _world(job)
    if mine is not None and theirs is not None and mine != theirs:
        return False
    world = theirs or mine
    if world is not None and any(p.rank is not None and p.rank >= world for p in [*launch, *job]):
        return False
    return not _shared(launch, job)[1] and not _apart(launch, job)


def _folder(processes: Iterable[Process]) -> set[str]:
    return {PurePosixPath(p.name).parts[0] if "/" in p.name else "" for p in processes}


def _near(a: Iterable[Process], b: Iterable[Process]) -> bool:
    """Whether the files share a folder; what lies at the top speaks for all below."""
    mine, theirs = _folder(a), _folder(b)
    return bool(mine & theirs) or "" in mine | theirs


def _nameless(p: Process) -> bool:
    """Whether nothing says which process it is: bare lines of a log, an answer of the library's monitor."""
    return p.rank is None and p.pid is None and p.world_size is None


def _homes(launch: Launch, jobs: Sequence[Sequence[Process]]) -> list[int]:
    """Numbers of the jobs that the launch may belong to; one where it is certain."""
    shared = [_shared(launch, job)[0] for job in jobs]
    if max(shared, default=0):
        return [n for n, count in enumerate(shared) if count == max(shared)][:1]
    # Without a stated world on both sides, only the folder ties the two.
    both = [_world(launch) is not None and _world(job) is not None for job in jobs]
    fitting = [n for n, job in enumerate(jobs) if _fits(launch, job) and (both[n] or _near(launch, job))]
    near = [n for n in fitting if _folder(launch) & _folder(jobs[n])]
    return near if len(fitting) > 1 and len(near) == 1 else fitting


def attach_logs(jobs: Sequence[list[Process]], logs: Sequence[Process]) -> tuple[list[list[Process]], list[FileNotice]]:
    """`jobs` with the logs that belong to each, then the launches that only logs show, the largest first.

    A launch belongs to the job with which it shares processes; else to the only one that it fits, if it is the only launch of
    its format that fits it. Nothing is attached by guess: what fits several is a job of its own, and said.
    """
    out, notices = [list(job) for job in jobs], []
    named_files = {p.source for p in logs if not _nameless(p)}
    beside = [p for p in logs if _nameless(p) and p.source in named_files]
    launches = _launches([p for p in logs if p not in beside])
    certain = [launch for launch in launches if any(_shared(launch, job)[0] for job in jobs)]
    loose = [launch for launch in launches if launch not in certain]
    for launch in certain:
        out[_homes(launch, jobs)[0]] += launch
    served = {(n, p.format) for n, job in enumerate(out) for p in job if p.kind == "log"}
    loose.sort(key=lambda launch: (-len({p.rank for p in launch}), -sum(p.events for p in launch)))
    rest = []
    for launch in loose:
        form = launch[0].format
        homes = [n for n in _homes(launch, jobs) if (n, form) not in served or _world(launch) is None]
        alike = [other for other in loose if other[0].format == form and other is not launch and set(_homes(other, jobs)) & set(homes)]
        if len(homes) == 1 and not (alike and _world(launch) is not None):
            out[homes[0]] += launch
            if not all(_nameless(p) for p in launch):
                text = "the log names no process of the captures; it is taken as the job's, whose size it states and whose ranks it does not contradict"
                hint = 'if it is of another job: [files."…"] ignore = true in tracelab.toml'
                notices.append(FileNotice(launch[0].name, Notice("log-by-size", "info", text, hint)))
            continue
        if homes:
            text = f"the log of {len(launch)} processes fits {len(homes)} jobs" if len(homes) > 1 else "logs of several launches fit the job"
            hint = "give the folder of one job alone, with its own log"
            notices.append(FileNotice(launch[0].name, Notice("unplaced-log", "warning", f"{text}, and nothing tells which; it is kept apart", hint)))
        rest.append(launch)
    alone: list[list[Process]] = []
    for launch in rest:
        homes = [n for n, job in enumerate(alone) if _joins(launch, job)]
        if len(homes) == 1:
            alone[homes[0]] += launch
        else:
            alone.append(list(launch))
    out += alone
    for p in beside:
        shares = [sum(q.source == p.source for q in job) for job in out]
        out[shares.index(max(shares))].append(p)
    return [sorted(job, key=lambda p: (p.source, p.part.part)) for job in out], notices


def _joins(launch: Launch, job: Sequence[Process]) -> bool:
    """Whether two logs are of one launch, where no capture tells: of two formats, or one of lines that name no process (bare stderr)."""
    other = launch[0].format not in {p.format for p in job} or any(all(p.pid is None for p in side) for side in (launch, job))
    return other and _fits(launch, job) and _near(launch, job)
