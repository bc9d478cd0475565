"""The command line: one module per command, and the only place that prints."""

from __future__ import annotations

from tracelab.cli.app import main

__all__ = ["main"]
