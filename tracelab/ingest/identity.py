"""Who each process in each file is: rank, host and world, from the manifest, the content, or the file's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from tracelab.ingest.manifest import FileEntry, Manifest
from tracelab.ingest.names import NameHints, name_hints
from tracelab.ingest.pipeline import Ingested
from tracelab.plugins import Notice, Part, SourceKind

__all__ = ["NEAR_NS", "FileNotice", "Process", "identify"]


MOST_RANKS = 1_000_000
"""No job is larger; a larger number is damage, and believing it would fill the memory with missing ranks."""


NEAR_NS = 600 * 1_000_000_000
"""Captures of one job lie near each other: windows are minutes apart at most, and clocks seconds. A longer pause is
taken as another launch, unless the same process (rank and pid) was seen on both sides of it."""


@dataclass(frozen=True)
class FileNotice:
    """A notice and the file that it is about; an empty `path` stands for the directory."""

    path: str
    notice: Notice


@dataclass(frozen=True)
class Process:
    """One process that a file speaks for, with where its rank and host were taken from (`unknown` where from nowhere).

    `source` numbers the files in the order of their paths; `damaged`: its file is cut short or cannot be trusted.
    `shift_ns` is added to the times of a file whose time base was lost. Times are in the file's own clock. `kind` and
    `format` are those of the parser that read the file.
    """

    source: int
    name: str
    content: str
    part: Part
    events: int
    damaged: bool
    hints: NameHints
    rank: int | None
    rank_origin: str
    host: str | None
    host_origin: str
    shift_ns: int = 0
    kind: SourceKind = "timeline"
    format: str = ""

    @property
    def pid(self) -> int | None:
        """The process' number: from the content, else from a name of the form that its host gives."""
        return self.part.pid if self.part.pid is not None else self.hints.pid

    @property
    def world_size(self) -> int | None:
        """Ranks in the job, as the file states it; None where that cannot be."""
        stated = self.part.world_size
        return stated if stated is not None and 0 < stated <= MOST_RANKS else None

    @property
    def span(self) -> tuple[int, int] | None:
        """First and last moment; None where nothing in the file is timed."""
        if self.part.start_ns is None or self.part.end_ns is None:
            return None
        return self.part.start_ns, self.part.end_ns


def _rank(part: Part, hints: NameHints, entry: FileEntry) -> tuple[int | None, str]:
    if entry.rank is not None:
        return entry.rank, "manifest"
    if part.rank is not None and 0 <= part.rank < MOST_RANKS:
        return part.rank, "content"
    if hints.rank is not None and hints.rank < MOST_RANKS:
        return hints.rank, "name"
    return None, "unknown"


def _host(part: Part, hints: NameHints, entry: FileEntry, manifest: Manifest) -> tuple[str | None, str]:
    if entry.host is not None:
        return manifest.host(entry.host), "manifest"
    if part.host:
        return manifest.host(part.host), "content"
    # a name of the form host_pid.time counts only where its pid is not another one than the content's
    if hints.host is not None and (part.pid is None or hints.pid == part.pid):
        return manifest.host(hints.host), "name"
    return None, "unknown"


def _contradictions(process: Process) -> list[Notice]:
    out = []
    stated, world = process.part.rank, process.world_size
    if process.part.world_size is not None and world is None:
        text = f"the content states a world of {process.part.world_size} ranks, which cannot be; it is taken as not stated"
        out.append(Notice("implausible-world", "warning", text, "set [job] world_size = … in tracelab.toml"))
    if stated is not None and not 0 <= stated < MOST_RANKS:
        text = f"the content states rank {stated}, which cannot be; it is taken as not stated"
        out.append(Notice("implausible-rank", "warning", text, 'set [files."…"] rank = … in tracelab.toml'))
    if process.rank_origin == "content" and process.hints.rank is not None and process.hints.rank != stated:
        text = f"the content says rank {stated}, the name says rank {process.hints.rank}; the content is followed"
        out.append(Notice("contradictory-rank", "warning", text, 'if the name is right, set [files."…"] rank = … in tracelab.toml'))
    if world is not None and process.rank is not None and process.rank >= world:
        out.append(
            Notice("rank-outside-world", "warning", f"rank {process.rank} does not exist in a world of {world}", "check whether the file belongs to this job")
        )
    return out


def identify(ingested: Sequence[Ingested], manifest: Manifest) -> tuple[list[Process], list[FileNotice]]:
    """All processes of the files that were read (but those of machines' counters and wiring), in order of file and part, and what contradicts itself.

    Folders named after a host (seen as the host of another file) name the host of the files in them.
    """
    processes, notices = [], []
    for source, item in enumerate(ingested):
        if item.source is None or item.kind == "fabric":
            continue
        entry = manifest.files.get(item.candidate.name, FileEntry())
        hints = name_hints(item.candidate.name)
        damaged = item.source.info.truncated or any(n.severity == "error" for n in item.source.notices)
        for part in item.source.info.parts:
            rank, rank_origin = _rank(part, hints, entry)
            host, host_origin = _host(part, hints, entry, manifest)
            if rank is not None and rank in manifest.ranks and manifest.ranks[rank].host:
                host, host_origin = manifest.host(manifest.ranks[rank].host), "manifest"
            process = Process(
                source,
                item.candidate.name,
                item.content,
                part,
                item.source.info.events,
                damaged,
                hints,
                rank,
                rank_origin,
                host,
                host_origin,
                kind=item.kind,
                format=item.candidate.parser or "",
            )
            notices += [FileNotice(process.name, n) for n in _contradictions(process)]
            processes.append(process)
    hosts = {p.host for p in processes if p.host}
    named = [replace(p, host=p.hints.folder, host_origin="name") if p.host is None and p.hints.folder in hosts else p for p in processes]
    return _with_time_bases(named, notices), notices


def _with_time_bases(processes: list[Process], notices: list[FileNotice]) -> list[Process]:
    """Files that lost their time base get that of the others of their world, where those agree on one.

    Profilers of one job count from one base: the present rounded down to three months. A base that puts the file more than
    ten minutes beside all others is not believed.
    """
    out = []
    for p in processes:
        bases = {q.part.time_base_ns for q in processes if q.world_size == p.world_size and q.part.time_base_ns is not None and _near(p, q)}
        if not p.part.time_base_lost or p.world_size is None or len(bases) != 1:
            out.append(p)
            continue
        base = bases.pop()
        assert base is not None  # filtered above
        part = msgspec.structs.replace(p.part, start_ns=(p.part.start_ns or 0) + base, end_ns=(p.part.end_ns or 0) + base)
        out.append(replace(p, part=part, shift_ns=base))
        text = "the base of its times was lost with the end of the file; that of the job's other files is used"
        notices.append(
            FileNotice(p.name, Notice("borrowed-time-base", "warning", text, "its times may be three months off if the job ran over a quarter's end"))
        )
    return out


def _near(p: Process, q: Process) -> bool:
    """Whether the base of `q` would put `p` within ten minutes of it."""
    if p.span is None or q.span is None or q.part.time_base_ns is None:
        return False
    start, end = (t + q.part.time_base_ns for t in p.span)
    return start < q.span[1] + NEAR_NS and q.span[0] < end + NEAR_NS
