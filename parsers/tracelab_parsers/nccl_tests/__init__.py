"""JSON reports of nccl-tests (`-J file`): what the same machines reach without a job."""

from __future__ import annotations

from tracelab_parsers.nccl_tests.parser import PARSER, NcclTestsParser

__all__ = ["PARSER", "NcclTestsParser"]
