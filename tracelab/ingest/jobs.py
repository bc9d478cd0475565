"""Which processes belong to one job: a directory may hold several jobs, old windows, and other people's files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from tracelab.ingest.identity import NEAR_NS, Process

__all__ = ["group_jobs", "overlap"]

_DIGITS = re.compile(r"\d+")


def _shape(process: Process) -> str:
    """The folder with all numbers blanked: `rank3/` and `rank4/` are one shape, `jobA/` and `jobB/` are two."""
    return _DIGITS.sub("#", PurePosixPath(process.name).parent.as_posix())


def _start(process: Process) -> int:
    return process.span[0] if process.span else 0


def _bucket(process: Process) -> tuple[Hashable, ...]:
    """What must be equal for two processes to be considered as one job at all."""
    if process.world_size is not None and process.world_size > 1:
        return ("world", process.world_size)
    if process.rank is not None and process.rank_origin != "content":
        return ("named", _shape(process))
    if process.part.start_ns is None:
        return ("untimed", process.name)
    if process.world_size == 1:
        return ("single", process.part.pid, process.host, process.name if process.part.pid is None else "")
    return ("unstated", _shape(process))


def _chains(processes: Sequence[Process], *, overlap: bool) -> list[list[Process]]:
    """Cuts processes, by time, wherever the pause is longer than `NEAR_NS` (with `overlap`: wherever there is one)."""
    chains: list[list[Process]] = []
    reach = 0
    for p in sorted(processes, key=lambda p: (_start(p), p.source, p.part.part)):
        start, end = p.span or (0, 0)
        if not chains or start > reach + (0 if overlap else NEAR_NS):
            chains.append([])
            reach = end
        chains[-1].append(p)
        reach = max(reach, end)
    return chains


def _join_same_process(chains: list[list[Process]]) -> list[list[Process]]:
    """Joins chains in which one process, known by world, rank, host and pid, was captured more than once."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    seen: dict[tuple[Hashable, ...], int] = {}
    edges: list[tuple[int, int]] = []
    for i, chain in enumerate(chains):
        for p in chain:
            if p.rank is not None and p.part.pid is not None:
                first = seen.setdefault((p.world_size, p.rank, p.part.pid, p.host), i)
                edges.append((first, i))
    if not edges:
        return chains
    rows, columns = zip(*edges, strict=True)
    _, labels = connected_components(coo_matrix(([1] * len(edges), (rows, columns)), shape=(len(chains), len(chains))), directed=False)
    joined: dict[int, list[Process]] = defaultdict(list)
    for label, chain in zip(labels.tolist(), chains, strict=True):
        joined[label] += chain
    return list(joined.values())


def overlap(a: Process, b: Process) -> bool:
    """Whether two captures share a moment; untimed ones do when their content is equal."""
    if a.span is None or b.span is None:
        return a.content == b.content
    return a.span[0] < b.span[1] and b.span[0] < a.span[1]


def _in_conflict(processes: Iterable[Process]) -> bool:
    """Whether two different captures claim one rank at one time."""
    by_rank: dict[int, list[Process]] = defaultdict(list)
    for p in processes:
        if p.rank is not None:
            by_rank[p.rank].append(p)
    for same in by_rank.values():
        same.sort(key=_start)
        if any(overlap(a, b) and a.content != b.content for a, b in pairwise(same)):
            return True
    return False


def _split_by_folder(job: list[Process]) -> list[list[Process]]:
    """Two jobs that ran at once lie in two folders: split by the outermost folder that ends all conflicts."""
    if not _in_conflict(job):
        return [job]
    depth = max(len(PurePosixPath(p.name).parts) for p in job)
    for level in range(1, depth):
        parts: dict[tuple[str, ...], list[Process]] = defaultdict(list)
        for p in job:
            parts[PurePosixPath(p.name).parent.parts[:level]].append(p)
        if len(parts) > 1 and not any(_in_conflict(p) for p in parts.values()):
            return list(parts.values())
    return [job]


def _adopt(jobs: list[list[Process]]) -> list[list[Process]]:
    """Gives files that name a rank but state no world to the one job beside them, in folder and time, that lacks those ranks.

    Such are files whose metadata are damaged, or of another profiler.
    """
    stated = [job for job in jobs if any(p.world_size is not None for p in job)]
    rest = []
    for job in (job for job in jobs if not any(p.world_size is not None for p in job)):
        homes = [home for home in stated if _lacks(home, job)]
        if len(homes) == 1:
            homes[0].extend(job)
        else:
            rest.append(job)
    return stated + rest


def _lacks(home: list[Process], job: list[Process]) -> bool:
    world = max(p.world_size for p in home if p.world_size is not None)
    ranks = [p.rank for p in job]
    if any(r is None or r >= world for r in ranks) or {_shape(p) for p in job} - {_shape(p) for p in home}:
        return False
    taken = {p.rank for p in home}
    near = len(_chains([*home, *job], overlap=False)) == len(_chains(home, overlap=False))
    return near and not taken.intersection(ranks)


def _weight(job: Sequence[Process]) -> tuple[int, int, int, str]:
    ranks = len({p.rank if p.rank is not None else -1 - p.source for p in job})
    known = sum(p.rank is not None for p in job)
    return -ranks, -known, -sum(p.events for p in job), min(p.name for p in job)


def group_jobs(processes: Sequence[Process]) -> list[list[Process]]:
    """The jobs, the one with the most ranks (then events) first; within a job by file and part.

    Two processes are one job when their world sizes agree and their captures lie near in time, or when one process
    was captured in both. Without a stated world, equal folder shapes and overlapping (for files that name a rank:
    near) captures are needed. Several jobs at one time are told apart by folder.
    """
    buckets: dict[tuple[Hashable, ...], list[Process]] = defaultdict(list)
    for p in processes:
        buckets[_bucket(p)].append(p)
    jobs: list[list[Process]] = []
    for key, members in sorted(buckets.items(), key=lambda kv: repr(kv[0])):
        jobs += _join_same_process(_chains(members, overlap=key[0] == "unstated"))
    split = _adopt([part for job in jobs for part in _split_by_folder(job)])
    ordered = [sorted(job, key=lambda p: (p.source, p.part.part)) for job in split]
    return sorted(ordered, key=_weight)
