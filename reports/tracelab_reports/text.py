"""The same as on a terminal, as plain text."""

from __future__ import annotations

import io

from tracelab.results import RunResult

__all__ = ["REPORTER", "TextReporter"]

_WIDTH = 80


class TextReporter:
    """Verdict and findings in 80 columns."""

    name = "text"
    suffixes: tuple[str, ...] = (".txt",)

    def render(self, result: RunResult) -> str:
        """The text, with no escape sequence in it."""
        from rich.console import Console

        from tracelab_reports.terminal import print_result

        out = io.StringIO()
        console = Console(file=out, width=_WIDTH, color_system=None, force_terminal=False, legacy_windows=False, _environ={})
        print_result(result, console)
        return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


REPORTER = TextReporter()
