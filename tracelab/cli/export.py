"""`tracelab export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelab.cli.console import check_target, say, tell_notices, writing
from tracelab.cli.options import CacheDir, Directory, Force, Job, Jobs, ManifestFile, PythonFunctions, Quiet, open_directory
from tracelab.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["export"]

_CONTROLS = {chr(n): f"\\x{n:02x}" for n in (*range(9), *range(11, 32), 127, *range(128, 160))}
"""Characters that could move a terminal's cursor; tab and line break are quoted as CSV has it."""
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
    import polars as pl

    try:
        with writing(output) as part:
            match output.suffix.lower():
                case ".parquet":
                    frame.sink_parquet(part)
                case ".arrow" | ".feather":
                    frame.sink_ipc(part)
                case ".csv":
                    _flat(frame).sink_csv(part)
                case _:
                    frame.sink_ndjson(part)
    except pl.exceptions.ComputeError as e:  # how Polars reports a full disk
        raise UsageError(f"{output} cannot be written: {e}", hint="give another place with -o") from e


def _flat(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Lists as text, numbers separated by a space, since CSV knows no lists; control characters in names spelled out."""
    import polars as pl

    types = frame.collect_schema()
    lists = [pl.col(n).cast(pl.List(pl.String)).list.join(" ") for n, t in types.items() if isinstance(t, pl.List)]
    texts = [pl.col(n).cast(pl.String) for n, t in types.items() if t in (pl.String, pl.Categorical)]
    return frame.with_columns(*lists, *(t.str.replace_many(_CONTROLS) for t in texts))
