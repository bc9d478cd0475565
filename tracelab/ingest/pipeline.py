"""Candidates to stored sources: hash, look up, parse what is new, in this process or in several.

Every file is on its own: one that cannot be read, or that takes its worker down with it, becomes a notice and the
others go on. The result does not depend on the number of processes or on who finishes first.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelab.errors import TracelabError
from tracelab.ingest.discovery import Candidate
from tracelab.ingest.store import Store, StoredSource, StoreError, entry_name, joint_key
from tracelab.plugins import Notice, Parser, SourceFile, SourceKind, parsers

__all__ = ["Ingested", "Options", "ProgressState", "ingest", "usable_cores"]

Options = Mapping[str, bool | int | str]
_POOL_PAYS_BYTES = 40_000_000
"""Uncompressed bytes to parse below which starting processes costs more than it saves (0.5 s against 100 MB/s)."""
_GZIP_RATIO = 12
"""Traces compress 12 to 17 times; only used to guess the work ahead."""


@dataclass(frozen=True)
class ProgressState:
    """How far ingesting is: files and bytes on disk, done and in all; `cached` files needed no parsing."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    cached: int


Result = StoredSource | Notice
OnProgress = Callable[[ProgressState], None]


@dataclass(frozen=True)
class Ingested:
    """A claimed file, the hash of its content (with its companions), and what the store holds of it; `source` is None where it could not be read."""

    candidate: Candidate
    content: str
    source: StoredSource | None
    notice: Notice | None = None

    @property
    def kind(self) -> SourceKind:
        """What the parser that claims the file reads."""
        return parsers()[self.candidate.parser or ""].kind


@dataclass(frozen=True)
class _Job:
    candidate: Candidate
    content: str
    parser: str
    entry: str
    options: Options


def usable_cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Meter:
    """Adds up progress over files that finish in any order."""

    def __init__(self, on_progress: OnProgress | None, candidates: Sequence[Candidate]) -> None:
        self._tell = on_progress
        self._files, self._bytes = len(candidates), sum(c.total_bytes for c in candidates)
        self._done_files = self._done_bytes = self._cached = 0
        self._partial: dict[str, int] = {}
        self._finished: set[str] = set()

    def partial(self, candidate: Candidate, bytes_read: int) -> None:
        if candidate.name not in self._finished:
            self._partial[candidate.name] = min(bytes_read, candidate.total_bytes)
            self._report()

    def finished(self, candidate: Candidate, *, cached: bool = False) -> None:
        self._partial.pop(candidate.name, None)
        self._finished.add(candidate.name)
        self._done_files += 1
        self._done_bytes += candidate.total_bytes
        self._cached += cached
        self._report()

    def _report(self) -> None:
        if self._tell is not None:
            done = min(self._bytes, self._done_bytes + sum(self._partial.values()))
            self._tell(ProgressState(self._done_files, self._files, done, self._bytes, self._cached))


def _failure(e: BaseException) -> Notice:
    if isinstance(e, (TracelabError, OSError)):
        hint = (e.hint if isinstance(e, TracelabError) else "") or "check the file, or collect it again"
        text = e.message if isinstance(e, TracelabError) else f"{type(e).__name__}: {e.strerror or e}"
        return Notice("unreadable-file", "error", f"the file cannot be read: {text}", hint)
    if isinstance(e, MemoryError):
        return Notice("out-of-memory", "error", "parsing needs more memory than there is", "use fewer processes (--jobs 1) or a larger machine")
    if isinstance(e, BrokenProcessPool):
        return Notice("worker-died", "error", "the process that parsed the file was killed, twice", "often memory: use --jobs 1 or a larger machine")
    text = f"the parser failed: {type(e).__name__}: {str(e)[:200]}"
    return Notice("parser-fault", "error", text, "this is a fault of tracelab: report it with `tracelab doctor`")


def _parse(parser: Parser, job: _Job, store: Store, on_progress: Callable[[int], None] | None) -> StoredSource:
    with store.writer(job.entry, on_progress) as writer:
        info = parser.parse(SourceFile(job.candidate.path, job.candidate.name, job.options), writer)
        return writer.publish(info)


_read_so_far: Any = None
"""In a worker: bytes read per file, in memory shared with the parent. Nobody locks it, so nobody can be left waiting for a
worker that was killed."""


def _start_worker(shared: Any) -> None:
    global _read_so_far  # noqa: PLW0603  # the one way to hand shared memory to the workers of a pool
    _read_so_far = shared


def _work(number: int, job: _Job, store_root: Path) -> StoredSource:
    def tell(bytes_read: int) -> None:
        _read_so_far[number] = bytes_read

    return _parse(parsers()[job.parser], job, Store(store_root), tell)


def _in_process(jobs: Sequence[_Job], store: Store, meter: _Meter) -> dict[str, Result]:
    out: dict[str, Result] = {}
    for job in jobs:
        name = job.candidate.name
        try:
            out[name] = _parse(parsers()[job.parser], job, store, lambda n, job=job: meter.partial(job.candidate, n))  # type: ignore[misc]
        except StoreError:
            raise
        except Exception as e:  # noqa: BLE001  # the boundary of one file: whatever its parser does, the others are read
            out[name] = _failure(e)
        meter.finished(job.candidate)
    return out


def _one_pool(jobs: Sequence[_Job], store_root: Path, workers: int, meter: _Meter, out: dict[str, Result]) -> list[_Job]:
    """Parses in new processes; returns the jobs that a dying process took with it."""
    context = multiprocessing.get_context("spawn")
    shared = context.RawArray("q", len(jobs))
    broken: list[_Job] = []
    with ProcessPoolExecutor(min(workers, len(jobs)), context, _start_worker, (shared,)) as pool:
        waiting: dict[Future[StoredSource], _Job] = {pool.submit(_work, n, j, store_root): j for n, j in enumerate(jobs)}
        while waiting:
            done, _ = wait(waiting, timeout=0.1, return_when="FIRST_COMPLETED")
            for number, job in enumerate(jobs):
                if shared[number]:
                    meter.partial(job.candidate, shared[number])
            for future in done:
                job = waiting.pop(future)
                try:
                    out[job.candidate.name] = future.result()
                except StoreError:
                    pool.shutdown(cancel_futures=True)
                    raise
                except BrokenProcessPool:
                    broken.append(job)
                    continue
                except Exception as e:  # noqa: BLE001  # the boundary of one file
                    out[job.candidate.name] = _failure(e)
                meter.finished(job.candidate)
    return broken


def _in_pool(jobs: Sequence[_Job], store_root: Path, workers: int, meter: _Meter) -> dict[str, Result]:
    out: dict[str, Result] = {}
    # the largest first, so that no single file is left running alone at the end
    rest = sorted(jobs, key=lambda j: (-j.candidate.total_bytes, j.candidate.name))
    for _ in range(2):
        # one worker's death fails all that wait: they are tried together once more, since most are innocent
        rest = _one_pool(rest, store_root, workers, meter, out) if rest else []
    for job in rest:
        if _one_pool([job], store_root, 1, meter, out):
            out[job.candidate.name] = _failure(BrokenProcessPool())
            meter.finished(job.candidate)
    return out


def ingest(
    candidates: Sequence[Candidate],
    store_root: Path,
    *,
    options: Options | None = None,
    of_files: Mapping[str, Options] | None = None,
    jobs: int | None = None,
    on_progress: OnProgress | None = None,
) -> list[Ingested]:
    """Parses the claimed ones of `candidates` that the store does not hold yet; results in the order given.

    `options` hold for all files, `of_files` for single ones, by name. `jobs` is the number of processes (default: usable
    cores). Raises `StoreError` where the store cannot be written.
    """
    options = options or {}
    store = Store(store_root)
    store.prepare()
    claimed = [c for c in candidates if c.parser is not None]
    meter = _Meter(on_progress, claimed)
    workers = max(1, jobs or usable_cores())
    keys, results = _hash(claimed, workers)
    todo: dict[str, _Job] = {}
    same: dict[str, list[Candidate]] = {}
    for c in claimed:
        if c.name in results or c.parser is None:
            meter.finished(c)
            continue
        own = {**options, **(of_files or {}).get(c.name, {})}
        entry = entry_name(keys[c.name], parsers()[c.parser], own)
        same.setdefault(entry, []).append(c)
        found = store.lookup(entry)
        if found is not None:
            results[c.name] = found
            meter.finished(c, cached=True)
        elif entry not in todo:
            todo[entry] = _Job(c, keys[c.name], c.parser, entry, own)
    new = list(todo.values())
    work = sum(j.candidate.total_bytes * (_GZIP_RATIO if j.candidate.gzipped else 1) for j in new)
    alone = workers == 1 or len(new) == 1 or work < _POOL_PAYS_BYTES
    parsed = _in_process(new, store, meter) if alone else _in_pool(new, store_root, workers, meter)
    for entry, job in todo.items():
        for c in same[entry]:
            results[c.name] = parsed[job.candidate.name]
            if c is not job.candidate:
                meter.finished(c, cached=True)
    return [_ingested(c, keys.get(c.name, ""), results[c.name]) for c in claimed]


def _ingested(candidate: Candidate, content: str, result: Result) -> Ingested:
    if isinstance(result, Notice):
        return Ingested(candidate, content, None, result)
    return Ingested(candidate, content, result)


def _hash(claimed: Sequence[Candidate], workers: int) -> tuple[dict[str, str], dict[str, Result]]:
    """Hashes in threads (hashing leaves the interpreter free); files that cannot be read any more become notices."""
    keys: dict[str, str] = {}
    failed: dict[str, Result] = {}
    with ThreadPoolExecutor(workers) as pool:
        for candidate, future in [(c, pool.submit(joint_key, c.path, c.companions, c.companion_root)) for c in claimed]:
            try:
                keys[candidate.name] = future.result()
            except OSError as e:
                failed[candidate.name] = _failure(e)
    return keys, failed
