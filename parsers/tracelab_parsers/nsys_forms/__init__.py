"""Captures of Nsight Systems in other forms than SQLite: Parquet and Arrow directories, JSON lines, reports as CSV or Parquet, and reports to be exported."""

from __future__ import annotations

from tracelab_parsers.nsys_forms.parsers import FOLDER, LINES, RECIPE, REPORT, STATS

__all__ = ["FOLDER", "LINES", "RECIPE", "REPORT", "STATS"]
