"""Nsight Systems exports: SQLite databases that `nsys export -t sqlite` writes, of schemas 2.9 to 3.28."""

from __future__ import annotations

from tracelab_parsers.nsys.parser import PARSER, NsysSqliteParser

__all__ = ["PARSER", "NsysSqliteParser"]
