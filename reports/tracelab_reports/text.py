"""The same as on a terminal, as plain text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tracelab.results import RunResult

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["REPORTER", "TextReporter"]

_WIDTH = 80


class TextReporter:
    """Verdict and findings in 80 columns."""

    name = "text"
    suffixes: tuple[str, ...] = (".txt",)

    def show(self, result: RunResult, console: Console) -> None:
        """Prints the same on a terminal, with colours where it has them."""
        from tracelab_reports.terminal import print_result

        print_result(result, console)

    def render(self, result: RunResult) -> str:
        """The text, with no escape sequence in it."""
        from rich.console import Console

        out = io.StringIO()
        console = Console(file=out, width=_WIDTH, color_system=None, force_terminal=False, legacy_windows=False, _environ={})
        self.show(result, console)
        return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


REPORTER = TextReporter()
