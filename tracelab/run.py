"""One opened directory: the facade that the command line and notebooks share.

    run = tracelab.open("traces/")
    run.tables["collectives"].collect()
    run.analyze().verdict

Nothing is computed before it is asked for, and nothing twice.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tracelab.align import Aligned, align
from tracelab.analyses import ANALYSES
from tracelab.analysis import Outcome, run_analyses
from tracelab.document import JobFacts, build_result
from tracelab.errors import NoUsableInputError, UnknownNameError
from tracelab.fabric.build import Fabric, Job, Stated, fabric_tables
from tracelab.fabric.samples import Sources
from tracelab.ingest.described import described_tables
from tracelab.ingest.discovery import MANIFEST_NAME, Candidate, discover
from tracelab.ingest.identity import FileNotice, identify
from tracelab.ingest.manifest import FileEntry, Manifest, load_manifest, zone_of
from tracelab.ingest.pipeline import Ingested, OnProgress, Options, ingest
from tracelab.ingest.rankmap import Assignment, RankMap, map_ranks
from tracelab.ingest.scan import notices_frame, scan_fabric, scan_parsed, sources_frame
from tracelab.ingest.store import default_store_path
from tracelab.inspection import Inspection, inspect_job
from tracelab.plugins import Notice
from tracelab.results import Evidence, Price, RunResult
from tracelab.tables import ALIGNED_TABLES, CLOCKS, LINK_TABLES, PARSED_TABLES, RANKS, STEPS, TABLES, TRAFFIC_TABLES
from tracelab.traffic.build import Traffic, traffic_tables

if TYPE_CHECKING:
    import polars as pl

__all__ = ["JobTables", "Run", "open_run"]

_KEEP = FileEntry()


class JobTables(Mapping[str, "pl.LazyFrame"]):
    """All tables of the analysed job by name, on one clock. `name in tables` tells whether a table has rows."""

    def __init__(self, frames: Mapping[str, pl.LazyFrame], paths: Sequence[str]) -> None:
        self._frames, self._paths = frames, paths
        self._filled: dict[str, bool] = {}
        self.memo: dict[str, object] = {}

    def __getitem__(self, name: str) -> pl.LazyFrame:
        try:
            return self._frames[name]
        except KeyError:
            raise UnknownNameError("table", name, self._frames) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name not in self._frames:
            return False
        if name not in self._filled:
            self._filled[name] = self._frames[name].head(1).collect().height > 0
        return self._filled[name]

    def evidence(self, source_id: int, rank: int | None, source_ts_ns: int | None, ts_ns: int | None, text: str) -> Evidence:
        """A pointer into a source file."""
        return Evidence(self._paths[source_id], rank, source_ts_ns, ts_ns, text)


class Run:
    """A directory whose files were recognised and read. See `open_run`."""

    def __init__(self, root: Path, manifest: Manifest, candidates: Sequence[Candidate], ingested: Sequence[Ingested], job: int) -> None:
        self.root, self.manifest = root, manifest
        self.candidates, self.ingested = tuple(candidates), tuple(ingested)
        processes, self._identity_notices = identify(ingested, manifest)
        self._identity_notices += self._unused_manifest_entries()
        self.rank_map: RankMap = map_ranks(processes, manifest, job)

    def __repr__(self) -> str:
        used = len({a.process.source for a in self.rank_map.used})
        return (
            f"<tracelab.Run {str(self.root)!r}: {len(self.rank_map.ranks)} of {self.rank_map.world_size or '?'} ranks, {used} of {len(self.candidates)} files>"
        )

    def _unused_manifest_entries(self) -> list[FileNotice]:
        named = {*self.manifest.files, *self.manifest.tables}
        absent = sorted(named - {c.name for c in self.candidates}) if self.root.is_dir() else []
        hint = "paths are relative to the directory, with / between folders"
        return [FileNotice(name, Notice("manifest-names-no-file", "warning", "the manifest names a file that is not there", hint)) for name in absent]

    @property
    def name(self) -> str:
        """The job's name: from the manifest, else that of the directory."""
        return self.manifest.job.name or self.root.resolve().name

    @cached_property
    def hosts(self) -> dict[int, str]:
        """Host by rank, of all ranks that a capture or a log names."""
        return self.rank_map.hosts

    @property
    def _clocked(self) -> dict[int, str]:
        """Host by rank, of the hosts whose captures can be put on one clock: a host that only logs name has no clock to align."""
        captured = {a.host for a in self.rank_map.analysed}
        return {rank: host for rank, host in self.hosts.items() if host in captured}

    @cached_property
    def aligned(self) -> Aligned:
        """Clocks, steps, matched collectives. Raises `NoUsableInputError` where no file could be used."""
        if not self.rank_map.used:
            raise NoUsableInputError(f"nothing in {self.root} can be analysed", hint=self.what_was_found())
        return align(scan_parsed(self.ingested, self.rank_map), self._clocked, self.rank_map.world_size)

    @cached_property
    def traffic(self) -> Traffic:
        """Communicators, edges, operations and bytes of the job, from its logs and captures together."""
        return traffic_tables(scan_parsed(self.ingested, self.rank_map), self.aligned.derived, self.hosts, self.rank_map.world_size)

    @cached_property
    def fabric(self) -> Fabric:
        """Counters and wiring of the job's network."""
        import polars as pl

        paths = [i.candidate.name for i in self.ingested]
        hosts = {a.process.source: a.host for a in self.rank_map.used}
        zones = {n: zone for n, path in enumerate(paths) if (zone := zone_of(self.manifest.files.get(path, _KEEP).zone or "")) is not None}
        sources = Sources(paths, [i.candidate.parser or "" for i in self.ingested], hosts, zones)
        parsed = scan_parsed(self.ingested, self.rank_map)
        steps, edges = self.aligned.derived["steps"], self.traffic.frames["edges"]
        window = (int(steps["start_ns"].min()), int(steps["end_ns"].max())) if steps.height else None  # type: ignore[arg-type]
        placed = [(rank, mine[0].host, self._device_of(rank, mine[0])) for rank, mine in self.rank_map.by_rank.items()]
        ranks = pl.DataFrame(placed, schema={"rank": pl.Int32, "host": pl.String, "device": pl.Int32}, orient="row")
        job = Job(ranks, self.aligned.clocks, edges, parsed["net_devices"].collect(engine="streaming"), window)
        speed = self.manifest.network.link_gbps
        nics = {rank: entry.nic for rank, entry in self.manifest.ranks.items() if entry.nic}
        stated = Stated(self.manifest.hosts, round(speed * 1e9) if speed is not None else None, nics)
        return fabric_tables(scan_fabric(self.ingested, self.rank_map), sources, job, stated)

    def _device_of(self, rank: int, first: Assignment) -> int | None:
        """The rank's GPU on its host: from the manifest, else as its file states it."""
        override = self.manifest.ranks.get(rank)
        return override.device if override is not None and override.device is not None else first.process.part.device

    @cached_property
    def tables(self) -> JobTables:
        """All tables, on the aligned clock."""
        parsed = scan_parsed(self.ingested, self.rank_map)
        frames: dict[str, pl.LazyFrame] = {"sources": self.sources.lazy(), "notices": notices_frame(self.notices).lazy(), "ranks": self.ranks.lazy()}
        frames |= {spec.name: self.aligned.to_aligned(parsed[spec.name]) if "ts_ns" in spec.names else parsed[spec.name] for spec in PARSED_TABLES}
        frames |= {spec.name: self.aligned.derived[spec.name].lazy() for spec in ALIGNED_TABLES}
        frames |= {spec.name: self.traffic.frames[spec.name].lazy() for spec in TRAFFIC_TABLES}
        frames |= scan_fabric(self.ingested, self.rank_map)
        frames |= {spec.name: self.fabric.frames[spec.name].lazy() for spec in LINK_TABLES}
        frames["steps"] = self.steps.lazy()
        return JobTables({name: frames[name] for name in TABLES}, [i.candidate.name for i in self.ingested])

    @cached_property
    def sources(self) -> pl.DataFrame:
        """The table `sources`: every process of every file that was read."""
        return sources_frame(self.ingested, self.rank_map)

    @cached_property
    def notices(self) -> tuple[FileNotice, ...]:
        """Everything that could not be read or trusted: of files in order, of the rank map, of the alignment."""
        found: list[FileNotice] = [FileNotice(c.name, c.notice) for c in self.candidates if c.notice is not None and not c.ignored]
        for item in self.ingested:
            of_file = [item.notice] if item.notice is not None else []
            of_file += item.source.notices if item.source is not None else []
            found += [FileNotice(item.candidate.name, n) for n in of_file]
        found += [*self._identity_notices, *self.rank_map.notices]
        if self.rank_map.used:
            found += [FileNotice("", n) for n in (*self.aligned.notices, *self.traffic.notices, *self.fabric.notices)]
        return tuple(found)

    @cached_property
    def ranks(self) -> pl.DataFrame:
        """The table `ranks` of the analysed job."""
        import polars as pl

        counts = Counter(n.path for n in self.notices)
        rows = [self._rank_row(rank, mine, counts) for rank, mine in self.rank_map.by_rank.items()]
        frame = pl.DataFrame(rows, schema=RANKS.polars, orient="row")
        for column in ("start_ns", "end_ns"):
            times = frame.lazy().select("rank", source_ts_ns=column, ts_ns=column)
            frame = frame.with_columns(self.aligned.to_aligned(times).collect()["ts_ns"].alias(column))
        return RANKS.conform(frame)

    def _rank_row(self, rank: int, mine: Sequence[Assignment], notices: Counter[str]) -> dict[str, object]:
        """A row of `ranks`, with times in the host's own clock."""
        paths = list(dict.fromkeys(a.process.name for a in mine))
        spans = [a.process.span for a in mine if a.process.span is not None]
        stored = [s for a in mine if (s := self.ingested[a.process.source].source) is not None]
        part = mine[0].process.part
        return {
            "rank": rank,
            "host": mine[0].host,
            "device": self._device_of(rank, mine[0]),
            "gpu": part.gpu,
            "pid": part.pid,
            "sources": "\n".join(paths),
            "windows": len(mine),
            "start_ns": min((s[0] for s in spans), default=None),
            "end_ns": max((s[1] for s in spans), default=None),
            "orphan_gpu_events": sum(n.count for s in stored for n in s.notices if n.code == "orphan-gpu-events"),
            "truncated": any(s.info.truncated for s in stored),
            "notices": sum(notices[p] for p in paths),
        }

    @cached_property
    def steps(self) -> pl.DataFrame:
        """The table `steps`, without those that the manifest skips."""
        import polars as pl

        return self.aligned.derived["steps"].filter(~pl.col("step").is_in(self.manifest.steps.skip))

    @cached_property
    def facts(self) -> JobFacts:
        """What is known of the job before any analysis; empty frames where no file could be used."""
        frames = {"ranks": RANKS.empty(), "steps": STEPS.empty(), "clocks": CLOCKS.empty()}
        tables: Mapping[str, pl.LazyFrame] = {}
        if self.rank_map.used:
            frames = {"ranks": self.ranks, "steps": self.steps, "clocks": self.aligned.clocks}
            tables = self.tables
        cost = self.manifest.cost
        price = Price(cost.per_gpu_hour, cost.currency) if cost.per_gpu_hour is not None else None
        return JobFacts(self.name, self.rank_map, self.candidates, self.ingested, self.notices, **frames, tables=tables, price=price)

    def inspect(self) -> Inspection:
        """What the directory holds, also where nothing of it can be analysed."""
        return inspect_job(self.facts)

    def outcomes(self, params: Mapping[str, object] | None = None, *, raise_errors: bool = False) -> list[Outcome]:
        """Every analysis with its status and typed result."""
        known = {a.id for a in ANALYSES}
        for name in params or {}:
            if name not in known:
                raise UnknownNameError("analysis", name, known)
        return run_analyses(ANALYSES, self.tables, params, raise_errors=raise_errors)

    def analyze(self, params: Mapping[str, object] | None = None, *, raise_errors: bool = False) -> RunResult:
        """The whole result document. Raises `NoUsableInputError` where no file could be used."""
        return build_result(self.facts, self.outcomes(params, raise_errors=raise_errors))

    def what_was_found(self) -> str:
        """What lies in the directory, for when nothing of it can be analysed."""
        if not self.candidates:
            return "the directory is empty"
        kinds: dict[str, list[str]] = {}
        for c in self.candidates:
            if c.parser is None and c.companion_of is None:
                kinds.setdefault(c.looks_like, []).append(c.name)
        for item in self.ingested:
            if item.kind == "fabric" and item.source is not None:
                kinds.setdefault("counters or wiring of machines, which tell of no job", []).append(item.candidate.name)
        failed = sum(i.source is None for i in self.ingested)
        order = sorted(kinds.items(), key=lambda kv: (-len(kv[1]), kv[0]))[:8]
        found = [f"{len(names)} × {kind} ({names[0]}{', …' if len(names) > 1 else ''})" for kind, names in order]
        if failed:
            found.insert(0, f"{failed} recognised but unreadable")
        return "found instead: " + "; ".join(found or ["files without a single usable event"])


def open_run(
    path: str | Path,
    *,
    manifest: str | Path | None = None,
    cache_dir: str | Path | None = None,
    jobs: int | None = None,
    job: int = 0,
    options: Options | None = None,
    on_progress: OnProgress | None = None,
) -> Run:
    """Recognises and reads the files in a directory (or one file).

    `manifest` replaces `tracelab.toml` in the directory; `cache_dir` the user's cache; `jobs` is the number of
    processes; `job` the number of the job to analyse where there are several (0: the largest); `options` go to the
    parsers (`python_functions`). Raises `UsageError` for wrong arguments; files that cannot be read become notices.
    """
    root = Path(path)
    folder = root if os.path.isdir(root) else root.parent  # noqa: PTH112  # unlike is_dir, never raises
    settings = load_manifest(folder, Path(manifest) if manifest is not None else None)
    described = described_tables(settings, Path(manifest) if manifest is not None else folder / MANIFEST_NAME)
    formats = dict.fromkeys(settings.tables, described.reader)
    formats |= {name: f.format for name, f in settings.files.items() if f.format is not None}
    candidates = discover(root, formats)
    candidates = [replace(c, parser=None, ignored=True) if settings.files.get(c.name, _KEEP).ignore else c for c in candidates]
    store = Path(cache_dir) if cache_dir is not None else default_store_path()
    ingested = ingest(candidates, store, options=options, of_files=described.options, jobs=jobs, on_progress=on_progress)
    return Run(root, settings, candidates, ingested, job)
