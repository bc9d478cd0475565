"""`tracelab analyze`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tracelab.cli.console import check_target, file_faults, say, tell_notices, write_text
from tracelab.cli.options import CacheDir, Directory, Force, Job, Jobs, ManifestFile, PythonFunctions, Quiet, open_directory
from tracelab.errors import EXIT_FINDINGS, IncompleteInputError, PluginError, UsageError

if TYPE_CHECKING:
    from tracelab.plugins import Reporter
    from tracelab.results import RunResult

__all__ = ["analyze"]

Severity = Literal["critical", "major", "minor", "info"]
_OUTPUT = "Report; the suffix says which: .html, .md, .txt. Default: DIR.tracelab.html"


def analyze(
    directory: Directory,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=_OUTPUT)] = None,
    json: Annotated[str | None, typer.Option("--json", metavar="FILE", help="Also write the findings document; - writes it, alone, to stdout.")] = None,
    fail_on: Annotated[Severity | None, typer.Option("--fail-on", help="Exit with 1 on a finding of this severity or a graver one.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 4 when ranks or data are missing.")] = False,
    force: Force = False,
    manifest: ManifestFile = None,
    jobs: Jobs = None,
    job: Job = 0,
    cache_dir: CacheDir = None,
    python_functions: PythonFunctions = False,
    quiet: Quiet = False,
) -> None:
    """Reads DIR, puts all ranks on one clock, finds what cost the time, and writes a report."""
    target = output if output is not None else default_report(directory)
    writer = reporter_for(target)
    check_target(target, force=force or output is None)
    json_file = Path(json) if json is not None and json != "-" else None
    if json_file is not None:
        check_target(json_file, force=force)
        if json_file.absolute() == target.absolute():
            raise UsageError(f"report and findings document would both be {target}", hint="give two names")
    run = open_directory(directory, manifest=manifest, cache_dir=cache_dir, jobs=jobs, job=job, python_functions=python_functions, quiet=quiet)
    if not quiet:
        tell_notices(run.notices)
    result = run.analyze()
    write_text(target, writer.render(result))
    if json_file is not None:
        write_text(json_file, result.to_json())
    _print(result, [target, *([json_file] if json_file else [])], alone=json == "-", quiet=quiet)
    _exit(result, strict=strict, fail_on=fail_on)


def default_report(directory: Path) -> Path:
    """`DIR.tracelab.html`, beside the directory."""
    with file_faults(directory):
        full = Path(os.path.abspath(directory))  # noqa: PTH100  # a link keeps the name that the user gave
    if not full.name:
        raise UsageError(f"{full} has no name to call the report by", hint="give one with -o")
    return full.with_name(f"{full.name}.tracelab.html")


def reporter_for(target: Path) -> Reporter:
    """The reporter that writes files of this suffix."""
    from tracelab.plugins import reporters

    by_suffix: dict[str, Reporter] = {}
    for r in reporters().values():
        for suffix in r.suffixes:
            if suffix in by_suffix:
                raise PluginError(f"two reporters write {suffix}: {by_suffix[suffix].name} and {r.name}", hint="uninstall one of the two packages")
            by_suffix[suffix] = r
    found = by_suffix.get(target.suffix.lower())
    if found is None:
        raise UsageError(f"no report is called {target.suffix or 'a file without a suffix'}: {target}", hint=f"known suffixes: {', '.join(sorted(by_suffix))}")
    return found


def _print(result: RunResult, written: list[Path], *, alone: bool, quiet: bool) -> None:
    import sys

    from tracelab.cli.console import stderr, stdout
    from tracelab.plugins import TerminalReporter, reporter

    if alone:
        sys.stdout.buffer.write(result.to_json())
        if not quiet:
            for path in written:
                stderr().print(f"wrote {path}")
        return
    shown = reporter("text")
    if isinstance(shown, TerminalReporter):
        shown.show(result, stdout())
    for a in result.analyses:
        if a.status == "error":
            say(f"the analysis {a.id!r} failed: {a.reason}")
    for path in written:
        say(f"wrote {path}")


def _exit(result: RunResult, *, strict: bool, fail_on: Severity | None) -> None:
    from tracelab.results import SEVERITIES

    if strict and (lacks := _lacks(result)):
        raise IncompleteInputError(f"the input is incomplete: {'; '.join(lacks)}", hint="the report was written all the same")
    if fail_on is not None and any(SEVERITIES.index(f.severity) <= SEVERITIES.index(fail_on) for f in result.findings):
        raise typer.Exit(EXIT_FINDINGS)


def _lacks(result: RunResult) -> list[str]:
    """What `--strict` objects to."""
    lacks = []
    if result.run.missing_ranks:
        lacks.append(f"{len(result.run.missing_ranks)} rank(s) missing")
    cut = sum(c.truncated for c in result.run.coverage)
    if cut:
        lacks.append(f"files of {cut} rank(s) cut short")
    lost = sum(n.severity == "error" for n in result.notices)
    if lost:
        lacks.append(f"{lost} notice(s) of severity error")
    broken = [a.id for a in result.analyses if a.status == "error"]
    if broken:
        lacks.append(f"analyses that failed: {', '.join(broken)}")
    return lacks
