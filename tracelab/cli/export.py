"""`tracelab export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelab.cli.console import check_target, say, tell_notices
from tracelab.cli.options import CacheDir, Directory, Force, Job, Jobs, ManifestFile, PythonFunctions, Quiet, open_directory
from tracelab.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["export"]

_SUFFIXES = (".parquet", ".arrow", ".feather", ".csv", ".ndjson", ".jsonl")


def export(
    directory: Directory,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Name of the table; `tracelab schema` lists them.", show_default=False)],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=f"Where to; the suffix says what: {', '.join(_SUFFIXES)}", show_default=False)],
    force: Force = False,
    manifest: ManifestFile = None,
    jobs: Jobs = None,
    job: Job = 0,
    cache_dir: CacheDir = None,
    python_functions: PythonFunctions = False,
    quiet: Quiet = False,
) -> None:
    """Writes one table as Parquet, Arrow IPC, CSV or NDJSON, on the aligned clock."""
    from tracelab.tables import table as definition

    definition(table)
    if output.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"the suffix of {output} says no format", hint=f"known suffixes: {', '.join(_SUFFIXES)}")
    check_target(output, force=force)
    run = open_directory(directory, manifest=manifest, cache_dir=cache_dir, jobs=jobs, job=job, python_functions=python_functions, quiet=quiet)
    if not quiet:
        tell_notices(run.notices)
    _sink(run.tables[table], output)
    say(f"wrote {output}")


def _sink(frame: pl.LazyFrame, output: Path) -> None:
    """Streams the table into a part file beside the target, then moves it into place."""
    part = output.with_name(f".{output.name}.part")
    try:
        match output.suffix.lower():
            case ".parquet":
                frame.sink_parquet(part)
            case ".arrow" | ".feather":
                frame.sink_ipc(part)
            case ".csv":
                _flat(frame).sink_csv(part)
            case _:
                frame.sink_ndjson(part)
        part.replace(output)
    except OSError as e:
        raise UsageError(f"{output} cannot be written: {e.strerror or e}", hint="give another place with -o") from e
    finally:
        part.unlink(missing_ok=True)


def _flat(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Lists as text, numbers separated by a space: CSV knows no lists."""
    import polars as pl

    lists = [n for n, t in frame.collect_schema().items() if isinstance(t, pl.List)]
    return frame.with_columns(pl.col(n).cast(pl.List(pl.String)).list.join(" ") for n in lists)
