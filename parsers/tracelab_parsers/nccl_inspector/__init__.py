"""Records of NCCL Inspector, the profiler plugin that comes with NCCL since 2.28: `<host>-pid<pid>.log`, one JSON object a line."""

from __future__ import annotations

from tracelab_parsers.nccl_inspector.parser import PARSER, NcclInspectorParser

__all__ = ["PARSER", "NcclInspectorParser"]
