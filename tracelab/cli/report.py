"""`tracelab report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracelab.cli.analyze import reporter_for
from tracelab.cli.console import check_target, say, write_text
from tracelab.cli.options import Force
from tracelab.errors import UsageError

__all__ = ["report"]


def report(
    result: Annotated[Path, typer.Argument(metavar="RESULT.json", help="What `tracelab analyze DIR --json FILE` wrote.", show_default=False)],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The suffix says which report: .html, .md, .txt", show_default=False)],
    force: Force = False,
) -> None:
    """Writes a report again from the findings document alone; the traces are not needed."""
    from tracelab.results import RunResult

    writer = reporter_for(output)
    check_target(output, force=force)
    try:
        data = result.read_bytes()
    except OSError as e:
        raise UsageError(f"{result} cannot be read: {e.strerror}", hint="give the findings document that `tracelab analyze DIR --json FILE` wrote") from e
    write_text(output, writer.render(RunResult.from_json(data)))
    say(f"wrote {output}")
