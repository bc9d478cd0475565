"""`tracelab inspect`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tracelab.cli.console import printable, say, show
from tracelab.cli.options import CacheDir, Directory, Job, Jobs, ManifestFile, Quiet, open_directory
from tracelab.errors import NoUsableInputError
from tracelab.units import format_bytes, format_duration, format_ranges, format_time

if TYPE_CHECKING:
    from tracelab.inspection import Inspection

__all__ = ["inspect"]

_ROWS = 64
"""Ranks, jobs or kinds of file listed before the rest is counted; `--json` holds all."""


def inspect(
    directory: Directory,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the whole as JSON.")] = False,
    manifest: ManifestFile = None,
    jobs: Jobs = None,
    job: Job = 0,
    cache_dir: CacheDir = None,
    quiet: Quiet = False,
) -> None:
    """Shows which files were recognised as what, who is missing, how good the clocks are, and what stays unanswered."""
    run = open_directory(directory, manifest=manifest, cache_dir=cache_dir, jobs=jobs, job=job, quiet=quiet)
    found = run.inspect()
    if json:
        sys.stdout.buffer.write(found.to_json())
    else:
        _print(found)
    if not found.ranks:
        raise NoUsableInputError(f"nothing in {directory} can be analysed", hint=run.what_was_found())


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich.table import Table
    from rich.text import Text

    listed = list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for c in columns:
        table.add_column(c, overflow="fold")
    for row in listed[:_ROWS]:
        table.add_row(*(Text(printable("–" if v is None else str(v))) for v in row))
    show(table)
    if len(listed) > _ROWS:
        say(f"… and {len(listed) - _ROWS} more; --json lists all")


def _files(found: Inspection) -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for i in found.inputs:
        kind = (i.role, i.format or i.note)
        kinds[kind] += 1
        sizes[kind] += i.size_bytes
    say(f"{len(found.inputs)} files")
    order = ("analysed", "log", "network", "other-job", "duplicate", "no-events", "unreadable", "unknown", "companion", "ignored")
    keys = sorted(kinds, key=lambda k: (order.index(k[0]), -kinds[k], k[1]))
    _table(("role", "recognised as", "files", "size"), ((r, k, kinds[r, k], format_bytes(sizes[r, k])) for r, k in keys))


def _time_span(start: int | None, end: int | None) -> tuple[str | None, str | None]:
    if start is None or end is None:
        return None, None
    return format_time(start), format_duration(end - start)


def _jobs(found: Inspection) -> None:
    if len(found.jobs) < 2:
        return
    say(f"\n{len(found.jobs)} jobs: number 0 is analysed; --job N takes another")
    rows = []
    for j in found.jobs:
        more = f" and {len(j.files) - 1} more" if len(j.files) > 1 else ""
        rows.append((j.number, f"{j.ranks} of {j.world_size or '?'}", *_time_span(j.start_ns, j.end_ns), f"{j.files[0]}{more}"))
    _table(("job", "ranks", "start (own clock)", "length", "files"), rows)


def _ranks(found: Inspection) -> None:
    starts = [r.start_ns for r in found.ranks if r.start_ns is not None]
    first = min(starts, default=None)
    seen = f", first seen {format_time(first)} (each host's own clock)" if first is not None else ""
    say(f"\n{len(found.ranks)} of {found.world_size or '?'} ranks{seen}")
    rows = []
    for r in found.ranks:
        start = length = None
        if r.start_ns is not None and r.end_ns is not None and first is not None:
            start, length = f"+{format_duration(r.start_ns - first)}", format_duration(r.end_ns - r.start_ns)
        rows.append((r.rank if r.rank >= 0 else "?", r.host, r.device, r.windows, start, length, r.events, f"{r.rank_origin}, {r.host_origin}"))
    _table(("rank", "host", "GPU", "windows", "start", "length", "events", "rank, host from"), rows)
    if found.missing_ranks:
        say(f"missing: {format_ranges(found.missing_ranks)}")


def _clocks(found: Inspection) -> None:
    say("\nclocks")
    rows = []
    for c in found.clocks:
        within = None if c.uncertainty_ns is None else f"± {format_duration(c.uncertainty_ns)}"
        rows.append((c.host, f"{c.offset_ns / 1000:+.1f} µs", f"{c.drift_ppm:+.3f} ppm", within, c.method, c.grade))
    _table(("host", "added", "drift", "uncertainty", "method", "grade"), rows)


def _print(found: Inspection) -> None:
    _files(found)
    _jobs(found)
    if found.ranks:
        _ranks(found)
        _clocks(found)
    if found.not_observable:
        say("\nwhat these files cannot tell")
        _table(("question", "why", "what to collect"), ((n.question, n.reason, n.collect) for n in found.not_observable))
    _notices(found)


def _notices(found: Inspection) -> None:
    """Errors and warnings one by one, the rest counted by kind. Other jobs stand in their own table already."""
    told = [n for n in found.notices if n.severity != "info" and n.code != "other-job"]
    if told:
        say("\nnotices")
    for n in told[:_ROWS]:
        times = f" ×{n.count}" if n.count > 1 else ""
        say(f"{n.severity}: {n.path or 'directory'}: {n.text}{times}{f' → {n.hint}' if n.hint else ''}")
    if len(told) > _ROWS:
        say(f"… and {len(told) - _ROWS} more; --json lists all")
    rest = Counter(n.text for n in found.notices if n.severity == "info")
    for text, count in rest.most_common(_ROWS):
        say(f"info: {count} file{'s' if count > 1 else ''}: {text}")
