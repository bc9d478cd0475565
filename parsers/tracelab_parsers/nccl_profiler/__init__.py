"""Dumps of the profiler plugin that NCCL brings as an example since 2.23 (`NCCL_PROFILE_DUMP_FILE`)."""

from __future__ import annotations

from tracelab_parsers.nccl_profiler.parser import PARSER, NcclProfilerParser

__all__ = ["PARSER", "NcclProfilerParser"]
