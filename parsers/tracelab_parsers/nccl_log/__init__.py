"""Reads logs in which NCCL or RCCL speak, whatever stands around their lines."""

from __future__ import annotations

from tracelab_parsers.nccl_log.parser import PARSER, NcclLogParser

__all__ = ["PARSER", "NcclLogParser"]
