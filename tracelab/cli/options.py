"""Options that several commands share, defined once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tracelab.run import Run

__all__ = ["CacheDir", "Directory", "Force", "Job", "Jobs", "ManifestFile", "PythonFunctions", "Quiet", "open_directory"]

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory with the traces (or one file).", show_default=False)]
ManifestFile = Annotated[Path | None, typer.Option("--manifest", metavar="FILE", help="Use this instead of DIR/tracelab.toml.")]
CacheDir = Annotated[Path | None, typer.Option("--cache-dir", metavar="FOLDER", help="Where parsed files are kept.", envvar="TRACELAB_CACHE_DIR")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Processes that read files (default: all cores).")]
Job = Annotated[int, typer.Option("--job", min=0, metavar="N", help="Which job to analyse where DIR holds several; 0 is the largest.")]
PythonFunctions = Annotated[bool, typer.Option("--python-functions", help="Also read the events of Python functions.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices on stderr.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output.")]


def open_directory(
    directory: Path,
    *,
    manifest: Path | None = None,
    cache_dir: Path | None = None,
    jobs: int | None = None,
    job: int = 0,
    python_functions: bool = False,
    quiet: bool = False,
) -> Run:
    """Opens a directory with progress on stderr."""
    from tracelab.cli.progress import reading
    from tracelab.run import open_run

    with reading(quiet=quiet) as tell:
        return open_run(directory, manifest=manifest, cache_dir=cache_dir, jobs=jobs, job=job, options={"python_functions": python_functions}, on_progress=tell)
