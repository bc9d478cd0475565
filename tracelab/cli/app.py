"""Assembles the commands and turns errors into one line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tracelab import __version__
from tracelab.cli import analyze, doctor, export, inspect, report, schema, simulate
from tracelab.cli.console import fail, finish, forgiving
from tracelab.errors import EXIT_FAULT, TracelabError

__all__ = ["app", "main"]

app = typer.Typer(
    name="tracelab",
    help="What cost a distributed training job its time, where, and how sure that is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("analyze")(analyze.analyze)
app.command("inspect")(inspect.inspect)
app.command("export")(export.export)
app.command("report")(report.report)
app.command("simulate")(simulate.simulate)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tracelab {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours (as does the environment variable NO_COLOR).")] = False,
) -> None:
    del version  # its callback has done all
    if no_color:
        os.environ["NO_COLOR"] = "1"


def main() -> None:
    """Runs the command line; the exit codes are those of `tracelab.errors`."""
    # The matrices are small, and threads of linear algebra stand in each other's way on busy cores; read when numpy is loaded, later.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.stdout, sys.stderr = forgiving(sys.stdout), forgiving(sys.stderr)
    try:
        try:
            app()
        finally:
            finish(sys.stdout)
    except TracelabError as e:
        fail(e.message, e.hint)
        sys.exit(e.exit_code)
    except BaseException as e:
        # Polars' panics are no Exception, and must not end with the interpreter's own code, 1, which means findings
        if not isinstance(e, Exception) and type(e).__name__ != "PanicException":
            raise
        if os.environ.get("TRACELAB_DEBUG"):
            raise
        fail(f"a fault of tracelab: {type(e).__name__}: {e}", "set TRACELAB_DEBUG=1 to see where, and report it with the output of `tracelab doctor`")
        sys.exit(EXIT_FAULT)
