"""How far reading the files is: a bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tracelab.cli.console import stderr
from tracelab.ingest.pipeline import OnProgress, ProgressState
from tracelab.units import format_bytes

__all__ = ["reading"]

_PLAIN_EVERY_S = 10.0


@contextmanager
def reading(*, quiet: bool) -> Iterator[OnProgress | None]:
    """A progress callback for the time of the context."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    else:
        yield _lines()


@contextmanager
def _bar() -> Iterator[OnProgress]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TextColumn("{task.fields[files]}"), TimeRemainingColumn())
    with Progress(*columns, console=stderr(), transient=True) as progress:
        task = progress.add_task("reading", total=None, files="")

        def tell(state: ProgressState) -> None:
            files = f"{state.files_done}/{state.files_total} files"
            progress.update(task, total=state.bytes_total, completed=state.bytes_done, files=files)

        yield tell


def _lines() -> OnProgress:
    began = last = time.monotonic()

    def tell(state: ProgressState) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _PLAIN_EVERY_S:
            return
        last = now
        left = (now - began) * (state.bytes_total - state.bytes_done) / max(1, state.bytes_done)
        done = f"{state.files_done}/{state.files_total} files, {format_bytes(state.bytes_done)} of {format_bytes(state.bytes_total)}"
        stderr().print(f"reading: {done}, about {left:.0f} s left")

    return tell
